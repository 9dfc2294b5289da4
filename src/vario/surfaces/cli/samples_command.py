"""`vario samples`: completions in the terminal, by step, group and measure; and a person's marks of them."""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO
from unicodedata import category

from vario.errors import ConfigError, NothingReadable
from vario.rules.base import number
from vario.rules.choice import Choice
from vario.run import Run
from vario.samples import Mark
from vario.sources.marks import WORDS, marks_file, read_marks, write_mark
from vario.sources.sampled import KINDS, ORDERS, SampleOptions
from vario.surfaces.cli.format_options import add_format
from vario.surfaces.cli.wishes import Wishes, add_sample_options, add_source_options, sample_options
from vario.surfaces.privacy import head_of, masked_tokens, shown
from vario.surfaces.spark import sparkline
from vario.verdict import diagnose
from vario.verdict.review import Queued, review_queue

if TYPE_CHECKING:
    from vario.sources.rollouts.browse import Browser, Query, Sample

WIDTH = 80
NAME = re.compile(r"-?\d+/\d+")
"""A completion, as findings name it."""
MOST_SAMPLES = 1_000
"""Completions that one answer carries."""
TOKENS_SHOWN = 60
KEYS = {"g": "good", "b": "bad", "h": "hacked"}


def add_samples(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    one = commands.add_parser(
        "samples",
        help="read the completions of a run, and mark them",
        description="Show completions that lie beside the log of the run at PATH, with what is known of each. Without a wish: "
        "the sampled steps. NAME of a completion: STEP/NUMBER, as findings give it.",
    )
    one.add_argument("path", metavar="PATH")
    one.add_argument("names", nargs="*", metavar="NAME", help="single completions, as in 120/3")
    one.add_argument("--step", metavar="STEP[-STEP]", help="of this step, or of these")
    one.add_argument("--group", metavar="NAME", help="every answer to the prompt of this completion")
    one.add_argument("--finding", metavar="RULE", help="the completions that a finding points to")
    one.add_argument("--by", choices=ORDERS, help="highest first")
    one.add_argument("--lowest", action="store_true", help="with --by: lowest first")
    one.add_argument("--only", dest="kind", choices=KINDS, help="one kind of completion")
    one.add_argument("--eval", action="store_true", dest="evaluation", help="of evaluations")
    one.add_argument("-n", type=int, default=8, metavar="N", help="so many at most (default 8)")
    one.add_argument("--full", action="store_true", help="whole texts, not head and tail")
    one.add_argument("--tokens", action="store_true", help="values by token, where the dump holds them")
    one.add_argument("--no-text", action="store_true", help="measures alone, no prompt and no completion")
    add_format(one, "text for people, json (one object a line) for programs")
    one.add_argument("--review", type=int, nargs="?", const=16, metavar="N", help="mark N completions (default 16)")
    one.add_argument(
        "--mark",
        action="append",
        default=[],
        metavar="NAME=WORD",
        help=f"mark one: {', '.join(WORDS)}; as in 120/3=hacked",
    )
    one.add_argument("--marks", metavar="FILE", help="where marks are kept (default: vario-marks.jsonl beside the run)")
    one.add_argument("--until", type=int, metavar="STEP", help="with --finding: as the run stood at STEP")
    add_source_options(one)
    add_sample_options(one)


def run_samples(options: argparse.Namespace) -> int:
    """Do what was asked; 0 unless nothing can be read.

    Raises:
        VarioError: nothing lies there, or the wish cannot be.
    """
    if options.n < 1 or options.n > MOST_SAMPLES:
        raise ConfigError(f"-n: from 1 to {MOST_SAMPLES}")
    if options.review is not None and not 1 <= options.review <= MOST_SAMPLES:
        raise ConfigError(f"--review: from 1 to {MOST_SAMPLES}")
    if options.review is not None and options.format == "json":
        raise ConfigError("--review asks a person, and has no --json: --mark STEP/NUMBER=good marks without asking")
    wishes = Wishes.of(options, options.path)
    how = sample_options(options, wishes.project)
    needs_counts = options.finding is not None or options.review is not None
    options.count = needs_counts
    run = wishes.apply(wishes.read(options.path, options), options)
    marks = _marks_file(options, run)
    if options.marks:
        run = replace(run, marks=tuple(read_marks(marks)))
    browser = _browser(run, how)
    if options.mark:
        return _mark(options.mark, browser, run, marks, as_json=options.format == "json")
    if options.review is not None:
        return _review(options, browser, run, marks)
    query = _query(options, run, wishes.choice)
    if query is None:
        _overview(options, browser, run)
        return 0
    found = browser.find(query)
    for sample in found:
        print(
            _json(sample, options, browser) if options.format == "json" else _page(sample, options, browser, run.marks)
        )
    if not found and options.format != "json":
        print("no completion is as wished; `vario samples PATH` lists the sampled steps")
    _troubles(browser)
    return 0


def _browser(run: Run, options: SampleOptions) -> Browser:
    try:
        from vario.sources.rollouts.browse import Browser as Opened
    except ImportError as error:
        raise NothingReadable("completions need `pip install 'vario[rollouts]'`") from error
    return Opened.of(run, options)


def _name(text: str, said_in: str) -> tuple[int, int]:
    step, _, place = text.partition("/")
    try:
        return int(step), int(place)
    except ValueError:
        raise ConfigError(f"{said_in} {text}: a completion is STEP/NUMBER, as in 120/3") from None


def _span(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, _, last = text.partition("-")
    try:
        return (int(first), int(last or first))
    except ValueError:
        raise ConfigError(f"--step {text}: a step, or two as in 100-200") from None


def _query(options: argparse.Namespace, run: Run, choice: Choice) -> Query | None:
    """What is wished; None for the list of steps."""
    from vario.sources.rollouts.browse import Query as Wished

    names = tuple(_name(n, "NAME") for n in options.names)
    if options.finding is not None:
        names += _of_finding(options, run, choice)[: options.n]
    like = _name(options.group, "--group") if options.group else None
    if not (names or like or options.step or options.by or options.kind):
        return None
    by = options.by or ("reward" if options.kind and not names else None)
    most = MOST_SAMPLES if like else options.n
    return Wished(_span(options.step), names, like, options.kind, by, options.lowest, options.evaluation, most)


def _of_finding(options: argparse.Namespace, run: Run, choice: Choice) -> tuple[tuple[int, int], ...]:
    diagnosis = diagnose(run.until(options.until) if options.until is not None else run, choice=choice)
    found = (*diagnosis.findings, *(f for f, _ in diagnosis.suppressed))
    every = [f for top in found for f in (top, *top.symptoms)]
    chosen = next((f for f in every if options.finding in (f.name, f.code)), None)
    if chosen is None:
        some = ", ".join(f.name for f in every if f.read is not None) or "none that completions could show"
        raise ConfigError(f"--finding {options.finding}: not found on this run; its findings are {some}")
    if chosen.read is None:
        raise ConfigError(f"--finding {options.finding}: nothing of it shows in completions")
    if options.format != "json":
        print(textwrap.fill(f"{chosen.name}: {chosen.read.what}", WIDTH), end="\n\n")
    return chosen.read.samples


def _overview(options: argparse.Namespace, browser: Browser, run: Run) -> None:
    steps = browser.summaries(evaluation=options.evaluation)
    if options.format == "json":
        for s in steps:
            print(json.dumps({"step": s.step, "completions": s.completions, "groups": s.groups, "reward": s.reward}))
        return
    total = sum(s.completions for s in steps)
    kind = "of evaluations " if options.evaluation else ""
    print(f"{run.path}: {total} completions {kind}of {len(steps)} steps")
    rewards = [s.reward for s in steps if s.reward is not None]
    if rewards:
        print(
            f"  mean reward {sparkline('reward/mean', rewards, 0.0, 40)} {number(rewards[0])} -> {number(rewards[-1])}"
        )
    if run.marks:
        counts = ", ".join(f"{sum(m.word == w for m in run.marks)} {w}" for w in WORDS)
        print(f"  marked by a person: {counts}")
    print(f"\n{'step':>10} {'completions':>12} {'groups':>8} {'mean reward':>12}")
    shown_steps = steps if len(steps) <= 40 else [*steps[:20], *steps[-20:]]
    for place, s in enumerate(shown_steps):
        if len(steps) > 40 and place == 20:
            print(f"{'...':>10}")
        print(f"{s.step:>10} {s.completions:>12} {s.groups:>8} {'' if s.reward is None else number(s.reward):>12}")
    print("\nread some: --step N, --by reward, --only truncated, --finding RULE\nmark some: --review")
    _troubles(browser)


def _troubles(browser: Browser) -> None:
    found = browser.troubles
    for text in dict.fromkeys((*browser.dump.warnings, *found.texts)):
        print(f"vario: {shown(text)}", file=sys.stderr)
    if found.lines:
        print(f"vario: {found.lines} broken lines were left out", file=sys.stderr)


def _measures(sample: Sample) -> list[str]:
    held = sample.measures
    made = [f"{name} {number(held[name])}" for name in ("reward", "advantage") if name in held]
    if "length" in held:
        made.append(f"{held['length']:.0f} tokens")
    elif "estimated length" in held:
        made.append(f"about {held['estimated length']:.0f} tokens")
    elif "size" in held:
        made.append(f"{held['size']:.0f} bytes")
    if held.get("repetition", 0.0) > 0.0:
        made.append(f"{100.0 * held['repetition']:.0f} % of its end in a loop")
    made += ["probably truncated"] if held.get("estimated truncated") == 1.0 else []
    made += [word for word in ("truncated", "garbled", "duplicated", "empty") if held.get(word) == 1.0]
    if sample.source:
        made.append(shown(sample.source))
    return made


def _page(sample: Sample, options: argparse.Namespace, browser: Browser, marks: Sequence[Mark]) -> str:
    mark = next((m.word for m in marks if (m.step, m.number) == (sample.step, sample.number)), None)
    head = "  ".join([sample.name, *_measures(sample), *([f"marked {mark}"] if mark else [])])
    lines = [textwrap.fill(head, WIDTH, subsequent_indent="    ")]
    if sample.components:
        paid = "  ".join(f"{shown(n)} {number(v)}" for n, v in sample.components.items())
        lines.append(textwrap.fill(paid, WIDTH, initial_indent="    ", subsequent_indent="    "))
    if not options.no_text:
        for title, text in (("prompt", sample.prompt), ("completion", sample.completion)):
            lines.append(f"  {title}" if text is not None else f"  {title}: not in the dump")
            for line in shown(text or "", whole=options.full).split("\n"):
                parts = textwrap.wrap(line, WIDTH - 4, drop_whitespace=False, replace_whitespace=False) or [""]
                lines += [f"    {part}" for part in parts]
    if options.tokens:
        lines += _tokens(_columns(browser, sample, text=not options.no_text))
    return "\n".join([*lines, ""])


def _columns(browser: Browser, sample: Sample, *, text: bool) -> dict[str, list[object]]:
    """What is known of each token; its text only where it may be shown."""
    found = browser.tokens(sample)
    return {n: masked_tokens(v) if n == "token" else v for n, v in found.items() if text or n != "token"}


def _tokens(columns: dict[str, list[object]]) -> list[str]:
    """A row a token; where both log-probabilities are known, the tokens that moved most come first."""
    if not columns:
        return ["  values by token: not in the dump"]
    count = max(len(v) for v in columns.values())
    order = list(range(count))
    own, before = columns.get("log-prob"), columns.get("reference")
    if own is not None and before is not None and count > TOKENS_SHOWN:
        pairs = [
            abs(a - b) if isinstance(a, int | float) and isinstance(b, int | float) else 0.0
            for a, b in zip(own, before, strict=False)
        ]
        order = sorted(sorted(range(len(pairs)), key=lambda i: -pairs[i])[:TOKENS_SHOWN])
    lines = ["  " + " ".join(f"{name[:12]:>12}" for name in ("number", *columns))]
    for i in order[:TOKENS_SHOWN]:
        cells = [_cell(values[i]) if i < len(values) else "" for values in columns.values()]
        lines.append("  " + " ".join(f"{cell:>12}" for cell in (str(i), *cells)))
    if count > TOKENS_SHOWN:
        what = "those farthest from the reference" if own is not None and before is not None else "the first"
        lines.append(f"  {TOKENS_SHOWN} of {count} tokens, {what}")
    return lines


def _cell(value: object) -> str:
    if isinstance(value, float):
        return number(value)
    return shown(repr(value) if isinstance(value, str) else str(value)).replace("\n", " ")[:12]


def _json(sample: Sample, options: argparse.Namespace, browser: Browser) -> str:
    made: dict[str, object] = {
        "step": sample.step,
        "number": sample.number,
        "group": str(sample.group),
        "evaluation": sample.evaluation,
        "measures": dict(sample.measures),
        "components": dict(sample.components),
        "source": sample.source,
    }
    if not options.no_text:
        made["prompt"] = None if sample.prompt is None else head_of(sample.prompt)
        made["completion"] = None if sample.completion is None else head_of(sample.completion)
    if options.tokens:
        made["tokens"] = _columns(browser, sample, text=not options.no_text)
    # characters that drive a terminal, or end a line for some readers, are written as JSON writes them
    return "".join(
        c if category(c)[0] != "C" and c not in "\u2028\u2029" else json.dumps(c)[1:-1]
        for c in json.dumps(made, ensure_ascii=False)
    )


def _marks_file(options: argparse.Namespace, run: Run) -> Path | None:
    return Path(options.marks) if options.marks else marks_file(run.path)


def _mark(marks: Sequence[str], browser: Browser, run: Run, path: Path | None, *, as_json: bool) -> int:
    known_at = _last_step(browser, run)
    for item in marks:
        name, separator, word = item.partition("=")
        if not separator or word not in WORDS:
            raise ConfigError(f"--mark {item}: expected STEP/NUMBER=WORD with {', '.join(WORDS)}")
        step, place = _name(name, "--mark")
        sample = browser.find(_single(step, place))[0]
        _keep(path, Mark(step, place, word, sample.measures.get("reward"), known_at))
    print(json.dumps({"marked": len(marks), "path": str(path)}) if as_json else f"{len(marks)} marked in {path}")
    return 0


def _last_step(browser: Browser, run: Run) -> int | None:
    """The last step that anybody could know of when a mark is made."""
    if run.last_step is not None:
        return run.last_step
    return max((s.step for s in browser.summaries()), default=None)  # there is no log


def _single(step: int, place: int) -> Query:
    from vario.sources.rollouts.browse import Query as Wished

    return Wished(names=((step, place),))


def _keep(path: Path | None, mark: Mark) -> None:
    if path is None:
        raise ConfigError("marks of a run at an address need a file of their own: --marks FILE")
    write_mark(path, mark)


def _review(options: argparse.Namespace, browser: Browser, run: Run, path: Path | None) -> int:
    """Show completions one by one, and keep what the person says of each at once."""
    queue = review_queue(run, options.review, {(m.step, m.number) for m in run.marks})
    if not queue:
        print("nothing to mark: no completion with a text was counted, or all are marked")
        return 0
    done = 0
    for place, (one, word) in enumerate(_answers(queue, options, browser, sys.stdin), 1):
        _keep(path, Mark(one.step, one.number, word, one.reward, _last_step(browser, run)))
        done = place
    print(f"\n{done} of {len(queue)} marked" + (f" in {path}" if done else ""))
    if done:
        hacked = sum(m.word == "hacked" for m in read_marks(path))
        print(f"marked hacked so far: {hacked}; `vario diagnose` heeds the marks")
    return 0


def _answers(
    queue: Sequence[Queued], options: argparse.Namespace, browser: Browser, answers: TextIO
) -> Iterator[tuple[Queued, str]]:
    for place, one in enumerate(queue, 1):
        sample = browser.find(_single(one.step, one.number))[0]
        print(f"--- {place} of {len(queue)}, drawn as {one.stratum}")
        print(_page(sample, options, browser, ()))
        while True:
            print("[g]ood, [b]ad, [h]acked, [s]kip, [q]uit? ", end="", flush=True)
            line = answers.readline()
            said = line.strip().lower()[:1]
            if not line or said == "q":
                return
            if said in KEYS:
                yield one, KEYS[said]
            if said in KEYS or said == "s":
                break

"""Mutation testing: which case dies if this line goes? And the lines for which none does.

    python bench/mutants.py [--rules NAME ...] [--stats] [--seeds 5] [--workers 2] [--json FILE] [--markdown docs/mutation.md]

A mutant is the source with one small change; it is killed when a test then fails. Changes: a comparison flipped,
`and` and `or` swapped, a part of a condition left out, a condition always true or false (which drops a guard), a named
constant x 1.5 and x 0.67, a sign not yielded, smallest and largest swapped, plus and minus swapped.

*Rules* (all, or those named): a mutant is asked about the rule's own cases (`tests/cases`) and its real logs
(`tests/real`), and is killed when an expectation no longer holds. One that survives is

- `looser`: it fires, or is clear, at other looks; no case says which is right,
- `same`: no case comes by that line, or the line does nothing,
- `severity`: it fires alike but weighs differently, which no case can say,
- `words`: only what is told differs: an onset, a number, a doubt.

*Statistics* (`--stats`): killed by `tests/naive` and `tests/unit/test_stats_rates.py`. A survivor is `looser` where it
differs on a bank of series, else `same`.

What cannot matter is listed in EQUIVALENT, with its reason. Why no ready tool: mutmut (3.8) leaves out decorated
functions, and every rule is one; cosmic-ray starts the test command anew for each of some thousands of mutants. Here
the cases are drawn and their instruments read once a rule, and a mutant costs a fork and a replay: all rules in minutes.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import types
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutator import Fate, Mutant, fates_of, mutants_of
from shared import REPOSITORY, table

from vario.instruments import Look
from vario.rules import RULES, Rule, find_rule
from vario.rules.base import Broken, Clear, Fires, Grave, Outcome, Severity, Unknown
from vario.rules.engine import _Watch, judge
from vario.run import Run
from vario.testing import FIRES_SHARE, draw, read_cases

sys.path.insert(0, str(REPOSITORY))  # the tests are a package of the repository

SEEDS = 5


@dataclass(frozen=True)
class Scene:
    """An expectation of a case, with the looks of a live monitor at each of its runs.

    Attributes:
        name: the case and the step. wanted: fires, clear or unknown.
        misses: runs for which it may fail. heard: outcomes of the rule as it is, by run and look.
    """

    name: str
    wanted: str
    misses: int
    replays: tuple[tuple[Look, ...], ...]
    heard: tuple[tuple[Outcome, ...], ...]


def looks_at(run: Run) -> tuple[Look, ...]:
    """The looks that the engine takes at a run."""
    seen: list[Look] = []

    class Recorder(Rule):
        """A rule that keeps the looks at which it is asked."""

        def judge(self, look: Look) -> Outcome:
            seen.append(look)
            return Clear()

    judge(run, rules=[Recorder("", "recorder", Severity.INFO, lambda: iter(()))])
    return tuple(seen)


def replay(rule: Rule, looks: Iterable[Look]) -> tuple[str, tuple[Outcome, ...]]:
    """What `vario.testing.verdict` says, from looks that were taken before; and the outcome at each of them."""
    watch, outcomes = _Watch(rule), []
    for look in looks:
        outcomes.append(rule.judge(look))
        watch.see(outcomes[-1], look, look.rows, replay=True)
    match outcomes[-1] if outcomes else None:
        case None | Unknown():
            said = "unknown"
        case Broken():
            said = "broken"
        case Fires() if watch.open is not None:
            said = "fires"
        case _:
            said = "clear"
    return said, tuple(outcomes)


def scenes_of(rule: Rule, cases: Path, seeds: int, real: Iterable[Any] = ()) -> list[Scene]:
    """What is expected of a rule by its file of cases and on real logs."""
    runs: list[tuple[str, str, list[Run]]] = []
    for case in read_cases(cases, rule) if cases.exists() else ():
        drawn = [draw(case, seed) for seed in range(seeds)] if not case.known else []
        for step, wanted in case.expects if drawn else ():
            runs.append((f"{case.title}, step {step}", wanted, [run.until(step) for run in drawn]))
    for one in real:
        if one.rule == rule.name and one.path.exists():
            runs.append((f"{one.log}{' with a fault' if one.faults else ''}", one.says, [one.read()]))
    made = []
    for name, wanted, of in runs:
        replays = tuple(looks_at(run) for run in of)
        said = [replay(rule, looks) for looks in replays]
        missed = sum(word != wanted for word, _ in said)
        allowed = len(of) - math.ceil(FIRES_SHARE * len(of)) if wanted == "fires" else 0
        made.append(Scene(name, wanted, max(missed, allowed), replays, tuple(outcomes for _, outcomes in said)))
    return made


def fate_of(rule: Rule, scenes: Sequence[Scene]) -> tuple[str, str]:
    """Whether a rule breaks an expectation (and which), or else in what it differs from the rule as it is."""
    new: list[Outcome] = []
    for scene in scenes:
        missed = 0
        for looks in scene.replays:
            said, outcomes = replay(rule, looks)
            new += outcomes
            missed += said != scene.wanted
            if missed > scene.misses:
                return "killed", scene.name
    old = [outcome for scene in scenes for outcomes in scene.heard for outcome in outcomes]
    if new == old:
        return "same", ""
    if [type(o) for o in new] != [type(o) for o in old]:
        return "looser", ""
    return ("words" if [_grave(o) for o in new] == [_grave(o) for o in old] else "severity"), ""


def _grave(outcome: Outcome) -> list[Any]:
    return [s for s in outcome.signs if isinstance(s, Grave)] if isinstance(outcome, Fires) else []


def rule_fates(source: str, like: Rule, cases: Path, seeds: int, workers: int, real: Iterable[Any] = ()) -> list[Fate]:
    """Try every mutant of a rule's source.

    Args:
        source: the file. like: the rule as it was imported; its name and its module count.
    """
    scenes = scenes_of(_rule_in(ast.parse(source), like), cases, seeds, real)

    def tried(mutant: Mutant) -> tuple[str, str]:
        try:
            mutated = _rule_in(mutant.tree, like)
        except Exception as error:
            return "killed", f"it does not load: {error}"
        return fate_of(mutated, scenes)

    return fates_of(mutants_of(source, like.function.__module__.rpartition(".")[2]), tried, workers)


def _rule_in(tree: ast.Module, like: Rule) -> Rule:
    """The rule of a source, in a module of its own."""
    module = types.ModuleType(like.function.__module__)
    exec(compile(tree, f"<{like.name}>", "exec"), module.__dict__)
    return next(v for v in vars(module).values() if isinstance(v, Rule) and v.name == like.name)


def typed(groups: Sequence[Sequence[Fate]]) -> list[list[Fate]]:
    """The same fates, but where a guard against None went and the type checker sees it."""
    alive = [f for group in groups for f in group if f.fate in ("same", "looser") and "None`" in f.mutant.change]
    with tempfile.TemporaryDirectory() as folder:
        for i, fate in enumerate(alive):
            Path(folder, f"m{i}_.py").write_text(ast.unparse(fate.mutant.tree), "utf-8")
        command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={folder}/cache", folder]
        path = {"MYPYPATH": str(REPOSITORY / "src")}
        said = subprocess.run(command, capture_output=True, text=True, env=os.environ | path, check=False).stdout
    refused = {id(alive[int(i)]) for i in re.findall(r"\bm(\d+)_\.py:\d+: error", said)}
    return [[Fate(f.mutant, "killed", "mypy") if id(f) in refused else f for f in group] for group in groups]


COLUMNS = ("killed", "looser", "same", "severity", "words", "equivalent")
SEEN = ("killed", "looser", "same")
"""Fates of what a case can tell; its killed share is over these."""


def rows(fates: Sequence[Sequence[Fate]]) -> list[list[object]]:
    """One row a file, and the sum."""
    made = []
    for name, of in [*((group[0].mutant.file, group) for group in fates if group), ("all", [f for group in fates for f in group])]:
        count = Counter(f.fate for f in of)
        seen = sum(count[word] for word in SEEN)
        made.append([name, len(of), *(count[word] for word in COLUMNS), f"{100 * count['killed'] / max(seen, 1):.0f} %"])
    return made


HEAD = ("file", "mutants", *COLUMNS, "killed of those that a case can tell")


def survivors(fates: Iterable[Fate]) -> list[str]:
    """A line for each mutant that lives and should not."""
    return [str(f) for f in fates if f.fate not in ("killed", "equivalent", "words")]


def page(parts: dict[str, list[list[Fate]]], seeds: int) -> str:
    """The page for the documentation."""
    lines = ["# Which case dies if this line goes?", "", *(__doc__ or "").split("\n\n", 2)[2].strip().splitlines(), ""]
    lines += [f"Made by `python bench/mutants.py --seeds {seeds} --markdown docs/mutation.md`.", ""]
    for title, fates in parts.items():
        lines += [f"## {title}", "", f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
        lines += [f"| {' | '.join(map(str, row))} |" for row in rows(fates)]
        lines += ["", "Alive:", "", *(f"- {line}" for group in fates for line in survivors(group)), ""]
    return "\n".join(lines)


def main() -> int:
    """Try the mutants and print what lives; the exit code is 0 however many do."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rules", nargs="*", metavar="NAME", help="these rules, or all of them")
    parser.add_argument("--stats", nargs="*", choices=STATS, metavar="FILE", help="the statistics, or these files of them")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="runs drawn of each case")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the fate of every mutant to this file")
    parser.add_argument("--markdown", type=Path, help="write the page to this file")
    asked = parser.parse_args()
    both = asked.rules is None and asked.stats is None
    parts: dict[str, list[list[Fate]]] = {}
    began = time.perf_counter()
    if both or asked.rules is not None:
        from tests.test_real_logs import CASES as REAL  # noqa: N811

        fates = []
        rules = [find_rule(name) for name in asked.rules or ()] or RULES
        sources = [Path(inspect.getsourcefile(rule.function) or "").read_text("utf-8") for rule in rules]
        for rule, source in zip(rules, sources, strict=True):
            cases = REPOSITORY / "tests" / "cases" / f"{rule.name}.md"
            fates.append(rule_fates(source, rule, cases, asked.seeds, asked.workers, REAL))
            _tell(fates[-1])
        parts["Rules"] = typed(fates)
    if both or asked.stats is not None:
        fates = parts["Statistics"] = []
        for group in stats_fates(asked.stats or STATS, asked.workers):
            fates.append(group)
            _tell(group)
    for title, fates in parts.items():
        print(f"\n{title}\n{table(rows(fates), HEAD)}")
    print(f"\n{time.perf_counter() - began:.0f} s")
    if asked.json:
        every = {title: [_row(f) for group in fates for f in group] for title, fates in parts.items()}
        asked.json.write_text(json.dumps(every, indent=1), "utf-8")
    if asked.markdown:
        asked.markdown.write_text(page(parts, asked.seeds), "utf-8")
    return 0


def _tell(fates: Sequence[Fate]) -> None:
    if fates:
        killed = sum(f.fate == "killed" for f in fates)
        print(f"{fates[0].mutant.file}: {killed} of {len(fates)} killed", *survivors(fates), sep="\n  ", flush=True)


def _row(fate: Fate) -> dict[str, Any]:
    m = fate.mutant
    return {"file": m.file, "line": m.line, "function": m.function, "change": m.change, "fate": fate.fate, "by": fate.by}


if __name__ == "__main__":
    sys.exit(main())
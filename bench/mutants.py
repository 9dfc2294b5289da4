"""Which case dies if this line goes? Mutation testing of the rules and the statistics.

    python bench/mutants.py [--rules NAME ...] [--stats FILE ...] [--seeds 5] [--workers 2] [--json FILE] [--markdown docs/mutation.md]

A mutant is a source with one small change (`mutator.py` has them all); it is killed when a test then fails.

*Rules* (all, or those named): a mutant is asked about the rule's own cases (`tests/cases`) and real logs
(`tests/real`), and is killed when an expectation no longer holds, or when mypy sees that a guard against None has
gone. One that survives is

- *looser*: it fires, or is clear, at other looks, and no case says which is right;
- *same*: no case comes by that line, or the line does nothing;
- *severity*: it fires alike and weighs differently, which a case cannot say;
- *words*: only what is told differs: an onset, a number, a doubt;
- *equivalent*: it cannot matter; the table EQUIVALENT says why.

*Statistics* (all, or those files): killed by the tests of `tests/naive` and `tests/unit`; a survivor is *looser* where
it differs on a bank of two hundred series, else *same* (`mutated_stats.py`).

Why no ready tool: mutmut (3.8) leaves out decorated functions, and every rule is one; cosmic-ray starts the test
command anew for each of some thousands of mutants. Here cases are drawn and instruments read once a rule, and a mutant
costs a fork and a replay of the looks: one rule takes seconds, all of them some minutes, the statistics half an hour.
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
NO_POINTS = "no step, no points since: `points_since(None)` is 0"
LONG_ENOUGH = "the rule asks for more points than a shape or a trend needs"
EQUIVALENT: dict[tuple[str, str, str], str] = {
    ("chosen_reward_falls", "chosen_reward_falls", "without `chosen is None`"): "`required` has raised by then",
    ("chosen_reward_grows_without_bound", "chosen_reward_grows_without_bound", "without `settled is not None`"): NO_POINTS,
    ("component_saturated", "component_saturated", "without `since is not None`"): NO_POINTS,
    ("gradient_vanished", "gradient_vanished", "without `since is not None`"): NO_POINTS,
    ("gradient_zero_despite_signal", "gradient_zero_despite_signal", "without `since is not None`"): NO_POINTS,
    ("kl_rises_while_reward_falls", "kl_rises_while_reward_falls", "without `total.shape is None`"): LONG_ENOUGH,
    ("kl_runaway", "kl_runaway", "without `reference.late is not None`"): LONG_ENOUGH,
    ("learning_rate_zero", "learning_rate_zero", "without `since is not None`"): NO_POINTS,
    ("preference_saturated", "preference_saturated", "without `since is not None`"): NO_POINTS,
    ("reward_constant", "reward_constant", "without `since is None`"): NO_POINTS,
    ("reward_function_broke", "reward_function_broke", "without `shift.up`"): "a level above one that is positive is not below a third of it",
    ("reward_grows_without_bound", "_has_ceiling", "without `same is not None`"): NO_POINTS,
    ("rewards_converge", "rewards_converge", "without `margin.shape is None`"): LONG_ENOUGH,
    ("signal_from_shaping_only", "signal_from_shaping_only", "without `since is None`"): "it is None only where no task failed, and then `None in failed` holds",
}  # fmt: skip
"""(file, function, change) -> why it cannot matter."""
FATES = ("killed", "looser", "same", "severity", "words", "equivalent")
SEEN = ("killed", "looser", "same")
"""Fates of what a case can tell: shares are of these."""
HEAD = ("file", "mutants", *FATES, "killed of what a case can tell")


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
    watch = _Watch(rule)
    outcomes: list[Outcome] = []
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
    for case in read_cases(cases, rule):
        drawn = [draw(case, seed) for seed in range(seeds)]
        for step, wanted in () if case.known else case.expects:
            runs.append((f"{case.title}, step {step}", wanted, [run.until(step) for run in drawn]))
    runs += [
        (f"{one.log}{' with a fault' if one.faults else ''}", one.says, [one.read()])
        for one in real
        if one.rule == rule.name and one.path.exists()
    ]
    made = []
    for name, wanted, of in runs:
        replays = tuple(looks_at(run) for run in of)
        heard = [replay(rule, looks) for looks in replays]
        missed = sum(said != wanted for said, _ in heard)
        allowed = len(of) - math.ceil(FIRES_SHARE * len(of)) if wanted == "fires" else 0
        made.append(Scene(name, wanted, max(missed, allowed), replays, tuple(outcomes for _, outcomes in heard)))
    return made


def fate_of(rule: Rule, scenes: Sequence[Scene]) -> tuple[str, str]:
    """Whether a mutated rule breaks an expectation (and which), or else in what it differs."""
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


def _grave(outcome: Outcome) -> list[Grave]:
    return [s for s in outcome.signs if isinstance(s, Grave)] if isinstance(outcome, Fires) else []


def rule_fates(source: str, like: Rule, cases: Path, seeds: int, workers: int, real: Iterable[Any] = ()) -> list[Fate]:
    """Try every mutant of a rule's source; `like` is the rule as it was imported: its name and module count."""
    scenes = scenes_of(_rule_in(ast.parse(source), like), cases, seeds, real)

    def tried(mutant: Mutant) -> tuple[str, str]:
        try:
            mutated = _rule_in(mutant.tree, like)
        except Exception as error:
            return "killed", f"it does not load: {error}"
        return fate_of(mutated, scenes)

    return fates_of(mutants_of(source, like.function.__module__.rpartition(".")[2]), tried, workers)


def _rule_in(tree: ast.Module, like: Rule) -> Rule:
    """The rule of a source, loaded into a module of its own; nothing is written."""
    module = types.ModuleType(like.function.__module__)
    exec(compile(tree, f"<{like.name}>", "exec"), module.__dict__)
    return next(v for v in vars(module).values() if isinstance(v, Rule) and v.name == like.name)


def typed(groups: Sequence[Sequence[Fate]]) -> list[list[Fate]]:
    """The same fates, but where mypy sees that a guard against None has gone: one run of it for all."""
    alive = [f for group in groups for f in group if f.fate in ("same", "looser") and "None`" in f.mutant.change]
    with tempfile.TemporaryDirectory() as folder:
        for i, fate in enumerate(alive):
            Path(folder, f"m{i}_.py").write_text(ast.unparse(fate.mutant.tree), "utf-8")
        command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={folder}/cache", folder]
        path = {"MYPYPATH": str(REPOSITORY / "src")}
        said = subprocess.run(command, capture_output=True, text=True, env=os.environ | path, check=False).stdout
    refused = {id(alive[int(i)]) for i in re.findall(r"\bm(\d+)_\.py:\d+: error", said)}
    return [[Fate(f.mutant, "killed", "mypy") if id(f) in refused else f for f in group] for group in groups]


def excused(fates: Iterable[Fate]) -> list[Fate]:
    """The same fates, but where the table says that the change cannot matter."""
    made = []
    for fate in fates:
        m = fate.mutant
        why = EQUIVALENT.get((m.file, m.function, m.change), "") if fate.fate != "killed" else ""
        made.append(Fate(m, "equivalent", why) if why else fate)
    return made


def rows(groups: Sequence[Sequence[Fate]]) -> list[list[object]]:
    """One row a file, and the sum."""
    made: list[list[object]] = []
    for name, of in [*((g[0].mutant.file, g) for g in groups if g), ("all", [f for g in groups for f in g])]:
        count = Counter(f.fate for f in of)
        seen = max(sum(count[word] for word in SEEN), 1)
        made.append([name, len(of), *(count[word] for word in FATES), f"{100 * count['killed'] / seen:.0f} %"])
    return made


def alive(groups: Iterable[Iterable[Fate]]) -> list[str]:
    """A line for each mutant for which a case is missing."""
    return [str(f) for group in groups for f in group if f.fate in ("looser", "same", "severity")]


def page(parts: dict[str, list[list[Fate]]], command: str) -> str:
    """The page for the documentation."""
    title, _, text = (__doc__ or "").split("\n\n", 2)
    lines = [f"# {title.split('?')[0]}?", "", *text.strip().splitlines(), "", f"Made by `{command}`.", ""]
    for name, groups in parts.items():
        lines += [f"## {name}", "", f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
        lines += [f"| {' | '.join(map(str, row))} |" for row in rows(groups)]
        lines += ["", "Alive:", "", *(f"- {line}" for line in alive(groups)), ""]
    return "\n".join(lines)


def main() -> int:
    """Try the mutants and print what lives; the exit code is 0 however many do."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rules", nargs="*", metavar="NAME", help="the rules, or these of them")
    parser.add_argument("--stats", nargs="*", metavar="FILE", help="the statistics, or these files of them")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="runs drawn of each case")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the fate of every mutant to this file")
    parser.add_argument("--markdown", type=Path, help="write the page to this file")
    asked = parser.parse_args()
    both = asked.rules is None and asked.stats is None
    began = time.perf_counter()
    parts: dict[str, list[list[Fate]]] = {}
    if both or asked.rules is not None:
        from tests.test_real_logs import CASES as REAL

        wanted = [find_rule(name) for name in asked.rules or ()] or RULES
        # read at once: somebody may edit them meanwhile
        sources = [Path(inspect.getsourcefile(rule.function) or "").read_text("utf-8") for rule in wanted]
        groups = []
        for rule, source in zip(wanted, sources, strict=True):
            cases = REPOSITORY / "tests" / "cases" / f"{rule.name}.md"
            groups.append(rule_fates(source, rule, cases, asked.seeds, asked.workers, REAL))
            _progress(rule.name, groups[-1])
        parts["Rules"] = [excused(group) for group in typed(groups)]
    if both or asked.stats is not None:
        import mutated_stats

        groups = []
        for file, fates in mutated_stats.fates(asked.stats or mutated_stats.SOURCES, asked.workers):
            groups.append(excused(fates))
            _progress(file, fates)
        parts["Statistics"] = groups
    for name, groups in parts.items():
        print(f"\n{name}: alive", *alive(groups), sep="\n  ")
        print(f"\n{name}\n{table(rows(groups), HEAD)}")
    print(f"\n{time.perf_counter() - began:.0f} s")
    if asked.json:
        every = {name: [_row(f) for group in groups for f in group] for name, groups in parts.items()}
        asked.json.write_text(json.dumps(every, indent=1), "utf-8")
    if asked.markdown:
        options = [(f"--{n}", getattr(asked, n)) for n in ("rules", "stats") if getattr(asked, n) is not None]
        said = "".join(f" {' '.join([option, *names])}" for option, names in options)
        asked.markdown.write_text(page(parts, f"python bench/mutants.py{said} --markdown docs/mutation.md"), "utf-8")
    return 0


def _progress(name: str, fates: Sequence[Fate]) -> None:
    print(f"{name}: {sum(f.fate == 'killed' for f in fates)} of {len(fates)} killed", file=sys.stderr, flush=True)


def _row(fate: Fate) -> dict[str, Any]:
    m = fate.mutant
    return {"file": m.file, "line": m.line, "function": m.function, "change": m.change, "fate": fate.fate, "by": fate.by}


if __name__ == "__main__":
    sys.exit(main())

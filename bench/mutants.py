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
import copy
import functools
import gc
import importlib
import inspect
import io
import itertools
import json
import math
import multiprocessing
import sys
import time
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
from shared import REPOSITORY, table

from vario.instruments import Look
from vario.rules import RULES, Rule, find_rule
from vario.rules.base import Broken, Clear, Fires, Grave, Outcome, Severity, Unknown
from vario.rules.engine import _Watch, judge
from vario.run import Run
from vario.testing import FIRES_SHARE, draw, read_cases

sys.path.insert(0, str(REPOSITORY))  # the tests are a package of the repository

SEEDS = 5
LIMIT_S = 20.0
"""A mutant that is not done by then hangs, and is killed."""
BIGGER, SMALLER = 1.5, 0.67
SIGNS = frozenset({"Evidence", "Doubt", "Excluded", "Grave", "Aside"})
FLIPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
EXTREMES = {"min": "max", "minimum": "maximum", "argmin": "argmax"}
EXTREMES |= {large: small for small, large in EXTREMES.items()}

EQUIVALENT: dict[tuple[str, str, str], str] = {}
"""(file, function, change) -> why it cannot matter."""


# -- mutants -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """A source with one change. `function` is where, empty for a constant of the module."""

    file: str
    line: int
    function: str
    change: str
    tree: ast.Module

    @property
    def equivalent(self) -> str:
        """Why it cannot matter; empty where it may."""
        return EQUIVALENT.get((self.file, self.function, self.change), "")


Edit = tuple[ast.AST, ast.AST, str]
"""A node, what takes its place, and the change in words."""


def mutants_of(source: str, file: str) -> list[Mutant]:
    """Every mutant of a source, in its order."""
    whole = ast.parse(source)
    found = []
    for function, node in _nodes(whole, ""):
        for old, new, change in _constants(node) if not function else _edits(node):
            # a copy of the tree in which the new node stands for the old one
            tree = ast.fix_missing_locations(copy.deepcopy(whole, {id(old): ast.copy_location(new, old)}))
            found.append(Mutant(file, old.lineno, function, change, tree))
    return found


def _nodes(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    """All nodes with the function they stand in, but for decorators, annotations and texts."""
    yield function, node
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".lstrip(".")
    for name, value in ast.iter_fields(node):
        if name in ("decorator_list", "annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from _nodes(child, function)


def _constants(node: ast.AST) -> Iterator[Edit]:
    """Numbers in the value of a named constant of the module, larger and smaller."""
    match node:
        case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=value) if value:
            names = [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
            if not names or not all(n.isupper() for n in names):
                return
            for number in ast.walk(value):
                if isinstance(number, ast.Constant) and type(number.value) in (int, float):
                    for scaled in _scaled(number.value):
                        yield number, ast.Constant(scaled), f"{', '.join(names)}: {number.value:g} -> {scaled:g}"


def _scaled(value: float) -> tuple[float, ...]:
    if isinstance(value, int):
        return max(value + 1, round(BIGGER * value)), min(value - 1, round(SMALLER * value))
    return (BIGGER * value, SMALLER * value) if value else ()


def _edits(node: ast.AST) -> Iterator[Edit]:
    """Every small change of one node."""
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            for i, op in enumerate(ops):
                flipped = ast.Compare(left, [*ops[:i], FLIPS[type(op)](), *ops[i + 1 :]], others)
                yield _edit(node, flipped)
        case ast.BoolOp(op=op, values=values):
            yield _edit(node, ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))
            for i, one in enumerate(values):
                rest = [*values[:i], *values[i + 1 :]]
                shorter = ast.BoolOp(op, rest) if len(rest) > 1 else rest[0]
                yield node, copy.deepcopy(shorter), f"without `{ast.unparse(one)}`"
        case ast.If(test=test) | ast.IfExp(test=test):
            if not isinstance(node, ast.IfExp) or not (_is_text(node.body) or _is_text(node.orelse)):
                yield _edit(test, ast.Constant(True))
                yield _edit(test, ast.Constant(False))
        case ast.comprehension(ifs=tests):
            for test in tests:
                yield _edit(test, ast.Constant(True))
        case ast.Expr(value=ast.Yield(value=ast.Call(func=ast.Name(id=name)))) if name in SIGNS:
            yield node, ast.Pass(), f"no `yield {name}(...)`"
        case ast.Expr(value=ast.YieldFrom(value=value)):
            yield node, ast.Pass(), f"no `yield from {ast.unparse(value)}`"
        case ast.Call(func=ast.Name(id=name) as called) if name in EXTREMES:
            yield called, ast.Name(EXTREMES[name], ast.Load()), f"{ast.unparse(node)}: {EXTREMES[name]}"
        case ast.Call(func=ast.Attribute(value=of, attr=name) as called) if name in EXTREMES:
            yield called, ast.Attribute(of, EXTREMES[name], ast.Load()), f"{ast.unparse(node)}: {EXTREMES[name]}"
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            if not any(_is_text(side) or isinstance(side, ast.Tuple | ast.List) for side in (left, right)):
                yield _edit(node, ast.BinOp(left, ast.Sub() if isinstance(op, ast.Add) else ast.Add(), right))
        case ast.AugAssign(target=target, op=ast.Add() | ast.Sub() as op, value=value) if not _is_text(value):
            yield _edit(node, ast.AugAssign(target, ast.Sub() if isinstance(op, ast.Add) else ast.Add(), value))
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            yield _edit(node, operand)


def _edit(old: ast.AST, new: ast.AST) -> Edit:
    # copied: a node must not stand twice in a tree
    return old, copy.deepcopy(new), f"`{ast.unparse(old)}` -> `{ast.unparse(new)}`"


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def loaded(mutant: Mutant, name: str) -> types.ModuleType:
    """The mutant as a module; nothing is written."""
    module = types.ModuleType(name)
    exec(compile(mutant.tree, f"<{mutant.file}>", "exec"), module.__dict__)
    return module


@dataclass(frozen=True)
class Fate:
    """What became of a mutant: `killed` (and by which test), or how it survived."""

    file: str
    line: int
    function: str
    change: str
    fate: str
    by: str = ""


def each_apart(jobs: Sequence[Callable[[], Any]], workers: int, limit: float = LIMIT_S) -> list[Any]:
    """The jobs' answers in their order, each from a process of its own; None where it died or was too late."""
    context = multiprocessing.get_context("fork")
    answers: list[Any] = [None] * len(jobs)
    waiting = list(enumerate(jobs))[::-1]
    running: dict[Connection, tuple[int, Any, float]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            place, job = waiting.pop()
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_answer, args=(job, there))
            process.start()
            there.close()
            running[here] = (place, process, time.perf_counter() + limit)
        ready = wait(list(running), max(0.0, min(by for _, _, by in running.values()) - time.perf_counter()))
        for here, (place, process, by) in list(running.items()):
            if here in ready:
                try:
                    answers[place] = here.recv()
                except EOFError:
                    pass
            elif time.perf_counter() < by:
                continue
            process.kill()
            process.join()
            here.close()
            del running[here]
    return answers


def _answer(job: Callable[[], Any], there: Connection) -> None:
    gc.disable()
    warnings.simplefilter("error")  # as pytest does
    with redirect_stdout(io.StringIO()):
        there.send(job())
    there.close()


# -- rules -------------------------------------------------------------------------------------------------------------


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


def rule_fates(
    rule: Rule, cases: Path, seeds: int, workers: int, real: Iterable[Any] = (), source: str | None = None
) -> list[Fate]:
    """Try every mutant of a rule's file."""
    path = Path(inspect.getsourcefile(rule.function) or "")
    scenes = scenes_of(rule, cases, seeds, real)

    def tried(mutant: Mutant) -> tuple[str, str]:
        try:
            module = loaded(mutant, rule.function.__module__)
            mutated = next(v for v in vars(module).values() if isinstance(v, Rule) and v.name == rule.name)
        except Exception as error:
            return "killed", f"it does not load: {error}"
        return fate_of(mutated, scenes)

    mutants = mutants_of(path.read_text("utf-8") if source is None else source, path.stem)
    return _fates(mutants, tried, workers)


def _fates(mutants: Sequence[Mutant], tried: Callable[[Mutant], tuple[str, str]], workers: int) -> list[Fate]:
    gc.collect()
    gc.freeze()  # what the workers share is not copied for the collector's marks
    answers = each_apart([functools.partial(tried, m) for m in mutants], workers)
    gc.unfreeze()
    fates = []
    for mutant, answer in zip(mutants, answers, strict=True):
        fate, by = answer or ("killed", f"not done within {LIMIT_S:g} s")
        if fate != "killed" and mutant.equivalent:
            fate, by = "equivalent", mutant.equivalent
        fates.append(Fate(mutant.file, mutant.line, mutant.function, mutant.change, fate, by))
    return fates


# -- statistics --------------------------------------------------------------------------------------------------------

STATS = ("spread", "student", "noise_floor", "trend", "peak", "shape", "shifts", "forecast")
"""Files of `vario.stats`, each after those that it imports."""
TESTS = ("tests.naive.test_stats_agree", "tests.unit.test_stats_rates")


@dataclass(frozen=True)
class Trial:
    """One call of a test. `calls` are the (file, function) of `vario.stats` that it comes by."""

    module: str
    name: str
    arguments: dict[str, Any]
    calls: frozenset[tuple[str, str]] = frozenset()
    seconds: float = 0.0

    def fails(self) -> bool:
        """Whether the test fails now."""
        try:
            getattr(sys.modules[self.module], self.name)(**self.arguments)
        except Exception:
            return True
        return False

    def __str__(self) -> str:
        values = ", ".join(f"{k} {v}" for k, v in self.arguments.items())
        return f"{self.name}({values})"


def trials() -> list[Trial]:
    """Every call of the statistics' tests, the quick ones first, with what it comes by."""
    made = []
    for module in TESTS:
        importlib.import_module(module)
        for name, function in vars(sys.modules[module]).items():
            if name.startswith("test_"):
                made += [Trial(module, name, arguments) for arguments in _parameters(function)]
    return sorted(map(_traced, made), key=lambda trial: trial.seconds)


def _parameters(function: Callable[..., None]) -> Iterator[dict[str, Any]]:
    """The calls that pytest would make, but for those that are expected to fail."""
    marks = [m.args for m in getattr(function, "pytestmark", ()) if m.name == "parametrize"]
    for chosen in itertools.product(*(values for _, values in marks)):
        arguments: dict[str, Any] = {}
        for (names, _), value in zip(marks, chosen, strict=True):
            names = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
            if getattr(value, "marks", ()):
                break
            value = value.values if hasattr(value, "marks") else value if len(names) > 1 else (value,)
            arguments |= dict(zip(names, value, strict=True))
        else:
            yield arguments


def _traced(trial: Trial) -> Trial:
    calls: set[tuple[str, str]] = set()
    folder = str(REPOSITORY / "src" / "vario" / "stats")

    def note(frame: types.FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            calls.add((Path(frame.f_code.co_filename).stem, frame.f_code.co_qualname.replace(".<locals>", "")))

    _renewed()
    sys.setprofile(note)
    began = time.perf_counter()
    try:
        with redirect_stdout(io.StringIO()):
            failed = trial.fails()
    finally:
        sys.setprofile(None)
    if failed:
        raise SystemExit(f"{trial} fails without a mutant")
    return Trial(trial.module, trial.name, trial.arguments, frozenset(calls), time.perf_counter() - began)


def _renewed(mutant: Mutant | None = None) -> None:
    """Load the statistics and their tests anew, one file as a mutant: no cache and no import holds the old."""
    for file in STATS:
        module = importlib.import_module(f"vario.stats.{file}")
        if mutant is not None and file == mutant.file:
            exec(compile(mutant.tree, f"<{file}>", "exec"), module.__dict__)
        else:
            importlib.reload(module)
    for name in TESTS:
        importlib.reload(sys.modules[name])


def bank() -> list[np.ndarray]:
    """Two hundred series: noise with and without memory, trends, outliers, curves, jumps, spikes, constants."""
    from tests.naive.test_stats_agree import series

    made = [series(seed) for seed in range(100)]
    for seed in range(98):
        rng = np.random.default_rng([7, seed])
        n = int(rng.integers(24, 400))
        t = np.linspace(0.0, 1.0, n)
        curves = (
            np.minimum(t / rng.uniform(0.2, 0.8), 1.0), 1.0 - np.abs(t - 0.5), np.where(t > rng.uniform(0.3, 0.9), 1.0, 0.0),
            np.exp(-4.0 * t), np.maximum(0.0, t - 0.6), np.clip(3.0 * t - 1.0, 0.0, 1.0), 1.0 + 30.0 * (np.arange(n) == n // 2),
        )  # fmt: skip
        made.append(rng.choice([-8.0, 2.0, 8.0]) * curves[seed % len(curves)] + rng.choice([0.0, 0.3, 1.0]) * rng.normal(size=n))
    return [*made, np.zeros(60), np.full(60, 3.0)]


def _told(of: Sequence[np.ndarray]) -> list[str]:
    """What the public functions say about a bank of series, to nine digits."""
    s = {file: sys.modules[f"vario.stats.{file}"] for file in STATS}
    told: list[object] = []
    for i, y in enumerate(of):
        told += [s["spread"].hampel(y), s["spread"].robust_sd(y), s["spread"].memory(y), s["spread"].thin(y, 40)]
        told += [s["spread"].block_medians(y, 8), s["trend"].two_scale(y), s["trend"].between_halves(y)]
        told += [s["peak"].find_peak(y, 1 + i % 9), s["shape"].shape_of(y), s["shifts"].find_shifts(y, from_zero=i % 2 == 0)]
        told += [s["shifts"].find_spikes(np.abs(y), ratio=i % 2 == 0)]
        if i % 20 == 0:
            told.append(s["forecast"].forecast(y, 0.25, ceiling=2.0 * float(y.max()) if i % 40 else None))
        p, dof = (1 + i % 97) / 100.0, 1.0 + 0.7 * i
        told += [s["student"].two_sided_p(4.0 * p, dof), s["student"].critical(p, dof)]
        told += [s["noise_floor"].standard_error(1.0, 1 + i, 2 + i % 7, p), s["noise_floor"].icc_from_zero_share(p, 0.5, 2 + i % 7)]
    return [_plain(one) for one in told]


def _plain(value: Any) -> str:
    if hasattr(value, "__dataclass_fields__"):
        return f"{type(value).__name__}({', '.join(_plain(getattr(value, f)) for f in value.__dataclass_fields__)})"
    if isinstance(value, list | tuple | np.ndarray):
        return f"[{', '.join(map(_plain, value))}]"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def stats_fates(files: Sequence[str], workers: int) -> Iterator[list[Fate]]:
    """Try every mutant of these files of `vario.stats`."""
    tests, series = trials(), bank()
    _renewed()
    told = _told(series)

    def tried(mutant: Mutant) -> tuple[str, str]:
        try:
            _renewed(mutant)
        except Exception as error:
            return "killed", f"it does not load: {error}"
        for trial in tests:
            if any(file == mutant.file and mutant.function in ("", name) for file, name in trial.calls) and trial.fails():
                return "killed", str(trial)
        try:
            return ("same" if _told(series) == told else "looser"), ""
        except Exception as error:
            return "looser", f"{type(error).__name__}: {error}"

    for file in files:
        yield _fates(mutants_of((REPOSITORY / "src" / "vario" / "stats" / f"{file}.py").read_text("utf-8"), file), tried, workers)


# -- what is printed ---------------------------------------------------------------------------------------------------

COLUMNS = ("killed", "looser", "same", "severity", "words", "equivalent")
SEEN = ("killed", "looser", "same")
"""Fates of what a case can tell; its killed share is over these."""


def rows(fates: Sequence[Sequence[Fate]]) -> list[list[object]]:
    """One row a file, and the sum."""
    made = []
    for name, of in [*((group[0].file, group) for group in fates if group), ("all", [f for group in fates for f in group])]:
        count = Counter(f.fate for f in of)
        seen = sum(count[word] for word in SEEN)
        made.append([name, len(of), *(count[word] for word in COLUMNS), f"{100 * count['killed'] / max(seen, 1):.0f} %"])
    return made


HEAD = ("file", "mutants", *COLUMNS, "killed of those that a case can tell")


def survivors(fates: Iterable[Fate]) -> list[str]:
    """A line for each mutant that lives and should not."""
    return [
        f"{f.file}.py:{f.line} {f.function or 'constant'}: {f.change} ({f.fate})"
        for f in fates
        if f.fate not in ("killed", "equivalent", "words")
    ]


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

        fates = parts["Rules"] = []
        for rule in [find_rule(name) for name in asked.rules or ()] or RULES:
            cases = REPOSITORY / "tests" / "cases" / f"{rule.name}.md"
            fates.append(rule_fates(rule, cases, asked.seeds, asked.workers, REAL))
            _tell(fates[-1])
    if both or asked.stats is not None:
        fates = parts["Statistics"] = []
        for group in stats_fates(asked.stats or STATS, asked.workers):
            fates.append(group)
            _tell(group)
    for title, fates in parts.items():
        print(f"\n{title}\n{table(rows(fates), HEAD)}")
    print(f"\n{time.perf_counter() - began:.0f} s")
    if asked.json:
        every = {title: [asdict(f) for group in fates for f in group] for title, fates in parts.items()}
        asked.json.write_text(json.dumps(every, indent=1), "utf-8")
    if asked.markdown:
        asked.markdown.write_text(page(parts, asked.seeds), "utf-8")
    return 0


def _tell(fates: Sequence[Fate]) -> None:
    if fates:
        killed = sum(f.fate == "killed" for f in fates)
        print(f"{fates[0].file}: {killed} of {len(fates)} killed", *survivors(fates), sep="\n  ", flush=True)


if __name__ == "__main__":
    sys.exit(main())

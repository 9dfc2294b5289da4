"""Mutants of `vario.stats`, against the tests in `tests/naive` and `tests/unit` that call it.

A test is run where it comes by the function that was changed; a mutant that no test kills is tried on two hundred
series: where it says something else about one of them, a test is missing.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import itertools
import re
import sys
import time
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np
from mutator import LIMIT_S, Fate, Mutant, fates_of, mutants_of
from shared import REPOSITORY

FOLDER = REPOSITORY / "src" / "vario" / "stats"


def _sources() -> dict[str, str]:
    texts = {path.stem: path.read_text("utf-8") for path in FOLDER.glob("[a-z]*.py")}
    imports = {file: re.findall(r"^from vario\.stats\.(\w+)", text, re.MULTILINE) for file, text in texts.items()}
    return {file: texts[file] for file in TopologicalSorter(imports).static_order()}


SOURCES = _sources()
"""Files of `vario.stats`, each after those that it imports."""
TESTS = [
    f"tests.{path.parent.name}.{path.stem}"
    for folder in ("naive", "unit")
    for path in sorted((REPOSITORY / "tests" / folder).glob("test_*.py"))
    if "vario.stats" in path.read_text("utf-8")
]


@dataclass(frozen=True)
class Trial:
    """One call of a test. `calls` are the (file, function) of `vario.stats` that it comes by."""

    module: str
    name: str
    arguments: dict[str, Any]
    calls: frozenset[tuple[str, str]] = frozenset()
    seconds: float = 0.0

    def comes_by(self, mutant: Mutant) -> bool:
        """Whether it runs what was changed."""
        return any(file == mutant.file and mutant.function in ("", name) for file, name in self.calls)

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
                needs = set(inspect.signature(function).parameters)
                made += [Trial(module, name, one) for one in _parameters(function) if needs <= set(one)]
    return sorted(map(_traced, made), key=lambda trial: trial.seconds)


def _parameters(function: Callable[..., None]) -> Iterator[dict[str, Any]]:
    """The calls that pytest would make, but for those that are expected to fail."""
    if any(m.name != "parametrize" for m in getattr(function, "pytestmark", ())):
        return
    marks = [m.args for m in getattr(function, "pytestmark", ())]
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

    def note(frame: types.FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(FOLDER)):
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
    for file in SOURCES:
        module = importlib.import_module(f"vario.stats.{file}")
        tree = mutant.tree if mutant is not None and mutant.file == file else ast.parse(SOURCES[file])
        exec(compile(tree, str(FOLDER / f"{file}.py"), "exec"), module.__dict__)
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
    s = {file: sys.modules[f"vario.stats.{file}"] for file in SOURCES}
    told: list[object] = []
    for i, y in enumerate(of):
        told += [s["spread"].hampel(y), s["spread"].robust_sd(y), s["spread"].memory(y), s["spread"].thin(y, 40)]
        told += [s["spread"].block_medians(y, 8), s["trend"].two_scale(y), s["trend"].between_halves(y)]
        told += [s["peak"].find_peak(y, 1 + i % 9), s["shape"].shape_of(y), s["shifts"].find_shifts(y, from_zero=i % 2 == 0)]
        told += [s["shifts"].find_spikes(np.abs(y), ratio=i % 2 == 0), s["few"].few_points(y[: 3 + i % 20])]
        told += [s["arrival"].arrival(np.arange(y.size), y, float(y[-1] + (1 - i % 3) * np.ptp(y)))]
        told += [s["departure"].departure(y, of[i - 1]), s["departure"].departure(y, y + np.linspace(-1.0, 1.0, y.size) ** 3)]
        if i % 20 == 0:
            told.append(s["forecast"].forecast(y, 0.25, ceiling=2.0 * float(y.max()) if i % 40 else None))
            told.append(s["laws"].entropy_ceiling(y, np.linspace(2.0, 1.0, y.size)))
            told.append(s["laws"].overoptimisation_peak(np.linspace(0.0, 40.0, y.size), y))
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


def fates(files: Iterable[str], workers: int) -> Iterator[tuple[str, list[Fate]]]:
    """Try every mutant of these files."""
    tests, series = trials(), bank()
    _renewed()
    told = _told(series)

    def tried(mutant: Mutant) -> tuple[str, str]:
        try:
            _renewed(mutant)
        except Exception as error:
            return "killed", f"it does not load: {error}"
        for test in tests:
            if test.comes_by(mutant) and test.fails():
                return "killed", str(test)
        try:
            return ("same" if _told(series) == told else "looser"), ""
        except Exception as error:
            return "looser", f"{type(error).__name__}: {error}"

    for file in files:
        limit = LIMIT_S + 3.0 * sum(test.seconds for test in tests if any(called == file for called, _ in test.calls))
        yield file, fates_of(mutants_of(SOURCES[file], file), tried, workers, limit)

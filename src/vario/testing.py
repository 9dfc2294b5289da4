"""Literate cases: labelled runs as Markdown, drawn with noise that has memory, judged by one rule.

A file `<rule-name>.md` holds `## Title` sections with prose, a run and what is expected of it:

    ```run
    config weight correct 1
    kl/reference: ramp 0.02 to 0.80 over 200, noise 0.02
    reward/mean: hold 0.3 for 100 then gap 20 then hold 0.4 for 80, noise 0.03, memory 0.8
    ```
    ```expect
    step 3: unknown
    step 200: fires
    ```

Segments, chained with `then`: `ramp A to B over N`, `hold A for N`, `gap N` (N rows without a value),
`nan N` (N rows that are not finite). After them, with commas: `noise S` (its standard deviation),
`memory P` (its lag-one correlation, 0.5 where not said), `spike A at N` (the value at step N), `every N`
(logged at every Nth step only), `binary` (a 0/1 reward function: its spread is logged with it).
`config` lines say what the run declares: `weight NAME W`, `knob NAME VALUE`, `event KIND at N`, `budget METRIC most X`,
`baseline METRIC LEVEL SPREAD`, `reference METRIC LOW HIGH`, and the fields of `Declared`.
`reward/mean: weighted sum` adds up the components by their declared weights. A line `known: reason` in
the prose marks a defect that is known: the case is expected to fail, and must be mended when it passes.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from vario.catalogue import lookup
from vario.errors import VarioError
from vario.rules import find_rule
from vario.rules.base import Broken, Fires, Rule, Unknown
from vario.rules.engine import judge
from vario.run import Budget, Declared, Event, Floats, KnobSetting, Level, Run, Series, Setting

SEEDS = 20
FIRES_SHARE = 0.9
MEMORY = 0.5
"""Lag-one correlation of a case's noise: white noise flatters every trend test."""
SAMPLES = 64
"""Completions in a batch of a case, for the spread of 0/1 rewards."""

_NUMBER = r"(-?[\d.]+(?:e-?\d+)?)"
_RAMP = re.compile(rf"ramp {_NUMBER} to {_NUMBER} over (\d+)")
_HOLD = re.compile(rf"hold {_NUMBER} for (\d+)")
_ABSENT = re.compile(r"(gap|nan) (\d+)")
_SPIKE = re.compile(rf"spike {_NUMBER} at (\d+)")
_OPTION = re.compile(rf"(noise|memory|every) {_NUMBER}")
_EXPECT = re.compile(r"step (\d+):\s*(fires|clear|unknown)")
_EVENT = re.compile(r"event (\w+) at (\d+)")


class BadCase(VarioError):
    """A case file that cannot be read: the file, the section and the line are named."""


@dataclass(frozen=True, slots=True)
class Case:
    """One section of a case file.

    Attributes:
        rule: the rule that is asked. known: why the case is expected to fail, empty if it is not.
        run: lines of the run block. expects: (step, verdict) in the file's order.
    """

    path: Path
    title: str
    rule: Rule
    known: str
    run: tuple[str, ...]
    expects: tuple[tuple[int, str], ...]


@dataclass
class _Setup:
    algorithm: str = "grpo"
    declared: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    knobs: dict[str, KnobSetting] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    budgets: tuple[Budget, ...] = ()
    baseline: dict[str, Level] = field(default_factory=dict)
    reference: dict[str, tuple[float, float]] = field(default_factory=dict)


def read_cases(path: Path, rule: Rule | None = None) -> tuple[Case, ...]:
    """Read all sections of a case file.

    Args:
        path: the file; its stem is the rule's name.
        rule: a rule of your own, which the table does not hold.

    Raises:
        BadCase: a section that is not whole, named.
    """
    rule = find_rule(path.stem) if rule is None else rule
    cases = []
    for part in re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        blocks = dict(re.findall(r"^```(run|expect)\n(.*?)^```", body, flags=re.MULTILINE | re.DOTALL))
        if set(blocks) != {"run", "expect"}:
            raise BadCase(f"{path.name}, {title!r}: needs one run block and one expect block")
        expects = []
        for line in _lines(blocks["expect"]):
            found = _EXPECT.fullmatch(line)
            if found is None:
                raise BadCase(f"{path.name}, {title!r}: not an expectation: {line!r}")
            expects.append((int(found[1]), found[2]))
        known = re.search(r"^known: *(.+)$", body, flags=re.MULTILINE)
        run = tuple(_lines(blocks["run"]))
        cases.append(Case(path, title.strip(), rule, known[1] if known else "", run, tuple(expects)))
    return tuple(cases)


def draw(case: Case, seed: int) -> Run:
    """Draw the case's run; the same seed gives the same noise. BadCase names a line that cannot be read."""
    setup, series, total, length = _Setup(), dict[str, Series](), "", 0
    for line in case.run:
        try:
            if line.startswith("config "):
                _configure(setup, line.removeprefix("config ").strip())
                continue
            name, _, words = (word.strip() for word in line.partition(":"))
            if words == "weighted sum":
                total = name
                continue
            values, binary = _values(name, words, np.random.default_rng([seed, zlib.crc32(line.encode())]))
        except (KeyError, ValueError) as error:
            raise BadCase(f"{case.path.name}, {case.title!r}: cannot read {line!r}: {error}") from error
        length = max(length, int(values.size))
        series[name] = _series(name, values)
        if binary:
            p, spread = np.clip(values, 0.0, 1.0), name.removesuffix("mean") + "std"
            std = np.sqrt(SAMPLES / (SAMPLES - 1) * p * (1.0 - p))
            series[spread] = _series(spread, np.where(np.isinf(values), np.inf, std))
    if total:
        series[total] = _sum(total, series, setup.weights)
    return Run(
        path=str(case.path),
        framework="trl",
        algorithm=setup.algorithm,
        series=MappingProxyType(series),
        logged_steps=np.arange(1, length + 1, dtype=np.int64),
        declared=Declared(
            **setup.declared,
            component_weights=MappingProxyType(setup.weights),
            baseline=MappingProxyType(setup.baseline),
            reference=MappingProxyType(setup.reference),
        ),
        budgets=setup.budgets,
        knobs=MappingProxyType(setup.knobs),
        events=setup.events,
    )


def verdict(rule: Rule, run: Run, step: int) -> str:
    """Say what a live monitor would at `step`: fires (it has held, and holds), clear, unknown, or broken."""
    judged = judge(run.until(step), rules=[rule])
    if judged is None or isinstance(outcome := judged.outcomes[rule.name], Unknown):
        return "unknown"
    if isinstance(outcome, Broken):
        return f"broken ({outcome.error})"
    holds = isinstance(outcome, Fires) and any(i.until is None for i in judged.incidents)
    return "fires" if holds else "clear"


def failures(case: Case, seeds: int = SEEDS) -> tuple[str, ...]:
    """List expectations that do not hold: `clear` and `unknown` must for every seed, `fires` for nine in ten."""
    runs = [draw(case, seed) for seed in range(seeds)]
    wrong = []
    for step, wanted in case.expects:
        if step not in runs[0].logged_steps:
            raise BadCase(f"{case.path.name}, {case.title!r}: the run has no step {step}")
        said = Counter(verdict(case.rule, run, step) for run in runs)
        least = FIRES_SHARE * seeds if wanted == "fires" else seeds
        if said[wanted] < least:
            heard = ", ".join(f"{word} {count}" for word, count in said.most_common())
            wrong.append(f"step {step}: expected {wanted}; of {seeds} seeds: {heard}")
    return tuple(wrong)


def _lines(block: str) -> Iterator[str]:
    return (line.strip() for line in block.splitlines() if line.strip())


def _setting(word: str) -> Setting:
    if word in ("true", "false"):
        return word == "true"
    return float(word) if re.fullmatch(_NUMBER, word) else word


def _configure(setup: _Setup, words: str) -> None:
    key, _, rest = words.partition(" ")
    event = _EVENT.fullmatch(words)
    if event is not None:
        setup.events += (Event(event[1], int(event[2]), f"{event[1]} at step {event[2]}"),)
    elif key == "algorithm":
        setup.algorithm = rest
    elif key == "budget":
        metric, *bounds = rest.split()
        setup.budgets += (_budget(metric, bounds),)
    elif key == "baseline":
        metric, level, spread = rest.split()
        setup.baseline[metric] = Level(float(level), float(spread), SAMPLES)
    elif key == "reference":
        metric, low, high = rest.split()
        setup.reference[metric] = (float(low), float(high))
    elif key == "weight":
        setup.weights[rest.split()[0]] = float(rest.split()[1])
    elif key == "knob":
        name, value = rest.split()
        setup.knobs[name] = KnobSetting(name, name, _setting(value))
    elif key in {f.name for f in fields(Declared)} - {"component_weights", "baseline", "reference"}:
        setup.declared[key] = _setting(rest)
    else:
        raise ValueError(f"no such configuration key: {key}")


def _budget(metric: str, words: list[str]) -> Budget:
    """Read `most 0.5`, `least 0.1`, and a unit after either, as in `most 150 nats/sequence`."""
    bounds: dict[str, float] = {}
    unit = None
    while words:
        word = words.pop(0)
        if word in ("most", "least"):
            bounds[word] = float(words.pop(0))
        else:
            unit = word
    return Budget(metric, bounds.get("most"), bounds.get("least"), unit)


def _values(name: str, words: str, rng: np.random.Generator) -> tuple[Floats, bool]:
    """Give values by row: NaN where it was logged so, infinite where nothing was logged."""
    metric = lookup(name)
    shape, *extra = (word.strip() for word in words.split(","))
    values = np.concatenate([_segment(segment.strip()) for segment in shape.split(" then ")])
    options, spikes, binary = {"noise": 0.0, "memory": MEMORY, "every": 1.0}, list[tuple[float, int]](), False
    for word in extra:
        if found := _OPTION.fullmatch(word):
            options[found[1]] = float(found[2])
        elif found := _SPIKE.fullmatch(word):
            spikes.append((float(found[1]), int(found[2])))
        elif word == "binary":
            binary = True
        else:
            raise ValueError(f"not a word of a case: {word!r}")
    draws = options["noise"] * rng.standard_normal(values.size)
    for i in range(1, draws.size):
        draws[i] = options["memory"] * draws[i - 1] + (1.0 - options["memory"] ** 2) ** 0.5 * draws[i]
    high = min(metric.high, 1.0) if binary else metric.high
    low = max(metric.low, 0.0) if binary else metric.low
    kept = np.isfinite(values)
    values[kept] = np.clip((values + draws)[kept], low, high)
    for value, step in spikes:
        values[step - 1] = value
    values[np.arange(1, values.size + 1) % int(options["every"]) != 0] = np.inf
    return values, binary


def _segment(words: str) -> Floats:
    if found := _RAMP.fullmatch(words):
        return np.linspace(float(found[1]), float(found[2]), int(found[3]))
    if found := _HOLD.fullmatch(words):
        return np.full(int(found[2]), float(found[1]))
    if found := _ABSENT.fullmatch(words):
        return np.full(int(found[2]), np.inf if found[1] == "gap" else np.nan)
    raise ValueError(f"not a segment: {words!r}")


def _series(name: str, values: Floats) -> Series:
    logged = np.flatnonzero(~np.isinf(values))
    return Series(name, (logged + 1).astype(np.int64), values[logged])


def _sum(name: str, series: dict[str, Series], weights: dict[str, float]) -> Series:
    added: dict[int, float] = {}
    for key, one in series.items():
        if key.startswith("reward/component/") and key.endswith("/mean"):
            for step, value in zip(one.steps.tolist(), one.values.tolist(), strict=True):
                added[step] = added.get(step, 0.0) + weights.get(key.split("/")[2], 1.0) * value
    steps = sorted(added)
    return Series(name, np.array(steps, dtype=np.int64), np.array([added[s] for s in steps]))

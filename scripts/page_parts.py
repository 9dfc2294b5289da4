"""What all generated pages are made of: columns of frameworks, what a rule needs, and Markdown."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType, ModuleType

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

import numpy as np  # noqa: E402

import vario  # noqa: E402
from vario.catalogue import METRICS, lookup  # noqa: E402
from vario.errors import NotReadable  # noqa: E402
from vario.instruments import Baseline, Budgets, Changes, History, Look, Reading, ReferenceRun, Review, Settings  # noqa: E402
from vario.rules import Rule  # noqa: E402
from vario.run import Budget, Declared, KnobSetting, Level, Run, Series, Setting  # noqa: E402
from vario.samples import Mark  # noqa: E402
from vario.sources.dialects import DIALECTS  # noqa: E402
from vario.sources.dialects.base import Alias, Context, Dialect  # noqa: E402

MADE = "<!-- Made by `python scripts/pages.py write` from the source; edit the source. -->"
PROBE = "probe"
PROBE_POINTS = 60
GIVEN: dict[type, str] = {
    Budgets: "a budget of your own (`[budgets]` in `vario.toml`), and the metric that it is on",
    Baseline: "the model before RL (`vario baseline`), and a metric that it was measured by",
    ReferenceRun: "a healthy run of the same recipe (`--reference`), and a metric that both log",
    Settings: "the run's configuration beside its log",
    Review: "what a person said of completions (`vario samples RUN --review`)",
}
"""What no log holds: you declare it, or it lies beside the log."""
IN_WORDS: dict[type, str] = GIVEN | {Changes: "any metric with enough points"}
"""Instruments that go through all that was logged: a list of names would be the whole catalogue."""
TITLES = {
    "areal": "AReaL",
    "art": "ART",
    "deepspeed-chat": "DeepSpeed-Chat",
    "generic": "own loop",
    "llama-factory": "LLaMA-Factory",
    "nemo-rl": "NeMo-RL",
    "openrlhf": "OpenRLHF",
    "ragen": "RAGEN",
    "rllm": "rLLM",
    "skyrl": "SkyRL",
    "tinker": "Tinker",
    "trl": "TRL",
    "trlx": "trlX",
    "unsloth": "Unsloth",
}
"""How frameworks write themselves; one that is not here is written as its dialect is called."""
TRAINERS: dict[str, tuple[str, ...]] = {
    "areal": ("grpo", "dpo"),
    "axolotl": ("grpo", "dpo"),
    "deepspeed-chat": ("ppo",),
    "generic": ("unknown",),
    "llama-factory": ("dpo", "ppo"),
    "ms-swift": ("grpo", "dpo"),
    "nemo-rl": ("grpo", "dpo"),
    "open-instruct": ("grpo", "dpo"),
    "openrlhf": ("grpo", "ppo", "dpo"),
    "tinker": ("grpo", "dpo"),
    "trl": ("grpo", "async-grpo", "rloo", "dpo", "ppo"),
    "trlx": ("ppo",),
    "unsloth": ("grpo", "dpo"),
    "verl": ("grpo", "ppo"),
}
"""The trainers of a framework that most people use: overviews show these, its own page all. Others: GRPO."""
LOGS = Path("tests/sources/logs")
GOLDEN = Path("tests/golden")
REAL, RECORDED, SYNTHETIC = "real run", "recorded by the library", "synthetic"
ORIGINS = {
    REAL: "a training with the framework itself, recorded for this project",
    RECORDED: "written by the framework's own logging code, with made-up numbers",
    SYNTHETIC: "written from the documented or published format, not by the framework",
}
"""Where a log of the tests comes from, the best first."""
PPO_KEY = re.compile(r"(ppo|objective|policy|val|tokens)/.*|loss/(policy|value)_avg")
"""Keys that, in TRL, only the PPO family of trainers logs; the alias table asks no algorithm for them."""


# frameworks


def title_of(dialect: Dialect) -> str:
    """How a framework writes itself."""
    return TITLES.get(dialect.name, dialect.name)


def by_title(dialect: Dialect) -> str:
    """In the order of the alphabet, whatever the capitals."""
    return title_of(dialect).lower()


def spoken(algorithm: str) -> str:
    """An algorithm as a heading says it: `async-grpo` is async GRPO."""
    return re.sub(
        r"\b(grpo|rloo|dpo|ppo|kto|orpo|cpo|tpo|xpo|sft|gkd)\b", lambda m: m[1].upper(), algorithm.replace("-", " ")
    )


def module_of(dialect: Dialect) -> ModuleType:
    """The file of a dialect."""
    return sys.modules[dialect.recognises.__module__]


def base_of(dialect: Dialect) -> Dialect | None:
    """The framework that another is built on: its dialect uses the other's words."""
    used = {v.DIALECT.name: v.DIALECT for v in vars(module_of(dialect)).values() if hasattr(v, "DIALECT")}
    return next(iter(used.values()), None)


def kin() -> dict[str, tuple[Dialect, ...]]:
    """The frameworks by what they are built on; those that stand alone come last, own loops at their end."""
    bases = list(dict.fromkeys(b.name for d in DIALECTS if (b := base_of(d)) is not None))
    found: dict[str, tuple[Dialect, ...]] = {}
    for name in sorted(bases, key=lambda b: -sum((base_of(d) or d).name == b for d in DIALECTS)):
        base = next(d for d in DIALECTS if d.name == name)
        built = sorted((d for d in DIALECTS if base_of(d) is base), key=_alphabetical)
        found[f"{title_of(base)}, and what is built on it"] = (base, *built)
    taken = {d.name for group in found.values() for d in group}
    left = sorted((d for d in DIALECTS if d.name not in taken), key=_alphabetical)
    found["Frameworks of their own"] = tuple(left)
    return found


def _alphabetical(dialect: Dialect) -> tuple[bool, str]:
    return dialect.name == "generic", dialect.name


def trainers_of(dialect: Dialect) -> tuple[str, ...]:
    """The trainers of a framework that overviews show."""
    return TRAINERS.get(dialect.name, ("grpo",))


def told_apart(dialect: Dialect) -> frozenset[str]:
    """The algorithms that a dialect's aliases tell apart."""
    return frozenset(a for alias in dialect.aliases for a in alias.algorithms)


def nothing_known(algorithm: str) -> Context:
    """A run of which only the algorithm is known: what a dialect says of it holds by default."""
    return Context(frozenset(), MappingProxyType({}), algorithm, MappingProxyType({}))


@dataclass(frozen=True)
class Column:
    """A framework as a rule sees it, with one of its trainers where they log different keys."""

    dialect: Dialect
    algorithm: str = ""

    @property
    def aliases(self) -> tuple[Alias, ...]:
        """Aliases that can hold here; all of them where the trainers are not told apart."""
        if not self.algorithm:
            return tuple(self.dialect.aliases)
        found = [a for a in self.dialect.aliases if not a.algorithms or self.algorithm in a.algorithms]
        return tuple(a for a in found if self.algorithm == "ppo" or not PPO_KEY.fullmatch(a.key))

    def metrics(self, *, settled: bool) -> frozenset[str]:
        """Metrics that can be fed; `settled` leaves out those that hang on version or configuration."""
        found = {a.metric for a in self.aliases if not settled or a.when is None}
        if not settled:
            found |= {canonical(m) for log in self._logs() for m in log.run.series}
            if "eval/set/*/mean" in found:
                found.add("eval/score/mean")  # it is, where there is one held-out set
        return frozenset(found)

    def _logs(self) -> list[Log]:
        """Logs that show what is made of several keys; real runs are left out, to check this by."""
        mine = [log for log in logs_of(self.dialect) if log.origin != REAL and log.run.framework == self.dialect.name]
        return [log for log in mine if self.algorithm in ("", log.run.algorithm)]


def canonical(metric: str) -> str:
    """The catalogue's name of a metric, whose own name may be that of a reward function."""
    return lookup(metric).name


def columns(dialects: Iterable[Dialect] = DIALECTS) -> tuple[Column, ...]:
    """Every framework that has a dialect; trainer by trainer for TRL and what is built on it."""
    made = []
    for dialect in dialects:
        base = base_of(dialect) or dialect
        several = base.name == "trl"
        made += [Column(dialect, t) for t in trainers_of(dialect)] if several else [Column(dialect)]
    return tuple(made)


def heads(columns: Iterable[Column]) -> str:
    """One head for several columns: `TRL GRPO, RLOO; Unsloth GRPO`; a framework with all its trainers stands alone."""
    by_framework: dict[str, list[Column]] = {}
    for column in columns:
        by_framework.setdefault(column.dialect.name, []).append(column)
    words = []
    for group in by_framework.values():
        name = title_of(group[0].dialect)
        trainers = [c.algorithm for c in group if c.algorithm not in ("", "unknown")]
        every = len(trainers) == len(trainers_of(group[0].dialect))
        words.append(name if every or not trainers else f"{name} {', '.join(map(spoken, trainers))}")
    return "; ".join(words)


def defaults(dialect: Dialect, trainers: Iterable[str]) -> dict[str, dict[tuple[str, Setting], list[str]]]:
    """For each knob, the framework's key with its default, and the trainers that have it so."""
    found: dict[str, dict[tuple[str, Setting], list[str]]] = {}
    for trainer in trainers:
        for knob, setting in dialect.knobs(nothing_known(trainer)).items():
            found.setdefault(knob, {}).setdefault((setting.key, setting.current), []).append(trainer)
    return found


def knobs_of(dialect: Dialect, trainer: str) -> Mapping[str, KnobSetting]:
    """The framework's keys for one trainer, with their defaults."""
    return dialect.knobs(nothing_known(trainer))


# logs that the tests read


@dataclass(frozen=True)
class Log:
    """A log that the tests read, and what vario makes of it."""

    path: Path
    framework: str
    origin: str
    run: Run


def _origin(path: Path) -> str:
    return SYNTHETIC if "synthetic" in path.name else RECORDED


@cache
def logs() -> tuple[Log, ...]:
    """Every log of the tests that stands for a framework."""
    found = []
    for path in sorted((ROOT / LOGS).glob("*")):
        # the longest name counts: `trl-` is no part of `trlx-`, and `verl-agent-` no log of verl
        names = [d.name for d in DIALECTS if path.name.startswith((f"{d.name}-", f"{d.name}."))]
        if names and not path.name.startswith("."):
            found.append(Log(path.relative_to(ROOT), max(names, key=len), _origin(path), vario.read(path)))
    for label in sorted((ROOT / GOLDEN).glob("*/label.json")):
        run = vario.read(label.parent)
        found.append(Log(label.parent.relative_to(ROOT), run.framework, REAL, run))
    return tuple(found)


def logs_of(dialect: Dialect) -> tuple[Log, ...]:
    """The logs that stand for a framework, real ones first."""
    mine = [log for log in logs() if log.framework == dialect.name]
    return tuple(sorted(mine, key=lambda log: list(ORIGINS).index(log.origin)))


# what a rule needs


class _Asked(Look):
    """A look that remembers which metrics it was asked for."""

    def __init__(self, history: History, step: int) -> None:
        super().__init__(history, step)
        object.__setattr__(self, "names", set())

    names: set[str]

    def find(self, name: str, *, least: int = 1) -> Reading | None:
        """As in Look."""
        self.names.add(canonical(name))
        return super().find(name, least=least)


def look_at(metrics: Iterable[str], weight: float = 0.0, *, given: bool = False) -> _Asked:
    """A look at a run that logs these metrics; `weight` is that of its reward function.

    With `given`, all that can be declared is, for every metric.
    """
    steps = np.arange(1, PROBE_POINTS + 1, dtype=np.int64)
    values = np.asarray(0.4 + 0.01 * (steps % 7), dtype=np.float64)
    names = [m.replace("*", PROBE) for m in metrics]
    series = {n: Series(n, steps, values) for n in names}
    declared = Declared(component_weights=MappingProxyType({PROBE: weight}))
    budgets: tuple[Budget, ...] = ()
    marks: tuple[Mark, ...] = ()
    if given:
        declared = replace(
            declared,
            max_length=512.0,
            baseline=MappingProxyType(dict.fromkeys(METRICS, Level(0.4, 0.1, 20))),
            reference=MappingProxyType(dict.fromkeys(METRICS, (0.3, 0.5))),
        )
        budgets = tuple(Budget(m, most=1.0) for m in METRICS)
        marks = tuple(Mark(PROBE_POINTS, number, "good") for number in range(PROBE_POINTS))
    run = Run(
        "probe", "generic", "unknown", MappingProxyType(series), steps, declared=declared, budgets=budgets, marks=marks
    )
    return _Asked(History(run), PROBE_POINTS)


@cache
def readable(kind: type, metrics: frozenset[str], weight: float = 0.0, *, given: bool = False) -> bool:
    """Whether an instrument can be read where these metrics are logged, as `look_at` has it."""
    return not isinstance(look_at(metrics, weight, given=given).instrument(kind), NotReadable)


@cache
def asked(kind: type) -> tuple[str, ...]:
    """Every metric an instrument asks for, in the catalogue's order; none where it goes through whatever there is."""
    if kind in IN_WORDS:
        return ()
    names: set[str] = set()
    left = set(METRICS)
    while True:
        # what was found is taken away, until it asks for nothing that is there
        look = look_at(left)
        look.instrument(kind)
        names |= look.names
        if not look.names & left:
            break
        left -= look.names
    return tuple(m for m in METRICS if m in names)


@cache
def needs(kind: type) -> tuple[tuple[str, ...], ...]:
    """The smallest sets of metrics with which an instrument can be read; empty when it always can."""
    if readable(kind, frozenset()):
        return ()
    for size in (1, 2, 3):
        found = tuple(s for s in itertools.combinations(asked(kind), size) if readable(kind, frozenset(s)))
        if found:
            return found
    return ()


def instruments(rule: Rule, *, optional: bool) -> tuple[type, ...]:
    """The instruments a rule cannot do without, or those it takes where they are."""
    return tuple(kind for kind, may in rule.instruments if may == optional)


def alternatives(kind: type) -> str:
    """With which metrics an instrument can be read, in words."""
    if kind in IN_WORDS:
        return IN_WORDS[kind]
    sets = needs(kind)
    if not sets:
        return "always readable"
    words = []
    for names in sets:
        needed = "" if readable(kind, frozenset(names), 1.0) else " (logged with weight 0)"
        words.append(" with ".join(f"`{m}`" for m in names) + needed)
    return " or ".join(words)


# Markdown


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A Markdown table; pipes in cells are escaped."""
    titles = list(head)
    yield _row(titles)
    yield _row("---" for _ in titles)
    for row in rows:
        yield _row(row)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(c.replace('|', chr(92) + '|') for c in cells)} |"


def without_empty(head: Iterable[str], rows: Iterable[Iterable[str]], always: int = 1) -> Iterator[str]:
    """As `table`, without the columns behind the first `always` in which no row says anything."""
    titles, lines = list(head), [list(r) for r in rows]
    kept = [i for i in range(len(titles)) if i < always or any(line[i].strip("- ") for line in lines)]
    return table((titles[i] for i in kept), ([line[i] for i in kept] for line in lines))


def code(words: Iterable[str]) -> str:
    """Words as code, with commas."""
    return ", ".join(f"`{w}`" for w in words)


def default_in_words(value: Setting) -> str:
    """A knob's default."""
    return "not set" if value is None else f"`{value}`"


def paragraphs(text: str) -> list[str]:
    """A docstring as lines of Markdown."""
    return [line.rstrip() for line in text.strip().splitlines()]

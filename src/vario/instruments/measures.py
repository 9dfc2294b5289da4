"""What the user measures a run by: budgets of their own, the model before RL, a healthy run of the same recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vario.catalogue import PER_SEQUENCE, lookup
from vario.errors import NotReadable
from vario.instruments.reading import Look, Reading
from vario.run import Budget, Level

PAIRS = {"kl/reference": "kl/reference/sequence", "kl/reference/sequence": "kl/reference"}
"""The same quantity summed over a sequence, or as its token mean."""


@dataclass(frozen=True)
class Held:
    """A budget beside what was logged. `scale` turns the reading's values into the budget's unit."""

    budget: Budget
    reading: Reading
    unit: str
    scale: float

    @property
    def level(self) -> float:
        """Where the metric stands, in the budget's unit."""
        return self.reading.level * self.scale

    def over(self) -> bool:
        """Whether the level lies beyond a bound."""
        most, least = self.budget.most, self.budget.least
        return (most is not None and self.level > most) or (least is not None and self.level < least)

    def since(self) -> int | None:
        """First step of the stretch, lasting until now, that lies beyond the bound."""
        most, least = self.budget.most, self.budget.least
        if most is not None and self.level > most:
            return self.reading.since_above(most / self.scale)
        return None if least is None else self.reading.since_below(least / self.scale)


@dataclass(frozen=True)
class Budgets:
    """The user's own bounds: those that can be compared with what was logged, and why the others cannot."""

    held: tuple[Held, ...]
    unheld: tuple[tuple[Budget, NotReadable], ...] = ()

    @classmethod
    def read(cls, look: Look) -> Budgets:
        """Needs a budget, and the metric it is on."""
        budgets = look.history.run.budgets
        if not budgets:
            raise NotReadable(reason="no budget is declared (vario.toml, [budgets])")
        held: list[Held] = []
        unheld: list[tuple[Budget, NotReadable]] = []
        for budget in budgets:
            try:
                held += _held(look, budget)
            except NotReadable as error:
                unheld.append((budget, error))
        if not held:
            reasons = dict.fromkeys(e.reason for _, e in unheld)
            missing = dict.fromkeys(m for _, e in unheld for m in e.missing)
            raise NotReadable(*missing, reason="; ".join(r for r in reasons if r))
        return cls(tuple(held), tuple(unheld))

    def on(self, *, kl: bool) -> tuple[Held, ...]:
        """The budgets on KL, or those on anything else.

        Raises:
            NotReadable: there is none, or none that can be compared.
        """
        held = tuple(h for h in self.held if _is_kl(h.budget) == kl)
        if not held:
            raise next(
                (error for budget, error in self.unheld if _is_kl(budget) == kl),
                NotReadable(reason=f"no budget on {'KL' if kl else 'anything but KL'} is declared"),
            )
        return held


def _is_kl(budget: Budget) -> bool:
    return budget.metric.startswith("kl/")


def _held(look: Look, budget: Budget) -> list[Held]:
    names = [budget.metric]
    if "*" in budget.metric:
        head, tail = budget.metric.split("*", 1)
        names = [n for n in look.history.run.series if n.startswith(head) and n.endswith(tail)]
    readings = [r for name in names if (r := look.find(name, least=5)) is not None]
    if not readings and budget.metric in PAIRS:
        readings = [r for r in (look.find(PAIRS[budget.metric], least=5),) if r is not None]
    if not readings:
        raise NotReadable(budget.metric)
    wanted = budget.unit or lookup(budget.metric).unit
    return [Held(budget, r, wanted, _scale(look, lookup(r.name).unit, wanted)) for r in readings]


def _scale(look: Look, unit: str, wanted: str) -> float:
    """What turns a value in `unit` into one in the unit of the budget: nats of a sequence are those of a token times its length."""
    if wanted == unit:
        return 1.0
    length = look.find("length/mean", least=5)
    if length is None or length.level <= 0.0:
        raise NotReadable("length/mean", reason=f"a budget in {wanted} on a log in {unit} needs the length")
    return length.level if wanted == PER_SEQUENCE else 1.0 / length.level


@dataclass(frozen=True)
class Baseline:
    """The model before RL, by metric, beside what was logged."""

    levels: Mapping[str, Level]
    look: Look

    @classmethod
    def read(cls, look: Look) -> Baseline:
        """Needs a declared baseline."""
        levels = look.history.run.declared.baseline
        if not levels:
            raise NotReadable(reason="no baseline is declared (vario baseline PATH, then baseline = … in vario.toml)")
        return cls(levels, look)

    def beside(self, name: str) -> tuple[Level, Reading] | None:
        """A metric before RL and now; None where one of both is not known."""
        reading = self.look.find(name, least=5)
        return (self.levels[name], reading) if name in self.levels and reading is not None else None


@dataclass(frozen=True)
class ReferenceRun:
    """Ranges of a healthy run of the same recipe, beside what was logged."""

    beside: Mapping[str, tuple[float, float, Reading]]

    @classmethod
    def read(cls, look: Look) -> ReferenceRun:
        """Needs a declared reference with metrics that this run logs too."""
        ranges = look.history.run.declared.reference
        if not ranges:
            raise NotReadable(reason="no reference run is declared (--reference RUN)")
        beside = {n: (low, high, r) for n, (low, high) in ranges.items() if (r := look.find(n, least=5)) is not None}
        if not beside:
            raise NotReadable(*list(ranges)[:3])
        return cls(beside)


@dataclass(frozen=True)
class HeldOutSets:
    """Every named held-out set apart; `trained` is the key of the trained task's, where that is known."""

    sets: Mapping[str, Reading]
    before: Mapping[str, Level]
    trained: str | None

    @classmethod
    def read(cls, look: Look) -> HeldOutSets:
        """Needs a named held-out set."""
        names = [n for n in look.history.run.series if n.startswith("eval/set/") and n.endswith("/mean")]
        sets = {n: r for n in names if (r := look.find(n, least=5)) is not None}
        if not sets:
            raise NotReadable("eval/set/*/mean")
        main = look.find("eval/score/mean")
        return cls(sets, look.history.run.declared.baseline, None if main is None else main.key)


@dataclass(frozen=True)
class Changes:
    """Every metric that stands on another level than before, by one step of its shape; and what was said of them."""

    steps: Mapping[str, tuple[int, float, float]]
    said: frozenset[str]

    @classmethod
    def read(cls, look: Look) -> Changes:
        """Needs a metric with enough points to date a step."""
        # what is counted from completions retells what the log says of them
        names = [n for n, s in look.history.run.series.items() if not (s.counted or n.startswith(CLOCKS))]
        readings = {n: r for n in names if (r := look.find(n, least=LEAST)) is not None}
        if not readings:
            raise NotReadable(*names[:1], reason=f"fewer than {LEAST} points of every metric so far")
        steps = {}
        for name, reading in readings.items():
            if reading.shape is None or not reading.shape.step:
                continue
            at = reading.knot_step()
            if at is not None and reading.shape.chi2 > SURE:
                steps[name] = (at, reading.shape.start, reading.shape.end)
        return cls(steps, frozenset(look.said))


LEAST = 40
SURE = 40.0
"""Chi-square of a step over a constant that no metric of a flat run reaches by chance, many metrics considered."""
CLOCKS = ("learning-rate", "systems/tokens", "systems/wall-clock", "systems/background/", "eval/", "kl/coefficient")
"""Schedules and counters move by themselves, and so does other work; evaluations come too rarely to date a step."""

"""What going on may cost: what was lost since the best checkpoint, how near the bounds are, and the hours spent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from vario.instruments import Budgets, Held, Kl, Look, Reading
from vario.rules.base import counted
from vario.rules.engine import Incident
from vario.rules.entropy_collapsing import LEFT
from vario.stats.arrival import arrival
from vario.verdict.checkpoint import BestCheckpoint


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """A bound: the share of it that is used, and when it is reached if the metric goes on as over its last half."""

    name: str
    used: float
    arrives: int | None
    interval: tuple[int, int | None] | None


@dataclass(frozen=True, slots=True)
class Cost:
    """Hours by the logged step times; of all devices where their number is known. None where times are not logged."""

    hours: float | None = None
    hours_since_best: float | None = None
    hours_since_first_finding: float | None = None
    devices: float | None = None

    def device_hours(self, hours: float | None) -> float | None:
        """The same times the devices."""
        return None if hours is None or self.devices is None else hours * self.devices


@dataclass(frozen=True, slots=True)
class Risk:
    """What going on may cost."""

    text: str
    kl_since_best: float | None = None
    steps_since_best: int | None = None
    reward_lost: float | None = None
    budgets: tuple[BudgetUse, ...] = ()
    cost: Cost = Cost()


def risk_of(
    look: Look,
    kl: Kl | None,
    score: Reading | None,
    best: BestCheckpoint | None,
    incidents: Iterable[Incident],
    trajectory: str,
) -> Risk:
    """Measure the risk at this look; `trajectory` is the score's, in a word."""
    budgets = tuple(_budgets(look))
    cost = _cost(look, best, incidents)
    ahead = [
        f"{b.name} is reached about step {b.arrives} [{b.interval[0]}, {b.interval[1] or 'perhaps never'}]"
        for b in budgets
        if b.arrives is not None and b.interval is not None
    ]
    spent = _spent(cost)
    if best is None or score is None:
        text = "; ".join(["not known: no score to rank checkpoints by", *ahead, *spent])
        return Risk(text, budgets=budgets, cost=cost)
    ranked = look.find(best.by)
    since = look.step - best.step
    # noise alone lowers what comes after the best of it; and where nothing was measured since, nothing is known to be lost
    fell = ranked is not None and int(ranked.steps[-1]) > best.interval[1] and trajectory != "noise"
    lost = max(0.0, best.value - ranked.level) if ranked is not None and fell else 0.0
    drift = kl.reference.level - kl.reference.level_at(best.step) if kl is not None and since > 0 else None
    parts = [f"{counted(since, 'step')} since the best one (step {best.step})"]
    if lost > 0.0:
        parts.append(f"{lost:.3g} of {best.by} lost since")
    if drift is not None and kl is not None:
        parts.append(f"KL changed by {drift:.2g} {kl.unit} since")
    return Risk("; ".join([*parts, *ahead, *spent]), drift, since, lost, budgets, cost)


def _budgets(look: Look) -> Iterator[BudgetUse]:
    declared = look.instrument(Budgets)
    if isinstance(declared, Budgets):
        for held in declared.held:
            yield from _declared(held)
    length, cap = look.find("length/mean", least=5), look.history.run.declared.max_length
    if length is not None and cap:
        yield _use("the length cap", length, cap, length.level / cap)
    entropy = look.find("entropy/mean", least=5)
    if entropy is not None and entropy.start > 0.0:
        floor = LEFT * entropy.start
        spent = (entropy.start - entropy.level) / (entropy.start - floor)
        yield _use("the entropy floor", entropy, floor, max(spent, 0.0))


def _declared(held: Held) -> Iterator[BudgetUse]:
    for bound, side in ((held.budget.most, "most"), (held.budget.least, "least")):
        if bound is None:
            continue
        used = held.level / bound if side == "most" and bound else bound / held.level if held.level else 0.0
        yield _use(
            f"your bound on {held.reading.name} (at {side} {bound:g} {held.unit})",
            held.reading,
            bound / held.scale,
            used,
        )


def _use(name: str, reading: Reading, bound: float, used: float) -> BudgetUse:
    found = arrival(reading.steps, reading.values, bound)
    if found is None:
        return BudgetUse(name, used, None, None)
    return BudgetUse(name, used, found.step, (found.earliest, found.latest))


def _cost(look: Look, best: BestCheckpoint | None, incidents: Iterable[Incident]) -> Cost:
    time = look.find("systems/step-time", least=2)
    if time is None:
        return Cost(devices=look.history.run.declared.devices)
    # a row may stand for several steps: each of them took the time that the row says
    covered = np.diff(time.steps, prepend=int(time.steps[0]) - 1) if look.history.run.declared.steps_per_row else 1
    seconds = np.asarray(time.values * covered)

    def since(step: int | None) -> float | None:
        return None if step is None else float(seconds[time.steps > step].sum()) / 3600.0

    begun = [i.since for i in incidents if i.until is None and i.severity > 0 and i.since is not None]
    return Cost(
        float(seconds.sum()) / 3600.0,
        since(best.step if best is not None else None),
        since(min(begun)) if begun else None,
        look.history.run.declared.devices,
    )


def _spent(cost: Cost) -> list[str]:
    said = []
    for hours, since in (
        (cost.hours_since_best, "since the best checkpoint"),
        (cost.hours_since_first_finding, "since the first finding began"),
    ):
        if hours is not None and hours > 0.0:
            on_all = cost.device_hours(hours)
            spent = f"{3600.0 * hours:.0f} s" if hours < 0.1 else f"{hours:.2g} h"
            said.append(f"{spent} {since}" if on_all is None else f"{on_all:.2g} device-hours {since}")
    return said

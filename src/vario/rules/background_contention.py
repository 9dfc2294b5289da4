"""SY106 background-contention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vario.instruments import Background
from vario.instruments.systems import SPIKE_SDS, SPIKE_SHARE, Occasion, Spell, Surplus, Work
from vario.rules.base import Aside, Doubt, Evidence, Excluded, Severity, Sign, number, percent, raise_, rule
from vario.run import Ints
from vario.stats.spread import robust_sd

LEAST_OCCASIONS = 3
LEAST_SPIKES = 5
"""Without a known occasion: five spikes on one period are no chance."""
MOSTLY = 0.8
"""Share of the occasions that show a spike, and of the spikes that fall on one."""
QUIET = 0.1
"""At most a tenth of the other rows may stand out too: the time must rise inside the occasions, and not outside."""
SHORTEST = 4
"""Rows. Below it neighbours and spikes cannot be told apart, and batches that are used several times look so."""
LENGTHENED = 0.5
"""Lengths that spike half as much explain a spike of the time."""
LONG = 10
"""Rows of a work that ran once: with as many before and behind it, its beginning and its end are both seen."""
LEAST_PLACES = 5
"""Places at which the work did not run that are needed to say what happens there."""
TRIED_ROWS = 6
"""Rows of such a place at most: longer ones find no room between works that come often."""


@rule(
    "SY106",
    "background-contention",
    Severity.INFO,
    holds=2,
    causes=(
        "a checkpoint that is merged or uploaded while the training goes on",
        "an evaluation on the same devices",
        "another process on the machine that comes by the clock",
    ),
    turns=(raise_("save-steps", "what is written less often disturbs less often"),),
    explains=("step-time-jumped",),
)
def background_contention(background: Background) -> Iterator[Sign]:
    """Steps take longer, or memory spikes, while work beside the training takes its share.

    What it shows:
        Step time a fifth above that of the rows around it (or memory likewise) while an upload, a merge or another
        process runs, and not at other times; or at saves and evaluations and hardly elsewhere, the time of the save or
        evaluation itself taken off where that is logged.
    Why it matters:
        A merge, an upload or an evaluation that competes for devices, memory or disk slows the training down.
    Evidence:
        How often the work ran or the occasion came, how many of these times show it, by how much, and how much of all
        time it costs.
    Looks like it but is not:
        Work that runs while steps take no longer. Steps that get slower anyway, or as often while it does not run.
        Saving or evaluating inside the step, as long as that itself takes. One slow step. Spikes at no period.
        Batches that are used several times: generation then comes every so many steps. Longer completions at the
        same steps.
    What to change:
        Save less often; move the upload or the merge to another machine or behind the run.
    How sure:
        High where the work was seen or told of three times or more, and for saves and evaluations that are timed;
        medium for work that ran once, and where only the steps of a save are known: the step may count the save itself.
        Low where nothing but a period shows: a suspicion. `vario.Monitor` sees other processes by itself, and
        `monitor.event` tells of the rest.
    References:
        How an experienced RL practitioner thinks about training health, on background processes; taxonomy of public
        threads, K systems
    """
    both = ((background.slower, "steps take longer"), (background.fuller, "memory stands higher"))
    for surplus, word in both:
        found = _most_disturbing(surplus, background) if surplus is not None else None
        if surplus is not None and found is not None:
            yield from _while_it_runs(surplus, found, word)
            return
    for surplus, word in both:
        if surplus is None or surplus.spikes.sum() < LEAST_OCCASIONS or _by_length(surplus, background.longer):
            continue
        named = next((o for o in background.occasions if _coincide(surplus, o)), None)
        if named is not None:
            yield from _at_occasions(surplus, named, word)
            return
        period = _period(surplus.spikes)
        if period is None or _by_reuse(surplus, background, period):
            continue
        first = int(surplus.steps[surplus.spikes][0])
        yield Evidence(
            f"{word} about every {period} rows, by {percent(float(np.median(surplus.share[surplus.spikes])))}, first at step {first}",
            (surplus.name,),
            first,
        )
        yield Doubt("nothing that was logged comes with this period")
        yield Doubt("an epoch's data in the same order would look the same")
        return


@dataclass(frozen=True)
class _Raised:
    """A work with which the values rise: in which stretches, of how many, and at how many other places they do not."""

    work: Work
    shown: list[Spell]
    times: int
    places: int

    @property
    def rise(self) -> float:
        return float(np.median([s.rise for s in self.shown]))


def _most_disturbing(surplus: Surplus, background: Background) -> _Raised | None:
    """The work with which the values rise most, but for what longer completions explain; None where none raises them."""
    found = []
    for work in background.works:
        raised = _raised(surplus, work)
        if raised is None:
            continue
        longer = background.longer.spells(work) if background.longer is not None else []
        if not longer or float(np.median([s.rise for s in longer])) < LENGTHENED * raised.rise:
            found.append(raised)
    return max(found, key=lambda r: r.rise, default=None)


def _raised(surplus: Surplus, work: Work) -> _Raised | None:
    """Whether the values rise in most stretches of a work, and hardly anywhere outside."""
    spells = surplus.spells(work)
    if lone := len(spells) < LEAST_OCCASIONS:
        spells = [s for s in spells if s.rows >= LONG and min(s.beside) >= LONG]
    if not spells:
        return None
    rows = int(np.median([s.rows for s in spells]))
    others = surplus.elsewhere(work, min(rows, TRIED_ROWS))
    if others.size < LEAST_PLACES:
        return None
    bound = max(SPIKE_SHARE, SPIKE_SDS * robust_sd(others))
    shown = [s for s in spells if s.rise > bound]
    if len(shown) < MOSTLY * len(spells) or float((others > bound).mean()) > (0.0 if lone else QUIET):
        return None
    inside = surplus.inside(work)
    # of a work of few rows the spikes tell whether as many fall outside: then it falls in with another period
    if rows < SHORTEST and int(surplus.spikes[~inside].sum()) >= max(int(surplus.spikes[inside].sum()), 1):
        return None
    return _Raised(work, shown, len(spells), others.size)


def _while_it_runs(surplus: Surplus, found: _Raised, word: str) -> Iterator[Sign]:
    shown, name = found.shown, found.work.name
    every = "each of the" if len(shown) == found.times else f"{len(shown)} of the"
    often = "the one time that it ran" if found.times == 1 else f"{every} {found.times} times that it ran"
    yield Evidence(
        f"{word} by {percent(found.rise)} while {name} runs: {often}, first at step {shown[0].first}",
        (surplus.name, found.work.metric),
        shown[0].first,
    )
    if surplus.name == "systems/step-time":
        extra = max(sum(s.extra for s in shown), 0.0)
        total = max(float(surplus.values.sum()), 1e-12)
        yield Evidence(
            f"that is {number(extra / len(shown))} s each time, {percent(extra / total)} of all step time",
            (surplus.name,),
        )
    yield Excluded(f"not at other times: tried at {found.places} places where {name} did not run")
    if len(shown) < LEAST_OCCASIONS:
        yield Doubt(f"{name} ran too seldom to say that nothing else began and ended with it")


def _rows_of(surplus: Surplus, occasion: Occasion) -> list[Ints]:
    """For each occasion its row and the next: an upload goes on behind the save."""
    at = np.searchsorted(surplus.steps, occasion.steps)
    return [np.arange(i, min(i + 2, surplus.steps.size)) for i in at.tolist() if i < surplus.steps.size]


def _coincide(surplus: Surplus, occasion: Occasion) -> bool:
    """Whether most of the occasions show a spike, and hardly any row elsewhere."""
    rows = [r for r in _rows_of(surplus, occasion) if r.size]
    if len(rows) < LEAST_OCCASIONS:
        return False
    inside = np.zeros(surplus.steps.size, dtype=bool)
    for part in rows:
        inside[part] = True
    shown = sum(bool(surplus.spikes[part].any()) for part in rows)
    outside = surplus.spikes[~inside]
    return bool(shown >= MOSTLY * len(rows) and outside.size >= inside.sum() / 2 and outside.mean() <= QUIET)


def _at_occasions(surplus: Surplus, occasion: Occasion, word: str) -> Iterator[Sign]:
    rows = [r for r in _rows_of(surplus, occasion) if r.size and surplus.spikes[r].any()]
    most = np.array([float(surplus.share[r].max()) for r in rows])
    first = int(surplus.steps[rows[0][0]])
    article = "an" if occasion.name[0] in "aeiou" else "a"
    yield Evidence(
        f"{word} by {percent(float(np.median(most)))} at {len(rows)} of {occasion.steps.size} {occasion.name}s, and not between them",
        (surplus.name,),
        first,
    )
    if surplus.name == "systems/step-time":
        every = np.concatenate(rows)
        extra = (np.maximum(surplus.share, 0.0) * surplus.usual)[np.unique(every)].sum()
        total = max(float(((1.0 + surplus.share) * surplus.usual).sum()), 1e-12)
        yield Evidence(
            f"that is {number(float(extra) / len(rows))} s each time, {percent(float(extra) / total)} of all step time",
            (surplus.name,),
        )
        if occasion.timed:
            yield Excluded(f"the {occasion.name} itself is timed, and is not counted here")
        else:
            yield Doubt(f"the {occasion.name} itself is not timed: the step may count it")
            if occasion.name == "evaluation":
                yield Aside("most trainers evaluate inside the loop: then it is no other work that takes the time")
    else:
        yield Doubt(f"memory that {article} {occasion.name} needs itself is counted too")


def _period(spikes: NDArray[np.bool_]) -> int | None:
    """Rows between spikes, where most spikes lie on one period and most of its places show one."""
    rows = np.flatnonzero(spikes)
    if rows.size < LEAST_SPIKES:
        return None
    period = int(np.median(np.diff(rows)))
    if period < SHORTEST:
        return None
    phase = int(np.bincount(rows % period).argmax())
    on = rows[rows % period == phase]
    places = (int(on[-1]) - int(on[0])) // period + 1
    return period if on.size >= MOSTLY * rows.size and on.size >= max(MOSTLY * places, LEAST_SPIKES) else None


def _by_length(surplus: Surplus, longer: Surplus | None) -> bool:
    """Whether completions are longer at the same steps, by at least half as much."""
    if longer is None:
        return False
    at = surplus.steps[surplus.spikes]
    beside = longer.at(at)
    return bool(beside.size and np.median(beside) >= LENGTHENED * np.median(surplus.share[surplus.spikes]))


def _by_reuse(surplus: Surplus, background: Background, period: int) -> bool:
    """Whether the slow steps are those that generate, where a batch is used for several updates."""
    if background.reuse is not None and period == round(background.reuse):
        return True
    made = background.generating
    sparse = 0 < made.size < 0.75 * surplus.steps.size
    return sparse and float(np.isin(surplus.steps[surplus.spikes], made).mean()) >= MOSTLY

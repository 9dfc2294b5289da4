"""SY107 run-stalled."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vario.instruments import Pace
from vario.instruments.systems import Stretch
from vario.rules.base import Doubt, Evidence, Excluded, Severity, Sign, number, rule
from vario.stats.spread import median

NOTHING = 10.0
"""Times the usual time a row: a tenth of the usual pace is next to nothing."""
STALL_SECONDS = 1800.0
"""A single row counts as a stall from half an hour on: what SageMaker's StalledTrainingRule waits by default."""
LAST_ROWS = 3
RECENT_ROWS, RECENT_SHARE = 10, 0.03
"""A stall is present for so many rows: those between two looks of a monitor."""
WARM_UP = 5
"""First rows, which compile, load and fill caches."""
ACCOUNTED = 0.5
"""A logged save or evaluation explains a stretch of which it makes half."""
LENGTHENED = 3.0
"""Lengths that tripled explain a tenfold time: attention is quadratic in them."""


@rule(
    "SY107",
    "run-stalled",
    Severity.WARNING,
    holds=1,
    causes=(
        "a reward service, tool or sandbox that does not answer",
        "a sampling engine that hangs, or pages its cache",
        "storage or network that stopped; a machine that was taken away",
    ),
)
def run_stalled(pace: Pace) -> Iterator[Sign]:
    """The run comes to a stop, or to a crawl, without ending.

    What it shows:
        The last rows took over ten times as long as is usual in this run, or the tokens a second fell to a tenth; or
        half an hour and ten times the usual passed before one of them.
    Why it matters:
        Devices are paid for and nothing is learnt; often the process does not end by itself.
    Evidence:
        Usual seconds a row and those of the last rows, and the step after which it began.
    Looks like it but is not:
        The gap of a resume. A row that holds a logged save or evaluation. Compilation in the first rows. Much longer
        completions. A slow stretch that is over stays in the report as passed.
    What to change:
        Look at what the step waits for at that time (the phase that grew, the engine's log, the reward service);
        end it, and resume from the last checkpoint.
    How sure:
        High from three rows on. A run that stops dead logs no row: that only a live monitor sees.
    References:
        SageMaker Debugger, StalledTrainingRule (1800 s); taxonomy of public threads, slow_rollout (verl issue 4896:
        handing over weights grew from seconds to 25 minutes)
    """
    recent = max(RECENT_ROWS, int(RECENT_SHARE * pace.rows))
    for stretch in pace.stretches:
        if stretch.seconds.size <= WARM_UP + LAST_ROWS:
            continue
        usual = median(stretch.seconds[WARM_UP:])
        if usual <= 0.0:
            continue
        slow = stretch.seconds > NOTHING * usual
        if slow[-LAST_ROWS:].all() and not _longer(pace, stretch):
            began = int(np.flatnonzero(~slow)[-1]) + 1
            yield Evidence(
                f"the last {slow.size - began} rows took {number(median(stretch.seconds[began:]))} s each, {number(usual)} s are usual here",
                (stretch.name,),
                int(stretch.steps[began]),
            )
            return
        alone = np.flatnonzero(slow & (stretch.seconds > STALL_SECONDS))
        for i in alone[(alone >= WARM_UP) & (alone >= slow.size - recent)].tolist():
            step, took = int(stretch.steps[i]), float(stretch.seconds[i])
            if step in pace.resumed or pace.accounted(step) > ACCOUNTED * took:
                continue
            yield Evidence(
                f"{number(took / 60.0)} minutes passed before step {step} was logged, {number(usual)} s are usual here",
                (stretch.name,),
                step,
            )
            yield Excluded("no resume, and no logged save or evaluation that long, lies at this step")
            yield Doubt("one row only")
            return
    tokens = pace.throughput
    if tokens is None:
        return
    usual = median(tokens.values[WARM_UP:])
    crawls = tokens.values < usual / NOTHING
    if usual > 0.0 and crawls[-LAST_ROWS:].all():
        began = int(np.flatnonzero(~crawls)[-1]) + 1
        yield Evidence(
            f"{number(median(tokens.values[began:]))} tokens a second over the last {crawls.size - began} rows, {number(usual)} are usual here",
            (tokens.name,),
            int(tokens.steps[began]),
        )


def _longer(pace: Pace, stretch: Stretch) -> bool:
    """Whether completions got so much longer at the same rows that they explain it."""
    length = pace.length
    if length is None:
        return False
    step = int(stretch.steps[-1])
    return length.level_at(step, LAST_ROWS) > LENGTHENED * length.level_at(int(stretch.steps[-2 * LAST_ROWS]), 20)

"""RU110 resume-discontinuity."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Record
from vario.rules.base import Doubt, Evidence, Severity, Sign, number, rule


@rule(
    "RU110",
    "resume-discontinuity",
    Severity.WARNING,
    holds=1,
    lasting=True,
    causes=("optimiser state lost", "data order restarted", "another reference or sampler weights after the resume"),
    explains=(
        "kl-reset",
        "data-shift",
        "length-jumped",
        "signal-dropped-suddenly",
        "loss-discontinuity",
        "step-time-jumped",
    ),
)
def resume_discontinuity(record: Record) -> Iterator[Sign]:
    """Several metrics jump exactly where the run was resumed.

    What it shows:
        A resume in the history, and level shifts within three steps after it.
    Why it matters:
        What was restored is not what was saved: the run goes on as another one.
    Evidence:
        The step of the resume and each jump.
    Looks like it but is not:
        A clean resume (steps repeat, levels go on); a shift far from the seam.
    What to change:
        Restore optimiser, scheduler, data position and reference together.
    How sure:
        High when two or more jump.
    References:
        taxonomy of public threads, resume_discontinuity
    """
    for event in record.events:
        if event.kind != "resume":
            continue
        jumps = []
        for name in ("reward/mean", "kl/reference", "entropy/mean", "length/mean", "gradient/norm", "learning-rate"):
            reading = record.find(name)
            if reading is not None:
                jumps += [(name, s) for s in reading.shifts if -1 <= s.step - event.step <= 3]
        if jumps:
            yield Evidence(event.text, (), event.step)
            for name, shift in jumps:
                yield Evidence(f"{name} went from {number(shift.before)} to {number(shift.after)}", (name,), shift.step)
            if len(jumps) == 1:
                yield Doubt("one metric only")

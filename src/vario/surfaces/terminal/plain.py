"""Lines for a log file: what changed, and how each run stands. No colour, no control of a terminal."""

from __future__ import annotations

from vario.surfaces.live.notices import OF_FINDINGS, Notice
from vario.surfaces.live.watched import WatchedRun
from vario.surfaces.terminal.columns import clean, fit, wrap
from vario.surfaces.terminal.times import span, stamp

WIDTH = 80
INDENT = "    "
NAME = 24
LONG = 100
"""Characters of a text that still stand in one line; a longer one is parted at its first colon, where it has one."""


def headline(notice: Notice) -> tuple[str, list[str]]:
    """What a notice says in one line, and its further lines: inert, not wrapped."""
    lines = [clean(line) for line in notice.text.splitlines() if line.strip()]
    bare = notice.kind not in OF_FINDINGS and notice.title == f"{notice.run}: {notice.kind.value}"
    if bare and lines:  # the title repeats run and kind, which stand beside it
        first, colon, rest = lines[0].partition(": ")
        if len(lines[0]) > LONG and colon and len(first) <= LONG:
            return first, [rest, *lines[1:]]
        return lines[0], lines[1:]
    return clean(notice.title), lines


def line_of(notice: Notice, width: int = WIDTH) -> str:
    """A notice for a log file: local time, run, step, kind, severity, what is told; evidence on indented lines.

    The first line stays whole, for `grep`; those behind it have at most `width` columns.
    """
    title, more = headline(notice)
    step = "step -" if notice.step is None else f"step {notice.step}"
    run = clean(notice.run).replace(" ", "_") or "-"  # the fields of a line are told apart by blanks
    lines = [f"{stamp(notice.at)} {run} {step} {notice.kind.value} {notice.severity} {title}"]
    for line in more:
        lines += wrap(line, width, INDENT + "  ", INDENT)
    return "\n".join(lines)


def status_line(watched: WatchedRun) -> str:
    """How a run stands, in one line of at most 80 columns: advice, trajectory, step, pause between rows, status."""
    diagnosis, pause = watched.diagnosis, watched.seconds_per_row
    action = "-" if diagnosis is None else diagnosis.verdict.action
    trajectory = "-" if diagnosis is None else diagnosis.verdict.trajectory
    step = None if watched.run is None else watched.run.last_step
    told = "step -" if step is None else f"step {step}"
    rate = "-" if pause is None else f"{span(pause)}/row"
    return (
        f"{fit(watched.name, NAME)} {fit(action, 11)} {fit(trajectory, 9)} {told:<12} {rate:>10} {watched.status.value}"
    )

"""How the lines of a screen are shared among its parts, and its columns between the list of runs and the chosen one."""

from __future__ import annotations

from dataclasses import dataclass

STACKED = 72
"""Columns below which the list of runs stands above, not beside."""
STACKED_SHARE = 0.25
LIST_SHARE, LIST_LEAST, LIST_MOST = 0.36, 24, 48
BESIDE_NAME = 14
"""Columns of the list that are not the name: light, advice or status, blanks, the line beside it."""
SHORT, TINY = 34, 22
"""Lines below which the reasons of the verdict are cut to two, and to one."""
REASONS_TINY, REASONS_SHORT, REASONS_TALL = 1, 2, 4
FRAME = 3
"""Lines that are always there: the head, what was noticed last, the keys."""
TITLES = 2
GAUGES_SHARE, GAUGES_LEAST = 0.45, 5
FINDINGS_SHARE, FINDINGS_LEAST = 0.25, 3
DETAIL_LEAST = 4
"""Lines, its title among them, below which the detail of a finding is left to its own sheet."""
BESIDE_LEAST = 12


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of the list of runs (0: it is not shown) and of the right part, and whether the list stands above."""

    runs: int
    right: int
    stacked: bool


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of gauges, findings and detail (its title included; 0: not shown), and whether notes have theirs."""

    gauges: int
    findings: int
    detail: int
    beside: bool


def columns(width: int, runs: int, longest: int) -> Columns:
    """Share the columns of a screen among so many runs, the longest name of them, and the chosen run."""
    if runs <= 1:
        return Columns(0, width, False)
    if width < STACKED:
        return Columns(width, width, True)
    wide = max(LIST_LEAST, min(longest + BESIDE_NAME, LIST_MOST, int(LIST_SHARE * width)))
    return Columns(wide, width - wide, False)


def stacked_lines(height: int, runs: int) -> int:
    """Lines of a list of runs that stands above, its title included."""
    return min(runs + 1, max(3, round(STACKED_SHARE * height)))


def reasons(height: int) -> int:
    """Lines for the reasons of the verdict."""
    return REASONS_TINY if height < TINY else REASONS_SHORT if height < SHORT else REASONS_TALL


def lines(room: int, gauges: int, findings: int, beside: int) -> Lines:
    """Share what the verdict leaves.

    Args:
        room: lines below the verdict. gauges, findings, beside: lines that each would fill.
    """
    told = room >= BESIDE_LEAST and beside > 0
    left = room - TITLES - (beside if told else 0)
    found = max(1, min(max(1, findings), max(FINDINGS_LEAST, int(FINDINGS_SHARE * left)), left - 1))
    drawn = max(0, min(gauges, max(GAUGES_LEAST, int(GAUGES_SHARE * left)), left - found))
    rest = left - found - drawn
    if findings and rest >= DETAIL_LEAST:
        return Lines(drawn, found, rest, told)
    drawn = min(gauges, drawn + max(0, rest))
    return Lines(drawn, max(found, min(findings, left - drawn)), 0, told)

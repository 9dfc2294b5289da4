"""How a screen is shared: never more than there is, and what matters most first."""

from __future__ import annotations

from itertools import product

from vario.surfaces.terminal.space import TITLES, columns, lines, reasons, stacked_lines


def test_no_line_is_given_twice() -> None:
    for room, gauges, findings, beside in product(range(4, 80), (1, 15, 40), (0, 1, 4, 30), (0, 2)):
        share = lines(room, gauges, findings, beside)
        given = share.gauges + share.findings + share.detail + TITLES + (beside if share.beside else 0)
        assert given <= room, (room, gauges, findings, beside)
        assert share.findings >= 1
        assert share.gauges <= gauges
        assert not (share.detail and not findings)


def test_a_usual_terminal_shows_gauges_findings_and_some_detail() -> None:
    share = lines(24 - 3 - 6, 15, 1, 2)  # 80x24, with the verdict in six lines
    assert (share.gauges, share.findings, share.beside) == (5, 1, True)
    assert share.detail >= 4


def test_a_high_one_shows_them_all() -> None:
    assert lines(60, 15, 4, 2).gauges == 15
    assert lines(60, 15, 4, 2).findings == 4
    assert lines(60, 15, 4, 2).detail > 20


def test_without_a_finding_the_gauges_take_the_room() -> None:
    assert lines(30, 40, 0, 2).gauges > lines(30, 40, 3, 2).gauges
    assert lines(30, 40, 0, 2).detail == 0


def test_columns() -> None:
    assert columns(120, 1, 20).runs == 0
    assert columns(60, 5, 20).stacked
    wide = columns(120, 5, 20)
    assert not wide.stacked
    assert wide.runs + wide.right == 120
    assert columns(80, 50, 90).right > 50
    assert columns(120, 5, 8).runs < columns(120, 5, 20).runs < columns(120, 5, 90).runs
    assert stacked_lines(20, 50) <= 6
    assert stacked_lines(20, 2) == 3


def test_reasons_grow_with_the_screen() -> None:
    assert reasons(20) < reasons(24) < reasons(50)

"""Lines for a log file."""

from __future__ import annotations

import unicodedata
from datetime import datetime

import pytest

from tests.terminal.feeds import HOSTILE, Growing, Nothing, hostile, lab, recorded, watched
from vario.surfaces.live.notices import Kind, Notice
from vario.surfaces.live.watched import WatchedRun
from vario.surfaces.terminal.columns import cells
from vario.surfaces.terminal.plain import line_of, status_line


@pytest.fixture(scope="module")
def told() -> list[Notice]:
    feed = lab("grpo-reward-bug", rows=10)
    for _ in range(40):
        feed.turn()
    return feed.history


def about(text: str, kind: Kind = Kind.LOST, run: str = "r") -> Notice:
    return Notice(kind, run, kind.value, None, "info", "high", f"{run}: {kind.value}", text, 0.0)


def is_inert(text: str) -> bool:
    return not any(unicodedata.category(c)[0] == "C" or unicodedata.category(c) in ("Zl", "Zp") for c in text)


def test_a_finding_is_one_line_and_its_evidence_is_indented(told: list[Notice]) -> None:
    (notice,) = [n for n in told if n.subject == "reward-function-broke" and n.kind is Kind.OPENED]
    first, *more = line_of(notice).splitlines()
    when, run, word, step, kind, severity, *title = first.split(" ")
    assert datetime.fromisoformat(when).timestamp() == int(notice.at)
    assert datetime.fromisoformat(when).utcoffset() is not None
    assert (run, word, step, kind, severity) == ("grpo-reward-bug", "step", str(notice.step), "opened", "critical")
    assert " ".join(title) == notice.title
    assert more
    assert all(line.startswith("    ") and cells(line) <= 80 for line in more)
    assert " ".join(" ".join(more).split()) == " ".join(notice.text.split())


def test_opened_resolved_and_ended_are_told_apart(told: list[Notice]) -> None:
    kinds = [line_of(n).splitlines()[0].split(" ")[4] for n in told]
    assert {"opened", "resolved", "ended"} <= set(kinds)
    assert kinds[-1] == "ended"


def test_a_long_verdict_is_parted_at_its_colon(told: list[Notice]) -> None:
    first, *more = line_of(told[-1]).splitlines()
    assert first.endswith("ended info stop (high confidence)")
    assert more[0].startswith("    The score falls")


def test_a_title_that_repeats_what_stands_beside_it_gives_way() -> None:
    assert (
        line_of(about("nothing lies there\nsecond")).splitlines()[0].endswith(" r step - lost info nothing lies there")
    )
    assert line_of(about("nothing lies there\nsecond")).splitlines()[1] == "    second"
    assert line_of(about("")).endswith(" r step - lost info r: lost")


def test_a_run_is_one_field() -> None:
    assert line_of(about("x", run="my run 7")).split(" ")[1] == "my_run_7"


def test_hostile_words_make_no_line_and_no_escape() -> None:
    line = line_of(about(HOSTILE, Kind.TROUBLE, HOSTILE))
    assert all(is_inert(part) for part in line.split("\n"))
    assert len(line.split("\n")) == 3  # an end of a line in the text begins an indented one, one in a name does not
    assert all(part.startswith("    ") for part in line.split("\n")[1:])
    assert "[red]c[/red]" in line
    run = watched("grpo-proxy-hack", rows=1000, run=hostile(recorded("grpo-proxy-hack")))
    run.name = HOSTILE
    assert all(is_inert(part) for n in run.look() for part in line_of(n).split("\n"))
    assert is_inert(status_line(run))


@pytest.mark.parametrize("name", ["r", "a-run-of-a-sweep/with-a-name/that-is-long", "走る" * 20, "e\u0301" * 40])
def test_a_status_line_fits_and_keeps_its_columns(name: str) -> None:
    run = WatchedRun(name, Growing(recorded("grpo-proxy-hack"), 60))
    waiting = status_line(run)
    run.look()
    run.look()
    line = status_line(run)
    assert cells(line) <= 80
    *_, word, step, _pause, unit, status = line.split()
    assert (word, step, unit, status) == ("step", "120", "s/row", "live")
    assert run.diagnosis is not None
    assert f" {run.diagnosis.verdict.action} " in line
    assert f" {run.diagnosis.verdict.trajectory} " in line
    assert waiting.endswith(" waiting")
    assert cells(line[: line.index(" step ")]) == cells(waiting[: waiting.index(" step ")])


def test_nothing_has_come_yet() -> None:
    run = WatchedRun("r", Nothing())
    run.look()
    assert status_line(run).split() == ["r", "-", "-", "step", "-", "-", "waiting"]

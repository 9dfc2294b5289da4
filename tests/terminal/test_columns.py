"""Text in columns: inert, and exactly as wide as it is told to be."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.terminal.feeds import HOSTILE
from vario.surfaces.terminal.columns import cells, clean, fit, shorten, wrap
from vario.surfaces.terminal.times import ago, moment, span

TEXTS = st.one_of(st.text(max_size=60), st.text("aé走\u0301\u200f\x1b[]/ -", max_size=60))


@given(TEXTS, st.integers(0, 50))
def test_a_fitted_text_takes_its_columns(text: str, width: int) -> None:
    assert cells(fit(text, width)) == width
    assert cells(shorten(text, width)) <= max(width, 0) or width == 0


@given(TEXTS)
def test_nothing_that_controls_a_terminal_is_left(text: str) -> None:
    assert not any(unicodedata.category(c)[0] == "C" or unicodedata.category(c) in ("Zl", "Zp") for c in clean(text))
    assert clean(clean(text)) == clean(text)


@pytest.mark.parametrize("text", ["abc", "走る走", "e\u0301e", "▁▂▃▄▅▆▇█", "… ─ │", "Ω≈ß", "한글", "\uff46\uff55"])
def test_columns_are_counted_as_the_terminal_application_counts_them(text: str) -> None:
    assert cells(text) == cell_len(text)


def test_head_and_tail_of_a_long_name_stay() -> None:
    assert fit("runs/2026-07/grpo-length-hack-7", 20) == "runs/2…length-hack-7"
    assert fit("short", 8) == "short   "
    assert shorten("a long sentence", 8) == "a long …"


def test_wrapped_lines_are_inert_and_narrow() -> None:
    lines = wrap(f"{HOSTILE} " * 8 + "x" * 90, 40, "    ", "- ")
    assert lines[0].startswith("- ")
    assert all(line.startswith("    ") for line in lines[1:])
    assert all(cells(line) <= 40 for line in lines)
    assert wrap("", 40) == []


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0133, "0.013 s"), (4, "4 s"), (9.25, "9.2 s"), (90, "90 s"), (600, "10 min"), (8000, "2 h"), (300_000, "3 days"), (-5, "0 s")],
)  # fmt: skip
def test_spans(seconds: float, said: str) -> None:
    assert span(seconds) == said


def test_moments() -> None:
    assert ago(3.6) == "4 s ago"
    assert len(moment(1e9, 1e9 + 60)) == len("02:46:40")
    assert moment(1e9, 1.1e9).startswith(("09-08", "09-09"))

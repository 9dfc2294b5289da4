"""docs/notebooks.md: every block is run from top to bottom, on a run that drifted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("pandas")
pytest.importorskip("polars")
pytest.importorskip("matplotlib")

from tests.conftest import ROOT, recorded
from tests.docs.telling import Told, is_printed, is_understood, links_lead_somewhere, table_below, tell, text_of
from vario.surfaces.charts import axes
from vario.surfaces.figures.paper import COLUMN_INCHES, SIZE

PAGE = "notebooks"
SAID = " ".join(text_of(PAGE).split())


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("told")
    recorded("grpo-drift", here / "runs/my-run")
    return here


@pytest.fixture(scope="module")
def told(here: Path) -> list[Told]:
    return tell(PAGE, here, names={"__name__": "page"})


def test_what_the_page_shows_is_printed(told: list[Told]) -> None:
    assert [done.code for done in told] == [0] * len(told)
    assert sum(len(done.shown) for done in told) == 4
    for done in told:
        is_printed(done)


def test_the_files_are_there(told: list[Told], here: Path) -> None:
    assert (here / "drift.pdf").read_bytes().startswith(b"%PDF")
    pictures = re.findall(r"\]\((drift-files/[\w.-]+\.png)\)", (here / "drift.md").read_text())
    assert pictures
    assert all((here / name).read_bytes().startswith(b"\x89PNG") for name in pictures)


def test_numbers_and_marks_of_the_page() -> None:
    assert f"{COLUMN_INCHES} inches by default" in SAID
    assert f"Letters are {SIZE:g} points high" in SAID
    assert axes.NOISE_SDS == 2.0
    assert "two standard deviations" in SAID
    drawn = {row[0] for row in table_below(PAGE, "Figures for papers")}
    kinds = {"thin line", "bold line", "pale band", "dashed line", "dotted line", "dash-dotted green line, hatched"}
    assert kinds < drawn


def test_it_is_linked_and_understood() -> None:
    assert "](notebooks.md)" in (ROOT / "docs/index.md").read_text(encoding="utf-8")
    links_lead_somewhere(PAGE)
    is_understood(PAGE, "report")

"""docs/report.md: every command is run on a run of the project, and every name and number is that of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT, recorded
from tests.docs.telling import (
    Told,
    commands_of,
    is_printed,
    is_understood,
    links_lead_somewhere,
    run,
    table_below,
    tell,
    text_of,
)
from vario.surfaces import exemplars, privacy
from vario.surfaces.cli import FAILED, NOTHING, OK
from vario.surfaces.pages import view

PAGE = "report"
SAID = " ".join(text_of(PAGE).split())


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("told")
    recorded("grpo-drift", here / "grpo-7b")
    return here


@pytest.fixture(scope="module")
def told(here: Path) -> list[Told]:
    return tell(PAGE, here)


def test_every_command_runs(told: list[Told], here: Path) -> None:
    assert [done.line for done in told] == commands_of(PAGE)
    assert len(told) == 5
    for done in told:
        assert done.code == OK, done.out
    assert {p.name for p in here.iterdir()} == {
        "grpo-7b", "grpo-7b.html", "pull-request.md", "pull-request-files", "short.md", "early.html",
    }  # fmt: skip


def test_what_the_page_shows_is_printed(told: list[Told]) -> None:
    assert sum(len(done.shown) for done in told) == 2
    for done in told:
        is_printed(done)


def test_the_parts_stand_in_the_order_of_the_page(told: list[Told], here: Path) -> None:
    text = (here / "grpo-7b.html").read_text(encoding="utf-8")
    heads = [re.sub(r"<[^>]+>", "", head) for head in re.findall(r"<h2[^>]*>(.*?)</h2>", text)]
    named = [row[0] for row in table_below(PAGE, "What stands in it")][1:]
    left_out = {"Completions", "What would decide it"}
    found = [next(name for name in named if head.startswith(name)) for head in heads[1:]]
    assert found == [name for name in named if name not in left_out]
    templates = (ROOT / "src/vario/surfaces/pages/templates/run.html").read_text(encoding="utf-8")
    assert all(f">{name}</h2>" in templates for name in left_out)
    assert "first hour" in (here / "early.html").read_text(encoding="utf-8")


def test_commands_and_options_exist() -> None:
    is_understood(PAGE, "report")
    options = {row[0].strip("`").split()[0] for row in table_below(PAGE, "Options")}
    assert options == {"-o", "--format", "--charts", "--name", "--until", "--pedantic", "--no-text"}


def test_exit_codes(here: Path, tmp_path: Path) -> None:
    log = here / "grpo-7b"
    assert run(f"vario report {log} -o {tmp_path}/a.html --no-replay").code == OK
    assert run(f"vario report {log} -o {tmp_path}/nowhere/a.html --no-replay").code == FAILED
    assert run(f"vario report {tmp_path}/nothing -o {tmp_path}/a.html").code == NOTHING
    assert "Exit codes: 0 it is written, 2 wrong use or it cannot be written, 3 nothing readable" in SAID


def test_numbers_of_the_page() -> None:
    assert (exemplars.MOST, privacy.SHOWN, view.REST) == (6, 1_200, 60)
    for said in ("up to six of the last quarter", "1,200 characters", "the 60 first ones beyond the panels"):
        assert said in SAID


def test_links() -> None:
    links_lead_somewhere(PAGE)
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    assert "](report.md)" in index
    assert "](visual-language.md)" in index
    assert (ROOT / "bench/report.py").is_file()

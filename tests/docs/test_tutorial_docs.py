"""docs/tutorial.md and docs/why-loss-lies.md: every command and block runs, and prints what the page shows."""

from __future__ import annotations

import inspect
import re
import shutil

import pytest

import vario
from tests.conftest import GOLDEN, ROOT
from tests.docs.telling import (
    Told,
    commands_of,
    is_printed,
    is_understood,
    links_lead_somewhere,
    table_below,
    tell,
    text_of,
)
from vario.surfaces.cli import FOUND, OK
from vario.verdict import notes

TUTORIAL, LOSS = "tutorial", "why-loss-lies"
RUNS = {page: set(re.findall(r"\b((?:grpo|rloo|dpo)-[a-z-]+)\b", text_of(page))) for page in (TUTORIAL, LOSS)}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Told]]:
    made = {}
    for page in (TUTORIAL, LOSS):
        here = tmp_path_factory.mktemp(page)
        for name in RUNS[page]:
            shutil.copytree(GOLDEN / name, here / "tests/golden" / name)
        made[page] = tell(page, here)
        there = {p.relative_to(here / "tests/golden") for p in (here / "tests/golden").rglob("*")}
        assert all((GOLDEN / path).exists() for path in there), "nothing is written beside a run"
    return made


@pytest.mark.parametrize("page", [TUTORIAL, LOSS])
def test_every_command_runs(page: str, told: dict[str, list[Told]]) -> None:
    commands = [done for done in told[page] if done.line.startswith("vario ")]
    assert [done.line for done in commands] == commands_of(page)
    for done in commands:
        found = done.line.startswith("vario diagnose tests/golden/grpo-drift") and "--exit-zero" not in done.line
        lenient = "--until 60" in done.line  # nothing was found by then
        assert done.code == (FOUND if found and not lenient else OK), f"{done.line}\n{done.out}"


@pytest.mark.parametrize(("page", "blocks"), [(TUTORIAL, 13), (LOSS, 5)])
def test_what_the_page_shows_is_printed(page: str, blocks: int, told: dict[str, list[Told]]) -> None:
    assert sum(len(done.shown) for done in told[page]) == blocks == text_of(page).count("```text\n")
    for done in told[page]:
        is_printed(done)


@pytest.mark.parametrize("page", [TUTORIAL, LOSS])
def test_commands_and_links_exist(page: str) -> None:
    is_understood(page, "diagnose", "watch", "compare", "report")
    links_lead_somewhere(page)


def test_what_the_tutorial_tells_of_the_run() -> None:
    run = vario.read(GOLDEN / "grpo-drift")
    said = " ".join(text_of(TUTORIAL).split())
    first = {f.name: f.detected_at for f in vario.diagnose(run).findings}
    assert first == {"kl-rises-while-reward-falls": 120}
    assert not [f for f in vario.diagnose(run.until(60)).findings if f.severity != "info"]
    assert [f.name for f in vario.diagnose(run.until(100)).findings if f.severity != "info"] == ["kl-runaway"]
    assert "40 of the 140 steps could have been saved" in said
    assert {40, 60} <= {int(p.name.partition("-")[2]) for p in (GOLDEN / "grpo-drift").glob("checkpoint-*")}
    assert "Six more patterns" in said
    assert len(vario.diagnose(run).findings[0].symptoms) == 6
    other = vario.read(GOLDEN / "grpo-healthy-kl")
    rate, kl = (float(r.config["learning_rate"]) for r in (run, other)), (float(r.config["beta"]) for r in (run, other))  # type: ignore[arg-type]
    assert round((lambda a, b: a / b)(*rate)) == 16
    assert round((lambda a, b: b / a)(*kl)) == 30
    changes = {c.key: c for c in vario.diagnose(run).findings[0].changes}
    for key, was, to in table_below(TUTORIAL, "Change it"):
        change = changes[key.strip("`")]
        assert str(change.current) == was
        assert to.startswith(str(change.suggested))


def test_the_lines_of_the_verdict_are_explained() -> None:
    shown = text_of(TUTORIAL).split("## Read the verdict")[1].split("```")[1]
    for line, _ in table_below(TUTORIAL, "Read the verdict"):
        assert re.search(rf"^  .*\b{line}\b", shown, flags=re.MULTILINE), line


def test_notes_of_the_loss_are_those_of_the_code() -> None:
    named = set(re.findall(r'"(loss-[a-z-]+)"', inspect.getsource(notes)))
    assert {row[0].strip("`") for row in table_below(LOSS, "What vario says of it")} == named


def test_what_is_said_of_the_six_runs() -> None:
    read = {name: vario.read(GOLDEN / name) for name in RUNS[LOSS] if name.startswith(("grpo", "rloo"))}
    truth = read["grpo-proxy-hack"].series["reward/component/correctness/mean"].values
    assert truth[:5].mean() == pytest.approx(0.6, abs=0.05)
    assert truth[-20:].mean() == pytest.approx(0.0, abs=0.01)
    assert read["grpo-reward-bug"].series["reward/mean"].values[90:].max() == 0.0
    for name, run in sorted(read.items()):
        loss = run.series["loss/total"].values
        if name in ("rloo-healthy", "grpo-all-zero"):
            assert abs(loss).max() < 1e-6
        else:
            assert loss[-20:].mean() > loss[:20].mean() + 0.05
        assert run.declared.updates_per_rollout == 1.0


def test_what_is_said_of_preference_training() -> None:
    run = vario.read(GOLDEN / "dpo-overtrain")
    loss, held = run.series["loss/total"].values, run.series["eval/preference/accuracy"].values
    assert loss[-10:].mean() < 0.01 * loss[:10].mean()
    assert abs(held[-3:].mean() - held[1:4].mean()) < 0.02
    assert "### " not in text_of(LOSS)
    assert (ROOT / "docs/rules/index.md").read_text(encoding="utf-8").count("## PF: preference") == 1

"""docs/writing-back.md: its commands are run, those that need a server of others as far as `--dry-run` goes."""

from __future__ import annotations

import contextlib
from datetime import date
from pathlib import Path

import pytest

pytest.importorskip("tensorboardX")

import vario
from tests.annotations.told import rows_of
from tests.conftest import GOLDEN, ROOT, recorded
from tests.docs.telling import (
    Told,
    blocks_of,
    commands_of,
    is_printed,
    is_understood,
    links_lead_somewhere,
    run,
    table_below,
    tell,
    text_of,
)
from vario.surfaces.annotations.entries import annotation_of
from vario.surfaces.annotations.in_tensorboard import FILE
from vario.surfaces.annotations.targets import FORMS
from vario.surfaces.cli import github

PAGE = "writing-back"
ELSEWHERE = ("trackio://", "mlflow+", "wandb://")
SAID = " ".join(text_of(PAGE).split())


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tensorboardX import SummaryWriter

    here = tmp_path_factory.mktemp("told")
    recorded("grpo-drift", here / "runs/my-run")
    with SummaryWriter(str(here / "runs/my-run/logs")) as writer:
        for row in rows_of(GOLDEN / "grpo-drift"):
            writer.add_scalar("train/reward", row["reward"], row["step"])
    return here


@pytest.fixture(scope="module")
def told(here: Path) -> list[Told]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(github.SUMMARY, raising=False)
        return tell(PAGE, here, left=lambda line: any(word in line for word in ELSEWHERE))


def test_what_the_page_shows_is_printed(told: list[Told]) -> None:
    assert sum(len(done.shown) for done in told) == 2
    for done in told:
        is_printed(done)
    assert [done.code for done in told] == [0, 0, 1]


def test_it_was_written(told: list[Told], here: Path) -> None:
    assert (here / "runs/my-run/logs" / FILE).is_file()


@pytest.mark.parametrize("line", [line for line in commands_of(PAGE) if any(word in line for word in ELSEWHERE)])
def test_commands_for_a_server_are_understood(line: str, here: Path) -> None:
    with contextlib.chdir(here):
        done = run(f"{line} --dry-run --no-replay")
    assert done.code == 0, done.out
    assert "STOP" in done.out


def test_the_workflow_s_command_runs(here: Path) -> None:
    yaml = pytest.importorskip("yaml")
    (workflow,) = blocks_of(PAGE, "yaml")
    steps = yaml.safe_load(workflow)["jobs"]["smoke-run"]["steps"]
    (line,) = [step["run"] for step in steps if step["run"].startswith("vario")]
    with contextlib.chdir(here), pytest.MonkeyPatch.context() as patch:
        patch.setenv(github.SUMMARY, str(here / "summary.md"))
        done = run(line)
    assert done.code == 1
    assert (here / "summary.md").read_text().startswith("## STOP: runs/my-run")


def test_every_target_and_every_name_is_told() -> None:
    second = text_of(PAGE).split("| name | holds |")[1].split("\n\n")[0]
    targets = [row for row in table_below(PAGE, "Into a tracker") if len(row) == 4]
    assert len(targets) == len(FORMS.split(" or ")[0].split(", ")) + 1
    for row in targets:
        assert row[0].strip("`").partition("FOLDER")[0].partition("URI")[0] in FORMS
    made = annotation_of(vario.diagnose(vario.read(GOLDEN / "grpo-drift"), replay=False), date(2026, 1, 2))
    for entry in made.entries:
        name = "vario/findings/NAME" if entry.name.startswith("vario/findings/") else entry.name
        assert f"| `{name}` |" in second


def test_it_is_linked_and_understood() -> None:
    assert "](writing-back.md)" in (ROOT / "docs/index.md").read_text(encoding="utf-8")
    links_lead_somewhere(PAGE)
    is_understood(PAGE, "annotate", "diagnose")
    assert "up to the 1 MiB" in SAID
    assert github.LARGEST_SUMMARY == 1 << 20

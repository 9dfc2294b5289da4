"""docs/fleet.md: every command is run on a sweep that is made here, and every table is that of the code."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT, recorded
from tests.docs.telling import Told, commands_of, is_printed, is_understood, on_ray, run, table_below, tell, text_of
from vario.surfaces.cli import FAILED, FOUND, NOTHING, OK
from vario.surfaces.fleet import causes, judging, progress
from vario.surfaces.fleet.page import HEADS, LIMIT
from vario.surfaces.fleet.row import ACTIONS, Row
from vario.work import ray_cluster

pytest.importorskip("polars")

PAGE = "fleet"
TEXT = text_of(PAGE)
SAID = " ".join(TEXT.split())
RUNS = {"lr-7e-5": "grpo-healthy-kl", "lr-1e-3": "grpo-drift", "lr-2e-7": "grpo-lr-too-low", "rloo": "rloo-healthy"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    for name, golden in RUNS.items():
        recorded(golden, home / "sweep" / name)
    (home / "sweep/lr-3e-5").mkdir()
    (home / "sweep/lr-3e-5/config.json").write_text(
        json.dumps({"learning_rate": 3e-5, "num_generations": 8, "per_device_train_batch_size": 8, "output_dir": "out"})
    )
    shutil.copytree(home / "sweep", home / "bucket/experiments")
    return home


@pytest.fixture(scope="module")
def told(home: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Told]:
    here = tmp_path_factory.mktemp("told")
    shutil.copytree(home, here, dirs_exist_ok=True)
    return tell(PAGE, here)


def of(told: list[Told], line: str) -> Told:
    return next(done for done in told if done.line == line)


@pytest.mark.parametrize("line", [line for line in dict.fromkeys(commands_of(PAGE)) if "--ray" not in line])
def test_command_runs(line: str, told: list[Told]) -> None:
    for done in told:
        if done.line == line:
            assert done.code == FOUND, done.out
            assert "internal error" not in done.out
            assert "policy-does-not-move" in done.out


def test_what_the_page_shows_is_printed(told: list[Told]) -> None:
    assert sum(len(done.shown) for done in told) >= 2
    for done in told:
        is_printed(done)


def test_what_is_printed_fits_a_terminal(told: list[Told]) -> None:
    for done in told:
        if done.line.startswith("vario") and "--json" not in done.line:
            assert max(map(len, done.out.splitlines())) <= 80, done.out


def test_commands_in_sentences_are_understood() -> None:
    is_understood(PAGE, "fleet")


def test_it_is_linked() -> None:
    assert "](fleet.md)" in (ROOT / "docs/index.md").read_text(encoding="utf-8")
    assert "](docs/fleet.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_links_lead_somewhere() -> None:
    for page, anchor in re.findall(r"\]\(([\w/-]+\.md)(?:#([\w-]+))?\)", TEXT):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        heads = {
            re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        }
        assert not anchor or anchor in heads, f"{page}#{anchor}"


def test_every_column_is_told() -> None:
    assert [row[0].strip("`") for row in table_below(PAGE, "The table")] == list(HEADS)


def test_numbers_of_the_page() -> None:
    assert (LIMIT, causes.LEAST_RUNS, causes.LEAST_SHARE, progress.PARTS, ray_cluster.TRIES) == (40, 3, 0.05, 10, 3)
    for said in (
        "40 by default",
        "three runs or more, and a twentieth of all",
        "a line at each tenth",
        "is tried three times",
    ):
        assert said in SAID, said
    order = SAID.split("The order is: ")[1].split(";")[0].split(", ")
    assert [word.replace(" ", "-") for word in order] == list(ACTIONS)


def test_exit_codes(home: Path) -> None:
    assert [int(row[0]) for row in table_below(PAGE, "Exit codes")] == [OK, FOUND, FAILED, NOTHING]
    with contextlib.chdir(home):
        quiet = "--quiet --no-replay"
        assert run(f"vario fleet sweep/lr-7e-5 {quiet}").code == OK
        assert run(f"vario fleet sweep/lr-1e-3 {quiet}").code == FOUND
        assert run(f"vario fleet sweep/lr-1e-3 --exit-zero {quiet}").code == OK
        assert run(f"vario fleet sweep/lr-2e-7 --fail-on critical {quiet}").code == OK
        assert run(f"vario fleet sweep/lr-7e-5 sweep/lr-3e-5 {quiet}").code == FOUND
        assert run(f"vario fleet sweep/lr-3e-5 {quiet}").code == NOTHING
        late = run(f"vario fleet sweep/lr-7e-5 --timeout 0.001 {quiet}")
        assert late.code == FAILED
        assert "it took longer than 0.001 s" in late.out


def test_a_line_of_json_holds_what_the_page_says(told: list[Told]) -> None:
    documents = [json.loads(line) for line in of(told, "vario fleet sweep --json").out.splitlines() if line[0] == "{"]
    names = [d["fleet"]["name"] for d in documents]
    assert names[0] == "lr-1e-3"
    assert sorted(names) == sorted([*RUNS, "lr-3e-5"])
    said = {k for row in table_below(PAGE, "Keeping the results") for k in re.findall(r"`([\w]+)`", row[0])}
    assert {key for d in documents for key in d["fleet"]} == {*said, "reason"}
    statuses = {d["fleet"]["status"]: d["schema"] for d in documents}
    assert statuses == {judging.OK: "diagnosis/v1", judging.UNREADABLE: judging.SCHEMA}
    assert judging.SCHEMA == "fleet/v1"


def test_the_table_in_parquet(told: list[Told]) -> None:
    (python,) = (done for done in told if "read_parquet" in done.line)
    assert "lr-1e-3" in python.out
    assert "lr-2e-7" not in python.out
    for column in re.findall(r'"(\w+)"', python.line.split("select")[1]):
        assert column in {f.name for f in dataclasses.fields(Row)}


def test_only_what_has_changed_is_judged_again(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "sweep", tmp_path / "sweep")
    line = "vario fleet sweep --output sweep.jsonl --no-replay"
    with contextlib.chdir(tmp_path):
        run(line)
        with Path("sweep/rloo/trainer_state.json").open("a") as stream:
            stream.write("\n")
        assert "3 of 5 are known from sweep.jsonl" in run(line).out
        assert "known" not in run(line.replace("--no-replay", "--only KL")).out


def test_ray_gives_the_same(told: list[Told], home: Path, tmp_path: Path) -> None:
    (line,) = (line for line in commands_of(PAGE) if "--ray" in line)
    shutil.copytree(home / "sweep", tmp_path / "sweep")
    with on_ray(), contextlib.chdir(tmp_path):
        done = run(f"{line} --quiet")
    (alone,) = (done for done in told if "--workers" in done.line)
    assert done.out == alone.out
    assert done.code == FOUND

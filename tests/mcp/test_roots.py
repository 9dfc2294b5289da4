"""Only what lies at the roots and below can be read: no path, link, setting or address leads out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.dumps import trl_run
from tests.mcp.runs import grow
from tests.mcp.talking import Talk, over_stdio
from vario.errors import ConfigError
from vario.surfaces.mcp.catalogue import Catalogue
from vario.surfaces.mcp.ids import Ref
from vario.surfaces.mcp.roots import Roots
from vario.surfaces.mcp.shelf import Shelf

SECRET = "what nobody may see"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    for place in ("allowed/good", "outside/other", "allowed-too/other"):
        grow(home / place / "log.jsonl", 1, 60)
    trl_run(home / "outside/texts", texts={(60, n): SECRET for n in range(8)})
    (home / "allowed/folder-out").symlink_to(home / "outside/other")
    (home / "allowed/file-out").mkdir()
    (home / "allowed/file-out/log.jsonl").symlink_to(home / "outside/other/log.jsonl")
    (home / "allowed/loop").symlink_to(home / "allowed/loop")
    trl_run(home / "allowed/dump-out", dump=False)
    (home / "allowed/dump-out/completions").symlink_to(home / "outside/texts/completions")
    grow(home / "allowed/setting-out/log.jsonl", 1, 60)
    settings = {"rollout_data_dir": str(home / "outside/texts/completions"), "learning_rate": 1e-6, "num_generations": 4, "output_dir": "x"}
    (home / "allowed/setting-out/config.json").write_text(json.dumps(settings))
    trl_run(home / "allowed/linked-file", steps=20)
    (home / "allowed/linked-file/completions/completions_00060.parquet").symlink_to(
        home / "outside/texts/completions/completions_00060.parquet"
    )
    grow(home / "allowed/linked-config/log.jsonl", 1, 60)
    (home / "allowed/linked-config/config.json").symlink_to(home / "outside/texts/config.json")
    grow(home / "allowed/inner/log.jsonl", 1, 60)
    (home / "allowed/inner/again.jsonl").symlink_to(home / "allowed/inner/log.jsonl")
    return home


@pytest.fixture(scope="module")
def talk(home: Path) -> Iterator[Talk]:
    with over_stdio(home / "allowed", cwd=home, errors=home / "errors") as talk:
        yield talk


@pytest.mark.parametrize(
    "place",
    [
        "outside/other", "../outside/other", "allowed/../outside/other", "good/../../outside/other", "/etc/passwd", "..",
        "allowed-too/other", "folder-out", "loop", "~root", "good\0", "file:///etc/passwd", "s3://bucket/run", "outside/no-such",
    ],
)  # fmt: skip
def test_places_outside_are_refused(talk: Talk, home: Path, place: str) -> None:
    for asked in (place, str(home / place) if "://" not in place else place):
        said = talk.refused("diagnose", run=asked)
        assert "list_runs gives the ids" in said
        assert "policy" not in said


@pytest.mark.parametrize("place", ["good", "allowed/good", "allowed/good/log.jsonl", "./allowed/./good", "inner/again.jsonl"])
def test_places_inside_are_read(talk: Talk, home: Path, place: str) -> None:
    for asked in (place, str(home / "allowed" / place.removeprefix("./").removeprefix("allowed/"))):
        answer, _ = talk.ask("diagnose", run=asked)
        assert answer["run"]["last_step"] == 60


@pytest.mark.parametrize("name", ["file-out", "linked-file", "linked-config"])
def test_a_file_of_a_run_that_leads_out_is_refused(talk: Talk, name: str) -> None:
    said = talk.refused("diagnose", run=name)
    assert "a link that leads out" in said
    listed = {run["name"]: run for run in talk.ask("list_runs")[0]["runs"]}
    assert listed[name]["status"] == "unreadable"
    assert "a link that leads out" in listed[name]["reason"]
    assert "folder-out" not in listed


@pytest.mark.parametrize("name", ["dump-out", "setting-out"])
def test_completions_outside_are_not_shown(talk: Talk, name: str) -> None:
    said = talk.refused("samples", run=name, step=60)
    assert SECRET not in said
    answer, text = talk.ask("diagnose", run=name, detail="full")
    assert SECRET not in json.dumps(answer) + text
    told = "lie outside of what this server may read: not shown"
    # a link to a folder is not followed: of it nothing is known
    assert (told in said, any(told in line for line in answer["warnings"])) == ((name == "setting-out",) * 2)


def test_a_link_that_is_put_there_later(talk: Talk, home: Path) -> None:
    grow(home / "allowed/turned/log.jsonl", 1, 60)
    answer, _ = talk.ask("diagnose", run="turned")
    (home / "allowed/turned/log.jsonl").unlink()
    (home / "allowed/turned/log.jsonl").symlink_to(home / "outside/other/log.jsonl")
    assert "leads out" in talk.refused("diagnose", run=answer["run"]["id"])
    (home / "allowed/turned/log.jsonl").unlink()
    (home / "allowed/turned").rmdir()
    (home / "allowed/turned").symlink_to(home / "outside/other")
    assert "leads out" in talk.refused("diagnose", run=answer["run"]["id"])
    (home / "allowed/turned").unlink()


def test_without_a_path_the_current_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home / "allowed")
    roots = Roots([])
    assert roots.admit("good") == str(home / "allowed/good")
    with pytest.raises(ConfigError, match="outside"):
        roots.admit(str(home / "outside/other"))


def test_a_single_file_is_a_root(home: Path) -> None:
    log = home / "allowed/good/log.jsonl"
    catalogue = Catalogue(Shelf(Roots([str(log)])))
    (document,) = catalogue.listing().documents
    assert document["run"]["path"] == str(log)
    assert catalogue.ref(Ref(str(log)).id) == Ref(str(log))
    assert catalogue.ref(str(log)) == Ref(str(log))
    with pytest.raises(ConfigError, match="outside"):
        catalogue.ref(str(home / "allowed/inner"))


def test_addresses_are_those_given_and_below(tmp_path: Path) -> None:
    roots = Roots(["s3://bucket/mine/"])
    assert roots.all == ("s3://bucket/mine",)
    assert roots.admit("s3://bucket/mine/run-1") == "s3://bucket/mine/run-1"
    for place in (
        "s3://bucket", "s3://bucket/mine-too", "s3://bucket/mine/../other", "s3://bucket/mine/%2e%2e/other", "s3://other/mine",
        "s3://bucket/mine/a?b", "s3://bucket/mine//a", str(tmp_path),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match="outside"):
            roots.admit(place)


def test_a_root_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing lies there"):
        Roots([str(tmp_path / "none")])


def test_a_root_may_be_a_link_itself(home: Path, tmp_path: Path) -> None:
    (tmp_path / "root").symlink_to(home / "allowed")
    roots = Roots([str(tmp_path / "root")])
    assert roots.admit("good") == os.path.realpath(home / "allowed/good")

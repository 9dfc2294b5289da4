"""What is kept between calls: nothing is read twice while it stays as it is, and everything is once it has grown."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.dumps import trl_run
from tests.conftest import GOLDEN
from tests.mcp.runs import grow
from tests.mcp.talking import Talk, over_stdio
from vario.errors import ConfigError
from vario.surfaces.mcp import shelf as shelves
from vario.surfaces.mcp.catalogue import Catalogue
from vario.surfaces.mcp.ids import Ref
from vario.surfaces.mcp.roots import Roots
from vario.surfaces.mcp.shelf import Shelf


def shelf_at(folder: Path) -> Shelf:
    return Shelf(Roots([str(folder)]))


def test_a_run_is_read_once_while_nothing_changes(tmp_path: Path) -> None:
    grow(tmp_path / "log.jsonl", 1, 50)
    shelf, ref = shelf_at(tmp_path), Ref(str(tmp_path / "log.jsonl"))
    first = shelf.look(ref)[1]
    assert shelf.look(ref)[1] is first
    assert shelf.look(ref, 30)[1] is shelf.look(ref, 30)[1]
    assert shelf.look(ref, 50)[1] is first
    assert shelf.readings == 1
    grow(tmp_path / "log.jsonl", 51, 60)
    assert shelf.look(ref)[1].run.last_step == 60
    assert shelf.readings == 2


@pytest.mark.parametrize("what", ["vario.toml", "config.json", "vario-marks.jsonl", "completions/completions_00100.parquet"])
def test_whatever_a_judgement_rests_on_counts(tmp_path: Path, what: str) -> None:
    run = trl_run(tmp_path / "run")
    shelf, ref = shelf_at(tmp_path), Ref(str(run))
    shelf.held(ref)
    shelf.held(ref)
    assert shelf.readings == 1
    made = {
        "vario.toml": '[suppress]\nlength-growing = "meant"\n',
        "config.json": '{"beta": 0.5, "learning_rate": 1e-6}',
        "vario-marks.jsonl": '{"step": 2, "number": 0, "word": "good"}\n',
    }.get(what)
    if made is None:
        (run / what).unlink()
    else:
        (run / what).write_text(made)
    shelf.held(ref)
    assert shelf.readings == 2


def test_a_file_that_the_project_names_counts(tmp_path: Path) -> None:
    grow(tmp_path / "runs/log.jsonl", 1, 50)
    grow(tmp_path / "good.jsonl", 1, 50)
    (tmp_path / "runs/vario.toml").write_text('[declare]\nreference = "../good.jsonl"\n')
    shelf, ref = shelf_at(tmp_path), Ref(str(tmp_path / "runs"))
    assert shelf.held(ref).run.declared.reference
    grow(tmp_path / "good.jsonl", 51, 60)
    shelf.held(ref)
    assert shelf.readings == 2


def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    for n in range(shelves.MOST_RUNS + 2):
        grow(tmp_path / f"{n}.jsonl", 1, 20)
    shelf = shelf_at(tmp_path)
    refs = [Ref(str(tmp_path / f"{n}.jsonl")) for n in range(shelves.MOST_RUNS + 2)]
    for ref in refs:
        shelf.held(ref)
    shelf.held(refs[-1])
    assert shelf.readings == len(refs)
    shelf.held(refs[0])
    assert shelf.readings == len(refs) + 1, "the oldest had gone"
    for step in range(5, 5 + 2 * shelves.MOST_STEPS):
        shelf.look(refs[0], step)
    assert len(shelf.held(refs[0]).looks) == shelves.MOST_STEPS


def test_many_threads_read_a_run_once(tmp_path: Path) -> None:
    grow(tmp_path / "log.jsonl", 1, 80)
    shelf, ref = shelf_at(tmp_path), Ref(str(tmp_path / "log.jsonl"))
    found = []
    threads = [threading.Thread(target=lambda: found.append(shelf.look(ref)[1])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(one is found[0] for one in found)
    assert shelf.readings == 1


def test_a_listing_judges_only_what_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        grow(tmp_path / name / "log.jsonl", 1, 40)
    catalogue = Catalogue(shelf_at(tmp_path))
    asked: list[str] = []
    really = catalogue._judged
    monkeypatch.setattr(catalogue, "_judged", lambda job: asked.append(job.name) or really(job))
    assert len(catalogue.listing().documents) == 2
    catalogue.listing()
    assert sorted(asked) == ["a", "b"]
    grow(tmp_path / "b/log.jsonl", 41, 45)
    catalogue.listing()
    assert sorted(asked) == ["a", "b", "b"]


def test_a_long_list_is_judged_over_several_calls(tmp_path: Path) -> None:
    for name in "abc":
        grow(tmp_path / name / "log.jsonl", 1, 40)
    catalogue = Catalogue(shelf_at(tmp_path))
    left = []
    for _ in range(4):
        listing = catalogue.listing(patience=0.0)
        left.append(len(listing.pending))
        assert len(listing.documents) + len(listing.pending) == 3
    assert left == [2, 1, 0, 0]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def talk(home: Path) -> Iterator[Talk]:
    with over_stdio(home, cwd=home, errors=home / "errors") as talk:
        yield talk


def test_several_runs_at_a_path_have_ids_of_their_own(talk: Talk, home: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(GOLDEN / "grpo-drift", home / "both" / name)
    said = talk.refused("diagnose", run="both")
    assert "2 runs lie here" in said
    for word in said.split("one of ")[1].split(", "):
        assert talk.ask("diagnose", run=word)[0]["run"]["last_step"] == 140


def test_a_growing_log(talk: Talk, home: Path) -> None:
    log = home / "live/log.jsonl"
    grow(log, 1, 40)
    word = talk.ids()["live"]
    assert talk.ask("diagnose", run=word)[0]["at_step"] == 40
    grow(log, 41, 120, reward=0.0)
    with log.open("a") as stream:
        stream.write('{"step": 121, "rew')  # a line that is being written
    answer, _ = talk.ask("diagnose", run=word, since=40)
    assert answer["at_step"] == 120
    opened = {f["name"]: f for f in answer["findings"] if f["moved"] == "opened"}
    assert opened
    assert all(f["id"].startswith(f"{word}/") for f in opened.values())
    assert talk.ids()["live"] == word
    log.unlink()
    log.parent.rmdir()
    assert "does not exist" in talk.refused("diagnose", run=word)


def test_the_project_file_counts(talk: Talk, home: Path) -> None:
    shutil.copytree(GOLDEN / "grpo-drift", home / "drift")
    word = talk.ids()["drift"]
    assert "kl-rises-while-reward-falls" in {f["name"] for f in talk.ask("diagnose", run=word)[0]["findings"]}
    project = home / "drift/vario.toml"
    project.write_text('[suppress]\nkl-rises-while-reward-falls = "known"\n')
    assert "kl-rises-while-reward-falls" not in {f["name"] for f in talk.ask("diagnose", run=word)[0]["findings"]}
    listed = next(run for run in talk.ask("list_runs")[0]["runs"] if run["id"] == word)
    assert not any("kl-rises-while-reward-falls" in finding for finding in listed["findings"])
    project.write_text("[nonsense]\n")
    assert "knows no section 'nonsense'" in talk.refused("diagnose", run=word)
    project.write_text('[rules]\nload = ["mine.py"]\n')
    (home / "drift/mine.py").write_text(f"open({str(home / 'ran')!r}, 'w')")
    assert "runs code" in talk.refused("diagnose", run=word)
    assert not (home / "ran").exists(), "code beside somebody's log was run"


def test_an_id_stands_for_one_place() -> None:
    refs = [Ref("/a/run"), Ref("/b/run"), Ref("/a/run", "1"), Ref("/a/run", "2"), Ref("/a/run/1")]
    assert len({ref.id for ref in refs}) == len(refs)
    assert Ref("/a/run").id == "run-f6faa658", "an id that changes breaks what agents have noted"
    for path in ("/a/\x1b[2J", "/a/" + "x" * 300, "/", "s3://b/é ü", "/a/..."):
        assert Ref(path).id.isascii()
        assert len(Ref(path).id) <= 41


def test_refused_before_anything_is_read(tmp_path: Path) -> None:
    grow(tmp_path / "in/log.jsonl", 1, 20)
    grow(tmp_path / "out/log.jsonl", 1, 20)
    shelf = shelf_at(tmp_path / "in")
    with pytest.raises(ConfigError, match="leads out"):
        shelf.held(Ref(str(tmp_path / "out")))
    assert shelf.readings == 0

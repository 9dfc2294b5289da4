"""Where the state lies, and what a run is called in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vario.sources.folder import look
from vario.surfaces.state import State, StateError, place_of, run_key, shown_place


@pytest.fixture(autouse=True)
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The place in the user's folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    return f"sqlite:///{tmp_path}/user/vario/vario-state.sqlite"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "outputs" / "a run? #1"
    folder.mkdir(parents=True)
    (folder / "log.jsonl").write_text('{"step": 1, "loss": 1.0}\n')
    (folder / "project.db").touch()
    return folder


def test_beside_the_run(run: Path) -> None:
    beside = f"sqlite:///{run}/vario-state.sqlite"
    assert place_of(str(run)) == beside
    assert place_of(str(run / "log.jsonl")) == beside
    assert place_of(str(run / "project.db") + "#one") == beside
    assert place_of(str(run / "not-yet.jsonl")) == beside


def test_a_run_that_was_followed_before_it_had_a_folder_keeps_its_place(tmp_path: Path) -> None:
    coming = tmp_path / "coming"
    before = place_of(str(coming))
    assert before == f"sqlite:///{tmp_path}/vario-state.sqlite"
    key = run_key(str(coming), before)
    State.open(before).close()
    coming.mkdir()
    assert place_of(str(coming)) == before
    assert run_key(str(coming), before) == key == "coming"


def test_with_the_user(users: str, tmp_path: Path) -> None:
    for path in ("-", "https://host/log.jsonl", "s3://bucket/run", "/proc/self/log", str(tmp_path / "no/such/log")):
        assert place_of(path) == users
    with State.open(users) as state:
        assert state.count("run", "x", 1.0) == 1
    assert (tmp_path / "user" / "vario").stat().st_mode & 0o777 == 0o700


def test_without_a_folder_of_the_kind_the_standard_says_where(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/void")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert place_of("-") == f"sqlite:///{tmp_path}/.local/state/vario/vario-state.sqlite"


def test_what_is_wished_wins(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wished = {
        "my.sqlite": f"sqlite:///{tmp_path}/my.sqlite",
        str(run): f"sqlite:///{run}/vario-state.sqlite",
        "sqlite:///my.sqlite": f"sqlite:///{tmp_path}/my.sqlite",
        "sqlite:////data/my.sqlite": "sqlite:////data/my.sqlite",
        "sqlite+pysqlite:////data/my.sqlite": "sqlite:////data/my.sqlite",
        "postgresql://me@host/team": "postgresql+psycopg://me@host/team",
        "postgres://me:pw@host/team?sslmode=require": "postgresql+psycopg://me:pw@host/team?sslmode=require",
        "postgresql+psycopg://host/team": "postgresql+psycopg://host/team",
        "postgresql+psycopg2://host/team": "postgresql+psycopg://host/team",
    }
    assert {w: place_of(str(run), w) for w in wished} == wished
    for bad in ("mysql://host/x", "sqlite://", "sqlite:///:memory:"):
        with pytest.raises(StateError, match=r"SQLite"):
            place_of(str(run), bad)


def test_strange_names_are_opened_as_they_are(run: Path) -> None:
    place = place_of(str(run))
    with State.open(place) as state:
        assert state.count(run_key(str(run), place), "x", 1.0) == 1
    assert sorted(p.name for p in run.iterdir()) == ["log.jsonl", "project.db", "vario-state.sqlite"]


def test_the_state_beside_a_log_is_no_log(run: Path) -> None:
    state = State.open(place_of(str(run)))
    state.count("run", "x", 1.0)
    assert (run / "vario-state.sqlite-wal").exists()
    assert look(run).logs == [run / "log.jsonl", run / "project.db"]
    state.close()
    (run / "vario-state.sqlite").write_bytes(b"broken" * 100)
    State.open(place_of(str(run))).close()
    assert look(run).logs == [run / "log.jsonl", run / "project.db"]


def test_a_run_is_called_the_same_by_all(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "latest"
    link.symlink_to(run)
    monkeypatch.chdir(run.parent)
    place = place_of(str(run))
    server = "postgresql+psycopg://host/team"
    for name in (str(run), str(link), run.name, f"./{run.name}/"):
        assert place_of(name) == place
        assert run_key(name, place) == "."
        assert run_key(name, server) == run_key(name) == str(run)
    assert run_key(f"{run}/log.jsonl", place) == "log.jsonl"
    assert run_key(f"{run}/project.db#one", place) == "project.db#one"
    assert run_key(f"{run}/project.db#one", server) == f"{run}/project.db#one"


def test_a_folder_that_is_moved_is_the_same_run(run: Path) -> None:
    place = place_of(str(run))
    with State.open(place) as state:
        state.count(run_key(str(run), place), "x", 1.0)
    moved = run.rename(run.with_name("elsewhere"))
    place = place_of(str(moved))
    with State.open(place) as state:
        assert state.count(run_key(str(moved), place), "x", 1.0) == 2


def test_a_name_that_is_no_text_is_a_key(tmp_path: Path) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    try:
        Path(folder).mkdir()
    except OSError:
        pytest.skip("this file system takes no such names")
    assert run_key(folder) == f"{tmp_path}/\\xff"


def test_an_address_is_called_without_its_secrets() -> None:
    assert run_key("https://me:secret@host/log.jsonl") == "https://[masked]@host/log.jsonl"
    assert run_key("s3://bucket/run") == "s3://bucket/run"
    assert run_key("-").startswith("standard input in /")


def test_a_place_is_shown_without_its_secrets() -> None:
    shown = {
        "sqlite:////data/my\x1b.sqlite": "/data/my?.sqlite",
        "postgresql+psycopg://me:secret@host:5433/team?password=secret": "postgresql://host:5433/team",
        "postgresql+psycopg://me:se/cr?et@host/team": "postgresql://host/team",
        "postgresql+psycopg://me:se@cret@host/team": "postgresql://[masked]",
        "postgresql+psycopg://[::1]/team": "postgresql://[::1]/team",
        "postgresql+psycopg:///team?host=/run/secret": "postgresql://localhost/team",
    }
    assert {place: shown_place(place) for place in shown} == shown


def test_without_sqlalchemy_the_message_names_the_extra() -> None:
    script = "import sys; sys.modules['sqlalchemy'] = None\nfrom vario.surfaces.state import place_of, State\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.strip().splitlines()[-1].startswith("vario.errors.StateError: ")
    assert 'pip install "vario[live]"' in done.stderr


def test_sqlalchemy_is_loaded_when_it_is_needed() -> None:
    script = "import sys, vario.surfaces.state as s; s.place_of('-'); sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], timeout=60, check=False).returncode == 0

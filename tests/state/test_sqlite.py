"""What can befall a file."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.state.test_state import ENDED, OPENED, RUN, claim
from vario.surfaces.state import State, StateError, place_of, sqlite
from vario.surfaces.state.database import LONGEST


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vario-state.sqlite"


def opened(path: Path) -> State:
    return State.open(place_of("-", str(path)))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another connection that lets nobody in."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        yield


def test_a_locked_database_is_waited_for_and_then_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "WAIT", 0.2)
    with opened(path) as state:
        state.remember(RUN, [OPENED])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            began = time.monotonic()
            with pytest.raises(StateError, match=r"vario-state.sqlite: it is locked by another process.*0.2 s"):
                state.remember(RUN, [ENDED])
            assert time.monotonic() - began < LONGEST
            assert set(state.told(RUN)) == {"kl-spike"}, "who only reads is not kept out"
        state.remember(RUN, [ENDED])
        assert len(state.history(RUN)) == 2, "what failed left nothing behind"


def test_a_database_that_is_locked_from_the_start(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "WAIT", 0.2)
    opened(path).close()
    with locked(path), pytest.raises(StateError, match="it is locked by another process"):
        opened(path)
    opened(path).close()


def test_a_lock_that_is_freed_in_time_is_nobodys_business(path: Path) -> None:
    with opened(path) as state, ThreadPoolExecutor(1) as threads:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = threads.submit(state.count, RUN, "x", 1.0)
            time.sleep(0.1)
            assert not waiting.done()
        assert waiting.result(10) == 1


@pytest.mark.parametrize("content", [b"\0" * 5000, b"this was never a database\n" * 300])
def test_a_file_that_is_no_database_is_set_aside(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with opened(path) as state:
        (warning,) = state.warnings
        state.remember(RUN, [OPENED])
    (aside,) = path.parent.glob("*.corrupt-*")
    assert aside.read_bytes() == content
    assert f"set aside as {aside.name}" in warning
    with opened(path) as state:
        assert set(state.told(RUN)) == {"kl-spike"}
        assert state.warnings == []


def test_a_database_that_breaks_in_use_is_set_aside(path: Path) -> None:
    with opened(path) as state:
        state.remember(RUN, [OPENED])
    whole = path.read_bytes()
    with opened(path) as state:
        path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))  # the same file, with other content
        state.remember(RUN, [OPENED])
        assert len(state.warnings) == 1
        assert set(state.told(RUN)) == {"kl-spike"}
    assert len(list(path.parent.glob("*.corrupt-*"))) == 1


def test_two_that_find_it_broken_set_it_aside_once(path: Path) -> None:
    path.write_bytes(b"nothing" * 1000)
    with ThreadPoolExecutor(6) as threads:
        states = list(threads.map(lambda _: opened(path), range(6)))
    assert sum(bool(s.warnings) for s in states) >= 1
    for state in states:
        assert claim(state, "k") is (state is states[0])
    for state in states:
        state.close()
    assert len(list(path.parent.glob("*.corrupt-*"))) == 1


def test_what_another_has_put_there_meanwhile_is_not_set_aside(path: Path) -> None:
    path.write_bytes(b"nothing" * 1000)
    broken = sqlite.identity(path)
    assert broken is not None
    path.rename(path.with_name("kept"))  # so that its number is not given to the next
    opened(path).close()
    assert sqlite.set_aside(path, broken) is None
    assert path.exists()


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("buy milk\n" * 100)
    with pytest.raises(StateError, match=r"notes.txt: it is not a database, and nothing that vario wrote"):
        opened(notes)
    assert notes.read_text() == "buy milk\n" * 100


def test_a_full_disk_is_told_and_what_was_there_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is SQLite's own bound on pages: it gives the error of a full disk at the same place."""
    with opened(path) as state:
        state.remember(RUN, [OPENED])
    with monkeypatch.context() as patched:
        patched.setattr(sqlite, "PRAGMAS", (*sqlite.PRAGMAS, "PRAGMA max_page_count = 10"))
        with opened(path) as state:
            with pytest.raises(StateError, match="the disk is full; free some space"):
                for number in range(1000):
                    state.count(RUN, f"{number}" * 30, 1.0)
            assert set(state.told(RUN)) == {"kl-spike"}
    with opened(path) as state:
        assert claim(state)
        assert state.warnings == []


def test_a_file_that_is_removed_or_replaced_is_begun_anew(path: Path) -> None:
    with opened(path) as state, opened(path) as other:
        state.remember(RUN, [OPENED])
        for name in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
            name.unlink()
        assert state.told(RUN) == {}
        state.remember(RUN, [OPENED])
        assert set(other.told(RUN)) == {"kl-spike"}, "both use what stands there now"
        assert ["removed or replaced" in w for w in state.warnings + other.warnings] == [True, True]


def test_a_folder_that_is_gone_is_told_and_its_return_is_enough(path: Path) -> None:
    with opened(path) as state:
        shutil.rmtree(path.parent)
        with pytest.raises(StateError, match="No such file or directory; check the folder"):
            state.told(RUN)
        path.parent.mkdir()
        assert state.count(RUN, "x", 1.0) == 1


def test_several_processes_may_use_it_at_once(path: Path) -> None:
    with opened(path), closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_on_a_network_the_log_that_needs_shared_memory_is_not_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "on_network", lambda _: True)
    with opened(path) as state, closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert claim(state)


def test_what_is_a_network(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        "40 22 0:40 / /mnt/my\\040team rw shared:9 - nfs4 server:/export rw\n"
        "41 40 8:2 / /mnt/my\\040team/local rw - xfs /dev/vdb rw\n"
        "42 22 0:42 / /data rw master:1 - fuse.sshfs me@there: rw\n"
        "broken line\n"
    )
    assert not sqlite.on_network(Path("/home/me/state.sqlite"), mounts)
    assert sqlite.on_network(Path("/mnt/my team/run/state.sqlite"), mounts)
    assert not sqlite.on_network(Path("/mnt/my team/local/state.sqlite"), mounts)
    assert sqlite.on_network(Path("/data/state.sqlite"), mounts)
    assert not sqlite.on_network(Path("/database/state.sqlite"), mounts)
    assert not sqlite.on_network(Path("/data/x"), tmp_path / "none")


def test_a_folder_that_cannot_be_written_is_told() -> None:
    with pytest.raises(StateError, match=r"/proc/self/state.sqlite: .*; check the folder"):
        opened(Path("/proc/self/state.sqlite"))


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write everywhere: be somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_that_may_only_be_read_is_told() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vario-state.sqlite"
        opened(path).close()
        Path(folder).chmod(0o755)
        path.chmod(0o444)
        with as_nobody(), pytest.raises(StateError, match="cannot be written; check its owner and mode"):
            opened(path)


def test_a_run_in_a_folder_that_may_only_be_read_is_kept_with_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        with as_nobody():
            place = place_of(f"{folder}/log.jsonl")
    assert place == f"sqlite:///{tmp_path}/vario/vario-state.sqlite"

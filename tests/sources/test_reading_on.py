"""A log that is read on from where the last reading ended gives, at every moment, what a full reading gives."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vario
from tests.effort import tries
from tests.sources.test_growing import LOGS, points, same
from vario.errors import SourceError
from vario.sources.growing import EDGE, Growing
from vario.sources.readers import console, csv_rows, jsonl
from vario.sources.rows import WAITING_ROWS, Table

Said = tuple[Table | None, str]


def said(read: Callable[[], Table]) -> Said:
    """What a reading gives, or why it gives nothing."""
    try:
        return read(), ""
    except SourceError as error:
        return None, f"{type(error).__name__}: {error}"


def agree(growing: Growing, reader: ModuleType, path: Path) -> None:
    (kept, why), (full, expected) = said(lambda: growing.table(reader, path)), said(lambda: reader.read(path))
    assert why == expected
    if kept is not None and full is not None:
        same(points(kept), points(full))
        assert kept.logged_steps().tolist() == full.logged_steps().tolist()
        for name in ("ignored", "rows", "index_steps", "warnings", "events", "texts", "config"):
            assert getattr(kept, name) == getattr(full, name), name


@pytest.mark.parametrize("name", sorted(LOGS))
@given(data=st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pieces_of_any_size(tmp_path: Path, name: str, data: st.DataObject) -> None:
    reader, text = LOGS[name]
    path, whole, growing = tmp_path / "a.log", text.encode(), Growing()
    path.write_bytes(b"")
    at = 0
    for cut in [*sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8))), len(whole)]:
        with path.open("ab") as log:
            log.write(whole[at:cut])
        at = cut
        agree(growing, reader, path)
        agree(growing, reader, path)  # and once more, with nothing new


ROWS = [b'{"step": %d, "reward": 0.5, "text": "x"}\n', b'{"step": %d, "reward": "0.25"}\n', b'{"step": %d}\n', b'{"step": %d, "reward": null, "kl": null}\n',
        b'{"step": null, "reward": 0.5}\n', b'{"reward": 0.5}\n', b'{"step": %d, "a": {"b": 1.5}}\n', b"no row\n", b'{"step": 3, "reward": 0.75}\n',
        b'{"train_runtime": 5.0, "loss": 0.5, "step": %d}\n']  # fmt: skip


@given(kinds=st.lists(st.integers(0, len(ROWS) - 1), max_size=40), cuts=st.lists(st.integers(0, 1200), max_size=6))
@settings(max_examples=tries(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_that_change_the_meaning_of_others(tmp_path: Path, kinds: list[int], cuts: list[int]) -> None:
    """Rows without a step, with texts, with nothing: what one of them means depends on those that come before and after."""
    whole = b"".join(ROWS[k].replace(b"%d", str(i + 1).encode()) for i, k in enumerate(kinds))
    path, growing, at = tmp_path / "a.jsonl", Growing(), 0
    path.write_bytes(b"")
    for cut in [*sorted(c for c in cuts if c < len(whole)), len(whole)]:
        with path.open("ab") as log:
            log.write(whole[at:cut])
        at = cut
        agree(growing, jsonl, path)


def test_a_long_log(tmp_path: Path) -> None:
    """More rows than wait for their columns."""
    path, growing = tmp_path / "a.jsonl", Growing()
    path.write_bytes(b"")
    for first in range(0, 3 * WAITING_ROWS, WAITING_ROWS // 3 + 5):
        with path.open("ab") as log:
            log.writelines(b'{"step": %d, "reward": %d.5}\n' % (s, s % 7) for s in range(first, first + WAITING_ROWS // 3 + 5))
        agree(growing, jsonl, path)


def test_only_what_is_new_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, growing = tmp_path / "a.jsonl", Growing()
    path.write_bytes(b'{"step": 1, "reward": 0.5}\n' * 5)
    fed: list[bytes] = []
    take = jsonl.JsonLines.feed

    def feed(self: jsonl.JsonLines, data: bytes) -> None:
        fed.append(data)
        take(self, data)

    monkeypatch.setattr(jsonl.JsonLines, "feed", feed)
    growing.table(jsonl, path)
    with path.open("ab") as log:
        log.write(b'{"step": 2, "reward": 0.5}\n')
    growing.table(jsonl, path)
    assert fed == [b'{"step": 1, "reward": 0.5}\n' * 5, b'{"step": 2, "reward": 0.5}\n']


LONG = b"".join(b'{"step": %d, "reward": 0.25, "loss": 0.125}\n' % s for s in range(1, 401))
assert len(LONG) > 3 * EDGE


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(LONG[:-1] + b", 1"),  # written over by what is as long
        lambda path: path.write_bytes(LONG[: len(LONG) // 2]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(LONG.replace(b"0.25", b"0.75")),
        lambda path: path.write_bytes(LONG.replace(b"0.25", b"0.75") + LONG),
        lambda path: path.write_bytes(LONG[500:] + LONG),
        lambda path: (path.with_name("new").write_bytes(LONG.replace(b"0.125", b"0.875") + LONG), path.with_name("new").replace(path)),
        lambda path: path.write_bytes(b"step,reward\n" + b"".join(b"%d,0.5\n" % s for s in range(3000))),
    ],
    ids=["written-over", "cut", "emptied", "other-values", "other-and-longer", "lost-its-start", "another-file", "another-format"],
)  # fmt: skip
def test_what_was_read_and_is_not_there_any_more_is_read_anew(tmp_path: Path, change: Callable[[Path], object]) -> None:
    path, growing = tmp_path / "a.log", Growing()
    path.write_bytes(LONG)
    os.utime(path, ns=(10**18, 10**18))
    agree(growing, jsonl, path)
    change(path)
    for reader in (jsonl, console, csv_rows):
        agree(growing, reader, path)


def test_a_folder_is_read_on_and_what_has_gone_is_forgotten(tmp_path: Path) -> None:
    growing, log, more = Growing(), tmp_path / "train.jsonl", tmp_path / "metrics.csv"
    log.write_bytes(LONG)
    more.write_text("step,kl\n" + "".join(f"{s},0.{s:03d}\n" for s in range(1, 301)))
    first = vario.read(tmp_path, growing=growing)
    assert first.series["kl/reference"].values.size == 300
    assert set(growing._logs) == {log, more}
    more.unlink()
    with log.open("ab") as out:
        out.write(b'{"step": 401, "reward": 0.25, "loss": 0.125}\n')
    second = vario.read(tmp_path, growing=growing)
    assert (second.last_step, "kl/reference" in second.series) == (401, False)
    assert set(growing._logs) == {log}

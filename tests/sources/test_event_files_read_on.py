"""Event files that are read on give, at every moment, what a full reading gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sources.test_growing import points, same
from tests.sources.test_reading_on import Said, said
from tests.sources.writers import event_bytes, framed, scalar_event
from vario.sources.event_files import read_together
from vario.sources.growing import EDGE, Growing
from vario.sources.readers.tensorboard import EventFile

STEPS = 400
WHOLE = event_bytes(scalar_event(s, {"train/reward": s / 7, "train/loss": 1.0 / s}) for s in range(1, STEPS + 1))
LATER = event_bytes((scalar_event(s, {"train/reward": 1 + s / 7}, 1.7e9 + 5_000 + s) for s in range(300, 500)), 1.7e9 + 5_000)
assert len(WHOLE) > 6 * EDGE


def agree(growing: Growing, *paths: Path) -> Said:
    kept, full = said(lambda: read_together(list(paths), growing)), said(lambda: read_together(list(paths)))
    assert kept[1] == full[1]
    if kept[0] is not None and full[0] is not None:
        same(points(kept[0]), points(full[0]))
        for name in ("ignored", "warnings", "events", "texts", "config"):
            assert getattr(kept[0], name) == getattr(full[0], name), name
    return kept


@given(cuts=st.lists(st.integers(0, len(WHOLE)), max_size=6))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pieces_of_any_size(tmp_path: Path, cuts: list[int]) -> None:
    path, growing, at = tmp_path / "events.out.tfevents.1", Growing(), 0
    path.write_bytes(b"")
    for cut in [*sorted(cuts), len(WHOLE)]:
        with path.open("ab") as log:
            log.write(WHOLE[at:cut])
        at = cut
        agree(growing, path)
        agree(growing, path)  # and once more, with nothing new
    table, _ = agree(growing, path)
    assert table is not None
    assert len(points(table)["train/reward"]) == STEPS


def test_a_restart_in_a_second_file(tmp_path: Path) -> None:
    first, second, growing = tmp_path / "events.out.tfevents.1", tmp_path / "events.out.tfevents.2", Growing()
    first.write_bytes(WHOLE)
    agree(growing, first)
    for end in range(100, len(LATER), 2_500):
        second.write_bytes(LATER[:end])
        agree(growing, first, second)
    second.write_bytes(LATER)
    table, _ = agree(growing, first, second)
    assert table is not None
    assert [e.kind for e in table.events] == ["resume"]


def test_only_what_is_new_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, growing, fed = tmp_path / "events.out.tfevents.1", Growing(), []
    take = EventFile.feed
    monkeypatch.setattr(EventFile, "feed", lambda self, data: (fed.append(len(data)), take(self, data))[1])
    path.write_bytes(WHOLE)
    read_together([path], growing)
    more = framed(scalar_event(STEPS + 1, {"train/reward": 2.0}).SerializeToString())
    with path.open("ab") as log:
        log.write(more)
    read_together([path], growing)
    assert fed == [len(WHOLE), len(more)]


@pytest.mark.parametrize("room", [EDGE // 2, 20 * EDGE])
def test_room_that_is_filled_later(tmp_path: Path, room: int) -> None:
    """A file system may show the length of what is written before its bytes."""
    path, growing, half = tmp_path / "events.out.tfevents.1", Growing(), WHOLE.index(framed(scalar_event(200, {"train/reward": 200 / 7, "train/loss": 1 / 200}).SerializeToString()))
    path.write_bytes(WHOLE[:half] + bytes(room))
    agree(growing, path)
    path.write_bytes(WHOLE[:half] + (WHOLE[half:] + bytes(room))[: max(room, 500)])
    agree(growing, path)
    path.write_bytes(WHOLE)
    table, _ = agree(growing, path)
    assert table is not None
    assert len(points(table)["train/reward"]) == STEPS


def test_a_damaged_record_that_is_mended(tmp_path: Path) -> None:
    path, growing = tmp_path / "events.out.tfevents.1", Growing()
    broken = bytearray(WHOLE + bytes(200))
    broken[len(WHOLE) // 2 :] = np.random.default_rng(0).integers(0, 256, len(broken) - len(WHOLE) // 2, dtype=np.uint8).tobytes()
    path.write_bytes(bytes(broken))
    agree(growing, path)
    with path.open("r+b") as log:
        log.write(WHOLE)
        log.truncate()
    table, _ = agree(growing, path)
    assert table is not None
    assert len(points(table)["train/reward"]) == STEPS


@pytest.mark.parametrize("first", [1, 2**31 - 3, 2**40], ids=["small", "across 31 bits", "large"])
def test_steps_of_any_size_and_values_keep_every_digit(tmp_path: Path, first: int) -> None:
    """What is kept in few bytes is what the file holds: token counts make steps of more than 31 bits."""
    steps = np.arange(first, first + 40)
    path, growing = tmp_path / "events.out.tfevents.1", Growing()
    path.write_bytes(event_bytes(scalar_event(int(s), {"train/reward": 1.0 / (i + 3)}) for i, s in enumerate(steps)))
    table, _ = agree(growing, path)
    assert table is not None
    read = table.series()["train/reward"]
    assert read.steps.tolist() == steps.tolist()
    assert read.values.dtype == np.float64
    assert read.values.tolist() == [float(np.float32(1.0 / (i + 3))) for i in range(40)]

"""The recorder: rows in columns, within its bytes a value, and back as rows."""

from __future__ import annotations

import math
import sys

from vario.surfaces.live import recorder
from vario.surfaces.live.recorder import Recorder


def filled(rows: int, keys: int = 12) -> Recorder:
    made = Recorder()
    for i in range(rows):
        made.add(i, 1e9 + i, {f"k{j}": i + j / 100 for j in range(keys)})
    return made


def kept_bytes(made: Recorder) -> int:
    arrays = {id(a): a for a in (made.steps, made.times)}
    arrays |= {id(a): a for _, pieces in made.columns() for piece in pieces for a in piece}
    return sum(map(sys.getsizeof, arrays.values()))


def test_rows_come_back_as_they_were_added_in_any_pieces() -> None:
    rows = [
        (1, 10.0, {"reward": 0.5, "kl": 0.1}),
        (2, 11.0, {"reward": math.inf}),
        (2, 11.5, {"eval_reward": 0.75}),
        (1, 12.0, {}),
        (3, 13.0, {"kl": -1.0, "late": 4.0}),
    ]
    made = Recorder()
    for row in rows:
        made.add(*row)
    assert len(made) == 5
    assert made.values == 6
    assert made.keys == 4
    for size in (1, 2, 3, 5, 9):
        back = [row for start in range(0, 5, size) for row in made.rows(start, size)]
        assert back == rows
    assert list(made.rows(5, 10)) == []


def test_a_nan_is_kept() -> None:
    made = Recorder()
    made.add(1, 0.0, {"loss": math.nan})
    ((_, _, row),) = made.rows(0, 1)
    assert math.isnan(row["loss"])


def test_a_value_takes_at_most_sixteen_bytes_with_all_that_belongs_to_it() -> None:
    made = filled(20_000)
    assert kept_bytes(made) / made.values < 16.0


def test_rows_of_different_kinds_take_no_more(monkeypatch) -> None:
    made = Recorder()
    for i in range(20_000):
        made.add(
            i, 1e9 + i, {f"k{j}": float(i) for j in range(12)} if i % 2 else {f"l{j}": float(i) for j in range(12)}
        )
    assert kept_bytes(made) / made.values < 16.0
    assert list(made.rows(0, 3))[1:] == [
        (1, 1e9 + 1, {f"k{j}": 1.0 for j in range(12)}),
        (2, 1e9 + 2, {f"l{j}": 2.0 for j in range(12)}),
    ]


def test_rows_of_which_no_two_have_the_same_keys_are_kept_key_by_key(monkeypatch) -> None:
    monkeypatch.setattr(recorder, "MOST_COLUMNS", 50)
    rows = [(i, float(i), {f"k{(i * j) % 23}": float(j) for j in range(i % 7)}) for i in range(200)]
    made = Recorder()
    for row in rows:
        made.add(*row)
    assert made._loose
    assert made._columns <= 50
    assert [row for start in range(0, 200, 9) for row in made.rows(start, 9)] == rows
    assert made.values == sum(len(row) for *_, row in rows)


def test_keys_without_end_are_left_out_and_counted(monkeypatch) -> None:
    monkeypatch.setattr(recorder, "MAX_KEYS", 3)
    made = Recorder()
    made.add(1, 0.0, {"a": 1.0, "b": 2.0})
    made.add(2, 0.0, {"c": 3.0, "d": 4.0, "e": 5.0, "a": 6.0})
    assert (made.keys, made.left_out) == (3, 2)
    assert [row for *_, row in made.rows(0, 9)] == [{"a": 1.0, "b": 2.0}, {"c": 3.0, "a": 6.0}]


def test_more_rows_than_can_be_numbered_are_counted_only(monkeypatch) -> None:
    monkeypatch.setattr(recorder, "LARGEST_ROWS", 2)
    made = filled(4, keys=3)
    assert (len(made), made.left_out) == (2, 6)

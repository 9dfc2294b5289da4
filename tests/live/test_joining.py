"""Two readings of one place: what the newer is to the older, and the two made one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vario
from tests.live.growth import Row, lines, rows
from vario.run import Run
from vario.surfaces.live.joining import Relation, relation, rewritten, with_start


def run_of(folder: Path, some: list[Row], name: str = "log.jsonl") -> Run:
    path = folder / name
    path.write_text(lines(some))
    return vario.read(path)


RUN = rows(60)
OTHER = rows(60, seed=1)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (RUN[:40], RUN, Relation.GOES_ON),
        (RUN, RUN, Relation.GOES_ON),
        (RUN[:1], RUN[:2], Relation.GOES_ON),
        (RUN, RUN[:30], Relation.LOST_END),
        (RUN, RUN[30:], Relation.LOST_START),
        (RUN[:40], RUN[40:], Relation.LOST_START),
        (RUN[:40], RUN[50:], Relation.LOST_START),
        (RUN, OTHER, Relation.OTHER),
        (RUN, OTHER[:1], Relation.OTHER),
        (RUN, OTHER[:10], Relation.OTHER),
        (RUN[:10], OTHER, Relation.OTHER),
        # resumed from row 40: what comes behind has other values
        (RUN, RUN[:40] + OTHER[40:50], Relation.GOES_ON),
        (RUN, RUN[:10] + OTHER[10:], Relation.GOES_ON),
        (RUN, OTHER[40:], Relation.LOST_START),
        # begun anew in the same file: the rows beyond the new end are the old ones
        (RUN, OTHER[:20] + RUN[20:], Relation.GOES_ON),
    ],
    ids=lambda value: value.name if isinstance(value, Relation) else f"{len(value)} rows from {int(value[0]['step'])}",
)
def test_what_a_new_reading_is_to_the_old_one(tmp_path: Path, old: list[Row], new: list[Row], expected: Relation) -> None:
    assert relation(run_of(tmp_path, old), run_of(tmp_path, new)) is expected


def test_what_never_moves_does_not_make_two_runs_one(tmp_path: Path) -> None:
    """Clip fractions of zero, a constant learning rate, a length that is always the cap: eight of eleven metrics alike."""
    still = {"clip_ratio/low_mean": 0.0, "clip_ratio/high_mean": 0.0, "clip_ratio/region_mean": 0.0, "completions/max_length": 256.0,
             "num_tokens": 0.0, "epoch": 0.0}  # fmt: skip
    count = [{**still, "num_tokens": 4096.0 * i, "epoch": i / 60} for i in range(60)]
    one = run_of(tmp_path, [{**row, **more} for row, more in zip(RUN, count, strict=True)])
    two = run_of(tmp_path, [{**row, **more} for row, more in zip(OTHER, count, strict=True)])
    assert relation(one, two) is Relation.OTHER


def test_rounding_does_not_make_two_runs_of_one(tmp_path: Path) -> None:
    """The console says three decimals of what a checkpoint's state says in full."""
    short = [{k: round(v, 3) if k != "step" else v for k, v in row.items()} for row in RUN]
    assert relation(run_of(tmp_path, short), run_of(tmp_path, RUN)) is Relation.GOES_ON
    assert relation(run_of(tmp_path, RUN), run_of(tmp_path, short)) is Relation.GOES_ON


def test_keys_whose_meaning_becomes_clear_later_are_the_same_run(tmp_path: Path) -> None:
    few = [{"step": row["step"], "loss": row["loss"], "grad_norm": row["grad_norm"]} for row in RUN[:5]]
    old, new = run_of(tmp_path, few), run_of(tmp_path, RUN)
    assert old.framework != new.framework
    assert relation(old, new) is Relation.GOES_ON


def same(a: Run, b: Run) -> None:
    assert a.series.keys() == b.series.keys()
    np.testing.assert_array_equal(a.logged_steps, b.logged_steps)
    for name, series in a.series.items():
        np.testing.assert_array_equal(series.steps, b.series[name].steps)
        np.testing.assert_array_equal(series.values, b.series[name].values)


@pytest.mark.parametrize("kept", [20, 30, 45])
def test_a_log_that_lost_its_start_is_made_whole(tmp_path: Path, kept: int) -> None:
    old, new, whole = run_of(tmp_path, RUN[:45]), run_of(tmp_path, RUN[kept:]), run_of(tmp_path, RUN)
    made = with_start(old, new)
    same(made, whole)
    assert made.events == whole.events == ()
    same(with_start(made, new), whole)


def test_a_resume_in_a_new_log_is_an_event_as_it_is_in_one_log(tmp_path: Path) -> None:
    old, new, whole = run_of(tmp_path, RUN[:45]), run_of(tmp_path, OTHER[30:]), run_of(tmp_path, RUN[:45] + OTHER[30:])
    made = with_start(old, new)
    same(made, whole)
    assert made.events == whole.events
    assert [e.kind for e in made.events] == ["resume"]


def test_settings_that_stood_in_the_lost_part_are_kept(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"learning_rate": 1e-6, "beta": 0.04, "num_generations": 8, "max_completion_length": 256}')
    old = run_of(tmp_path, RUN[:45])
    (tmp_path / "config.json").unlink()
    new = run_of(tmp_path, RUN[30:])
    assert old.config
    assert not new.config
    made = with_start(old, new)
    assert (made.config, made.knobs, made.declared) == (old.config, old.knobs, old.declared)
    same(made, run_of(tmp_path, RUN))


def test_what_is_written_over_is_counted(tmp_path: Path) -> None:
    old = run_of(tmp_path, RUN[:40])
    assert rewritten(old, run_of(tmp_path, RUN)) == 0
    assert rewritten(old, run_of(tmp_path, RUN[:30] + OTHER[30:])) == 10
    assert rewritten(old, run_of(tmp_path, [*RUN[:40], {"step": 7, "eval_reward": 0.5}])) == 1
    assert rewritten(old, run_of(tmp_path, RUN[5:])) == 5
    first = [{**RUN[0], "kl": float("nan")}, *RUN[1:40]]
    assert rewritten(run_of(tmp_path, first), run_of(tmp_path, first)) == 0

"""One log that is followed while it grows, rotates, shrinks, vanishes and changes hands: nothing is lost, nothing doubled,
each fault is told once, and at its end the watch says what an offline diagnosis of the finished log says."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import vario
from tests.live.growth import BROKEN, Clock, Row, append, findings, lines, rows, same_as_offline, told, watched
from vario.run import Run
from vario.sources.growing import Growing
from vario.surfaces.live.followed import PATIENCE, QUIET_SECONDS, REMOTE_SECONDS, Followed
from vario.surfaces.live.notices import Kind, Notice
from vario.surfaces.live.watched import STALLED_SECONDS, TROUBLES, Polled, Status, WatchedRun

GOOD = rows(100)


def grow(run: WatchedRun, path: Path, some: list[Row], pieces: int = 2) -> list[Notice]:
    """Write rows in pieces and look after each."""
    made: list[Notice] = []
    for part in np.array_split(np.arange(len(some)), pieces):
        append(path, lines(some[i] for i in part))
        made += run.look()
    return made


def steps(run: WatchedRun) -> list[int]:
    assert run.run is not None
    return run.run.logged_steps.tolist()  # type: ignore[no-any-return]


def troubles(notices: list[Notice]) -> list[str]:
    return [n.text for n in notices if n.kind is Kind.TROUBLE]


# growing


def test_a_log_that_begins_later_grows_and_ends(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    run = watched(path)
    assert run.look() == []
    path.touch()
    assert run.look() == []
    assert run.status is Status.WAITING
    whole = lines(BROKEN)
    half = whole.index('"step": 9,') if '"step": 9,' in whole else len(lines(BROKEN[:9])) - 30
    path.write_text(whole[:half])
    assert run.look() == []
    assert steps(run) == list(range(1, 9))
    made: list[Notice] = []
    for end in range(half, len(whole), 4001):  # pieces that end anywhere in a row
        append(path, whole[half:end])
        half = end
        made += run.look()
    append(path, whole[half:])
    made += run.look()
    assert steps(run) == list(range(1, 101))
    assert "opened reward-function-broke" in told(made)
    assert len(told(made)) == len(set(told(made)))
    assert not troubles(made)
    assert {f[1] for f in same_as_offline(run, path)} >= {"reward-function-broke"}


def test_a_file_that_did_not_change_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(lines(GOOD[:20]))
    run = watched(path)
    run.look()
    assert run.source.poll() == Polled(None)
    append(path, lines(GOOD[20:21]))
    assert run.source.poll().run is not None


@pytest.mark.parametrize("finish", [False, True])
def test_nothing_is_looked_at_twice_and_the_end_once(tmp_path: Path, finish: bool) -> None:
    path = tmp_path / "log.jsonl"
    run = watched(path)
    grow(run, path, GOOD[:57], 4)
    looks = run.looks
    assert looks == 4
    if finish:
        same_as_offline(run, path)
        assert run.looks == looks + 1


# rotation, truncation, restoring


def rotated(path: Path) -> None:
    path.rename(path.with_name(f"{path.name}.1"))
    path.touch()


def moved_to_a_date(path: Path) -> None:
    path.rename(path.with_name(f"{path.name}-20260821"))


def packed(path: Path) -> None:
    with gzip.open(path.with_name(f"{path.name}.1.gz"), "wb") as out:
        out.write(path.read_bytes())
    path.unlink()


def copied_and_truncated(path: Path) -> None:
    shutil.copy2(path, path.with_name(f"{path.name}.1"))
    os.truncate(path, 0)


@pytest.mark.parametrize("rotate", [rotated, moved_to_a_date, packed, copied_and_truncated])
@pytest.mark.parametrize("look_between", [False, True])
def test_a_rotation_loses_no_row_and_is_told_once(
    tmp_path: Path, rotate: Callable[[Path], None], look_between: bool
) -> None:
    path = tmp_path / "log.jsonl"
    run = watched(path)
    made = grow(run, path, BROKEN[:50])
    append(path, lines(BROKEN[50:58]))  # nobody reads these before they are moved away
    rotate(path)
    if look_between:
        made += run.look()
    made += grow(run, path, BROKEN[58:])
    assert steps(run) == list(range(1, 101))
    assert len(troubles(made)) == 1
    assert "kept" in troubles(made)[0]
    assert told(made).count("opened reward-function-broke") == 1
    assert not {"lost", "replaced"} & set(told(made))
    whole = tmp_path / "whole.jsonl"
    whole.write_text(lines(BROKEN))
    run.look()
    assert findings(run.diagnosis) == findings(vario.diagnose(vario.read(whole)))  # type: ignore[arg-type]


def test_two_rotations_between_two_looks(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    run = watched(path)
    grow(run, path, GOOD[:30])
    append(path, lines(GOOD[30:40]))
    path.rename(tmp_path / "log.jsonl.2")
    path.write_text(lines(GOOD[40:50]))
    rotated(path)
    made = grow(run, path, GOOD[50:60])
    assert steps(run) == list(range(1, 61))
    assert len(troubles(made)) == 1


def test_a_rotated_log_of_an_earlier_run_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    old = tmp_path / "log.jsonl.1"
    old.write_text(lines(rows(90, seed=5)))
    os.utime(old, ns=(10**18, 10**18))
    run = watched(path)
    grow(run, path, GOOD[:40])
    path.rename(tmp_path / "log.jsonl.2")
    grow(run, path, GOOD[40:50])
    assert steps(run) == list(range(1, 51))
    assert run.run is not None
    expected = [row["reward"] for row in GOOD[:50]]
    np.testing.assert_array_equal(run.run.series["reward/mean"].values, expected)


def test_a_folder_whose_log_is_rotated_reads_all_parts(tmp_path: Path) -> None:
    path = tmp_path / "out" / "train.jsonl"
    path.parent.mkdir()
    run = watched(path.parent)
    made = grow(run, path, BROKEN[:50])
    append(path, lines(BROKEN[50:58]))
    path.rename(path.with_name("train.jsonl.1"))
    made += run.look()
    made += grow(run, path, BROKEN[58:])
    assert steps(run) == list(range(1, 101))
    assert not troubles(made)
    assert told(made).count("opened reward-function-broke") == 1
    same_as_offline(run, path.parent)


def test_parts_that_a_rotation_deletes_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "out" / "train.jsonl"
    path.parent.mkdir()
    run = watched(path.parent)
    made: list[Notice] = []
    for first in range(0, 100, 25):
        made += grow(run, path, BROKEN[first : first + 25], 1)
        path.replace(path.with_name("train.jsonl.1"))  # the part before it is gone
    assert steps(run) == list(range(1, 101))
    assert len(troubles(made)) == 1
    assert told(made).count("opened reward-function-broke") == 1


def test_a_log_that_is_gone_is_waited_for(tmp_path: Path) -> None:
    path, clock = tmp_path / "log.jsonl", Clock()
    run = watched(path, clock)
    grow(run, path, GOOD[:40])
    kept = path.read_bytes()
    path.unlink()
    made = run.look()
    clock.now += PATIENCE / 2
    made += run.look()
    assert made == []
    for _ in range(3):
        clock.now += PATIENCE
        made += run.look()
    assert told(made) == ["lost"]
    assert (run.status, steps(run)) == (Status.LOST, list(range(1, 41)))
    path.write_bytes(kept)
    assert told(run.look()) == ["resumed"]
    made = grow(run, path, GOOD[40:])
    assert not {"replaced", "trouble", "resumed"} & set(told(made))
    same_as_offline(run, path)


def test_a_log_that_is_replaced_at_once_by_itself_is_no_news(tmp_path: Path) -> None:
    """As rsync does: a new file with the old rows and more is put in its place."""
    path = tmp_path / "log.jsonl"
    run = watched(path)
    grow(run, path, GOOD[:40])
    for end in (50, 60):
        (tmp_path / "new").write_text(lines(GOOD[:end]))
        (tmp_path / "new").replace(path)
        assert "replaced" not in told(run.look())
    assert steps(run) == list(range(1, 61))
    same_as_offline(run, path)


@pytest.mark.parametrize("empty_between", [False, True])
def test_another_run_at_the_same_place_begins_anew(tmp_path: Path, empty_between: bool) -> None:
    path = tmp_path / "log.jsonl"
    run = watched(path)
    assert "opened reward-function-broke" in told(grow(run, path, BROKEN))
    if empty_between:
        os.truncate(path, 0)
        assert run.look() == []
    other = rows(100, seed=3, breaks=71)
    path.write_text(lines(other[:2]))
    made = run.look()
    assert told(made) == ["replaced"]
    assert (steps(run), run.told) == ([1, 2], {})
    made = grow(run, path, other[2:])
    assert told(made).count("opened reward-function-broke") == 1
    assert not {"replaced", "trouble"} & set(told(made))
    same_as_offline(run, path)


def test_a_snapshot_that_was_restored_goes_on(tmp_path: Path) -> None:
    """The old rows are kept until the training passes the place where it was restored; then the new ones count."""
    path = tmp_path / "log.jsonl"
    run = watched(path)
    grow(run, path, GOOD[:60])
    path.write_text(lines(GOOD[:40]))
    made = run.look()
    assert steps(run) == list(range(1, 61))
    assert len(troubles(made)) == 1
    again = rows(100, seed=9, breaks=66)
    made = grow(run, path, again[40:], 4)
    assert steps(run) == list(range(1, 101))
    assert not {"replaced", "trouble", "lost"} & set(told(made))
    assert told(made).count("opened reward-function-broke") == 1
    same_as_offline(run, path)


def test_a_resume_in_the_same_log(tmp_path: Path) -> None:
    """Steps go back from 60 to 41 and repeat with other values; the watch looks while they do, though no step is new."""
    path = tmp_path / "log.jsonl"
    run = watched(path)
    made = grow(run, path, GOOD[:60], 2)
    looks = run.looks
    made += grow(run, path, rows(60, seed=9)[40:60], 4)
    assert run.looks > looks
    assert steps(run) == list(range(1, 61))
    made += grow(run, path, GOOD[60:])
    assert not {"replaced", "trouble", "lost"} & set(told(made))
    assert vario.read(path).events
    same_as_offline(run, path)


def test_steps_that_begin_at_one_again_in_the_same_log(tmp_path: Path) -> None:
    """`vario diagnose` lets the newer row of a step count and keeps what lies beyond; so does the watch, at each moment."""
    path = tmp_path / "log.jsonl"
    run = watched(path)
    made = grow(run, path, GOOD[:60], 2)
    for part in (slice(0, 20), slice(20, 40)):
        made += grow(run, path, rows(40, seed=9)[part], 2)
        assert run.run is not None
        offline = vario.read(path)
        for name, series in offline.series.items():
            np.testing.assert_array_equal(run.run.series[name].values, series.values)
    assert not {"replaced", "trouble", "lost"} & set(told(made))
    same_as_offline(run, path)


def test_values_that_come_late_count_as_they_do_offline(tmp_path: Path) -> None:
    """An evaluation of step 30 that is logged when the training is at 60."""
    path = tmp_path / "log.jsonl"
    run = watched(path)
    grow(run, path, BROKEN[:60], 2)
    append(path, lines([{"step": s, "eval_reward": 0.6 - 0.004 * s} for s in range(10, 60, 10)]))
    grow(run, path, BROKEN[60:])
    same_as_offline(run, path)


def test_a_link_that_leads_to_another_run(tmp_path: Path) -> None:
    one, two, link = tmp_path / "one.jsonl", tmp_path / "two.jsonl", tmp_path / "latest.jsonl"
    one.write_text(lines(GOOD[:40]))
    two.write_text(lines(rows(12, seed=4)))
    link.symlink_to(one)
    run = watched(link)
    run.look()
    link.unlink()
    assert run.look() == []
    link.symlink_to(two)
    assert told(run.look()) == ["replaced"]
    assert steps(run) == list(range(1, 13))
    append(two, lines(rows(40, seed=4)[12:]))
    run.look()
    same_as_offline(run, link)


def test_a_log_of_a_loop_of_ones_own_takes_the_place_of_another(tmp_path: Path) -> None:
    """A few rows do not show whose log it is; when there are enough, it is another run's."""
    path = tmp_path / "log.jsonl"
    run = watched(path)
    grow(run, path, GOOD[:40])
    own = [{"step": r["step"], "my_reward": r["reward"], "loss": r["grad_norm"]} for r in rows(40, seed=4)]
    path.write_text(lines(own[:3]))
    assert run.look() == []
    append(path, lines(own[3:]))
    assert told(run.look()) == ["replaced"]
    assert steps(run) == list(range(1, 41))


# what cannot be read


def test_what_cannot_be_read_is_told_once_and_tried_again(tmp_path: Path) -> None:
    """As when somebody takes away the permission: the same files, and no reading of them."""
    path, clock = tmp_path / "log.jsonl", Clock()
    run = watched(path, clock)
    grow(run, path, GOOD[:20])
    append(path, lines(GOOD[20:40]))
    whole = path.read_bytes()
    path.write_bytes(b"\x00\x01 something else \x00" * 400)
    made = run.look()
    for _ in range(4):
        clock.now += PATIENCE
        made += run.look()
    assert told(made) == ["trouble"]
    assert "cannot be read" in troubles(made)[0]
    path.write_bytes(whole)
    made = run.look()
    assert told(made) == []
    assert steps(run) == list(range(1, 41))
    same_as_offline(run, path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not read")
@pytest.mark.parametrize("of", ["the file", "its folder", "a watched folder"])
def test_a_permission_that_is_taken_and_given_back(of: str) -> None:
    with tempfile.TemporaryDirectory(prefix="vario-open-") as open_to_all:
        folder = Path(open_to_all) / "out"
        folder.mkdir()
        for each in (folder.parent, folder):
            each.chmod(0o755)
        path, clock = folder / "log.jsonl", Clock()
        run = watched(folder if of == "a watched folder" else path, clock)
        grow(run, path, GOOD[:20])
        append(path, lines(GOOD[20:40]))
        closed = path if of == "the file" else folder
        closed.chmod(0)
        os.seteuid(65534)
        try:
            made = run.look()
            for _ in range(3):
                clock.now += PATIENCE
                made += run.look()
        finally:
            os.seteuid(0)
        assert told(made) == ["trouble"]
        assert "ermission" in troubles(made)[0]
        closed.chmod(0o755)
        assert told(run.look()) == []
        assert steps(run) == list(range(1, 41))


def test_troubles_are_bounded_and_told_once(tmp_path: Path) -> None:
    run = watched(tmp_path / "log.jsonl")
    made = [n for i in range(3 * TROUBLES) for n in run.trouble(f"trouble {i % (2 * TROUBLES)}")]
    assert len(made) == TROUBLES + 1
    assert len(run.troubles) == TROUBLES + 1
    assert run.troubles.total() == 3 * TROUBLES


# clocks


def test_a_clock_that_jumps_makes_no_stall_and_hides_none(tmp_path: Path) -> None:
    """The clock on the wall is set forward and back by days; seconds that pass are counted by another one."""
    path = tmp_path / "log.jsonl"
    wall, passed = Clock(1.7e9), Clock()
    run = watched(path, passed)
    run.clock, run.monotonic = wall, passed
    made: list[Notice] = []

    def rows_at(some: list[Row]) -> None:
        for row in some:
            append(path, lines([row]))
            os.utime(path, (wall.now, wall.now))
            made.extend(run.look())
            wall.now += 5.0
            passed.now += 5.0

    rows_at(GOOD[:12])
    for days in (3, -6, 1):
        wall.now += days * 86_400
        made += run.look()
        rows_at(GOOD[len(steps(run)) :][:8])
    assert not {"stalled", "resumed"} & set(told(made))
    assert run.seconds_per_row == pytest.approx(5.0, abs=0.1)
    assert max(run.pauses) < 60.0
    passed.now += STALLED_SECONDS + 100.0
    wall.now += STALLED_SECONDS + 100.0
    assert told(run.look()) == ["stalled"]
    rows_at(GOOD[36:37])
    assert told(made)[-1] == "resumed"


# other formats, growing: at the end each says what its finished log says


def console(some: list[Row]) -> str:
    prose = "INFO 08-21 12:00:00 engine.py:99] Avg prompt throughput: 12.5 tokens/s, Running: 3 reqs\n"
    return "".join(f"{prose}{ {k: round(v, 4) for k, v in row.items() if k != 'step'} }\n" for row in some)


def delimited(some: list[Row]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(some[0]), lineterminator="\n")
    if some[0]["step"] == 1:
        writer.writeheader()
    writer.writerows(some)
    return out.getvalue()


@pytest.mark.parametrize(("name", "written"), [("stdout.log", console), ("metrics.csv", delimited)])
def test_other_formats_of_lines(tmp_path: Path, name: str, written: Callable[[list[Row]], str]) -> None:
    path = tmp_path / name
    run = watched(path)
    text = written(BROKEN)
    made: list[Notice] = []
    cuts = [0, *range(501, len(text), len(text) // 6), len(text)]
    for a, b in pairwise(cuts):
        append(path, text[a:b])
        made += run.look()
    assert told(made).count("opened reward-function-broke") == 1
    assert not troubles(made)
    assert len(same_as_offline(run, path)) >= 1


def state(some: list[Row]) -> dict[str, object]:
    step = int(some[-1]["step"])
    return {
        "best_metric": None, "epoch": step / 100, "global_step": step, "is_world_process_zero": True, "logging_steps": 1,
        "max_steps": 100, "save_steps": 20, "log_history": some,
    }  # fmt: skip


def test_checkpoints_of_the_trainer_with_the_console_beside_them(tmp_path: Path) -> None:
    """Each checkpoint holds the history in full, the console rounds it, and old checkpoints are deleted."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "config.json").write_text(json.dumps({"learning_rate": 1e-6, "beta": 0.04, "num_generations": 8}))
    run = watched(out)
    made: list[Notice] = []
    for end in range(10, 101, 10):
        append(out / "stdout.log", console(BROKEN[end - 10 : end]))
        made += run.look()
        if end % 20 == 0:
            folder = out / f"checkpoint-{end}"
            folder.mkdir()
            whole = json.dumps(state(BROKEN[:end]), indent=2)
            (folder / "trainer_state.json").write_text(whole[: len(whole) // 2])  # half of it is on the disk
            made += run.look()
            (folder / "trainer_state.json").write_text(whole)
            made += run.look()
            if end > 40:
                shutil.rmtree(out / f"checkpoint-{end - 40}")
    assert told(made).count("opened reward-function-broke") == 1
    assert not {"replaced", "trouble", "lost"} & set(told(made))
    assert steps(run) == list(range(1, 101))
    same_as_offline(run, out)


def test_a_trainer_that_resumes_from_an_earlier_checkpoint(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = watched(out)
    made: list[Notice] = []
    again = GOOD[:40] + rows(100, seed=8)[40:]
    for end, history in ((20, GOOD), (40, GOOD), (60, GOOD), (50, again), (70, again), (100, again)):
        folder = out / f"checkpoint-{end}"
        folder.mkdir(parents=True)
        (folder / "trainer_state.json").write_text(json.dumps(state(history[:end])))
        made += run.look()
    assert not {"replaced", "trouble", "lost"} & set(told(made))
    same_as_offline(run, out)


def test_tensorboard_as_it_is_written(tmp_path: Path) -> None:
    """Its writer flushes where it likes: at any moment the last step may have some of its tags and not the others."""
    tensorboard_x = pytest.importorskip("tensorboardX")
    out = tmp_path / "out" / "runs"
    run = watched(out.parent)
    made: list[Notice] = []
    with tensorboard_x.SummaryWriter(str(out), flush_secs=3600) as writer:
        for row in BROKEN:
            for place, (key, value) in enumerate(row.items()):
                if key != "step":
                    writer.add_scalar(f"train/{key}", value, int(row["step"]))
                if row["step"] % 20 == 0 and place == 4:
                    writer.flush()
                    made += run.look()
    assert told(made).count("opened reward-function-broke") == 1
    assert not troubles(made)
    same_as_offline(run, out.parent)
    assert steps(run) == list(range(1, 101))


def test_an_address_is_read_seldom_and_a_dead_network_is_told_once(tmp_path: Path) -> None:
    """What lies elsewhere tells nothing before it is read; here a file stands for it, and is gone while the network is down."""
    log, clock = tmp_path / "log.jsonl", Clock()
    asked: list[float] = []

    def fetch(path: str, name: str | None, growing: Growing | None) -> Run:
        assert path == "s3://bucket/run"
        asked.append(clock.now)
        return vario.read(log, run=name, growing=growing)

    log.write_text(lines(GOOD[:20]))
    run = WatchedRun("far", Followed("s3://bucket/run", fetch, clock=clock), clock=clock)
    made: list[Notice] = []
    for second in range(200):
        if second == 50:
            log.rename(tmp_path / "away")
        if second == 150:
            (tmp_path / "away").rename(log)
            append(log, lines(GOOD[20:40]))
        made += run.look()
        clock.now += 1.0
    assert len(asked) == int(200 / REMOTE_SECONDS) + 1
    assert told(made) == ["trouble"]
    assert steps(run) == list(range(1, 41))


@pytest.mark.parametrize(("age", "kept"), [(0.0, True), (QUIET_SECONDS + 60.0, False)])
def test_what_was_parsed_is_kept_for_a_log_that_still_grows_alone(tmp_path: Path, age: float, kept: bool) -> None:
    """Of a hundred runs that have ended it would weigh a gigabyte."""
    path = tmp_path / "log.jsonl"
    path.write_text(lines(GOOD[:50]))
    os.utime(path, (time.time() - age,) * 2)
    run = watched(path)
    run.look()
    assert steps(run) == list(range(1, 51))
    assert isinstance(run.source, Followed)
    assert bool(run.source._growing._logs) is kept
    append(path, lines(GOOD[50:]))
    run.look()
    assert steps(run) == list(range(1, 101))

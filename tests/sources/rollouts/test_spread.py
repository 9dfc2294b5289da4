"""The same dump counted in one process, in two, and on a real Ray cluster: the same numbers, whatever dies on the way."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("polars")

import vario
from vario.run import Run
from vario.sources.rollouts import dumps, series
from vario.sources.rollouts.discovery import discover
from vario.sources.sampled import SampleOptions
from vario.work import Lost, pool

STEPS, GROUPS, SIZE = 24, 4, 4


def written(path: Path, steps: int = STEPS) -> Path:
    """A dump of one file a step, and rewards, lengths and texts that differ."""
    path.mkdir(parents=True)
    rng = random.Random(4)
    for step in range(1, steps + 1):
        rows = [
            {
                "input": f"what is {group} and {step}?",
                "output": " ".join(rng.choice(("the", "answer", "is", "42", "because")) for _ in range(rng.randint(1, 60))),
                "score": float(rng.random() < 0.5),
                "step": step,
                "uid": f"{group}_{i}_0",
            }
            for group in range(GROUPS)
            for i in range(SIZE)
        ]
        (path / f"{step}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few kilobytes, so that a small dump has many."""
    monkeypatch.setattr(dumps, "PIECE_BYTES", 6_000)


def told(run: Run) -> dict[str, Any]:
    """Everything that was counted, to the last bit."""
    assert run.samples is not None
    made: dict[str, Any] = {
        n: (s.steps.tolist(), [v.hex() for v in s.values.tolist()]) for n, s in run.series.items()
    }
    made["samples"] = [run.samples.steps.tolist(), run.samples.numbers.tolist(), run.samples.groups.tolist()]
    made |= {f"measure {n}": [v.hex() for v in m.tolist()] for n, m in run.samples.measures.items()}
    return made | {"counted": run.samples.counted, "warnings": run.warnings}


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    ray = pytest.importorskip("ray")
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield "auto"
    ray.shutdown()


@pytest.mark.usefixtures("small")
def test_two_processes_count_what_one_does(tmp_path: Path) -> None:
    place = written(tmp_path / "rollouts")
    assert len(discover([place], tmp_path).pieces()) > 4
    one = told(vario.read(place, samples=SampleOptions(workers=1)))
    assert told(vario.read(place, samples=SampleOptions(workers=2))) == one
    assert one["counted"] == STEPS * GROUPS * SIZE


@pytest.mark.usefixtures("small")
@pytest.mark.filterwarnings("ignore")
def test_ray_counts_what_one_process_does(tmp_path: Path, cluster: str) -> None:
    place = written(tmp_path / "rollouts")
    one = told(vario.read(place, samples=SampleOptions(workers=1)))
    assert told(vario.read(place, samples=SampleOptions(ray=cluster))) == one



def counted_with_a_death(task: tuple[series._Task, str, bool]) -> series.PieceCounts | None:
    """Count a piece; kill the own process first, once or always."""
    inner, marker, always = task
    if marker and (always or not Path(marker).exists()):
        Path(marker).write_text("died")
        os.kill(os.getpid(), signal.SIGKILL)
    return series.count_piece(inner)


def tasks(place: Path) -> list[series._Task]:
    run = vario.read(place, samples=SampleOptions(workers=1))
    wishes = series.wishes_of(run, SampleOptions())
    return [series._Task(piece, wishes, 1_000) for piece in discover([place], place).pieces()]


@pytest.mark.parametrize("where", ["processes", "ray"])
@pytest.mark.parametrize("always", [False, True], ids=["once", "always"])
@pytest.mark.usefixtures("small")
@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_loses_and_doubles_nothing(
    tmp_path: Path, request: pytest.FixtureRequest, where: str, always: bool
) -> None:
    place = written(tmp_path / "rollouts")
    work = pool(2, None) if where == "processes" else pool(2, str(request.getfixturevalue("cluster")))
    pieces = tasks(place)
    items = [(task, str(tmp_path / "marker") if i == 2 else "", always) for i, task in enumerate(pieces)]
    found = dict(work.each(counted_with_a_death, items))
    assert sorted(found) == list(range(len(pieces)))
    for i, task in enumerate(pieces):
        here, wished = found[i], series.count_piece(task)
        if always and i == 2:
            assert isinstance(here, Lost)
            continue
        assert isinstance(here, series.PieceCounts)
        assert wished is not None
        assert here.steps.equals(wished.steps)
        assert here.drawn.equals(wished.drawn)
        assert here.rows == wished.rows


@pytest.mark.usefixtures("small")
def test_a_poisoned_part_is_said_and_the_rest_counted(tmp_path: Path) -> None:
    place = written(tmp_path / "rollouts")
    (place / "7.jsonl").write_bytes(b"\xff\xfe\x00" * 900 + b"\n" + b'{"input": 3' + b"\n")
    run = vario.read(place, samples=SampleOptions(workers=2))
    assert run.samples is not None
    assert 7 not in run.samples.steps
    assert run.samples.counted == (STEPS - 1) * GROUPS * SIZE
    assert any("broken" in warning for warning in run.warnings), run.warnings

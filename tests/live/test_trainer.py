"""The callback in real TRL trainings on CPU: a healthy one, one whose reward breaks, every trainer, and what it costs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vario
from tests.live import tiny
from vario.live import VarioCallback, attach
from vario.surfaces.state import State, place_of, run_key

# the libraries of the trainers warn of each other
pytestmark = pytest.mark.filterwarnings("ignore")

BROKE = 60
STEPS = 120


class Timed:
    """What the callback's events cost the training thread, in seconds, one number a step."""

    def __init__(self, callback: VarioCallback) -> None:
        self.seconds: list[float] = [0.0]
        for name in ("on_step_begin", "on_step_end", "on_log"):
            setattr(callback, name, self._timed(getattr(callback, name), ends=name == "on_log"))

    def _timed(self, event: Any, *, ends: bool) -> Any:
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return event(*args, **kwargs)
            finally:
                self.seconds[-1] += time.perf_counter() - began
                if ends:
                    self.seconds.append(0.0)

        return timed


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Timed]:
    """A training whose reward gives nothing from step 61 on, told to stop for what is critical and sure."""
    out = tmp_path_factory.mktemp("broken") / "run"
    trainer = tiny.grpo(out, STEPS, tiny.Breaking(BROKE), save_strategy="steps", save_steps=20)
    callback = attach(
        trainer,
        act={"stop": {"severity": "critical", "confidence": "high"}},
        alerts={"to": [f"file:{out.parent / 'alert.json'}"], "on": ["opened"]},
    )
    timed = Timed(callback)
    trainer.train()
    return out, trainer, timed


def test_a_reward_that_breaks_is_alerted_of_and_stops_the_training(broken: tuple[Path, Any, Timed]) -> None:
    out, trainer, _ = broken
    assert BROKE < trainer.state.global_step < STEPS  # steps go on while the judging process, which comes last, decides
    alert = json.loads((out.parent / "alert.json").read_text())
    assert alert["subject"] == "reward-function-broke"
    assert alert["step"] - BROKE <= STEPS // 10
    assert "Best checkpoint: step" in alert["body"]
    with State.open(place_of(str(out))) as state:
        acts = state.acts(run_key(str(out), place_of(str(out))))
    assert [(a.action, a.subject, a.outcome) for a in acts] == [
        ("stop", "reward-function-broke", "handed to the training")
    ]
    assert acts[0].evidence[0]


def test_the_best_checkpoint_is_named(broken: tuple[Path, Any, Timed]) -> None:
    out, trainer, _ = broken
    trainer.save_state()
    best = vario.diagnose(vario.read(out)).verdict.best_checkpoint
    assert best is not None
    assert best.step <= BROKE
    assert best.nearest_saved in (20, 40, 60)


def test_live_and_offline_find_the_same(broken: tuple[Path, Any, Timed]) -> None:
    out, trainer, _ = broken
    trainer.save_state()
    offline = vario.diagnose(vario.read(out))
    with State.open(place_of(str(out))) as state:
        told = state.told(run_key(str(out), place_of(str(out))))
    assert set(told) == {f.name for f in offline.findings if f.until is None and f.audience == "default"}
    broke = next(f for f in offline.findings if f.name == "reward-function-broke")
    assert (told[broke.name].step, told[broke.name].severity) == (broke.detected_at, broke.severity)


def test_what_was_measured_stays_with_the_trainers_own_log(broken: tuple[Path, Any, Timed]) -> None:
    out, trainer, _ = broken
    trainer.save_state()
    run = vario.read(out)
    for name in ("systems/step-time", "systems/rollout-time"):
        assert len(run.series[name]) > BROKE, name
    assert len(run.series["systems/host-memory-share"]) > 5  # a gauge is sampled by the clock, not by the step
    step, rollout = run.series["systems/step-time"].values, run.series["systems/rollout-time"].values
    assert (rollout[1:] < step[1:]).mean() > 0.9


def test_completions_are_taken_from_the_trainer(broken: tuple[Path, Any, Timed]) -> None:
    out, _, _ = broken
    run = vario.read(out)
    assert run.samples is not None
    assert run.samples.counted == 16 * np.unique(run.samples.steps).size
    assert run.series["reward/mean"].key == "reward"  # logged and counted agree: the log's stays


def test_the_training_thread_pays_less_than_a_millisecond_at_the_median(broken: tuple[Path, Any, Timed]) -> None:
    _, _, timed = broken
    assert float(np.median(timed.seconds)) < 1e-3


def test_a_healthy_training_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "run"
    alert = tmp_path / "alert.json"
    trainer = tiny.grpo(out, STEPS)
    callback = attach(
        trainer,
        act={"stop": {"severity": "warning", "confidence": "medium", "rules": ["SG", "KL", "RW", "RU"]}},
        alerts={"to": [f"file:{alert}"]},
        watch={"review-every": 0},
    )
    trainer.train()
    assert trainer.state.global_step == STEPS
    assert not alert.exists(), alert.read_text()
    assert not callback.failures
    rewards = [r["reward"] for r in trainer.state.log_history if "reward" in r]
    assert np.mean(rewards[-20:]) > np.mean(rewards[:20]) + 0.2


def test_a_resumed_training_goes_on_with_its_history(broken: tuple[Path, Any, Timed]) -> None:
    out, _, _ = broken
    trainer = tiny.grpo(out, 64, save_strategy="no")
    callback = attach(trainer)
    seen: list[Any] = []
    trainer.add_callback(tiny.First(lambda: seen.append(callback.monitor)))
    trainer.train(resume_from_checkpoint=str(out / "checkpoint-60"))
    monitor = seen[0]
    assert list(monitor._recorder.steps) == list(range(1, 65))
    # what broke after the checkpoint did not happen in this life of the run
    with State.open(place_of(str(out))) as state:
        assert "reward-function-broke" not in state.told(run_key(str(out), place_of(str(out))))


@pytest.mark.parametrize("name", ["RLOO", "DPO", "KTO", "Reward", "SFT"])
def test_every_trainer_takes_the_callback(name: str, tmp_path: Path) -> None:
    callback = VarioCallback(directory=tmp_path / "kept")
    trainer = tiny.other(name, tmp_path / "run", [callback])
    seen: list[Any] = []
    trainer.add_callback(tiny.First(lambda: seen.append(callback.monitor)))
    trainer.train()
    assert not callback.failures
    monitor = seen[0]
    logged = [r for r in trainer.state.log_history if "train_runtime" not in r]
    assert len(monitor._recorder) == len(logged) == 3
    assert not monitor.failures


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def test_two_processes_have_one_voice(tmp_path: Path) -> None:
    script = Path(__file__).parent / "two_processes.py"
    done = subprocess.run(
        # without MPI, accelerate starts several processes by torch's elastic launcher only, which it calls multi_gpu
        [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
         "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", str(_free_port()), str(script),
         str(tmp_path)],
        capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1",
             "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told = [json.loads(p.read_text()) for p in sorted(tmp_path.glob("rank-*.json"))]
    assert [t["rank"] for t in told] == [0, 1]
    assert told[0]["rows"] == told[0]["steps"]
    assert told[1]["rows"] is None
    assert told[0]["completions"] == 2 * told[1]["batch"]

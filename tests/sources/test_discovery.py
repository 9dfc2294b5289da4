"""Completions beside a log: `vario.read(folder)` finds them by itself, whichever framework wrote them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pl = pytest.importorskip("polars")

import vario  # noqa: E402
from tests.sources.rollouts.test_layouts import AREAL, ART, episode, lines, message, nemo, sample, trace  # noqa: E402
from tests.sources.rollouts.torch_files import torch_zip  # noqa: E402
from tests.sources.writers import run_python  # noqa: E402
from vario.errors import NothingReadable, SeveralRuns  # noqa: E402

STEPS = tuple(range(1, 7))
ROWS = [{"step": s, "reward": s / 40, "kl": 0.01} for s in range(1, 13)]
Sampled = list[tuple[int, float]]
"""Prompt and reward of the four answers of a step."""


def of(step: int) -> Sampled:
    return [(n // 2, float(n % 2) * step / 10.0) for n in range(4)]


def log(folder: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log.jsonl").write_text(lines(*rows))
    return folder


def text(step: int, n: int) -> str:
    return f"answer {n} of {step}"


def trl(step: int) -> object:
    return pl.DataFrame(
        {
            "step": [step] * 4,
            "prompt": [f"p{q}" for q, _ in of(step)],
            "completion": [text(step, n) for n in range(4)],
            "right": [r for _, r in of(step)],
            "advantage": [0.0] * 4,
        }
    )


def verl(step: int) -> object:
    return lines(
        *(
            {"input": f"p{q}", "output": text(step, n), "gts": "2", "score": r, "step": step, "uid": f"u{q}_{n}_0"}
            for n, (q, r) in enumerate(of(step))
        )
    )


def nemo_rl(step: int) -> object:
    return lines(*(nemo([f"p{q}", text(step, n)], rewards=r, input_lengths=4, token_loss_mask=[0, 0, 1, 1]) for n, (q, r) in enumerate(of(step))))


def slime(step: int) -> object:
    made = [sample(group_index=q, index=n, prompt=f"p{q}", response=text(step, n), reward=r) for n, (q, r) in enumerate(of(step))]
    return torch_zip({"rollout_id": step, "samples": made})


def prime_rl(step: int) -> object:
    return lines(*(episode(trace(r), group={"id": f"g{q}"}) for q, r in of(step)))


def areal(step: int) -> object:
    return lines(*({**AREAL, "task_id": q, "sample_idx": n, "head_version": step, "tail_version": step, "reward": r, "completion": text(step, n)} for n, (q, r) in enumerate(of(step))))


def tinker(step: int) -> object:
    return lines(
        *(
            {
                "schema_version": 1, "split": "train", "iteration": step, "group_idx": q, "traj_idx": n, "tags": [], "total_reward": r,
                "sampling_client_step": step, "final_reward": 0.0, "trajectory_metrics": {}, "final_ob_len": 20,
                "steps": [{"step_idx": 0, "ob_len": 9, "ac_len": 5, "reward": r, "episode_done": True, "metrics": {}, "logs": {}}],
            }
            for n, (q, r) in enumerate(of(step))
        )
    )  # fmt: skip


def art(step: int) -> object:
    def talk(q: int, n: int) -> list[dict[str, Any]]:
        asked = [{**m, "content": f"{m['content']} {q}", "trainable": False} for m in ART[:2]]
        return [*asked, {**message("assistant", text(step, n)), "trainable": True}]

    return pl.DataFrame(
        {
            "group_index": [q for q, _ in of(step)],
            "group_metadata": [None] * 4,
            "reward": [r for _, r in of(step)],
            "metrics": ["{}"] * 4,
            "messages": [talk(q, n) for n, (q, _) in enumerate(of(step))],
        }
    )


def rllm(step: int) -> object:
    made = []
    for n, (q, r) in enumerate(of(step)):
        turn = {"model_response": text(step, n), "reward": r, "chat_completions": [message("user", f"p{q}"), message("assistant", text(step, n))]}
        made.append(
            {
                "training_step": step, "epoch": 0, "episode_id": f"t{q}:{n}", "task": {"q": q}, "task_hash": f"h{q}", "is_correct": r > 0,
                "termination_reason": "env_done", "metrics": {}, "trajectories": [{"name": "default", "reward": r, "steps": [turn]}],
            }
        )  # fmt: skip
    return made


def of_all(rows: Callable[[int, int, int, float], dict[str, Any]]) -> str:
    """One file for the whole run."""
    return lines(*(rows(s, n, q, r) for s in STEPS for n, (q, r) in enumerate(of(s))))


OPEN_INSTRUCT = of_all(
    lambda s, n, q, r: {
        "step": s, "sample_idx": n, "prompt_idx": 10 * s + q, "prompt_tokens": [1], "response_tokens": [3] * 5, "reward": r, "advantage": 0.0,
        "finish_reason": "stop", "dataset": "d", "ground_truth": "2", "request_info": {}, "logprobs": [0.0],
    }
)  # fmt: skip
MS_SWIFT = lines(
    *(
        {
            "step": [str(s)] * 4, "prompt": [f"p{q}" for q, _ in of(s)], "completion": [text(s, n) for n in range(4)],
            "Right": [r for _, r in of(s)], "advantages": [0.0] * 4,
        }
        for s in STEPS
    )
)  # fmt: skip
GENERIC = of_all(lambda s, n, q, r: {"step": s, "prompt": f"p{q}", "response": text(s, n), "reward": r})
DUMPS: dict[str, tuple[str, Callable[[int], object] | str]] = {
    "trl": ("completions/completions_{:05}.parquet", trl),
    "verl": ("rollout_data/{}.jsonl", verl),
    "nemo-rl": ("exp_001/train_data_step{}.jsonl", nemo_rl),
    "slime": ("debug/{}.pt", slime),
    "prime-rl": ("rollouts/step_{}/train/all/traces.jsonl", prime_rl),
    "areal": ("logs/rollout/{}/0.jsonl", areal),
    "tinker": ("iteration_{:06}/train_rollout_summaries.jsonl", tinker),
    "art": ("trajectories/train/{:04}.parquet", art),
    "rllm": ("episodes/train_step_{}_epoch_0/episode_hash{}_{}.json", rllm),
    "open-instruct": ("traces/my_run_rollouts_000000.jsonl", OPEN_INSTRUCT),
    "ms-swift": ("v0-2026/completions.jsonl", MS_SWIFT),
    "generic": ("samples.jsonl", GENERIC),
}


def put(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, str):
        path.write_text(content)
    else:
        content.write_parquet(path)  # type: ignore[attr-defined]


def dumped(folder: Path, framework: str) -> Path:
    where, content = DUMPS[framework]
    if isinstance(content, str):
        put(folder / where, content)
        return folder
    for step in STEPS:
        made = content(step)
        if isinstance(made, list):
            for n, one in enumerate(made):
                put(folder / where.format(step, one["task_hash"], n), json.dumps(one, indent=1))
        else:
            put(folder / where.format(step), made)
    return folder


def check(run: vario.Run, framework: str) -> None:
    assert run.samples is not None, run.warnings
    assert run.samples.counted == 4 * len(STEPS)
    assert not [w for w in run.warnings if "complet" in w], run.warnings
    spread = run.series["reward/std/within-group"]
    assert spread.counted
    assert spread.steps.tolist() == list(STEPS)
    bonus = 0.25 if framework == "prime-rl" else 0.0  # the second function of its traces, at a quarter of its weight
    # open-instruct writes what a filter has left; a total that the log lacks stands under the log's name
    total = next(n for n in ("reward/kept/mean", "samples/reward/mean", "reward/mean") if n in run.series)
    assert run.series[total].values == pytest.approx([s / 20.0 + bonus for s in STEPS])
    assert (total == "reward/kept/mean") == (framework == "open-instruct")
    if framework in ("trl", "ms-swift"):
        assert "reward/component/right/mean" in {n.lower() for n in run.series}
    for name, series in run.series.items():
        if series.counted:
            assert np.isfinite(series.values).all(), name
            assert set(series.steps.tolist()) <= set(STEPS), name


@pytest.mark.parametrize("framework", DUMPS)
def test_completions_beside_a_log_are_found(framework: str, tmp_path: Path) -> None:
    folder = dumped(log(tmp_path / "run"), framework)
    run = vario.read(folder)
    check(run, framework)
    assert run.dumps
    assert all(Path(place).exists() and Path(place).is_relative_to(folder) for place in run.dumps)
    assert not run.series["reward/mean"].counted
    assert run.series["reward/mean"].values.tolist() == [row["reward"] for row in ROWS], "metrics beside dumps are still the log"
    assert run.logged_steps.tolist() == [row["step"] for row in ROWS]
    left = vario.read(folder, samples=vario.sources.sampled.SampleOptions(read=False))
    assert left.dumps == run.dumps
    assert not any(series.counted for series in left.series.values())
    assert left.samples is None


@pytest.mark.parametrize("framework", DUMPS)
def test_completions_alone_are_a_run(framework: str, tmp_path: Path) -> None:
    run = vario.read(dumped(tmp_path / "run", framework))
    check(run, framework)
    assert run.framework == framework
    assert run.logged_steps.tolist() == list(STEPS)
    assert all(series.counted for series in run.series.values())


def test_two_runs_below_one_root_have_their_own(tmp_path: Path) -> None:
    other = [{**row, "reward": 0.9 - row["step"] / 40} for row in ROWS]
    for name, rows, framework in (("a", ROWS, "trl"), ("b", other, "prime-rl")):
        dumped(log(tmp_path / "root" / name, rows), framework)
    with pytest.raises(SeveralRuns) as raised:
        vario.read(tmp_path / "root")
    assert raised.value.names == ["a", "b"]
    for name, framework in (("a", "trl"), ("b", "prime-rl")):
        run = vario.read(tmp_path / "root", run=name)
        check(run, framework)
        assert all(Path(place).is_relative_to(tmp_path / "root" / name) for place in run.dumps)
        assert run.series["reward/mean"].values[0] == (ROWS if name == "a" else other)[0]["reward"]


def test_a_run_without_completions_has_not_its_neighbours(tmp_path: Path) -> None:
    dumped(log(tmp_path / "a"), "trl")
    log(tmp_path / "b", [{**row, "reward": 0.9 - row["step"] / 40} for row in ROWS])
    run = vario.read(tmp_path, run="b")
    assert (run.dumps, run.samples) == ((), None)


def test_a_setting_says_where_they_are(tmp_path: Path) -> None:
    dumped(tmp_path / "far", "verl")
    folder = log(tmp_path / "run")
    settings = {"trainer.rollout_data_dir": str(tmp_path / "far" / "rollout_data"), "learning_rate": 1e-6, "algorithm.adv_estimator": "grpo"}
    (folder / "config.json").write_text(json.dumps(settings))
    run = vario.read(folder)
    check(run, "verl")
    assert run.dumps == (settings["trainer.rollout_data_dir"],)
    shutil.rmtree(tmp_path / "far")
    assert vario.read(folder).dumps == ()


def test_folders_above_say_nothing_of_what_lies_elsewhere(tmp_path: Path) -> None:
    """`eval-box/me/samples.jsonl` is no evaluation because of where it is kept; `eval/…` that one names is."""
    folder = log(tmp_path / "run")
    for place, evaluation in (("eval-box/me/samples.jsonl", False), ("eval-box/samples.jsonl", False), ("kept/eval/samples.jsonl", None)):
        put(tmp_path / place, GENERIC)
        named = str(tmp_path / place) if evaluation is False else str(tmp_path / "kept")
        run = vario.read(folder, samples=vario.sources.sampled.SampleOptions(places=(named,)))
        assert ("samples/reward/mean" in run.series) == (evaluation is False), place
        assert ("eval/score/mean" in run.series) == (evaluation is None), place


def test_a_folder_that_starts_alike_is_another(tmp_path: Path) -> None:
    folder = log(tmp_path / "run")
    dumped(tmp_path / "run-eval", "generic")
    run = vario.read(folder, samples=vario.sources.sampled.SampleOptions(places=(str(tmp_path / "run-eval" / "samples.jsonl"),)))
    assert "samples/reward/mean" in run.series


def test_an_empty_folder_of_completions(tmp_path: Path) -> None:
    folder = log(tmp_path / "run")
    (folder / "completions").mkdir()
    (folder / "completions" / "completions_00001.parquet").write_bytes(b"")
    run = vario.read(folder)
    assert run.samples is None
    assert any("completions" in w for w in run.warnings)
    (tmp_path / "alone" / "completions").mkdir(parents=True)
    with pytest.raises(NothingReadable):
        vario.read(tmp_path / "alone")


def test_completions_in_an_object_store(tmp_path: Path) -> None:
    pytest.importorskip("s3fs")
    server_of = pytest.importorskip("moto.server")
    dumped(log(tmp_path / "run"), "trl")
    (tmp_path / "run" / "config.json").write_text('{"beta": 0.1, "learning_rate": 1e-6, "num_generations": 2}')
    # a bucket of its own: what such servers hold is shared by all of one process
    server = server_of.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        code = (
            "import sys, fsspec, vario\n"
            "fs = fsspec.filesystem('s3'); fs.mkdir('sampled'); fs.put(sys.argv[1], 'sampled/run', recursive=True)\n"
            "run = vario.read('s3://sampled/run')\n"
            "print(run.dumps, run.samples.counted, run.series['reward/std/within-group'].steps.tolist())\n"
            "from vario.surfaces.cli import main\n"
            "main(['samples', 's3://sampled/run', '3/1', '--json'])\n"
        )
        out = run_python(
            code, str(tmp_path / "run"), AWS_ACCESS_KEY_ID="x", AWS_SECRET_ACCESS_KEY="x",
            AWS_ENDPOINT_URL=f"http://{host}:{port}", AWS_DEFAULT_REGION="us-east-1",
        ).splitlines()  # fmt: skip
        assert out[0] == f"('s3://sampled/run/completions',) {4 * len(STEPS)} {list(STEPS)}"
        assert json.loads(out[1])["completion"] == text(3, 1)
    finally:
        server.stop()


def test_an_evaluation_without_a_log_stands_for_itself(tmp_path: Path) -> None:
    rows = [
        {"input_prompt": f"q{i // 4}", "output_response": f"answer {i}", "score": float(i % 2), "stop_reason": "stop",
         "env_class": "maths", "env_extras": {}, "data_source": "maths"}
        for i in range(16)
    ]  # fmt: skip
    place = tmp_path / "dumped_evals" / "global_step_10_evals"
    place.mkdir(parents=True)
    (place / "maths.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = vario.read(tmp_path)
    assert run.framework == "skyrl"
    assert run.series["reward/mean"].values.tolist() == [0.5]
    assert run.logged_steps.tolist() == [10]
    assert run.samples is not None
    assert len(run.samples) == 16
    (tmp_path / "metrics.jsonl").write_text(
        "".join(json.dumps({"step": s, "reward/avg_raw_reward": 0.1 * s, "policy/loss": 0.1}) + "\n" for s in range(1, 12))
    )
    beside = vario.read(tmp_path)
    assert not beside.series["reward/mean"].counted
    assert beside.series["eval/score/mean"].values.tolist() == [0.5]

"""Console logs in the formats that trainers print, each read through `vario.read`: framework, metrics and values.

The logs are written here, line by line as the trainers' sources print them; none is a run of anyone's.
"""

from __future__ import annotations

import json
import math
import pprint
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

import vario
from vario.errors import NothingReadable

STEPS = range(1, 31)
PROSE = (
    "INFO 08-21 12:00:04 [loggers.py:116] Engine 000: Avg prompt throughput: 591.1 tokens/s, Running: 12 reqs, GPU KV cache usage: 3.1%",
    "To solve this, let x = 4 and y = 12. Step 1: the total length = 16, so the answer is 16.",
    "WARNING: the value 0.5 of gpu_memory_utilization=0.3 was used; see https://example.org/a?b=1",
    "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<00:00,  1.45it/s]",
    "",
)


def reward(step: int) -> float:
    return round(0.1 + 0.013 * step, 6)


def kl(step: int) -> float:
    return round(0.0004 * step, 6)


def loss(step: int) -> float:
    return round(0.02 - 0.0007 * step, 6)


def read(path: Path, text: str) -> vario.Run:
    path.write_text(text, encoding="utf-8")
    return vario.read(path)


def values(run: vario.Run, metric: str) -> dict[int, float]:
    series = run.series[metric]
    return dict(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def told(f: Callable[[int], float], steps: Iterable[int] = STEPS) -> dict[int, float]:
    return {s: f(s) for s in steps}


def about(wanted: dict[int, float]) -> dict[int, object]:
    return {s: pytest.approx(v, rel=1e-9, abs=1e-12) for s, v in wanted.items()}


def between_prose(lines: Iterable[str], every: int = 1) -> str:
    """The lines with other output between them."""
    out: list[str] = []
    for i, line in enumerate(lines):
        out += PROSE if i % every == 0 else ()
        out.append(line)
    return "\n".join([*out, *PROSE]) + "\n"


def refused(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NothingReadable) as caught:
        vario.read(path)
    assert path.name in str(caught.value)
    assert "vario reads" in str(caught.value)
    return str(caught.value)


# verl


def verl_row(step: int) -> dict[str, object]:
    return {
        "actor/entropy": 0.5 - step / 100, "actor/pg_loss": loss(step), "actor/pg_clipfrac": 0.0, "actor/ppo_kl": kl(step),
        "actor/grad_norm": 0.31, "actor/lr": 1e-06, "critic/score/mean": reward(step), "critic/score/max": 1, "critic/score/min": 0,
        "response_length/mean": 400.5 + step, "timing_s/step": 61.2, "perf/throughput": 1873.1,
    }  # fmt: skip


def verl_line(step: int, show: Callable[[object], str] = repr) -> str:
    return " - ".join([f"step:{step}", *(f"{k}:{show(v)}" for k, v in verl_row(step).items())])


def numpy_like(value: object) -> str:
    return f"np.float64({value!r})" if isinstance(value, float) else f"np.int64({value!r})"


def check_verl(run: vario.Run, steps: Iterable[int] = STEPS) -> None:
    assert run.framework == "verl"
    assert values(run, "reward/mean") == about(told(reward, steps))
    assert values(run, "loss/policy") == about(told(loss, steps))
    assert values(run, "kl/update") == about(told(kl, steps))
    assert values(run, "systems/throughput") == dict.fromkeys(steps, 1873.1)
    assert not any("not" in w for w in run.warnings), run.warnings


@pytest.mark.parametrize("show", [repr, numpy_like])
@pytest.mark.parametrize(
    "prefix", ["", "(TaskRunner pid=12345) ", "\x1b[36m(TaskRunner pid=12345)\x1b[0m ", "(TaskRunner pid=1, ip=10.0.0.1) "]
)
def test_verl(tmp_path: Path, show: Callable[[object], str], prefix: str) -> None:
    run = read(tmp_path / "train.log", between_prose(prefix + verl_line(s, show) for s in STEPS))
    check_verl(run)
    assert run.ignored_lines == 0


def test_verl_of_three_decimals(tmp_path: Path) -> None:
    run = read(tmp_path / "train.log", between_prose(verl_line(s, lambda v: f"{v:.3f}") for s in STEPS))
    assert run.framework == "verl"
    assert values(run, "reward/mean") == about(told(lambda s: float(f"{reward(s):.3f}")))
    assert set(values(run, "learning-rate").values()) == {0.0}  # as printed: 1e-6 does not show in three decimals


@pytest.mark.parametrize("show", [repr, numpy_like])
def test_verl_with_bars_glued_to_its_lines(tmp_path: Path, show: Callable[[object], str]) -> None:
    bar = "Training Progress:  {:3.0f}%|██▌       | {}/30 [10:00<20:00, 61.20s/it]"
    lines = [bar.format(s / 0.3, s) + verl_line(s, show) + bar.format(s / 0.3, s) for s in STEPS]
    run = read(tmp_path / "train.log", between_prose(lines))
    assert values(run, "reward/mean") == about(told(reward))
    assert values(run, "systems/throughput") == dict.fromkeys(STEPS, 1873.1)
    assert not [k for k in (*run.unmapped, *(s.key for s in run.series.values())) if "Training" in k]


def test_verl_behind_a_bar_that_is_drawn_again(tmp_path: Path) -> None:
    text = "".join(f"\rTraining: {s - 1}/30 [00:01<00:10]\rTraining: {s}/30 [00:01<00:10]\r{verl_line(s)}\n" for s in STEPS)
    check_verl(read(tmp_path / "train.log", text))


def test_verl_with_validation_before_and_between(tmp_path: Path) -> None:
    def held_out(step: int) -> dict[str, float]:
        return {"val-core/openai/gsm8k/reward/mean@1": 0.3 + step / 100}

    first = pprint.pformat(f"Initial validation metrics: {held_out(0)}", width=60)
    lines = [*first.splitlines(), " - ".join(["step:0", *(f"{k}:{v}" for k, v in held_out(0).items())])]
    for s in STEPS:
        extra = "".join(f" - {k}:{v!r}" for k, v in held_out(s).items()) if s % 10 == 0 else ""
        lines.append(verl_line(s) + extra)
    run = read(tmp_path / "train.log", between_prose(lines))
    check_verl(run)
    assert values(run, "eval/set/openai/gsm8k/mean") == about({s: 0.3 + s / 100 for s in (0, 10, 20, 30)})
    assert run.logged_steps.tolist() == list(STEPS)


def test_initial_validation_printed_over_lines_is_step_zero(tmp_path: Path) -> None:
    shown = pprint.pformat({"val-core/openai/gsm8k/reward/mean@1": 0.25, "val-aux/openai/gsm8k/score/mean@1": 0.25}, width=40)
    run = read(tmp_path / "train.log", f"Initial validation metrics: {shown}\n" + between_prose(map(verl_line, STEPS)))
    check_verl(run)
    assert values(run, "eval/set/openai/gsm8k/mean") == {0: 0.25}


def test_verl_not_finite(tmp_path: Path) -> None:
    text = "\n".join(verl_line(s).replace("actor/grad_norm:0.31", "actor/grad_norm:nan" if s == 7 else "actor/grad_norm:inf") for s in STEPS)
    norm = values(read(tmp_path / "train.log", text + "\n"), "gradient/norm")
    assert math.isnan(norm[7])
    assert norm[8] == math.inf


def test_verl_resumed_in_the_same_log(tmp_path: Path) -> None:
    lost = [verl_line(s).replace("critic/score/mean:", "critic/score/mean:7") for s in range(11, 21)]
    lines = [*map(verl_line, range(1, 11)), *lost, *map(verl_line, range(11, 31))]
    run = read(tmp_path / "train.log", "\n".join(lines) + "\n")
    check_verl(run)
    assert [(e.kind, e.step) for e in run.events] == [("resume", 11)]


def test_a_step_that_restarts_is_a_new_start(tmp_path: Path) -> None:
    lines = [verl_line(s).replace("critic/score/mean:", "critic/score/mean:9") for s in range(1, 51)]
    run = read(tmp_path / "train.log", "\n".join([*lines, *map(verl_line, STEPS)]) + "\n")
    check_verl(run)
    assert any("2 trainings one after the other" in w and "newest" in w for w in run.warnings)


def test_the_last_line_without_its_end_gives_no_half_number(tmp_path: Path) -> None:
    whole = "\n".join(map(verl_line, STEPS))
    cut = whole[: whole.rindex("critic/score/mean") + len("critic/score/mean:0.4")]
    run = read(tmp_path / "train.log", cut)
    assert values(run, "reward/mean") == about(told(reward, range(1, 30)))
    assert run.series["loss/policy"].steps[-1] == 30


# TRL and its kin


def trl_row(step: int) -> dict[str, object]:
    return {
        "loss": loss(step), "grad_norm": 0.12353515625, "learning_rate": 1e-06, "num_tokens": 1000.0 * step,
        "completions/mean_length": 500.5, "completions/clipped_ratio": 0.0625, "rewards/code_reward_func/mean": reward(step),
        "rewards/code_reward_func/std": 0.3, "reward": reward(step), "reward_std": 0.25, "frac_reward_zero_std": 0.125,
        "kl": kl(step), "clip_ratio/region_mean": 0.0, "epoch": round(step / 100, 2),
    }  # fmt: skip


def check_trl(run: vario.Run, steps: Iterable[int] = STEPS, rel: float = 1e-9) -> None:
    assert run.framework == "trl"
    for metric, f in (("reward/mean", reward), ("kl/reference", kl), ("loss/total", loss)):
        assert values(run, metric) == {s: pytest.approx(f(s), rel=rel) for s in steps}, metric
    assert set(values(run, "signal/zero-variance-share").values()) == {0.125}


def bar(step: int) -> str:
    return f"\r {step:3d}%|███▍      | {step}/100 [10:00<20:00, 61.20s/it]\r"


def test_trl_as_printed_up_to_transformers_4(tmp_path: Path) -> None:
    text = "".join(f"{bar(s)}{trl_row(s)}\n" for s in STEPS)
    run = read(tmp_path / "train.log", between_prose(text.splitlines()))
    check_trl(run)
    assert any("order of the rows" in w for w in run.warnings)


def test_trl_as_printed_from_transformers_5(tmp_path: Path) -> None:
    lines = [str({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in trl_row(s).items()}) for s in STEPS]
    assert "'loss': '0.0193'" in lines[0]
    check_trl(read(tmp_path / "train.log", between_prose(lines)), rel=1e-3)


def test_trl_evaluations_and_the_summary_take_no_step_and_change_no_value(tmp_path: Path) -> None:
    lines: list[str] = []
    for s in STEPS:
        lines.append(str(trl_row(s)))
        if s % 10 == 0:
            lines.append(str({"eval_loss": 0.5, "eval_reward": 0.9, "eval_kl": 0.3, "eval_runtime": 12.5, "epoch": round(s / 100, 2)}))
    lines.append(str({"train_runtime": 99.5, "train_loss": 0.25, "reward": 123.0, "kl": 456.0, "epoch": 0.3}))
    run = read(tmp_path / "train.log", between_prose(lines, every=5))
    check_trl(run)
    assert values(run, "eval/score/mean") == {10: 0.9, 20: 0.9, 30: 0.9}


def test_trl_nan_and_none(tmp_path: Path) -> None:
    lines = [str(trl_row(s) | {"grad_norm": float("nan" if s == 3 else "inf" if s == 4 else 1.5)}) for s in STEPS]
    norm = values(read(tmp_path / "train.log", "\n".join(lines)), "gradient/norm")
    assert math.isnan(norm[3])
    assert norm[4] == math.inf
    assert norm[5] == 1.5


def test_trl_tensors_in_the_dict(tmp_path: Path) -> None:
    lines = [
        f"{{'loss': tensor({loss(s)}, device='cuda:0'), 'reward': np.float32({reward(s)}), 'reward_std': 0.25, 'frac_reward_zero_std': 0.125, "
        f"'kl': {kl(s)}, 'lengths': tensor([1, 2, 3]), 'epoch': {s / 100}}}"
        for s in STEPS
    ]
    run = read(tmp_path / "train.log", "\n".join(lines) + "\n")
    check_trl(run)
    assert "lengths" not in run.unmapped  # a vector is no scalar, and no missing value either


def test_trl_resumed_counts_on_from_where_it_was(tmp_path: Path) -> None:
    rows = [trl_row(s) for s in range(1, 21)] + [trl_row(s) for s in range(16, 31)]
    run = read(tmp_path / "train.log", "\n".join(map(str, rows)) + "\n")
    check_trl(run)
    assert [(e.kind, e.step) for e in run.events] == [("resume", 16)]


def test_supervised_training_before_trl_is_another_training(tmp_path: Path) -> None:
    warm = [str({"loss": 2.0 - s / 50, "grad_norm": 1.0, "learning_rate": 1e-05, "epoch": round(s / 50, 2)}) for s in range(1, 51)]
    run = read(tmp_path / "train.log", between_prose([*warm, *(str(trl_row(s)) for s in STEPS)], every=7))
    check_trl(run)
    assert any("2 trainings" in w for w in run.warnings)


def test_trl_on_the_same_line_as_other_words(tmp_path: Path) -> None:
    lines = [f"[rank0]:[2026-01-01 00:00:00,000] INFO train.py:7 {trl_row(s)} 12%|█▏ | {s}/100 [00:01<00:10]" for s in STEPS]
    check_trl(read(tmp_path / "train.log", "\n".join(lines) + "\n"))


def test_ms_swift(tmp_path: Path) -> None:
    lines = [
        str(trl_row(s) | {"memory(GiB)": 61.2, "train_speed(s/it)": 12.3, "global_step/max_steps": f"{5 * s}/150", "elapsed_time": "1h 1m 2s"})
        for s in STEPS
    ]
    run = read(tmp_path / "train.log", between_prose(lines))
    assert run.framework == "ms-swift"
    assert values(run, "reward/mean") == about({5 * s: reward(s) for s in STEPS})


def test_llama_factory_dpo_is_told_by_its_arguments_only(tmp_path: Path) -> None:
    lines = [
        str({"loss": loss(s), "grad_norm": 1.5, "learning_rate": 1e-06, "rewards/chosen": 0.1 * s, "rewards/rejected": -0.1 * s,
             "rewards/accuracies": 0.75, "rewards/margins": 0.2 * s, "logps/chosen": -300.0, "logps/rejected": -310.0, "epoch": s / 100})
        for s in STEPS
    ]  # fmt: skip
    (tmp_path / "training_args.yaml").write_text("stage: dpo\nlearning_rate: 1.0e-6\nfinetuning_type: lora\npref_beta: 0.1\ncutoff_len: 1024\n")
    run = read(tmp_path / "running_log.txt", between_prose(lines))
    assert run.framework == "llama-factory"
    assert values(run, "preference/margin") == about(told(lambda s: 0.2 * s))


def test_llama_factory_progress(tmp_path: Path) -> None:
    lines = [str({"current_steps": s, "total_steps": 300, "loss": loss(s), "reward": reward(s), "lr": 1e-6, "percentage": 3.0}) for s in STEPS]
    run = read(tmp_path / "running_log.txt", between_prose(lines))
    assert run.framework == "llama-factory"
    assert values(run, "loss/total") == about(told(loss))


# Ray and Megatron frameworks


def slime_update(u: int) -> dict[str, object]:
    return {"train/loss": loss(u), "train/pg_loss": loss(u), "train/entropy_loss": 0.4 + u / 1000, "train/pg_clipfrac": 0.0, "train/ppo_kl": kl(u),
            "train/train_rollout_logprob_abs_diff": 0.004, "train/grad_norm": 0.21, "train/lr-pg_0": 1e-06, "train/step": u}  # fmt: skip


def slime_log(rollouts: int, each: int, ray: bool) -> str:
    sampler, trainer = ("(RolloutManager pid=7) ", "(MegatronTrainRayActor pid=9) ") if ray else ("", "")
    out: list[str] = []
    for r in range(rollouts):
        sampled = {"rollout/response_len/mean": 800.0 + r, "rollout/truncated_ratio": 0.03, "rollout/repetition_frac": 0.0, "perf/rollout_time": 30.1}
        trained = {"rollout/raw_reward": reward(r), "rollout/rewards": 1.2e-09, "rollout/response_lengths": 800.0 + r, "rollout/truncated": 0.03}
        timed = {"perf/train_wait_time": 1.5, "perf/actor_train_time": 20.0, "perf/step_time": 60.0}
        at = "[2026-08-21 12:00:00]"
        out += [f"{sampler}{at} rollout_metrics.py:268 - perf {r}: {sampled}", f"{trainer}{at} train_metric_utils.py:135 - rollout {r}: {trained}"]
        out += [f"{trainer}{at} model.py:918 - step {u}: {slime_update(u)}" for u in range(r * each, (r + 1) * each)]
        out.append(f"{trainer}{at} train_metric_utils.py:401 - perf {r}: {timed}")
        if r % 5 == 4:
            out.append(f"{sampler}{at} rollout_metrics.py:247 - eval {r}: {({'eval/aime': 0.31 + r / 100})}")
    return between_prose(out, every=4)


@pytest.mark.parametrize("ray", [False, True])
@pytest.mark.parametrize("each", [1, 4])
def test_slime(tmp_path: Path, each: int, ray: bool) -> None:
    run = read(tmp_path / "job.log", slime_log(20, each, ray))
    assert run.framework == "slime"
    assert values(run, "reward/mean") == about(told(reward, range(20)))
    assert values(run, "length/mean") == about(told(lambda r: 800.0 + r, range(20)))
    updates = {r: [0.4 + u / 1000 for u in range(r * each, (r + 1) * each)] for r in range(20)}
    assert values(run, "entropy/mean") == about({r: sum(v) / each for r, v in updates.items()})
    assert values(run, "eval/set/aime/mean") == about({r: 0.31 + r / 100 for r in (4, 9, 14, 19)})
    assert values(run, "systems/rollout-time") == dict.fromkeys(range(20), 30.1)
    assert values(run, "systems/step-time") == dict.fromkeys(range(20), 60.0)


@pytest.mark.parametrize("ray", ["", "(skyrl_entrypoint pid=9) "])
def test_skyrl_over_lines(tmp_path: Path, ray: str) -> None:
    out: list[str] = []
    for s in STEPS:
        row = {"generate/avg_num_tokens": "512.2500", "policy/final_loss": f"{loss(s):.4f}", "policy/grad_norm": "0.3100",
               "policy/loss_metrics/clip_ratio": "0.0021", "policy/policy_kl": f"{kl(s):.4f}", "reward/avg_raw_reward": f"{reward(s):.4f}",
               "timing/step": "61.2000", "trainer/epoch": 0, "trainer/global_step": s}  # fmt: skip
        out += [f"{ray}Started: 'generate'", *PROSE]
        out.append(f"{ray}reward/avg_pass_at_5: 0.9, reward/avg_raw_reward: {reward(s)}, reward/mean_positive_reward: 0.2")
        out.append(f"{ray}2026-08-21 12:00:00.123 | INFO     | skyrl.train.utils.tracking:log:189 - Step {s}: ")
        out += [ray + line for line in pprint.pformat(row).splitlines()]
    if ray:  # other workers write in between
        out = [line for i, one in enumerate(out) for line in (*([f"(pid=7) {PROSE[1]}"] if i % 3 else []), one)]
    run = read(tmp_path / "train.log", "\n".join(out) + "\n")
    assert run.framework == "skyrl"
    assert values(run, "reward/mean") == {s: pytest.approx(reward(s), abs=5e-5) for s in STEPS}
    assert values(run, "loss/total") == {s: pytest.approx(loss(s), abs=5e-5) for s in STEPS}
    assert values(run, "length/mean") == dict.fromkeys(STEPS, 512.25)
    assert run.ignored_lines == 0


def test_skyrl_dict_on_one_line_under_its_step(tmp_path: Path) -> None:
    out = [f"Step {s}: \n{{'reward/avg_raw_reward': '{reward(s):.4f}', 'policy/final_loss': '0.1000'}}" for s in (2, 4, 6, 8, 10)]
    run = read(tmp_path / "train.log", "\n".join(out) + "\n")
    assert run.framework == "skyrl"
    assert run.series["reward/mean"].steps.tolist() == [2, 4, 6, 8, 10]


def test_skyrl_without_its_console_backend(tmp_path: Path) -> None:
    out = []
    for s in STEPS:
        out.append(f"reward/avg_pass_at_5: 0.9, reward/avg_raw_reward: {reward(s)}, reward/mean_positive_reward: 0.2")
        out.append(f"avg_final_rewards: {reward(s) - 0.01}, avg_response_length: {500.0 + s}")
    run = read(tmp_path / "train.log", between_prose(out))
    assert run.framework == "skyrl"
    assert values(run, "reward/mean") == about(told(reward))
    assert values(run, "length/mean") == about(told(lambda s: 500.0 + s))


def nemo_block(step: int, *, dynamic: bool = False) -> list[str]:
    rewards = [f"  • Avg Filtered Reward: {reward(step):.4f}", f"  • Avg Total Reward: {reward(step) - 0.05:.4f}"]
    return [
        f"========================= Step {step}/1000 =========================",
        "▶ Preparing batch...",
        *(["📊 Validation Results:", f"    • Accuracy: {0.4 + step / 1000:.4f}", "    • Average response length: 512.3 tokens", "",
           "  ⏱️  Validation Timing:", "    • Total validation time: 12.34s"] if step % 10 == 0 else []),
        "",
        "📊 Training Results:",
        f"  • Loss: {loss(step):.4f}",
        f"  • Generation KL Error: {kl(step):.4f}",
        *(rewards if dynamic else [f"  • Avg Reward: {reward(step):.4f}"]),
        "  • Mean Generation Length: 512.2500",
        "",
        "⏱️  Timing:",
        "  • Total step time: 61.20s",
        "  • generation: 31.10s (50.8%)",
        "  • policy_training: 20.02s (32.7%)",
        "🔍 Performance Metrics:",
        "    - E2E (Tokens/sec/gpu): 2000.00",
        "",
    ]  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True])
def test_nemo_rl(tmp_path: Path, dynamic: bool) -> None:
    first = ["▶ Starting initial validation...", "📊 Validation Results:", "    • Accuracy: 0.3500", "    • Average response length: 500.0 tokens"]
    out = [*first, *(line for s in STEPS for line in nemo_block(s, dynamic=dynamic))]
    run = read(tmp_path / "ray-driver.log", between_prose(out, every=9))
    assert run.framework == "nemo-rl"
    shown = {s: pytest.approx(reward(s) - 0.05 * dynamic, abs=5e-5) for s in STEPS}
    assert values(run, "reward/mean") == shown
    assert values(run, "loss/total") == {s: pytest.approx(loss(s), abs=5e-5) for s in STEPS}
    assert values(run, "engine/kl") == {s: pytest.approx(kl(s), abs=5e-5) for s in STEPS}
    assert values(run, "eval/score/mean") == about({0: 0.35} | {s: 0.4 + s / 1000 for s in (10, 20, 30)})
    assert values(run, "systems/step-time") == dict.fromkeys(STEPS, 61.2)
    assert values(run, "systems/rollout-time") == dict.fromkeys(STEPS, 31.1)
    assert values(run, "systems/train-time") == dict.fromkeys(STEPS, 20.02)
    assert values(run, "length/mean") == dict.fromkeys(STEPS, 512.25)
    assert not run.unmapped


def openrlhf_row(step: int) -> dict[str, object]:
    return {"policy_loss": loss(step), "actor_lr": 1e-06, "actor_grad_norm": 0.2, "ppo_clip_ratio": 0.0, "ppo_kl": 1e-05, "kl": kl(step),
            "reward": reward(step), "group_reward_std": 0.25, "response_length": 512.5, "truncated": 0.0, "return": 0.001}  # fmt: skip


@pytest.mark.parametrize("star", ["✨ ", ""])
@pytest.mark.parametrize("ray", ["", "\x1b[36m(PPOTrainer pid=1234)\x1b[0m "])
def test_openrlhf(tmp_path: Path, star: str, ray: str) -> None:
    out: list[str] = []
    for s in STEPS:
        out.append(f"{ray}INFO 08-20 12:34:56 ppo_trainer.py:551] {star}Global step {s}: {openrlhf_row(s)}")
        out.append(f"{ray}INFO 08-20 12:34:57 ppo_trainer.py:560] Sample: ['Step 3: the reward is 7 and length = 12', 0.5]")
        out.append(f"{ray}Filtered out: avg_reward=0.00, threshold=(0.00, 1.00), scores=[0.0, 0.0]")
        if s % 10 == 0:
            evaluated = {"eval_math_pass1": 0.4 + s / 100, "eval_math_pass4": 0.8, "eval_num_samples": 500}
            out.append(f"{ray}INFO 08-20 12:35:56 x.py:1] ✨ Evaluation completed in 0:01:02, global_step {s}, eval_metrics: {evaluated}")
    run = read(tmp_path / "train.log", between_prose(out, every=11))
    assert run.framework == "openrlhf"
    assert values(run, "reward/mean") == about(told(reward))
    assert values(run, "kl/reference") == about(told(kl))
    assert values(run, "eval/set/math/mean") == about({s: 0.4 + s / 100 for s in (10, 20, 30)})
    assert run.logged_steps.tolist() == list(STEPS)


def fancy_grid(row: dict[str, object], pairs: int = 2) -> list[str]:
    """A table as `tabulate` draws it in `fancy_grid`, column by column, floats in `.4e`."""
    items = [(k, f"{v:.4e}" if isinstance(v, float) else str(v)) for k, v in row.items()]
    height = math.ceil(len(items) / pairs)
    columns: list[list[str]] = []
    for c in range(pairs):
        part = items[c * height : (c + 1) * height]
        part += [("", "")] * (height - len(part))
        columns += [[k for k, _ in part], [v for _, v in part]]
    widths = [max(map(len, column)) for column in columns]

    def ruled(left: str, middle: str, right: str, line: str) -> str:
        return left + middle.join(line * (w + 2) for w in widths) + right

    body: list[str] = []
    for i in range(height):
        body.append("│" + "│".join(f" {column[i]:<{w}} " for column, w in zip(columns, widths, strict=True)) + "│")
        body.append(ruled("├", "┼", "┤", "─"))
    return [ruled("╒", "╤", "╕", "═"), *body[:-1], ruled("╘", "╧", "╛", "═")]


def areal_row(step: int) -> dict[str, object]:
    return {"ppo_actor/task_reward/avg": reward(step), "ppo_actor/update/approx_kl/avg": -kl(step), "ppo_actor/update/entropy/avg": 0.5,
            "ppo_actor/update/actor_loss/avg": loss(step), "ppo_actor/update/grad_norm": float("nan") if step == 5 else 0.2,
            "ppo_actor/update/lr": 1e-06, "timeperf/train_step": 30.5}  # fmt: skip


@pytest.mark.parametrize("coloured", [False, True])
def test_areal(tmp_path: Path, coloured: bool) -> None:
    on, off = ("\x1b[1;34m", "\x1b[0m") if coloured else ("", "")
    out: list[str] = []
    for s in STEPS:
        out.append(f"{on}20260821-12:00:00.123 StatsLogger INFO: Epoch 1/10 Step {s}/120 Train step {s}/1200 done.{off}")
        out.append(f"{on}20260821-12:00:00.124 StatsLogger INFO: Stats (1/1):")
        out += [*fancy_grid(areal_row(s), 4 if s % 2 else 2), off]
    run = read(tmp_path / "main.log", between_prose(out, every=40))
    assert run.framework == "areal"
    assert values(run, "reward/mean") == {s: pytest.approx(reward(s), rel=1e-4) for s in STEPS}
    assert values(run, "loss/policy") == {s: pytest.approx(loss(s), rel=1e-3, abs=1e-6) for s in STEPS}
    assert values(run, "learning-rate") == dict.fromkeys(STEPS, 1e-6)
    assert math.isnan(values(run, "gradient/norm")[5])


def test_other_tables_in_an_areal_log_are_not_taken(tmp_path: Path) -> None:
    out: list[str] = []
    for s in STEPS:
        out.append(f"Epoch 1/10 Step {s}/120 Train step {s}/1200 done.")
        out += [*fancy_grid(areal_row(s)), "│ ppo_actor/task_reward/avg │ 99.0 │"]
    run = read(tmp_path / "main.log", "\n".join(out) + "\n")
    assert max(values(run, "reward/mean").values()) < 1.0


@pytest.mark.parametrize("averaged", [False, True])
def test_deepspeed_chat_over_two_epochs(tmp_path: Path, averaged: bool) -> None:
    out: list[str] = []
    for epoch in (0, 1):
        for s in range(20):
            n = 20 * epoch + s
            out.append(f"Epoch: {epoch} | Step: {s} | PPO Epoch: 1 | Actor Loss: {loss(n)} | Critic Loss: 0.034 | Unsupervised Loss: 0.0")
            out.append("End-to-End => Latency: 9.1s, TFLOPs: 50.1, Samples/sec: 3.5, Time/seq 0.2s, Batch Size: 32, Total Seq. Length: 512")
            out.append(f"Average reward score: {reward(n)}" + (f" | EMA reward score: {reward(n) - 0.1}" if averaged else ""))
            out.append("-" * 85)
    run = read(tmp_path / "training.log", between_prose(out, every=13))
    assert run.framework == "deepspeed-chat"
    assert values(run, "loss/policy") == about(told(loss, range(40)))
    assert values(run, "reward/mean") == about(told(reward, range(40)))
    assert run.events == ()


def test_prime_rl_trainer_and_orchestrator(tmp_path: Path) -> None:
    out: list[str] = []
    for s in STEPS:
        out.append(f"12:00:00    INFO Step {s} | 1m 3s | Reward {reward(s):.4f} | Trainable 120/128 (93.8%) | Turns 1.0 | Branches 1.0 | Max Off-Policy 2 | Error 0.0% | Cancelled 0.0% | Truncation 3.1%")
        out.append(f"12:00:00 SUCCESS Step {s} |  1m 3s | Loss {loss(s):.4f} | Entropy 0.4321 | Mismatch KL {kl(s):.4f} | Grad. Norm 0.1234 | LR 1.00e-06 | Throughput 12345 tokens/s | MFU 30.1% | Peak Mem. 60.2 GiB")
        if s % 10 == 0:
            out.append(f"12:00:00    INFO Evaluated gsm8k (Step {s}) | Policy v{s} |  2m 3s | Reward 0.4312 | Turns 1.0 | Branches 1.0 | Error 0.0% | Truncation 3.1%")
            out.append(f"12:00:00    INFO Evaluated aime (Step {s}) | Policy v{s} |  2m 3s | Reward 0.1 | Turns 1.0 | Branches 1.0 | Error 0.0% | Truncation 9.1%")
    run = read(tmp_path / "trainer.log", between_prose(out, every=5))
    assert run.framework == "prime-rl"
    assert values(run, "reward/mean") == {s: pytest.approx(reward(s), abs=5e-5) for s in STEPS}
    assert values(run, "engine/kl") == {s: pytest.approx(kl(s), abs=5e-5) for s in STEPS}
    assert values(run, "entropy/mean") == dict.fromkeys(STEPS, 0.4321)
    assert values(run, "learning-rate") == dict.fromkeys(STEPS, 1e-6)
    assert values(run, "length/truncated-share") == about(dict.fromkeys(STEPS, 0.031))
    assert values(run, "eval/set/gsm8k/mean") == dict.fromkeys((10, 20, 30), 0.4312)
    assert values(run, "eval/set/aime/mean") == dict.fromkeys((10, 20, 30), 0.1)
    assert "kl/reference" not in run.series
    assert not run.unmapped


def test_prime_rl_as_printed_before_0_6(tmp_path: Path) -> None:
    out: list[str] = []
    for s in STEPS:
        out.append(f"Step {s} | Time: 12.34s | Reward: {reward(s):.4f} | Seq. Length: 512.0 tokens/sample | Async Level: 1 | Max. Off-Policy Level: 2")
        out.append(f"Step {s} | Time: 12.34s | Loss: {loss(s):.4f} | Entropy: 0.4300 | Mismatch KL: {kl(s):.4f} | Grad. Norm: 0.1234 | LR: 1.00e-06 | Throughput: 12345 tokens/s | MFU: 30.1% | Peak Mem.: 60.2 GiB")
    run = read(tmp_path / "rl.log", between_prose(out, every=5))
    assert run.framework == "prime-rl"
    assert values(run, "reward/mean") == {s: pytest.approx(reward(s), abs=5e-5) for s in STEPS}
    assert values(run, "engine/kl") == {s: pytest.approx(kl(s), abs=5e-5) for s in STEPS}
    assert values(run, "gradient/norm") == dict.fromkeys(STEPS, 0.1234)


def rich_table(step: int, row: dict[str, object]) -> list[str]:
    wide, narrow = max(map(len, row)), 12
    return [
        f"Step {step}".center(wide + narrow + 7),
        f"┏{'━' * (wide + 2)}┳{'━' * (narrow + 2)}┓",
        f"┃ {'Metric':<{wide}} ┃ {'Value':<{narrow}} ┃",
        f"┡{'━' * (wide + 2)}╇{'━' * (narrow + 2)}┩",
        *(f"│ {k:<{wide}} │ {v:<{narrow}} │" for k, v in row.items()),
        f"└{'─' * (wide + 2)}┴{'─' * (narrow + 2)}┘",
    ]


def test_tinker_tables(tmp_path: Path) -> None:
    out: list[str] = []
    for s in range(30):
        out += rich_table(s, {"env/all/reward/total": f"{reward(s):.6f}", "optim/lr": "0.000001", "optim/entropy": "0.400000",
                              "optim/kl_sample_train_v1": f"{kl(s):.6f}", "a_name_too_long_for_the…": "3.0"})  # fmt: skip
        out.append("│ env/all/reward/total │ 77.0 │")
    run = read(tmp_path / "logs.log", between_prose(out, every=31))
    assert run.framework == "tinker"
    assert values(run, "reward/mean") == about(told(reward, range(30)))
    assert values(run, "entropy/mean") == dict.fromkeys(range(30), 0.4)


def test_open_instructs_panel_gives_no_rounded_numbers(tmp_path: Path) -> None:
    def panel(s: int) -> list[str]:
        return [
            "╭────────────────────────────────── Metrics ───────────────────────────────────╮",
            f"│ objective  kl0_avg: 0.0{s % 10} | kl1_avg: {s}.23e-06 | kl2_avg: 0.00 | kl3_avg: 0.00 │",
            f"│ val        sequence_lengths: {500 + s}.00 | stop_rate: 0.93 | ratio: 1.00          │",
            f"│ other      scores: 4.{s:02d} | episode: 128 | training_step: {s} | lr: 1.00e-06    │",
            "╰──────────────────────────────────────────────────────────────────────────────╯",
        ]

    said = "[accumulate_inference_batches] training_step={} sampled=16/16 filtered=5 (all_zero=3, all_solved=2, nonzero_std0=0)"
    lines = [line for s in range(20) for line in [*panel(s), said.format(s)]]
    refused(tmp_path / "grpo_fast.log", between_prose(lines, every=6))


# loops of one's own


def test_brackets_with_the_step_of_all(tmp_path: Path) -> None:
    lines = [f"[Step {s}/500] loss={loss(s):.6f} reward_avg={reward(s):.6f} tokens_per_sec=48.7 avg_response_len={300 + s}.5" for s in STEPS]
    run = read(tmp_path / "train.txt", between_prose(lines))
    assert run.framework == "generic"
    assert values(run, "reward/mean") == about(told(reward))
    assert values(run, "loss/total") == about(told(loss))
    assert values(run, "length/mean") == about(told(lambda s: 300.5 + s))


STYLES = (
    "epoch 1 step {s} train loss={loss} mean reward={reward} kl={kl}",
    "iter {s}: loss {loss}, reward {reward}, kl {kl}, time 50.00ms",
    "iter {s}/30 | loss {loss} | reward {reward} | kl {kl} | lr 1.0e-06",
    "2026-01-01 00:00:00,123 - INFO - step={s}, loss={loss}, reward={reward}, kl={kl}",
    "[2026-01-01 00:00:00] [train.py:57] global_step: {s} | loss: {loss} | reward: {reward} | kl: {kl}",
    "Iteration {s:>4}    loss: {loss}    reward: {reward}    kl: {kl}",
    "Step #{s} - loss: {loss} - reward: {reward} - kl: {kl}",
    "  | step {s} | loss = {loss} | reward = {reward} | kl = {kl} |",
    "\x1b[32mstep {s}\x1b[0m loss=\x1b[1m{loss}\x1b[0m reward=\x1b[1m{reward}\x1b[0m kl={kl}",
    "(step={s}) loss={loss}; reward={reward}; kl={kl}s",
    "Training step {s}: {{loss: {loss}, reward: {reward}, kl: {kl}}}",
)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("between", [False, True])
def test_styles_of_ones_own(tmp_path: Path, style: str, between: bool) -> None:
    lines = [style.format(s=s, loss=loss(s), reward=reward(s), kl=kl(s)) for s in STEPS]
    run = read(tmp_path / "train.log", between_prose(lines) if between else "\n".join(lines) + "\n")
    assert values(run, "reward/mean") == about(told(reward))
    assert values(run, "loss/total") == about(told(loss))
    assert values(run, "kl/reference") == about(told(kl))


def test_epochs_and_iterations_in_brackets(tmp_path: Path) -> None:
    lines = [
        f"Epoch:[{e}/2]({s}/30), Reward: {reward(30 * (e - 1) + s):.6f}, KL_ref: {kl(30 * (e - 1) + s):.6f}, Adv Std: 0.9, Actor Loss: 0.0003, Avg Response Len: 317.25, Learning Rate: 0.00000030"
        for e in (1, 2)
        for s in STEPS
    ]
    run = read(tmp_path / "train.txt", between_prose(lines))
    assert values(run, "reward/mean") == about(told(reward, range(1, 61)))
    assert values(run, "kl/reference") == about(told(kl, range(1, 61)))
    assert set(values(run, "learning-rate").values()) == {3e-7}


def test_json_lines_between_prose(tmp_path: Path) -> None:
    lines = [f"12:00:01 INFO {json.dumps({'step': s, 'reward': reward(s), 'loss': loss(s), 'metrics': {'kl': kl(s)}})}" for s in STEPS]
    run = read(tmp_path / "train.log", between_prose(lines))
    assert values(run, "reward/mean") == about(told(reward))
    assert values(run, "kl/reference") == about(told(kl))


def test_two_lines_a_step(tmp_path: Path) -> None:
    lines = [f"step {s}: loss = {loss(s)}, kl = {kl(s)}\n    mean reward = {reward(s)}, mean length = {100 + s}" for s in STEPS]
    run = read(tmp_path / "train.log", "\n".join(lines) + "\n")
    assert values(run, "loss/total") == about(told(loss))
    assert values(run, "reward/mean") == about(told(reward))


def test_a_line_before_the_line_of_its_step(tmp_path: Path) -> None:
    lines = [f"mean reward = {reward(s)}, mean length = {100 + s}\nstep {s}: loss = {loss(s)}, kl = {kl(s)}" for s in STEPS]
    run = read(tmp_path / "train.log", "\n".join(lines) + "\n")
    assert values(run, "loss/total") == about(told(loss))
    assert values(run, "reward/mean") == about(told(reward))


def test_evaluations_in_the_second_line_of_a_step(tmp_path: Path) -> None:
    lines = []
    for s in range(10, 310, 10):
        lines.append(f"step {s}: loss = {loss(s)}, kl = {kl(s)}, entropy = 0.5")
        lines.append(f"metrics: {{'mean_reward': {reward(s)}, 'mean_length': 7.5, 'epoch': {s / 100}}}")
        if s % 100 == 0:
            lines.append(f"metrics: {{'eval_reward': {s / 1000}, 'epoch': {s / 100}}}")
    run = read(tmp_path / "train.log", "\n".join(lines) + "\n")
    assert values(run, "reward/mean") == about(told(reward, range(10, 310, 10)))
    assert values(run, "loss/total") == about(told(loss, range(10, 310, 10)))
    assert values(run, "eval/score/mean") == {100: 0.1, 200: 0.2, 300: 0.3}


def test_lists_in_a_text_between_the_sections_are_not_taken(tmp_path: Path) -> None:
    text = ["  • Loss: 99.0", "    - Avg Reward: 99.0", " Step 3 ", "  * Loss: 99.0"]
    out = [line for s in STEPS for line in (nemo_block(s)[0], *text, *nemo_block(s)[1:])]
    run = read(tmp_path / "train.log", "\n".join(out) + "\n")
    assert max(values(run, "loss/total").values()) < 1.0
    assert values(run, "reward/mean") == {s: pytest.approx(reward(s), abs=5e-5) for s in STEPS}


def test_further_keys_on_some_lines(tmp_path: Path) -> None:
    lines = [f"step {s} loss={loss(s)} reward={reward(s)}" + (f" eval_reward={0.5 + s / 100}" if s % 10 == 0 else "") for s in STEPS]
    run = read(tmp_path / "train.log", "\n".join(lines) + "\n")
    assert values(run, "reward/mean") == about(told(reward))
    assert values(run, "eval/score/mean") == about({s: 0.5 + s / 100 for s in (10, 20, 30)})


def test_held_out_lines_are_kept_apart(tmp_path: Path) -> None:
    lines = [
        f"step {s}: loss = {loss(s)}, reward = {reward(s)}" + (f"\nValidation step {s}: loss = 9.5, reward = 8.5" if s % 10 == 0 else "")
        for s in STEPS
    ]
    run = read(tmp_path / "train.log", "\n".join(lines) + "\n")
    assert values(run, "reward/mean") == about(told(reward))
    assert values(run, "eval/score/mean") == dict.fromkeys((10, 20, 30), 8.5)


def test_percent_and_thousands(tmp_path: Path) -> None:
    lines = [f"step {s}: loss = {loss(s)}, reward = 1,234.5, clip_frac: 4.5%, entropy: 3 %, completion_length: 2,048" for s in STEPS]
    run = read(tmp_path / "train.log", "\n".join(lines) + "\n")
    assert set(values(run, "reward/mean").values()) == {1234.5}
    assert values(run, "clip/fraction/total") == about(dict.fromkeys(STEPS, 0.045))
    assert values(run, "entropy/mean") == about(dict.fromkeys(STEPS, 0.03))
    assert set(values(run, "length/mean").values()) == {2048.0}


def test_a_vector_of_rewards_counts_by_its_mean(tmp_path: Path) -> None:
    lines = [f"step {s} rewards: tensor([0.0, {2 * reward(s)}], device='cuda:0') loss: {loss(s)}" for s in STEPS]
    run = read(tmp_path / "train.log", "\n".join(lines) + "\n")
    assert values(run, "reward/mean") == about(told(reward))


@pytest.mark.parametrize("shuffled", [False, True])
def test_the_same_row_from_four_ranks(tmp_path: Path, shuffled: bool) -> None:
    rng = np.random.default_rng(0)
    late = [np.sort([s + rng.uniform(0, 3.0) for s in STEPS]) for _ in range(4)] if shuffled else [np.array(STEPS)] * 4
    rows = sorted((float(at), s) for times in late for at, s in zip(times, STEPS, strict=True))
    lines = [f"step {s}: loss = {loss(s)}, reward = {reward(s)}, kl = {kl(s)}" for _, s in rows]
    run = read(tmp_path / "train.log", "\n".join(lines) + "\n")
    assert values(run, "reward/mean") == about(told(reward))
    assert run.logged_steps.size == 30
    assert run.events == ()
    assert not [w for w in run.warnings if "more than once" in w]


@pytest.mark.parametrize("prefix", ["[rank{}]: ", "[default{}]:", "Rank {} | "])
@pytest.mark.parametrize("stepped", [False, True])
def test_rows_of_four_ranks_are_those_of_the_first(tmp_path: Path, prefix: str, stepped: bool) -> None:
    lines = [
        f"{prefix.format(r)}{f'step {s}: ' if stepped else ''}loss = {loss(s) + r}, mean reward = {reward(s) + 10 * r}, kl = {kl(s)}"
        for s in STEPS
        for r in range(4)
    ]
    run = read(tmp_path / "train.log", "\n".join(lines) + "\n")
    assert values(run, "reward/mean") == about(told(reward))
    assert any("4 ranks" in w for w in run.warnings)


@pytest.mark.parametrize("prefix", ["[rank{}]: ", "[{}]:", "[default{}]:"])
def test_dicts_of_four_ranks_without_a_step_are_those_of_the_first(tmp_path: Path, prefix: str) -> None:
    lines = [f"{prefix.format(r)}{trl_row(s) | {'loss': loss(s) + r}}" for s in STEPS for r in range(4)]
    check_trl(read(tmp_path / "train.log", "\n".join(lines) + "\n"))


def test_output_wrapped_in_json_by_a_notebook_service(tmp_path: Path) -> None:
    text = "".join(f"{bar(s)}{trl_row(s)}\n" for s in STEPS)
    pieces = [text[i : i + 97] for i in range(0, len(text), 97)]  # cut anywhere, in numbers too
    lines = [json.dumps({"stream_name": "stdout", "time": i / 7, "data": p}) for i, p in enumerate(pieces)]
    other = [json.dumps({"stream_name": "stderr", "time": 0.5, "data": f"W 12 {i} loss\n"}) for i in range(len(lines))]
    mixed = [line for pair in zip(lines, other, strict=True) for line in pair]
    check_trl(read(tmp_path / "kernel.log", "[" + "\n,".join(mixed) + "\n]"))
    check_trl(read(tmp_path / "kernel2.log", "\n".join(mixed) + "\n"))


# what is no training


@pytest.mark.parametrize("name", ["notes.txt", "out.log", "README"])
def test_prose_full_of_numbers(tmp_path: Path, name: str) -> None:
    refused(
        tmp_path / name,
        "We trained 3 models with learning_rate=1e-5, kl coefficient: 0.04 and batch size = 64.\n"
        "Table 3: the accuracy was 45.2% (loss = 0.31), against 44.1% (loss = 0.35) before.\n"
        "At step 400 the reward: 0.71 was the best, see section 4.2.1, p. 17; length = 512.\n"
        "Version 2.1: max_length=512, temperature=0.9\n" * 3,
    )


def test_a_traceback(tmp_path: Path) -> None:
    refused(
        tmp_path / "err.log",
        "Traceback (most recent call last):\n"
        '  File "/opt/train.py", line 123, in training_step\n'
        "    loss, reward = model(ids, lr=1e-5, clip=0.2, max_length=512, kl_coef=0.01)\n"
        '  File "/opt/model.py", line 9, in forward\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.25 GiB of which 1.5 GiB is free.\n"
        "[rank0]:[W121] Warning: process group: step 3 loss 0.5 (function operator())\n" * 8,
    )


def test_output_of_pip_and_of_an_engine(tmp_path: Path) -> None:
    engine = [
        f"INFO 08-21 12:00:{i:02d} [loggers.py:116] Engine 000: Avg prompt throughput: {i}.5 tokens/s, Avg generation throughput: {9 * i}.25 tokens/s, "
        f"Running: {i} reqs, Waiting: 0 reqs, GPU KV cache usage: {i / 7:.1f}%, Prefix cache hit rate: {i / 3:.1f}%"
        for i in range(60)
    ]
    decode = [f"[2026-08-21 12:00:00] Decode batch. #running-req: {i}, #token: {i * 100}, token usage: 0.{i:02d}, accept len: {1 + i / 9:.2f}, gen throughput (token/s): {i}.5" for i in range(60)]
    pip = [
        "Collecting torch==2.1.0", "  Downloading torch-2.1.0-cp310-manylinux1_x86_64.whl (700.2 MB)", "     ━━━━━━━━━━━━ 670.2/670.2 MB 2.3 MB/s eta 0:00:00",
        "Requirement already satisfied: numpy>=1.20 in /usr/lib (from torch==2.1.0) (1.26.4)", "Successfully installed accelerate-0.30 trl-0.9.4 norm-1.2.3",
    ] * 20  # fmt: skip
    refused(tmp_path / "setup.log", "\n".join([*pip, *engine, *decode]) + "\n")


def test_a_configuration_that_is_printed(tmp_path: Path) -> None:
    config = {"learning_rate": 1e-06, "loss_type": "grpo", "max_length": 512, "epsilon": 0.2, "kl_coef": 0.001, "max_grad_norm": 1.0}
    flat = "Namespace(learning_rate=1e-06, kl_coef=0.001, max_length=512, clip_range=0.2, loss='x', gamma=0.99)"
    lines = [str(config), flat, f"[rank1]: {config}", pprint.pformat(config, width=40), flat, f"non-default args: {config}", str(config)]
    refused(tmp_path / "start.log", "\n".join(lines) + "\n")


def test_model_texts_with_dicts_and_steps_in_them(tmp_path: Path) -> None:
    texts = [
        "Step 1: Let the length = 5 and the norm = 3.5.\nStep 2: Then length = 7, so norm = 4.25.\nStep 3:\n{'length': 7.5, 'score': 2.5}\nThe answer is 12.",
        '<tool_call>{"name": "solve", "arguments": {"length": 4.5, "score": 0.5}}</tool_call>\nreward = 4.5 * 3 and loss = 2.5',
        "def f(x):\n    return {'loss': x, 'grad': 0.5}\n\nf(2)  # {'loss': 2, 'grad': 0.5}",
        '{"step": 1, "action": "left", "reward": 0.5}\n{"step": 2, "action": "up", "reward": 0.0}\n{"step": 3, "action": "up", "reward": 1.5}',
    ]
    refused(tmp_path / "samples.log", "\n".join(f"Sample {i}\n{t}\n" for i in range(40) for t in texts))


def test_what_is_printed_for_each_completion(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lines: list[str] = []
    for i in range(200):
        a, b = rng.random(2).round(3).tolist()
        lines.append(f"reward: {{'format_reward': {a}, 'answer_reward': {b}, 'reward': {a + b}}}")
        lines.append(f"Completion {i}: {{'reward': {a}, 'length': {i * 3}, 'correct': True}}")
        lines.append(f"reward: {a:.3f}, length: {i * 3}")
        lines.append(f"Rewards: {a:.3f} {b:.3f} | score={b:.3f}")
    refused(tmp_path / "completions.log", "\n".join(lines) + "\n")


def test_dicts_of_single_samples(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = [{"reward": a, "length": 7.5, "kl": b, "logprob_mean": -b} for a, b in rng.random((90, 2)).round(3).tolist()]
    refused(tmp_path / "a.log", "".join(f"Sample {i}: {r}\n[Completion {i}] {r}\nrollout {i}: {r}\n".replace("rollout", "answer") for i, r in enumerate(rows)))
    refused(tmp_path / "b.log", "".join(f"{r | {'completion': 'a text that says why the answer is what it is'}}\n" for r in rows))
    refused(tmp_path / "c.log", "".join(f"INFO got {json.dumps(r | {'kind': 'code'})}\n" for r in rows))


def test_steps_of_games_are_no_training(tmp_path: Path) -> None:
    lines = [f"INFO {json.dumps({'step': s, 'reward': s / 7})}" for _ in range(12) for s in range(20)]
    refused(tmp_path / "play.log", "\n".join(lines) + "\n")


def test_counts_without_a_step_are_no_training(tmp_path: Path) -> None:
    lines = [f"histogram: {{'mean reward 1': {17 + i}, 'mean length above 0': {38 - i}, 'rest': 201}}" for i in range(50)]
    refused(tmp_path / "counts.log", "\n".join(lines) + "\n")


def test_halves_of_two_dicts_are_not_one(tmp_path: Path) -> None:
    half = ["{'reward/avg_raw_reward': 55.0,", *PROSE * 12, " 'policy/final_loss': 77.0}"]
    whole = [f"Step {s}:\n{{'reward/avg_raw_reward': {reward(s)},\n 'policy/final_loss': {loss(s)}}}" for s in STEPS]
    run = read(tmp_path / "train.log", "\n".join([*half, *whole, *half]) + "\n")
    assert values(run, "reward/mean") == about(told(reward))
    assert run.ignored_lines == 2


def test_samples_between_the_rows_are_not_the_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    lines: list[str] = []
    for s in STEPS:
        for i in range(32):
            a, b = rng.random(2).round(3).tolist()
            lines.append(f"Sample {i}: {{'reward': {a}, 'completion_length': {i * 3}, 'kl': {b}, 'advantage': {a - b}}}")
            lines.append(f"reward={a} length={i} logprob_mean={b} advantage={a - b}")
        lines.append(str(trl_row(s)))
    check_trl(read(tmp_path / "train.log", "\n".join(lines) + "\n"))


@pytest.mark.parametrize("plain", [{"reward": 0.5, "length": 7.5, "kl": 0.25}, {"format": 1.0, "accuracy": 0.5}, {"reward": 0.5, "loss": 0.125}])
def test_bare_dicts_between_the_rows_take_no_step(tmp_path: Path, plain: dict[str, float]) -> None:
    lines = [line for s in STEPS for line in (*[str(plain)] * 8, str(trl_row(s)))]
    check_trl(read(tmp_path / "train.log", "\n".join(lines) + "\n"))


def test_json_of_samples_between_the_rows_of_the_same_step(tmp_path: Path) -> None:
    lines: list[str] = []
    for s in STEPS:
        lines.append(f"INFO {json.dumps({'step': s, 'loss': loss(s), 'reward': reward(s), 'kl': kl(s)})}")
        lines += [f"INFO {json.dumps({'step': s, 'sample': i, 'reward': 9.5})}" for i in range(4)]
    run = read(tmp_path / "train.log", "\n".join(lines) + "\n")
    assert values(run, "reward/mean") == about(told(reward))


def test_printed_samples_do_not_stop_the_search_for_rows_in_prose(tmp_path: Path) -> None:
    lines = [line for s in STEPS for line in (*[str({"format": 0.5, "accuracy": 0.25, "length": 12})] * 3, f"[Step {s}/30] loss={loss(s)} reward_avg={reward(s)}")]
    run = read(tmp_path / "train.log", "\n".join(lines) + "\n")
    assert values(run, "reward/mean") == about(told(reward))


def test_a_dict_that_never_closes_hides_nothing(tmp_path: Path) -> None:
    lines = [line for s in STEPS for line in (verl_line(s), "{'role': 'user', 'content': 'half of a", "(and then it stopped)")]
    check_verl(read(tmp_path / "train.log", "\n".join(lines) + "\n"))


def test_words_of_a_model_do_not_give_a_step_to_rows_without(tmp_path: Path) -> None:
    lines = [line for s in STEPS for line in (f"Step {s % 4 + 1}:", "We add the numbers.", f"Step {s % 3 + 2}: ", str(trl_row(s)))]
    run = read(tmp_path / "train.log", "\n".join([str(trl_row(0)), *lines]) + "\n")
    assert run.framework == "trl"


def test_many_kinds_of_lines_before_the_training(tmp_path: Path) -> None:
    junk = [f"name{i} = {i / 7:.3f}, other{i}: {i / 3:.3f}" for i in range(2000)]
    check_verl(read(tmp_path / "train.log", "\n".join([*junk, *map(verl_line, STEPS)]) + "\n"))


def test_long_lines_are_passed_by_and_counted(tmp_path: Path) -> None:
    run = read(tmp_path / "train.log", "\n".join([*map(verl_line, STEPS), "x" * 2_000_000, verl_line(31)]) + "\n")
    assert run.last_step == 31
    assert run.ignored_lines == 1


def test_a_bar_without_line_ends_does_not_hide_the_rows(tmp_path: Path) -> None:
    many = "".join(f"\r{i}%|█| {i}/9999 [00:01<00:10, 1.00it/s] rollout" for i in range(30_000))
    assert len(many) > 1 << 20
    check_trl(read(tmp_path / "train.log", many + "\r" + "\n".join(str(trl_row(s)) for s in STEPS) + "\n"))

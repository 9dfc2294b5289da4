"""Small runs with completions beside their logs, for the tests of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

GROUP, A_STEP = 4, 8
KEY = "sk-proj-" + "Ab3dEf6hIj9kLm2n" * 2
"""What nobody may see."""
Texts = Mapping[tuple[int, int], str]


def rising(step: int, steps: int) -> float:
    return 0.3 + 0.5 * step / steps


def broken_at(onset: int) -> Callable[[int, int], float]:
    """A reward that rises, and whose function then breaks."""
    return lambda step, steps: rising(step, steps) if step < onset else 0.0


def answer(step: int, number: int) -> str:
    return f"Let x be {step + number}. Then {step} plus {number} makes {step + number}, so the answer is {step + number}."


def trl_run(
    folder: Path,
    chance: Callable[[int, int], float] = rising,
    *,
    steps: int = 100,
    every: int = 2,
    texts: Texts | None = None,
    seed: int = 0,
    dump: bool = True,
) -> Path:
    """What TRL leaves with log_completions: trainer_state.json, config.json, completions/*.parquet.

    Eight answers a logged step, two prompts, one reward function; `texts` puts its own words in an answer's place.
    """
    noise = np.random.default_rng(seed)
    (folder / "completions").mkdir(parents=True, exist_ok=True)
    rows = []
    for step in range(1, steps + 1):
        p = chance(step, steps)
        reward = np.clip(p + 0.15 * noise.standard_normal(A_STEP), 0.0, 1.0) if p else np.zeros(A_STEP)
        groups = reward.reshape(-1, GROUP)
        completions = [(texts or {}).get((step, n), answer(step, n)) for n in range(A_STEP)]
        rows.append(
            {
                "step": step,
                "loss": float(0.01 * noise.standard_normal()),
                "reward": float(reward.mean()),
                "reward_std": float(groups.std(axis=1, ddof=1).mean()),
                "rewards/correctness/mean": float(reward.mean()),
                "rewards/correctness/std": float(reward.std(ddof=1)),
                "frac_reward_zero_std": float((np.ptp(groups, axis=1) == 0.0).mean()),
                "kl": float(0.01 + 0.001 * noise.random()),
                "entropy": float(0.9 + 0.02 * noise.standard_normal()),
                "completions/mean_length": float(np.mean([len(c.encode()) / 4.0 for c in completions])),
                "completions/clipped_ratio": 0.0,
                "grad_norm": float(0.5 + 0.02 * noise.standard_normal()),
                "learning_rate": 1e-6,
            }
        )
        if dump and step % every == 0:
            pl.DataFrame(
                {
                    "step": [step] * A_STEP,
                    "prompt": [f"How much is {step} plus {n // GROUP}?" for n in range(A_STEP)],
                    "completion": completions,
                    "correctness": reward.tolist(),
                    "advantage": (groups - groups.mean(axis=1, keepdims=True)).ravel().tolist(),
                }
            ).write_parquet(folder / "completions" / f"completions_{step:05}.parquet")
    if not dump:
        (folder / "completions").rmdir()
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": steps, "log_history": rows}))
    (folder / "config.json").write_text(
        json.dumps({"num_generations": GROUP, "beta": 0.04, "learning_rate": 1e-6, "max_completion_length": 4096, "output_dir": "out",
                    "per_device_train_batch_size": A_STEP, "logging_steps": 1})
    )  # fmt: skip
    return folder


def viewer_dump(path: Path, steps: Sequence[int] = (1, 2, 3), **more: object) -> Path:
    """JSON lines in the words of a viewer, with a value a token. No log lies beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    for step in steps:
        for n in range(A_STEP):
            tokens = [f"t{step}", f" n{n}", " = ", str(step + n), "</s>"]
            rows.append(
                {
                    "step": step, "prompt": f"{step}+{n // GROUP}?", "response": "".join(tokens), "response_tokens": tokens,
                    "logprobs": [-0.1 * (i + 1) for i in range(5)], "ref_logprobs": [-0.1 * (i + 1) - 0.01 * n for i in range(5)],
                    "values": [0.5] * 5, "token_rewards": [0.0, 0.0, 0.0, 0.0, n / 8], "reward": n / 8, **more,
                }
            )  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path

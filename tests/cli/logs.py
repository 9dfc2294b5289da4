"""Small logs for the tests of the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

N = 120


def noisy(level: np.ndarray | float, size: float = 0.02, seed: int = 0, n: int = N) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.broadcast_to(level, n) + size * rng.standard_normal(n)


def climb(seed: int = 0, n: int = N) -> np.ndarray:
    """A reward from 0.2 to 0.7 that goes on rising."""
    return noisy(np.linspace(0.2, 0.7, n), seed=seed, n=n)


def write_log(path: Path, columns: Mapping[str, np.ndarray]) -> Path:
    """JSON lines, one a step."""
    n = max(v.size for v in columns.values())
    rows = ({"step": i + 1} | {k: float(v[i]) for k, v in columns.items() if i < v.size} for i in range(n))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def trl_log(path: Path, seed: int = 0, **more: np.ndarray) -> Path:
    """A GRPO run of TRL whose reward climbs and nothing else moves."""
    columns = {
        "reward": climb(seed),
        "reward_std": noisy(0.3, seed=seed + 1),
        "frac_reward_zero_std": np.abs(noisy(0.1, seed=seed + 2)),
        "kl": np.abs(noisy(0.004, 0.0005, seed=seed + 3)),
        "entropy": noisy(0.9, seed=seed + 4),
        "completions/mean_length": noisy(200.0, 4.0, seed=seed + 5),
        "completions/clipped_ratio": np.abs(noisy(0.02, 0.005, seed=seed + 6)),
        "grad_norm": noisy(0.5, seed=seed + 7),
    }
    return write_log(path, columns | more)

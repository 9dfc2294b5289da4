"""A training of two processes on CPU, as `accelerate launch` starts it: what each of them has seen is written down."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.live import tiny
from vario.live import attach

STEPS = 12


def main() -> None:
    """Train, and say what this rank's callback did."""
    where = Path(sys.argv[1])
    rank = int(os.environ["RANK"])
    trainer = tiny.grpo(where / f"run-{rank}" if rank else where / "run-0", STEPS)
    callback = attach(trainer)
    seen: list[Any] = []
    trainer.add_callback(tiny.First(lambda: seen.append(callback.monitor)))
    trainer.train()
    monitor = seen[0]
    kept = where / "run-0" / "completions"
    completions = 0
    if rank == 0:
        import polars as pl

        completions = pl.read_parquet(sorted(kept.glob("*.parquet"))[-1]).height
    told = {
        "rank": rank,
        "steps": trainer.state.global_step,
        "rows": None if monitor is None else len(monitor._recorder),
        "completions": completions,
        "batch": trainer.args.per_device_train_batch_size,
    }
    (where / f"rank-{rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()

"""TRL: completions/completions_00010.parquet, written with log_completions=True (0.28 and later). Unsloth: the same.

The step is the global step of the log. Each file holds the last generation batch before its row of the log; those of
one prompt stand in a row. An evaluation at the same step writes over the file, with the same columns: nothing tells
it apart. Prompts and completions are texts or messages; each reward function has a column of its own, unweighted, NaN
where it did not apply. `log_extra` may add columns of numbers, which the run's own reward names then leave out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from vario.sources.rollouts.layouts.base import Grouping, Layout

_OTHER = frozenset({"step", "prompt", "completion", "advantage", "image", "images", "reward"})


def _components(names: Iterable[str]) -> list[str]:
    return [n for n in names if n not in _OTHER]


LAYOUT = Layout(
    key="trl",
    name="trl",
    files=re.compile(r"(^|/)completions_(?P<step>\d+)\.parquet$"),
    needs=frozenset({"prompt", "completion"}),
    fields={
        "step": ("step",),
        "prompt": ("prompt",),
        "completion": ("completion",),
        "reward": ("reward",),
        "advantage": ("advantage",),
    },
    grouping=Grouping.CONSECUTIVE,
    components=_components,
    weighted=True,
    source="trl/trainer/grpo_trainer.py:3330-3352, log(): table of _logs",
)

"""SkyRL: {export_path}/dumped_evals/global_step_{N}_evals/{dataset}.jsonl. Evaluations only: training leaves none.

`N` is the step of the log, from 1; 0 is the evaluation before training. `eval_only` runs have no step. `score` is a
number or rewards by token, which are summed. `stop_reason` is null where the generator gives none: unknown, not finished.
"""

from __future__ import annotations

import re

from vario.sources.rollouts.layouts.base import Grouping, Layout

LAYOUT = Layout(
    key="skyrl",
    name="skyrl",
    files=re.compile(r"(?:^|/)dumped_evals/(?:global_step_(?P<step>\d+)_evals|[^/]+)/[^/]+\.jsonl$"),
    needs=frozenset({"input_prompt", "output_response", "score"}),
    fields={
        "prompt": ("input_prompt",),
        "completion": ("output_response",),
        "reward": ("score",),
        "truncated": ("stop_reason",),
        "source": ("data_source", "env_class"),
    },
    grouping=Grouping.PROMPT,
    evaluation=True,
    source="skyrl/train/utils/trainer_utils.py:340-370 dump_per_dataset_eval_results",
)

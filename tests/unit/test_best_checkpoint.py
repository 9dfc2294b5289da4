"""The best checkpoint is not looked for behind what no further step mends."""

from __future__ import annotations

import vario
from tests.conftest import GOLDEN


def test_a_metric_that_does_not_see_a_broken_reward_names_no_step_behind_it() -> None:
    diagnosis = vario.diagnose(vario.read(GOLDEN / "grpo-reward-bug"))
    broke = next(f for f in diagnosis.findings if f.name == "reward-function-broke")
    best = diagnosis.verdict.best_checkpoint
    assert best is not None
    assert broke.since is not None
    assert best.step < broke.since
    assert f"before step {broke.since}" in diagnosis.verdict.why

"""few-groups-carry-signal names narrow sampling where completions copy their siblings."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest

from vario.rules import find_rule
from vario.rules.base import Evidence, Fires
from vario.rules.engine import judge
from vario.run import Run, Series


@pytest.mark.parametrize(("copies", "named"), [(0.95, True), (0.5, False)])
def test_copies_are_named(copies: float, named: bool) -> None:
    noise = np.random.default_rng(1)
    steps = np.arange(1, 81)
    levels = {
        "reward/mean": 0.3, "signal/zero-variance-share": 0.65, "text/duplicate-share/within-group": copies,
        "text/duplicate-share/across-prompts": 0.02,
    }  # fmt: skip
    series = {n: Series(n, steps, np.clip(level + 0.01 * noise.standard_normal(80), 0.0, 1.0)) for n, level in levels.items()}
    judged = judge(Run("run", "trl", "grpo", MappingProxyType(series), steps), rules=[find_rule("few-groups-carry-signal")])
    assert judged is not None
    outcome = judged.outcomes["few-groups-carry-signal"]
    assert isinstance(outcome, Fires)
    assert any("sampling is narrow" in s.text for s in outcome.signs if isinstance(s, Evidence)) == named

"""A run whose names were chosen by somebody who means no good."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import vario
from tests.conftest import GOLDEN
from vario.run import Run

COMPONENT = "</style><script>alert(1)</script>$\\frac{&$é\x1b[31m\u202e"
KEY = 'rewards/</style><script>alert(1)</script>"><img src=x onerror=alert(2)>\n::error::'
PATH = '<b id="verdict">runs</b>" data-values="1'


def hostile_run() -> Run:
    """A real run with markup, TeX and control characters for names."""
    run = vario.read(GOLDEN / "grpo-drift")
    reward = replace(run.series["reward/mean"], key=KEY)
    series = {**run.series, "reward/mean": reward, f"reward/component/{COMPONENT}/mean": reward}
    return replace(run, path=PATH, series=MappingProxyType(series))

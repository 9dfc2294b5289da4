"""Every rule fires on the log of a real trainer, and stays clear on one that only looks like it."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import tests.real
from tests.real import OnRealLog
from vario.rules import find_rule
from vario.testing import verdict

CASES: list[OnRealLog] = [
    case
    for module in pkgutil.iter_modules(tests.real.__path__)
    for case in importlib.import_module(f"tests.real.{module.name}").REAL
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.rule} {c.says}: {c.log}{' +' if c.faults else ''}")
def test_on_a_real_log(case: OnRealLog) -> None:
    if not case.path.exists():
        pytest.skip(f"{case.path} is not here (set VARIO_SHARED)")
    run = case.read()
    assert run.last_step is not None
    assert verdict(find_rule(case.rule), run, run.last_step) == case.says, case.why

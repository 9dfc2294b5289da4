"""`vario watch` as a command within a program."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.conftest import recorded
from vario.surfaces.cli import OK, main


def test_signals_mean_afterwards_what_they_meant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded("dpo-healthy", tmp_path / "run")
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    assert main(["watch", str(tmp_path / "run"), "--once"]) == OK
    assert capsys.readouterr().out
    assert {number: signal.getsignal(number) for number in before} == before

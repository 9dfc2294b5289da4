"""Dashboards that the tests of a file share, and runs that they show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("polars")

from tests.browser.reports import hostile
from tests.cli.dumps import broken_at, trl_run
from tests.dashboard.serving import Dashboard, copied, served


@pytest.fixture(scope="package")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """A dashboard of runs that nobody writes to: recorded ones, one with completions, a hostile one, and an empty place."""
    home = tmp_path_factory.mktemp("home")
    copied(home / "runs", "grpo-drift", "grpo-healthy-kl", "dpo-healthy")
    trl_run(home / "runs/parser", broken_at(60))
    hostile(home / "runs/hostile")
    (home / "runs2").mkdir()
    with served("runs", "runs2", cwd=home) as dashboard:
        dashboard.judged("grpo-drift", "grpo-healthy-kl", "dpo-healthy", "parser", "hostile")
        yield dashboard


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where a dashboard of a single test is started."""
    return tmp_path

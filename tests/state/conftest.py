"""The databases that the state is tested on: a file, and a real server where one can be had."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.debian import Unavailable
from tests.state import tasks
from tests.state.postgres import Server
from vario.surfaces.state import State, place_of


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """PostgreSQL on loopback; where it cannot be had, what needs it is skipped."""
    try:
        started = Server()
    except Unavailable as why:
        pytest.skip(str(why))
    yield started
    started.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, as a place."""
    wished = str(tmp_path / "state.sqlite") if request.param == "sqlite" else request.getfixturevalue("server").fresh()
    return place_of("-", wished)


@pytest.fixture
def state(place: str) -> Iterator[State]:
    with State.open(place) as opened:
        yield opened


@pytest.fixture(scope="session")
def two() -> Iterator[ProcessPoolExecutor]:
    """Two processes, each started anew."""
    context = get_context("spawn")
    with ProcessPoolExecutor(2, context, tasks.begin, (context.Barrier(2),)) as pool:
        yield pool

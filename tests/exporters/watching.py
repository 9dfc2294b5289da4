"""Runs under watch that grow from recorded ones, and what a scrape of them answers."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families

import vario
from tests.conftest import GOLDEN
from vario.run import Run
from vario.surfaces.exporters.prometheus import Server
from vario.surfaces.live.watched import Polled, Status, WatchedRun

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
PLAIN = "text/plain; version=0.0.4"

Labels = frozenset[tuple[str, str]]


class Growing:
    """A recorded run that has grown by `rows` each time it is asked, with troubles on the way."""

    def __init__(self, run: Run, rows: int = 10, troubles: Callable[[int], Iterable[str]] = lambda _: ()) -> None:
        self.name = run.path
        self.run, self.rows, self.troubles = run, rows, troubles
        self.polls = 0

    def poll(self) -> Polled:
        self.polls += 1
        steps = self.run.logged_steps
        at = min(self.polls * self.rows, steps.size)
        return Polled(
            self.run.until(int(steps[at - 1])), troubles=tuple(self.troubles(self.polls)), ended=at == steps.size
        )


@cache
def recorded(name: str) -> Run:
    return vario.read(GOLDEN / name)


def watching(run: Run | str, name: str | None = None, rows: int = 10) -> WatchedRun:
    """A run under watch, of which nothing has been seen yet."""
    whole = recorded(run) if isinstance(run, str) else run
    return WatchedRun(name if name is not None else str(run), Growing(whole, rows))


def seen(watched: WatchedRun, step: int | None = None) -> WatchedRun:
    """The same once it has been looked at, up to a step or to its end."""
    while watched.status is not Status.ENDED:
        watched.look()
        if step is not None and watched.run is not None and (watched.run.last_step or 0) >= step:
            break
    return watched


def changed(name: str, folder: Path, change: Callable[[dict[str, float]], None]) -> Run:
    """A recorded TRL run whose logged rows were changed before it is read."""
    state = json.loads((GOLDEN / name / "trainer_state.json").read_text())
    for row in state["log_history"]:
        change(row)
    folder.mkdir(exist_ok=True)
    (folder / "trainer_state.json").write_text(json.dumps(state))
    (folder / "config.json").write_bytes((GOLDEN / name / "config.json").read_bytes())
    return vario.read(folder)


def answer(server: Server, accept: str = OPENMETRICS) -> str:
    """What a real scrape over HTTP answers."""
    connection = http.client.HTTPConnection(server.address, server.port, timeout=10)
    try:
        connection.request("GET", "/metrics", headers={"Accept": accept})
        response = connection.getresponse()
        assert response.status == 200
        if accept == OPENMETRICS:
            assert response.headers["Content-Type"].startswith("application/openmetrics-text")
        return response.read().decode("utf-8")
    finally:
        connection.close()


def samples_of(text: str) -> dict[str, dict[Labels, float]]:
    """Samples by name and labels, through the strict parser of OpenMetrics; none may come twice."""
    made: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            here = made.setdefault(sample.name, {})
            key = frozenset(sample.labels.items())
            assert key not in here, f"{sample.name}{sample.labels} comes twice"
            here[key] = sample.value
    return made


def scraped(server: Server) -> dict[str, dict[Labels, float]]:
    return samples_of(answer(server))


def value_of(samples: dict[str, dict[Labels, float]], name: str, **labels: str) -> float | None:
    """The one sample that carries these labels; None where there is none."""
    found = [v for key, v in samples.get(name, {}).items() if set(labels.items()) <= key]
    assert len(found) <= 1, f"{name}{labels} names {len(found)} series"
    return found[0] if found else None


def words_that_hold(samples: dict[str, dict[Labels, float]], name: str, label: str, run: str) -> list[str]:
    """The words of a state that are 1 for a run."""
    return [dict(key)[label] for key, value in samples[name].items() if dict(key)["run"] == run and value == 1.0]

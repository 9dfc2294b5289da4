from __future__ import annotations

import io
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
from PIL import Image

import vario
from tests.alerts.world import broken
from tests.conftest import golden_runs
from vario.run import Series
from vario.surfaces.alerts.picture import HEIGHT, OF_SEVERITY, WIDTH, picture, placard
from vario.surfaces.charts.trend import smoothed

LARGEST = 60_000


def opened(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image.convert("RGB")


def near(image: Image.Image, colour: str) -> np.ndarray:
    """Which pixels have about this colour."""
    wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    return np.abs(np.asarray(image).astype(int) - wanted).sum(axis=2) < 60


@pytest.mark.parametrize("path", golden_runs(), ids=lambda p: p.name)
def test_every_run_gives_a_small_picture(path) -> None:
    made = picture(vario.diagnose(vario.read(path), replay=False), name=path.name)
    assert len(made) < LARGEST
    assert opened(made).size == (WIDTH, HEIGHT)


def test_onset_and_detection_stand_where_they_were() -> None:
    diagnosis = broken()
    found = diagnosis.findings[0]
    assert found.severity == "critical"
    assert found.since is not None
    assert found.detected_at is not None
    image = opened(picture(diagnosis))
    red = near(image, OF_SEVERITY["critical"])[200:]
    columns = red.sum(axis=0)
    lines = [x for x in range(1, WIDTH - 1) if columns[x] > 150 and columns[x] >= max(columns[x - 1], columns[x + 1])]
    full, broken_line = min(lines), max(lines)
    assert broken_line > full
    assert columns[full] > 1.4 * columns[broken_line], "a broken line tells them apart without colours"
    first, last = diagnosis.run.first_step, diagnosis.run.last_step
    assert first is not None
    assert last is not None
    dark = ~near(image, "#ffffff")
    frame = np.flatnonzero(dark[200:].mean(axis=0) > 0.55)
    left, right = frame.min(), frame.max()
    at = lambda step: left + (step - first) / (last - first) * (right - left)  # noqa: E731
    assert full == pytest.approx(at(found.since), abs=3)
    assert broken_line == pytest.approx(at(found.detected_at), abs=3)


def test_without_the_finding_no_line_is_drawn() -> None:
    image = opened(picture(replace(broken(), findings=())))
    assert near(image, OF_SEVERITY["critical"])[200:].sum() == 0


def test_a_curve_does_not_fall_before_it_does() -> None:
    """The bold line is an average; it must not bring a break forward."""
    steps, values = np.arange(1, 201), np.concatenate([np.ones(100), np.zeros(100)])
    assert smoothed(steps, values, [101])[99] == 1.0
    assert smoothed(steps, values, [])[99] < 1.0
    assert smoothed(steps, values, [101], np.array([99, 100])).tolist() == [1.0, 0.0]


def test_a_spike_takes_no_other_value_with_it() -> None:
    values = np.where(np.arange(200) == 50, 1e30, 0.25)
    assert smoothed(np.arange(200), values, [])[100:].tolist() == [0.25] * 100


@pytest.mark.parametrize("values", [[np.nan] * 5, [1e300] * 5, [2.0], [], [0.5] * 40, [-1e-12, 1e-12] * 20])
def test_strange_values_are_drawn_all_the_same(values: list[float]) -> None:
    diagnosis = broken()
    strange = Series("reward", np.arange(1, len(values) + 1), np.array(values, dtype=float))
    series = {**diagnosis.run.series, "reward/mean": strange}
    changed = replace(diagnosis, run=replace(diagnosis.run, series=MappingProxyType(series)))
    assert len(picture(changed)) < LARGEST


def test_a_run_without_a_metric_is_drawn() -> None:
    diagnosis = replace(broken(), readings={}, findings=())
    assert opened(picture(diagnosis)).size == (WIDTH, HEIGHT)


def test_hostile_and_foreign_names_are_drawn() -> None:
    assert picture(broken(), name="\x1b[31m run/" * 80 + "é中\u202e\ud800")
    # what looks like a key is masked
    assert picture(broken(), name="sk-abcdefghijklmnopqrstuvwx") == picture(broken(), name="[masked]")


def test_a_long_run_is_as_small_and_soon_drawn() -> None:
    diagnosis = broken()
    steps = np.arange(1, 100_001)
    rng = np.random.default_rng(7)
    long = {n: Series(s.key, steps, rng.normal(size=steps.size)) for n, s in diagnosis.run.series.items()}
    run = replace(diagnosis.run, series=MappingProxyType(long), logged_steps=steps)
    assert len(picture(replace(diagnosis, run=run))) < LARGEST


def test_a_placard() -> None:
    assert opened(placard("vario", "TEST", "no run is in trouble")).size == (WIDTH, WIDTH // 4)

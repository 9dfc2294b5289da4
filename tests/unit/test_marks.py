"""What a person's marks make of the rules: the case language knows no marks."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pytest

from vario.rules import find_rule
from vario.rules.base import Evidence, Fires
from vario.rules.engine import judge
from vario.run import Run, Series
from vario.samples import Mark
from vario.testing import verdict

N = 200
HACKING = find_rule("reward-hacking")


def marks(words: str, *, step: int = 180, known_at: int | None = N, reward: float | None = 1.0) -> tuple[Mark, ...]:
    """A letter a mark: g, b or h."""
    full = {"g": "good", "b": "bad", "h": "hacked"}
    return tuple(Mark(step, n, full[w], reward, known_at) for n, w in enumerate(words))


def run_of(given: tuple[Mark, ...], slope: float = 0.6, **more: np.ndarray) -> Run:
    noise = np.random.default_rng(0)
    steps = np.arange(1, N + 1)
    columns: Mapping[str, np.ndarray] = {"reward/mean": np.linspace(0.3, 0.3 + slope, N) + 0.03 * noise.standard_normal(N)} | more
    series = {name: Series(name, steps, values) for name, values in columns.items()}
    return Run("run", "trl", "grpo", MappingProxyType(series), steps, marks=given)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("hhhggg", "fires"),
        ("hhgggg", "fires"),
        ("hhggggg", "clear"),  # two of seven
        ("gggggg", "clear"),
        ("bbbbbb", "clear"),  # wrong is not hacked
        ("hhhhh", "unknown"),
        ("", "unknown"),
    ],
)
def test_how_many_were_hacked(words: str, said: str) -> None:
    assert verdict(HACKING, run_of(marks(words)), N) == said


def test_what_was_badly_paid_says_nothing() -> None:
    assert verdict(HACKING, run_of(marks("hhhhhhhh", reward=0.1)), N) == "unknown"
    assert verdict(HACKING, run_of(marks("hhhhhhhh", reward=None)), N) == "fires", "what it was paid is not known"
    mixed = (*marks("gggggg"), *(Mark(181, n, "hacked", 0.0, N) for n in range(20)))
    assert verdict(HACKING, run_of(mixed), N) == "clear"


def test_what_was_marked_early_says_nothing_of_now() -> None:
    assert verdict(HACKING, run_of(marks("hhhhhhhh", step=40)), N) == "unknown"


def test_a_reward_that_does_not_rise_is_not_hacked() -> None:
    assert verdict(HACKING, run_of(marks("hhhhhhhh"), slope=0.0), N) == "clear"


@pytest.mark.parametrize("known_at", [120, 150, N])
def test_marks_are_known_from_when_they_were_made(known_at: int) -> None:
    run = run_of(marks("hhhhhhgg", step=118, known_at=known_at))
    assert verdict(HACKING, run, known_at - 1) == "unknown"
    assert verdict(HACKING, run, known_at) == "fires", "a person said it: it need not hold"
    judged = judge(run, rules=[HACKING])
    assert judged is not None
    (incident,) = judged.incidents
    assert (incident.since, incident.detected_at) == (118, known_at)


def test_marks_without_a_time_are_known_at_their_step() -> None:
    run = run_of(marks("hhhhhhgg", step=150, known_at=None))
    assert verdict(HACKING, run, 149) == "unknown"
    assert verdict(HACKING, run, 150) == "fires"


def test_marks_and_a_score_are_told_together() -> None:
    score = np.concatenate([np.linspace(0.3, 0.5, 80), np.linspace(0.5, 0.05, 120)])
    judged = judge(run_of(marks("hhhhgggg"), **{"eval/score/mean": score}), rules=[HACKING])
    assert judged is not None
    outcome = judged.outcomes["reward-hacking"]
    assert isinstance(outcome, Fires)
    texts = [s.text for s in outcome.signs if isinstance(s, Evidence)]
    assert texts[0] == "a person marked 4 of 8 well-paid completions as hacked (50 %)"
    assert any(t.startswith("eval/score/mean") and "fell" in t for t in texts)
    assert len(texts) == len(set(texts)), "nothing is said twice"


def test_good_marks_do_not_hide_a_score_that_falls() -> None:
    score = np.concatenate([np.linspace(0.3, 0.5, 80), np.linspace(0.5, 0.05, 120)])
    assert verdict(HACKING, run_of(marks("gggggggg"), **{"eval/score/mean": score}), N) == "fires"

"""The bars on labelled runs that lie beside the checkout: skipped, and said so, where they are absent."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT, SHARED

sys.path.insert(0, str(ROOT / "bench"))
import scoreboard
from shared import labels_of, vocabulary_of

LAB, CORPUS = SHARED / "lab" / "runs", SHARED / "corpus" / "runs"
needs_lab = pytest.mark.skipif(not LAB.is_dir(), reason=f"no labelled runs at {LAB} (set VARIO_SHARED)")
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no labelled runs at {CORPUS} (set VARIO_SHARED)")


@cache
def lab() -> scoreboard.LabScore:
    labels = labels_of(LAB)
    return scoreboard.score_lab(labels, vocabulary_of(LAB), scoreboard.diagnose_all({run: LAB / run for run in labels}))


@cache
def corpus() -> list[scoreboard.CorpusRow]:
    labels = labels_of(CORPUS)
    paths: dict[str, Path] = {run: CORPUS / run / "norm.jsonl" for run in labels}
    return scoreboard.score_corpus(labels, vocabulary_of(CORPUS), scoreboard.diagnose_all(paths))


@needs_lab
def test_expected_words_are_named() -> None:
    score = lab()
    assert len(score.met) + len(score.missed) == 39
    assert len(score.met) >= 36, score.missed


@needs_lab
def test_no_forbidden_word_and_no_alarm_on_a_healthy_run() -> None:
    assert lab().forbidden == []
    assert lab().quiet_runs == 8
    assert lab().quiet_alarms == []
    assert lab().unread == []


@needs_lab
def test_alarms_on_faulty_runs_are_mostly_expected() -> None:
    score = lab()
    assert score.alarms_expected / (score.alarms_expected + len(score.alarms_other)) >= 0.8


@needs_corpus
def test_healthy_corpus_runs_raise_no_warning() -> None:
    rows = [r for r in corpus() if r.labelled_healthy]
    assert len(rows) == 20
    assert {r.run: r.healthy_alarms for r in rows if r.healthy_alarms} == {}


@needs_corpus
def test_trajectory_on_the_corpus() -> None:
    judged = [r.trajectory_right for r in corpus() if r.score_read and r.trajectory_right is not None]
    assert len(judged) >= 60
    assert sum(judged) / len(judged) >= 0.8

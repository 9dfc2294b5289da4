"""The bars on labelled runs that lie beside the checkout: skipped, and said so, where they are absent."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT, SHARED
from vario.sources.dialects.base import hugging_face_spelling
from vario.sources.places import find, load

sys.path.insert(0, str(ROOT / "bench"))
import scoreboard
from shared import labels_of, raw_log, vocabulary_of

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
    paths = {run: raw_log(CORPUS / run) for run in labels}
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
def test_one_cause_makes_few_findings() -> None:
    assert {run: count for run, count in lab().tops.items() if count > 2} == {}


@needs_lab
def test_faults_that_start_mid_run_are_seen_soon() -> None:
    delays = sorted(lab().delays.values())
    assert len(delays) >= 5
    assert delays[len(delays) // 2] <= 0.1, "median share of the run"


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
def test_every_raw_log_is_read_or_a_reason_is_given() -> None:
    unread = {r.run: r.error for r in corpus() if r.error}
    assert set(unread) == {"cs336damek-loop", "cs336damek-prompt"}, unread  # prints of single samples, and counts
    assert all("no row of metrics" in reason for reason in unread.values())


@needs_corpus
def test_the_framework_is_recognised() -> None:
    wrong = {r.run: r.framework for r in corpus() if not r.framework_right}
    assert {run: name for run, name in wrong.items() if name not in ("", "generic")} == {}, "another one was claimed"
    # keys of a callback of the owner's own (`reward_mean`, `kl_divergence`): no framework can be read off them
    assert {run.partition("-")[0] for run, name in wrong.items() if name == "generic"} <= {"fairrlvr", "swarmos"}


@needs_corpus
@pytest.mark.parametrize("which", ["trajectory_right", "end_right"])
def test_clear_labels_are_met(which: str) -> None:
    judged = [getattr(r, which) for r in corpus() if r.label_confidence == "high" and getattr(r, which) is not None]
    assert len(judged) >= 29
    assert sum(judged) / len(judged) >= 0.92, "runs that could not be read count as wrong"


def _points(path: Path) -> dict[str, tuple[list[int], list[float]]]:
    (table,) = load(find(path)[0])
    return {hugging_face_spelling(k): (s.steps.tolist(), s.values.tolist()) for k, s in table.series().items()}


ROUNDED_TWICE = {"epoch", "_timestamp", "_runtime", "_wall"}
"""Clocks, which the converted logs keep in another way."""


@needs_corpus
def test_raw_logs_give_the_numbers_of_the_converted_ones() -> None:
    differing: dict[str, list[str]] = {}
    compared = 0
    for run, label in labels_of(CORPUS).items():
        if run.startswith("cs336damek"):
            continue
        raw, converted = _points(raw_log(CORPUS / run)), _points(CORPUS / run / "norm.jsonl")
        if "Training Loss" in converted:
            converted["loss"] = converted.pop("Training Loss")
        for key, (steps, values) in converted.items():
            if key in ROUNDED_TWICE or key not in raw:
                continue
            theirs = raw[key]
            # the last cell of a CSV whose last line does not end is left out: it may be half a number
            shorter = len(theirs[1]) == len(values) - 1 and label["format"] == "csv"
            values = values[: len(theirs[1])] if shorter else values
            same = np.allclose(values, theirs[1], rtol=1e-6, atol=1e-9, equal_nan=True) if len(values) == len(theirs[1]) else False
            if not same or (label["step_source"] != "index" and steps[: len(theirs[0])] != theirs[0]):
                differing.setdefault(run, []).append(key)
            compared += 1
    assert compared > 1500
    assert differing == {}

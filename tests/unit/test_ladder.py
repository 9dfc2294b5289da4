"""The ladder: every combination of evidence, the rung that it stands on, and what each branch turns."""

from __future__ import annotations

from collections import Counter
from itertools import product
from types import MappingProxyType

import pytest

from vario.catalogue import KNOBS
from vario.run import KnobSetting, Run
from vario.sources.dialects import DIALECTS
from vario.sources.dialects.base import Context
from vario.verdict.changes import change_of
from vario.verdict.ladder import BRANCHES, Evidence, Rung, branch_of, rung_of

# train rises, explained by, baseline known, test rises, test too early -> rung; "any" stands for both
TABLE = (
    # nothing else matters once it rises
    (True, "any", "any", "any", "any", Rung.RISES),
    # a finding that explains the standstill comes before every run of one's own
    (False, "kl-pinned-near-zero", "any", "any", "any", Rung.MEND_FIRST),
    (None, "kl-pinned-near-zero", "any", "any", "any", Rung.MEND_FIRST),
    (None, "", "any", "any", "any", Rung.TOO_EARLY),
    # both runs are known
    (False, "", "any", True, "any", Rung.DATA),
    (False, "", "any", False, "any", Rung.SETUP),
    # the run on the test set is there and says nothing yet
    (False, "", "any", None, True, Rung.TOO_EARLY),
    # what is missing is asked for: the baseline, then the run on the test set
    (False, "", False, None, False, Rung.MEASURE_BASELINE),
    (False, "", True, None, False, Rung.TRAIN_ON_TEST),
)
VALUES = (
    (True, False, None),
    ("", "kl-pinned-near-zero"),
    (True, False),
    (True, False, None),
    (True, False),
)
EVERY = list(product(*VALUES))


def wanted(evidence: tuple[object, ...]) -> list[Rung]:
    return [
        rung
        for *row, rung in TABLE
        if all(said == "any" or said is known for said, known in zip(row, evidence, strict=True))
    ]


@pytest.mark.parametrize("evidence", EVERY, ids=lambda e: ",".join(str(v) for v in e))
def test_every_combination_stands_on_one_rung(evidence: tuple[object, ...]) -> None:
    (rung,) = wanted(evidence)
    assert rung_of(Evidence(*evidence)) is rung  # type: ignore[arg-type]


def test_the_table_covers_every_combination_and_every_rung() -> None:
    assert len(EVERY) == 72
    assert {rung for *_, rung in TABLE} == set(Rung)
    assert Counter(len(wanted(e)) for e in EVERY) == {1: 72}


def test_every_rung_has_a_branch() -> None:
    assert set(BRANCHES) == set(Rung)
    for rung, branch in BRANCHES.items():
        assert branch.rung is rung
        assert branch.means
        assert branch.words or branch.rung is Rung.RISES


@pytest.mark.parametrize(
    ("rung", "knobs"),
    [
        (Rung.SETUP, ("batch-size", "learning-rate")),
        (Rung.DATA, ("dynamic-filter",)),
        (Rung.RISES, ()),
        (Rung.TOO_EARLY, ()),
        (Rung.MEND_FIRST, ()),
        (Rung.MEASURE_BASELINE, ()),
        (Rung.TRAIN_ON_TEST, ()),
    ],
)
def test_knobs_of_a_branch(rung: Rung, knobs: tuple[str, ...]) -> None:
    turns = BRANCHES[rung].turns
    assert tuple(t.knob for t in turns) == knobs
    assert set(knobs) <= set(KNOBS)
    for turn in turns:
        assert turn.why
        assert turn.factor is None or turn.factor > 1.0, "both are raised"


def test_the_set_up_is_turned_before_another_model_is_tried() -> None:
    words = BRANCHES[Rung.SETUP].words
    assert [("base model" in words[0]), ("SFT" in words[1])] == [True, True]


def test_the_data_branch_looks_at_quality_distribution_and_difficulty() -> None:
    words = " ".join(BRANCHES[Rung.DATA].words)
    assert all(word in words for word in ("quality", "distribution", "difficulty"))


def test_mend_first_names_the_finding() -> None:
    branch = branch_of(Evidence(False, "truncation-never-ends"))
    assert branch.rung is Rung.MEND_FIRST
    assert branch.means == "truncation-never-ends keeps the reward from rising"
    assert branch.words == ("mend that first",)
    assert "something else" in BRANCHES[Rung.MEND_FIRST].means, "the table itself is left alone"


def test_the_other_branches_are_the_table_s() -> None:
    for evidence in EVERY:
        branch = branch_of(Evidence(*evidence))  # type: ignore[arg-type]
        assert branch.rung is Rung.MEND_FIRST or branch is BRANCHES[branch.rung]


@pytest.mark.parametrize("name", ["areal", "verl", "trl", "openrlhf", "nemo-rl", "slime"])
def test_a_branch_turns_the_keys_of_the_framework(name: str) -> None:
    dialect = next(d for d in DIALECTS if d.name == name)
    context = Context(frozenset(), {}, "grpo", {})
    run = Run("r", name, "grpo", {}, None, knobs=MappingProxyType(dict(dialect.knobs(context))))  # type: ignore[arg-type]
    changes = [c for t in BRANCHES[Rung.SETUP].turns if (c := change_of(t, run)) is not None]
    assert [c.knob for c in changes] == ["batch-size", "learning-rate"]
    for change in changes:
        knob: KnobSetting = run.knobs[change.knob]
        assert change.key == knob.key
        if isinstance(knob.current, int | float) and isinstance(change.suggested, int | float):
            assert change.suggested > knob.current

"""Rewards that do not increase: which rung of the ladder the evidence stands on, and what the next one is.

A state machine over evidence: the finding that explains it, the baseline evaluation, the run on the training
set, the run on the test set. It names a branch only once both runs are known, and asks for what is missing
until then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from vario.rules.base import Turn, raise_, set_


class Rung(Enum):
    """Where the evidence stands."""

    RISES = "rises"
    TOO_EARLY = "too-early"
    MEND_FIRST = "mend-first"
    MEASURE_BASELINE = "measure-baseline"
    TRAIN_ON_TEST = "train-on-test"
    SETUP = "setup"
    DATA = "data"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known.

    Attributes:
        train_rises: whether the reward rises on the training set; None while that cannot be said.
        explained_by: a finding that explains the standstill by itself, empty if there is none.
        baseline: whether the model was evaluated before RL.
        test_rises: whether the reward rises when trained on the test set; None where that was not tried.
        test_too_early: that run exists, and is too short to say.
    """

    train_rises: bool | None
    explained_by: str = ""
    baseline: bool = False
    test_rises: bool | None = None
    test_too_early: bool = False


@dataclass(frozen=True, slots=True)
class Branch:
    """A rung with what it means and what to turn, in order; `words` are steps that no knob is for."""

    rung: Rung
    means: str
    turns: tuple[Turn, ...] = ()
    words: tuple[str, ...] = ()


BRANCHES = {
    Rung.RISES: Branch(Rung.RISES, "the reward rises on the training set: no ladder is needed"),
    Rung.TOO_EARLY: Branch(Rung.TOO_EARLY, "too few steps to say whether the reward rises", words=("let it run on",)),
    Rung.MEND_FIRST: Branch(Rung.MEND_FIRST, "something else keeps the reward from rising", words=("mend it first",)),
    Rung.MEASURE_BASELINE: Branch(
        Rung.MEASURE_BASELINE,
        "the reward does not rise, and what the model could do before is not known",
        words=("evaluate the model on the test set before training: `vario baseline PATH` keeps the result",),
    ),
    Rung.TRAIN_ON_TEST: Branch(
        Rung.TRAIN_ON_TEST,
        "the reward does not rise on the training set; whether it can rise at all is not known",
        words=("train on the test set instead of the training set, then `vario compare TRAIN TEST`",),
    ),
    Rung.SETUP: Branch(
        Rung.SETUP,
        "the reward rises on neither set: the set-up, or a task that is too hard for this model",
        (
            raise_("batch-size", "more prompts per step carry the signal over its noise"),
            raise_("learning-rate", "the policy may hardly move"),
        ),
        ("try another base model", "fine-tune on examples first (SFT): the task may be out of reach"),
    ),
    Rung.DATA: Branch(
        Rung.DATA,
        "the reward rises on the test set and not on the training set: the training data",
        (set_("dynamic-filter", True, "keeps the difficulty where the model can learn"),),
        (
            "read the training prompts and their answers for quality",
            "compare the distribution of both sets",
            "compare the difficulty with what the base model solves",
        ),
    ),
}


def rung_of(evidence: Evidence) -> Rung:
    """The rung that the evidence stands on."""
    if evidence.train_rises:
        return Rung.RISES
    if evidence.explained_by:
        return Rung.MEND_FIRST
    if evidence.train_rises is None:
        return Rung.TOO_EARLY
    if evidence.test_rises is not None:
        return Rung.DATA if evidence.test_rises else Rung.SETUP
    if evidence.test_too_early:
        return Rung.TOO_EARLY
    return Rung.TRAIN_ON_TEST if evidence.baseline else Rung.MEASURE_BASELINE


def branch_of(evidence: Evidence) -> Branch:
    """The branch for the evidence."""
    branch = BRANCHES[rung_of(evidence)]
    if branch.rung is Rung.MEND_FIRST:
        return replace(
            branch, means=f"{evidence.explained_by} keeps the reward from rising", words=("mend that first",)
        )
    return branch

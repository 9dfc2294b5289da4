"""Instruments: typed readings of a run at one look. One file per instrument; rules ask for them by type."""

from __future__ import annotations

from vario.instruments.clipping import Clipping, Ratio
from vario.instruments.entropy import AttentionEntropy, Entropy
from vario.instruments.gradient import Gradient, LearningRate, Loss, PolicyLoss
from vario.instruments.kl import Kl
from vario.instruments.length import Bimodality, Length, LengthPays, Truncation, TruncationGap
from vario.instruments.measures import Baseline, Budgets, Changes, Held, HeldOutSets, ReferenceRun
from vario.instruments.preference import Preference
from vario.instruments.reading import LOUD, History, Look, Reading
from vario.instruments.record import Record
from vario.instruments.review import Review
from vario.instruments.reward import Components, Reward, RewardBounds, RewardScale
from vario.instruments.samples import Counted
from vario.instruments.scores import Scores
from vario.instruments.settings import Settings
from vario.instruments.signal import Shaping, Signal, TinySpread
from vario.instruments.systems import Background, Generation, Headroom, Memory, Pace, Requests, StepTime
from vario.instruments.text import Diversity, Duplication, Garbling, Repetition
from vario.instruments.value import Value
from vario.instruments.weights import BehaviourWeight, EngineGap, Staleness
from vario.instruments.witness import Witness

INSTRUMENTS = (
    Reward, RewardScale, RewardBounds, Components, Witness, Signal, Kl, Ratio, Clipping, Entropy, Length, Truncation, BehaviourWeight,
    EngineGap, Staleness, Loss, Gradient, LearningRate, Value, Preference, StepTime, Generation,
    Requests, Memory, Headroom, Background, Pace, Record,
    AttentionEntropy, PolicyLoss, Settings,
    Diversity, Repetition, Garbling, Duplication, LengthPays, TruncationGap, Bimodality, TinySpread, Shaping,
    Counted, Scores, Review,
    Budgets, Baseline, ReferenceRun, HeldOutSets, Changes,
)  # fmt: skip
"""Every instrument; each has `read(look)`, which raises NotReadable when a metric is missing."""

__all__ = [
    "INSTRUMENTS",
    "LOUD",
    "AttentionEntropy",
    "Background",
    "Baseline",
    "BehaviourWeight",
    "Bimodality",
    "Budgets",
    "Changes",
    "Clipping",
    "Components",
    "Counted",
    "Diversity",
    "Duplication",
    "EngineGap",
    "Entropy",
    "Garbling",
    "Generation",
    "Gradient",
    "Headroom",
    "Held",
    "HeldOutSets",
    "History",
    "Kl",
    "LearningRate",
    "Length",
    "LengthPays",
    "Look",
    "Loss",
    "Memory",
    "Pace",
    "PolicyLoss",
    "Preference",
    "Ratio",
    "Reading",
    "Record",
    "ReferenceRun",
    "Repetition",
    "Requests",
    "Review",
    "Reward",
    "RewardBounds",
    "RewardScale",
    "Scores",
    "Settings",
    "Shaping",
    "Signal",
    "Staleness",
    "StepTime",
    "TinySpread",
    "Truncation",
    "TruncationGap",
    "Value",
    "Witness",
]  # fmt: skip

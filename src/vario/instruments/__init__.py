"""Instruments: typed readings of a run at one look. One file per instrument; rules ask for them by type."""

from __future__ import annotations

from vario.instruments.clipping import Clipping, Ratio
from vario.instruments.entropy import Entropy
from vario.instruments.gradient import Gradient, LearningRate, Loss
from vario.instruments.kl import Kl
from vario.instruments.length import Length, Truncation
from vario.instruments.preference import Preference
from vario.instruments.reading import LOUD, History, Look, Reading
from vario.instruments.record import Record
from vario.instruments.reward import Components, Reward
from vario.instruments.signal import Signal
from vario.instruments.systems import StepTime
from vario.instruments.value import Value
from vario.instruments.weights import BehaviourWeight, EngineGap, Staleness
from vario.instruments.witness import Witness

INSTRUMENTS = (
    Reward, Components, Witness, Signal, Kl, Ratio, Clipping, Entropy, Length, Truncation, BehaviourWeight,
    EngineGap, Staleness, Loss, Gradient, LearningRate, Value, Preference, StepTime, Record,
)  # fmt: skip
"""Every instrument; each has `read(look)`, which raises NotReadable when a metric is missing."""

__all__ = [
    "INSTRUMENTS",
    "LOUD",
    "BehaviourWeight",
    "Clipping",
    "Components",
    "EngineGap",
    "Entropy",
    "Gradient",
    "History",
    "Kl",
    "LearningRate",
    "Length",
    "Look",
    "Loss",
    "Preference",
    "Ratio",
    "Reading",
    "Record",
    "Reward",
    "Signal",
    "Staleness",
    "StepTime",
    "Truncation",
    "Value",
    "Witness",
]  # fmt: skip

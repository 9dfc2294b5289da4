"""`vario.live`: beside a training that runs.

from vario.live import VarioCallback, attach     # transformers and TRL: one line in a trainer
from vario.live import Monitor                   # any other loop

Importing this loads nothing heavy; `VarioCallback` and `attach` need transformers, which such a training has loaded.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vario.surfaces.live.machine import Machine
    from vario.surfaces.live.monitor import Monitor
    from vario.surfaces.live.probe import AttentionProbe
    from vario.surfaces.live.steps import StepClock
    from vario.surfaces.live.trainer import VarioCallback, attach

_HOMES = {
    "AttentionProbe": "probe",
    "Machine": "machine",
    "Monitor": "monitor",
    "StepClock": "steps",
    "VarioCallback": "trainer",
    "attach": "trainer",
}

__all__ = ["AttentionProbe", "Machine", "Monitor", "StepClock", "VarioCallback", "attach"]


def __getattr__(name: str) -> object:
    """Each name is loaded when it is used."""
    if name in _HOMES:
        return getattr(import_module(f"vario.surfaces.live.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'vario.live' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

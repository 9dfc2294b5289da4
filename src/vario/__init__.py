"""vario: the variometer for RL post-training.

run = vario.read("outputs/grpo-7b")
diagnosis = vario.diagnose(run)
print(diagnosis.verdict)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from vario.shown import show_by

if TYPE_CHECKING:
    from vario.project_file import Project, find_project
    from vario.rules.choice import Choice, choose
    from vario.run import Run
    from vario.sources import read, read_all, runs
    from vario.surfaces.here import diagnose_path
    from vario.surfaces.live.monitor import Monitor
    from vario.verdict import Diagnosis, Finding, diagnose
    from vario.verdict.compare import Comparison, compare

_HOMES = {
    "Monitor": "vario.surfaces.live.monitor",
    "Run": "vario.run",
    "read": "vario.sources",
    "read_all": "vario.sources",
    "runs": "vario.sources",
    "Diagnosis": "vario.verdict",
    "Finding": "vario.verdict",
    "diagnose": "vario.verdict",
    "Choice": "vario.rules.choice",
    "choose": "vario.rules.choice",
    "Comparison": "vario.verdict.compare",
    "compare": "vario.verdict.compare",
    "diagnose_path": "vario.surfaces.here",
    "Project": "vario.project_file",
    "find_project": "vario.project_file",
}

__all__ = [
    "Choice",
    "Comparison",
    "Diagnosis",
    "Finding",
    "Monitor",
    "Project",
    "Run",
    "choose",
    "compare",
    "diagnose",
    "diagnose_path",
    "find_project",
    "read",
    "read_all",
    "runs",
]


def __getattr__(name: str) -> object:
    """Public names are loaded when they are used: a training that imports vario loads nothing yet."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'vario' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def _card(value: object) -> str | None:
    """A diagnosis as a notebook shows it; what draws it is loaded when it is drawn."""
    made: str | None = import_module("vario.surfaces.notebook").card(value)
    return made


show_by(_card)

"""What survives restarts: findings that were told, alerts that were sent, what people said, acts; one database for all.

SQLite beside the run, or PostgreSQL for a team. SQLAlchemy is loaded when a database is opened, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vario.errors import StateError
from vario.surfaces.state.places import place_of, run_key, shown_place

if TYPE_CHECKING:
    from vario.surfaces.state.store import State

__all__ = ["State", "StateError", "place_of", "run_key", "shown_place"]


def __getattr__(name: str) -> object:
    """`State`, where SQLAlchemy is installed."""
    if name != "State":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from vario.surfaces.state.store import State
    except ImportError as error:
        raise StateError(f'what survives restarts needs SQLAlchemy ({error}): pip install "vario[live]"') from error
    return State

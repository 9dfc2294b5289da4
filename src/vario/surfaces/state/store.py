"""The state of runs: everything that survives a restart, in one database."""

from __future__ import annotations

from typing import Self

from vario.surfaces.state.acts import Acts
from vario.surfaces.state.alerts import Alerts
from vario.surfaces.state.database import Database
from vario.surfaces.state.findings import Findings
from vario.surfaces.state.reviews import Reviews
from vario.surfaces.state.silences import Silences


class State(Findings, Alerts, Silences, Reviews, Acts):
    """What survives restarts, of any number of runs. Each is named as `run_key` names it.

    Threads and processes may share it, each process with a `State` of its own. No call takes longer than
    `database.LONGEST` seconds, and each raises StateError alone.

        with State.open(place_of("outputs/grpo-7b")) as state:
            told = state.told(run_key("outputs/grpo-7b"))
    """

    def __init__(self, place: str) -> None:
        """The state at a place that `place_of` gave, or a user named; it is opened when it is used.

        Raises:
            StateError: the place names no database.
        """
        self._database = Database(place)

    @classmethod
    def open(cls, place: str) -> Self:
        """The state, opened now.

        Raises:
            StateError: it cannot be opened or made.
        """
        made = cls(place)
        made._database.open()
        return made

    @property
    def shown_place(self) -> str:
        """Where it lies, without credentials."""
        return self._database.shown

    @property
    def stands(self) -> bool:
        """Whether there is something to read: reading makes what is not there."""
        return self._database.stands

    @property
    def warnings(self) -> list[str]:
        """What happened to the database, a sentence each; grows while it is used."""
        return self._database.warnings

    def close(self) -> None:
        """Give the connections back. It cannot be used afterwards."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

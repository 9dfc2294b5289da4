"""The store of each run under watch, by the run's name; a store that fails is told of once, and the watch goes on without."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from vario.surfaces.live.notices import Notice, Standing
from vario.surfaces.state import State, StateError, place_of, run_key, shown_place

T = TypeVar("T")
WITHOUT = "what is told now is not remembered: a restart may tell it again"


class Memory:
    """Opens stores, one for each place, and says which run is called what in which of them.

    Args:
        say: takes a sentence for the user.
        wished: where the user wants the state; None: beside each run.
    """

    def __init__(self, say: Callable[[str], None], wished: str | None = None) -> None:
        self._say = say
        self._wished = wished
        self._states: dict[str, State] = {}
        self._runs: dict[str, tuple[State, str]] = {}
        self._generations: dict[str, int] = {}
        self._warned: dict[int, int] = {}

    def admit(self, name: str, path: str, *, keeps: bool = True) -> None:
        """Open the store of a run; without one it is followed all the same.

        Args:
            name: of the run. path: where it lies.
            keeps: whether what is noticed of it will be kept; False makes no store, and only looks at one that stands.
        """
        try:
            place = place_of(path, self._wished)
            state = self._states.get(place)
            if state is None:
                # opened when it is used: one that is locked now may not be later
                state = self._states[place] = State(place)
            self._runs[name] = state, run_key(path, place)
        except StateError as error:
            self._say(f"{error}; {WITHOUT}")
        if keeps:
            self._generation(name)

    def of(self, name: str) -> tuple[State, str] | None:
        """The store of a run and what the run is called there."""
        return self._runs.get(name)

    def ask(self, name: str, question: Callable[[State, str], T], otherwise: T) -> T:
        """What a store says of a run; `otherwise` where there is none, or where it fails."""
        known = self._runs.get(name)
        if known is None:
            return otherwise
        try:
            return question(*known)
        except StateError as error:
            self._say(f"{error}; {WITHOUT}")
            return otherwise
        finally:
            self._pass_on()

    def recall(self, name: str, question: Callable[[State, str], T], otherwise: T) -> T:
        """What a store says of a run, where one stands: a question alone makes none."""
        known = self._runs.get(name)
        return self.ask(name, question, otherwise) if known is not None and known[0].stands else otherwise

    def told(self, name: str) -> dict[str, Standing]:
        """What stands as told."""
        return self.ask(name, lambda state, run: state.told(run), {})

    def remember(self, name: str, notices: Iterable[Notice]) -> None:
        """Keep what was told."""
        kept = list(notices)
        if kept:
            self.ask(name, lambda state, run: state.remember(run, kept), None)

    def count(self, name: str, what: str, at: float) -> None:
        """Keep that something went wrong."""
        self.ask(name, lambda state, run: state.count(run, what, at), 0)

    def replaced(self, name: str) -> None:
        """Another run stands at the place: what was told of the old one is history."""
        was = self._generation(name)
        if was is not None:
            self._generations[name] = self.ask(name, lambda state, run: state.replaced(run, was), was)

    def _generation(self, name: str) -> int | None:
        """Which run at its place this is; None while the store does not say."""
        if name not in self._generations:
            found = self.ask(name, lambda state, run: state.generation(run), None)
            if found is not None:
                self._generations[name] = found
        return self._generations.get(name)

    def places(self) -> list[str]:
        """Where the stores lie, for people."""
        return [shown_place(place) for place in self._states]

    def close(self) -> None:
        """Give the connections back."""
        for state in self._states.values():
            state.close()
        self._states.clear()
        self._runs.clear()

    def _pass_on(self) -> None:
        """Tell what happened to a database by itself."""
        for state in self._states.values():
            known = self._warned.get(id(state), 0)
            for warning in state.warnings[known:]:
                self._say(warning)
            self._warned[id(state)] = len(state.warnings)

"""Pickles read without running them: every class and function that one names is replaced by a stand-in."""

from __future__ import annotations

import pickle


class Inert:
    """Stands for every class that a pickle names: takes anything, does nothing."""

    args: tuple[object, ...] = ()

    def __new__(cls, *args: object, **kwargs: object) -> Inert:  # noqa: ARG004
        """Keep what it would be made of."""
        made = super().__new__(cls)
        made.args = args
        return made

    def __call__(self, *args: object, **kwargs: object) -> Inert:  # noqa: ARG002
        """What it gives back does nothing either."""
        return Inert(*args)

    def __setstate__(self, state: object) -> None:
        self.state = state

    def append(self, item: object) -> None:
        """Some pickles extend list-like objects."""

    def __setitem__(self, key: object, value: object) -> None:
        """Some pickles fill dict-like objects."""


class InertUnpickler(pickle.Unpickler):
    """Builds the object graph from stand-ins; no class or function of the file is ever looked up."""

    def find_class(self, module_name: str, global_name: str, /) -> type:  # noqa: ARG002
        """Never look anything up."""
        return Inert

    def persistent_load(self, pid: object, /) -> object:  # noqa: ARG002
        """What lies outside the pickle is not read."""
        return None

"""What may be read for those who ask: what lies at the given roots, or below; a link leads nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from vario.errors import NothingReadable, SourceError
from vario.sources.places import find


class Bounds:
    """The roots of a dashboard.

    Args:
        roots: paths and addresses as given on the command line, and places of completions that stand there or in the
            user's own project file.
    """

    def __init__(self, roots: Iterable[str]) -> None:
        given = tuple(roots)
        self._addresses = tuple(root.rstrip("/") for root in given if "://" in root)
        self._paths = tuple(_place(root) for root in given if "://" not in root and root != "-")

    def hold(self, place: str | Path) -> bool:
        """Whether a path or an address lies within."""
        text = str(place)
        if "://" in text:
            return any(text == root or text.startswith(f"{root}/") for root in self._addresses)
        path = _real(text)
        return any(path == root or path.is_relative_to(root) for root in self._paths)

    def check(self, path: str) -> None:
        """Refuse a run whose log or configuration is a link that leads out.

        Raises:
            NothingReadable: which.
        """
        if "://" in path or path == "-":
            return
        try:
            places = find(Path(path))
        except (SourceError, OSError):  # whoever reads it says why
            return
        for place in places:
            for file in (*(log for _, log in place.logs), *place.configs, *place.states):
                if not self.hold(file):
                    raise NothingReadable(f"{file}: a link that leads out of what is served, and is not read")


def _place(root: str) -> Path:
    """Where a root lies: a run in a file of several has its name behind a #, and so may a folder."""
    return _real(root if Path(root).exists() else root.partition("#")[0])


def _real(path: str) -> Path:
    return Path(os.path.realpath(Path(path).expanduser()))  # of a loop of links it gives a path, and raises nothing

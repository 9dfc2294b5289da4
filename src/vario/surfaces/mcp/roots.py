"""Which runs may be read: those at the roots that the server was given, and below them. A link leads nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

from vario.errors import ConfigError
from vario.sources.folder import CONFIG_NAMES
from vario.sources.marks import NAME as MARKS

STEPS_OUT = ("..", ".")


class Roots:
    """The folders, files and addresses that may be read.

    Args:
        places: as given on the command line; the current folder where there is none.

    Raises:
        ConfigError: nothing lies at one of them; or none was given, and the current folder is that of all files.
    """

    def __init__(self, places: Sequence[str]) -> None:
        if not places and Path.cwd() == Path(Path.cwd().anchor):  # where desktop clients start their servers
            raise ConfigError(
                f"without PATH the current folder is read, and that is {Path.cwd()}: name the folder of the runs"
            )
        self.addresses = tuple(place.rstrip("/") for place in places if "://" in place)
        self.paths = tuple(_resolved(place) for place in (places or ["."]) if "://" not in place)

    @property
    def all(self) -> tuple[str, ...]:
        """All of them, as they can be listed."""
        return (*map(str, self.paths), *self.addresses)

    def admit(self, place: str) -> str:
        """The place that is meant, resolved; a path counts from the current folder, then from each root.

        Raises:
            ConfigError: it lies outside. Whether anything lies there is not told.
        """
        if "://" in place:
            if self._below_address(place.rstrip("/")):
                return place.rstrip("/")
            raise self._outside(place)
        if "\0" in place:
            raise self._outside(place)
        tried = [Path(place).expanduser(), *(root / place for root in self.paths if root.is_dir())]
        within = [found for one in tried if self.holds(found := _real(one))]
        if not within:
            raise self._outside(place)
        return str(next((one for one in within if one.exists()), within[0]))

    def holds(self, path: Path) -> bool:
        """Whether a resolved path lies at a root or below."""
        return any(path == root or path.is_relative_to(root) for root in self.paths)

    def check_links(self, place: str) -> None:
        """Refuse a run of which a file is a link that leads out.

        Raises:
            ConfigError: which.
        """
        if "://" in place:
            return
        for path in _files(Path(place)):
            if path.is_symlink() and not self.holds(_real(path)):
                raise ConfigError(f"{path}: a link that leads out of {self._told()}: not read")

    def _below_address(self, place: str) -> bool:
        for root in self.addresses:
            if place == root:
                return True
            if place.startswith(f"{root}/"):
                rest = unquote(place.removeprefix(f"{root}/"))
                return not any(c in rest for c in "\\?#") and not set(rest.split("/")) & {*STEPS_OUT, ""}
        return False

    def _outside(self, place: str) -> ConfigError:
        return ConfigError(f"{place}: outside of what this server may read, or no run's id; it may read {self._told()}")

    def _told(self) -> str:
        return ", ".join(self.all)


def _resolved(place: str) -> Path:
    path = Path(place).expanduser()
    if not path.exists():
        raise ConfigError(f"{place}: nothing lies there; give folders, files or addresses of runs")
    return _real(path)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # of a loop of links it gives a path, and raises nothing


def _files(place: Path) -> Iterator[Path]:
    """What a reading of the place may open."""
    if not place.is_dir():
        yield place
        yield from (place.parent / name for name in (*CONFIG_NAMES, MARKS))
        return
    for folder, folders, names in os.walk(place):
        yield from (Path(folder) / name for name in names)
        folders[:] = [name for name in folders if not name.startswith(".") or name == ".hydra"]

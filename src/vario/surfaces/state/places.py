"""Where the state of a run lies, and what the run is called in it."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from vario.errors import StateError
from vario.surfaces.privacy import MASK, masked, safe

NAME = "vario-state.sqlite"
SQLITE = "sqlite:///"
STDIN = "-"
POSTGRESQL = "postgresql+psycopg"
POSTGRESQL_WORDS = ("postgres", "postgresql")
"""How such addresses begin, whatever driver they name behind a plus: vario has psycopg 3."""

SERVER = re.compile(
    r"\w+(?:\+\w+)?://(?:[^:/@]*(?::[^@]*)?@)?(\[[^\]/?@]*\]|[^/:?@]*)(:\d*)?(/[^?@]*)?(?:\?.*)?", re.DOTALL
)
"""Of an address, host, port and database: what is not a secret. One that is written otherwise is not shown."""


def place_of(run_path: str, wished: str | None = None) -> str:
    """The address of the database that holds the state of a run; it may hold credentials, so show it by `shown_place`.

    What was wished wins: an address, a file, or a folder to put the file into. Else it is a file beside the run's log,
    or the one of the folder above it, where the run was followed from before it had a folder of its own. Where the run
    is no path, or nothing can be written there, it is one file for all runs of this user.

    Args:
        run_path: the run: a file, a folder, an address, or - for standard input.
        wished: what the user asked for.

    Raises:
        StateError: the wish is neither a file nor SQLite nor PostgreSQL, or the user has no home.
    """
    if wished:
        return address_of(wished)
    if not _is_address(run_path):
        path = _resolved(run_path)[0]
        folders = [path, path.parent] if os.path.isdir(path) else [path.parent]  # noqa: PTH112  (as in _is_file)
        found = [folder for folder in folders if _is_file(folder / NAME)]
        folder = (found or folders)[0]
        if _usable(folder):
            return f"{SQLITE}{folder / NAME}"
    return f"{SQLITE}{_of_user() / NAME}"


def run_key(run_path: str, place: str | None = None) -> str:
    """What a run is called in the database: the same for every watcher, however it was named.

    Beside the run it is the path as seen from the database, so that a folder that is moved, or mounted elsewhere on
    another machine, is still the same run. Elsewhere it is the whole path, without links. An address stands without
    its credentials. Standard input is named by the folder it was read in: whoever reads it anew says so by `replaced`.

    Args:
        run_path: as in `place_of`.
        place: what `place_of` gave.
    """
    if run_path == STDIN:
        return f"standard input in {_text(Path.cwd())}"
    if _is_address(run_path):
        return masked(run_path)
    path, name = _resolved(run_path)
    beside = Path(place.removeprefix(SQLITE)).parent if place is not None and place.startswith(SQLITE) else None
    if beside is not None and path.is_relative_to(beside) and beside != Path(beside.anchor):
        return f"{_text(path.relative_to(beside))}{name}"
    return f"{_text(path)}{name}"


def shown_place(place: str) -> str:
    """The address for people: a file as its path, a server without user and password."""
    if place.startswith(SQLITE):
        return safe(place.removeprefix(SQLITE))
    found = SERVER.fullmatch(place)
    if found is None:
        return f"postgresql://{MASK}"
    host, port, database = found.groups(default="")
    return safe(f"postgresql://{host or 'localhost'}{port}{database}")


def address_of(wished: str) -> str:
    """The address of a database that is named by a path or by an address; that of an address is itself.

    Raises:
        StateError: it is neither a file nor SQLite nor PostgreSQL.
    """
    scheme, separator, rest = wished.partition("://")
    if not separator:
        path = Path(os.path.abspath(Path(wished).expanduser()))  # noqa: PTH100  (a link stays one)
        return f"{SQLITE}{path / NAME if path.is_dir() else path}"
    kind = scheme.partition("+")[0]
    if kind in POSTGRESQL_WORDS:
        return f"{POSTGRESQL}://{rest}"
    if kind == "sqlite":
        if not rest.startswith("/") or rest in ("/", "/:memory:"):
            raise StateError("the state in SQLite needs a file, as in sqlite:///folder/vario-state.sqlite")
        return address_of(rest[1:])
    raise StateError(
        f"{safe(scheme)}: the state is kept in SQLite or PostgreSQL; give a path, or postgresql://HOST/DATABASE"
    )


def _is_address(run_path: str) -> bool:
    return run_path == STDIN or "://" in run_path


def _resolved(run_path: str) -> tuple[Path, str]:
    """The path without links, and the name of the run in it that stands behind a #, if any."""
    # a folder's name may hold a # as well: the longest path that is there, else the longest that could be made
    ends = [len(run_path), *(i for i in range(len(run_path) - 1, -1, -1) if run_path[i] == "#")]
    there = (end for end in ends if os.path.exists(run_path[:end]))  # noqa: PTH110  (as in _is_file)
    possible = (end for end in ends if os.path.isdir(os.path.dirname(run_path[:end]) or "."))  # noqa: PTH112, PTH120
    end = next(there, None) or next(possible, ends[-1])
    return Path(os.path.realpath(run_path[:end])), run_path[end:]


def _text(path: Path) -> str:
    """The path as text that every database can hold: a name need not be valid UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113  (False, and no error, where the folder cannot be looked into)


def _usable(folder: Path) -> bool:
    """Whether the file there can be written, or made.

    The latter is tried: rights alone do not tell of a quota, or of a server that takes root for nobody.
    """
    if _is_file(folder / NAME):
        return os.access(folder / NAME, os.R_OK | os.W_OK) and os.access(folder, os.W_OK | os.X_OK)
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _of_user() -> Path:
    """The user's folder for such things, made where it is not there."""
    wished = os.environ.get("XDG_STATE_HOME", "")
    home = Path(wished if wished.startswith("/") else os.path.expanduser("~/.local/state"))  # noqa: PTH111  (no error)
    if not home.is_absolute():
        raise StateError("no folder for what survives restarts: this user has no home; name a file or an address")
    folder = home / "vario"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return folder  # opening it says why
    return folder

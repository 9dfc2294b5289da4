"""Results in a file of JSON lines: a diagnosis a line, added as it is made, so that an interrupted fleet can go on."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from vario.errors import ConfigError
from vario.sources.fast_json import loads
from vario.surfaces.fleet.jobs import Job
from vario.surfaces.fleet.judging import OK, Document
from vario.surfaces.fleet.listing import state_of


def line_of(document: Document) -> str:
    """A document as one line. A path that is no valid text is told in escapes."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(document, allow_nan=False)
    return text


class Store:
    """A file of results, on a disk or at an address.

    On a disk each result is written at once. An address is read whole at the start, and written whole at the end.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        self._remote = "://" in place
        self._path = Path(place).resolve() if not self._remote else Path()
        self._documents = self._read()

    def known(self, jobs: Iterable[Job]) -> dict[tuple[str, str | None], list[Document]]:
        """What is known already of these jobs, by their keys: diagnoses whose run has not changed since."""
        by_path: dict[str, list[Document]] = defaultdict(list)
        for document in self._documents:
            by_path[_fleet(document)["path"]].append(document)
        found = {}
        for job in jobs:
            here = [d for d in by_path[job.path] if job.run is None or _fleet(d)["run"] == job.run]
            if here and job.fingerprint and all(_holds(_fleet(d), job, len(here)) for d in here):
                found[job.key] = here
        return found

    def begin(self, known: Iterable[Document], roots: Sequence[str]) -> None:
        """Leave in the file what is known, and what is of other roots; so nothing ever stands there twice.

        Raises:
            ConfigError: the file cannot be written.
        """
        self._others = [d for d in self._documents if _fleet(d)["root"] not in roots]
        if not self._remote:
            self._replace([*self._others, *known])

    def add(self, documents: Sequence[Document]) -> None:
        """Keep the results of a job."""
        if self._remote or not documents:
            return
        # one write for all of them: an end in the middle leaves a part of a line, which is redone
        data = "".join(line_of(d) + "\n" for d in documents).encode()
        try:
            with self._path.open("ab") as stream:
                stream.write(data)
        except OSError as error:
            raise _unwritable(self.place, error) from error

    def end(self, documents: Sequence[Document]) -> None:
        """Put everything in order."""
        self._replace([*documents, *self._others])

    def _read(self) -> list[Document]:
        data = read_place(self.place)
        lines = data.split(b"\n")
        made = []
        for number, line in enumerate(lines):
            if not line.strip():
                continue
            try:
                found: Any = loads(line)
            except (ValueError, RecursionError):
                if number == len(lines) - 1:
                    continue  # the end came in the middle of it: that run is judged again
                found = None
            if not isinstance(found, dict) or not isinstance(found.get("fleet"), dict):
                raise ConfigError(
                    f"{self.place}: line {number + 1} is no result of `vario fleet`; it would be lost: give another --output"
                )
            made.append(found)
        return made

    def _replace(self, documents: Iterable[Document]) -> None:
        write_place(self.place, "".join(line_of(d) + "\n" for d in documents).encode())


def _fleet(document: Document) -> Any:  # noqa: ANN401  (plain JSON)
    return document["fleet"]


def _holds(fleet: dict[str, Any], job: Job, count: int) -> bool:
    """Whether a result is still that of the job."""
    return (
        fleet["status"] == OK
        and fleet["fingerprint"] == job.fingerprint
        and (job.run is not None or fleet["of"] == count)
        and all(state_of(Path(place)) == state for place, state in fleet.get("elsewhere", {}).items())
    )


def read_place(place: str) -> bytes:
    """What lies in a file or at an address; nothing where there is none.

    Raises:
        ConfigError: it cannot be read.
    """
    if "://" not in place:
        try:
            return Path(place).read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise ConfigError(f"{place}: cannot be read ({error.strerror or error})") from error
    try:
        import fsspec

        filesystem, path = fsspec.core.url_to_fs(place)
        filesystem.invalidate_cache()
        return bytes(filesystem.cat_file(path)) if filesystem.exists(path) else b""
    except ImportError as error:
        raise ConfigError(f"{place}: {error}; `pip install 'vario[remote]'`, and the address's own package") from error
    except Exception as error:  # every file system raises its own errors
        raise ConfigError(f"{place}: cannot be read ({type(error).__name__}: {str(error)[:200]})") from error


def write_place(place: str, data: bytes) -> None:
    """Put a file there, whole or not at all.

    Raises:
        ConfigError: it cannot be written.
    """
    if "://" not in place:
        path = Path(place).resolve()  # a link stays one
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            beside.write_bytes(data)
            beside.replace(path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise _unwritable(place, error) from error
        return
    try:
        import fsspec

        filesystem, path_there = fsspec.core.url_to_fs(place)
        filesystem.pipe_file(path_there, data)
    except Exception as error:  # every file system raises its own errors
        raise ConfigError(f"{place}: cannot be written ({type(error).__name__}: {str(error)[:200]})") from error


def _unwritable(place: str, error: OSError) -> ConfigError:
    return ConfigError(f"{place}: cannot be written ({error.strerror or error}); check the folder and its permissions")

"""Discovery: which files below a folder hold completions, and in whose layout."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import polars as pl

from vario.errors import SourceError
from vario.sources.fast_json import loads
from vario.sources.readers.parquet import panicked
from vario.sources.rollouts.dumps import TABLES, Dump, DumpFile, in_order
from vario.sources.rollouts.layouts import Layout, generic, layout_of, prefer

ENDINGS = (".parquet", ".jsonl", ".ndjson", ".jsonl.gz", ".jsonl.zst", ".json", ".csv", ".tsv", ".pt")
MAX_FILES = 1_000_000
FIRST_LINE = 64 << 20
LOOKED_INTO = 16
"""Files alike that are opened, at the most, to tell whose they are."""
MOST_BROKEN = 100
"""Lines at the start of a file that may be broken before the file is."""
DIGITS = re.compile(r"\d+")


def discover(places: Iterable[Path | str], base: Path | str, mapping: Mapping[str, str] | None = None) -> Dump:
    """The dump that lies in these files and folders.

    Args:
        places: what the folder's listing took for completions, or what the user named; addresses go through fsspec.
        base: the run's folder, below which paths are matched and told.
        mapping: the user's names for columns; then every table is taken as told.
    """
    files: list[DumpFile] = []
    warnings: list[str] = []
    base = _whole(str(Path(base).parent if "://" not in str(base) and Path(base).is_file() else base))
    listed: dict[str, int] = {}
    named: dict[str, str] = {}
    for place in map(_whole, map(str, places)):
        there = dict(_listed(place, warnings))
        listed |= there
        named |= dict.fromkeys(there, place)
    shapes: dict[str, list[str]] = {}
    for path in sorted(prefer(list(listed))):
        shapes.setdefault(DIGITS.sub("0", path), []).append(path)
    for alike in shapes.values():
        layout = _layout(alike, base, mapping, warnings)
        if layout is None:
            continue
        for path in alike:
            below = _below(path, base)
            if layout.files is generic.ANYWHERE and below.startswith("/"):  # of folders above it, nothing is known
                below = _below(path, named[path].rpartition("/")[0])
            found = layout.files.search(below)
            told = found.groupdict() if found is not None else {}
            files.append(
                DumpFile(
                    path,
                    layout.key,
                    int(told["step"]) if told.get("step") else None,
                    bool(told.get("eval")),
                    listed[path],
                    tuple(mapping.items()) if mapping else (),
                )
            )
    if listed and not files and not warnings:
        warnings.append(
            f"{len(listed)} files lie where completions would, and vario knows none of them: they are empty, or name "
            "their columns otherwise"
        )
    if len(files) > MAX_FILES:
        warnings.append(f"{len(files)} files with completions: the first {MAX_FILES} were read")
    return Dump(in_order(files[:MAX_FILES]), tuple(dict.fromkeys(warnings)))


def _whole(place: str) -> str:
    """A path that means the same in every process, wherever it was started."""
    return place if "://" in place else os.path.abspath(place)  # noqa: PTH100  (links are kept as they are)


def _listed(place: str, warnings: list[str]) -> Iterator[tuple[str, int]]:
    """Files below a place with their sizes."""

    def lost(error: OSError) -> None:
        warnings.append(f"{error.filename}: cannot be read ({error.strerror or error}); the other files were used")

    if "://" in place:
        import fsspec

        filesystem, root = fsspec.core.url_to_fs(place)
        for name, detail in filesystem.find(root, detail=True).items():
            if str(name).endswith(ENDINGS):
                yield filesystem.unstrip_protocol(name), int(detail.get("size") or 0)
        return
    path = Path(place)
    if path.is_file():
        yield place, path.stat().st_size
        return
    for where, folders, names in os.walk(path, onerror=lost):
        folders.sort()
        for name in names:
            if name.endswith(ENDINGS) and not name.startswith("."):
                full = os.path.join(where, name)  # noqa: PTH118  (a million times over)
                try:
                    yield full, os.path.getsize(full)  # noqa: PTH202
                except OSError as error:
                    lost(error)


def _below(path: str, base: str) -> str:
    """A path below a folder; the whole of one that lies elsewhere."""
    below = path.removeprefix(base.rstrip("/") + "/").replace(os.sep, "/")
    return below.removesuffix(".gz").removesuffix(".zst")


def _layout(alike: list[str], base: str, mapping: Mapping[str, str] | None, warnings: list[str]) -> Layout | None:
    """How files are read whose paths differ in their numbers alone; the first may be empty, broken or half written."""
    if mapping:
        return generic.mapped(mapping)
    troubles = []
    for path in alike[:LOOKED_INTO]:
        below = _below(path, base)
        try:
            layout = layout_of(below, first_keys(path))
        except (SourceError, OSError, ValueError, RecursionError, pl.exceptions.PolarsError) as error:
            troubles.append(f"{below}: cannot be read ({str(error)[:160]})")
        except BaseException as error:
            if not panicked(error):
                raise
            troubles.append(f"{below}: damaged ({str(error)[:160]})")
        else:
            if layout is not None:
                return layout
    if troubles:
        warnings.append(troubles[0] + (f"; so are {len(troubles) - 1} more like it" if len(troubles) > 1 else ""))
    return None


def first_keys(path: str) -> list[str]:
    """The keys of a file's first row, or its columns."""
    one = DumpFile(path, "generic")
    if path.endswith(".parquet"):
        return list(pl.read_parquet_schema(one.source()))
    if path.endswith(TABLES):
        return pl.read_csv(one.source(), n_rows=0, separator="\t" if path.endswith(".tsv") else ",").columns
    if path.endswith(".pt"):
        return ["rollout_id", "samples"]
    broken = 0
    with one.open() as stream:
        while line := stream.readline(FIRST_LINE):
            if not line.strip():
                continue
            try:
                found = loads(line + stream.read(FIRST_LINE) if path.endswith(".json") else line)
            except (ValueError, RecursionError):
                broken += 1
                if broken > MOST_BROKEN or path.endswith(".json"):
                    raise
                continue
            first = found[0] if isinstance(found, list) and found else found
            return list(first) if isinstance(first, dict) else []
    return []

"""Dumps: the files that hold a run's completions, and the pieces that they are read in."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import IO

from vario.run import Run
from vario.sources.opening import open_log
from vario.sources.rollouts.layouts import Layout, by_key, generic

PIECE_BYTES = 64 << 20
"""A piece of work: large enough that starting it costs nothing, small enough that two workers share a dump evenly."""
TABLES = (".parquet", ".csv", ".tsv")


@dataclass(frozen=True, slots=True)
class DumpFile:
    """One file with completions.

    Attributes:
        place: a local path, or an address for fsspec.
        layout_key: which layout reads it; `mapping` where the user named the columns.
        step: the step that the file's name tells; None where the rows do.
        evaluation: whether its name says that its rows are of an evaluation.
        size: bytes.
        alone: whether evaluations are all that there is: then they are looked at as a run's own samples.
    """

    place: str
    layout_key: str
    step: int | None = None
    evaluation: bool = False
    size: int = 0
    mapping: tuple[tuple[str, str], ...] = ()
    alone: bool = False

    @property
    def held_out(self) -> bool:
        """Whether its rows are held out of a run's training samples: an evaluation's, beside something else."""
        return (self.evaluation or self.layout.evaluation) and not self.alone

    @property
    def layout(self) -> Layout:
        """How it is read."""
        return generic.mapped(dict(self.mapping)) if self.mapping else by_key(self.layout_key)

    @property
    def filtered(self) -> bool:
        """Whether groups without a difference were left out before it was written."""
        pattern = self.layout.filtered
        return pattern is not None and pattern.search(self.place.replace("\\", "/")) is not None

    @property
    def is_table(self) -> bool:
        """Whether it is a table of columns, not lines of JSON."""
        return self.place.endswith(TABLES)

    @property
    def name(self) -> str:
        """The end of its path, for messages."""
        return "/".join(self.place.rsplit("/", 2)[-2:])

    def open(self) -> IO[bytes]:
        """Its bytes, unpacked where they are packed."""
        if "://" not in self.place:
            return open_log(Path(self.place))
        import fsspec

        opened: IO[bytes] = fsspec.open(self.place, "rb", compression="infer").open()
        return opened

    def source(self) -> str | IO[bytes]:
        """What a reader of tables takes."""
        return self.place if "://" not in self.place else io.BytesIO(self.open().read())


@dataclass(frozen=True, slots=True)
class Piece:
    """What is read at once: whole files, or one file's lines that begin in `[start, end)` bytes."""

    files: tuple[DumpFile, ...]
    start: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Dump:
    """Everything that a run sampled, as far as it was written down.

    Attributes:
        files: in order of their steps.
        warnings: what was found beside them and could not be used.
    """

    files: tuple[DumpFile, ...]
    warnings: tuple[str, ...] = ()

    @property
    def frameworks(self) -> tuple[str, ...]:
        """Whose layouts the files have."""
        return tuple(dict.fromkeys(f.layout.name for f in self.files))

    def for_run(self, run: Run) -> Dump:
        """The dump as it belongs to a run: an evaluation without any log stands for itself."""
        logged = any(not series.counted for series in run.series.values())
        if logged or not all(one.held_out for one in self.files):
            return self
        return replace(self, files=tuple(replace(one, alone=True) for one in self.files))

    def pieces(self, most: int | None = None) -> list[Piece]:
        """The same pieces wherever they are worked on: no step is divided, whatever the number of workers.

        Files of one step lie in one piece. A large file of lines is cut at bytes; its reader takes the steps that
        begin there.

        Args:
            most: bytes of files that lie in one piece, 64 MiB without it; 0: each step has a piece of its own.
        """
        most = PIECE_BYTES if most is None else most
        made: list[Piece] = []
        held: list[DumpFile] = []
        size = 0
        for one in self.files:
            alone = one.step is None
            if held and (alone or (size + one.size > most and one.step != held[-1].step)):
                made.append(Piece(tuple(held)))
                held, size = [], 0
            if alone:
                made += _cut(one)
            else:
                held.append(one)
                size += one.size
        return [*made, Piece(tuple(held))] if held else made


def _cut(one: DumpFile) -> list[Piece]:
    whole = one.is_table or one.place.endswith((".gz", ".zst", ".pt", ".json")) or one.size <= PIECE_BYTES
    if whole or "step" not in one.layout.fields:
        return [Piece((one,))]
    count = -(-one.size // PIECE_BYTES)
    edges = [one.size * i // count for i in range(count + 1)]
    return [Piece((one,), a, b) for a, b in pairwise(edges)]


def in_order(files: Sequence[DumpFile]) -> tuple[DumpFile, ...]:
    """By step, then by path: shards of one step stay together."""
    return tuple(sorted(files, key=lambda f: (f.evaluation, f.step is None, f.step or 0, f.place)))

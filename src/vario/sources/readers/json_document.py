"""One JSON document: a list of rows, columns side by side, or a history somewhere inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from vario.errors import Malformed, NothingReadable
from vario.sources.fast_json import loads
from vario.sources.opening import read_whole
from vario.sources.readers.jsonl import SAMPLES, is_wrapped_output, unwrapped
from vario.sources.readers.metric_words import is_sample, kinds_of
from vario.sources.rows import STEP_KEYS, Table, number

MAX_BYTES = 2 << 30
"""A larger document is not read whole."""
DEEPEST = 3
"""A history lies no deeper."""
SETTINGS = ("config", "args", "training_args", "hyperparameters", "hparams")


def recognises(path: Path, head: bytes) -> bool:
    """A bracket at the start; `trainer_state`, notebooks and JSON lines are asked before."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if is_wrapped_output(text):
        return False
    return text.startswith((b"[", b"{")) and (path.suffix == ".json" or text[1:].lstrip()[:1] in (b"{", b'"', b""))


def read(path: Path) -> Table:
    """Read the rows of a document.

    Raises:
        Malformed: it is no JSON, or holds no rows of numbers. NothingReadable: its rows are samples.
    """
    data = read_whole(path, MAX_BYTES, "write one object a line instead")
    try:
        loaded = loads(data.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{path}: broken JSON ({str(error)[:120]}); is the file still being written?") from error
    table = Table(str(path), "json")
    found = sorted(_histories(loaded, "", 0), key=lambda h: h.size, reverse=True)
    if found:
        found[0].add_to(table)
        table.flush()
    if not table.rows:
        if found and found[0].samples:
            raise NothingReadable(f"{path}: {SAMPLES}")
        raise Malformed(f"{path}: holds no list of rows and no columns of numbers; expected one entry a step")
    table.warnings += [f"{path.name}: {w}" for w in found[0].warnings]
    others = [f"{h.where} ({h.rows} rows)" for h in found[1:] if h.size > 1 and h.where]
    if others:
        table.warnings.append(f"{path.name}: {found[0].where or 'the rows'} was read, and not {', '.join(others[:3])}")
    if table.index_steps:
        table.warnings.append(f"{path.name}: rows without a step; the order of the rows is used as the step")
    if isinstance(loaded, dict):
        for key in SETTINGS:
            inner = loaded.get(key)
            if isinstance(inner, dict):
                table.config.update({k: v for k, v in inner.items() if isinstance(k, str)})
    return table


class _History:
    """Rows in a document, and where they lie."""

    def __init__(self, where: str, rows: Sequence[tuple[int | None, object]], foreign: int = 0) -> None:
        self.where, self.rows, self.foreign = where, len(rows), foreign
        self.warnings: list[str] = []
        self._rows = rows
        some = [row for _, row in rows[:20] if isinstance(row, Mapping)]
        self.samples = bool(some) and all(map(is_sample, some))
        self.size = 0 if self.samples else len(rows) * max((_numbers(row) for row in some), default=0)

    def add_to(self, table: Table) -> None:
        """Add the rows; what is none is counted."""
        table.ignored += self.foreign
        for step, row in self._rows:
            if not isinstance(row, Mapping) or is_sample(row) or not table.add(unwrapped(dict(row)), step=step):
                table.ignored += 1


def _histories(loaded: object, where: str, depth: int) -> Iterator[_History]:
    """Lists of rows, columns side by side, and rows under their step, down to `DEEPEST`."""
    if isinstance(loaded, list):
        if any(isinstance(r, Mapping) for r in loaded[:20]):
            yield _History(where, [(None, r) for r in loaded])
        return
    if not isinstance(loaded, dict) or depth > DEEPEST:
        return
    by_step = {int(k): v for k, v in loaded.items() if k.isdigit() and len(k) < 16 and isinstance(v, Mapping)}
    if len(by_step) >= 2 and len(by_step) >= len(loaded) / 2:
        yield _History(where, sorted(by_step.items()), foreign=len(loaded) - len(by_step))
        return
    if (columns := _columns(loaded, where)) is not None:
        yield columns
    for key, value in loaded.items():
        yield from _histories(value, f"{where}/{key}" if where else str(key), depth + 1)


def _columns(loaded: dict[str, object], where: str) -> _History | None:
    """Lists of numbers side by side, as long as the steps are, else as most of them are."""
    lists = {k: v for k, v in loaded.items() if isinstance(v, list) and v and all(map(_is_number, v))}
    if not lists:
        return None
    clock = next((k for k in STEP_KEYS if k in lists), None)
    lengths = [len(v) for v in lists.values()]
    longest = len(lists[clock]) if clock else max(set(lengths), key=lambda n: (lengths.count(n), n))
    chosen = {k: v for k, v in lists.items() if len(v) == longest}
    if longest < 2 or not kinds_of(chosen):
        return None
    left = [f"{k} ({len(v)})" for k, v in lists.items() if k not in chosen]
    made = _History(where, [(None, {k: v[i] for k, v in chosen.items()}) for i in range(longest)], foreign=len(left))
    if left:
        made.warnings.append(f"columns of another length than {longest} were left out: {', '.join(left[:5])}")
    return made


def _numbers(row: Mapping[str, object]) -> int:
    return sum(_numbers(v) if isinstance(v, Mapping) else number(v) is not None for v in row.values())


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | None) and not isinstance(value, bool)

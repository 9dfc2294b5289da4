"""One JSON document: a list of rows, columns side by side, or a history somewhere inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from vario.errors import Malformed
from vario.sources.fast_json import loads
from vario.sources.opening import open_log
from vario.sources.readers.metric_words import kinds_of
from vario.sources.rows import Table

MAX_BYTES = 2 << 30
"""A larger document is not read whole."""
DEEPEST = 3
"""A history lies no deeper."""
SETTINGS = ("config", "args", "training_args", "hyperparameters", "hparams")


def recognises(path: Path, head: bytes) -> bool:
    """A bracket at the start; `trainer_state`, notebooks and JSON lines are asked before."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return text.startswith((b"[", b"{")) and (path.suffix == ".json" or text[1:].lstrip()[:1] in (b"{", b'"', b""))


def read(path: Path) -> Table:
    """Read the rows of a document.

    Raises:
        Malformed: it is no JSON, or holds no rows of numbers.
    """
    with open_log(path) as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Malformed(f"{path}: a JSON document of more than {MAX_BYTES >> 30} GiB; write one object a line instead")
    try:
        loaded = loads(data.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{path}: broken JSON ({str(error)[:120]}); is the file still being written?") from error
    table = Table(str(path), "json")
    _take(loaded, table, 0)
    table.flush()
    if not table.rows:
        raise Malformed(f"{path}: holds no list of rows and no columns of numbers; expected one entry a step")
    if table.index_steps:
        table.warnings.append(f"{path.name}: rows without a step; the order of the rows is used as the step")
    if isinstance(loaded, dict):
        for key in SETTINGS:
            inner = loaded.get(key)
            if isinstance(inner, dict):
                table.config.update({k: v for k, v in inner.items() if isinstance(k, str)})
    return table


def _take(loaded: object, table: Table, depth: int) -> bool:
    """Add what rows there are: the largest list of rows, else columns, else rows under their step."""
    found = max(_lists(loaded, depth), key=_size, default=None)
    columns = isinstance(loaded, dict) and (_columns(loaded, table) or _by_step(loaded, table))
    if columns or found is None:
        return bool(columns)
    rows = [r for r in found if isinstance(r, Mapping)]
    table.ignored += len(found) - len(rows)
    for row in rows:
        if not table.add(row):
            table.ignored += 1
    return bool(rows)


def _lists(loaded: object, depth: int) -> Iterator[list[object]]:
    """Every list that holds rows, down to `DEEPEST`."""
    if isinstance(loaded, list):
        if any(isinstance(r, Mapping) for r in loaded[:20]):
            yield loaded
    elif isinstance(loaded, dict) and depth <= DEEPEST:
        for value in loaded.values():
            yield from _lists(value, depth + 1)


def _size(rows: list[object]) -> int:
    """Rows times the numbers in one of them."""
    some = [r for r in rows[:20] if isinstance(r, Mapping)]
    return len(rows) * max((sum(map(_is_number, r.values())) for r in some), default=0)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | None) and not isinstance(value, bool)


def _columns(loaded: dict[str, object], table: Table) -> bool:
    """Lists of numbers side by side, of one length."""
    lists = {k: v for k, v in loaded.items() if isinstance(v, list) and v and all(map(_is_number, v))}
    if not lists:
        return False
    lengths = [len(v) for v in lists.values()]
    longest = max(set(lengths), key=lambda n: (lengths.count(n), n))
    chosen = {k: v for k, v in lists.items() if len(v) == longest}
    if longest < 2 or not kinds_of(chosen):
        return False
    table.ignored += len(lists) - len(chosen)
    for i in range(longest):
        table.add({k: v[i] for k, v in chosen.items()})
    return True


def _by_step(loaded: dict[str, object], table: Table) -> bool:
    """Rows under their step: {"10": {...}, "20": {...}}."""
    rows = {int(k): v for k, v in loaded.items() if k.isdigit() and len(k) < 16 and isinstance(v, Mapping)}
    if len(rows) < 2 or len(rows) < len(loaded) / 2:
        return False
    for step in sorted(rows):
        table.add(rows[step], step=step)
    return True

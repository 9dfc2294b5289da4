"""Files that torch saved (.pt): a zip with a pickle inside, read without running it.

Tensors lie beside the pickle and are not read; in their place, as in that of any other object, stands None.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
from collections.abc import Callable, Iterator

from vario.errors import Malformed
from vario.sources.inert import Inert, InertUnpickler
from vario.sources.rollouts.dumps import DumpFile

MAX_BYTES = 512 << 20
"""Of a pickle; unpacked it takes seven times that."""
MAX_DEPTH = 32
SHARING = 16
"""A pickle of n bytes makes at most n values; one that counts more of them than this times n names the same ones
over and over, to unfold without end."""
SPARE = 1 << 20


def objects(one: DumpFile) -> Iterator[dict[str, object]]:
    """The object of a file, of plain values.

    Raises:
        Malformed: it is not such a file, too large, damaged, or made to do harm.
    """
    data = _pickle_of(one)
    try:
        _check(data)
        made = _Unpickler(io.BytesIO(data)).load()
        found = _plain(made, [SHARING * len(data) + SPARE])
    except Malformed as error:
        raise Malformed(f"{one.name}: {error}") from error
    except Exception as error:  # a hostile or broken pickle may raise anything; none of it is ours
        raise Malformed(f"{one.name}: not readable as a pickle of plain values ({type(error).__name__})") from error
    if not isinstance(found, dict):
        raise Malformed(f"{one.name}: holds no named values")
    yield found


def _pickle_of(one: DumpFile) -> bytes:
    try:
        with one.open() as stream, zipfile.ZipFile(stream) as archive:
            inner = next((i for i in archive.infolist() if re.fullmatch(r"([^/]+/)?data\.pkl", i.filename)), None)
            if inner is None:
                raise Malformed(f"{one.name}: a zip without data.pkl, which torch.save writes")
            if inner.file_size > MAX_BYTES:
                raise Malformed(f"{one.name}: a pickle of {inner.file_size} bytes; at most {MAX_BYTES} are read")
            return archive.read(inner)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise Malformed(f"{one.name}: no file of torch.save, or a damaged one ({error})") from error


class _Maker:
    """A thing that a pickle names and that does no harm: made by a function of ours, after the pickle's description."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., object]) -> None:
        self._make = make

    def __call__(self, *args: object) -> object:
        return self._make(*args)

    def __setstate__(self, _state: object) -> None:
        """No pickle changes it."""


class _Unpickler(InertUnpickler):
    """Ordered dicts and numpy's scalars come as what they hold; all else stays a stand-in."""

    def find_class(self, module_name: str, global_name: str, /) -> type:
        return _KNOWN.get((module_name, global_name), Inert)  # type: ignore[return-value]


def _scalar(kind: object = None, data: object = b"") -> object:
    """A number of numpy, out of its type's name and its bytes."""
    code = kind.args[0] if isinstance(kind, Inert) and kind.args else None
    form = _FORMS.get(code) if isinstance(code, str) else None
    if form is None or not isinstance(data, bytes) or len(data) != struct.calcsize(form):
        return None
    return struct.unpack(form, data)[0]


def _ordered(*_args: object) -> dict[object, object]:
    return {}


def _bytes(text: object = None, *_args: object) -> object:
    """How protocol 2, which torch.save writes, tells bytes."""
    return text.encode("latin-1", errors="replace") if isinstance(text, str) else None


_FORMS = {"f8": "<d", "f4": "<f", "f2": "<e", "i8": "<q", "i4": "<i", "b1": "<?"}
_KNOWN = {
    ("collections", "OrderedDict"): _Maker(_ordered),
    ("numpy.core.multiarray", "scalar"): _Maker(_scalar),
    ("numpy._core.multiarray", "scalar"): _Maker(_scalar),
    ("_codecs", "encode"): _Maker(_bytes),
}


def _plain(value: object, left: list[int], depth: int = 0) -> object:
    """Texts, numbers, lists, and dicts by name; None for what is none of these. `left`: values that may yet be met."""
    if isinstance(value, dict):
        _spend(left, len(value), depth)
        return {k: _plain(v, left, depth + 1) for k, v in value.items() if isinstance(k, str)}
    if isinstance(value, list | tuple):
        _spend(left, len(value), depth)
        if set(map(type, value)) <= _ATOMS:  # token ids, by the million
            return value
        return [_plain(v, left, depth + 1) for v in value]
    return value if type(value) in _ATOMS else None


_ATOMS = frozenset({str, int, float, bool, type(None)})


def _spend(left: list[int], count: int, depth: int) -> None:
    left[0] -= count + 1
    if left[0] < 0 or depth > MAX_DEPTH:
        raise Malformed("its values contain each other without end")


_PLAIN = re.compile(
    rb"(?:[()012NQRabdelostu\]}\x81\x85-\x89\x8f-\x94]|[\x80Kqh].|M..|[Jj].{4}|[G\x95].{8})++", re.DOTALL
)
"""Opcodes that neither hold a length nor number what they remember, in a run."""
_LENGTH = {
    b"U": 1,
    b"C": 1,
    b"\x8a": 1,
    b"\x8c": 1,
    b"T": 4,
    b"B": 4,
    b"X": 4,
    b"\x8b": 4,
    b"\x8d": 8,
    b"\x8e": 8,
    b"\x96": 8,
}
"""Bytes of the length that follows the opcode, and is followed by as many bytes."""
_LINES = {b"c": 2, b"i": 2, b"F": 1, b"I": 1, b"L": 1, b"S": 1, b"V": 1, b"P": 1, b"g": 1, b"p": 1}
"""Lines of text that follow the opcode."""


def _check(data: bytes) -> None:
    """Go through the opcodes: what they ask memory for has to be in the file.

    An unpickler makes room for a string before it looks for it, and for everything up to a number that is given to a
    value: a file of a few bytes could ask for all there is.
    """
    at, size = 0, len(data)
    while at < size:
        if (run := _PLAIN.match(data, at)) is not None:
            at = run.end()
            continue
        code = data[at : at + 1]
        at += 1
        if code == b".":
            return
        if code == b"r":
            number = int.from_bytes(data[at : at + 4], "little")
            at += 4
        elif code in _LENGTH:
            width = _LENGTH[code]
            number = int.from_bytes(data[at : at + width], "little")
            at += width + number
        elif code in _LINES:
            number = 0
            for _ in range(_LINES[code]):
                end = data.find(b"\n", at)
                if end < 0:
                    raise Malformed("cut off")
                line, at = data[at:end], end + 1
            if code == b"p":
                number = int(line) if line.isdigit() and len(line) < 12 else size + 1
        else:
            raise Malformed(f"an unknown opcode at byte {at - 1}")
        if number > size or at > size:
            raise Malformed("it asks for more than the file holds")
    raise Malformed("cut off")

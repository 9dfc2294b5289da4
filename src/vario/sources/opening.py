"""Opening what lies on disk: plain or compressed by content, and never more than a log can hold."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import IO, Any

from vario.errors import Malformed, NothingReadable

HEAD_BYTES = 4096
GZIP, ZSTANDARD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
MAX_UNPACKED = 32 << 30
"""No log of metrics is larger (bytes)."""
MAX_RATIO = 400
"""Logs of numbers pack at 3 to 30 to one; zeros at 1,000 and more. Beyond `FREE` bytes a higher ratio is refused."""
FREE = 16 << 20
AT_ONCE = 1 << 20
MAX_WINDOW = 128 << 20
"""Memory that a zstandard frame may ask for (bytes); what `zstd --long=27` writes."""


class _Bounded(io.RawIOBase):
    """What a decompressor gives, as long as it stays in proportion to the file."""

    def __init__(self, inner: Any, packed: IO[bytes], path: Path) -> None:  # noqa: ANN401  (a gzip or zstandard stream)
        self._inner, self._packed_stream, self._path = inner, packed, path
        self._given, self._packed = 0, max(path.stat().st_size, 1)
        self.is_cut = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401  (the signature is io's)
        try:
            # one piece at a time: a longer read would lose what was unpacked before the cut
            data = self._inner.read1(min(len(buffer), AT_ONCE))
        except EOFError:
            data, self.is_cut = b"", True  # what came before it is whole
        except (zlib.error, gzip.BadGzipFile) as error:
            if self._given and isinstance(error, gzip.BadGzipFile) and "Not a gzipped" in str(error):
                data = b""  # something else stands behind the packed data, as padding does
            else:
                raise self._damaged(error) from error
        except Exception as error:
            if type(error).__name__ != "ZstdError":  # the package may not be installed: known by name only
                raise
            raise self._damaged(error) from error
        self._given += len(data)
        if self._given > MAX_UNPACKED or (self._given > FREE and self._given > MAX_RATIO * self._packed):
            raise Malformed(
                f"{self._path}: {self._packed} bytes unpack to more than {self._given}: that is no log but a "
                "decompression bomb; unpack it by hand if you trust it"
            )
        buffer[: len(data)] = data
        return len(data)

    def _damaged(self, error: Exception) -> Malformed:
        return Malformed(f"{self._path}: damaged compressed data ({error}); unpack it by hand to see how far it goes")

    def close(self) -> None:
        self._inner.close()
        self._packed_stream.close()
        super().close()


def _ends(stream: IO[bytes]) -> bool:
    """Whether the zstandard frames of a file are whole; their reader stops without a word where they are not."""
    size = stream.seek(0, 2)
    stream.seek(0)
    while magic := stream.read(4):
        if magic != ZSTANDARD:  # padding, or a frame to be skipped
            return True
        bits = int.from_bytes(stream.read(1), "little")
        single = bits >> 5 & 1
        stream.seek((not single) + (0, 1, 2, 4)[bits & 3] + (single, 2, 4, 8)[bits >> 6], 1)
        last = 0
        while not last:
            head = int.from_bytes(stream.read(3), "little")
            last, kind, length = head & 1, head >> 1 & 3, head >> 3
            if stream.seek(1 if kind == 1 else length, 1) > size or not head:
                return False
        if stream.seek(4 * (bits >> 2 & 1), 1) > size:
            return False
    return True


def is_packed(stream: IO[bytes]) -> bool:
    """Whether what is read from an opened log is unpacked on the way."""
    return isinstance(stream, io.BufferedReader) and isinstance(stream.raw, _Bounded)


def cut_short(stream: IO[bytes]) -> bool:
    """Whether a log that was read to its end was cut off while packed."""
    raw = stream.raw if isinstance(stream, io.BufferedReader) else None
    return isinstance(raw, _Bounded) and raw.is_cut


def open_log(path: Path) -> IO[bytes]:
    """The bytes of a log, unpacked where the file is packed (gzip, zstandard).

    Raises:
        NothingReadable: zstandard is needed and not installed. Malformed: it unpacks out of all proportion.
    """
    stream = path.open("rb")
    magic = stream.read(4)
    stream.seek(0)
    if magic.startswith(GZIP):
        return io.BufferedReader(_Bounded(gzip.open(stream), stream, path), 1 << 20)
    if magic == ZSTANDARD:
        try:
            import zstandard
        except ImportError as error:
            stream.close()
            raise NothingReadable(
                f"{path}: packed with zstandard; `pip install 'vario[zstd]'`, or unpack it"
            ) from error
        whole = _ends(stream)
        stream.seek(0)
        inner = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW).stream_reader(stream, read_across_frames=True)
        bounded = _Bounded(inner, stream, path)
        bounded.is_cut = not whole
        return io.BufferedReader(bounded, 1 << 20)
    return stream


def read_whole(path: Path, most: int, advice: str) -> bytes:
    """Everything in a file that can only be read whole.

    Raises:
        Malformed: it is longer than `most`.
    """
    pieces: list[bytes] = []
    size = 0
    with open_log(path) as stream:
        while piece := stream.read(AT_ONCE):
            size += len(piece)
            if size > most:
                raise Malformed(f"{path}: more than {most >> 30} GiB, too much to be read whole; {advice}")
            pieces.append(piece)
    return b"".join(pieces)


def head_of(path: Path) -> bytes:
    """The first bytes, unpacked; empty when it cannot be read.

    Raises:
        NothingReadable: what would unpack it is not installed, or it is packed twice.
        Malformed: it is no sound packed file.
    """
    try:
        with open_log(path) as stream:
            head = stream.read(HEAD_BYTES)
            if is_packed(stream):
                if head.startswith((GZIP, ZSTANDARD)):
                    raise NothingReadable(f"{path}: packed twice; unpack it once and give what comes out")
                if not head and cut_short(stream):
                    raise Malformed(
                        f"{path}: cut off while packed, before anything could be unpacked; was it copied whole?"
                    )
    except (OSError, EOFError):
        return b""
    return head

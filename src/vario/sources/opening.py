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
FREE = 64 << 20


class _Bounded(io.RawIOBase):
    """What a decompressor gives, as long as it stays in proportion to the file."""

    def __init__(self, inner: Any, path: Path) -> None:  # noqa: ANN401  (a gzip or zstandard stream)
        self._inner, self._path = inner, path
        self._given, self._packed = 0, max(path.stat().st_size, 1)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401  (the signature is io's)
        try:
            data = self._inner.read(len(buffer))
        except EOFError:
            data = b""  # cut off while packed: what came before it is whole
        except (zlib.error, gzip.BadGzipFile) as error:
            raise Malformed(
                f"{self._path}: damaged compressed data ({error}); unpack it by hand to see how far it goes"
            ) from error
        self._given += len(data)
        if self._given > MAX_UNPACKED or (self._given > FREE and self._given > MAX_RATIO * self._packed):
            raise Malformed(
                f"{self._path}: {self._packed} bytes unpack to more than {self._given}: that is no log but a "
                "decompression bomb; unpack it by hand if you trust it"
            )
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._inner.close()
        super().close()


def open_log(path: Path) -> IO[bytes]:
    """The bytes of a log, unpacked where the file is packed (gzip, zstandard).

    Raises:
        NothingReadable: zstandard is needed and not installed. Malformed: it unpacks out of all proportion.
    """
    stream = path.open("rb")
    magic = stream.read(4)
    stream.seek(0)
    if magic.startswith(GZIP):
        return io.BufferedReader(_Bounded(gzip.open(stream), path), 1 << 20)
    if magic == ZSTANDARD:
        try:
            import zstandard
        except ImportError as error:
            stream.close()
            raise NothingReadable(
                f"{path}: packed with zstandard; `pip install 'vario[zstd]'`, or unpack it"
            ) from error
        inner = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
        return io.BufferedReader(_Bounded(inner, path), 1 << 20)
    return stream


def head_of(path: Path) -> bytes:
    """The first bytes, unpacked; empty when it cannot be read."""
    try:
        with open_log(path) as stream:
            return stream.read(HEAD_BYTES)
    except (OSError, EOFError, Malformed, NothingReadable):
        return b""

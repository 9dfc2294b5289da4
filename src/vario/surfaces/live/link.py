"""Messages between the process that trains and the one that judges beside it: tuples, each framed by its length.

Both ends are the same code in a parent and the child that it started, so the pipe carries pickles.
"""

from __future__ import annotations

import pickle
import struct
from typing import IO

LENGTH = struct.Struct("<Q")
MOST = 1 << 32
"""Bytes of one message; more is no message of ours."""
Message = tuple[object, ...]


def write(stream: IO[bytes], *message: object) -> None:
    """Send one message.

    Raises:
        OSError: nobody reads any more. ValueError: the stream is closed.
    """
    data = pickle.dumps(message, protocol=5)
    stream.write(LENGTH.pack(len(data)) + data)
    stream.flush()


def read(stream: IO[bytes]) -> Message | None:
    """The next message; None where the stream ends, in its middle too."""
    head = stream.read(LENGTH.size)
    if head is None or len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    if size > MOST:
        return None
    data = stream.read(size)
    if data is None or len(data) < size:
        return None
    message = pickle.loads(data)
    return message if isinstance(message, tuple) and message else None

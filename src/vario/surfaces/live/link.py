"""Messages between the process that trains and the one that judges beside it: tuples, each framed by its length.

Both ends are the same code in a parent and the child that it started, so the pipes carry pickles. They are read and
written as descriptors: a buffered stream would hold a lock at the end of the interpreter, or in a forked child.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import struct
import threading
from collections.abc import Callable

LENGTH = struct.Struct("<Q")
MOST = 1 << 30
"""Bytes of one message; more is no message of ours."""
CHUNK = 1 << 20
"""Bytes that are read at a time: a length that lies takes no more memory than what really came."""
PATIENCE_MS = 200
"""How long to wait for room in a pipe before asking again whether anybody still wants the message to arrive."""
STANDARD = 3
"""Descriptors below are standard input, output and error: whoever prints writes there."""
Message = tuple[object, ...]


class NoMessage(ValueError):
    """What came is no message of ours: another program speaks at the other end."""


class GivenUp(OSError):
    """Nobody waits for the message any more."""


def write(fd: int, *message: object, given_up: Callable[[], bool] | None = None) -> None:
    """Send one message.

    Args:
        fd: the writing end of a pipe; where it does not block, `given_up` is asked while there is no room.
        message: what can be pickled.
        given_up: whether the rest of the message may stay unsent.

    Raises:
        OSError: nobody reads any more. GivenUp: `given_up` said so.
    """
    data = pickle.dumps(message, protocol=5)
    for part in (LENGTH.pack(len(data)), data):
        rest = memoryview(part)
        while rest:
            try:
                rest = rest[os.write(fd, rest) :]
            except BlockingIOError:
                _wait_for_room(fd)
                if given_up is not None and given_up():
                    raise GivenUp from None


def _wait_for_room(fd: int) -> None:
    room = select.poll()  # select() itself fails where a training has a thousand files open
    room.register(fd, select.POLLOUT)
    room.poll(PATIENCE_MS)


def read(fd: int) -> Message | None:
    """The next message; None where the pipe ends, in the middle of one too.

    Raises:
        NoMessage: another program speaks. OSError: the descriptor cannot be read.
    """
    head = _exactly(fd, LENGTH.size)
    if head is None:
        return None
    (size,) = LENGTH.unpack(head)
    if size > MOST:
        raise NoMessage(f"a message of {size} bytes")
    data = _exactly(fd, size)
    if data is None:
        return None
    try:
        message = pickle.loads(data)
    except Exception as error:  # whatever nonsense makes of the unpickling
        raise NoMessage(type(error).__name__) from None
    if not isinstance(message, tuple) or not message:
        raise NoMessage(type(message).__name__)
    return message


def _exactly(fd: int, size: int) -> bytearray | None:
    data = bytearray()
    while len(data) < size:
        more = os.read(fd, min(CHUNK, size - len(data)))
        if not more:
            return None
        data += more
    return data


# a forked child must not hold a parent's pipes: the other end would never see them close

_lock = threading.Lock()
_pipes: set[int] = set()


def pipe() -> tuple[int, int]:
    """A pipe of this process, reading end first: gone in every forked child, and never a standard stream.

    Raises:
        OSError: no more descriptors.
    """
    with _lock:
        ends = os.pipe()
        try:
            made = tuple(map(_above_standard, ends))
        except BaseException:
            for fd in ends:
                os.close(fd)
            raise
        _pipes.update(made)
        return made[0], made[1]


def _above_standard(fd: int) -> int:
    if fd >= STANDARD:
        return fd
    import fcntl  # a training that closed its standard streams: what it prints must not end in our pipe

    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, STANDARD)
    os.close(fd)
    return moved


def close(fd: int) -> None:
    """Close an end of a pipe; once, and never what has its number by now."""
    with _lock, contextlib.suppress(OSError):  # a training that closed what it did not open
        if fd in _pipes:
            _pipes.discard(fd)
            os.close(fd)


def _close_in_child() -> None:
    for fd in _pipes:
        with contextlib.suppress(OSError):
            os.close(fd)
    _pipes.clear()
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_close_in_child)

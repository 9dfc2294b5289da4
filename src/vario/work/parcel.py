"""Items and results on their way between processes: bytes that neither side fails on."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

from vario.work import Lost, attempt, in_words

PROTOCOL = 5
"""Of pickle: the same on both sides."""


def packed(items: Sequence[Any], index: int, dumps: Callable[..., bytes] = pickle.dumps) -> bytes | Lost:
    """An item, ready to be sent; `dumps` is pickle's, or another's that reads the same."""
    try:
        return dumps(items[index], protocol=PROTOCOL)
    except Exception as error:
        return Lost(f"it cannot be sent to a worker: {in_words(error)}")


def worked(task: Callable[[Any], object], parcel: bytes) -> bytes:
    """What a worker makes of a parcel: the parcel that it sends back."""
    try:
        item = pickle.loads(parcel)
    except Exception as error:
        result: object = Lost(f"it cannot be unpacked in its worker: {in_words(error)}")
    else:
        try:
            result = attempt(task, item)
        except SystemExit as error:  # here it is the item's own; in the caller's process it can be a signal's
            result = Lost(f"its work gave up with exit code {error.code}")
    try:
        return pickle.dumps(result, protocol=PROTOCOL)
    except Exception as error:
        return pickle.dumps(Lost(f"its result cannot be sent back: {in_words(error)}"), protocol=PROTOCOL)


def opened(parcel: bytes) -> object:
    """The result in a parcel that came back, or why it cannot be had."""
    try:
        result: object = pickle.loads(parcel)
    except Exception as error:
        return Lost(f"its result cannot be unpacked: {in_words(error)}")
    return result

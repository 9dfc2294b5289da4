"""JSON as fast as the machine has it: orjson where it is installed, else the standard library."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache


@cache
def _decoder() -> Callable[[bytes], object]:
    """Looked for at the first use, so that importing vario loads nothing more than numpy."""
    try:
        import orjson
    except ImportError:
        return json.loads
    decoder: Callable[[bytes], object] = orjson.loads
    return decoder


def loads(data: bytes) -> object:
    """One JSON value; NaN and Infinity too, as Python writes them.

    Raises:
        ValueError: it is no JSON. RecursionError: it is nested too deep.
    """
    try:
        return _decoder()(data)
    except ValueError:
        return json.loads(data)

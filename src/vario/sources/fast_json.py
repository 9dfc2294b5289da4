"""JSON as fast as the machine has it: orjson where it is installed, else the standard library."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache

_BARE_NAN = re.compile(rb"NaN(?<=[:\[,\s]NaN)(?=\s*[,}\]])")
"""A NaN that is a value; the word comes first, so that it is searched for as one."""


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
    """One JSON value; NaN and Infinity too, as Python writes them. A NaN may come as None: both are a missing value.

    Raises:
        ValueError: it is no JSON. RecursionError: it is nested too deep.
    """
    decoder = _decoder()
    try:
        return decoder(data)
    except ValueError:
        pass
    if decoder is not json.loads and b"NaN" in data:
        try:
            return decoder(_BARE_NAN.sub(b"null", data))
        except ValueError:
            pass
    return json.loads(data)

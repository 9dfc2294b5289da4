"""The columns of a table of samples, and how a dump's values become theirs."""

from __future__ import annotations

import math
from collections.abc import Mapping

import polars as pl

COMPONENT = "reward."
"""What the columns of single reward functions begin with."""
COLUMNS: Mapping[str, pl.DataType] = {
    "step": pl.Int64(),
    "group": pl.String(),
    "prompt": pl.String(),
    "completion": pl.String(),
    "reward": pl.Float64(),
    "advantage": pl.Float64(),
    "length": pl.Float64(),
    "truncated": pl.Boolean(),
    "source": pl.String(),
    "version": pl.Float64(),
}
"""What is known of a sample: `length` in tokens, `source` its data set, `version` the weights that sampled it.

Each may be missing (null). `group` is what the dump says of the group's identity; beside these, a column
`reward.NAME` for each reward function.
"""
CUT = frozenset({"length", "max_tokens", "max_length", "truncated", "max_sampled_tokens", "context_overflow", "overlong",
                 "max_response_length_exceeded", "max_turns", "max_prompt_length_exceeded"})  # fmt: skip
"""What engines and environments call a completion that was cut."""


def text_of(value: object) -> str | None:
    """A completion or a prompt as text: a string, messages (with their contents), or a list that holds one of these."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        content = value.get("content", value.get("text"))
        return text_of(content) if content is not None else None
    if isinstance(value, list | tuple):
        parts = [text for one in value if (text := text_of(one))]
        return "\n".join(parts)
    return None  # token ids are no text


def number_of(value: object) -> float | None:
    """A number; a list of numbers counts as their sum (rewards by token), a list of one as itself."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:  # hundreds of digits
            return None
        return number if math.isfinite(number) else None
    if isinstance(value, list | tuple) and value:
        parts = [number_of(one) for one in value]
        return math.fsum(p for p in parts if p is not None) if any(p is not None for p in parts) else None
    if isinstance(value, str):
        try:
            return number_of(float(value))
        except ValueError:
            return None
    return None


def mean_of(value: object) -> float | None:
    """A number; a list of numbers counts as their mean over what is not 0 (advantages by token, masked ones 0)."""
    if isinstance(value, list | tuple):
        parts = [n for one in value if (n := mean_of(one))]
        return math.fsum(parts) / len(parts) if parts else (0.0 if value else None)
    return number_of(value)


def count_of(value: object) -> float | None:
    """A length: a number, or a list of tokens; a list of one list or number is what it holds."""
    if isinstance(value, list | tuple):
        if len(value) == 1 and isinstance(value[0], list | tuple):
            return count_of(value[0])
        return float(len(value))
    return number_of(value)


def flag_of(value: object) -> bool | None:
    """Whether a sample was cut: a flag, or the reason why it ended."""
    if isinstance(value, bool):
        return value
    if isinstance(value, list | tuple):
        return flag_of(value[0]) if len(value) == 1 else None
    if isinstance(value, str):
        return value.lower() in CUT if value else None
    return bool(value) if isinstance(value, int | float) else None


def name_of(value: object) -> str | None:
    """An identity or a name as text."""
    if isinstance(value, list | tuple):
        return name_of(value[0]) if len(value) == 1 else (str(value) if value else None)
    return None if value is None else str(value)


def step_of(value: object) -> int | None:
    """A step: a whole number, a text that is one, or a list of one."""
    if isinstance(value, list | tuple):
        return step_of(value[0]) if len(value) == 1 else None
    number = number_of(value)
    return int(number) if number is not None and number == math.floor(number) and abs(number) < 2**53 else None


CONVERT = {
    "step": step_of,
    "group": name_of,
    "prompt": text_of,
    "completion": text_of,
    "reward": number_of,
    "advantage": mean_of,
    "length": count_of,
    "truncated": flag_of,
    "source": name_of,
    "version": number_of,
}

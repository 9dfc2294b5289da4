"""VF103 value-clipping-high."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Value
from vario.rules.base import Evidence, Severity, Sign, number, percent, raise_, required, rule, set_

HIGH = 0.3
"""What the ratio's clipping is called excessive at; no source gives a bound for values."""
LEAST = 20


@rule(
    "VF103",
    "value-clipping-high",
    Severity.INFO,
    holds=3,
    causes=("a clip range in units of another reward scale", "a critic that was never warmed up"),
    turns=(
        raise_("value-clip", "room for the critic to move"),
        set_("reward-scaling", True, "returns of unit scale, for which the usual ranges are made"),
        set_("critic-warmup", None, "ten updates or more: the critic sees returns before the policy uses it"),
    ),
)
def value_clipping_high(value: Value) -> Iterator[Sign]:
    """Value predictions are clipped most of the time.

    What it shows:
        A clipped share above 0.3.
    Why it matters:
        The clip range is in reward units: with unscaled rewards it freezes the critic.
    Evidence:
        The share, the range, and whether the value loss falls all the same.
    Looks like it but is not:
        The first steps of a new critic, whose clipping fades; a few percent of clipped values.
    What to change:
        A wider clip range, or scaled rewards.
    How sure:
        Medium.
    References:
        taxonomy of public threads, value_failure
    """
    clipped = required(value.clipped, "value/clip-fraction")
    if clipped.points < LEAST or clipped.level <= HIGH:
        return
    at = f" at {number(value.clip_at)}" if value.clip_at is not None else ""
    yield Evidence(
        f"{percent(clipped.level)} of value predictions are clipped{at}",
        ("value/clip-fraction",),
        clipped.since_above(HIGH),
    )
    if not value.loss.falls():
        yield Evidence(f"loss/value does not fall (now {number(value.loss.level)})", ("loss/value",))

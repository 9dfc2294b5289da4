"""LN106 truncation-never-ends."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Truncation
from vario.rules.base import Evidence, Severity, Sign, percent, rule, set_


@rule(
    "LN106",
    "truncation-never-ends",
    Severity.CRITICAL,
    holds=2,
    turns=(
        set_("max-completion-length", None, "if samples are sensible up to the cut"),
        set_("missing-eos-penalty", None, "if samples ramble"),
    ),
    explains=(
        "truncation-high",
        "metric-over-budget",
    ),
)
def truncation_never_ends(truncation: Truncation) -> Iterator[Sign]:
    """Practically every completion runs to the cap, and has from the start.

    What it shows:
        95 % or more are cut in every part of the run, from the first steps.
    Why it matters:
        Either the end token is never produced, or the cap is far too small; no reward can tell answers apart.
    Evidence:
        The share at the start and now.
    Looks like it but is not:
        Late truncation, where length grew into the cap.
    What to change:
        Check end-of-sequence ids and the chat template; then the cap.
    How sure:
        High.
    References:
        taxonomy of public threads, truncation
    """
    share = truncation.share
    if truncation.believable and share.points >= 10 and share.start >= 0.95 and share.level >= 0.95:
        yield Evidence(
            f"{percent(share.level)} of completions are cut, {percent(share.start)} in the first steps",
            ("length/truncated-share",),
            int(share.steps[0]),
        )

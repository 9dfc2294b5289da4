"""DX101 instrument-missing."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Record
from vario.rules.base import Evidence, Severity, Sign, rule

LONG = 200


@rule("DX101", "instrument-missing", Severity.INFO, holds=1, pedantic=True)
def instrument_missing(record: Record) -> Iterator[Sign]:
    """A primary instrument is blind on a long run.

    What it shows:
        More than 200 logged rows without KL to a reference, without entropy, or without any held-out score.
    Why it matters:
        Drift and hacking are then invisible: a rising reward is all there is, and it is not enough.
    Evidence:
        Which metric is missing.
    Looks like it but is not:
        A short run; a run whose other witnesses (entropy, length, weight-0 reward) stand in.
    What to change:
        Log it; the report says how in this framework.
    How sure:
        High.
    References:
        design of the project, section 5
    """
    if record.rows < LONG or record.find("reward/mean") is None:
        return
    for name in ("kl/reference", "eval/score/mean", "entropy/mean"):
        if record.find(name) is None and not (
            name == "kl/reference" and record.find("kl/reference/sequence") is not None
        ):
            yield Evidence(f"{name} is not logged", (name,))

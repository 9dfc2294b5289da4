"""OP101 engine-mismatch."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import EngineGap, Record
from vario.rules.base import Evidence, Excluded, Severity, Sign, lower, number, rule, set_

_UNITS = {
    "engine/logprob-gap/mean": "nats a token",
    "engine/probability-gap/mean": "in probability a token",
    "engine/kl": "nats a token (divergence)",
}


@rule(
    "OP101",
    "engine-mismatch",
    Severity.WARNING,
    holds=2,
    causes=(
        "stale weights in the sampler",
        "other numerics in the engine",
        "sampling settings that change log-probabilities",
    ),
    turns=(
        lower("staleness-bound", "fresher samples"),
        set_("recompute-logprob", True, "score the samples with the trainer's own numerics"),
        set_("behaviour-weight-cap", 2.0, "bounds what mismatched tokens can do"),
    ),
    explains=("behaviour-weight-off-one", "rollouts-too-stale"),
)
def engine_mismatch(gap: EngineGap, record: Record) -> Iterator[Sign]:
    """Trainer and sampler disagree on the probability of the same tokens.

    What it shows:
        A mean gap above 0.05 nats a token (0.02 in probability; 0.1 nats as a divergence), or one that has
        grown tenfold from its early level and is above 0.02 (0.01; 0.02).
    Why it matters:
        The samples come from another policy than the one that is updated: on-policy in name only.
    Evidence:
        The gap then and now, and the largest.
    Looks like it but is not:
        A small constant gap of numerics (about 0.01 in bf16).
    What to change:
        Check that weights reach the sampler at every step; then sampling settings; then numerics.
    How sure:
        High; the cause shows in how the gap moves: constant is settings, growing is staleness.
    References:
        taxonomy of public threads, train_infer_mismatch (25) and stale_weights (13); verl, FAQ and the guide to
        rollout correction (0.005 / 0.01 in probability, 0.1 as a divergence); NeMo-RL, guide to GRPO; Tinker, 0.01
    """
    reading = gap.gap
    early = reading.level_at(int(reading.steps[min(4, reading.points - 1)]))
    large, grown = gap.bounds
    if reading.level > large or (reading.level > grown and reading.level > 10.0 * max(early, 1e-9)):
        yield Evidence(
            f"the mean gap is {number(reading.level)} {_UNITS[reading.name]} (first steps {number(float(reading.values[0]))})",
            (reading.name,),
            reading.since_above(grown),
        )
        if gap.largest is not None:
            yield Evidence(f"the largest is {number(gap.largest.level)}", (gap.largest.name,))
        held = record.find("eval/score/mean", least=1)
        if held is not None and (held.rises() or 0.9 <= held.level <= 1.0):
            yield Excluded(f"not fatal so far: the held-out score is {number(held.level)} all the same")
        if reading.rises():
            yield Evidence("it grows: stale weights are likelier than numerics", (reading.name,))

"""DX102 metric-contradicts-samples."""

from __future__ import annotations

from collections.abc import Iterator

from vario.errors import NotReadable
from vario.instruments import Counted
from vario.rules.base import Aside, Doubt, Evidence, Severity, Sign, number, percent, rule

SHARE = 0.1
"""A logged share that is off by so much leads to another diagnosis."""
OF_SPREAD = 0.1
"""The same for a mean reward, of the rewards' spread."""
SURE = 4.0
"""Standard errors of the mean difference: the samples may be a part of the batch, and looks are many."""
CUT, BELOW_CAP = 0.05, 0.95


@rule(
    "DX102",
    "metric-contradicts-samples",
    Severity.INFO,
    holds=2,
    causes=(
        "groups whose rewards are equal but for rounding are not counted as tied",
        "a model with several end tokens: proper endings counted as cut",
        "a total logged without the weights of its reward functions",
        "a metric taken after filtering",
    ),
)
def metric_contradicts_samples(counted: Counted) -> Iterator[Sign]:
    """A logged metric is not what the completions say.

    What it shows:
        The mean reward, the share of tied groups or the share of cut completions differs, always the same way,
        from the same figure counted from the samples; or completions count as cut and none reaches the cap.
    Why it matters:
        Every judgement that rests on the metric is as wrong as it is. The samples are right.
    Evidence:
        Both values, and since when they differ.
    Looks like it but is not:
        Samples that are a part of the batch: differences of both signs about zero; a difference of a percent or
        two; completions that end at the cap with their own end token.
    What to change:
        Trust the samples; look the metric up in the framework's page: versions and settings change its meaning.
    How sure:
        High over eight or more shared steps.
    References:
        taxonomy of public threads, metric_bug and metric_semantics (TRL PR 7039, trl issue 5352)
    """
    found, rounded = False, True
    for pair in counted.pairs:
        is_share = pair.logged.name != "reward/mean"
        scale = (
            1.0
            if is_share
            else max(counted.spread.level if counted.spread else 0.0, pair.counted.high - pair.counted.low)
        )
        bound = (SHARE if is_share else OF_SPREAD) * scale
        if abs(pair.bias) < max(bound, 1e-6) or abs(pair.bias) < SURE * pair.error:
            continue
        found = True
        say = percent if is_share else number
        logged, own = pair.logged.level, pair.counted.level
        yield Evidence(
            f"{pair.logged.name} is logged as {say(logged)}, the completions say {say(own)}"
            f" (off by {say(pair.bias)} over {pair.steps.size} steps)",
            (pair.logged.name, pair.counted.name),
            pair.since,
        )
        rounded &= pair.logged.name == "signal/zero-variance-share" and pair.bias < 0.0
    if found and rounded:
        yield Aside("rounding hides ties from the log; the count is what is judged")
    truncated, longest = counted.truncated, counted.longest
    if truncated is not None and longest is not None:
        if counted.cap is None and not counted.pairs:
            raise NotReadable("samples/reward/mean", reason="no samples, and the length cap is not known")
        if counted.cap and truncated.level > CUT and longest.high < BELOW_CAP * counted.cap:
            if not found:
                yield Doubt("from the longest completion, not from the completions themselves")
            yield Evidence(
                f"{percent(truncated.level)} count as cut, yet the longest completion has {number(longest.high)}"
                f" of {number(counted.cap)} tokens",
                (truncated.name, longest.name),
                truncated.since_above(CUT),
            )

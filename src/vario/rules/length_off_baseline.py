"""LN110 length-off-baseline."""

from __future__ import annotations

from collections.abc import Iterator

from vario.errors import NotReadable
from vario.instruments import Baseline, Reward
from vario.rules.base import Apart, Doubt, Evidence, Excluded, Severity, Sign, number, percent, raise_, rule, set_

MEAN_OFF = 0.3
"""Share by which the mean may leave the baseline's; the practitioners' guide to RL instruments says 30 %."""
VARIANCE_OFF = 0.5
"""The same for the variance; the same guide says 50 %."""
NOISE_SDS = 4.0
"""The mean must also have left the baseline by so many standard errors: a small baseline is a guess itself."""


@rule(
    "LN110",
    "length-off-baseline",
    Severity.INFO,
    causes=("the reward pays for length, or for brevity", "the cap cuts what the model would say"),
    turns=(
        set_("length-penalty", None, "takes the length out of what is paid for"),
        raise_("kl-coef", "holds the policy nearer to the model it came from"),
    ),
)
def length_off_baseline(baseline: Baseline, reward: Reward | None) -> Iterator[Sign]:
    """Completions are not as long as those of the model before RL.

    What it shows:
        The mean length has left that of the declared baseline by more than 30 %, or its variance by more than half.
    Why it matters:
        Length is the easiest thing to optimise; it often leaves its place long before a score shows why.
    Evidence:
        Baseline, level now, share.
    Looks like it but is not:
        A score that rises with it (reasoning that needs room, rambling that stopped); a baseline of few samples.
    What to change:
        Read eight long and eight short samples; then take the length out of the reward.
    How sure:
        Medium: that it left is certain, why is not in the lengths.
    References:
        the practitioners' guide to RL instruments (more than 30 % in mean, 50 % in variance)
    """
    found = False
    mean = baseline.beside("length/mean")
    if mean is not None:
        before, now = mean
        change = now.level / before.level - 1.0 if before.level > 0.0 else 0.0
        error = before.spread / max(before.points, 1) ** 0.5
        if abs(change) > MEAN_OFF and abs(now.level - before.level) > NOISE_SDS * error:
            found = True
            bound = before.level * (1.0 + (MEAN_OFF if change > 0.0 else -MEAN_OFF))
            if change < 0.0:
                yield Apart("length-hacking", "shorter than before, not longer")
            yield Evidence(
                f"length is {number(now.level)} tokens, {number(before.level)} before RL ({percent(abs(change))} {'above' if change > 0.0 else 'below'})",
                ("length/mean",),
                now.since_above(bound) if change > 0.0 else now.since_below(bound),
            )
    spread = baseline.beside("length/std")
    if mean is None and spread is None:
        raise NotReadable("length/mean", reason="no length is known both before RL and now")
    if spread is not None:
        before, now = spread
        share = (now.level / before.level) ** 2 - 1.0 if before.level > 0.0 else 0.0
        if abs(share) > VARIANCE_OFF:
            found = True
            yield Evidence(
                f"its spread is {number(now.level)}, {number(before.level)} before RL ({percent(abs(share))} {'above' if share > 0.0 else 'below'} in variance)",
                ("length/std",),
                now.onset_of_move(),
            )
    if not found:
        return
    if reward is not None and reward.rises():
        yield Doubt("the reward rose as well: the task may need it")
    else:
        yield Excluded("no gain of the reward came with it")

"""VF101 value-loss-diverging."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Reward, Value
from vario.rules.base import Doubt, Evidence, Severity, Sign, lower, number, rule, set_

LEAST = 40
DOUBLED = 2.0


@rule(
    "VF101",
    "value-loss-diverging",
    Severity.WARNING,
    holds=3,
    causes=("returns that are not scaled", "a critic that was never warmed up", "a critic that learns too slowly"),
    turns=(
        set_("reward-scaling", True, "returns of unit scale"),
        set_("critic-warmup", None, "ten updates or more: the critic sees returns before the policy uses it"),
        set_("critic-learning-rate", None, "about five times the policy's"),
        lower("value-coef", "if it drowns the policy's gradient"),
        lower("learning-rate", "returns that move more slowly can be followed"),
    ),
    explains=("value-explains-nothing", "value-clipping-high"),
)
def value_loss_diverging(value: Value, reward: Reward | None) -> Iterator[Sign]:
    """The value loss grows instead of falling.

    What it shows:
        A significant rise to twice the early level or more, further than the growth of the rewards explains.
    Why it matters:
        Advantages are built on values: a critic that gets worse makes every update worse.
    Evidence:
        The loss then and now.
    Looks like it but is not:
        Rewards whose scale grows: the loss goes with their square; the first steps; one bad batch; a loss that
        falls, whatever its size.
    What to change:
        Scale rewards (and discount a little); warm the critic up before the first policy update; give it a larger
        learning rate than the policy's.
    How sure:
        High; medium where no reward is logged to compare with.
    References:
        taxonomy of public threads, value_failure (6): reward scaling and a critic warm-up are the confirmed cures
    """
    loss = value.loss
    if loss.points < LEAST:
        return
    # a critic learns first: what it loses is lost from its best
    base = min(loss.start, loss.low)
    best = loss.lowest_step()
    climbs = loss.rises() or (loss.late is not None and loss.late.rises())
    if not climbs or loss.level <= DOUBLED * base:
        return
    if reward is not None and loss.level <= DOUBLED * base * max(1.0, _growth(reward, best)) ** 2:
        return
    if reward is None:
        yield Doubt("no reward is logged whose growth could explain it")
    yield Evidence(
        f"loss/value grew from {number(base)} to {number(loss.level)}", ("loss/value",), loss.onset_of_move()
    )


def _growth(reward: Reward, since: int) -> float:
    """How many times larger returns are by now than at a step: by their spread, else by their mean."""
    if reward.spread is not None and reward.spread.start > 0.0:
        return reward.spread.level / max(reward.spread.level_at(since), 1e-12)
    then = abs(reward.total.level_at(since))
    return abs(reward.total.level) / max(then, reward.total.noise_sd, 1e-12)

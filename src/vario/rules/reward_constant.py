"""RW102 reward-constant."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Record, Reward
from vario.rules.base import Doubt, Evidence, Grave, Severity, Sign, number, rule, set_

LEAST = 20


@rule(
    "RW102",
    "reward-constant",
    Severity.CRITICAL,
    causes=(
        "the reward function returns a fallback on every sample",
        "answers are never parsed",
        "completions are cut before the answer",
    ),
    turns=(set_("max-completion-length", None, "if completions are cut before the answer"),),
    explains=(
        "reward-never-rises",
        "reward-is-noise",
        "gradient-vanished",
        "signal-collapsed-unsolved",
        "component-dead",
        "task-too-hard",
        "policy-does-not-move",
    ),
)
def reward_constant(reward: Reward, record: Record) -> Iterator[Sign]:
    """Every logged reward is the same number.

    What it shows:
        reward/mean has not changed in at least 20 logged steps.
    Why it matters:
        Without differences between samples there is no advantage and no gradient: nothing can be learnt.
    Evidence:
        The value, the number of steps, and that the spread is zero too.
    Looks like it but is not:
        A solved task: constant at the best value after a rise, or at the ceiling; rewards normalised
        within groups, whose mean is zero by construction while their spread is not.
    What to change:
        Call the reward function by hand on five completions; look at what the parser sees.
    How sure:
        High: a constant is no statistical question.
    References:
        taxonomy of public threads, reward_zero and verifier_bug
    """
    total = reward.total
    since = total.constant_since
    if since is None or total.points_since(since) < max(LEAST, total.points // 2):
        return
    spread = record.find("reward/std/batch") or record.find("reward/std/within-group")
    if spread is not None and spread.level > 1e-6:
        return
    value = float(total.values[-1])
    yield Evidence(
        f"reward/mean is exactly {number(value)} in all {total.points_since(since)} logged steps since {since}",
        ("reward/mean",),
        since,
    )
    if spread is not None:
        yield Evidence("the spread of rewards is zero as well", (spread.name,))
    if (reward.share_of_ceiling is not None and reward.share_of_ceiling > 0.95) or (
        reward.ceiling is None and value > 0.9
    ):
        yield Grave(Severity.INFO)
    elif value > 0.0:
        yield Doubt("constant above zero: a fallback value, or a solved task; the log cannot tell")

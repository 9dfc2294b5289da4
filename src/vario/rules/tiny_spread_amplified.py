"""SG108 tiny-spread-amplified."""

from __future__ import annotations

from collections.abc import Iterator

from vario.errors import NotReadable
from vario.instruments import Gradient, TinySpread
from vario.instruments.signal import TINY
from vario.rules.base import Doubt, Evidence, Grave, Severity, Sign, number, percent, rule, set_

SOME, QUARTER = 0.1, 0.25
MANY, HALF = 0.2, 0.5
"""Shares of all groups, and of those that carry an advantage: notable, and where most of the batch teaches crumbs."""
IMPOSSIBLE = 3.0
"""An advantage so many times larger than any reward difference was divided by something small."""
LEAST = 10
KEPT = 0.5
"""Share of its start below which a gradient has followed the spread down."""


@rule(
    "SG108",
    "tiny-spread-amplified",
    Severity.WARNING,
    holds=3,
    causes=("float noise or style crumbs in the reward", "advantages divided by a spread near zero"),
    turns=(
        set_("reward-scaling", None, "do not divide by the group's spread (or by the batch's)"),
        set_("dynamic-filter", True, "drop groups that differ by crumbs"),
        set_("component-weight", None, "take the crumbs out of the reward, or pay them only between right answers"),
    ),
)
def tiny_spread_amplified(tiny: TinySpread, gradient: Gradient | None) -> Iterator[Sign]:
    """Differences of next to nothing are turned into full-size advantages.

    What it shows:
        A quarter of the groups that differ at all, and a tenth of all, differ by a trace of what they differed by
        at the start, and advantages are divided by that (a warning from half and a fifth); or all rewards of a
        batch lie within a twentieth of their first span while the largest advantage, or the gradient, stays as
        large as ever.
    Why it matters:
        A group of G has advantages up to (G-1)/sqrt(G) whatever its rewards: noise then steers the policy as
        hard as a right answer did.
    Evidence:
        The share of such groups, or the span of rewards then and now, and the advantages beside it.
    Looks like it but is not:
        Groups without any spread (no advantage at all); advantages that are not divided by the group's spread;
        a small mean spread because few groups have one, and that in full (0/1 rewards, solved); a gradient that
        shrinks with the spread (a trainer's epsilon holds it down).
    What to change:
        Scaling by the batch, or none; drop such groups; take the crumbs out of the reward.
    How sure:
        High where advantages exceed every reward difference, or scaling is known; lower from the gradient.
    References:
        taxonomy of public threads, shaped_or_noise_advantage (NeMo-RL PR 4158)
        Dr. GRPO, on dividing by the spread: https://arxiv.org/abs/2503.20783
    """
    if tiny.scaled is False:
        return
    if tiny.share is not None:
        share = tiny.share
        alive = 1.0 - tiny.zero_share.level if tiny.zero_share is not None else 1.0
        if share.points < LEAST or share.level < max(SOME, QUARTER * alive):
            return
        if share.level < max(MANY, HALF * alive):
            yield Grave(Severity.INFO)
        if tiny.scaled is None:
            yield Doubt("whether advantages are divided by the group's spread is not known")
        yield Evidence(
            f"{percent(share.level)} of the groups differ by a trace ({percent(alive)} differ at all)",
            (share.name,),
            share.since_above(0.5 * share.level),
        )
        return
    since = tiny.since
    if since is None or not 0.0 < tiny.now < TINY * tiny.start:
        return
    if int((tiny.steps >= since).sum()) < LEAST:
        return
    shown = Evidence(
        f"rewards lie within {number(tiny.now)} since step {since}, {number(tiny.start)} at the start",
        tiny.bound_by,
        since,
    )
    if tiny.advantage is not None:
        if tiny.advantage.level > IMPOSSIBLE * tiny.now:
            yield shown
            yield Evidence(f"the largest advantage is {number(tiny.advantage.level)}", (tiny.advantage.name,))
        return
    if gradient is None:
        raise NotReadable("advantage/max")
    if gradient.norm.level > KEPT * gradient.norm.start:
        yield Doubt("from the gradient: the advantages themselves are not logged")
        yield shown
        yield Evidence(
            f"the gradient has not followed: {number(gradient.norm.level)}, {number(gradient.norm.start)} at the start",
            (gradient.norm.name,),
        )

"""RU112 format-hacking."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vario.instruments import Components, Length, Reading, Review, Reward, Witness
from vario.instruments.reward import scatter
from vario.rules.base import Aside, Doubt, Evidence, Excluded, Severity, Sign, number, raise_, rule, set_

LEAST = 40
FORM = re.compile(
    r"format|xml|tag|template|struct|schema|json|boxed|markdown|syntax|think|parse?able|style", re.IGNORECASE
)
"""Words by which people name a reward for the form of an answer."""
FULL = 0.9
"""Share of its highest level at which the form's reward stands, and so has nothing left to gain."""
LOST = 0.4
"""Share of its best level that the content has lost."""
PAID = 0.25
"""Share of the total's best gain that is still there: the form pays for what the content loses."""
SHORTER = 0.7
FAR = 6.0
"""Times the scatter from point to point: two levels so far apart are two levels, whatever lies between."""
LEVEL_POINTS = 5
MARKED = 0.3
"""Share of well-paid completions that a person called hacked, as in reward-hacking."""


@rule(
    "RU112",
    "format-hacking",
    Severity.WARNING,
    holds=3,
    causes=("the form is paid whether the answer is right or not", "form is easier to have than content"),
    turns=(
        set_("component-weight", None, "make the form a gate: pay for content only where the form is right"),
        raise_("kl-coef", "only delays"),
    ),
    explains=(
        "component-dominates",
        "component-falls-while-total-rises",
        "component-saturated",
        "component-dead",
        "length-shrinking",
        "length-diversity-collapsing",
        "reward-up-eval-not",
        "reward-peaked-then-declined",
        "few-groups-carry-signal",
        "signal-from-shaping-only",
        "reward-plateaued",
    ),
)
def format_hacking(
    components: Components, reward: Reward, witness: Witness | None, length: Length | None, review: Review | None
) -> Iterator[Sign]:
    """The form of the answers is perfected at the cost of what they say.

    What it shows:
        A reward for form that rose and is full, while correctness or a held-out score has lost 40 % of its best
        level and the total still stands above its start for it.
    Why it matters:
        The sum is satisfied by empty shells: an open tag, a box, a closing tag.
    Evidence:
        The form's reward, the score that fell, the total, and length where it halved.
    Looks like it but is not:
        Form learnt first, with correctness constant or rising later; a policy that collapses, and keeps only
        its form (the total falls); a correctness function that broke in one step; a form logged with weight 0;
        a held-out score that falls while the trained correctness rises (overfitting).
    What to change:
        Pay for the form only as a gate before correctness; then read samples with full form and no score.
    How sure:
        High with a score that nobody optimises; a suspicion where only trained components tell.
    References:
        huggingface/open-r1 issue 255; allenai/open-instruct pull request 659
    """
    total = reward.total
    if total.points < LEAST or total.level - total.start < max(PAID * (total.high - total.start), total.noise_sd):
        return
    for form in (n for n in components.weighted if FORM.search(n) and components.weights.get(n, 1.0) > 0.0):
        reading = components.means[form]
        if not reading.rises() or reading.level < FULL * reading.high or reading.high <= 0.0:
            continue
        for score, source, near in _truths(components, witness):
            if not _lost(score):
                continue
            told = review is not None and review.share >= MARKED
            if review is not None and review.clean:
                yield Aside(f"a person found none of {len(review.paid)} well-paid completions hacked")
            if not near and not told:
                yield Doubt("no score that nobody optimises: the components may only pull apart")
            word = "format hacking" if near or told else "suspect format hacking"
            yield Evidence(
                f"{word}: {form} rose from {number(reading.start)} to {number(reading.level)} while {source} fell "
                f"from {number(score.high)} to {number(score.level)}",
                (reading.name, score.name),
                _halfway(score),
            )
            yield Evidence(f"reward/mean went from {number(total.start)} to {number(total.level)}", ("reward/mean",))
            if length is not None and length.growth < SHORTER:
                yield Evidence(
                    f"mean length fell from {number(length.mean.start)} to {number(length.mean.level)} tokens",
                    ("length/mean",),
                )
            yield Excluded("not form learnt first: what was right before is lost, beyond its noise")
            return


def _truths(components: Components, witness: Witness | None) -> Iterator[tuple[Reading, str, bool]]:
    """What tells of the content, nearest to the truth first."""
    content = [n for n in components.weighted if not FORM.search(n) and components.weights.get(n, 1.0) > 0.0]
    if witness is not None and not any(components.means[n].rises() for n in content):
        yield witness.score, witness.source, True
    for name in content:
        yield components.means[name], name, False


def _lost(score: Reading) -> bool:
    low = min(0.0, score.low)
    drop = score.high - score.level
    if score.points < LEAST // 2 or score.high <= low or drop < LOST * (score.high - low):
        return False
    # a held-out score has few points: a fall between two rests is seen by its size before it is by its shape
    noise = scatter(score.values, lag=1)
    if not score.fell() and drop < FAR * noise:
        return False
    if drop < 3.0 * score.noise_sd / LEVEL_POINTS**0.5 or score.points_since(_halfway(score)) < LEVEL_POINTS:
        return False
    broke = score.level <= low + 1e-9 and any(s.abrupt and not s.up for s in score.shifts[-1:])
    return not broke


def _halfway(score: Reading) -> int | None:
    return score.since_below(0.5 * (score.high + score.level))

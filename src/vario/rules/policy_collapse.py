"""RU108 policy-collapse."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Entropy, Kl, Length, Reward, Witness
from vario.rules.base import Doubt, Evidence, Severity, Sign, lower, number, percent, raise_, rule


@rule(
    "RU108",
    "policy-collapse",
    Severity.CRITICAL,
    holds=2,
    causes=("learning rate too high", "sampler and trainer disagree", "over-optimisation of a wrong or random reward"),
    turns=(
        lower("learning-rate", "a tenth, from the last good checkpoint", 0.1),
        raise_("kl-coef", "holds to the reference"),
        lower("epochs", "fewer updates per rollout"),
    ),
    explains=(
        "reward-collapsed",
        "kl-runaway",
        "kl-rises-while-reward-falls",
        "kl-rises-without-reward",
        "reward-peaked-then-declined",
        "signal-collapsed-unsolved",
        "few-groups-carry-signal",
        "signal-from-shaping-only",
        "entropy-exploding",
        "entropy-collapsing",
        "entropy-spike",
        "length-shrinking",
        "length-growing",
        "length-jumped",
        "truncation-high",
        "truncation-biases-reward",
        "component-dead",
        "gradient-vanished",
        "gradient-spike",
        "gradient-growing",
        "kl-spike",
        "mode-collapse",
        "reward-constant",
        "component-falls-while-total-rises",
        "reward-never-rises",
        "length-diversity-collapsing",
        "task-too-hard",
        "step-time-jumped",
        "signal-dropped-suddenly",
        "reward-is-noise",
        "kl-nonzero-at-start",
        "outputs-lose-diversity",
        "outputs-repeat",
        "outputs-garbled",
        "outputs-duplicated",
    ),
)
def policy_collapse(
    reward: Reward, witness: Witness | None, kl: Kl | None, entropy: Entropy | None, length: Length | None
) -> Iterator[Sign]:
    """The policy has broken: the score is gone and the text has changed with it.

    What it shows:
        The score (the one nobody optimises, where there is one) lost 75 % or more of its best, and at
        least two of KL, entropy and length are far from where they started.
    Why it matters:
        It does not recover: later checkpoints are worthless.
    Evidence:
        The score, and each witness of the change.
    Looks like it but is not:
        A reward function that broke (KL, entropy and length stay), harder data (a jump, then re-learning).
    What to change:
        Stop, go back, a much smaller learning rate; check the sampler's weights.
    How sure:
        High with three witnesses, medium with two.
    References:
        taxonomy of public threads, kl_explosion, gibberish, mode_collapse
    """
    score = witness.score if witness is not None else reward.total
    if score.points < 20 or (score.shape is not None and score.shape.word in ("rising", "slowing", "jumped")):
        return
    # the first logged value is the start model's own score: a collapse may be over before the first median
    top = max(score.high, score.start, float(score.values[0]))
    if top <= 0.0 or (top - score.level) / top < 0.75 or top - score.level < 3.0 * score.noise_sd:
        return
    since = score.since_below(0.5 * (top + score.level))
    if score.points_since(since) < 5:
        return
    signs: list[Sign] = []
    if kl is not None and kl.reference.level > (0.5 if kl.unit == "nats/token" else 30.0):
        signs.append(Evidence(f"kl is {number(kl.reference.level)} {kl.unit}", (kl.reference.name,)))
    if entropy is not None and (entropy.share_left > 1.35 or entropy.share_left < 0.1):
        signs.append(Evidence(f"entropy is at {percent(entropy.share_left)} of its start", ("entropy/mean",)))
    if length is not None and (length.growth > 1.4 or length.growth < 0.6):
        signs.append(Evidence(f"length is at {percent(length.growth)} of its start", ("length/mean",)))
    if len(signs) < 2:
        return
    if len(signs) == 2:
        yield Doubt("two witnesses")
    yield Evidence(f"{score.name} fell from {number(top)} to {number(score.level)}", (score.name,), since)
    yield from signs

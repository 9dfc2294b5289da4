"""RW104 reward-peaked-then-declined."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Reward, Witness
from vario.rules.base import Evidence, Severity, Sign, lower, number, percent, raise_, rule

LOSS = 0.25
"""Share of the gain that must be lost: smaller falls need about 1,500 points to be told from noise."""


@rule(
    "RW104",
    "reward-peaked-then-declined",
    Severity.WARNING,
    holds=3,
    causes=("learning rate too high for the stage", "over-optimisation", "drift between sampler and trainer"),
    turns=(
        lower("learning-rate", "the policy steps over what it had found"),
        raise_("kl-coef", "holds it near what worked"),
    ),
)
def reward_peaked_then_declined(reward: Reward, witness: Witness | None) -> Iterator[Sign]:
    """The score rose, peaked, and has lost a material part of its gain.

    What it shows:
        A rise and a later sustained fall of the training score, or of a score nobody optimises.
    Why it matters:
        The best policy of the run is behind you; every further step moves away from it.
    Evidence:
        The peak's step and value, the level now, and the share of the gain that is lost.
    Looks like it but is not:
        A dip in noise (where noise has memory, the fall must outlast it), harder prompts later in the data order, a
        curriculum.
    What to change:
        Go back to the checkpoint at the peak; then lower the learning rate or hold closer to the reference.
    How sure:
        Medium to high by the number of points since the peak.
    References:
        taxonomy of public threads, peak_decline (5 threads)
    """
    candidates = [(reward.total, "the training score")]
    if witness is not None:
        candidates.insert(0, (witness.score, witness.source))
    for score, what in candidates:
        shape = score.shape
        if shape is None or shape.word not in ("peaked", "declining", "collapsed", "bottomed") or score.points < 40:
            continue
        gain = score.high - score.start
        lost = score.high - score.level
        if (
            gain < 3.0 * score.noise_sd / max(1.0, score.points / 40) ** 0.5
            or gain <= 0.0
            or lost < LOSS * gain
            or lost < 2.0 * score.noise_sd
        ):
            continue
        if gain < 0.1 * lost or not score.fell_beyond_noise(score.high):
            continue
        peak = score.best_step()
        yield Evidence(
            f"{what} ({score.name}) rose from {number(score.start)} to {number(score.high)} around step {peak} "
            f"and is at {number(score.level)} now: {percent(min(lost / gain, 9.99))} of the gain is gone",
            (score.name,),
            peak,
        )
        return

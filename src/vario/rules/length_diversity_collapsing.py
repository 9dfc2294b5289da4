"""LN104 length-diversity-collapsing."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Length, Reward
from vario.rules.base import Evidence, Precedes, Severity, Sign, percent, raise_, required, rule


@rule(
    "LN104",
    "length-diversity-collapsing",
    Severity.WARNING,
    holds=3,
    turns=(
        raise_("temperature", "samples more widely", 1.2),
        raise_("entropy-bonus", "pays for choice"),
        raise_("kl-coef", "holds to the reference"),
    ),
    precedes=(Precedes("mode-collapse", "entropy/mean"),),
)
def length_diversity_collapsing(length: Length, reward: Reward | None) -> Iterator[Sign]:
    """All completions have become the same length.

    What it shows:
        Longest and shortest differ by less than a tenth of the mean, having differed by half or more.
    Why it matters:
        One template for every prompt: mode collapse shows in length before it shows in reward.
    Evidence:
        The spread then and now.
    Looks like it but is not:
        Everything cut at the cap (truncation-high); a task whose answers have one length; a solved task.
    What to change:
        Read samples; temperature, an entropy bonus, then KL.
    How sure:
        Medium.
    References:
        seed texts of the project
    """
    shortest, longest = required(length.shortest, "length/min"), required(length.longest, "length/max")
    if length.mean.points < 40:
        return
    if length.cap is not None and length.mean.level > 0.9 * length.cap:
        return
    if reward is not None and reward.share_of_ceiling is not None and reward.share_of_ceiling > 0.85:
        return
    before = (longest.start - shortest.start) / max(length.mean.start, 1.0)
    now = (longest.level - shortest.level) / max(length.mean.level, 1.0)
    if before > 0.5 and now < 0.1:
        yield Evidence(
            f"longest minus shortest went from {percent(before)} to {percent(now)} of the mean length",
            ("length/max", "length/min"),
        )

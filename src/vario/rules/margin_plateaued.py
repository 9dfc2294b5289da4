"""PF101 margin-plateaued."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Preference
from vario.rules.base import Evidence, Severity, Sign, number, raise_, rule


@rule(
    "PF101",
    "margin-plateaued",
    Severity.INFO,
    holds=3,
    turns=(raise_("learning-rate", "if it flattened early and pairs are still ranked wrong"),),
)
def margin_plateaued(preference: Preference) -> Iterator[Sign]:
    """The margin rose and is flat now.

    What it shows:
        A rise of the margin, then at least a quarter of the run without one.
    Why it matters:
        What these pairs can teach is learnt, or the learning rate has run out.
    Evidence:
        Where it flattened, at which value.
    Looks like it but is not:
        A slow rise under noise; the end of a learning-rate schedule.
    What to change:
        A larger learning rate where pairs are still ranked wrong; otherwise stop, or new pairs.
    How sure:
        High with a hundred points.
    References:
        taxonomy of public threads, dpo_saturated
    """
    margin = preference.margin
    knot = margin.knot_step()
    if (
        margin.shape is not None
        and margin.shape.word == "plateau"
        and knot is not None
        and margin.points_since(knot) >= 0.25 * margin.points
    ):
        yield Evidence(
            f"the margin rose to {number(margin.level)} and is flat since step {knot}", ("preference/margin",), knot
        )

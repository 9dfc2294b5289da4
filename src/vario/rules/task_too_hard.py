"""RU102 task-too-hard."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Components, Truncation
from vario.rules.base import Doubt, Evidence, Severity, Sign, number, percent, raise_, rule

CUT = 0.1
"""Share of cut completions at the start from which the cap is a suspect (verl's documentation warns there)."""
RARE = 0.03
"""Mean success over the whole run: with groups of 8, four groups in five hold not a single one."""


@rule(
    "RU102",
    "task-too-hard",
    Severity.WARNING,
    holds=3,
    causes=("prompts beyond the model", "answers cut before the end", "a verifier that accepts nothing"),
    turns=(raise_("group-size", "more tries per prompt"), raise_("max-completion-length", "if answers are cut")),
    explains=(
        "component-dead",
        "reward-never-rises",
        "reward-is-noise",
        "signal-collapsed-unsolved",
        "few-groups-carry-signal",
        "component-dominates",
        "component-saturated",
        "signal-from-shaping-only",
        "reward-plateaued",
    ),
)
def task_too_hard(components: Components, truncation: Truncation | None) -> Iterator[Sign]:
    """The task itself is hardly ever solved, whatever else improves.

    What it shows:
        A 0/1 component that stays at or below 3 % for the whole run of at least 60 points.
    Why it matters:
        Groups without a single success teach nothing about the task; the rest of the reward is decoration.
    Evidence:
        Its level from start to end, and what improves meanwhile.
    Looks like it but is not:
        A cap so short that answers cannot end (truncation is high in the first steps); a component that fell to zero (reward-function-broke, policy-collapse); a rare bonus.
    What to change:
        Easier prompts first, more tries, a graded reward, SFT before RL.
    How sure:
        Medium: a broken verifier looks the same; run it on a known answer.
    References:
        taxonomy of public threads, zero_advantage and reward_zero
    """
    if len(components.weighted) < 2:
        return
    for name in components.weighted:
        reading = components.means[name]
        if (
            reading.points >= 60
            and components.binary(name)
            and float(reading.values.mean()) <= RARE
            and not (reading.late is not None and reading.late.rises(0.01))
        ):
            others = [n for n in components.weighted if n != name and components.means[n].level > 0.2]
            if not others:
                continue
            yield Evidence(
                f"{name} is at {number(reading.level)} now and was never above {number(float(reading.values.max()))}",
                (reading.name,),
                int(reading.steps[0]),
            )
            yield Evidence(
                f"{others[0]} is at {number(components.means[others[0]].level)}", (components.means[others[0]].name,)
            )
            if truncation is not None and truncation.share.start > CUT:
                yield Doubt(
                    f"{percent(truncation.share.start)} of the first completions were cut: the cap may be what is too hard"
                )
            if float(reading.values.max()) <= 0.0:
                yield Doubt("exactly zero: a verifier that accepts nothing looks the same")

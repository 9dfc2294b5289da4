"""RU104 reward-function-broke."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Components, Record, Reward
from vario.rules.base import Doubt, Evidence, Excluded, Severity, Sign, number, rule


@rule(
    "RU104",
    "reward-function-broke",
    Severity.CRITICAL,
    holds=1,
    lasting=True,
    causes=("a parser or verifier changed or died", "a service behind the reward failed"),
    explains=(
        "reward-collapsed",
        "component-dead",
        "reward-peaked-then-declined",
        "gradient-vanished",
        "signal-collapsed-unsolved",
        "signal-dropped-suddenly",
        "few-groups-carry-signal",
        "reward-constant",
        "loss-discontinuity",
        "reward-up-eval-not",
        "gradient-spike",
        "policy-collapse",
        "task-too-hard",
        "component-dominates",
        "component-falls-while-total-rises",
        "entropy-collapsing",
    ),
)
def reward_function_broke(components: Components | None, reward: Reward, record: Record) -> Iterator[Sign]:
    """A reward fell from one step to the next, though the policy did not change.

    What it shows:
        A level shift down of the reward or of one component, to less than a third, with KL, entropy and
        length undisturbed around it.
    Why it matters:
        The measurement broke, not the model: every update from here on follows a wrong score.
    Evidence:
        The step, before and after, and what did not move.
    Looks like it but is not:
        A policy collapse (text, length, entropy move first), harder data (entropy and length jump with it).
    What to change:
        Fix the reward; restart from the last checkpoint before that step.
    How sure:
        High when at least two of KL, entropy and length were there to disagree and did not.
    References:
        taxonomy of public threads, verifier_bug (9 threads)
    """
    scores = [reward.total] + (list(components.means.values()) if components is not None else [])
    calm_names = [n for n in ("kl/reference", "entropy/mean", "length/mean") if record.find(n) is not None]
    for score in scores[1:] + scores[:1]:
        for shift in score.shifts:
            if shift.up or shift.before <= 0.0 or shift.after > 0.34 * shift.before:
                continue
            if not shift.abrupt:
                continue
            disturbed = [
                n
                for n in calm_names
                if (r := record.find(n)) is not None and any(abs(s.step - shift.step) <= 6 for s in r.shifts)
            ]
            moved = []
            for name in calm_names:
                reading = record.find(name)
                if reading is None:
                    continue
                before, after = reading.level_at(shift.step - 1, 10), reading.level_at(shift.seen, 5)
                if abs(after - before) > max(0.35 * abs(before), 4.0 * reading.noise_sd):
                    moved.append(name)
            if disturbed or moved:
                continue
            if len(calm_names) < 2:
                yield Doubt("too little else is logged to exclude a collapse of the policy")
            yield Evidence(
                f"{score.name} fell from {number(shift.before)} to {number(shift.after)} at step {shift.step}",
                (score.name,),
                shift.step,
            )
            if calm_names:
                yield Excluded(f"not a collapse of the policy: {', '.join(calm_names)} did not move there")
            return

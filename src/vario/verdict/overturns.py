"""What would overturn a verdict that rests on one finding: what its benign look-alikes would show."""

from __future__ import annotations

from vario.rules.engine import Incident

RECOVERS = "a reward that recovers over the next tenth of the run"
OVERTURNS: dict[str, tuple[str, ...]] = {
    "policy-collapse": (
        "a reward function or data that were changed {then}",
        "completions from {on} that read as well as those before",
    ),
    "mode-collapse": (
        "completions of one prompt that differ again",
        "a task that is solved: one answer is right, and the reward is at its best",
    ),
    "reward-function-broke": (
        "completions from {on} that are worse than those before: then the policy fell, not the function",
        "completions from before that, scored again, and as high as they were",
    ),
    "reward-hacking": (
        "held-out scores taken with other settings, or on another set, from {on}",
        "a larger held-out set whose score rises with the reward",
        "highly rewarded completions that a reader finds good (vario samples --review)",
    ),
    "non-finite": (
        "rows that are finite again, with a gradient norm as before",
        "a logger that writes NaN where nothing was measured",
    ),
    "kl-runaway": (
        "a held-out score that rises with KL",
        "a reference model that was replaced {then}",
    ),
    "reward-collapsed": (
        "a reward that comes back to where it stood",
        "harder prompts, or another reward function, from {on}",
    ),
    "signal-collapsed-unsolved": (
        "groups whose rewards differ again",
        "a filter that leaves tied groups out of the update by design",
    ),
    "reward-constant": (
        "a reward that moves again",
        "a constant that is the best there is: declare it as the ceiling",
    ),
    "learning-rate-zero": (
        "a learning rate above zero in the next rows",
        "a log that rounds it to zero",
    ),
    "gradient-zero-despite-signal": (
        "a gradient norm above zero in the next rows",
        "a log that rounds it to zero",
    ),
    "kl-rises-while-reward-falls": (
        RECOVERS,
        "harder prompts, or another reward function, from {on}",
    ),
}
"""By name of the finding; each is written down under "Looks like it but is not" of its rule, or is the finding passing."""


def overturns(incident: Incident) -> tuple[str, ...]:
    """What would overturn a verdict that rests on this finding, with its step where that is known."""
    since = incident.since
    then = "meanwhile" if since is None else f"at step {since}"
    on = "the start on" if since is None else f"step {since} on"
    told = OVERTURNS.get(incident.rule.name, (f"{incident.rule.name} passing after the change",))
    return tuple(text.format(then=then, on=on) for text in told)

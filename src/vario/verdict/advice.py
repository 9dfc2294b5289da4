"""From pattern to action: a table in code. First row that holds wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vario.rules.base import Severity
from vario.rules.engine import Incident
from vario.verdict.overturns import RECOVERS, overturns

FATAL = (
    "policy-collapse",
    "mode-collapse",
    "reward-function-broke",
    "reward-hacking",
    "non-finite",
    "kl-runaway",
    "reward-collapsed",
    "signal-collapsed-unsolved",
    "reward-constant",
    "learning-rate-zero",
    "gradient-zero-despite-signal",
)
"""Open and critical: no further step of this run helps."""
REPAIRABLE = frozenset(
    {"reward-constant", "signal-collapsed-unsolved", "learning-rate-zero", "gradient-zero-despite-signal"}
)
"""Fatal to progress but not to the policy: change something rather than go back."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do, how sure, why, and what would change it."""

    action: str
    confidence: str
    why: str
    would_change_it: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Situation:
    """What the table is asked about."""

    trajectory: str
    trajectory_confidence: str
    regime: str
    incidents: Sequence[Incident]
    at_ceiling: bool
    witnesses: frozenset[str]
    held_out_rises: bool | None = None
    target_met: bool | None = None
    """Whether the declared target is reached; None where none is declared."""


SYSTEMS = "SY"
"""Rules of the machine: the narrative names them, and the action is judged as if they were not there."""


def _open(situation: Situation) -> list[Incident]:
    return [i for i in situation.incidents if i.until is None and not i.rule.code.startswith(SYSTEMS)]


def _inside(sentence: str) -> str:
    """A sentence as a part of another one."""
    text = sentence.rstrip(".")
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def advise(situation: Situation) -> Advice:
    """Choose an action; every row says why and what would overturn it."""
    firing = _open(situation)
    named = {i.rule.name for i in firing}
    critical = [i for i in firing if i.severity == Severity.CRITICAL]
    if situation.trajectory == "too-short" and not critical:
        return Advice("cannot-tell", "high", "too few points for any test", ("more logged steps",))
    for incident in critical:
        if incident.rule.name in REPAIRABLE:
            return Advice(
                "intervene",
                incident.confidence,
                f"{incident.rule.name}: nothing can be learnt until it is mended",
                overturns(incident),
            )
        if incident.rule.name in FATAL:
            return Advice(
                "stop",
                incident.confidence,
                f"{incident.rule.name}: further steps do not help"
                + (
                    f"; go back to a checkpoint before step {incident.since}"
                    if incident.since is not None and incident.since > 1
                    else ""
                ),
                overturns(incident),
            )
    paid_for_loss = next((i for i in critical if i.rule.name == "kl-rises-while-reward-falls"), None)
    if situation.regime == "kl-up-reward-down" or paid_for_loss:
        return Advice(
            "stop",
            "medium",
            "each further step costs KL and loses reward; go back to the best checkpoint",
            overturns(paid_for_loss) if paid_for_loss else (RECOVERS,),
        )
    if situation.trajectory == "peaked":
        return Advice(
            "stop",
            situation.trajectory_confidence,
            "the reward has peaked: use that checkpoint",
            ("a held-out score that still rises", "a second seed that does not fall"),
        )
    if situation.at_ceiling:
        return Advice(
            "stop",
            "high",
            "the ceiling is reached: nothing is left to gain on this data",
            ("harder data", "a held-out score that still rises"),
        )
    if situation.target_met and situation.trajectory not in ("rising", "slowing"):
        return Advice(
            "stop",
            "high",
            "the target that you declared is met, and the score no longer rises",
            ("a higher target",),
        )
    if "kl-rises-without-reward" in named:
        return Advice(
            "stop",
            "medium",
            "KL climbs and the reward does not answer: the upside is near zero",
            ("a held-out score that rises",),
        )
    if "preference-saturated" in named and situation.held_out_rises is False and not critical:
        return Advice(
            "stop",
            "medium",
            "every training pair is ranked right and the held-out margin no longer rises",
            ("a held-out margin that rises again", "harder pairs"),
        )
    warned = [i for i in firing if i.severity >= Severity.WARNING]
    if warned:
        return Advice(
            "intervene",
            warned[0].confidence,
            f"{_inside(warned[0].rule.summary)} ({warned[0].rule.name})",
            overturns(warned[0]),
        )
    if situation.trajectory == "declining":
        return Advice(
            "intervene",
            situation.trajectory_confidence,
            "the reward falls",
            ("a reward that recovers", "harder data from some step on"),
        )
    if situation.trajectory in ("rising", "slowing"):
        if not situation.witnesses:
            return Advice(
                "continue",
                "low",
                "the score rises, and nothing else is there to agree",
                ("a held-out score", "KL to the reference"),
            )
        confidence = (
            "medium" if "held-out" not in situation.witnesses or situation.trajectory_confidence != "high" else "high"
        )
        return Advice(
            "continue", confidence, "the score still rises", ("a plateau", "KL that climbs faster than the reward")
        )
    if situation.trajectory == "saturated":
        return Advice(
            "stop", "medium", "the reward is constant at a high value", ("a known ceiling above it", "harder data")
        )
    if situation.regime == "kl-up-reward-flat":
        return Advice("stop", "low", "KL climbs while the reward stands", ("a reward that moves again",))
    if situation.trajectory == "noise":
        return Advice(
            "intervene", "low", "the reward has not left its noise", ("more points", "a held-out score with error bars")
        )
    if situation.target_met is False:
        return Advice(
            "intervene",
            "medium",
            "the score stands below the target that you declared",
            ("a score that moves again", "a lower target"),
        )
    return Advice(
        "cannot-tell",
        "low",
        "the reward stands below any known ceiling; whether that is enough depends on your target",
        ("a declared target or ceiling", "a held-out score"),
    )

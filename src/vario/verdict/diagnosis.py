"""The diagnosis: frozen values, made by `diagnose`, and its JSON form `diagnosis/v1`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from vario.instruments import Entropy, History, Kl, Look, Reading, Reward, Witness
from vario.rules.base import Broken, Turn
from vario.rules.engine import CONFIDENCE, Incident, Judgement, judge
from vario.run import Run, Setting
from vario.verdict.advice import Situation, advise
from vario.verdict.checkpoint import BestCheckpoint, best_checkpoint
from vario.verdict.narrative import narrate
from vario.verdict.notes import Note, notes_of
from vario.verdict.regime import regime_of
from vario.verdict.trajectory import reconciled, score_of, trajectory_of

SCHEMA = "diagnosis/v1"
SPARK_POINTS = 40


@dataclass(frozen=True, slots=True)
class Change:
    """One knob to turn, in the framework's own words."""

    knob: str
    key: str | None
    current: Setting
    suggested: Setting
    why: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A pattern that held on this run, with what it rests on."""

    code: str
    name: str
    severity: str
    confidence: str
    audience: str
    since: int | None
    detected_at: int | None
    until: int | None
    evidence: tuple[str, ...]
    metrics: tuple[str, ...]
    excluded: tuple[str, ...]
    causes: tuple[str, ...]
    changes: tuple[Change, ...]
    references: tuple[str, ...]
    summary: str
    symptoms: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class UnknownCheck:
    """A check that could not run: what is missing and how to log it."""

    code: str
    name: str
    missing: tuple[str, ...]
    enable: str
    reason: str


@dataclass(frozen=True, slots=True)
class Risk:
    """What going on may cost."""

    text: str
    kl_since_best: float | None
    steps_since_best: int | None
    reward_lost: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The joint answer. `upside` is not forecast yet: `None` means that vario cannot tell."""

    action: str
    confidence: str
    trajectory: str
    regime: str
    best_checkpoint: BestCheckpoint | None
    risk: Risk
    narrative: str
    why: str
    would_change_it: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.action} ({self.confidence} confidence): {self.narrative}"


@dataclass(frozen=True, slots=True)
class ReadingSummary:
    """One metric in words and numbers; `spark` holds at most 40 block means for a small picture."""

    level: float
    spread: float
    direction: str
    shape: str
    changes: tuple[int, ...]
    noise_share: float | None
    key: str
    points: int
    start: float
    low: float
    high: float
    spark: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that vario says of a run at one step."""

    run: Run
    verdict: Verdict
    findings: tuple[Finding, ...]
    notes: tuple[Note, ...]
    unknown: tuple[UnknownCheck, ...]
    broken: tuple[tuple[str, str], ...]
    readings: dict[str, ReadingSummary] = field(default_factory=dict)


def diagnose(run: Run, *, replay: bool = True) -> Diagnosis:
    """Diagnose a run as it stands at its last step.

    Args:
        run: from `vario.read`; cut it with `run.until(step)` to look at an earlier moment.
        replay: False skips the replay of earlier looks: faster, without hold times and `detected_at`.
    """
    judgement = judge(run, replay=replay)
    look = judgement.look if judgement is not None else Look(History(run), 0)
    incidents = judgement.incidents if judgement is not None else ()
    findings = tuple(_finding(i, run) for i in incidents)
    verdict = _verdict(look, incidents)
    return Diagnosis(
        run,
        verdict,
        findings,
        tuple(notes_of(look)) if judgement is not None else (),
        _unknown(judgement, run) if judgement is not None else (),
        _broken(judgement) if judgement is not None else (),
        _readings(look),
    )


def _verdict(look: Look, incidents: tuple[Incident, ...]) -> Verdict:
    score = score_of(look)
    reward = look.instrument(Reward)
    reward = reward if isinstance(reward, Reward) else None
    kl = look.instrument(Kl)
    kl = kl if isinstance(kl, Kl) else None
    open_names = frozenset(i.rule.name for i in _with_symptoms(incidents) if i.until is None)
    trajectory = reconciled(trajectory_of(score, reward), score, open_names)
    regime = regime_of(kl, score)
    best = best_checkpoint(look, score)
    witnesses = set()
    if kl is not None:
        witnesses.add("kl")
    if isinstance(look.instrument(Entropy), Entropy):
        witnesses.add("entropy")
    if isinstance(look.instrument(Witness), Witness) or look.find("eval/preference/margin", least=4) is not None:
        witnesses.add("held-out")
    share = reward.share_of_ceiling if reward is not None else None
    converged = any(i.rule.name == "run-has-converged" and i.until is None for i in incidents)
    at_ceiling = trajectory.word in ("saturated", "plateau") and ((share is not None and share >= 0.95) or converged)
    advice = advise(
        Situation(
            trajectory.word,
            trajectory.confidence,
            regime,
            incidents,
            at_ceiling,
            frozenset(witnesses),
            _held_out_rises(look),
        )
    )
    risk = _risk(look, kl, score, best)
    narrative = narrate(look, score, trajectory, regime, advice, best, incidents, frozenset(witnesses))
    return Verdict(
        advice.action,
        _joint(advice.confidence, trajectory.confidence),
        trajectory.word,
        regime,
        best,
        risk,
        narrative,
        advice.why,
        advice.would_change_it,
    )


def _with_symptoms(incidents: Iterable[Incident]) -> Iterator[Incident]:
    for incident in incidents:
        yield incident
        yield from _with_symptoms(incident.symptoms)


HELD_OUT_LEAST = 6


def _held_out_rises(look: Look) -> bool | None:
    """Whether the held-out score of the last third lies above the middle third's, beyond its scatter."""
    held = look.find("eval/preference/margin", least=HELD_OUT_LEAST) or look.find(
        "eval/score/mean", least=HELD_OUT_LEAST
    )
    if held is None:
        return None
    third = held.points // 3
    middle, last = held.values[third : 2 * third], held.values[-third:]
    scatter = float(max(middle.std(), last.std(), 0.01 * abs(float(last.mean()))))
    return bool(float(last.mean()) - float(middle.mean()) > scatter)


def _joint(action: str, trajectory: str) -> str:
    """A verdict is no surer than what it says of the shape."""
    return min(action, trajectory, key=CONFIDENCE.index)


def _risk(look: Look, kl: Kl | None, score: Reading | None, best: BestCheckpoint | None) -> Risk:
    if best is None or score is None:
        return Risk("not known: no score to rank checkpoints by", None, None, None)
    ranked = look.find(best.by)
    since = look.step - best.step
    lost = max(0.0, best.value - ranked.level) if ranked is not None and since > 0 else 0.0
    drift = kl.reference.level - kl.reference.level_at(best.step) if kl is not None else None
    parts = [f"{since} steps since the best one (step {best.step})"]
    if lost is not None and lost > 0.0:
        parts.append(f"{lost:.3g} of {best.by} lost since")
    if drift is not None:
        parts.append(f"KL changed by {drift:.2g} {'' if kl is None else kl.unit} since")
    return Risk("; ".join(parts), drift, since, lost)


def _change(turn: Turn, run: Run) -> Change | None:
    knob = run.knobs.get(turn.knob)
    current = knob.current if knob is not None else None
    suggested: Setting = turn.to
    if turn.factor is not None:
        if isinstance(current, int | float) and not isinstance(current, bool):
            if current == 0:
                if turn.factor < 1.0:
                    return None  # it is at zero already: nothing to lower
                suggested = {"kl-coef": 0.001, "entropy-bonus": 0.001}.get(turn.knob)
            else:
                value = current / turn.factor if knob is not None and knob.inverse else current * turn.factor
                suggested = max(1, round(value)) if isinstance(current, int) else float(f"{value:.2g}")
                if suggested == current:
                    return None
    elif turn.to is not None and current == turn.to:
        return None
    return Change(turn.knob, knob.key if knob is not None else None, current, suggested, turn.why)


def _finding(incident: Incident, run: Run) -> Finding:
    rule = incident.rule
    changes = tuple(c for t in rule.turns if (c := _change(t, run)) is not None)
    return Finding(
        rule.code,
        rule.name,
        incident.severity.word,
        incident.confidence,
        incident.audience,
        incident.since,
        incident.detected_at,
        incident.until,
        incident.evidence,
        incident.metrics,
        incident.excluded,
        rule.causes,
        changes,
        rule.references,
        rule.summary,
        tuple(_finding(s, run) for s in incident.symptoms),
    )


def _unknown(judgement: Judgement, run: Run) -> tuple[UnknownCheck, ...]:
    made = []
    for rule, outcome in judgement.unknown:
        ways = dict.fromkeys(run.enable[m] for m in outcome.missing if m in run.enable)
        made.append(UnknownCheck(rule.code, rule.name, outcome.missing, "; ".join(ways), outcome.reason))
    return tuple(made)


def _broken(judgement: Judgement) -> tuple[tuple[str, str], ...]:
    return tuple((rule.name, outcome.error) for rule, outcome in judgement.broken if isinstance(outcome, Broken))


def _spark(reading: Reading) -> tuple[float, ...]:
    n = reading.points
    count = min(SPARK_POINTS, n)
    return tuple(float(reading.values[round(i * n / count) : round((i + 1) * n / count)].mean()) for i in range(count))


def _readings(look: Look) -> dict[str, ReadingSummary]:
    made: dict[str, ReadingSummary] = {}
    for name in look.history.run.series:
        reading = look.find(name)
        if reading is None or not reading.points:
            continue
        shape = reading.shape
        span = float(reading.values.max() - reading.values.min())
        noise = reading.noise_sd
        variance = float(reading.values.var())
        made[name] = ReadingSummary(
            level=reading.level,
            spread=float(noise),
            direction=reading.direction(),
            shape=shape.word if shape is not None else "too-short",
            changes=tuple(s.step for s in reading.known_shifts),
            noise_share=min(1.0, float(noise**2) / variance) if variance > 0.0 and math.isfinite(span) else None,
            key=reading.key,
            points=reading.points,
            start=reading.start,
            low=float(reading.values.min()),
            high=float(reading.values.max()),
            spark=_spark(reading),
        )
    return made

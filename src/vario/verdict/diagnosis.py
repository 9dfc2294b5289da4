"""The diagnosis: frozen values, made by `diagnose`, and its JSON form `diagnosis/v1`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from vario.catalogue import FROM_SAMPLES
from vario.instruments import Entropy, History, Kl, Look, Reading, Reward, Witness
from vario.rules.base import Broken, Precedes, Severity
from vario.rules.choice import Choice
from vario.rules.engine import CONFIDENCE, Incident, Judge, Judgement
from vario.run import Run
from vario.shown import as_html
from vario.verdict.advice import FATAL, Situation, advise
from vario.verdict.changes import Change, change_of
from vario.verdict.checkpoint import DISTORT, BestCheckpoint, best_checkpoint
from vario.verdict.dossier import Dossier, dossier
from vario.verdict.experiments import Experiment, experiments
from vario.verdict.ladder import Branch, Evidence, Rung, branch_of
from vario.verdict.narrative import narrate
from vario.verdict.notes import Note, notes_of
from vario.verdict.phases import Phase, phases_of
from vario.verdict.rate import Rate, rate_of
from vario.verdict.reading_list import ReadingList, reading_list
from vario.verdict.regime import regime_of
from vario.verdict.risk import Risk, risk_of
from vario.verdict.tensions import tensions_of
from vario.verdict.trajectory import reconciled, score_of, trajectory_of
from vario.verdict.upside import Upside, upside_of

SCHEMA = "diagnosis/v1"
SPARK_POINTS = 40


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
    precedes: tuple[Precedes, ...] = ()
    read: ReadingList | None = None
    dossier: Dossier | None = None


@dataclass(frozen=True, slots=True)
class UnknownCheck:
    """A check that could not run: what is missing and how to log it."""

    code: str
    name: str
    missing: tuple[str, ...]
    enable: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The joint answer.

    Attributes:
        phases: the regime along the run. rate: how fast the score climbs now and before.
        tensions: what seems to contradict, and how it was resolved.
        ladder: where a reward that does not rise stands, None where it rises or cannot be told.
        experiments: what would decide what the log cannot tell.
    """

    action: str
    confidence: str
    trajectory: str
    regime: str
    best_checkpoint: BestCheckpoint | None
    upside: Upside
    risk: Risk
    narrative: str
    why: str
    would_change_it: tuple[str, ...]
    phases: tuple[Phase, ...] = ()
    rate: Rate | None = None
    tensions: tuple[str, ...] = ()
    ladder: Branch | None = None
    experiments: tuple[Experiment, ...] = ()

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


@dataclass(frozen=True, slots=True, repr=False)
class Diagnosis:
    """Everything that vario says of a run at one step."""

    run: Run
    verdict: Verdict
    findings: tuple[Finding, ...]
    notes: tuple[Note, ...]
    unknown: tuple[UnknownCheck, ...]
    broken: tuple[tuple[str, str], ...]
    readings: dict[str, ReadingSummary] = field(default_factory=dict)
    suppressed: tuple[tuple[Finding, str], ...] = ()
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Two lines: the run and its verdict, and what was found at warning or above."""
        run, verdict = self.run, self.verdict
        serious = [f for f in self.findings if f.severity != "info"]
        told = ", ".join(f.name if f.since is None else f"{f.name} since {f.since}" for f in serious) or "no warning"
        steps = f"steps {run.first_step} to {run.last_step}" if run.logged_steps.size else "no step"
        return (
            f"<Diagnosis of {run.path!r}, {run.framework} {run.algorithm}, {steps}: "
            f"{verdict.action}, {verdict.confidence} confidence\n  {told}>"
        )

    def _repr_html_(self) -> str | None:
        """What a notebook shows."""
        return as_html(self)


def diagnose(run: Run, *, replay: bool = True, choice: Choice | None = None) -> Diagnosis:
    """Diagnose a run as it stands at its last step.

    Args:
        run: from `vario.read`; cut it with `run.until(step)` to look at an earlier moment.
        replay: False skips the replay of earlier looks: faster, without hold times and `detected_at`.
        choice: which rules to ask, and which findings are suppressed; all of them, and none.

    Raises:
        TypeError: it is no run.
    """
    if not isinstance(run, Run):
        raise TypeError(
            f"diagnose takes a run, not {type(run).__name__}: vario.diagnose(vario.read(path)), or vario.diagnose_path(path)"
        )
    return Examiner(choice, replay=replay).see(run)


class Examiner:
    """Diagnoses a run again and again while it grows; what earlier looks found is kept."""

    def __init__(self, choice: Choice | None = None, *, replay: bool = True) -> None:
        self.choice = choice if choice is not None else Choice()
        self._judge = Judge(self.choice.rules, self.choice.suppressed, replay=replay)

    def see(self, run: Run) -> Diagnosis:
        """The diagnosis of the run as it stands: what `diagnose` says of it, for the price of the new looks."""
        return _diagnosis(run, self._judge.see(run), self.choice)


def _diagnosis(run: Run, judgement: Judgement | None, choice: Choice) -> Diagnosis:
    look = judgement.look if judgement is not None else Look(History(run), 0)
    incidents = judgement.incidents if judgement is not None else ()
    quiet = judgement.suppressed if judgement is not None else ()
    return Diagnosis(
        run,
        _verdict(look, incidents),
        tuple(_finding(i, run) for i in incidents),
        tuple(notes_of(look)) if judgement is not None else (),
        _unknown(judgement, run) if judgement is not None else (),
        _broken(judgement) if judgement is not None else (),
        _readings(look),
        tuple((_finding(i, run), choice.suppressed[i.rule.name]) for i in quiet),
        choice.warnings,
    )


def _verdict(look: Look, incidents: tuple[Incident, ...]) -> Verdict:
    score = score_of(look)
    reward = look.instrument(Reward)
    reward = reward if isinstance(reward, Reward) else None
    kl = look.instrument(Kl)
    kl = kl if isinstance(kl, Kl) else None
    open_names = frozenset(i.rule.name for i in _with_symptoms(incidents) if i.until is None)
    regime = regime_of(kl, score)
    trajectory = reconciled(trajectory_of(score, reward), score, open_names, regime)
    onsets = [
        i.since for i in incidents if i.until is None and i.severity >= Severity.CRITICAL and i.rule.name in FATAL
    ]
    distorted = [i.since for i in _with_symptoms(incidents) if i.until is None and i.rule.name in DISTORT]
    best = best_checkpoint(
        look,
        score,
        min((s for s in onsets if s is not None), default=None),
        min((s for s in distorted if s is not None), default=None),
    )
    witnesses = _witnesses(look, kl)
    share = reward.share_of_ceiling if reward is not None else None
    converged = "run-has-converged" in open_names
    at_ceiling = trajectory.word in ("saturated", "plateau") and ((share is not None and share >= 0.95) or converged)
    target = look.history.run.declared.target
    advice = advise(
        Situation(
            trajectory.word,
            trajectory.confidence,
            regime,
            incidents,
            at_ceiling,
            witnesses,
            _held_out_rises(look),
            None if target is None or best is None else best.value >= target,
        )
    )
    branch = _ladder(look, trajectory.word, incidents)
    tensions = tuple(tensions_of(look, trajectory.word, open_names))
    narrative = narrate(look, score, trajectory, regime, advice, best, incidents, witnesses, tensions)
    return Verdict(
        advice.action,
        _joint(advice.confidence, trajectory.confidence),
        trajectory.word,
        regime,
        best,
        upside_of(look, score, trajectory.word, open_names),
        risk_of(look, kl, score, best, incidents, trajectory.word),
        narrative,
        advice.why,
        advice.would_change_it,
        phases_of(kl, score),
        rate_of(score),
        tensions,
        branch,
        experiments(look.history.run, frozenset(i.rule.name for i in incidents if i.until is None), branch),
    )


def _witnesses(look: Look, kl: Kl | None) -> frozenset[str]:
    """What else than the reward can be asked."""
    found = set()
    if kl is not None:
        found.add("kl")
    if isinstance(look.instrument(Entropy), Entropy):
        found.add("entropy")
    if isinstance(look.instrument(Witness), Witness) or look.find("eval/preference/margin", least=4) is not None:
        found.add("held-out")
    return frozenset(found)


STANDS_STILL = ("noise", "flat-low", "declining")
"""Trajectories of a reward that never rose."""
NEVER_ROSE = frozenset(
    {"reward-never-rises", "task-too-hard", "policy-does-not-move", "reward-is-noise", "reward-constant"}
)


STUCK = frozenset({"policy-does-not-move", "kl-pinned-near-zero", "truncation-never-ends", "weights-never-synced"})
"""Findings that explain by themselves why nothing rises."""


def _ladder(look: Look, trajectory: str, incidents: tuple[Incident, ...]) -> Branch | None:
    """Where a reward that does not rise stands on the ladder; None for one that rises, or for pairs."""
    if look.find("reward/mean") is None:
        return None
    firing = [i for i in incidents if i.until is None]
    still = trajectory in STANDS_STILL or any(i.rule.name in NEVER_ROSE for i in _with_symptoms(firing))
    if not still and trajectory != "too-short":
        return None
    mend = [
        i.rule.name
        for i in firing
        if i.rule.name in STUCK or (i.severity == Severity.CRITICAL and i.rule.name in FATAL)
    ]
    declared = look.history.run.declared
    first = look.find("eval/score/mean")
    before = "eval/score/mean" in declared.baseline or (
        first is not None and int(first.steps[0]) <= int(look.history.run.logged_steps[0])
    )
    rises = None if trajectory == "too-short" else False
    branch = branch_of(Evidence(rises, mend[0] if mend else "", before, declared.test_run_rises))
    return None if branch.rung in (Rung.RISES, Rung.TOO_EARLY) else branch


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


def _finding(incident: Incident, run: Run) -> Finding:
    rule = incident.rule
    changes = tuple(c for t in rule.turns if (c := change_of(t, run)) is not None)
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
        rule.precedes,
        _to_read(incident, run),
        dossier(rule.name, incident.since, incident.metrics, run),
    )


def _to_read(incident: Incident, run: Run) -> ReadingList | None:
    if run.samples is None:
        return None
    return reading_list(incident.rule.code, incident.rule.name, incident.since, incident.until, run.samples)


def _unknown(judgement: Judgement, run: Run) -> tuple[UnknownCheck, ...]:
    made = []
    for rule, outcome in judgement.unknown:
        ways = dict.fromkeys(way for m in outcome.missing if (way := _way(m, run)))
        made.append(UnknownCheck(rule.code, rule.name, outcome.missing, "; ".join(ways), outcome.reason))
    return tuple(made)


def _way(metric: str, run: Run) -> str:
    """How a metric would come to be there: logged, or counted from completions that this framework can write."""
    if len(run.series.get(metric, ())):
        return ""  # it is logged: more of it has to come
    if metric in run.enable:
        return run.enable[metric]
    return run.how_to_sample if metric in FROM_SAMPLES and not run.dumps else ""


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

"""The engine: looks at a cadence, hold time, onset, what passed, and folding. Adds nothing a rule could know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vario.instruments import History, Look
from vario.rules import RULES
from vario.rules.base import Aside, Broken, Doubt, Evidence, Excluded, Fires, Grave, Outcome, Rule, Severity, Unknown
from vario.run import Run

CADENCE_ROWS = 10
CADENCE_SHARE = 0.03
CONFIDENCE = ("low", "medium", "high")
SURE_ROWS = 60
"""Fewer logged rows than this lower every confidence by one word."""
FOLD_SHARE = 0.25
FOLD_ROWS = 20
"""A symptom may seem to begin this much before its cause: both onsets are estimates."""


@dataclass
class Incident:
    """A rule that fired and held.

    `since`: estimated first step of the change. `detected_at`: the look at which it had held for as
    long as the rule asks; None without replay. `until`: the look at which it had passed.
    """

    rule: Rule
    since: int | None
    detected_at: int | None
    until: int | None
    fires: Fires
    rows: int
    symptoms: list[Incident] = field(default_factory=list)

    @property
    def severity(self) -> Severity:
        """What it costs; a pattern that has passed is information."""
        if self.until is not None:
            return Severity.INFO
        graves = [s.severity for s in self.fires.signs if isinstance(s, Grave)]
        return graves[-1] if graves else self.rule.severity

    @property
    def confidence(self) -> str:
        """How sure on this run."""
        doubts = sum(isinstance(s, Doubt) for s in self.fires.signs) + (self.rows < SURE_ROWS)
        return CONFIDENCE[max(0, 2 - doubts)]

    @property
    def audience(self) -> str:
        """`default`, or `pedantic` where the rule or this run makes it a detail."""
        aside = any(isinstance(s, Aside) for s in self.fires.signs)
        return "pedantic" if self.rule.pedantic or aside else "default"

    @property
    def evidence(self) -> tuple[str, ...]:
        """Sentences, with the doubts at the end."""
        said = [s.text for s in self.fires.signs if isinstance(s, Evidence)]
        return (*said, *(f"less sure: {s.text}" for s in self.fires.signs if isinstance(s, Doubt)))

    @property
    def excluded(self) -> tuple[str, ...]:
        """Look-alikes that were ruled out, and why a detail is only that."""
        return tuple(s.text for s in self.fires.signs if isinstance(s, Excluded | Aside))

    @property
    def metrics(self) -> tuple[str, ...]:
        """Canonical metrics in the evidence."""
        return tuple(dict.fromkeys(m for s in self.fires.signs if isinstance(s, Evidence) for m in s.metrics))


@dataclass(frozen=True)
class Judgement:
    """What the rules said at the last look, and what the replay found on the way."""

    look: Look
    incidents: tuple[Incident, ...]
    outcomes: dict[str, Outcome]

    @property
    def unknown(self) -> list[tuple[Rule, Unknown]]:
        """Rules that could not be asked."""
        return [(r, o) for r in RULES if isinstance(o := self.outcomes.get(r.name), Unknown)]

    @property
    def broken(self) -> list[tuple[Rule, Broken]]:
        """Rules that raised."""
        return [(r, o) for r in RULES if isinstance(o := self.outcomes.get(r.name), Broken)]


def looks(rows: int) -> list[int]:
    """Row counts at which a run is looked at: every 10 rows, or 3 % where that is more; the last row always."""
    at: list[int] = []
    next_at = CADENCE_ROWS
    while next_at < rows:
        at.append(next_at)
        next_at += max(CADENCE_ROWS, int(next_at * CADENCE_SHARE))
    if rows:
        at.append(rows)
    return at


def _since(fires: Fires) -> int | None:
    steps = [s.since for s in fires.signs if isinstance(s, Evidence) and s.since is not None]
    return min(steps) if steps else None


def judge(run: Run, *, replay: bool = True, rules: Sequence[Rule] = RULES) -> Judgement | None:
    """Judge a run at its last step, replaying the cadence of a live monitor on the way.

    Args:
        run: what was read.
        replay: False looks once, at the end: no hold time, no `detected_at`.
        rules: which rules to ask.

    Returns None for a run without a logged row.
    """
    rows = int(run.logged_steps.size)
    if not rows:
        return None
    history = History(run)
    held = {r.name: 0 for r in rules}
    current: dict[str, Incident] = {}
    passed: dict[str, Incident] = {}
    outcomes: dict[str, Outcome] = {}
    look = Look(history, int(run.logged_steps[-1]))
    for count in looks(rows) if replay else [rows]:
        step = int(run.logged_steps[count - 1])
        if count == rows:
            step = max([step, *(int(s.steps[-1]) for n, s in run.series.items() if n.startswith("eval/") and len(s))])
        look = Look(history, step)
        for rule in rules:
            outcome = outcomes[rule.name] = rule.judge(look)
            if isinstance(outcome, Fires):
                held[rule.name] += 1
                if rule.name in current:
                    known = current[rule.name]
                    known.fires, known.rows = outcome, count
                    since = _since(outcome)
                    if not rule.lasting and since is not None:
                        known.since = since
                elif held[rule.name] >= rule.holds or not replay:
                    current[rule.name] = Incident(rule, _since(outcome), step if replay else None, None, outcome, count)
            else:
                held[rule.name] = 0
                if rule.name in current and not rule.lasting:
                    gone = current.pop(rule.name)
                    gone.until = step
                    passed[rule.name] = gone
    kept = list(current.values()) + [
        i for n, i in passed.items() if n not in current and i.rule.severity > Severity.INFO
    ]
    return Judgement(look, fold(kept, run, look.step), outcomes)


def fold(incidents: list[Incident], run: Run, now: int) -> tuple[Incident, ...]:
    """Put symptoms beneath their causes; what a cause does not explain stays on top."""
    first = run.first_step or 0
    slack = max(int(FOLD_SHARE * (now - first)), FOLD_ROWS)
    order = {r.name: i for i, r in enumerate(RULES)}
    top = sorted(incidents, key=lambda i: order.get(i.rule.name, 999))
    taken: set[int] = set()
    causes = sorted(
        (i for i in top if i.rule.explains and i.until is None), key=lambda i: (-i.severity, -len(i.rule.explains))
    )
    for cause in causes:
        if id(cause) in taken:
            continue
        for other in top:
            if other is cause or id(other) in taken or other.rule.name not in cause.rule.explains:
                continue
            if cause.rule.name in other.rule.explains and len(other.rule.explains) > len(cause.rule.explains):
                continue
            if (
                cause.since is not None
                and other.since is not None
                and other.since < cause.since - slack
                and other.until is None
            ):
                continue
            taken.add(id(other))
            cause.symptoms.append(other)
            cause.symptoms += other.symptoms
            other.symptoms = []
    remaining = [i for i in top if id(i) not in taken]
    remaining.sort(
        key=lambda i: (-i.severity, i.until is not None, -CONFIDENCE.index(i.confidence), order.get(i.rule.name, 999))
    )
    return tuple(remaining)

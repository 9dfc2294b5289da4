"""The engine: looks at a cadence, hold time, onset, what passed, and folding. Adds nothing a rule could know."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from vario.instruments import Budgets, History, Look, ReferenceRun
from vario.rules import RULES
from vario.rules.base import (
    Apart,
    Aside,
    Broken,
    Doubt,
    Evidence,
    Excluded,
    Fires,
    Grave,
    Outcome,
    Rule,
    Severity,
    Unknown,
)
from vario.run import Run

CADENCE_ROWS = 10
CADENCE_SHARE = 0.03
CONFIDENCE = ("low", "medium", "high")
SURE_ROWS = 60
"""Fewer logged rows than this lower every confidence by one word."""
LEAVE_LOOKS = 2
"""A finding has passed when it has not held at so many looks in a row: one look without it is noise."""
REST_EVERY = 4
"""Rules about what the others leave go through every metric: they are asked at each fourth look, and at the last."""
COOL_LOOKS = 3
"""A finding that comes back within so many looks after it passed is the same finding, not a new alarm."""
NEAREST = 3
"""Patterns that are told beside a change that none of them explains."""
NEAREST_ASKS = 12
"""A rule that goes through more metrics than this is about the record, and is no pattern of these."""
FOLD_SHARE = 0.25
FOLD_ROWS = 20
"""A symptom may seem to begin this much before its cause: both onsets are estimates."""


@dataclass
class Incident:
    """A rule that fired and held.

    `near`: what the patterns beside it lack, or why the user allows it (`allowed`).
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
    near: tuple[str, ...] = ()
    allowed: bool = False

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
        return CONFIDENCE[max(0, min(2 - doubts, 1 if self.rule.precedes else 2))]

    @property
    def audience(self) -> str:
        """`default`, or `pedantic` where the rule or this run makes it a detail."""
        aside = any(isinstance(s, Aside) for s in self.fires.signs) or self.allowed
        return "pedantic" if self.rule.pedantic or aside else "default"

    @property
    def evidence(self) -> tuple[str, ...]:
        """Sentences, with the doubts at the end."""
        said = [s.text for s in self.fires.signs if isinstance(s, Evidence)]
        return (*said, *(f"less sure: {s.text}" for s in self.fires.signs if isinstance(s, Doubt)))

    @property
    def excluded(self) -> tuple[str, ...]:
        """Look-alikes that were ruled out, and why a detail is only that."""
        return (*(s.text for s in self.fires.signs if isinstance(s, Excluded | Aside)), *self.near)

    @property
    def apart(self) -> frozenset[str]:
        """Rules that do not explain it on this run, though they usually do."""
        return frozenset(s.cause for s in self.fires.signs if isinstance(s, Apart))

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
    rules: tuple[Rule, ...] = RULES
    suppressed: tuple[Incident, ...] = ()

    @property
    def unknown(self) -> list[tuple[Rule, Unknown]]:
        """Rules that could not be asked."""
        return [(r, o) for r in self.rules if isinstance(o := self.outcomes.get(r.name), Unknown)]

    @property
    def broken(self) -> list[tuple[Rule, Broken]]:
        """Rules that raised."""
        return [(r, o) for r in self.rules if isinstance(o := self.outcomes.get(r.name), Broken)]


def looks_between(seen: int, rows: int) -> Iterator[int]:
    """Row counts after `seen` and before `rows` at which a run is looked at (`looks`)."""
    at = CADENCE_ROWS if not seen else seen + max(CADENCE_ROWS, int(seen * CADENCE_SHARE))
    while at < rows:
        yield at
        at += max(CADENCE_ROWS, int(at * CADENCE_SHARE))


def looks(rows: int) -> list[int]:
    """Row counts at which a run is looked at: every 10 rows, or 3 % where that is more; the last row always."""
    return [*looks_between(0, rows), rows] if rows else []


def _since(fires: Fires) -> int | None:
    steps = [s.since for s in fires.signs if isinstance(s, Evidence) and s.since is not None]
    return min(steps) if steps else None


class _Watch:
    """One rule from look to look: how long it has held, and the incident that is open or has passed."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.held = self.away = 0
        self.first_quiet = 0
        self.open: Incident | None = None
        self.passed: Incident | None = None

    def copy(self) -> _Watch:
        """The same, and independent of it: incidents change from look to look."""
        made = copy(self)
        made.open = replace(self.open) if self.open is not None else None
        made.passed = replace(self.passed) if self.passed is not None else None
        for incident in (made.open, made.passed):
            if incident is not None:
                incident.symptoms = []
        return made

    def see(self, outcome: Outcome, look: Look, rows: int, *, replay: bool) -> None:
        if isinstance(outcome, Fires):
            self.held += 1
            self._fires(outcome, look, rows, replay=replay)
            return
        # looks that held without an incident were too few to count: they are looks away as well
        self.away += 1 if self.open is not None else 1 + self.held
        self.held = 0
        if self.away == 1:
            self.first_quiet = look.step
        if self.open is not None and not self.rule.lasting and self.away >= LEAVE_LOOKS:
            self.open.until = self.first_quiet
            self.passed, self.open = self.open, None

    def _fires(self, fires: Fires, look: Look, rows: int, *, replay: bool) -> None:
        since = _since(fires)
        if self.open is not None:
            self.away = 0
            self.open.fires, self.open.rows = fires, rows
            if not self.rule.lasting and since is not None:
                # an estimate may move, but what was seen at a step had begun by then
                seen = self.open.detected_at
                self.open.since = since if seen is None else min(since, seen)
        elif self.held >= self.rule.holds or not replay or any(isinstance(s, Evidence) and s.told for s in fires.signs):
            if self.passed is not None and self.away <= LEAVE_LOOKS + COOL_LOOKS:
                self.open, self.passed = self.passed, None
                self.open.until, self.open.fires, self.open.rows = None, fires, rows
            else:
                self.open = Incident(self.rule, since, look.step if replay else None, None, fires, rows)
            self.away = 0


class Judge:
    """The rules at work on a run that grows: what each look found is kept, so that a new row costs a look and no replay.

    Looks come at the same row counts whether a run is read at once or grows row by row, and a look counts only when a
    later row shows that its step is complete: a live judge and an offline one say the same with the same `detected_at`.
    """

    def __init__(self, rules: Sequence[Rule] = RULES, suppressed: Collection[str] = (), *, replay: bool = True) -> None:
        self.rules = tuple(rules)
        self.suppressed = frozenset(suppressed)
        self.replay = replay
        self._reset()

    def _reset(self) -> None:
        self._watches = [_Watch(r) for r in sorted(self.rules, key=lambda r: r.last)]
        self._outcomes: dict[str, Outcome] = {}
        self._looks = 0
        self._rows = 0
        self._step: int | None = None
        self._past: object = None
        self._stands: object = None

    def see(self, run: Run) -> Judgement | None:
        """Judge a run at its last step, with every look that has come due since the run was seen last.

        A run whose past has changed (a resume, a log that was replaced, a setting that became known) is replayed
        from its start. Returns None for a run without a logged row.
        """
        rows = int(run.logged_steps.size)
        if not rows:
            return None
        if self._rows and not self._continues(run):
            self._reset()
        self._stands = _standing(run)
        history = History(run)
        for count in looks_between(self._rows, rows) if self.replay else ():
            self._looks += 1
            step = int(run.logged_steps[count - 1])
            self._ask(self._watches, self._outcomes, Look(history, step), count, end=False)
            self._rows, self._step = count, step
        self._past = _past(run, self._step)
        return self._at_end(history, rows)

    def _continues(self, run: Run) -> bool:
        """Whether what was seen still stands where it stood."""
        same = run.logged_steps.size >= self._rows and int(run.logged_steps[self._rows - 1]) == self._step
        return same and self._stands == _standing(run) and self._past == _past(run, self._step)

    def _at_end(self, history: History, rows: int) -> Judgement:
        """The look at the last row, which leaves no trace: a row that comes tomorrow must not find it there."""
        run = history.run
        watches, outcomes = [w.copy() for w in self._watches], dict(self._outcomes)
        held_out = [int(s.steps[-1]) for n, s in run.series.items() if n.startswith("eval/") and len(s)]
        look = Look(history, max([int(run.logged_steps[-1]), *held_out]))
        self._looks += 1
        self._ask(watches, outcomes, look, rows, end=True)
        self._looks -= 1
        return _judgement(look, watches, outcomes, self.rules, self.suppressed)

    def _ask(self, watches: list[_Watch], outcomes: dict[str, Outcome], look: Look, rows: int, *, end: bool) -> None:
        for watch in watches:
            if watch.rule.last and self._looks % REST_EVERY and not end:
                continue
            if watch.rule.last and not look.said:
                look.said.update(m for w in watches if w.open is not None and not w.rule.last for m in w.open.metrics)
            outcome = outcomes[watch.rule.name] = watch.rule.judge(look)
            watch.see(outcome, look, rows, replay=self.replay)


def _past(run: Run, step: int | None) -> object:
    """What a run says up to a step, a number for each series: what comes late, or is written over, changes it."""
    if step is None:
        return None
    parts = ((name, s.until(step)) for name, s in run.series.items())
    said = {name: (hash(part.steps.tobytes()), hash(part.values.tobytes())) for name, part in parts if len(part)}
    return said, [c.step for c in run.checkpoints if c.step <= step]


def _standing(run: Run) -> tuple[object, ...]:
    """What looks at the past rest on beside the series: where it changes, they are taken again."""
    return (
        *(run.framework, run.framework_version, run.algorithm, run.declared),
        *(dict(run.knobs), len(run.events), run.budgets, run.marks),
    )


def judge(
    run: Run,
    *,
    replay: bool = True,
    rules: Sequence[Rule] = RULES,
    suppressed: Collection[str] = (),
) -> Judgement | None:
    """Judge a run at its last step, replaying the cadence of a live monitor on the way.

    Args:
        run: what was read.
        replay: False looks once, at the end: no hold time, no `detected_at`.
        rules: which rules to ask.
        suppressed: names of findings that are kept apart: they explain nothing and are no alarm.

    Returns None for a run without a logged row.
    """
    return Judge(rules, suppressed, replay=replay).see(run)


def _judgement(
    look: Look,
    watches: Sequence[_Watch],
    outcomes: dict[str, Outcome],
    rules: tuple[Rule, ...],
    suppressed: Collection[str],
) -> Judgement:
    """What stands after a look: symptoms beneath causes, what the user allows or suppressed apart."""
    run = look.history.run
    kept = [w.open for w in watches if w.open is not None] + [
        w.passed for w in watches if w.passed is not None and w.open is None and w.rule.severity > Severity.INFO
    ]
    for incident in kept:
        if incident.rule.last and incident.until is None:
            incident.near = _nearest(look.history, look.step, incident, rules)
    for incident in kept:
        incident.near += _by_own_measure(look, incident)
    quiet = tuple(i for i in kept if i.rule.name in suppressed)
    loud = [i for i in kept if i.rule.name not in suppressed]
    return Judgement(look, fold(loud, run, look.step), outcomes, rules, quiet)


def _by_own_measure(look: Look, incident: Incident) -> tuple[str, ...]:
    """Why the user allows what is found: a budget that is kept, or a healthy reference run that was like this."""
    metrics = set(incident.metrics)
    if not metrics or incident.severity >= Severity.CRITICAL:
        return ()
    budgets, reference = look.instrument(Budgets), look.instrument(ReferenceRun)
    kept = {h.reading.name for h in budgets.held if not h.over()} if isinstance(budgets, Budgets) else set()
    alike = (
        {n for n, (low, high, r) in reference.beside.items() if low <= r.level <= high}
        if isinstance(reference, ReferenceRun)
        else set()
    )
    if metrics <= kept:
        incident.allowed = True
        return ("it is within the budget that you set",)
    if metrics <= alike:
        incident.allowed = True
        return ("the reference run was there too",)
    return ()


def _nearest(history: History, step: int, incident: Incident, rules: Sequence[Rule]) -> tuple[str, ...]:
    """The patterns that look at what moved, and what each of them did not find."""
    moved = set(incident.metrics)
    near: list[tuple[int, str]] = []
    for rule in rules:
        if rule.last:
            continue
        look = Look(history, step)
        outcome = rule.judge(look)
        shared = moved & look.asked
        if not shared or len(look.asked) > NEAREST_ASKS:
            continue
        if isinstance(outcome, Unknown):
            near.append((len(shared), f"{rule.name} could not be asked: {outcome.reason}"))
            continue
        still = [n for n in sorted(look.asked - moved) if (r := look.find(n)) is not None and r.flat()]
        because = f"{', '.join(still[:2])} did not move" if still else "what moved did not meet its condition"
        near.append((len(shared) + bool(still), f"not {rule.name}: {because}"))
    return tuple(text for _, text in sorted(near, key=lambda n: -n[0])[:NEAREST])


def fold(incidents: list[Incident], run: Run, now: int) -> tuple[Incident, ...]:
    """Put symptoms beneath their causes; what a cause does not explain stays on top.

    What a symptom explains goes along with it. What has passed explains nothing that is still open.
    """
    first = run.first_step or 0
    slack = max(int(FOLD_SHARE * (now - first)), FOLD_ROWS)
    order = {r.name: i for i, r in enumerate(RULES)}
    top = sorted(incidents, key=lambda i: order.get(i.rule.name, 999))
    taken: set[int] = set()
    causes = sorted(
        (i for i in top if i.rule.explains),
        key=lambda i: (i.until is not None, -i.severity, -len(i.rule.explains)),
    )
    for cause in causes:
        if id(cause) in taken:
            continue
        links = [cause]
        for link in links:  # grows on the way
            for other in top:
                if other is cause or id(other) in taken or not _explains(cause, link, other, slack):
                    continue
                taken.add(id(other))
                cause.symptoms += [other, *other.symptoms]
                other.symptoms = []
                links.append(other)
    remaining = [i for i in top if id(i) not in taken]
    remaining.sort(
        key=lambda i: (-i.severity, i.until is not None, -CONFIDENCE.index(i.confidence), order.get(i.rule.name, 999))
    )
    return tuple(remaining)


def _explains(cause: Incident, link: Incident, other: Incident, slack: int) -> bool:
    """Whether a cause explains a finding, by itself or by a symptom of its (`link`), on this run."""
    if other.rule.name not in link.rule.explains or other.apart & {cause.rule.name, link.rule.name}:
        return False
    if cause.rule.name in other.rule.explains and len(other.rule.explains) > len(cause.rule.explains):
        return False
    if cause.audience == "pedantic" and other.audience == "default":
        return False  # nobody would see it
    # at second hand, or by a bound that the user set: nothing grave goes beneath a lesser finding
    if (link is not cause or other.rule.bound) and other.severity > cause.severity:
        return False
    if other.rule.bound and not set(other.metrics) <= set(link.metrics):
        return False
    return all(_in_time(by, other, slack) for by in (cause, link))


def _in_time(by: Incident, other: Incident, slack: int) -> bool:
    """Whether a finding can follow from another: not begun before it, nor after it had passed."""
    if by.until is not None and (other.until is None or (other.since or 0) > by.until):
        return False
    early = by.since is not None and other.since is not None and other.since < by.since - slack
    return not early or (other.until is not None and by.until is None)

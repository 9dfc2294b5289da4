"""What an alert says: a title for a lock screen, some lines of plain text, and a key by which it is sent once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from urllib.parse import quote

import numpy as np

from vario.rules.base import number
from vario.run import Run
from vario.surfaces.live.notices import Kind, Notice
from vario.surfaces.privacy import masked, safe
from vario.verdict import Diagnosis

NAME_SHOWN = 60
"""Characters of a run's name in a title: the end of a path tells runs apart."""
TITLE_SHOWN = 200
"""Characters of a title; what is longer is cut by the services, each at another place."""
LINE_SHOWN = 300
"""Characters of a line of the body: what is longer is cut at a word."""
FIRST_VALUES = 64
"""Series whose first values tell one run from another."""
ASIDE = (Kind.REVIEW, Kind.REPLACED, Kind.TROUBLE)
"""Kinds that say nothing of how the run does."""
FOLLOWING = {Kind.WORSENED: "worse: ", Kind.SURER: "surer: "}
"""What stands before the title of a finding that was told of already."""


@dataclass(frozen=True, slots=True)
class Alert:
    """Something for the people who should know; every text in it may leave the machine.

    Attributes:
        run, subject, kind, severity, confidence, step: as in the notice; `kind` is `digest` for several in one, and
            `test` for a trial.
        title: one line. body: some lines of plain text.
        key: of this alert among those of its run: the same for everyone who watches the run, and after a restart.
        at: seconds since 1970.
        link: where to look further; empty where no template was given.
        picture: a PNG; None without one.
    """

    run: str
    subject: str
    kind: str
    severity: str
    confidence: str
    step: int | None
    title: str
    body: str
    key: str
    at: float
    link: str = ""
    picture: bytes | None = field(default=None, repr=False)

    def document(self) -> dict[str, object]:
        """Everything but the picture, for JSON."""
        made = asdict(self)
        del made["picture"]
        return made


def alert_from(document: Mapping[str, object]) -> Alert:
    """The alert that `document` was made of, without its picture.

    Raises:
        ValueError: the document is none of an alert.
    """
    step, at = document.get("step"), document.get("at")
    words = [document.get(name) for name in ("run", "subject", "kind", "severity", "confidence")]
    texts = [document.get(name) for name in ("title", "body", "key")]
    known = all(isinstance(t, str) for t in (*words, *texts)) and isinstance(at, int | float)
    if not known or not (step is None or isinstance(step, int)):
        raise ValueError("no document of an alert")
    run, subject, kind, severity, confidence = map(str, words)
    title, body, key = map(str, texts)
    return Alert(
        run, subject, kind, severity, confidence, step, title, body, key, float(str(at)), str(document.get("link", ""))
    )


def alert_of(notice: Notice, diagnosis: Diagnosis | None, link: str = "") -> Alert:
    """The alert that tells of a notice.

    Args:
        notice: what happened.
        diagnosis: of the run at that look; None before the first.
        link: a template in which {run} and {step} are replaced.
    """
    run = clean(notice.run)
    where = _link(link, notice)
    lines = [clean(line) for line in notice.text.splitlines()]
    if diagnosis is not None and notice.kind not in ASIDE:
        lines += _verdict(diagnosis)
    if where:
        lines.append(where)
    return Alert(
        run,
        notice.subject,
        notice.kind.value,
        notice.severity,
        notice.confidence,
        notice.step,
        _title(run, notice),
        "\n".join(line for line in lines if line),
        key_of(notice, diagnosis),
        notice.at,
        where,
    )


def key_of(notice: Notice, diagnosis: Diagnosis | None) -> str:
    """The same for everyone who tells of the same event of the same run, whenever they look.

    A finding is known by the look at which it was detected, which a replay of the log finds again; a run by the first
    values that it logged: a training that is begun anew in the same place is another one.
    """
    at: object = notice.step
    finding = notice.finding
    if finding is not None:
        seen = finding.detected_at if finding.detected_at is not None else finding.since
        at = seen if finding.until is None else f"{seen}-{finding.until}"
    if notice.kind is Kind.TROUBLE:
        at = _digest(notice.text)
    return f"{notice.subject}:{notice.kind}:{notice.severity}:{at}:{fingerprint(diagnosis.run if diagnosis else None)}"


def fingerprint(run: Run | None) -> str:
    """A run by the first values that it logged, in eight characters; empty where there are none."""
    if run is None or run.first_step is None:
        return ""
    first = run.first_step
    values = [
        f"{s.key}={float(s.values[0])!r}"
        for s in run.series.values()
        if not s.counted and len(s) and int(s.steps[0]) == first and np.isfinite(s.values[0])
    ]
    return _digest(f"{first} {sorted(values)[:FIRST_VALUES]}")


def clean(text: str, most: int = LINE_SHOWN) -> str:
    """One line as it may leave the machine: without keys and control characters, and not without end."""
    line = safe(masked(" ".join(text.split())))
    return line if len(line) <= most else line[: most - 1].rsplit(" ", 1)[0] + "…"


def short_name(run: str) -> str:
    """A run's name for a title: the end of a long path."""
    return run if len(run) <= NAME_SHOWN else "…" + run[-NAME_SHOWN + 1 :]


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()


def _title(run: str, notice: Notice) -> str:
    said = clean(notice.title, TITLE_SHOWN).removeprefix(f"{run}: ")
    return clean(f"{short_name(run)}: {FOLLOWING.get(notice.kind, '')}{said}", TITLE_SHOWN)


def _verdict(diagnosis: Diagnosis) -> list[str]:
    verdict, best = diagnosis.verdict, diagnosis.verdict.best_checkpoint
    lines = [clean(f"Verdict: {verdict.action.replace('-', ' ')} ({verdict.confidence} confidence): {verdict.why}")]
    if best is not None:
        saved = {True: "saved", False: f"not saved, nearest is {best.nearest_saved}", None: ""}[best.saved]
        by = f"by {best.by} = {number(best.value)}"
        lines.append(clean(f"Best checkpoint: step {best.step} {by}{f' ({saved})' if saved else ''}"))
    return lines


def _link(template: str, notice: Notice) -> str:
    step = "" if notice.step is None else str(notice.step)
    return template.replace("{run}", quote(safe(masked(notice.run)), safe="")).replace("{step}", step)

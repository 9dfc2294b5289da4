"""What vario does by itself when it was told to: which findings suffice for which action, and what was done."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from vario.errors import ConfigError
from vario.surfaces.live.notices import CONFIDENCES, SEVERITIES, Kind, Notice

IN_TRAINER = ("stop", "checkpoint", "lower-learning-rate", "raise-kl")
"""Actions that only the process that trains can take."""
OUTSIDE = {"sentinel": "file", "command": "run", "webhook": "url"}
"""Actions that any process can take, and the word that says where or how."""
SUFFICES = (Kind.OPENED, Kind.WORSENED, Kind.SURER)


@dataclass(frozen=True, slots=True)
class Action:
    """An action and what suffices for it.

    Attributes:
        name: one of `IN_TRAINER` or `OUTSIDE`.
        severity, confidence: the least of each; both are the user's own words, there is no default.
        rules: names, codes or families that suffice; any rule where it is empty.
        target: the file, command or URL of an action outside the trainer.
    """

    name: str
    severity: str
    confidence: str
    rules: tuple[str, ...] = ()
    target: str = ""

    def suffices(self, notice: Notice) -> bool:
        """Whether what a notice tells is grave and sure enough."""
        finding = notice.finding
        if notice.kind not in SUFFICES or finding is None:
            return False
        named = {finding.name, finding.code, finding.code[:2]}
        return (
            SEVERITIES.index(finding.severity) >= SEVERITIES.index(self.severity)
            and CONFIDENCES.index(finding.confidence) >= CONFIDENCES.index(self.confidence)
            and (not self.rules or bool(named & set(self.rules)))
        )


@dataclass(frozen=True, slots=True)
class Act:
    """Something that is done, or would have been: with the evidence that it rests on."""

    action: str
    subject: str
    step: int | None
    severity: str
    confidence: str
    evidence: str
    target: str = ""
    detected_at: int | None = None

    @property
    def key(self) -> str:
        """What tells it from every other act on this run; the same for everybody who watches it."""
        where = hashlib.sha256(self.target.encode()).hexdigest()[:8] if self.target else ""
        return f"{self.action}:{where}:{self.subject}:{self.detected_at}"

    @property
    def text(self) -> str:
        """One line."""
        return f"{self.action} for {self.subject} at step {self.step} ({self.severity}, {self.confidence} confidence)"


@dataclass(frozen=True, slots=True)
class ActOptions:
    """What `[act]` asks for. `dry_run`: nothing is done, only told."""

    actions: tuple[Action, ...] = ()
    dry_run: bool = False


def act_options(table: Mapping[str, object], where: str = "[act]") -> ActOptions:
    """The actions of a table such as `stop = { severity = "critical", confidence = "high" }`.

    Raises:
        ConfigError: an unknown action or word, or one without a severity and a confidence.
    """
    dry = table.get("dry-run", False)
    if not isinstance(dry, bool):
        raise ConfigError(f"{where} dry-run is true or false, not {dry!r}")
    made = []
    for name, value in table.items():
        if name == "dry-run":
            continue
        if name not in (*IN_TRAINER, *OUTSIDE):
            near = get_close_matches(name, [*IN_TRAINER, *OUTSIDE], n=1)
            raise ConfigError(
                f"{where} knows no action {name!r}; "
                + (f"{near[0]}?" if near else f"it knows {', '.join((*IN_TRAINER, *OUTSIDE))}")
            )
        made += [_action(name, one, where) for one in (value if isinstance(value, list) else [value])]
    return ActOptions(tuple(made), dry)


def _action(name: str, value: object, where: str) -> Action:
    target_word = OUTSIDE.get(name)
    known = {"severity", "confidence", "rules", *([target_word] if target_word else [])}
    example = f'{name} = {{ severity = "critical", confidence = "high"' + (
        f', {target_word} = "…"' if target_word else ""
    )
    if not isinstance(value, Mapping) or not {"severity", "confidence"} <= set(value) or set(value) - known:
        raise ConfigError(f"{where} {name} needs a severity and a confidence, as in {example} }}")
    severity, confidence, rules = value["severity"], value["confidence"], value.get("rules", [])
    if severity not in SEVERITIES or confidence not in CONFIDENCES:
        raise ConfigError(
            f"{where} {name}: severity is one of {', '.join(SEVERITIES)}, confidence one of {', '.join(CONFIDENCES)}"
        )
    if not isinstance(rules, list | tuple) or not all(isinstance(r, str) for r in rules):
        raise ConfigError(
            f'{where} {name}: rules is a list of names, codes or families, as in ["reward-collapsed", "KL"]'
        )
    target = value.get(target_word, "") if target_word else ""
    if target_word and (not isinstance(target, str) or not target):
        raise ConfigError(f"{where} {name} needs {target_word}, as in {example} }}")
    return Action(name, str(severity), str(confidence), tuple(rules), str(target))


def acts_of(options: ActOptions, notice: Notice) -> Iterator[Act]:
    """What a notice suffices for."""
    for action in options.actions:
        if action.suffices(notice):
            yield Act(
                action.name,
                notice.subject,
                notice.step,
                notice.severity,
                notice.confidence,
                notice.text,
                action.target,
                None if notice.finding is None else notice.finding.detected_at,
            )

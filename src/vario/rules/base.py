"""What a rule is: typed instruments in, evidence out. The engine adds time, onset and confidence."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from vario.errors import NotReadable
from vario.instruments import Look, Reading
from vario.instruments.reading import PATIENCE

HEADINGS = (
    "What it shows",
    "Why it matters",
    "Evidence",
    "Looks like it but is not",
    "What to change",
    "How sure",
    "References",
)


class Severity(IntEnum):
    """What it costs if true."""

    INFO = 0
    WARNING = 1
    CRITICAL = 2

    @property
    def word(self) -> str:
        """Lower-case name."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Evidence:
    """One sentence with numbers and steps. `since` is the estimated first step of the change.

    `told` marks what a person said: it is no estimate, and need not hold over several looks.
    """

    text: str
    metrics: tuple[str, ...] = ()
    since: int | None = None
    told: bool = False


@dataclass(frozen=True, slots=True)
class Excluded:
    """A benign look-alike that was looked at and ruled out."""

    text: str


@dataclass(frozen=True, slots=True)
class Doubt:
    """Something that lowers the confidence on this run by one word."""

    text: str


@dataclass(frozen=True, slots=True)
class Grave:
    """The severity on this run, where it differs from the rule's own."""

    severity: Severity


@dataclass(frozen=True, slots=True)
class Aside:
    """True, and named, but nothing that the default audience needs on this run: why."""

    text: str


@dataclass(frozen=True, slots=True)
class Apart:
    """On this run this is no symptom of `cause`, which usually explains it: direction or size do not fit (say why)."""

    cause: str
    text: str


Sign = Evidence | Excluded | Doubt | Grave | Aside | Apart


@dataclass(frozen=True, slots=True)
class Turn:
    """Turn a knob: `factor` multiplies the current value, `to` replaces it; both may be absent."""

    knob: str
    why: str
    factor: float | None = None
    to: bool | int | float | str | None = None

    @property
    def how(self) -> str:
        """In words: `x 0.5`, `to True`, `by hand`."""
        if self.factor is not None:
            return f"x {self.factor:g}"
        return "by hand" if self.to is None else f"to {self.to}"


@dataclass(frozen=True, slots=True)
class Precedes:
    """What a precursor usually leads to, and the metric to watch meanwhile.

    `measured` says in how many labelled runs it did so, and how far ahead (bench/precursors.py); empty for folklore.
    """

    rule: str
    watch: str
    measured: str = ""

    @property
    def text(self) -> str:
        """One line."""
        return f"{self.rule} ({self.measured or 'folklore: not seen often enough to be measured'}); watch {self.watch}"


@dataclass(frozen=True, slots=True)
class Fires:
    """The pattern holds at this look."""

    signs: tuple[Sign, ...]


@dataclass(frozen=True, slots=True)
class Clear:
    """The pattern was looked for and is not there."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """It cannot be looked for: what is missing."""

    missing: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Broken:
    """The rule itself raised."""

    error: str


Outcome = Fires | Clear | Unknown | Broken


@dataclass(frozen=True)
class Rule:
    """A rule with its metadata. Call `judge(look)` for an outcome.

    Attributes:
        holds: consecutive looks for which it must hold before it is said.
        lasting: what happened once stays true (a spike, a NaN): never `until`.
        explains: names of rules that this one folds beneath itself as symptoms.
        pedantic: not for the default audience.
        precedes: for a precursor, what it usually leads to: alone it is at most of medium confidence.
        last: asked after the others, so that it knows what they have said (`Look.said`).
        bound: it holds the log against a bound of the user's own and names no pattern: it goes beneath a finding only
            where that one is as grave and speaks of the same metrics.
    """

    code: str
    name: str
    severity: Severity
    function: Callable[..., Iterator[Sign]]
    turns: tuple[Turn, ...] = ()
    causes: tuple[str, ...] = ()
    explains: tuple[str, ...] = ()
    holds: int = 2
    lasting: bool = False
    pedantic: bool = False
    last: bool = False
    precedes: tuple[Precedes, ...] = ()
    bound: bool = False
    instruments: tuple[tuple[type, bool], ...] = field(default=())

    @property
    def page(self) -> str:
        """The docstring of the rule's function."""
        return inspect.getdoc(self.function) or ""

    @property
    def summary(self) -> str:
        """First line of the page."""
        return self.page.split("\n", 1)[0]

    @property
    def references(self) -> tuple[str, ...]:
        """Lines under the heading References."""
        return tuple(line.strip("- ") for line in self.section("References").splitlines() if line.strip())

    def section(self, heading: str) -> str:
        """The text under a heading of the page."""
        parts = self.page.split(f"{heading}:\n", 1)
        if len(parts) < 2:
            return ""
        lines = []
        for line in parts[1].splitlines():
            if any(line.strip() == f"{h}:" for h in HEADINGS):
                break
            lines.append(line.strip())
        return "\n".join(lines).strip()

    def judge(self, look: Look) -> Outcome:
        """Fires, clear, unknown, or broken; never raises."""
        arguments: list[object] = []
        missing: list[str] = []
        reasons: list[str] = []
        try:
            for kind, optional in self.instruments:
                found = look.instrument(kind)
                if isinstance(found, NotReadable):
                    if not optional:
                        missing += found.missing
                        reasons.append(found.reason)
                    found = None
                arguments.append(found)
            if missing or reasons:
                return Unknown(tuple(dict.fromkeys(missing)), "; ".join(dict.fromkeys(reasons)))
            signs = tuple(self.function(*arguments))
        except NotReadable as error:
            return Unknown(tuple(error.missing), error.reason)
        except Exception as error:  # one rule that raises must not silence the others
            return Broken(f"{type(error).__name__}: {error}")
        return Fires(signs) if any(isinstance(s, Evidence) for s in signs) else Clear()


def rule(
    code: str,
    name: str,
    severity: Severity,
    *,
    turns: tuple[Turn, ...] = (),
    causes: tuple[str, ...] = (),
    explains: tuple[str, ...] = (),
    holds: int = 2,
    lasting: bool = False,
    pedantic: bool = False,
    last: bool = False,
    precedes: tuple[Precedes, ...] = (),
    bound: bool = False,
) -> Callable[[Callable[..., Iterator[Sign]]], Rule]:
    """Make a rule of a function whose parameters are instruments; `X | None` marks an optional one."""

    def made(function: Callable[..., Iterator[Sign]]) -> Rule:
        hints = typing.get_type_hints(function)
        hints.pop("return", None)
        wanted: list[tuple[type, bool]] = []
        for hint in hints.values():
            if isinstance(hint, types.UnionType):
                wanted.append((next(a for a in typing.get_args(hint) if a is not type(None)), True))
            else:
                wanted.append((hint, False))
        return Rule(
            code,
            name,
            severity,
            function,
            turns,
            causes,
            explains,
            holds,
            lasting,
            pedantic,
            last,
            precedes,
            bound,
            tuple(wanted),
        )

    return made


def required(reading: Reading | None, name: str) -> Reading:
    """A reading that this rule cannot do without, though its instrument can: missing, the rule is unknown."""
    if reading is None:
        raise NotReadable(name)
    return reading


def too_early(what: str, most: float, rows: int = PATIENCE) -> Iterator[Sign]:
    """A finding that a longer run may refute is information, and says what is not excluded yet.

    Args:
        what: what it would be: "a slow rise".
        most: how much of it there may be in so many `rows` at the pace so far.
        rows: how many.
    """
    yield Doubt(f"too early to exclude {what}: up to {number(most)} in {rows} rows at the pace so far")
    yield Grave(Severity.INFO)


def lower(knob: str, why: str, factor: float = 0.5) -> Turn:
    """Turn a knob down."""
    return Turn(knob, why, factor=factor)


def raise_(knob: str, why: str, factor: float = 2.0) -> Turn:
    """Turn a knob up."""
    return Turn(knob, why, factor=factor)


def set_(knob: str, to: bool | int | float | str | None, why: str) -> Turn:
    """Set a knob to a value (None: to be chosen by hand)."""
    return Turn(knob, why, to=to)


def number(value: float) -> str:
    """Three significant digits, the way people write them."""
    if value == 0.0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        text = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
        return f"{value:.0f}" if "e" in text else text
    return f"{value:.1e}"


def counted(count: int, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def percent(share: float) -> str:
    """A share as whole percent; one decimal below 2 %."""
    return f"{100 * share:.1f} %" if 0.0 < abs(share) < 0.02 else f"{100 * share:.0f} %"

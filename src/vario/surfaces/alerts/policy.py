"""Which notices become alerts, and when: the options of [alerts], read and checked.

[alerts]
to = ["env:VARIO_ALERTS", "trackio", "command:./page.sh", "file:ALERT.json"]
severity = "warning"                    # the least
confidence = "medium"                   # the least
rules = ["default", "entropy-collapsing", "EN"]   # names, codes, families; "critical": whatever is that grave
on = ["opened", "worsened", "resolved", "stalled", "resumed", "died", "lost", "review-due"]
cool-down = "30m"                       # the same finding is not told of again sooner, unless it is graver
digest = "1h"                           # what is not critical is gathered so long; "off": told at once
quiet = "22:00-07:00"                   # local time; what comes then is told in one message at its end
quiet-except = "critical"               # what is so grave is told at once; "nothing"
picture = true                          # a small PNG of the panels
link = "https://example.org/runs/{run}?step={step}"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from difflib import get_close_matches

from vario.errors import ConfigError
from vario.rules import RULES
from vario.rules.base import Rule
from vario.surfaces.live.notices import CONFIDENCES, SEVERITIES, Kind, Notice

FAMILIES = ("SG", "KL", "RW", "RU", "PF")
"""The learning signal, KL, reward, causes, and margin and accuracy: what a run is judged by."""
CRITICAL, DEFAULT = "critical", "default"
DEFAULT_RULES = (*FAMILIES, "run-stalled", CRITICAL)
LOSS_TRENDS = (
    "loss-discontinuity", "policy-loss-without-direction", "policy-loss-changed-sign", "value-loss-diverging",
)  # fmt: skip
"""A loss says little of an RL run's progress: no alert of these unless a rule list names them."""
FIRST = (Kind.OPENED, Kind.WORSENED, Kind.SURER)
"""Kinds by which a finding may come to be alerted of for the first time."""
DEFAULT_ON = (
    Kind.OPENED, Kind.WORSENED, Kind.RESOLVED, Kind.STALLED, Kind.RESUMED, Kind.DIED, Kind.LOST, Kind.REVIEW,
)  # fmt: skip
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SPAN = re.compile(r"(?:(\d+(?:\.\d+)?)\s*([smhd])\s*)+")
PART = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
QUIET = re.compile(r"\s*(\d\d?):(\d\d)\s*-\s*(\d\d?):(\d\d)\s*")
NOTHING = "nothing"
OPTIONS = (
    "to", "severity", "confidence", "rules", "on", "cool-down", "digest", "quiet", "quiet-except", "picture", "link",
)  # fmt: skip
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Quiet:
    """Hours of the day, local time, in which nobody is to be disturbed; they may cross midnight."""

    begins: time
    ends: time

    def seconds_left(self, now: float) -> float:
        """Seconds until the quiet hours that hold at `now` (seconds since 1970) end; 0 outside of them."""
        here = datetime.fromtimestamp(now).astimezone()
        clock = here.time()
        crosses = self.begins > self.ends
        inside = clock >= self.begins or clock < self.ends if crosses else self.begins <= clock < self.ends
        if not inside:
            return 0.0
        day = here.date() + timedelta(days=1 if crosses and clock >= self.begins else 0)
        # a local time without an offset: on the night of a changed clock it is the one on the wall
        return max(1.0, datetime.combine(day, self.ends).timestamp() - now)


@dataclass(frozen=True, slots=True)
class AlertOptions:
    """What [alerts] asks for; spans are in seconds.

    Attributes:
        to: words and addresses of channels. They may hold secrets, and are not shown.
        rules: names, codes, families, and `critical` for whatever is that grave.
        digest: seconds in which what is not critical is gathered; 0: told at once.
        quiet_except: severity from which quiet hours do not hold back; None: they hold back everything.
    """

    to: tuple[str, ...] = field(default=(), repr=False)
    severity: str = "warning"
    confidence: str = "medium"
    rules: tuple[str, ...] = DEFAULT_RULES
    on: tuple[Kind, ...] = DEFAULT_ON
    cool_down: float = 1800.0
    digest: float = 0.0
    quiet: Quiet | None = None
    quiet_except: str | None = CRITICAL
    picture: bool = True
    link: str = field(default="", repr=False)

    def wants(self, notice: Notice, *, alerted: bool) -> bool:
        """Whether a notice is to be told.

        Args:
            notice: what happened.
            alerted: whether an alert of its subject stands: sent, and nothing sent since that it is over.
        """
        if notice.kind in (Kind.RESOLVED, Kind.RESUMED):
            return alerted and notice.kind in self.on
        if notice.kind not in FIRST:
            return notice.kind in self.on
        kind_wanted = notice.kind in self.on or (not alerted and Kind.OPENED in self.on)
        return (
            kind_wanted
            and SEVERITIES.index(notice.severity) >= SEVERITIES.index(self.severity)
            and CONFIDENCES.index(notice.confidence) >= CONFIDENCES.index(self.confidence)
            and self._names(notice)
        )

    def disturbs(self, severity: str) -> bool:
        """Whether something so grave is told in quiet hours too."""
        return self.quiet_except is not None and SEVERITIES.index(severity) >= SEVERITIES.index(self.quiet_except)

    def _names(self, notice: Notice) -> bool:
        code = "" if notice.finding is None else notice.finding.code
        if {notice.subject, code} & set(self.rules):
            return True
        if notice.subject in LOSS_TRENDS:
            return False
        return code[:2] in self.rules or (CRITICAL in self.rules and notice.severity == CRITICAL)


def alert_options(table: Mapping[str, object], where: str = "[alerts]", rules: Iterable[Rule] = RULES) -> AlertOptions:
    """The options of a table; what it leaves out has its default.

    Args:
        table: as vario.toml holds it.
        where: the place that messages name.
        rules: those that can be named.

    Raises:
        ConfigError: an unknown option, rule or word, or a value that cannot be.
    """
    for name in table:
        _known(name, OPTIONS, f"{where} has no {name!r}")
    plain = AlertOptions()
    return AlertOptions(
        _words(where, table, "to", ("env:VARIO_ALERTS",), ()),
        _one_of(where, table, "severity", SEVERITIES, plain.severity),
        _one_of(where, table, "confidence", CONFIDENCES, plain.confidence),
        _rules(where, _words(where, table, "rules", ("default", "EN101"), (DEFAULT,)), tuple(rules)),
        _kinds(where, _words(where, table, "on", ("opened", "resolved"), plain.on)),
        seconds_of(where, "cool-down", table.get("cool-down", plain.cool_down)),
        seconds_of(where, "digest", table.get("digest", plain.digest)),
        _quiet(where, table.get("quiet")),
        _quiet_except(where, table),
        _flag(where, table, "picture", plain.picture),
        _link(where, table.get("link", "")),
    )


def seconds_of(where: str, name: str, value: object) -> float:
    """A span such as "90s", "30m" or "1h30m", in seconds; "off" is none.

    Raises:
        ConfigError: it is none.
    """
    if value == "off":
        return 0.0
    if isinstance(value, int | float) and not isinstance(value, bool) and 0.0 <= value < float("inf"):
        return float(value)
    if not isinstance(value, str) or not SPAN.fullmatch(value.strip()):
        raise ConfigError(f'{where} {name} is a span such as "30m", "1h30m" or "off", not {value!r}')
    return sum(float(count) * UNITS[unit] for count, unit in PART.findall(value))


def _known(word: str, known: Iterable[str], said: str) -> None:
    names = list(known)
    if word not in names:
        near = get_close_matches(word, names, n=1)
        raise ConfigError(f"{said}; " + (f"{near[0]}?" if near else f"it knows {', '.join(names)}"))


def _words(
    where: str, table: Mapping[str, object], name: str, example: tuple[str, ...], default: Iterable[str]
) -> tuple[str, ...]:
    value = table.get(name, list(default))
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) and v.strip() for v in value):
        shown = ", ".join(f'"{e}"' for e in example)
        raise ConfigError(f"{where} {name} is a list of words, as in {name} = [{shown}]")
    return tuple(str(v).strip() for v in value)


def _one_of(where: str, table: Mapping[str, object], name: str, known: tuple[str, ...], default: str) -> str:
    value = table.get(name, default)
    if value not in known:
        raise ConfigError(f"{where} {name} is one of {', '.join(known)}, not {value!r}")
    return str(value)


def _rules(where: str, words: tuple[str, ...], rules: tuple[Rule, ...]) -> tuple[str, ...]:
    names, codes = {r.name for r in rules}, {r.code for r in rules}
    families = {code[:2] for code in codes}
    made: list[str] = []
    for word in words:
        name, code = word.lower().replace("_", "-"), word.upper()
        if name == DEFAULT:
            made += DEFAULT_RULES
        elif name in names or name == CRITICAL:
            made.append(name)
        elif code in codes or code in families:
            made.append(code)
        else:
            near = get_close_matches(name, [*names, CRITICAL, DEFAULT], n=1)
            raise ConfigError(
                f"{where} rules: no rule is called {word!r}; "
                + (f"{near[0]}?" if near else "`vario rule` lists them all")
            )
    return tuple(dict.fromkeys(made))


def _kinds(where: str, words: tuple[str, ...]) -> tuple[Kind, ...]:
    for word in words:
        _known(word, list(Kind), f"{where} on knows no {word!r}")
    return tuple(dict.fromkeys(Kind(w) for w in words))


def _quiet(where: str, value: object) -> Quiet | None:
    if value is None or value == "off":
        return None
    found = QUIET.fullmatch(value) if isinstance(value, str) else None
    hours = [int(n) for n in found.groups()] if found else []
    if not hours or max(hours[0], hours[2]) > 23 or max(hours[1], hours[3]) > 59 or hours[:2] == hours[2:]:
        raise ConfigError(f'{where} quiet is two hours of the day, as in quiet = "22:00-07:00", not {value!r}')
    return Quiet(time(hours[0], hours[1]), time(hours[2], hours[3]))


def _quiet_except(where: str, table: Mapping[str, object]) -> str | None:
    word = _one_of(where, table, "quiet-except", (*SEVERITIES, NOTHING), CRITICAL)
    return None if word == NOTHING else word


def _flag(where: str, table: Mapping[str, object], name: str, default: bool) -> bool:
    value = table.get(name, default)
    if not isinstance(value, bool):
        raise ConfigError(f"{where} {name} is true or false, not {value!r}")
    return value


def _link(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f'{where} link is an address, as in link = "https://example.org/runs/{{run}}"')
    for placeholder in PLACEHOLDER.findall(value):
        if placeholder not in ("run", "step"):
            raise ConfigError(f"{where} link knows {{run}} and {{step}}, not {{{placeholder}}}")
    return value

"""Which rules are asked: the table, what a user leaves out of it or adds to it, and what is no news to them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from vario.errors import ConfigError
from vario.rules import RULES, find_rule
from vario.rules.base import Rule

GROUP = "vario.rules"
"""Entry-point group under which a package offers rules: each names a Rule, or a sequence of them."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Rules to ask, findings that are suppressed (name -> the user's reason), and packages that could not be loaded."""

    rules: tuple[Rule, ...] = RULES
    suppressed: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def find(self, name: str) -> Rule:
        """A rule of this choice, or of the table, by name or code; raises UnknownRule."""
        wanted = name.strip().lower().replace("_", "-")
        for rule in self.rules:
            if wanted in (rule.name, rule.code.lower()):
                return rule
        return find_rule(name)


def choose(
    *,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
    load: Sequence[Path] = (),
    suppress: Mapping[str, str] | None = None,
    said_in: Mapping[str, str] | None = None,
) -> Choice:
    """Make a choice of rules.

    Args:
        only: names, codes or two-letter families; empty for all.
        without: the same, left out.
        load: files with rules of the user's own; installed packages are found by their entry points.
        suppress: finding -> reason; a suppressed finding is kept apart, and no alarm.
        said_in: word -> the place where it stands, for the message about a wrong one.

    Raises:
        ConfigError: a word names no rule, a file cannot be loaded, or two rules have one name or code.
    """
    added, warnings = _installed()
    taken = {word for rule in RULES for word in (rule.name, rule.code)}
    for rule in [r for r in added if {r.name, r.code} & taken]:
        added.remove(rule)
        warnings.append(
            f"{rule.function.__module__}: a rule {rule.code} {rule.name} is there already; its own was left out"
        )
    for path in dict.fromkeys(p.resolve() for p in load):
        added += _from_file(path)
    rules = (*RULES, *added)
    _check_apart(rules)
    kept = [r for r in rules if not only or any(_named(r, word) for word in only)]
    kept = [r for r in kept if not any(_named(r, word) for word in without)]
    for word in (*only, *without, *(suppress or {})):
        _known(word, rules, (said_in or {}).get(word))
    reasons = {r.name: why for word, why in (suppress or {}).items() for r in rules if _named(r, word)}
    return Choice(tuple(kept), reasons, tuple(warnings))


def _named(rule: Rule, word: str) -> bool:
    said = word.strip().lower().replace("_", "-")
    return said in (rule.name, rule.code.lower(), rule.code[:2].lower())


def _known(word: str, rules: Sequence[Rule], place: str | None) -> None:
    if any(_named(rule, word) for rule in rules):
        return
    near = get_close_matches(word, [r.name for r in rules], n=1)
    where = f"{place}: " if place else ""
    raise ConfigError(
        f"{where}no rule is called {word!r}; " + (f"{near[0]}?" if near else "`vario rule` lists them all")
    )


def _check_apart(rules: Sequence[Rule]) -> None:
    seen: dict[str, Rule] = {}
    for rule in rules:
        for word in (rule.name, rule.code):
            other = seen.setdefault(word.lower(), rule)
            if other is not rule:
                raise ConfigError(
                    f"two rules are called {word}: {other.function.__module__}, {rule.function.__module__}"
                )


def _rules_in(values: Iterable[object]) -> list[Rule]:
    """Each rule once, under whichever names it stands; two of one name are two."""
    found: dict[int, Rule] = {}
    for value in values:
        for rule in value if isinstance(value, list | tuple) else (value,):
            if isinstance(rule, Rule):
                found[id(rule)] = rule
    return list(found.values())


def _from_file(path: Path) -> list[Rule]:
    specification = importlib.util.spec_from_file_location(f"vario_rules_{path.stem}", path)
    if specification is None or specification.loader is None or not path.is_file():
        raise ConfigError(f"{path}: no Python file of rules there")
    module = importlib.util.module_from_spec(specification)
    sys.modules[module.__name__] = module  # a dataclass of the file looks itself up there
    try:
        specification.loader.exec_module(module)
    except Exception as error:  # whatever a user's file raises is told as what it is
        del sys.modules[module.__name__]
        raise ConfigError(f"{path}: could not be loaded ({type(error).__name__}: {error})") from error
    own = [r for r in _rules_in(vars(module).values()) if r.function.__module__ == module.__name__]
    if not own:
        raise ConfigError(f"{path}: holds no rule; a rule is a function under @vario.rules.base.rule(...)")
    return own


def _installed() -> tuple[list[Rule], list[str]]:
    rules: list[Rule] = []
    warnings = []
    for entry in importlib.metadata.entry_points(group=GROUP):
        try:
            rules += _rules_in([entry.load()])
        except Exception as error:  # somebody's package must not silence the others
            warnings.append(f"the rules of {entry.value} could not be loaded ({type(error).__name__}: {error})")
    return rules, warnings

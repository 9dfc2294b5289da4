"""The table of rules by framework: which rule a framework's log can answer, and why not where it cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from answers import CONFIGURED, COUNTED, DECLARED, FED, FOREIGN, SOMETIMES, UNLOGGED, answer, fed_by_none
from page_parts import MADE, Column, by_title, columns, heads, instruments, kin, table

from vario.instruments import Record
from vario.rules import RULES, Rule
from vario.sources.dialects import DIALECTS

LEGEND = {
    FED: "the keys that it logs",
    SOMETIMES: "the same, only in some versions or configurations, or with a tracker beside it",
    CONFIGURED: "with the run's configuration beside its log",
    DECLARED: "once you declare what the log is held against: a budget, the model before RL, a healthy run",
    COUNTED: "needs samples: no key of it is known; it can be counted from completions",
    FOREIGN: "not this algorithm: it has no value function, no pairs, no groups, or samples nothing",
    UNLOGGED: "key not logged: the last table says which",
}
"""Every cell holds one of these."""
MOST_COLUMNS = 8
"""A table of more frameworks would not fit beside its rules."""


def by_framework_page(families: Mapping[str, str]) -> str:
    """Which rule can be fed by which framework; `families`: titles by the letters of the codes."""
    lines = [
        MADE,
        "",
        "# Rules by framework",
        "",
        "What answers a rule, framework by framework, as far as its dialect knows the keys:",
        "",
        *(f"- {mark} {meaning}" for mark, meaning in LEGEND.items()),
        "",
        "Where nothing answers it, the rule says *unknown*, and which metric would enable it. A rule that is answered may",
        "still need more to fire: its page lists what else it looks at. † goes through the whole record, and is always",
        "asked. A key that a dialect knows need not be logged by every trainer or version of the framework. An own loop",
        "feeds what it logs under a name that can mean one thing, or that is named with `--map`.",
    ]
    for title, dialects in kin().items():
        groups: dict[tuple[str, ...], list[Column]] = {}
        for column in columns(dialects):
            groups.setdefault(tuple(answer(r, column).mark for r in RULES), []).append(column)
        shown = list(groups.items())
        parts = -(-len(shown) // MOST_COLUMNS)
        size = -(-len(shown) // parts)
        for part in range(parts):
            piece = shown[part * size : (part + 1) * size]
            lines += ["", f"## {title}" + (f" ({part + 1} of {parts})" if parts > 1 else ""), ""]
            lines += _rules_by(piece, families)
    lines += ["", "## Fed by no framework", "", *_fed_by_none()]
    lines += ["", "## Keys that are not logged", "", *_not_logged()]
    return "\n".join(lines) + "\n"


def _rules_by(shown: list[tuple[tuple[str, ...], list[Column]]], families: Mapping[str, str]) -> Iterator[str]:
    """One table: a row for each rule, family by family, under heads that come again with each family."""
    place = {r.name: i for i, r in enumerate(RULES)}
    titles = [heads(group) for _, group in shown]
    rows: list[tuple[str, ...]] = []
    for family, title in families.items():
        rules = sorted((r for r in RULES if r.code.startswith(family)), key=lambda r: r.code)
        if rules and rows:
            rows.append((f"**{family}: {title}**", *(f"**{t}**" for t in titles)))
        rows += [(_linked(r) + _whole(r), *(marks[place[r.name]] for marks, _ in shown)) for r in rules]
    first = next(iter(families.items()))
    return table((f"{first[0]}: {first[1]}", *titles), rows)


def _fed_by_none() -> Iterator[str]:
    yield "No framework that has a dialect logs what these rules need. Log the metric from a callback of your own, and name"
    yield "its key with `--map METRIC=KEY`."
    rows = (
        (_linked(r), a.words, "the completions" if a.mark == COUNTED else "the model")
        for r, a in sorted(fed_by_none().items(), key=lambda item: item[0].code)
    )
    yield from ("", *table(("rule", "missing", "taken from"), rows))


def _not_logged() -> Iterator[str]:
    yield "Every ✗ of the tables above: what would have to be logged, and by which framework it is not."
    by_want: dict[tuple[tuple[str, str], ...], list[Rule]] = {}
    for rule in sorted(RULES, key=lambda r: r.code):
        wants: dict[str, list[Column]] = {}
        for column in columns(sorted(DIALECTS, key=by_title)):
            if (found := answer(rule, column)).mark == UNLOGGED:
                wants.setdefault(found.words, []).append(column)
        if wants:
            by_want.setdefault(tuple((w, heads(c)) for w, c in wants.items()), []).append(rule)
    rows = ((", ".join(map(_linked, rules)), *want) for wants, rules in by_want.items() for want in wants)
    yield from ("", *table(("rules", "missing", "not logged by"), rows))


def _linked(rule: Rule) -> str:
    return f"[{rule.name}](rules/{rule.name}.md)"


def _whole(rule: Rule) -> str:
    return " †" if Record in instruments(rule, optional=False) else ""

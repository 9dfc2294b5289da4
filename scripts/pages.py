#!/usr/bin/env python
"""Write the reference pages from the source, or check that they are what the source says.

    python scripts/pages.py write     # docs/rules/, docs/frameworks/, docs/metrics.md, docs/knobs.md,
                                      # docs/formats.md, docs/rule-by-framework.md,
                                      # docs/visual-language.md, docs/command-line.md, docs/schemas.md,
                                      # docs/instruments.md, docs/grafana/, site-theme/css/look.css
    python scripts/pages.py check     # exit 1, with a summary, where a page differs

Nothing here is a second copy of a fact: pages of rules are their docstrings; what keys and knobs mean comes
from the dialects, what formats are from the readers; what a rule needs is found by asking its instruments with
metrics taken away; what stands behind a framework is counted among the logs that the tests read; and Grafana's
dashboard and the alerting rules are made from the table of exported metrics.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from command_page import command_page
from format_page import formats_page
from framework_pages import framework_pages
from instruments_page import instruments_page
from key_words import in_words
from look_page import look_page
from page_parts import (
    MADE,
    ROOT,
    Column,
    alternatives,
    asked,
    by_title,
    code,
    default_in_words,
    defaults,
    heads,
    knobs_of,
    needs,
    spoken,
    table,
    title_of,
    trainers_of,
    without_empty,
)
from rule_by_framework import by_framework_page
from schema_page import schema_page

from vario.catalogue import KNOBS, METRICS, Metric
from vario.catalogue.own_words import EVENT_METRIC, OWN_WORDS, event_key
from vario.instruments import Record
from vario.rules import RULES, Rule
from vario.rules.base import HEADINGS, Turn
from vario.sources.dialects import DIALECTS
from vario.sources.dialects.base import Dialect
from vario.surfaces.charts.look import css_variables
from vario.surfaces.exporters.alert_rules import alert_rules_file
from vario.surfaces.exporters.grafana import dashboard_file

FAMILIES = {
    "RU": "the run",
    "RW": "reward",
    "SG": "learning signal",
    "KL": "KL",
    "CL": "clipping",
    "EN": "entropy",
    "LN": "length",
    "OP": "off-policy",
    "GR": "loss and gradients",
    "VF": "value function",
    "TX": "text",
    "PF": "preference",
    "SY": "systems",
    "DX": "not diagnosable",
}
MOST_COLUMNS = 8
"""A table of more frameworks would not fit beside its rules."""
MARKS = {"yes": "●", "depends": "○", "declared": "◆", "samples": "◇", "-": ""}


def _how(turn: Turn) -> str:
    if turn.factor is not None:
        return f"{'raise' if turn.factor > 1 else 'lower'} (x {turn.factor:g})"
    return "by hand" if turn.to is None else f"set to {turn.to}"


def _cases(rule: Rule) -> list[str]:
    path = ROOT / "tests" / "cases" / f"{rule.name}.md"
    if not path.is_file():
        return []
    return re.findall(r"^## +(.+?) *$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)


def rule_page(rule: Rule) -> str:
    """The page of one rule."""
    audience = "pedantic audience only" if rule.pedantic else "default audience"
    stays = "what happened once stays said" if rule.lasting else "passes when the pattern does"
    looks = f"said once it has held for {rule.holds} looks" if rule.holds > 1 else "said at the first look"
    lines = [
        MADE,
        "",
        f"# {rule.name}",
        "",
        f"`{rule.code}` · {rule.severity.word} · {FAMILIES[rule.code[:2]]} · {audience} · {looks} · {stays}",
        "",
        rule.summary,
    ]
    for heading in HEADINGS:
        lines += ["", f"## {heading}", "", *_section(rule, heading)]
    lines += ["", "## What it reads", ""]
    lines += table(
        ("instrument", "can be read with", "also looks at"),
        (
            (
                f"{kind.__name__} (optional)" if may else kind.__name__,
                alternatives(kind),
                code(m for m in asked(kind) if (m,) not in needs(kind)) or "-",
            )
            for kind, may in rule.instruments
        ),
    )
    if any(kind is Record for kind, _ in rule.instruments):
        lines += ["", "Record is the whole log: which metrics of it this rule goes through is said above in words."]
    if rule.explains:
        lines += ["", "## Folds beneath itself", ""]
        lines += [f"- [{name}]({name}.md)" for name in rule.explains]
    beneath = [r.name for r in RULES if rule.name in r.explains]
    if beneath:
        lines += ["", "## Can be folded beneath", ""]
        lines += [f"- [{name}]({name}.md)" for name in beneath]
    titles = _cases(rule)
    if titles:
        lines += ["", "## Cases", "", f"Tested in `tests/cases/{rule.name}.md`:", ""]
        lines += [f"- {title}" for title in titles]
    return "\n".join(lines) + "\n"


def _section(rule: Rule, heading: str) -> list[str]:
    text = rule.section(heading)
    if heading == "References":
        return [f"- {reference}" for reference in rule.references]
    lines = text.splitlines()
    if heading == "Why it matters" and rule.causes:
        lines += ["", "Likely causes:", "", *(f"- {cause}" for cause in rule.causes)]
    if heading == "What to change" and rule.turns:
        turns = ((f"[{t.knob}](../knobs.md#{t.knob})", _how(t), t.why) for t in rule.turns)
        lines += ["", "In this order:", "", *table(("knob", "turn", "why"), turns), *_keys_of(rule)]
    return lines


def _keys_of(rule: Rule) -> list[str]:
    """What the rule's knobs are called: a line for those frameworks and trainers that say the same."""
    knobs = tuple(dict.fromkeys(turn.knob for turn in rule.turns))
    lines: dict[tuple[str, ...], list[Column]] = {}
    for dialect in sorted(DIALECTS, key=by_title):
        for trainer in trainers_of(dialect):
            settings = knobs_of(dialect, trainer)
            cells = tuple(f"`{settings[k].key}`" if k in settings else "-" for k in knobs)
            lines.setdefault(cells, []).append(Column(dialect, trainer))
    shown = [(heads(group), *cells) for cells, group in lines.items() if set(cells) != {"-"}]
    return ["", "Called so; a framework that is not here has none of them:", "", *table(("framework", *knobs), shown)]


def index_page() -> str:
    """All rules by family."""
    count = f'{len(RULES)} rules. A name completes the sentence "this run shows …".'
    lines = [MADE, "", "# Rules", "", f"{count} `vario rule NAME` prints a page in the terminal."]
    for family, title in FAMILIES.items():
        rules = sorted((r for r in RULES if r.code.startswith(family)), key=lambda r: r.code)
        if not rules:
            continue
        lines += ["", f"## {family}: {title}", ""]
        lines += table(
            ("code", "name", "severity", "summary"),
            (
                (
                    r.code,
                    f"[{r.name}]({r.name}.md)",
                    r.severity.word + (" (pedantic)" if r.pedantic else ""),
                    r.summary,
                )
                for r in rules
            ),
        )
    return "\n".join(lines) + "\n"


def metrics_page() -> str:
    """All metrics, with the keys that the frameworks log them under."""
    lines = [
        MADE,
        "",
        "# Metrics",
        "",
        "Names are `quantity/aggregate/population`: the population is part of the name. `*` stands for the name of a",
        "reward function, a data set or a work beside the training. In keys, `*` is any name, `N` a number, `{a, b}` one of",
        "these, `[x]` a part that may be absent. What vario measures itself beside a run is read in every framework's log,",
        "where the framework's own key does not give it.",
        "A key with † means this only in some versions or configurations; where that cannot be settled for a run, the key",
        "is left unread and the diagnosis says so. [The page of a framework](frameworks/index.md) says when.",
        "",
        "Every metric can be logged under its own name, or named with `--map METRIC=KEY`.",
    ]
    for family in dict.fromkeys(m.family for m in METRICS.values()):
        lines += ["", f"## {family}"]
        for metric in (m for m in METRICS.values() if m.family == family):
            lines += ["", f"### {metric.name}", "", *_metric(metric)]
    return "\n".join(lines) + "\n"


def _metric(metric: Metric) -> Iterator[str]:
    kinds = sorted({k for r in RULES for k, _ in r.instruments}, key=lambda k: k.__name__)
    readers = ", ".join(k.__name__ for k in kinds if metric.name in asked(k))
    read = f"read by {readers}" if readers else "read by no rule yet"
    yield metric.meaning
    yield from ("", f"{metric.unit}, {_range(metric.low, metric.high)}; {read}")
    rows = [(d, _logged(d, metric.name)) for d in sorted(DIALECTS, key=by_title)]
    shown = [(f"[{title_of(d)}](frameworks/{d.name}.md)", keys) for d, keys in rows if keys]
    own = {**OWN_WORDS, event_key("NAME").replace("NAME", "*"): EVENT_METRIC}
    if mine := [key for key, meant in own.items() if meant == metric.name]:
        shown.append(("vario itself", code(mine)))
    if shown:
        yield from ("", *table(("framework", "key"), shown))


def _range(low: float, high: float) -> str:
    inf = float("inf")
    if (low, high) == (-inf, inf):
        return "any size"
    if high == inf:
        return f"from {low:g}"
    return f"up to {high:g}" if low == -inf else f"{low:g} to {high:g}"


def _logged(dialect: Dialect, metric: str) -> str:
    keys: dict[str, str] = {}
    for alias in dialect.aliases:
        if alias.metric == metric:
            for key in in_words(alias.key):
                keys.setdefault(key, f"`{key}`" + (" †" if alias.when is not None else ""))
    return ", ".join(keys.values())


def knobs_page() -> str:
    """All knobs, with the frameworks' keys and defaults."""
    lines = [
        MADE,
        "",
        "# Knobs",
        "",
        "Rules prescribe in these words; a diagnosis shows the key of the run's own framework with its current value.",
        "The default is that of the newest version that was read. A framework that is not in a table has no such key;",
        "trainers beyond the common ones are on [the page of their framework](frameworks/index.md).",
    ]
    for knob in KNOBS.values():
        users = sorted((r for r in RULES if any(t.knob == knob.name for t in r.turns)), key=lambda r: r.code)
        links = ", ".join(f"[{r.name}](rules/{r.name}.md)" for r in users)
        lines += ["", f"## {knob.name}", "", knob.meaning, "", f"Prescribed by: {links or 'no rule yet'}"]
        rows = []
        for dialect in sorted(DIALECTS, key=by_title):
            trainers = trainers_of(dialect)
            for (key, default), mine in defaults(dialect, trainers).get(knob.name, {}).items():
                only = "" if len(mine) == len(trainers) else ", ".join(map(spoken, mine))
                link = f"[{title_of(dialect)}](frameworks/{dialect.name}.md)"
                rows.append((link, f"`{key}`", default_in_words(default), only))
        if rows:
            lines += ["", *without_empty(("framework", "key", "default", "only for"), rows, 3)]
    return "\n".join(lines) + "\n"


def pages() -> dict[Path, str]:
    """Every generated page by its path inside the repository."""
    made = {Path("docs/rules") / f"{rule.name}.md": rule_page(rule) for rule in RULES}
    made[Path("docs/rules/index.md")] = index_page()
    made[Path("docs/metrics.md")] = metrics_page()
    made[Path("docs/knobs.md")] = knobs_page()
    made[Path("docs/rule-by-framework.md")] = by_framework_page(FAMILIES)
    made[Path("docs/formats.md")] = formats_page()
    made[Path("docs/visual-language.md")] = look_page()
    made[Path("docs/command-line.md")] = command_page()
    made[Path("docs/schemas.md")] = schema_page()
    made[Path("docs/instruments.md")] = instruments_page()
    made[Path("site-theme/css/look.css")] = f"{css_variables()}\n"
    made[Path("docs/grafana/vario.json")] = dashboard_file()
    made[Path("docs/grafana/alerts.yml")] = alert_rules_file()
    return made | framework_pages()


def _left_over(made: Mapping[Path, str]) -> list[Path]:
    """Pages of rules and frameworks that are gone."""
    there = [p for folder in ("rules", "frameworks") for p in sorted((ROOT / "docs" / folder).glob("*.md"))]
    return [p for p in there if p.relative_to(ROOT) not in made]


def write() -> int:
    """Write what has changed and remove the pages of what is gone."""
    made = pages()
    for left in _left_over(made):
        left.unlink()
        print(f"removed {left.relative_to(ROOT)}")
    for path, text in made.items():
        whole = ROOT / path
        if whole.is_file() and whole.read_text(encoding="utf-8") == text:
            continue
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
    return 0


def check() -> int:
    """Compare; 1 where a page differs from what the source says."""
    made = pages()
    stale = [f"  {p.relative_to(ROOT)}: there is no such rule or framework" for p in _left_over(made)]
    for path, text in made.items():
        whole = ROOT / path
        if not whole.is_file():
            stale.append(f"  {path}: missing")
            continue
        old = whole.read_text(encoding="utf-8")
        if old != text:
            diff = list(difflib.unified_diff(old.splitlines(), text.splitlines(), lineterm="", n=0))[3:]
            more, less = sum(d.startswith("+") for d in diff), sum(d.startswith("-") for d in diff)
            first = next(d for d in diff if d[:1] in "+-")
            stale.append(f"  {path}: +{more} -{less} lines, the first: {first[:100]}")
    if stale:
        print(f"{len(stale)} pages are not what the source says; run `python scripts/pages.py write`:")
        print("\n".join(stale))
        return 1
    print(f"{len(made)} pages are what the source says")
    return 0


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description="Write or check the generated pages of docs/.")
    parser.add_argument("command", choices=("write", "check"))
    return write() if parser.parse_args().command == "write" else check()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python
"""Write the reference pages from the source, or check that they are what the source says.

    python scripts/pages.py write     # docs/rules/, docs/metrics.md, docs/knobs.md, docs/rule-by-framework.md
    python scripts/pages.py check     # exit 1, with a summary, where a page differs

Nothing here is a second copy of a fact: pages of rules are their docstrings, the knobs' keys come
from the dialects, and what a rule needs is found by asking its instruments with metrics taken away.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

import numpy as np  # noqa: E402

from vario.catalogue import KNOBS, METRICS  # noqa: E402
from vario.errors import NotReadable  # noqa: E402
from vario.instruments import History, Look, Reading, Record  # noqa: E402
from vario.rules import RULES, Rule  # noqa: E402
from vario.rules.base import HEADINGS, Turn  # noqa: E402
from vario.run import Declared, KnobSetting, Run, Series  # noqa: E402
from vario.sources.dialects import DIALECTS  # noqa: E402
from vario.sources.dialects.base import Alias, Context, Dialect  # noqa: E402

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
MADE = "<!-- Made by `python scripts/pages.py write` from the source; edit the source. -->"
PROBE = "probe"
PROBE_POINTS = 60
ALGORITHMS: dict[str, tuple[str, ...]] = {"trl": ("grpo", "async-grpo", "rloo", "dpo", "ppo"), "generic": ("unknown",)}
"""What a framework gets a column for; the others get one for GRPO."""
PPO_KEY = re.compile(r"(ppo|objective|policy|val|tokens)/.*|loss/(policy|value)_avg")
"""Keys that, in TRL, only the PPO family of trainers logs; the alias table asks no algorithm for them."""
TITLES = {"trl": "TRL", "generic": "own loop", "unsloth": "Unsloth", "verl": "verl", "openrlhf": "OpenRLHF"}


@dataclass(frozen=True)
class Column:
    """A framework with one of its algorithms."""

    dialect: Dialect
    algorithm: str

    @property
    def title(self) -> str:
        """Head of the column."""
        name = TITLES.get(self.dialect.name, self.dialect.name)
        words = self.algorithm.replace("-", " ").upper().replace("ASYNC", "async")
        return name if self.algorithm == "unknown" else f"{name} {words}"

    @property
    def aliases(self) -> tuple[Alias, ...]:
        """Aliases that can hold in this algorithm."""
        found = [a for a in self.dialect.aliases if not a.algorithms or self.algorithm in a.algorithms]
        if self.dialect.name in ("trl", "unsloth") and self.algorithm != "ppo":
            found = [a for a in found if not PPO_KEY.fullmatch(a.key)]
        return tuple(found)

    def metrics(self, *, settled: bool) -> frozenset[str]:
        """Metrics that can be fed; `settled` leaves out those that hang on version or configuration."""
        return frozenset(a.metric for a in self.aliases if not settled or a.when is None)

    @property
    def knobs(self) -> Mapping[str, KnobSetting]:
        """The framework's keys, with their defaults."""
        return self.dialect.knobs(Context(frozenset(), MappingProxyType({}), self.algorithm, MappingProxyType({})))


def columns() -> tuple[Column, ...]:
    """Every framework that has a dialect, algorithm by algorithm."""
    return tuple(Column(d, a) for d in DIALECTS for a in ALGORITHMS.get(d.name, ("grpo",)))


# what a rule needs


class _Asked(Look):
    """A look that remembers which metrics it was asked for."""

    def __init__(self, history: History, step: int) -> None:
        super().__init__(history, step)
        object.__setattr__(self, "names", set())

    names: set[str]

    def find(self, name: str, *, least: int = 1) -> Reading | None:
        """As in Look."""
        self.names.add(name.replace(f"/component/{PROBE}/", "/component/*/"))
        return super().find(name, least=least)


def _look(metrics: Iterable[str], weight: float = 0.0) -> _Asked:
    steps = np.arange(1, PROBE_POINTS + 1, dtype=np.int64)
    values = np.asarray(0.4 + 0.01 * (steps % 7), dtype=np.float64)
    names = [m.replace("*", PROBE) for m in metrics]
    series = {n: Series(n, steps, values) for n in names}
    declared = Declared(component_weights=MappingProxyType({PROBE: weight}))
    run = Run("probe", "generic", "unknown", MappingProxyType(series), steps, declared=declared)
    return _Asked(History(run), PROBE_POINTS)


@cache
def readable(kind: type, metrics: frozenset[str], weight: float = 0.0) -> bool:
    """Whether an instrument can be read where these metrics are logged; `weight` is the reward function's."""
    return not isinstance(_look(metrics, weight).instrument(kind), NotReadable)


@cache
def asked(kind: type) -> tuple[str, ...]:
    """Every metric an instrument asks for, in the catalogue's order."""
    names: set[str] = set()
    left = set(METRICS)
    while True:
        # what was found is taken away, until it asks for nothing that is there
        look = _look(left)
        look.instrument(kind)
        names |= look.names
        if not look.names & left:
            break
        left -= look.names
    return tuple(m for m in METRICS if m in names)


@cache
def needs(kind: type) -> tuple[tuple[str, ...], ...]:
    """The smallest sets of metrics with which an instrument can be read; empty when it always can."""
    if readable(kind, frozenset()):
        return ()
    for size in (1, 2, 3):
        found = tuple(s for s in itertools.combinations(asked(kind), size) if readable(kind, frozenset(s)))
        if found:
            return found
    return ()


def instruments(rule: Rule, *, optional: bool) -> tuple[type, ...]:
    """The instruments a rule cannot do without, or those it takes where they are."""
    return tuple(kind for kind, may in rule.instruments if may == optional)


def fed(rule: Rule, column: Column) -> str:
    """Whether a framework's keys can answer what a rule needs: yes, depends, or `-`."""
    for settled, word in ((True, "yes"), (False, "depends")):
        if all(readable(k, column.metrics(settled=settled), 1.0) for k in instruments(rule, optional=False)):
            return word
    return "-"


# Markdown


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A Markdown table; pipes in cells are escaped."""
    titles = list(head)
    yield _row(titles)
    yield _row("---" for _ in titles)
    for row in rows:
        yield _row(row)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(c.replace('|', chr(92) + '|') for c in cells)} |"


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{w}`" for w in words)


def _how(turn: Turn) -> str:
    if turn.factor is not None:
        return f"{'raise' if turn.factor > 1 else 'lower'} (x {turn.factor:g})"
    return "by hand" if turn.to is None else f"set to {turn.to}"


def _by_column(cells: Mapping[Column, tuple[str, ...]]) -> list[tuple[str, tuple[str, ...]]]:
    """Heads and cells; columns that say the same stand under one head."""
    heads: dict[tuple[str, ...], list[str]] = {}
    for column, words in cells.items():
        heads.setdefault(words, []).append(column.title)
    return [(", ".join(titles), words) for words, titles in heads.items()]


def _with_knobs() -> tuple[Column, ...]:
    return tuple(c for c in columns() if c.knobs)


def _alternatives(kind: type) -> str:
    sets = needs(kind)
    if not sets:
        return "always readable"
    words = []
    for names in sets:
        needed = "" if readable(kind, frozenset(names), 1.0) else " (logged with weight 0)"
        words.append(" with ".join(f"`{m}`" for m in names) + needed)
    return " or ".join(words)


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
                _alternatives(kind),
                _code(m for m in asked(kind) if (m,) not in needs(kind)) or "-",
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
        keys = {c: tuple(_key(c, turn) for turn in rule.turns) for c in _with_knobs()}
        shown = _by_column(keys)
        head = ("knob", "turn", "why", *(title for title, _ in shown))
        rows = [
            (f"`{turn.knob}`", _how(turn), turn.why, *(cells[i] for _, cells in shown))
            for i, turn in enumerate(rule.turns)
        ]
        lines += ["", "In this order; `-`: no such key there.", "", *table(head, rows)]
    return lines


def _key(column: Column, turn: Turn) -> str:
    setting = column.knobs.get(turn.knob)
    return "-" if setting is None else f"`{setting.key}`"


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
    kinds = sorted({k for r in RULES for k, _ in r.instruments}, key=lambda k: k.__name__)
    lines = [
        MADE,
        "",
        "# Metrics",
        "",
        "Names are `quantity/aggregate/population`: the population is part of the name. `*` stands for the name of a",
        "reward function. A key with † means this only in some versions or configurations; where that cannot be",
        "settled for a run, the key is left unread and the diagnosis says so.",
    ]
    for family in dict.fromkeys(m.family for m in METRICS.values()):
        lines += ["", f"## {family}", ""]
        rows = []
        for metric in (m for m in METRICS.values() if m.family == family):
            readers = [k.__name__ for k in kinds if metric.name in asked(k)]
            rows.append(
                (
                    f"`{metric.name}`",
                    metric.unit,
                    _range(metric.low, metric.high),
                    metric.meaning,
                    *(_logged(d, metric.name) for d in DIALECTS),
                    ", ".join(readers) or "-",
                )
            )
        lines += table(("metric", "unit", "range", "meaning", *(d.name for d in DIALECTS), "read by"), rows)
    return "\n".join(lines) + "\n"


def _range(low: float, high: float) -> str:
    inf = float("inf")
    if (low, high) == (-inf, inf):
        return "any"
    if high == inf:
        return f"from {low:g}"
    return f"up to {high:g}" if low == -inf else f"{low:g} to {high:g}"


def _logged(dialect: Dialect, metric: str) -> str:
    keys: dict[str, str] = {}
    for alias in dialect.aliases:
        if alias.metric == metric:
            key = re.sub(r"\(\?P<part>.*\)", "*", alias.key)
            keys[key] = f"`{key}`" + (" †" if alias.when is not None else "")
    return ", ".join(keys.values()) or "-"


def knobs_page() -> str:
    """All knobs, with the frameworks' keys and defaults."""
    cells = {c: tuple(_default(c.knobs.get(knob)) for knob in KNOBS) for c in _with_knobs()}
    shown = _by_column(cells)
    lines = [
        MADE,
        "",
        "# Knobs",
        "",
        "Rules prescribe in these words; a diagnosis shows the key of the run's own framework with its current value.",
        "In brackets: the framework's default, in the newest version that was read. `-`: no such key there.",
        "",
    ]
    rows = []
    for i, knob in enumerate(KNOBS.values()):
        users = [r for r in RULES if any(t.knob == knob.name for t in r.turns)]
        links = ", ".join(f"[{r.code}](rules/{r.name}.md)" for r in users)
        rows.append((f"`{knob.name}`", knob.meaning, *(words[i] for _, words in shown), links or "-"))
    lines += table(("knob", "meaning", *(title for title, _ in shown), "prescribed by"), rows)
    return "\n".join(lines) + "\n"


def _default(setting: KnobSetting | None) -> str:
    if setting is None:
        return "-"
    return f"`{setting.key}` ({'not set' if setting.current is None else setting.current})"


def by_framework_page() -> str:
    """Which rule can be fed by which framework."""
    shown = _by_column({c: tuple(fed(r, c) for r in RULES) for c in columns()})
    place = {r.name: i for i, r in enumerate(RULES)}
    lines = [
        MADE,
        "",
        "# Rules by framework",
        "",
        "Whether the keys that a framework logs, as far as its dialect knows them, can answer what a rule cannot do",
        "without. *yes*: they can. *depends*: only in some versions or configurations. `-`: a key for it is not known,",
        "and the rule answers *unknown*. A rule of which a framework's log knows enough may still need more to fire:",
        "its page lists what else it looks at. † goes through the whole record, and is always asked.",
        "",
        "Samples and files beside the log are not counted here, and a key that a dialect knows need not be logged by",
        "every version of the framework.",
    ]
    for family, title in FAMILIES.items():
        rules = sorted((r for r in RULES if r.code.startswith(family)), key=lambda r: r.code)
        if not rules:
            continue
        lines += ["", f"## {family}: {title}", ""]
        head = ("rule", *(title for title, _ in shown))
        lines += table(head, ((_linked(r), *(words[place[r.name]] for _, words in shown)) for r in rules))
    return "\n".join(lines) + "\n"


def _linked(rule: Rule) -> str:
    mark = " †" if Record in instruments(rule, optional=False) else ""
    return f"[{rule.name}](rules/{rule.name}.md){mark}"


def pages() -> dict[Path, str]:
    """Every generated page by its path inside the repository."""
    made = {Path("docs/rules") / f"{rule.name}.md": rule_page(rule) for rule in RULES}
    made[Path("docs/rules/index.md")] = index_page()
    made[Path("docs/metrics.md")] = metrics_page()
    made[Path("docs/knobs.md")] = knobs_page()
    made[Path("docs/rule-by-framework.md")] = by_framework_page()
    return made


def _left_over(made: Mapping[Path, str]) -> list[Path]:
    return [p for p in sorted((ROOT / "docs" / "rules").glob("*.md")) if p.relative_to(ROOT) not in made]


def write() -> int:
    """Write what has changed and remove the pages of rules that are gone."""
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
    stale = [f"  {p.relative_to(ROOT)}: there is no such rule" for p in _left_over(made)]
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

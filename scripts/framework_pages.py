"""The pages of the frameworks, and where each one's test log comes from."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType

from answers import CONFIGURED, COUNTED, DECLARED, FED, FOREIGN, SOMETIMES, UNLOGGED, answer
from framework_howto import howto
from key_words import in_words
from page_parts import (
    MADE,
    ORIGINS,
    base_of,
    canonical,
    code,
    columns,
    default_in_words,
    defaults,
    kin,
    logs_of,
    module_of,
    nothing_known,
    paragraphs,
    spoken,
    table,
    title_of,
    told_apart,
    trainers_of,
    without_empty,
)

from vario.catalogue import KNOBS, METRICS, lookup
from vario.rules import RULES, Rule
from vario.sources.dialects import DIALECTS
from vario.sources.dialects.base import Alias, Dialect, Settled

STEP_UNITS = {
    "rollout": "one batch of rollouts",
    "optimiser": "one optimiser update",
    "unknown": "not said by the log: a batch of rollouts or an optimiser update",
}


# conditions


def _functions_in(function: object) -> Iterator[FunctionType]:
    """The function, and those that it was closed over: a condition asked in another framework's words."""
    if isinstance(function, tuple | list):
        for one in function:
            yield from _functions_in(one)
    elif isinstance(function, FunctionType):
        yield function
        for cell in function.__closure__ or ():
            yield from _functions_in(cell.cell_contents)


@cache
def _tree_of(function: FunctionType) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)).strip().rstrip(","))
    except (OSError, SyntaxError):
        return None


def _texts(node: ast.AST, names: Mapping[str, object]) -> Iterator[str]:
    """The texts that an argument can be; what is only known in the run is an ellipsis."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(v.value if isinstance(v, ast.Constant) else "…" for v in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Name) and isinstance(known := names.get(node.id), str):
        yield known
    elif isinstance(node, ast.IfExp):
        yield from (*_texts(node.body, names), *_texts(node.orelse, names))


def _calls(function: FunctionType) -> Iterator[tuple[ast.Call, object]]:
    """What a condition calls among the functions of the dialects, in the order of the text."""
    tree = _tree_of(function)
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Call)] if tree is not None else []
    for node in sorted(found, key=lambda n: (n.lineno, n.col_offset)):
        called = function.__globals__.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if getattr(called, "__module__", "").startswith("vario.sources.dialects"):
            yield node, called


def reasons(function: FunctionType) -> list[str]:
    """What a condition says where it does not hold, or cannot be settled."""
    found = [
        text
        for node, called in _calls(function)
        for argument in (node.args[1:] if called is Settled else node.args)
        for text in _texts(argument, function.__globals__)
        if " " in text.strip()
    ]
    return list(dict.fromkeys(found))


def _reasons_asked(function: FunctionType) -> list[str]:
    """Its own reasons; where it has none, those of the conditions that it asks."""
    return reasons(function) or [
        text for _, called in _calls(function) if isinstance(called, FunctionType) for text in reasons(called)
    ]


def _single_question(function: FunctionType) -> str:
    """What stands in `return Settled(…)`, where that is all that the condition does."""
    tree = _tree_of(function)
    body = tree.body[0].body if isinstance(tree, ast.Module) and isinstance(tree.body[0], ast.FunctionDef) else []
    if len(body) != 1 or not isinstance(body[0], ast.Return) or not isinstance(body[0].value, ast.Call):
        return ""
    return ast.unparse(body[0].value.args[0]).replace("context.", "") if body[0].value.args else ""


@cache
def condition_of(when: Callable[..., object]) -> str:
    """What a condition asks: its docstring, and in quotes what it says where it does not hold; else its name."""
    said: list[str] = []
    quoted: list[str] = []
    name = question = ""
    for function in _functions_in(when):
        first = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
        said += [first] if first else []
        quoted += _reasons_asked(function)
        if function.__name__.isidentifier() and function.__name__.startswith("_"):
            name, question = function.__name__.strip("_").replace("_", " "), _single_question(function)
    if not said and (name and not any(reasons(f) for f in _functions_in(when))):
        said = [f"Where it is so: {name}" + (f" (`{question}`)." if question and not quoted else ".")]
    if not said and not quoted:
        said = [f"Where it is so: {when.__qualname__.split('.')[0].strip('_').replace('_', ' ')}."]
    return " ".join([*dict.fromkeys(said), *(f"“{q}”." for q in dict.fromkeys(quoted))])


def algorithms_of(dialect: Dialect) -> tuple[str, ...]:
    """Every algorithm that the dialect knows of: told apart by its keys, seen in a log, or common."""
    return tuple(sorted(told_apart(dialect) | _seen(dialect) | set(trainers_of(dialect))))


def _seen(dialect: Dialect) -> set[str]:
    """The algorithms that the logs show."""
    seen = {log.run.algorithm for log in logs_of(dialect) if log.run.framework == dialect.name}
    return seen - {"unknown"}


def _names(algorithms: Iterable[str]) -> str:
    return ", ".join("others" if a == "unknown" else a for a in sorted(algorithms))


def _only(found: Iterable[str], every: tuple[str, ...]) -> str:
    """The algorithms that something holds for; nothing where it holds for all."""
    mine = set(found)
    return "" if mine >= set(every) else _names(mine)


# the page of one framework


def framework_page(dialect: Dialect) -> str:
    """The page of one framework."""
    lines = [MADE, "", f"# {title_of(dialect)}", "", *paragraphs(module_of(dialect).__doc__ or "")]
    base = base_of(dialect)
    if base is not None:
        lines += [
            "",
            f"It is built on [{title_of(base)}]({base.name}.md): keys and conditions of that page hold here too,",
        ]
        lines += ["where this page says nothing else."]
    lines += ["", f"In a diagnosis it is called `{dialect.name}`. It is recognised by: {_doc(dialect.recognises)}"]
    sections = (howto, _steps, _keys, _made_of_several, _no_metric, _knobs, _missing, _rules, _logs)
    for section in sections:
        lines += section(dialect)
    return "\n".join(lines) + "\n"


def _doc(function: Callable[..., object]) -> str:
    """A function's docstring in one line."""
    return " ".join((inspect.getdoc(function) or "").split())


def _steps(dialect: Dialect) -> Iterator[str]:
    every = algorithms_of(dialect)
    units: dict[str, set[str]] = {}
    for log in logs_of(dialect):
        if log.run.framework == dialect.name:
            units.setdefault(log.run.declared.step_unit, set()).add(log.run.algorithm)
    units = {unit: names & set(every) for unit, names in units.items() if names & set(every)}
    known = set().union(*units.values()) if units else set()
    for algorithm in set(every) - known:
        units.setdefault(dialect.declare(nothing_known(algorithm), {}).step_unit, set()).add(algorithm)
    yield from ("", "## What a step is", "")
    if len(units) == 1:
        yield f"Whatever the trainer: {STEP_UNITS[next(iter(units))]}."
    else:
        yield from (f"- {STEP_UNITS[unit]}: {_names(units[unit])}" for unit in sorted(units))
        if sum(map(len, units.values())) > len(set().union(*units.values())):
            yield from ("", "Where a trainer stands twice, it depends on the version or on what is logged beside it.")
    if dialect.axes:
        counted = ", ".join(f"`{axis.prefix}` by `{axis.key}`" for axis in dialect.axes)
        yield from ("", f"Counted by a step of their own, which is logged beside them: keys under {counted}.")


@dataclass(frozen=True)
class _Meaning:
    """Aliases that say the same of several keys."""

    metric: str
    algorithms: tuple[str, ...]
    condition: str
    note: str


def _note(alias: Alias) -> str:
    said = []
    if alias.transform is not None:
        what = _doc(alias.transform) or alias.transform.__name__.strip("_").replace("_", " ")
        said.append(f"turned: {what[0].lower()}{what[1:].rstrip('.')}")
    if alias.zero_is_missing:
        said.append("0 counts as not logged")
    return "; ".join(said)


def meanings(dialect: Dialect) -> list[tuple[_Meaning, list[str]]]:
    """Each thing that keys mean, with the keys as people read them; by family, else in the order in which they count."""
    rows: list[tuple[_Meaning, list[str]]] = []
    last: dict[str, int] = {}
    for alias in dialect.aliases:
        condition = condition_of(alias.when) if alias.when is not None else ""
        meaning = _Meaning(alias.metric, alias.algorithms, condition, _note(alias))
        words = in_words(alias.key)
        # keys stand in one row only where nothing that counts before them comes between
        row = last.get(alias.metric)
        if row is None or rows[row][0] != meaning or any(set(words) & set(keys) for _, keys in rows[row + 1 :]):
            row = last[alias.metric] = len(rows)
            rows.append((meaning, []))
        rows[row][1].extend(word for word in words if word not in rows[row][1])
    families = list(dict.fromkeys(m.family for m in METRICS.values()))
    return sorted(rows, key=lambda row: families.index(lookup(row[0].metric).family))


def _keys(dialect: Dialect) -> Iterator[str]:
    every, found = algorithms_of(dialect), meanings(dialect)
    conditions = {c: i for i, c in enumerate(dict.fromkeys(m.condition for m, _ in found if m.condition), 1)}
    yield from (
        "",
        "## What each key means",
        "",
        "`*` stands for any name, `N` for a number, `{a, b}` for one of these, `[x]` for a part that may be absent.",
        "A key can stand in several rows: the first row that holds counts. Of several keys for one metric the first that",
        "is logged counts. A number under *if* is a condition below the table; where a run does not settle it, the key is",
        "left unread and the diagnosis says so. Ranges are in [metrics](../metrics.md).",
    )
    if dialect.spell is not str:
        yield from ("", f"Keys are compared in one spelling, and stand here so. {_doc(dialect.spell)}")
    rows = []
    for meaning, keys in found:
        metric = lookup(meaning.metric)
        only = _only(meaning.algorithms, every) if meaning.algorithms else ""
        mark = str(conditions[meaning.condition]) if meaning.condition else ""
        rows.append((code(keys), f"`{meaning.metric}`", metric.unit, metric.meaning, only, mark, meaning.note))
    yield ""
    yield from without_empty(("key", "metric", "unit", "what it is", "only for", "if", "note"), rows, 4)
    if conditions:
        yield from ("", "Conditions; in quotes, what is said where the key is left unread:", "")
        yield from (f"{i}. {text}" for text, i in conditions.items())


def _made_of_several(dialect: Dialect) -> Iterator[str]:
    if dialect.derive is Dialect.__dataclass_fields__["derive"].default:
        return
    yield from ("", "## Made of several keys", "", _doc(dialect.derive))
    # the score on the only held-out set is made of that set, whatever the framework
    known = {canonical(a.metric) for a in dialect.aliases} | {"eval/score/mean"}
    mine = [log for log in logs_of(dialect) if log.run.framework == dialect.name]
    made = {canonical(m) for log in mine for m in log.run.series} - known
    several = [m for m in METRICS if m in made]
    if several:
        yield f"The logs below show so: {code(several)}."


def _no_metric(dialect: Dialect) -> Iterator[str]:
    if not dialect.ignored:
        return
    yield from ("", "## Known, and no metric", "")
    yield "These are logged too. vario knows them and reads nothing from them, for the reason beside them."
    yield ""
    yield from table(("keys", "why not"), ((code(in_words(p)), why) for p, why in dialect.ignored.items()))


def _knobs(dialect: Dialect) -> Iterator[str]:
    every = algorithms_of(dialect)
    found = defaults(dialect, every)
    yield from ("", "## Knobs", "")
    if not found:
        yield "Its configuration is its user's own: rules prescribe in words, without a key."
        return
    yield "What rules prescribe is called so here; the default is that of the newest version that was read."
    yield ""
    rows = []
    for knob in KNOBS:
        rows += [
            (f"[{knob}](../knobs.md#{knob})", f"`{key}`", default_in_words(default), _only(trainers, every))
            for (key, default), trainers in found.get(knob, {}).items()
        ]
    yield from without_empty(("knob", "key", "default", "only for"), rows, 3)


def _missing(dialect: Dialect) -> Iterator[str]:
    every = algorithms_of(dialect)
    found: dict[tuple[str, str], list[str]] = {}
    for algorithm in every:
        for metric, how in dialect.enable(nothing_known(algorithm)).items():
            found.setdefault((metric, how), []).append(algorithm)
    yield from ("", "## How to log what is missing", "")
    if not found:
        yield "Log it under its canonical name, or under a name of your own with `--map METRIC=KEY`;"
        yield "`vario metrics --known` lists the metrics."
        return
    order = list(METRICS)
    rows = [
        (f"`{metric}`", how, _only(algorithms, every))
        for (metric, how), algorithms in sorted(found.items(), key=lambda item: order.index(item[0][0]))
    ]
    yield from without_empty(("metric", "how", "only for"), rows, 2)


OTHERWISE = {
    SOMETIMES: "in some versions or configurations, or with a tracker",
    CONFIGURED: "with the run's configuration beside its log",
    DECLARED: "once you declare what it is measured by",
    COUNTED: "not from its keys; it can be counted from completions, and named with `--map`",
    FOREIGN: "not with this algorithm",
}


def _rules(dialect: Dialect) -> Iterator[str]:
    yield from ("", "## Which rules it feeds", "")
    yield "What the keys above can answer; [rules by framework](../rule-by-framework.md) shows all frameworks side by side."
    for column in columns((dialect,)):
        answers: dict[str, list[Rule]] = {}
        lacking: dict[str, list[Rule]] = {}
        for rule in RULES:
            found = answer(rule, column)
            answers.setdefault(found.mark, []).append(rule)
            if found.mark == UNLOGGED:
                lacking.setdefault(found.words, []).append(rule)
        if column.algorithm not in ("", "unknown"):
            yield from ("", f"### {spoken(column.algorithm)}")
        yield from ("", f"- yes: {len(answers.get(FED, ()))} of {len(RULES)} rules")
        for mark, said in OTHERWISE.items():
            if mark in answers:
                yield f"- {said}: {', '.join(map(_linked, answers[mark]))}"
        yield from (f"- not, for want of {metrics}: {', '.join(map(_linked, r))}" for metrics, r in lacking.items())


def _linked(rule: Rule) -> str:
    return f"[{rule.name}](../rules/{rule.name}.md)"


def _logs(dialect: Dialect) -> Iterator[str]:
    yield from ("", "## Logs that the tests read", "")
    mine = logs_of(dialect)
    if not mine:
        yield "None yet."
        return
    rows = (
        (
            f"`{log.path.as_posix()}`",
            log.origin,
            log.run.algorithm,
            log.run.framework_version or "-",
            str(log.run.logged_steps.size),
            str(len(log.run.series)),
        )
        for log in mine
    )
    yield from table(("log", "origin", "algorithm", "version told from it", "steps", "metrics"), rows)
    strangers = [log.path.name for log in mine if log.run.framework != dialect.name]
    if strangers:
        yield from (
            "",
            "These are told from another framework's only by the settings beside them, which the tests give:",
        )
        yield f"{code(strangers)}."


# the list


def frameworks_index() -> str:
    """All frameworks, and where each one's test log comes from."""
    lines = [
        MADE,
        "",
        "# Frameworks",
        "",
        f"{len(DIALECTS) - 1} frameworks and your own loop. A page says what each of a framework's keys means, and when; which",
        "keys are known and carry no metric; what the knobs are called; and how to log what is missing.",
        "A framework is recognised from the keys and settings of a run, never from a name. The trainers are those of the",
        "logs below and the common ones; a page may know more.",
        "",
        "How well a page is founded can be seen from the logs that the tests read:",
        "",
        *(f"- *{origin}*: {what}" for origin, what in ORIGINS.items()),
        "",
        "Every log is named on its framework's page. What the keys mean was read from the framework's sources in the",
        "versions that its page names.",
    ]
    for title, dialects in kin().items():
        lines += ["", f"## {title}", ""]
        lines += table(
            ("framework", "called", "trainers", *ORIGINS),
            (
                (
                    f"[{title_of(d)}]({d.name}.md)",
                    f"`{d.name}`",
                    _names(_seen(d) | set(trainers_of(d)) - {"unknown"}) or "-",
                    *(str(sum(log.origin == o for log in logs_of(d)) or "-") for o in ORIGINS),
                )
                for d in dialects
            ),
        )
    return "\n".join(lines) + "\n"


def framework_pages() -> dict[Path, str]:
    """Every page of a framework, and their list."""
    made = {Path("docs/frameworks") / f"{d.name}.md": framework_page(d) for d in DIALECTS}
    made[Path("docs/frameworks/index.md")] = frameworks_index()
    return made

"""The page of the instruments: what each reads, from which metrics, in which panel, and which rules ask it."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator

from page_parts import MADE, alternatives, asked, code, needs, paragraphs, table

from vario.instruments import INSTRUMENTS, Record
from vario.rules import RULES
from vario.surfaces.panels import HIDDEN, PANELS

OPENING = """
A rule never touches a curve. It asks instruments: typed readings of the run as it stands at one look, each made of a few
metrics. An instrument that cannot be read says which metric it lacks, and every rule that needs it then answers
*unknown*. [Concepts](concepts.md) says what becomes of the answers, and [metrics](metrics.md) under which key your
trainer logs each of them.

Every value that an instrument gives is measured against the run itself: where it started, how it moved, and how large
its noise is. The noise is taken with its memory, because the curves of real runs have one.

## Panels

Reports, the dashboard and the terminal show metrics in the same three panels, in the same order. A metric that a finding
rests on is shown wherever it belongs.
"""
EXPLAINED = {
    "primary": "is it learning, and what does it cost",
    "secondary": "how it learns",
    "tertiary": "what it is made of, and what it runs on",
}


def panel_of(metric: str) -> str:
    """The panel in which a metric stands; nothing where it stands in none."""
    if metric.endswith(HIDDEN):
        return ""
    return next((title for title, prefixes in PANELS if metric.startswith(prefixes)), "")


def instruments_page() -> str:
    """The panels, then the instruments by the file that they stand in."""
    lines = [MADE, "", "# Instruments", *OPENING.rstrip().splitlines(), ""]
    lines += table(("panel", "answers", "metrics that begin with"), ((t, EXPLAINED[t], code(p)) for t, p in PANELS))
    modules = dict.fromkeys(kind.__module__ for kind in INSTRUMENTS)
    for module in modules:
        lines += ["", f"## {_heading(module)}", "", *paragraphs(inspect.getdoc(sys.modules[module]) or "")]
        for kind in INSTRUMENTS:
            if kind.__module__ == module:
                lines += ["", f"### {kind.__name__}", "", *_instrument(kind)]
    return "\n".join(lines) + "\n"


def _heading(module: str) -> str:
    """The first words of a module's docstring, up to the colon."""
    first = (sys.modules[module].__doc__ or module).strip().splitlines()[0]
    head = first.partition(":")[0].strip(" .")
    return head if len(head) < 60 else module.rsplit(".", 1)[1].capitalize()


def _described(text: str) -> Iterator[str]:
    """A docstring; its attributes as a list."""
    head, _, attributes = text.partition("\nAttributes:\n")
    yield from paragraphs(head)
    if attributes:
        lines = re.sub(r"\n {5,}", " ", attributes.rstrip()).splitlines()
        lines = [part for line in lines for part in re.split(r"(?<=[.;]) (?=[a-z_]+(?:, [a-z_]+)*: )", line)]
        yield from ("", *(re.sub(r"^(\w+(?:, \w+)*):", r"- `\1`:", line.strip()) for line in lines))


def _instrument(kind: type) -> Iterator[str]:
    yield from _described(inspect.getdoc(kind) or "")
    yield from ("", f"Can be read with: {alternatives(kind)}.")
    if more := [m for m in asked(kind) if (m,) not in needs(kind)]:
        yield from ("", f"Also looks at: {code(more)}.")
    if kind is Record:
        yield from ("", "It is the whole log; which metrics of it a rule goes through is said on the rule's page.")
    shown = list(dict.fromkeys(p for m in asked(kind) if (p := panel_of(m))))
    if shown:
        yield from ("", f"Panel: {', '.join(shown)}.")
    users = sorted((r for r in RULES if any(k is kind for k, _ in r.instruments)), key=lambda r: r.code)
    links = ", ".join(f"[{r.name}](rules/{r.name}.md)" for r in users)
    yield from ("", f"Asked by: {links or 'no rule'}.")

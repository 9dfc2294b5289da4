"""The report as Markdown with its charts in files beside it: for pull requests and READMEs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from urllib.parse import quote

from vario.rules.base import number
from vario.surfaces import sentences
from vario.surfaces.charts.chart import Chart
from vario.surfaces.charts.names import brief, slug
from vario.surfaces.charts.standalone import svg_file
from vario.surfaces.pages.environment import harmless
from vario.surfaces.pages.view import View
from vario.verdict import Finding
from vario.verdict.serial import VERSION

SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~!$^])")
"""What GitHub's Markdown would read as something else than the character."""
LEADING = re.compile(r"^([-+=]|\d+(?=[.)]))")
"""What at the beginning of a line makes it a list or the line before a heading."""
CALLS = re.compile(r"(?<=@)|(?<=#)|(?<=:)(?=//)|(?<=www)(?=\.)|(?<=GH)(?=-\d)", re.IGNORECASE)
"""Where a person, an issue or an address would be linked after everything else is read: no backslash prevents it."""
NOTHING = "&#8203;"
"""A character without width."""


@dataclass(frozen=True, slots=True)
class Pages:
    """A text, and the files that it shows, by their names beside it."""

    text: str
    files: Mapping[str, bytes] = field(default_factory=dict)


def svg_bytes(chart: Chart) -> tuple[str, bytes]:
    """A chart as a file: its ending, and what is in it."""
    return "svg", svg_file(chart).encode()


def markdown_report(
    view: View, made: date, folder: str, draw: Callable[[Chart], tuple[str, bytes]] | None = svg_bytes
) -> Pages:
    """The text and its pictures.

    Args:
        view: what is shown. made: the day that it is dated with.
        folder: where the pictures will lie, as the text names it.
        draw: how a chart becomes a file; None for a text without pictures.
    """
    files: dict[str, bytes] = {}
    lines = [*_head(view), *_findings(view), *_charts(view, folder, draw, files), *_rest(view), *_foot(view, made)]
    return Pages("\n".join(lines).rstrip() + "\n", files)


def plain(text: object) -> str:
    """Text that Markdown shows as it is, on one line."""
    line = SPECIAL.sub(r"\\\1", " ".join(str(harmless(str(text))).split()).replace("&", "&amp;"))
    line = LEADING.sub(lambda m: f"{m[1]}\\" if m[1][0].isdigit() else f"\\{m[1]}", line)
    return CALLS.sub(NOTHING, line)


def _head(view: View) -> Iterator[str]:
    verdict = view.diagnosis.verdict
    yield f"## {sentences.action(verdict)}: {plain(brief(view.name, 240))}"
    yield ""
    yield f"{plain(sentences.heading(view.diagnosis))}; {verdict.confidence} confidence, trajectory {verdict.trajectory}, regime {verdict.regime}"
    yield ""
    yield plain(verdict.narrative)
    yield ""
    for name, text in sentences.facts(verdict):
        yield f"- **{name}**: {plain(text)}"
    yield ""


def _findings(view: View) -> Iterator[str]:
    if not view.marks:
        yield plain(view.no_finding)
        yield ""
    for mark in view.marks:
        yield from _finding(mark.letter, mark.finding, view.diagnosis.run.framework)
    if view.minor:
        yield "<details><summary>Also seen</summary>"
        yield ""
        yield from (f"- {f.name}: {plain(f.evidence[0] if f.evidence else f.summary)}" for f in view.minor)
        yield ""
        yield "</details>"
        yield ""


def _finding(letter: str, finding: Finding, framework: str) -> Iterator[str]:
    yield f"### {letter}. {finding.name} ({finding.severity}; {sentences.when_and_how_sure(finding)})"
    yield ""
    yield plain(finding.summary)
    yield ""
    yield from (f"- {plain(line)}" for line in finding.evidence)
    yield from (f"- ruled out: {plain(line)}" for line in finding.excluded)
    yield from (f"- change: {plain(sentences.change(turn, framework))}" for turn in finding.changes)
    if finding.symptoms:
        yield f"- explains: {', '.join(s.name for s in finding.symptoms)}"
    yield ""


def _charts(
    view: View, folder: str, draw: Callable[[Chart], tuple[str, bytes]] | None, files: dict[str, bytes]
) -> Iterator[str]:
    for title, charts in view.panels:
        yield f"### {title.capitalize()}"
        yield ""
        if draw is None:
            yield "| metric | start | now | shape |"
            yield "|---|---:|---:|---|"
            for chart in charts:
                reading = view.diagnosis.readings[chart.name]
                yield f"| {plain(chart.title)} | {number(reading.start)} | {number(reading.level)} | {reading.shape} |"
            yield ""
            continue
        for chart in charts:
            ending, data = draw(chart)
            name = f"{slug(chart.name)}.{ending}"
            files[name] = data
            yield f"![{plain(chart.sentence)}]({quote(folder)}/{name})"
            yield ""


def _rest(view: View) -> Iterator[str]:
    for title, lines in (
        ("Looks wrong but is fine", [f"{n.name}: {n.text}" for n in view.diagnosis.notes]),
        ("What would decide it", [f"{e.name}: {e.why}" for e in view.diagnosis.verdict.experiments]),
        ("What could not be seen", view.unseen),
        ("Trouble in reading", view.complaints),
    ):
        if lines:
            yield f"### {title}"
            yield ""
            yield from (f"- {plain(line)}" for line in lines)
            yield ""


def _foot(view: View, made: date) -> Iterator[str]:
    if view.blank:
        yield f"Without a single finite number: {', '.join(plain(brief(name)) for name in view.blank)}"
        yield ""
    yield f"<sub>vario {VERSION}, {made.isoformat()}</sub>"

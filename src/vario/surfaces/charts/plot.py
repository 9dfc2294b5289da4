"""A chart as SVG that stretches to any width: curves in a box of 1000 by 100, marks in percent, no text that distorts.

Every colour comes from a class, so that one drawing serves light and dark, screen and paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape as escaped

import numpy as np

from vario.run import Floats, Ints
from vario.surfaces.charts.chart import NOISE_SDS, Chart, Fan
from vario.surfaces.charts.marks import Mark
from vario.surfaces.privacy import safe

ACROSS, DOWN = 1000.0, 100.0
MOST_TICKS = 200
"""Checkpoints, or steps without a number, that are drawn one by one."""
LETTER, APART, ROWS = 17, 0.05, 7
"""Height of a letter in pixels, the share of the width within which two would lie on each other, and how many stand
below each other before they begin at the top again."""


def escape(text: str) -> str:
    """A text as SVG and HTML hold it, without marks that turn the direction of writing."""
    return escaped(safe(text))


def plot(chart: Chart) -> str:
    """The picture of a chart as an `<svg>` element; who shows it gives it a size and the classes their colours."""
    return (
        f'<svg class="plot" role="img" aria-label="{escape(chart.sentence)}" focusable="false">'
        f"{_box(_noise(chart))}{''.join(_stretches(chart))}{_box(_curves(chart))}{''.join(_marks(chart))}</svg>"
    )


def axis(chart: Chart) -> str:
    """The steps below a picture: its ends, and where the log ends and the forecast begins."""
    first, last, now = chart.span[0], chart.span[1], chart.whole[1]
    told = [f'<text x="0" y="13">step {first}</text>']
    if last > first:
        told.append(f'<text x="100%" y="13" text-anchor="end">{last}</text>')
    if chart.fan is not None and first < now < last:
        told.append(
            f'<text x="{_percent(chart, now)}" y="13" text-anchor="{"end" if chart.x(now) > 0.5 else "start"}">now {now}</text>'
        )
    return f'<svg class="steps" aria-hidden="true" focusable="false">{"".join(told)}</svg>'


def _box(inner: Iterable[str]) -> str:
    """Curves that stretch with the picture."""
    return (
        f'<svg viewBox="0 0 {ACROSS:.0f} {DOWN:.0f}" preserveAspectRatio="none" width="100%" height="100%">'
        f"{''.join(inner)}</svg>"
    )


def _noise(chart: Chart) -> Iterator[str]:
    if chart.trend_steps.size > 1:
        room = NOISE_SDS * chart.noise
        yield _area("noise", chart, chart.trend_steps, chart.trend - room, chart.trend + room)


def _curves(chart: Chart) -> Iterator[str]:
    if chart.fan is not None:
        yield from _fan(chart, chart.fan)
    c = chart.columns
    if c.single and len(c) > 1:
        yield _line("values", chart, c.first, c.mean)
    elif len(c) > 1:
        # a column reaches to the end of the one before it, so that a jump between two columns is drawn
        before = np.concatenate([c.mean[:1], c.mean[:-1]])
        yield _area("values dense", chart, c.first, np.minimum(c.least, before), np.maximum(c.most, before))
    elif len(c):
        yield f'<path class="values dot" d="M{_x(chart, int(c.first[0]))} {_y(chart, float(c.mean[0]))}h0"/>'
    if chart.trend_steps.size > 1:
        yield _line("trend", chart, chart.trend_steps, chart.trend)


def _fan(chart: Chart, fan: Fan) -> Iterator[str]:
    yield _area("fan", chart, fan.steps, fan.low, fan.high)
    yield _line("expected", chart, fan.steps, fan.level)


def _line(kind: str, chart: Chart, steps: Ints, values: Floats) -> str:
    return f'<path class="{kind}" d="{_path(chart, steps, values)}"/>'


def _area(kind: str, chart: Chart, steps: Ints, low: Floats, high: Floats) -> str:
    there, back = _path(chart, steps, high), _path(chart, steps[::-1], low[::-1])
    return f'<path class="{kind}" d="{there}L{back[1:]}Z"/>'


def _path(chart: Chart, steps: Ints, values: Floats) -> str:
    xs = np.clip((steps - chart.span[0]) * (ACROSS / max(1, chart.span[1] - chart.span[0])), -ACROSS, 2.0 * ACROSS)
    ys = np.clip((chart.high - values) * (DOWN / (chart.high - chart.low)), 0.0, DOWN)
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(xs.tolist(), ys.tolist(), strict=True))


def _x(chart: Chart, step: float) -> str:
    return f"{ACROSS * chart.x(step):.1f}"


def _y(chart: Chart, value: float) -> str:
    return f"{DOWN * chart.y(value):.1f}"


def _percent(chart: Chart, step: float) -> str:
    return f"{100.0 * chart.x(step):.2f}%"


def _stretches(chart: Chart) -> Iterator[str]:
    """How long each finding held on this metric, and where the best step may lie, behind the curves."""
    for mark in chart.marks:
        finding = mark.finding
        if finding.since is None:
            continue
        end = finding.until if finding.until is not None else chart.whole[1]
        first, last = max(finding.since, chart.span[0]), min(end, chart.span[1])
        if last > first:
            wide = 100.0 * (chart.x(last) - chart.x(first))
            yield (
                f'<rect class="held {finding.severity}" x="{_percent(chart, first)}" y="0" '
                f'width="{wide:.2f}%" height="100%"/>'
            )
    if chart.best is not None:
        first, last = max(chart.best.low, chart.span[0]), min(chart.best.high, chart.span[1])
        if last >= first:
            wide = max(100.0 * (chart.x(last) - chart.x(first)), 0.2)
            yield f'<rect class="best" x="{_percent(chart, first)}" y="0" width="{wide:.2f}%" height="100%"/>'


def _marks(chart: Chart) -> Iterator[str]:
    ticks = [step for step in chart.checkpoints if _inside(chart, step)]
    yield from _ticks("checkpoint", chart, ticks)
    bad = chart.bad[(chart.bad >= chart.span[0]) & (chart.bad <= chart.span[1])].tolist()
    yield from _ticks("bad", chart, bad)
    if chart.best is not None and _inside(chart, chart.best.step):
        yield _upright("best-step", chart, chart.best.step)
        at = _percent(chart, chart.best.step)
        yield (
            f'<g class="letter good"><title>best step {chart.best.step}, between {chart.best.low} and {chart.best.high}'
            f'</title><circle cx="{at}" cy="88%" r="8"/><text x="{at}" y="88%">★</text></g>'
        )
    if chart.fan is not None and _inside(chart, chart.whole[1]):
        yield _upright("now", chart, chart.whole[1])
    for mark in chart.others:
        if mark.finding.since is not None and mark.finding.until is None and _inside(chart, mark.finding.since):
            yield _upright(f"elsewhere {mark.finding.severity}", chart, mark.finding.since)
    for mark, row in zip(chart.marks, _rows(chart), strict=True):
        yield from _marked(chart, mark, row)


def _rows(chart: Chart) -> Sequence[int]:
    """In which row each letter stands, so that none hides another that began near it."""
    placed: list[tuple[float, int]] = []
    for mark in chart.marks:
        x = chart.x(mark.finding.since) if mark.finding.since is not None else -1.0
        taken = {row for at, row in placed if abs(at - x) < APART}
        placed.append((x, next((row for row in range(ROWS) if row not in taken), len(placed) % ROWS)))
    return [row for _, row in placed]


def _marked(chart: Chart, mark: Mark, row: int) -> Iterator[str]:
    """A full line where it began, a broken one where it was seen, a dotted one where it ended, and its letter."""
    finding = mark.finding
    for kind, step in (("since", finding.since), ("seen", finding.detected_at), ("until", finding.until)):
        if step is not None and _inside(chart, step):
            yield _upright(f"{kind} {finding.severity}", chart, step)
    if finding.since is not None and _inside(chart, finding.since):
        at, y = _percent(chart, finding.since), LETTER * row + 9
        yield (
            f'<g class="letter {finding.severity}"><title>{escape(f"{mark.letter}: {finding.name}, {mark.when}")}</title>'
            f'<circle cx="{at}" cy="{y}" r="8"/><text x="{at}" y="{y}">{mark.letter}</text></g>'
        )


def _upright(kind: str, chart: Chart, step: int) -> str:
    at = _percent(chart, step)
    return f'<line class="{kind}" x1="{at}" x2="{at}" y1="0" y2="100%"/>'


def _ticks(kind: str, chart: Chart, steps: Iterable[int]) -> Iterator[str]:
    for step in list(steps)[:MOST_TICKS]:
        at = _percent(chart, step)
        yield f'<line class="{kind}" x1="{at}" x2="{at}" y1="94%" y2="100%"/>'


def _inside(chart: Chart, step: int) -> bool:
    return chart.span[0] <= step <= chart.span[1]

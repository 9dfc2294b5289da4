"""Values of metrics around a step, for agents."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np

from vario.catalogue import METRICS, lookup
from vario.errors import ConfigError
from vario.rules.base import counted, number
from vario.run import Floats, Ints, Run, Series
from vario.surfaces.mcp.shapes import Point, RunHead, SeriesAnswer, SeriesShape, UnknownMetric
from vario.surfaces.panels import named

MOST_POINTS = 60
MOST_METRICS = 12
NEAREST = 5
EXPENDABLE = ("series", "unknown")


def series_answer(run: Run, head: RunHead, metrics: Sequence[str], step: int | None, width: int) -> SeriesAnswer:
    """The values from `step - width` to `step + width`, as far as the run has steps; at its end where no step is named.

    Raises:
        ConfigError: no metric was named, too many were, or the run has none of them.
    """
    if not metrics or len(metrics) > MOST_METRICS:
        raise ConfigError(f"metrics: name 1 to {MOST_METRICS} of them; this run has {_some(run)}")
    middle = step if step is not None else run.last_step or 0
    first, last = middle - width, middle + width
    if run.first_step is not None and run.last_step is not None and first <= run.last_step and last >= run.first_step:
        first, last = max(first, run.first_step), min(last, run.last_step)
    found, unknown = [], []
    for asked in dict.fromkeys(metrics):
        name = named(run, asked)
        if name is None:
            unknown.append(UnknownMetric(asked=asked, nearest=_nearest(run, asked), enable=_how(run, asked)))
        else:
            found.append(_shape(name, run.series[name], first, last))
    if not found:
        told = "; ".join(_unknown(one) for one in unknown)
        raise ConfigError(f"this run has no {told}")
    return SeriesAnswer(run=head, from_step=first, to_step=last, series=found, unknown=unknown)


def _nearest(run: Run, asked: str) -> list[str]:
    names = {name.lower(): name for name in run.series} | {s.key.lower(): n for n, s in run.series.items()}
    word = asked.strip().lower()
    near = [names[n] for n in names if word and (word in n or n in word)]
    near += [names[n] for n in get_close_matches(word, names, n=NEAREST, cutoff=0.4)]
    return list(dict.fromkeys(near))[:NEAREST]


def _how(run: Run, asked: str) -> str:
    """How a metric that vario knows and this run lacks would come to be logged."""
    if asked in run.enable:
        return run.enable[asked]
    return "known to vario, and not logged by this run" if asked in METRICS else ""


def _unknown(one: UnknownMetric) -> str:
    near = f" (nearest: {', '.join(one.nearest)})" if one.nearest else ""
    return f"{one.asked}{near}" + (f", {one.enable}" if one.enable else "")


def _some(run: Run) -> str:
    names = list(run.series)
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _shape(name: str, series: Series, first: int, last: int) -> SeriesShape:
    begin, end = np.searchsorted(series.steps, [first, last + 1])
    steps, values = series.steps[begin:end], series.values[begin:end]
    finite = np.isfinite(values)
    parts = np.array_split(np.arange(steps.size), min(MOST_POINTS, steps.size)) if steps.size else []
    points = [_point(steps[part], values[part]) for part in parts]
    metric = lookup(name)
    return SeriesShape(
        metric=name,
        key=series.key,
        unit=metric.unit,
        meaning=metric.meaning,
        counted=series.counted,
        logged=int(steps.size),
        not_finite=int((~finite).sum()),
        thinned=steps.size > MOST_POINTS,
        points=points,
    )


def _point(steps: Ints, values: Floats) -> Point:
    good = values[np.isfinite(values)]
    if steps.size == 1:
        return Point(step=int(steps[0]), value=_rounded(float(good[0])) if good.size else None)
    if not good.size:
        return Point(step=int(steps[0]), value=None, to_step=int(steps[-1]), values=int(steps.size))
    with np.errstate(over="ignore"):  # a mean of the largest numbers may overflow: then it is none
        mean = float(good.mean())
    return Point(
        step=int(steps[0]),
        value=_rounded(mean),
        to_step=int(steps[-1]),
        least=_rounded(float(good.min())),
        most=_rounded(float(good.max())),
        values=int(steps.size),
    )


def _rounded(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None


def series_text(answer: SeriesAnswer) -> str:
    """The series in a line each."""
    lines = [f"{answer.run.id}, steps {answer.from_step} to {answer.to_step}"]
    for one in answer.series:
        if not one.points:
            lines.append(f"- {one.metric} ({one.key}): no value there")
            continue
        a, b = one.points[0], one.points[-1]
        told = " -> ".join("not finite" if p.value is None else number(p.value) for p in (a, b))
        bad = f", {one.not_finite} not finite" if one.not_finite else ""
        lines.append(f"- {one.metric} ({one.key}, {one.unit}): {told} in {counted(one.logged, 'value')}{bad}")
    return "\n".join(lines + [f"- unknown: {_unknown(one)}" for one in answer.unknown])

"""`vario metrics PATH`: which key became which metric, what was not read, what is missing."""

from __future__ import annotations

import json
import textwrap

from vario.catalogue import METRICS, lookup
from vario.rules.base import counted
from vario.run import Run
from vario.surfaces.privacy import safe

WIDTH = 80
_STEPS = {
    "rollout": "a step is one batch of rollouts",
    "optimiser": "a step is one optimiser update",
    "unknown": "whether a step is a batch of rollouts or an optimiser update is not known",
}


def metrics_page(run: Run, *, as_json: bool = False) -> str:
    """The page as text, or as one JSON document."""
    if as_json:
        return json.dumps(
            {
                "framework": run.framework,
                "framework_version": run.framework_version,
                "algorithm": run.algorithm,
                "metrics": {n: {"key": s.key, "points": len(s), "unit": lookup(n).unit} for n, s in run.series.items()},
                "unsettled": dict(run.unsettled),
                "unmapped": list(run.unmapped),
                "ignored": dict(run.ignored),
                "step_unit": run.declared.step_unit,
                "missing": run.missing(),
                "knobs": {
                    k: {"key": v.key, "current": v.current, "is_default": v.is_default} for k, v in run.knobs.items()
                },
            },
            ensure_ascii=False,
        )
    version = f" {run.framework_version}" if run.framework_version else ", version not known"
    lines = [
        safe(f"{run.path}: {run.framework}{version}, {run.algorithm}"),
        _STEPS[run.declared.step_unit],
        "",
        "recognised",
    ]
    for name, series in run.series.items():
        metric = lookup(name)
        lines.append(f"  {safe(name)[:38]:38} <- {safe(series.key)} ({counted(len(series), 'point')}, {metric.unit})")
    if run.unsettled:
        lines += ["", "not settled: no metric is made of a guess"]
        lines += [
            textwrap.fill(safe(f"{k}: {w}"), WIDTH, initial_indent="  ", subsequent_indent="    ")
            for k, w in run.unsettled.items()
        ]
    if run.unmapped:
        lines += [
            "",
            "not recognised",
            textwrap.fill(safe(", ".join(run.unmapped)), WIDTH, initial_indent="  ", subsequent_indent="  "),
        ]
    if run.ignored:
        lines += ["", "known, and no metric"]
        reasons: dict[str, list[str]] = {}
        for key, why in run.ignored.items():
            reasons.setdefault(why, []).append(key)
        lines += [
            textwrap.fill(safe(f"{why}: {', '.join(keys)}"), WIDTH, initial_indent="  ", subsequent_indent="    ")
            for why, keys in reasons.items()
        ]
    if run.missing():
        lines += ["", f"missing, and how {run.framework} would log it"]
        lines += [
            textwrap.fill(f"{k}: {w}", WIDTH, initial_indent="  ", subsequent_indent="    ")
            for k, w in run.missing().items()
        ]
    known = [k for k in run.knobs.values() if not k.is_default]
    if known:
        lines += ["", "configuration"]
        lines += [safe(f"  {k.knob:24} {k.key} = {k.current}")[:WIDTH] for k in known]
    return "\n".join(lines)


def known_metrics(*, as_json: bool = False) -> str:
    """Every canonical metric with its unit and meaning."""
    if as_json:
        known = [{"name": m.name, "unit": m.unit, "meaning": m.meaning} for m in METRICS.values()]
        return json.dumps({"metrics": known}, ensure_ascii=False, indent=2)
    return "\n".join(
        textwrap.fill(f"{m.name} ({m.unit}): {m.meaning}", WIDTH, subsequent_indent="    ") for m in METRICS.values()
    )

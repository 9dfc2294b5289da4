"""`diagnosis/v1` as plain values, ready for JSON. NaN and infinities become null."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from vario.verdict.diagnosis import SCHEMA, Diagnosis, Finding
from vario.verdict.risk import Risk
from vario.verdict.upside import Upside

VERSION = "0.1.0"
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def plain(value: object) -> Json:
    """A value as JSON can hold it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    raise TypeError(f"{type(value).__name__} does not belong in a diagnosis")


def finding_json(finding: Finding) -> dict[str, object]:
    """A finding as it stands in the document, its symptoms beneath it."""
    made: dict[str, object] = {
        k: getattr(finding, k)
        for k in (
            "code",
            "name",
            "severity",
            "confidence",
            "audience",
            "since",
            "detected_at",
            "until",
            "evidence",
            "metrics",
            "excluded",
            "causes",
        )
    }
    made["changes"] = [
        {
            "knob": c.knob,
            "key": c.key,
            "current": c.current,
            "suggested": c.suggested,
            "why": c.why,
            "assumed": c.assumed,
        }
        for c in finding.changes
    ]
    made["references"] = finding.references
    if finding.precedes:
        made["precedes"] = [{"name": p.rule, "watch": p.watch, "measured": p.measured} for p in finding.precedes]
    if finding.read is not None:
        made["read"] = {
            "what": finding.read.what,
            "samples": [{"step": step, "number": number} for step, number in finding.read.samples],
        }
    if finding.dossier is not None:
        made["dossier"] = {
            "step": finding.dossier.step,
            "compared": finding.dossier.compared,
            "differences": [
                {"metric": d.metric, "here": d.here, "usual": d.usual, "spreads": d.spreads}
                for d in finding.dossier.differences
            ],
            "text": finding.dossier.text,
        }
    if finding.symptoms:
        made["symptoms"] = [finding_json(s) for s in finding.symptoms]
    return made


def _upside(upside: Upside) -> dict[str, object]:
    return {
        "expected": upside.expected,
        "interval80": upside.interval80,
        "method": upside.method,
        "by": upside.by,
        "steps": upside.steps,
        "level": upside.level,
        "chance": upside.chance,
        "laws": upside.laws,
        "fan": [{"step": step, "low": low, "expected": level, "high": high} for step, low, level, high in upside.fan],
    }


def _risk(risk: Risk) -> dict[str, object]:
    cost = risk.cost
    return {
        "text": risk.text,
        "kl_since_best": risk.kl_since_best,
        "steps_since_best": risk.steps_since_best,
        "reward_lost": risk.reward_lost,
        "budgets": [
            {"name": b.name, "used": b.used, "arrives": b.arrives, "interval": b.interval} for b in risk.budgets
        ],
        "cost": {
            "hours": cost.hours,
            "hours_since_best": cost.hours_since_best,
            "hours_since_first_finding": cost.hours_since_first_finding,
            "devices": cost.devices,
            "device_hours": cost.device_hours(cost.hours),
            "device_hours_since_best": cost.device_hours(cost.hours_since_best),
            "device_hours_since_first_finding": cost.device_hours(cost.hours_since_first_finding),
        },
    }


def to_json(diagnosis: Diagnosis) -> dict[str, Json]:
    """The document that `--format json` prints."""
    run, verdict, best = diagnosis.run, diagnosis.verdict, diagnosis.verdict.best_checkpoint
    document = {
        "schema": SCHEMA,
        "vario": VERSION,
        "run": {
            "path": run.path,
            "framework": run.framework,
            "framework_version": run.framework_version,
            "algorithm": run.algorithm,
            "first_step": run.first_step,
            "last_step": run.last_step,
            "logged_steps": int(run.logged_steps.size),
            "metrics": {
                n: {"key": s.key, "points": len(s)} | ({"counted": True} if s.counted else {})
                for n, s in run.series.items()
            },
            "unmapped": run.unmapped,
            "unsettled": dict(run.unsettled),
            "ignored_lines": run.ignored_lines,
            "warnings": (*run.warnings, *diagnosis.warnings),
            "samples": None
            if run.samples is None
            else {
                "places": run.samples.places,
                "counted": run.samples.counted,
                "texts_measured": len(run.samples),
                "steps": int(np.unique(run.samples.steps).size),
            },
            "events": [{"kind": e.kind, "step": e.step, "text": e.text} for e in run.events],
        },
        "verdict": {
            "action": verdict.action,
            "confidence": verdict.confidence,
            "trajectory": verdict.trajectory,
            "regime": verdict.regime,
            "best_checkpoint": None
            if best is None
            else {
                "step": best.step,
                "by": best.by,
                "value": best.value,
                "saved": best.saved,
                "interval": best.interval,
                "nearest_saved": best.nearest_saved,
            },
            "upside": _upside(verdict.upside),
            "risk": _risk(verdict.risk),
            "narrative": verdict.narrative,
            "would_change_it": verdict.would_change_it,
            "phases": [
                {"first": p.first, "last": p.last, "regime": p.regime, "kl": p.kl, "reward": p.reward}
                for p in verdict.phases
            ],
            "rate": None
            if verdict.rate is None
            else {
                "since": verdict.rate.since,
                "per_100_steps_before": verdict.rate.before,
                "per_100_steps_now": verdict.rate.now,
                "change": verdict.rate.change,
            },
            "tensions": verdict.tensions,
            "ladder": None
            if verdict.ladder is None
            else {"rung": verdict.ladder.rung.value, "means": verdict.ladder.means, "next": verdict.ladder.words},
            "experiments": [
                {
                    "name": e.name,
                    "why": e.why,
                    "tells": e.tells,
                    "settings": e.settings,
                    "patch": e.patch,
                    "steps": e.words,
                }
                for e in verdict.experiments
            ],
        },
        "findings": [finding_json(f) for f in diagnosis.findings],
        "suppressed": [{**finding_json(f), "reason": why} for f, why in diagnosis.suppressed],
        "notes": [{"name": n.name, "text": n.text} for n in diagnosis.notes],
        "unknown": [
            {"code": u.code, "name": u.name, "missing": u.missing, "enable": u.enable, "reason": u.reason}
            for u in diagnosis.unknown
        ],
        "broken": [{"name": n, "error": e} for n, e in diagnosis.broken],
        "readings": {
            n: {
                "level": r.level,
                "spread": r.spread,
                "direction": r.direction,
                "shape": r.shape,
                "changes": r.changes,
                "noise_share": r.noise_share,
                "from": [r.key],
                "points": r.points,
            }
            for n, r in diagnosis.readings.items()
        },
    }
    made = plain(document)
    assert isinstance(made, dict)
    return made

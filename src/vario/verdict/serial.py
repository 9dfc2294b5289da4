"""`diagnosis/v1` as plain values, ready for JSON. NaN and infinities become null."""

from __future__ import annotations

import math
from collections.abc import Mapping

from vario.verdict.diagnosis import SCHEMA, Diagnosis, Finding

VERSION = "0.1.0"
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def _plain(value: object) -> Json:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    raise TypeError(f"{type(value).__name__} does not belong in a diagnosis")


def _finding(finding: Finding) -> dict[str, object]:
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
        {"knob": c.knob, "key": c.key, "current": c.current, "suggested": c.suggested, "why": c.why}
        for c in finding.changes
    ]
    made["references"] = finding.references
    if finding.symptoms:
        made["symptoms"] = [_finding(s) for s in finding.symptoms]
    return made


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
            "metrics": {n: {"key": s.key, "points": len(s)} for n, s in run.series.items()},
            "unmapped": run.unmapped,
            "unsettled": dict(run.unsettled),
            "ignored_lines": run.ignored_lines,
            "warnings": run.warnings,
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
            "upside": {"expected": None, "interval80": None, "method": "cannot tell: no forecast is made"},
            "risk": {
                "text": verdict.risk.text,
                "kl_since_best": verdict.risk.kl_since_best,
                "steps_since_best": verdict.risk.steps_since_best,
                "reward_lost": verdict.risk.reward_lost,
                "budgets": [],
            },
            "narrative": verdict.narrative,
            "would_change_it": verdict.would_change_it,
        },
        "findings": [_finding(f) for f in diagnosis.findings],
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
    plain = _plain(document)
    assert isinstance(plain, dict)
    return plain

"""rldoctor 0.2.0 (PyPI) on the same files, its findings in our words.

It lives in a virtual environment of its own (numpy is all it needs):

    python -m venv /tmp/rld && /tmp/rld/bin/pip install rldoctor==0.2.0

`VARIO_PEER_PYTHON` names another interpreter. A detector of rldoctor covers several conditions
and says which in its summary, so the table below maps (detector, summary) to rule names of ours,
kindly: where a sentence could mean two of our rules, both count as named by one finding. It
reads `trainer_state.json` by its own loader; `config.json`, which its command line cannot take,
is given to it as the configuration. Its action is `continue` where nothing stands at warning or
above. It has no onset, no trajectory and no regime, so these are not scored.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

NAME = "rldoctor 0.2.0"
PYTHON = os.environ.get("VARIO_PEER_PYTHON", "/tmp/rld/bin/python")

MEANS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    # detector, pattern in its summary, our rules
    ("advantage_collapse", "", ("few-groups-carry-signal",)),
    (
        "clip_saturation",
        r"of the policy update is discarded|updates are clipped|Clip fraction is",
        ("clip-fraction-high",),
    ),
    ("clip_saturation", r"Lower-bound clipping dominates", ("clipping-one-sided-low",)),
    ("entropy_collapse", "", ("entropy-collapsing",)),
    ("gradient_pathology", r"non-finite", ("non-finite",)),
    ("gradient_pathology", r"exactly zero gradient|has fallen to", ("gradient-vanished",)),
    ("gradient_pathology", r"gradient spike", ("gradient-spike",)),
    ("kl_drift", r"has stopped improving", ("kl-rises-without-reward",)),
    ("kl_drift", r"KL is .* and (accelerating|high)|KL is elevated", ("kl-runaway",)),
    ("kl_drift", r"KL never exceeded", ("kl-pinned-near-zero",)),
    ("length_pathology", r"truncated", ("truncation-high",)),
    ("length_pathology", r"lockstep|tracks reward closely", ("length-hacking",)),
    ("length_pathology", r"length grew|Length grew", ("length-growing",)),
    ("plateau", r"declining", ("reward-peaked-then-declined",)),
    # flat since (nearly) the first step is "never rose", not "plateaued": see documents()
    ("plateau", r"stopped improving|is flat", ("reward-plateaued",)),
    ("reward_composition", r"accounts for|carries", ("component-dominates",)),
    ("reward_composition", r"contribute <2%", ("component-dead", "component-saturated")),
    ("reward_hacking", "", ("reward-up-eval-not", "reward-hacking")),
)
LOWER_LR = re.compile(r"(lower|reduce|drop|cut|decrease|halve)[^.]{0,30}learning.rate", re.IGNORECASE)
NEVER_ROSE = 0.9
"""Share of the run since the best step above which "flat" is read as "never rose"."""

SCRIPT = """
import json, os, sys, warnings
warnings.filterwarnings("ignore")
from rl_doctor import diagnose, load_run, run_from_records
for path in json.load(sys.stdin):
    try:
        config = os.path.join(os.path.dirname(path), "config.json")
        if path.endswith("trainer_state.json") and os.path.exists(config):
            run = run_from_records(json.load(open(path))["log_history"], config=json.load(open(config)))
        else:
            run = load_run(path)
        made = [f.to_dict() for f in diagnose(run).problems]
        made = {"problems": made, "steps": len(run.steps)}
    except Exception as error:
        made = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(made, default=str), flush=True)
"""


def _rules(problem: dict) -> list[str]:
    """Our names for one finding of theirs."""
    summary = problem["summary"]
    names = [n for d, p, rules in MEANS if d == problem["detector"] and re.search(p, summary) for n in rules]
    if "reward-plateaued" in names:
        share = re.search(r"\((\d+)% of the run\)", summary)
        if share and int(share[1]) >= 100 * NEVER_ROSE:
            names.append("reward-never-rises")
    return names or [problem["detector"]]


def _document(made: dict) -> dict:
    """Their answer in the shape of `diagnosis/v1`, as far as the scoreboard reads it."""
    if "error" in made:
        return made
    findings = []
    for problem in made["problems"]:
        first, *others = _rules(problem)
        lower = any(LOWER_LR.search(line) for line in problem["prescription"])
        change = {"knob": "learning-rate", "current": 1.0, "suggested": 0.5, "why": ""}
        findings.append(
            {
                "name": first,
                "also": others,
                "severity": problem["severity"].lower(),
                "confidence": "-",
                "audience": "default",
                "until": None,
                "detected_at": None,
                "changes": [change] if lower else [],
            }
        )
    worst = {f["severity"] for f in findings} & {"warning", "critical"}
    verdict = {"action": "intervene" if worst else "continue", "confidence": "-", "trajectory": "-", "regime": "-"}
    return {"verdict": verdict, "findings": findings, "run": {"metrics": {}}, "seconds": 0.0}


def documents(paths: dict[str, Path]) -> dict[str, dict]:
    """Run it over all files in one process of its own interpreter."""
    if not Path(PYTHON).exists():
        raise SystemExit(
            f"{NAME} is not installed: python -m venv /tmp/rld && /tmp/rld/bin/pip install rldoctor==0.2.0"
        )
    done = subprocess.run(
        [PYTHON, "-c", SCRIPT],
        input=json.dumps([str(p) for p in paths.values()]),
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [_document(json.loads(line)) for line in done.stdout.splitlines() if line.startswith("{")]
    return dict(zip(paths, lines, strict=True))

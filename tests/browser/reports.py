"""Reports for the browser, made by the command, and the runs that are made for them."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import vario
from tests.cli.dumps import trl_run
from tests.conftest import ROOT
from vario.run import Run
from vario.surfaces.charts.marks import Mark, marks_of
from vario.surfaces.cli import main
from vario.verdict import Diagnosis


@dataclass(frozen=True)
class Report:
    """A run and the file that tells of it."""

    run: Path
    file: Path

    @cached_property
    def log(self) -> Run:
        return vario.read(self.run)

    @cached_property
    def diagnosis(self) -> Diagnosis:
        return vario.diagnose(self.log)

    @property
    def marks(self) -> tuple[Mark, ...]:
        return marks_of(self.diagnosis)

    @property
    def size(self) -> int:
        return self.file.stat().st_size


def report(run: Path, folder: Path, *options: str) -> Report:
    """What `vario report` writes of a run."""
    file = folder / f"{run.name}.html"
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        assert main(["report", str(run), "-o", str(file), *options]) == 0, said.getvalue()
    return Report(run, file)


def logged(folder: Path, columns: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> Path:
    """A run of TRL with these columns."""
    folder.mkdir(parents=True)
    n = max(len(v) for v in columns.values())
    rows = [{"step": i + 1} | {k: float(v[i]) for k, v in columns.items() if i < len(v)} for i in range(n)]
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": n, "log_history": rows}))
    (folder / "config.json").write_text(json.dumps({"num_generations": 8, "beta": 0.04, "output_dir": "out"} | dict(config or {})))
    return folder


def climbing(n: int, seed: int = 0) -> dict[str, np.ndarray]:
    """A run of GRPO whose reward climbs."""
    noise = np.random.default_rng(seed).standard_normal((6, n))
    return {
        "reward": np.linspace(0.2, 0.7, n) + 0.02 * noise[0],
        "reward_std": 0.3 + 0.02 * noise[1],
        "frac_reward_zero_std": np.abs(0.1 + 0.02 * noise[2]),
        "kl": np.abs(np.linspace(0.0, 0.02, n) + 0.001 * noise[3]),
        "entropy": 0.9 + 0.02 * noise[4],
        "completions/mean_length": 200.0 + 4.0 * noise[5],
        "grad_norm": 0.5 + 0.02 * noise[0],
        "loss": 0.01 * noise[1],
    }


def large(folder: Path, steps: int, metrics: int) -> Path:
    """A run as long as those whose speed is measured."""
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        from speed import synthesise
    finally:
        sys.path.remove(str(ROOT / "bench"))
    folder.mkdir()
    synthesise(folder, steps, metrics)
    return folder


PWNED = "<script>window.pwned = 1; alert(1)</script>"
BROKEN_OUT = '"><img src=x onerror="window.pwned = 2">\'><svg onload=alert(3)>'
TURNED = "left \u202eright\u2066 nul \x00 bell \x07 {{ 7 * 7 }} {% raw %}"
LONG = "n" * 10_000
VERY_LONG = "A" * 1_000_000 + PWNED
NAMES = (PWNED, BROKEN_OUT, TURNED, 'q"u\'o`t<e>s&amp;', LONG)


def hostile(folder: Path) -> Path:
    """Completions, names of reward functions, settings and keys that try to be more than text."""
    texts = {(step, n): text for step in range(92, 101) for n, text in enumerate((PWNED, BROKEN_OUT, TURNED, VERY_LONG)) if step % 2 == 0}
    trl_run(folder, texts=texts)
    state = json.loads((folder / "trainer_state.json").read_text())
    noise = np.random.default_rng(1).standard_normal(len(state["log_history"]))
    for row, wobble in zip(state["log_history"], noise.tolist(), strict=True):
        for i, name in enumerate(NAMES):
            row[f"rewards/{name}/mean"] = 0.5 + 0.1 * wobble + i
        row[f"eval_{PWNED}"] = wobble
        row[f"{PWNED}/unmapped"] = wobble
    (folder / "trainer_state.json").write_text(json.dumps(state))
    config = json.loads((folder / "config.json").read_text())
    config |= {PWNED: BROKEN_OUT, BROKEN_OUT: PWNED, "turned": TURNED, "long": VERY_LONG, "api_key": "sk-proj-" + "Ab3dEf6hIj9kLm2n" * 2}
    (folder / "config.json").write_text(json.dumps(config))
    return folder

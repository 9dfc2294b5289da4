"""Trees of runs as a cluster leaves them, and the command that is run on them."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from vario.errors import VarioError
from vario.surfaces.cli.fleet_command import add_fleet, run_fleet

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"

FAST = ("--no-replay", "--quiet")
"""For tests that look at something else than the judgement itself."""


def fleet(*arguments: str | Path) -> int:
    """`vario fleet …` in this process (its workers are others); the exit code."""
    parser = argparse.ArgumentParser()
    add_fleet(parser.add_subparsers())
    try:
        return run_fleet(parser.parse_args(["fleet", *map(str, arguments)]))
    except VarioError as error:
        print(f"vario: {error}", file=sys.stderr)
        return 2


def started(*arguments: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """The same as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", "import sys; from tests.fleet.trees import fleet; sys.exit(fleet(*sys.argv[1:]))", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]), **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )



def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def by_name(documents: list[dict]) -> dict[str, dict]:
    made = {d["fleet"]["name"]: d for d in documents}
    assert len(made) == len(documents), "a run stands there twice"
    return made

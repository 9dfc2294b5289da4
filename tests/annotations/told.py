"""Commands run in a process of their own, as trackers' clients leave threads behind, and what is read back there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.sources.writers import run_python

DRIVE = """
import contextlib, io, json, sys
from vario.surfaces.cli import main

told = []
def command(*words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    told.append({"code": code, "out": out.getvalue(), "err": err.getvalue()})
    return out.getvalue()

def judged(path, *more):
    "What is said of a run, without the place that it was read from."
    document = json.loads(command("diagnose", path, "--json", *more))
    document["run"].pop("path")
    return document

found = {}
exec(sys.argv[1])
print("\\n" + json.dumps({"told": told, "found": found}))
"""


def driven(code: str, **environment: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What each command came to, and what the code put into `found`."""
    made = json.loads(run_python(DRIVE, code, **environment).splitlines()[-1])
    return made["told"], made["found"]


def rows_of(golden: Path) -> list[dict[str, float]]:
    """What a trainer logged, a row a step."""
    state = json.loads((golden / "trainer_state.json").read_text())
    return [row for row in state["log_history"] if "reward" in row]

"""`vario.diagnose_path`: what the command line does with a path, for Python: vario.toml counts here as well."""

from __future__ import annotations

import argparse
from pathlib import Path

from vario.surfaces.cli.wishes import Wishes
from vario.verdict import Diagnosis, diagnose


def diagnose_path(path: str | Path, *, replay: bool = True) -> Diagnosis:
    """Read and diagnose a run with everything that the nearest vario.toml (or [tool.vario]) declares.

    Raises:
        SourceError: nothing there can be read as one run. ConfigError: the project file says what cannot be.
    """
    options = argparse.Namespace(map=[])
    wishes = Wishes.of(options, str(path))
    run = wishes.apply(wishes.read(path, options), options)
    return diagnose(run, replay=replay, choice=wishes.choice)

"""Actions outside the trainer, carried out: a sentinel file, a command, a webhook. Each ends within its time."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from vario.errors import VarioError
from vario.surfaces.live.actions import Act
from vario.surfaces.privacy import masked

SECONDS = 30.0
"""A command or webhook that takes longer has failed: whoever has more to do starts it and returns."""


class ActFailed(VarioError):
    """An action could not be carried out; the reason names no secret."""


def perform(act: Act, run: str, verdict: str) -> None:
    """Carry out an action of `OUTSIDE`.

    Raises:
        ActFailed: it could not be done.
    """
    document = {
        "run": run,
        "action": act.action,
        "finding": act.subject,
        "step": act.step,
        "severity": act.severity,
        "confidence": act.confidence,
        "evidence": masked(act.evidence),
        "verdict": masked(verdict),
    }
    if act.action == "sentinel":
        _write(Path(act.target).expanduser(), document)
    elif act.action == "command":
        _call(act.target, document)
    else:
        _post(act.target, document)


def _write(path: Path, document: Mapping[str, object]) -> None:
    """Whole or not at all: a trainer that looks for the file never finds half of it."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}-", delete=False
        ) as file:
            json.dump(document, file, ensure_ascii=False)
        Path(file.name).replace(path)
    except OSError as error:
        raise ActFailed(f"{path}: cannot be written ({error.strerror or error})") from error


def _call(command: str, document: Mapping[str, object]) -> None:
    try:
        words = shlex.split(command)
        told = {f"VARIO_{key.upper()}": str(value) for key, value in document.items()}
        done = subprocess.run(
            words,
            input=json.dumps(document).encode(),
            env={**os.environ, **{k: v.replace("\0", "?") for k, v in told.items()}},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ActFailed(f"the command took more than {SECONDS:.0f} s and was ended") from error
    except (OSError, ValueError) as error:
        raise ActFailed(f"the command could not be started ({type(error).__name__})") from error
    if done.returncode:
        raise ActFailed(f"the command ended with exit code {done.returncode}")


def _post(url: str, document: Mapping[str, object]) -> None:
    if not url.startswith(("http://", "https://")):
        raise ActFailed("a webhook is an http:// or https:// address")
    request = urllib.request.Request(
        url, json.dumps(document).encode(), {"Content-Type": "application/json", "User-Agent": "vario"}
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            answer.read(1024)
    except urllib.error.HTTPError as error:
        with error:
            raise ActFailed(f"the webhook failed ({error.code})") from None
    except Exception as error:  # whatever a server does to its caller; the address may hold a token
        raise ActFailed(f"the webhook failed ({type(error).__name__})") from None

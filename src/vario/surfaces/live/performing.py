"""Actions outside the trainer, carried out: a sentinel file, a command, a webhook. Each ends within its time."""

from __future__ import annotations

import json
import shlex
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from vario.errors import VarioError
from vario.surfaces.live.actions import Act
from vario.surfaces.outward import SECONDS, NotDelivered, run_command, write_document
from vario.surfaces.privacy import masked


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
    try:
        if act.action == "sentinel":
            write_document(Path(act.target).expanduser(), document)
        elif act.action == "command":
            run_command(_words(act.target), document)
        else:
            _post(act.target, document)
    except NotDelivered as error:
        raise ActFailed(f"the {act.action} {error}") from None


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise ActFailed(f"the command cannot be read ({error})") from None


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

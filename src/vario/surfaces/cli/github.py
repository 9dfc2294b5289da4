"""`--format github`: findings as annotations of a GitHub workflow, and the diagnosis on the page of the job."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from pathlib import Path

from vario.errors import ConfigError
from vario.surfaces.pages.view import View
from vario.surfaces.privacy import masked, safe
from vario.surfaces.report.markdown import markdown_report
from vario.surfaces.sentences import action, change, headline, when_and_how_sure
from vario.verdict import Diagnosis, Finding

LEVELS = {"info": "notice", "warning": "warning", "critical": "error"}
SUMMARY = "GITHUB_STEP_SUMMARY"
"""Where GitHub says which file holds a step's summary."""
LARGEST_SUMMARY = 1 << 20
"""Bytes: GitHub shows nothing of a summary that is larger."""
CUT = "\n\nCut here: GitHub shows at most 1 MiB.\n"


def workflow_commands(diagnosis: Diagnosis, *, pedantic: bool) -> Iterator[str]:
    """The verdict and each finding as a line that GitHub shows beside the run of the workflow."""
    path, verdict = diagnosis.run.path, diagnosis.verdict
    yield _command("notice", f"{action(verdict)}: {path}", headline(verdict))
    for finding in diagnosis.findings:
        if pedantic or finding.audience == "default":
            title = f"{finding.name}: {path}"
            yield _command(LEVELS[finding.severity], title, _told(finding, diagnosis.run.framework))


def add_to_summary(diagnosis: Diagnosis, *, pedantic: bool) -> None:
    """Append the diagnosis as Markdown to the summary of the step; nothing outside of a workflow.

    Raises:
        ConfigError: the file that GitHub names cannot be written to.
    """
    named = os.environ.get(SUMMARY)
    if not named:
        return
    view = View(diagnosis, diagnosis.run.path, {}, pedantic=pedantic)
    today = datetime.datetime.now(tz=datetime.UTC).date()
    text = masked(markdown_report(view, today, "", None).text) + "\n"
    try:
        with Path(named).open("ab") as file:
            file.write(fitting(text.encode(), LARGEST_SUMMARY - file.tell()))
    except OSError as error:
        raise ConfigError(f"{SUMMARY}: {named} cannot be written to ({error.strerror or error})") from error


def fitting(text: bytes, room: int) -> bytes:
    """As much of a text as there is room for, to the end of a line, with a word on what was cut."""
    if len(text) <= room:
        return text
    left = room - len(CUT)
    return text[: text.rfind(b"\n", 0, left) + 1] + CUT.encode() if left > 0 else b""


def _told(finding: Finding, framework: str) -> str:
    lines = [f"{when_and_how_sure(finding)}: {finding.summary}", *finding.evidence]
    lines += [f"change: {change(turn, framework)}" for turn in finding.changes]
    return "\n".join([*lines, f"more: vario rule {finding.code}"])


def _command(level: str, title: str, text: str) -> str:
    """One workflow command; nothing in its words ends it, or begins another."""
    message = "\n".join(safe(masked(line)) for line in text.splitlines())
    named = safe(masked(" ".join(title.split())))
    return f"::{level} title={_escaped(named).replace(':', '%3A').replace(',', '%2C')}::{_escaped(message)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

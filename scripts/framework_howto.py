"""The first part of a framework's page: to read a run of it, and to follow one while it trains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from page_parts import ROOT, title_of

from vario.sources.dialects.base import Dialect

HEADING = "## Trainers without a callback"
ROW = re.compile(r"^\| (?P<who>.*?frameworks/.*?) \| (?P<switch>.*?) \| (?P<place>.*?) \|$", re.MULTILINE)


@cache
def logs_lie() -> dict[str, tuple[str, str, bool]]:
    """By framework, from the table in docs/live.md: what is switched on, what is watched, whether a callback does more."""
    text = (ROOT / "docs/live.md").read_text(encoding="utf-8").split(HEADING)[1].split("\n## ")[0]
    found = {}
    for row in ROW.finditer(text):
        for name in re.findall(r"frameworks/([\w-]+)\.md", row["who"]):
            found[name] = (row["switch"], row["place"], "callback" in row["who"])
    return found


def howto(dialect: Dialect) -> Iterator[str]:
    """Two commands to read it, one to follow it, and where its log lies."""
    name = title_of(dialect)
    yield from ("", "## Read a run", "", f"With `runs/my-run` for the output folder, or for a log of {name}:", "")
    yield from ("```sh", "vario metrics runs/my-run", "vario diagnose runs/my-run --exit-zero", "```", "")
    yield "The first says which key became which metric and what is missing, the second how the run is doing."
    yield "[Reading runs](../reading-runs.md) has a command for every format and address."
    yield from ("", "## Follow it while it trains", "", "```sh", "vario watch runs/my-run", "```", "")
    if dialect.name not in logs_lie():
        yield "It watches whatever the loop writes: JSON lines are the least work. A [monitor](../live.md#in-any-loop) is"
        yield "handed the rows instead, and acts inside the loop."
        return
    switch, place, has_callback = logs_lie()[dialect.name]
    yield f"- To have a log: {switch}."
    yield f"- What to watch: {place}."
    if has_callback:
        yield "- [Beside a training](../live.md) is one line in the trainer: it sees every row at once, measures the machine, and can act."
    else:
        yield "- [Watching](../watching.md) says what is told and when, [alerting](../alerting.md) to whom."

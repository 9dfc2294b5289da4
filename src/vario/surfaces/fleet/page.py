"""A fleet as text: how many and how they are, the table, causes that runs share, and what to do about each. 80 columns."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from vario.surfaces.fleet.causes import causes
from vario.surfaces.fleet.judging import FAILED, OK, UNREADABLE, Document
from vario.surfaces.fleet.row import ACTIONS, Row, needs_attention
from vario.surfaces.privacy import safe
from vario.verdict.changes import stands

WIDTH = 80
LIMIT = 40
NAME_FIRST, LEAST_TRAINER, LEAST_NAME = 22, 9, 10
"""Columns that names give up last, in this order, when the page is narrow."""
MAX_EVIDENCE = 200
MAX_ALIKE = 6
SHORT = {"medium": "med"}
HEADS = ("run", "trainer", "step", "advice", "trajectory", "finding", "since", "at stake")
RIGHT = frozenset({"step", "since", "at stake"})


def fleet_page(pairs: Sequence[tuple[Row, Document]], *, limit: int = LIMIT, width: int = WIDTH) -> str:
    """The whole page; `limit` bounds the runs that are shown one by one."""
    rows = [row for row, _ in pairs]
    judged = [row for row in rows if row.status == OK]
    lines = [_wrap(_head(rows), "", "  ", width)]
    if judged:
        lines += ["", *_table(judged[:limit], width)]
        if len(judged) > limit:
            lines.append(f"and {len(judged) - limit} more: --limit {len(judged)}, or --format json")
    shared = causes([document for row, document in pairs if row.status == OK])
    if shared:
        lines += ["", "what runs have in common"]
        lines += [_wrap(text, "  - ", "    ", width) for text in shared]
    wanting = [row for row in judged if needs_attention(row)]
    if wanting:
        lines += ["", "what needs attention"]
        lines += _attention(wanting[:limit], width)
        if len(wanting) > limit:
            lines.append(f"  and {len(wanting) - limit} more: --limit {len(wanting)}")
    for status, title in ((FAILED, "failed: not judged"), (UNREADABLE, "unreadable")):
        those = [row for row in rows if row.status == status]
        if those:
            lines += ["", title]
            lines += [_wrap(f"{row.name}: {row.reason}", "  - ", "    ", width) for row in those[:limit]]
            if len(those) > limit:
                lines.append(f"  and {len(those) - limit} more: --limit {len(those)}")
    return "\n".join(lines)


def _wrap(text: str, first: str, then: str, width: int) -> str:
    return textwrap.fill(safe(text), width, initial_indent=first, subsequent_indent=then)


def _head(rows: Sequence[Row]) -> str:
    by_action = Counter(row.action for row in rows if row.status == OK)
    by_status = Counter(row.status for row in rows)
    told = [f"{by_action[a]} {a.replace('-', ' ')}" for a in ACTIONS if by_action[a]]
    lost = [f"{by_status[s]} {s}" for s in (FAILED, UNREADABLE) if by_status[s]]
    text = f"{len(rows)} run{'' if len(rows) == 1 else 's'}"
    if rows:
        text += f": {', '.join(told + lost)}"
    trainers = {_trainer(row) for row in rows if row.status == OK}
    return f"{text}. All of {trainers.pop()}." if len(trainers) == 1 and len(rows) > 1 else f"{text}."


def _trainer(row: Row) -> str:
    return f"{row.framework}/{row.algorithm}"


def _cells(row: Row) -> dict[str, str]:
    return {
        "run": row.name,
        "trainer": _trainer(row),
        "step": "-" if row.last_step is None else str(row.last_step),
        "advice": f"{(row.action or '').replace('-', ' ')} {SHORT.get(row.confidence or '', row.confidence)}",
        "trajectory": row.trajectory or "-",
        "finding": row.finding or "-",
        "since": "-" if row.since is None else str(row.since),
        "at stake": stake_of(row),
    }


def stake_of(row: Row) -> str:
    """Hours in short: `3.1 h`, `25 dev-h` of all devices."""
    if row.stake_device_hours is not None:
        return f"{row.stake_device_hours:.3g} dev-h"
    return "-" if row.stake_hours is None else _hours(row.stake_hours)


def _hours(hours: float) -> str:
    if hours < 1.0 / 60.0:
        return f"{3600.0 * hours:.0f} s"
    if hours < 1.0:
        return f"{60.0 * hours:.0f} min"
    return f"{hours:.1f} h" if hours < 10.0 else f"{hours:.0f} h"


def _table(rows: Sequence[Row], width: int) -> Iterator[str]:
    """The table. A finding stands in a line of its own below its run where one line is too short for both."""
    cells = [{head: safe(text) for head, text in _cells(row).items()} for row in rows]
    heads = [h for h in HEADS if h != "trainer" or len({c[h] for c in cells}) > 1]
    # a column in which nothing stands says so by not being there
    heads = [h for h in heads if h in ("run", "step", "advice") or any(c[h] != "-" for c in cells)]
    wide = {h: max(len(h), *(len(c[h]) for c in cells)) for h in heads}
    gap = "  "
    below = "finding" in heads and sum(wide.values()) + len(gap) * (len(heads) - 1) > width
    if below:
        heads.remove("finding")
    over = sum(wide[h] for h in heads) + len(gap) * (len(heads) - 1) - width
    if over > 0:
        gap, over = " ", over - len(heads) + 1
    for head, least in (("run", NAME_FIRST), ("trainer", LEAST_TRAINER), ("run", LEAST_NAME)):
        if over > 0 and head in heads:
            given = min(over, max(0, wide[head] - least))
            wide[head], over = wide[head] - given, over - given

    def line(texts: Mapping[str, str]) -> str:
        shown = ((h, shorten(texts[h], wide[h])) for h in heads)
        return gap.join(f"{t:>{wide[h]}}" if h in RIGHT else f"{t:{wide[h]}}" for h, t in shown).rstrip()

    yield line({h: h for h in heads})
    for row, c in zip(rows, cells, strict=True):
        yield line(c)
        if below and row.finding is not None:
            more = f" and {len(row.findings) - 1} more" if len(row.findings) > 1 else ""
            yield shorten(f"    {safe(row.finding)}{more}", width)


def shorten(text: str, width: int) -> str:
    """The text, without its middle where it is too long: names of runs differ at both ends."""
    if len(text) <= width:
        return text
    start = (width - 1) // 2
    return f"{text[:start]}…{text[len(text) - (width - 1 - start) :]}"


def _attention(rows: Sequence[Row], width: int) -> Iterator[str]:
    """What was found and what to change, said once for runs of which it is all the same."""
    said: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        said.setdefault(tuple(_found(row)), []).append(row.name)
    for texts, names in said.items():
        more = f" and {len(names) - MAX_ALIKE} more" if len(names) > MAX_ALIKE else ""
        yield _wrap(", ".join(names[:MAX_ALIKE]) + more, "  ", "  ", width)
        for text in texts:
            yield _wrap(text, "    ", "      ", width)


def _found(row: Row) -> Iterator[str]:
    if row.finding is None:
        yield f"{row.action}: {row.narrative}"
        return
    since = "" if row.since is None else f" since step {row.since}"
    yield f"{row.severity}: {row.finding}{since}: {shorten(row.evidence or '', MAX_EVIDENCE)}"
    if row.change_knob is not None:
        key = row.change_key or f"{row.change_knob} (no key of this name in {row.framework})"
        now = "" if row.change_now is None else f" ({stands(row.change_now, assumed=bool(row.change_assumed))})"
        to = "" if row.change_to is None else f" to {row.change_to}"
        yield f"change: {key}{now}{to}: {row.change_why}"

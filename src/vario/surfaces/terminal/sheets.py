"""The texts that fill the screen when a key asks for them: help, notes, what was not seen, troubles, the log."""

from __future__ import annotations

from rich.text import Text

from vario.rules.base import counted, number
from vario.surfaces.live.snapshot import Light, RunView, Snapshot
from vario.surfaces.panels import panels
from vario.surfaces.spark import sparkline
from vario.surfaces.terminal.columns import clean, wrap
from vario.surfaces.terminal.gauge_texts import unit_of
from vario.surfaces.terminal.inline import SIGNS, joined, line, wrapped
from vario.surfaces.terminal.plain import WIDTH, line_of
from vario.surfaces.terminal.times import ago

WIDEST = 110
"""Columns beyond which lines of prose are hard to read."""
SHOWN_LOG = 200
"""Notices on the sheet: it says what happened lately, and is no archive."""
HELP = (
    ("up down, j k", "choose a run or a finding; move in a text"),
    ("left right", "the run before, the next"),
    ("esc", "to the list of runs"),
    ("tab, shift+tab", "the next pane, the one before"),
    ("enter", "a run: to its findings; a finding: all of it; the gauges: each metric in words"),
    ("a", "acknowledge the chosen finding: you know of it, and say why it may stand"),
    ("r", "you have read completions of this run, now"),
    ("c", "the completions that are due to be read"),
    ("v", "the whole diagnosis, as `vario diagnose` prints it"),
    ("n", "notes: what looks wrong but is fine"),
    ("u", "what could not be seen, and how to log it"),
    ("l", "log: everything that was noticed, the latest first"),
    ("t", "troubles: of the files, of the alerts, of rules that failed"),
    ("g G", "to the first, to the last"),
    ("q, esc", "close a text; on the main screen q quits, and so does ctrl+c"),
    ("ctrl+z", "suspend; `fg` comes back"),
)
LIGHTS = {
    Light.CRITICAL: "a critical finding is open",
    Light.WARNING: "a warning is open, no rows come any more, or its files are gone",
    Light.DECIDE: "the advice is to stop or to intervene, or completions are due to be read",
    Light.FINE: "nothing asks for you",
    Light.WAITING: "too few rows to judge",
}


def _column(width: int) -> int:
    return min(width, WIDEST)


def help_sheet(width: int) -> Text:
    """The keys, and what the signs mean."""
    width = _column(width)
    lines = [line(("keys", "bold"))]
    for key, told in HELP:
        lines += [line(part) for part in wrap(told, width, " " * 18, f"  {key:16}")]
    lines += [line(), line(("signs", "bold"))]
    for light, told in LIGHTS.items():
        sign, style = SIGNS[light]
        first, *more = wrap(told, width, " " * 18, " " * 18)
        lines += [line(("  ", ""), (f"{sign:16}", style), first[18:]), *(line(part) for part in more)]
    for sign, told in (("i", "a finding worth knowing, not a warning"), ("a", "acknowledged"), ("-", "it has passed")):
        lines.append(line(f"  {sign:16}{told}"))
    lines += [
        line(),
        *wrapped("Runs that need attention stand first.", width),
    ]
    return joined(lines)


def notes_sheet(view: RunView, width: int) -> Text:
    """What looks wrong but is fine."""
    width, lines = _column(width), list[Text]()
    for note in view.diagnosis.notes if view.diagnosis is not None else ():
        lines += [line((clean(note.name), "bold")), *wrapped(note.text, width, "  ", "  ")]
    return joined(lines) if lines else line("Nothing here looks wrong and is fine.")


def unseen_sheet(view: RunView, width: int) -> Text:
    """Which checks could not run, by what would let them."""
    width, lines = _column(width), list[Text]()
    ways: dict[str, tuple[dict[str, None], list[str]]] = {}
    reasons: dict[str, list[str]] = {}
    for check in view.diagnosis.unknown if view.diagnosis is not None else ():
        if check.enable:
            missing, names = ways.setdefault(check.enable, ({}, []))
            missing.update(dict.fromkeys(check.missing))
            names.append(check.name)
        else:
            reasons.setdefault(check.reason, []).append(check.name)
    for way, (missing, names) in sorted(ways.items(), key=lambda item: -len(item[1][1])):
        lines += [line((part, "bold")) for part in wrap(", ".join(missing), width)]
        lines += wrapped(f"how: {way}", width, "    ", "  ")
        lines += wrapped(f"checks: {', '.join(names)}", width, "    ", "  ")
    if reasons:
        lines += [line(), line(("not to be had here", "bold"))]
    for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        lines += wrapped(f"{', '.join(names)}: {reason}", width, "    ", "  ")
    return joined(lines) if lines else line("Every check could run." if view.diagnosis else "Nothing is judged yet.")


def troubles_sheet(snapshot: Snapshot, view: RunView | None, width: int) -> Text:
    """What went wrong: with what the user must know first, then with the watch itself, then with the run."""
    width, lines = _column(width), list[Text]()

    def part(title: str, told: list[str]) -> None:
        if told:
            lines.extend([line(), line((title, "bold"))] if lines else [line((title, "bold"))])
            for text in told:
                lines.extend(wrapped(text, width, "  ", "- "))

    part("to know", list(snapshot.messages))
    part("the watch itself", [_times(text, count) for text, count in snapshot.failures])
    if view is not None:
        part(clean(view.name), [_times(text, count) for text, count in view.troubles])
        part(
            "of its log",
            [*view.warnings, *([f"{view.ignored_lines} lines could not be read"] * bool(view.ignored_lines))],
        )
        if view.diagnosis is not None:
            part("rules that failed and were left out", [f"{name}: {error}" for name, error in view.diagnosis.broken])
    others = [
        (r, sum(n for _, n in r.troubles)) for r in snapshot.runs if view is None or r.watched is not view.watched
    ]
    part("other runs", [_times(r.name, count) for r, count in others if count])
    return joined(lines) if lines else line("No trouble.")


def _times(text: str, count: int) -> str:
    return text if count == 1 else f"{text} ({count} times)"


def log_sheet(snapshot: Snapshot, width: int) -> Text:
    """What was noticed in all runs, the latest first."""
    lines: list[Text] = []
    for notice in reversed(snapshot.history[-SHOWN_LOG:]):
        first, *more = line_of(notice, min(width, WIDTH)).splitlines()
        lines += [line((part, "bold")) for part in wrap(first, width, "  ")]
        lines += [line(part) for part in more]
    return joined(lines) if lines else line("Nothing has been noticed yet.")


def gauges_sheet(view: RunView, width: int) -> Text:
    """Each metric of the panels in words and numbers, under the trainer's own name."""
    if view.diagnosis is None:
        return line("Nothing is judged yet.")
    width, lines = _column(width), list[Text]()
    for title, names in panels(view.diagnosis):
        lines.append(line((title, "bold reverse")))
        for name in names:
            r = view.diagnosis.readings[name]
            unit = unit_of(name)
            moved = f", changes at {', '.join(str(s) for s in r.changes)}" if r.changes else ""
            lines.append(line((clean(name), "bold"), (f"  {clean(r.key)}", "dim")))
            lines.append(line("  ", (sparkline(name, r.spark, r.spread, min(40, width - 4)), "cyan")))
            told = (
                f"{number(r.start)} -> {number(r.level)}{' ' * bool(unit)}{unit}, between {number(r.low)} and "
                f"{number(r.high)}; {counted(r.points, 'point')}; {r.shape}; {r.direction}{moved}"
            )
            lines += wrapped(told, width, "  ", "  ")
    return joined(lines) if lines else line("No metric of the panels is logged.")


def completions_sheet(view: RunView, now: float, width: int) -> Text:
    """When completions were read last, and which are due."""
    width = _column(width)
    if not view.has_samples:
        lines = wrapped(
            "This run writes no completions: nobody can read what the policy says, and what is judged by text stays unseen.",
            width,
        )
        return joined(lines + (wrapped(f"To write them: {view.how_to_sample}", width) if view.how_to_sample else []))
    r = view.review
    lines = wrapped("Nobody has read any." if r.at is None else f"Read {ago(now - r.at)}, at step {r.step}.", width)
    if r.due_since is None:
        return joined([*lines, line("None are due.")])
    lines += wrapped(f"{len(r.queue)} are due since step {r.due_since}:", width)
    for one in r.queue:
        paid = "" if one.reward is None else f", reward {number(one.reward)}"
        lines.append(line(f"  {one.step}/{one.number}  {one.stratum}{paid}"))
    lines += [line(), *wrapped(f"Read and mark them: vario samples {view.path} --review", width)]
    return joined([*lines, *wrapped("Press r when they have been read.", width)])

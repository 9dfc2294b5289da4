"""The texts of the main screen, each fitted to a width. Values come in as plain text and are never read as markup."""

from __future__ import annotations

from itertools import takewhile

from rich.text import Text

from vario.surfaces.live.snapshot import Light, RunView, Snapshot
from vario.surfaces.live.watched import Status
from vario.surfaces.terminal.columns import cells, clean, fit, shorten, wrap
from vario.surfaces.terminal.inline import SIGNS, Part, joined, line
from vario.surfaces.terminal.plain import headline
from vario.surfaces.terminal.times import ago, moment, span

ACTION = {"stop": "bold red", "intervene": "bold yellow", "continue": "bold green", "cannot-tell": "bold cyan"}
STATUS = {Status.STALLED: "bold yellow", Status.LOST: "bold yellow"}


def head(snapshot: Snapshot, turning_since: float | None, now: float, width: int) -> Text:
    """The first line: how many runs ask for what, and when they were looked at last."""
    runs = snapshot.runs
    counts = [(light, sum(r.light is light for r in runs)) for light in sorted(SIGNS, reverse=True)]
    words = {
        Light.CRITICAL: "critical",
        Light.WARNING: "with warnings",
        Light.DECIDE: "to decide on",
        Light.WAITING: "waiting",
        Light.FINE: "fine",
    }
    right = "reading ..." if snapshot.looked_at is None else f"last look {moment(snapshot.looked_at, now)}"
    if turning_since is not None and now - turning_since > 2.0:
        right = f"looking for {span(now - turning_since)}"
    text = line(("vario watch", "bold"), "  ", f"{len(runs)} run{'s' * (len(runs) != 1)}")
    for i, (light, count) in enumerate(c for c in counts if c[1]):
        text.append(": " if not i else ", ").append(f"{count} {words[light]}", SIGNS[light][1])
    text.truncate(max(0, width - len(right) - 1), pad=True)
    return text.append(" ").append(shorten(right, width), "dim")


def common_folder(names: list[str]) -> str:
    """What all names begin with, up to a slash: said once above the list. Empty for a single run."""
    if len(names) < 2:
        return ""
    parts = zip(*(name.split("/")[:-1] for name in names), strict=False)
    same = takewhile(lambda at: len(set(at)) == 1, parts)
    return "".join(f"{at[0]}/" for at in same)


def run_row(view: RunView, name: str, width: int) -> Text:
    """A run in the list: its light, its name there, and what stands out: how its process is, or the advice."""
    sign, style = SIGNS[view.light]
    action = "" if view.diagnosis is None else view.diagnosis.verdict.action
    status = "" if view.status is Status.LIVE else view.status.value
    word, word_style = (status, STATUS.get(view.status, "dim")) if status else (action, ACTION.get(action, ""))
    if status and action and width >= 44:
        text = line((sign, style), " ", fit(name, width - 24), " ", (fit(action, 11), ACTION.get(action, "")), " ")
        return text.append(fit(status, 8), word_style)
    wide = 11 if width >= cells(clean(name)) + 15 else 7
    return line((sign, style), " ", fit(name, width - 4 - wide), " ", (fit(_brief(word, wide), wide), word_style))


def _brief(word: str, width: int) -> str:
    """The advice in a narrow list."""
    return word if len(word) <= width else {"cannot-tell": "unsure", "continue": "go on", "intervene": "change"}[word]


def regime_words(regime: str) -> str:
    """`kl-up-reward-flat` as people say it."""
    return "regime unknown" if regime == "unknown" else regime.replace("kl-", "KL ").replace("-reward-", ", reward ")


def verdict(view: RunView, width: int, most: int) -> Text:
    """The joint answer on the selected run: what to do, how sure, why; `most` lines of reasons."""
    if view.diagnosis is None:
        told = f"{view.rows} rows; judged when there are enough for a first look" if view.rows else "no rows yet"
        return joined([line(("WAITING", "bold"), "  ", told)])
    v = view.diagnosis.verdict
    style = ACTION.get(v.action, "bold")
    first = line((f" {v.action.upper().replace('-', ' ')} ", f"{style} reverse"))
    rest = f"  {v.confidence} confidence   {v.trajectory}   {regime_words(v.regime)}"
    first.append(shorten(rest, width - cells(first.plain)))
    lines = wrap(v.narrative, width)
    if len(lines) > most:
        lines = [*lines[: most - 1], f"{shorten(lines[most - 1], width - 8).rstrip('… ')} … (v)"]
    return joined([first, *(line(part) for part in lines)])


def standing(view: RunView, now: float, width: int) -> Text:
    """How the run is doing as a process."""
    parts: list[Part] = [(view.status.value, STATUS.get(view.status, "bold"))]
    if view.step is not None:
        parts.append((f"step {view.step}", ""))
        parts.append((f"{view.rows} rows", ""))
    if view.seconds_per_row is not None:
        parts.append((f"{span(view.seconds_per_row)} a row", ""))
    if view.last_row_at is not None:
        ended = view.status is Status.ENDED
        last = moment(view.last_row_at, now) if ended else ago(now - view.last_row_at)
        parts.append((f"last row {last}", ""))
    if view.diagnosis is not None and view.diagnosis.run.last_step != view.step:
        parts.append((f"judged at step {view.diagnosis.run.last_step}", "dim"))
    count = sum(n for _, n in view.troubles)
    if count:
        parts.append((f"{count} trouble{'s' * (count != 1)} (t)", "yellow"))
    return _row(parts, width)


def _row(parts: list[Part], width: int, gap: str = "   ") -> Text:
    """As many parts as there is room for; single blanks between them where that makes the room."""
    if sum(cells(p) for p, _ in parts) + len(gap) * (len(parts) - 1) > width:
        gap = "  "
    text = line()
    for words, style in parts:
        before = gap if text.plain else ""
        room = width - cells(text.plain) - len(before)
        if room < 4:
            break
        text.append(before).append(shorten(words, room), style)
    return text


def review(view: RunView, now: float, width: int) -> Text:
    """When somebody read completions last, how many are due; or that the run writes none, and its switch."""
    if view.step is None:
        return line()
    if not view.has_samples:
        how = f": {view.how_to_sample}" if view.how_to_sample else ""
        return line((shorten(f"completions: this run writes none{how}", width), "dim"))
    r = view.review
    read = "nobody has read any" if r.at is None else f"read {ago(now - r.at)}, at step {r.step}"
    if r.due_since is None:
        return line((shorten(f"completions: {read}", width), "dim"))
    due = f"completions: {read}; {len(r.queue)} are due since step {r.due_since} (c: which, r: read)"
    return line((shorten(due, width), SIGNS[Light.DECIDE][1]))


def beside(view: RunView, width: int) -> Text:
    """What looks wrong but is fine, and what could not be seen: each in one line, with the key for more."""
    if view.diagnosis is None:
        return line()
    notes, unknown = view.diagnosis.notes, view.diagnosis.unknown
    lines = []
    if notes:
        lines.append(shorten(f"looks wrong but is fine (n): {', '.join(n.name for n in notes)}", width))
    if unknown:
        missing = list(dict.fromkeys(m for u in unknown if u.enable for m in u.missing))
        told = f": {', '.join(missing)}" if missing else ""
        lines.append(shorten(f"not seen (u), {len(unknown)} checks could not run{told}", width))
    return joined([line((told, "dim")) for told in lines])


def latest(snapshot: Snapshot, known: int, now: float, width: int) -> Text:
    """The line above the keys: what the user must know, unless so many of it are known; else what was noticed last."""
    troubles = len(snapshot.messages) + len(snapshot.failures)
    if troubles > known:
        text = snapshot.failures[-1][0] if snapshot.failures else snapshot.messages[-1]
        more = f" (t: {troubles} messages)" if troubles > 1 else " (t)"
        return line((shorten(f"! {clean(text)}", width - len(more)) + more, "yellow"))
    if not snapshot.history:
        return line()
    notice = snapshot.history[-1]
    return line(
        (
            shorten(f"{moment(notice.at, now)} {notice.run}: {notice.kind.value}: {headline(notice)[0]}", width),
            "dim",
        )
    )


KEYS = (
    ("?", "help"),
    ("q", "quit"),
    ("tab", "pane"),
    ("enter", "detail"),
    ("a", "acknowledge"),
    ("r", "read"),
    ("v", "verdict"),
    ("n", "notes"),
    ("u", "unseen"),
    ("l", "log"),
    ("t", "troubles"),
)
"""The most useful first: as many are shown as there is room for."""


def keys(width: int) -> Text:
    """The line of keys."""
    text = line()
    for key, word in KEYS:
        before = "  " if text.plain else ""
        if cells(text.plain) + len(before) + len(key) + 1 + len(word) > width:
            break
        text.append(before).append(key, "bold").append(f" {word}", "dim")
    return text

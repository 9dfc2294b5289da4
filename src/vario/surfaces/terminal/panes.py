"""The texts of the main screen, each fitted to a width. Values come in as plain text and are never read as markup."""

from __future__ import annotations

from rich.text import Text

from vario.catalogue import lookup
from vario.rules.base import number
from vario.surfaces.live.notices import Kind
from vario.surfaces.live.watched import Status
from vario.surfaces.panels import panels, short
from vario.surfaces.spark import sparkline
from vario.surfaces.terminal.columns import cells, clean, fit, shorten, wrap
from vario.surfaces.terminal.plain import headline
from vario.surfaces.terminal.snapshot import Light, RunView, Snapshot
from vario.surfaces.terminal.times import ago, moment, span
from vario.verdict import Diagnosis, Finding

SIGNS = {
    Light.CRITICAL: ("!!", "bold red"),
    Light.WARNING: ("! ", "bold yellow"),
    Light.DECIDE: ("> ", "bold cyan"),
    Light.WAITING: ("..", "dim"),
    Light.FINE: ("ok", "green"),
}
"""Lights by sign and by colour: the signs stand alone where there is no colour."""
SEVERITY = {"critical": SIGNS[Light.CRITICAL], "warning": SIGNS[Light.WARNING], "info": ("i ", "cyan")}
ACKNOWLEDGED, PASSED = ("a ", "dim"), ("- ", "dim")
ACTION = {"stop": "bold red", "intervene": "bold yellow", "continue": "bold green", "cannot-tell": "bold cyan"}
STATUS = {Status.STALLED: "bold yellow", Status.LOST: "bold yellow"}
NEWS = {Kind.OPENED: "opened", Kind.WORSENED: "worse", Kind.SURER: "surer", Kind.RESOLVED: "passed"}
GAUGE_WIDE = 74
"""Columns from which on a gauge has room for its unit."""
SHAPE, VALUE, UNIT = 9, 7, 13
NAME_LEAST, NAME_MOST, SPARK_LEAST, SPARK_MOST = 14, 27, 7, 40
Part = tuple[str, str]


def line(*parts: Part | str) -> Text:
    """Parts beside each other, each with its style."""
    return Text.assemble(*((p, "") if isinstance(p, str) else p for p in parts), no_wrap=True)


def joined(lines: list[Text]) -> Text:
    """Lines below each other."""
    return Text("\n").join(lines)


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


def run_row(view: RunView, width: int) -> Text:
    """A run in the list: its light, its name, and what stands out: how its process is, or the advice."""
    sign, style = SIGNS[view.light]
    action = "" if view.diagnosis is None else view.diagnosis.verdict.action
    status = "" if view.status is Status.LIVE else view.status.value
    word, word_style = (status, STATUS.get(view.status, "dim")) if status else (action, ACTION.get(action, ""))
    if status and action and width >= 36:
        text = line((sign, style), " ", fit(view.name, width - 24), " ", (fit(action, 11), ACTION.get(action, "")), " ")
        return text.append(fit(status, 8), word_style)
    wide = 11 if width >= 34 else 7
    return line((sign, style), " ", fit(view.name, width - 4 - wide), " ", (fit(_brief(word, wide), wide), word_style))


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


def gauge_rows(diagnosis: Diagnosis, width: int) -> Text:
    """The panels in their order: each metric's name, picture, way from start to level, unit and shape."""
    lines: list[Text] = []
    for title, names in panels(diagnosis):
        lines.append(line((title, "bold dim")))
        lines += [_gauge(diagnosis, name, width) for name in names]
    return joined(lines) if lines else line(("no metric of the panels is logged", "dim"))


def _gauge(diagnosis: Diagnosis, name: str, width: int) -> Text:
    r = diagnosis.readings[name]
    wide = width >= GAUGE_WIDE
    arrow = " -> " if wide else "->"
    tail = VALUE + len(arrow) + VALUE + 1 + SHAPE + (UNIT + 1 if wide else 0)
    room = width - tail - 2
    label = min(NAME_MOST, max(NAME_LEAST, room - SPARK_LEAST))
    spark = min(SPARK_MOST, max(SPARK_LEAST, room - label))
    text = line(fit(short(name), label), " ", (fit(sparkline(name, r.spark, r.spread, spark), spark), "cyan"), " ")
    text.append(f"{number(r.start):>{VALUE}}{arrow}{number(r.level):<{VALUE}} ")
    if wide:
        text.append(fit(unit_of(name), UNIT) + " ", "dim")
    text.append(shorten(r.shape, SHAPE))
    text.truncate(width)
    return text


def unit_of(name: str) -> str:
    """A metric's unit; empty for a bare number, and for a name that the catalogue does not know."""
    try:
        unit = lookup(name).unit
    except KeyError:
        return ""
    return "" if unit == "1" else unit


def finding_row(view: RunView, finding: Finding, now: float, width: int) -> Text:
    """A finding in the list: severity, name, since when, seen when, how sure, and what was told of it last."""
    known = finding.name in view.acknowledged
    sign, style = SEVERITY[finding.severity]
    if finding.until is not None or known:
        sign, style = PASSED if finding.until is not None else ACKNOWLEDGED
    parts = []
    if finding.since is not None:
        parts.append(f"since {finding.since}")
    if finding.until is not None:
        parts.append(f"passed by {finding.until}")
    elif finding.detected_at is not None:
        parts.append(f"seen {finding.detected_at}")
    if known:
        parts.append("acknowledged")
    elif finding.until is None:
        parts.append(finding.confidence)
    news = view.news.get(finding.name)
    if news is not None and not known:
        parts.append(f"{NEWS[news[0]]} {moment(news[1], now)}")
    if finding.symptoms:
        parts.append(f"explains {len(finding.symptoms)}")
    name = min(max(20, width // 2 - 4), 33)
    text = line((sign, style), " ", (fit(finding.name, name), style if style != "cyan" else ""))
    for part in parts:
        if cells(text.plain) + 2 + cells(part) > width:
            break
        text.append("  ").append(part, "dim")
    return text


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


def finding_detail(view: RunView, finding: Finding, now: float, width: int) -> Text:
    """Everything that is known of a finding: evidence, what was ruled out, causes, and what to change."""
    sign, style = SEVERITY[finding.severity]
    lines = [line((f"{sign} {finding.severity}  {finding.name}", style), (f"  {finding.code}", "dim"))]
    when = [f"since step {finding.since}"] if finding.since is not None else []
    when += [f"seen at step {finding.detected_at}"] if finding.detected_at is not None else []
    when += [f"passed by step {finding.until}"] if finding.until is not None else []
    when.append(f"{finding.confidence} confidence")
    news = view.news.get(finding.name)
    if news is not None:
        when.append(f"{NEWS[news[0]]} {moment(news[1], now)}")
    lines += _wrapped(", ".join(when), width)
    if finding.name in view.acknowledged:
        lines += _wrapped(f"acknowledged: {view.acknowledged[finding.name]}", width, style="bold")
    lines += _wrapped(finding.summary, width)
    for evidence in finding.evidence:
        lines += _wrapped(evidence, width, "  ", "- ")
    for change in finding.changes if finding.severity != "info" else ():
        key = change.key or f"{change.knob} (no key of this name in {view.framework})"
        now_ = "" if change.current is None else f" (now {_setting(change.current)})"
        to = "" if change.suggested is None else f" to {_setting(change.suggested)}"
        lines += _wrapped(f"change {key}{now_}{to}: {change.why}", width, "  ", style="bold")
    for text in finding.excluded:
        lines += _wrapped(f"ruled out: {text}", width, "  ")
    if finding.causes and finding.severity != "info":
        lines += _wrapped(f"likely causes: {'; '.join(finding.causes)}", width, "  ")
    if finding.dossier is not None:
        lines += _wrapped(f"the batch: {finding.dossier.text}", width, "  ")
    if finding.read is not None:
        some = " ".join(f"{step}/{n}" for step, n in finding.read.samples)
        lines += _wrapped(
            f"read {finding.read.what} ({some}): vario samples {view.path} --finding {finding.name}", width, "  "
        )
    for symptom in finding.symptoms:
        told = f": {symptom.evidence[0]}" if symptom.evidence else ""
        lines += _wrapped(f"explains {symptom.name}{told}", width, "  ")
    for before in finding.precedes:
        lines += _wrapped(f"often comes before {before.text}", width, "  ")
    lines += _wrapped(f"more: vario rule {finding.code}", width, style="dim")
    return joined(lines)


def _wrapped(text: str, width: int, indent: str = "", first: str | None = None, style: str = "") -> list[Text]:
    return [line((part, style)) for part in wrap(text, width, indent, first)]


def _setting(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)


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

"""The main screen: runs, the verdict on the chosen one, its gauges and findings."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import OptionList

from vario.surfaces.cli.text import diagnosis_text
from vario.surfaces.live.feed import Feed
from vario.surfaces.live.follower import Follower
from vario.surfaces.live.snapshot import RunView, Snapshot
from vario.surfaces.live.watched import WatchedRun
from vario.surfaces.terminal import finding_texts, panes, sheets, space
from vario.surfaces.terminal.columns import cells, clean, shorten
from vario.surfaces.terminal.inline import joined, line
from vario.surfaces.terminal.parts import OTHER_RUNS, Pane, Reason, Rows, Words
from vario.surfaces.terminal.run_part import RunPart, keyed
from vario.surfaces.terminal.sheet import Sheet
from vario.verdict import Finding

SECONDS = 1.0
"""Between two paintings: nothing that a person reads changes faster."""
SAID_SECONDS = 6.0


class MainScreen(Screen[None]):
    """Everything at one glance; keys ask for more."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "acknowledge", show=False),
        Binding("r", "reviewed", show=False),
        Binding("c", "completions", show=False),
        Binding("v", "verdict", show=False),
        Binding("n", "notes", show=False),
        Binding("u", "unseen", show=False),
        Binding("l", "log", show=False),
        Binding("t", "troubles", show=False),
        Binding("question_mark", "help", show=False),
        Binding("q", "app.quit", show=False),
        Binding("escape", "runs", show=False),
        *OTHER_RUNS,
    ]

    def __init__(self, feed: Feed, follower: Follower) -> None:
        """Prepare the screen of a feed, which nobody but the follower calls."""
        super().__init__()
        self._feed, self._follower = feed, follower
        self._run: WatchedRun | None = None
        self._part = RunPart(id="right")
        self._said, self._said_until = "", 0.0
        self._eager = True
        self._asked: tuple[WatchedRun, str] | None = None
        self._seen = self._by_hand = False
        self._known = 0

    def compose(self) -> ComposeResult:
        """From top to bottom: how many runs ask for what, the runs, the chosen one, what was noticed last, keys."""
        yield Words(id="head")
        with Horizontal(id="body"):
            yield Pane(Rows(id="runs"), id="runs-pane")
            yield self._part
        yield Words(id="latest")
        with Horizontal(id="ask"):
            yield Words(id="question")
            yield Reason(id="reason", max_length=500)
        yield Words(id="keys")

    def on_mount(self) -> None:
        """Begin to paint."""
        self.query_one("#reason", Reason).cursor_blink = False
        self.query_one("#runs" if len(self._follower.latest.runs) > 1 else "#findings").focus()
        self.set_interval(SECONDS, self.paint)

    def on_resize(self, _event: Resize) -> None:
        """Lay out anew."""
        self.paint()

    def turned(self) -> None:
        """The runs were looked at: shown at once where somebody waits for it, else with the next painting."""
        if self._eager:
            self._eager = False
            self.paint()

    @property
    def view(self) -> RunView | None:
        """The chosen run as it stands."""
        return self._follower.latest.of(self._run)

    @property
    def finding(self) -> Finding | None:
        """The chosen finding as it stands."""
        view = self.view
        return None if view is None else self._part.finding(view)

    def paint(self) -> None:
        """Show everything as it is now; what has not changed is not drawn again."""
        width, height = self.size
        if not width:
            return
        snapshot, now = self._follower.latest, time.time()
        if snapshot.runs and (self.view is None or not (self._seen or self._by_hand)):
            self._run = snapshot.runs[0].watched  # until the first look is over, what needs attention first
        self._seen = snapshot.looked_at is not None
        folder = panes.common_folder([view.name for view in snapshot.runs])
        names = [view.name.removeprefix(folder) for view in snapshot.runs]
        room = space.columns(width, len(names), max((cells(name) for name in names), default=0))
        above = space.stacked_lines(height, len(snapshot.runs)) if room.stacked else 0
        self.query_one("#head", Words).show(panes.head(snapshot, self._follower.turning_since, now, width))
        view = self.view
        self._paint_list(snapshot, names, folder, view, room, above)
        if view is not None:
            self._part.show(view, now, room.right, height - space.FRAME - above, space.reasons(height))
        said = self._said if time.monotonic() < self._said_until else ""
        latest = line((shorten(said, width), "bold")) if said else panes.latest(snapshot, self._known, now, width)
        self.query_one("#latest", Words).show(latest)
        self.query_one("#keys", Words).show(panes.keys(width))

    def _paint_list(
        self,
        snapshot: Snapshot,
        names: list[str],
        folder: str,
        chosen: RunView | None,
        room: space.Columns,
        above: int,
    ) -> None:
        """The list of runs, under the folder that they share."""
        pane, rows = self.query_one("#runs-pane", Pane), self.query_one("#runs", Rows)
        pane.display = room.runs > 0
        if not pane.display:
            return
        self.set_class(room.stacked, "stacked")
        pane.styles.width = room.runs
        pane.styles.height = above if room.stacked else "100%"
        width = room.runs if room.stacked else room.runs - 1
        pane.name_it(shorten(f"{len(names)} runs  {folder}".rstrip(), width - 4), width)
        rows.show(
            [
                (str(view.index), panes.run_row(view, name, width - 1))
                for view, name in zip(snapshot.runs, names, strict=True)
            ],
            None if chosen is None else str(chosen.index),
            "no run yet",
        )

    def say(self, text: str) -> None:
        """Answer the user in the line above the keys, for a few seconds."""
        self._said, self._said_until = clean(text), time.monotonic() + SAID_SECONDS
        self.paint()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """A run or a finding was chosen."""
        if event.option_list.highlighted_option is not event.option:
            return  # the list was filled anew since
        if event.option_list.id == "findings":
            if self._part.choose(event.option.id):
                self.paint()
            return
        views = {str(view.index): view for view in self._follower.latest.runs}
        if event.option.id in views:
            self._choose(views[event.option.id])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter: from a run to its findings, from a finding to all of it."""
        if self._asked is not None:
            return  # keys that came in one go: the question has been put since
        if event.option_list.id == "findings":
            self.action_detail()
        else:
            self.query_one("#findings").focus()

    def _choose(self, view: RunView) -> None:
        if view.watched is not self._run:
            self._run, self._by_hand = view.watched, True
            self._part.begin()
            self.paint()

    def action_other_run(self, way: int) -> None:
        """The run before or behind the chosen one, in the order shown."""
        runs = self._follower.latest.runs
        here = next((i for i, view in enumerate(runs) if view.watched is self._run), 0)
        if runs:
            self._choose(runs[(here + way) % len(runs)])

    def action_runs(self) -> None:
        """To the list of runs."""
        self.query_one("#runs" if self.query_one("#runs-pane").display else "#findings").focus()

    def action_acknowledge(self) -> None:
        """Ask why the chosen finding may stand."""
        view, finding = self.view, self.finding
        if view is None or finding is None or finding.until is not None:
            self.say("There is no open finding to acknowledge here.")
            return
        self._asked = (view.watched, finding.name)
        self.query_one("#question", Words).show(line((f"Why may {clean(finding.name)} stand? ", "bold")))
        self.query_one("#ask").display = True  # and no class: what is not displayed yet takes no focus
        self.query_one("#reason", Reason).focus()

    def on_input_submitted(self, event: Reason.Submitted) -> None:
        """A reason was given."""
        reason, asked = event.value.strip(), self._asked
        self.action_leave_reason()
        if asked is None:
            return
        if not reason:
            self.say("Not acknowledged: it needs a reason.")
            return
        run, subject = asked
        self._wish(f"acknowledging {subject}", partial(self._feed.acknowledge, run, subject, reason))
        self.say(f"acknowledged {subject}: {reason}")

    def action_leave_reason(self) -> None:
        """Close the question without an answer."""
        self._asked = None
        self.query_one("#reason", Reason).value = ""
        self.query_one("#ask").display = False
        self.query_one("#findings").focus()

    def action_reviewed(self) -> None:
        """Somebody has read completions of this run."""
        view = self.view
        if view is None or not view.has_samples:
            self.say("This run writes no completions that could have been read (c: how it would).")
            return
        self._wish("marking completions as read", partial(self._feed.reviewed, view.watched))
        self.say(f"completions of {view.name}: read, at step {view.step}")

    def _wish(self, what: str, wish: Callable[[], None]) -> None:
        self._eager = True
        self._follower.ask(what, wish)

    def _open(self, title: str, make: Callable[[RunView, int], Text]) -> None:
        """A sheet on the run that is chosen now, whatever is chosen later."""
        run = self._run

        def text(width: int) -> Text:
            view = self._follower.latest.of(run)
            return line("No run is there yet.") if view is None else make(view, width)

        name = "" if self.view is None else f"  {self.view.name}"
        self.app.push_screen(Sheet(f"{title}{name}", text))

    def action_detail(self) -> None:
        """All of the chosen finding."""
        key = self._part.chosen

        def make(view: RunView, width: int) -> Text:
            finding = keyed(view).get(key or "")
            if finding is None:
                return line("This finding is not there any more.")
            return finding_texts.detail(view, finding, time.time(), width)

        if self.finding is not None:
            self._open("finding", make)

    def action_gauges(self) -> None:
        """Each metric in words."""
        self._open("gauges", sheets.gauges_sheet)

    def action_completions(self) -> None:
        """Which completions are due."""
        self._open("completions", lambda view, width: sheets.completions_sheet(view, time.time(), width))

    def action_verdict(self) -> None:
        """The whole diagnosis."""
        self._open("diagnosis", _whole)

    def action_notes(self) -> None:
        """What looks wrong but is fine."""
        self._open("looks wrong but is fine", sheets.notes_sheet)

    def action_unseen(self) -> None:
        """What could not be seen."""
        self._open("what could not be seen", sheets.unseen_sheet)

    def action_log(self) -> None:
        """What was noticed, in all runs."""
        self.app.push_screen(Sheet("log", lambda width: sheets.log_sheet(self._follower.latest, width)))

    def action_troubles(self) -> None:
        """What went wrong; from now on it is known."""
        self._known = len(self._follower.latest.messages) + len(self._follower.latest.failures)
        self.app.push_screen(
            Sheet("troubles", lambda width: sheets.troubles_sheet(self._follower.latest, self.view, width))
        )

    def action_help(self) -> None:
        """Keys and signs."""
        self.app.push_screen(Sheet("vario watch: help", sheets.help_sheet))


def _whole(view: RunView, width: int) -> Text:
    """What `vario diagnose` prints, 80 columns wide wherever it is shown."""
    del width
    if view.diagnosis is None:
        return line("Nothing is judged yet.")
    return joined([line(clean(part)) for part in diagnosis_text(view.diagnosis).splitlines()])

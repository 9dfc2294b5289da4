"""The part of the main screen that shows the chosen run: its verdict, gauges and findings."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical

from vario.surfaces.live.snapshot import RunView
from vario.surfaces.sentences import NO_WARNING
from vario.surfaces.terminal import finding_texts, gauge_texts, panes, space
from vario.surfaces.terminal.columns import shorten
from vario.surfaces.terminal.parts import Detail, Gauges, Pane, Rows, Words
from vario.verdict import Diagnosis, Finding

ALWAYS = 3
"""Lines of the verdict that do not depend on its reasons: the title, how the run goes, who read completions."""


class RunPart(Vertical):
    """One run at a glance.

    Attributes:
        chosen: the key of the finding that the cursor is on, None where there is none.
    """

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.chosen: str | None = None
        self._drawn: tuple[Diagnosis | None, int] = (None, 0)

    def compose(self) -> ComposeResult:
        """From what to do down to the evidence."""
        yield Pane(Words(id="verdict"), Words(id="standing"), Words(id="review"), id="verdict-pane")
        yield Pane(Gauges(Words(id="gauge-rows"), id="gauges"), id="gauges-pane")
        yield Pane(Rows(id="findings"), id="findings-pane")
        yield Words(id="beside")
        yield Pane(Detail(Words(id="finding"), id="detail"), id="detail-pane")

    def finding(self, view: RunView) -> Finding | None:
        """The chosen finding as it stands in this view."""
        return keyed(view).get(self.chosen or "")

    def choose(self, key: str | None) -> bool:
        """Choose a finding; True if it was another one before."""
        if key == self.chosen:
            return False
        self.chosen = key
        self.query_one("#detail").scroll_home(animate=False)
        return True

    def begin(self) -> None:
        """Another run is shown from now on."""
        self.chosen = None
        self.query_one("#gauges").scroll_home(animate=False)

    def show(self, view: RunView, now: float, width: int, room: int, reasons: int) -> None:
        """Show a run.

        Args:
            view: the run. now: seconds since 1970.
            width, room: columns and lines of this part. reasons: lines for the reasons of the verdict.
        """
        kind = f"  {view.framework} {view.algorithm}".rstrip()
        self.query_one("#verdict-pane", Pane).name_it(shorten(f"{view.name}{kind}", width - 4), width)
        verdict = panes.verdict(view, width, reasons)
        self.query_one("#verdict", Words).show(verdict)
        self.query_one("#standing", Words).show(panes.standing(view, now, width))
        self.query_one("#review", Words).show(panes.review(view, now, width))
        self._show_gauges(view.diagnosis, width)
        found, beside = keyed(view), panes.beside(view, width)
        if self.chosen not in found:
            self.chosen = next(iter(found), None)
        self._share(room - ALWAYS - _height(verdict), len(found), _height(beside))
        self.query_one("#beside", Words).show(beside)
        self._show_findings(view, found, now, width)

    def _show_gauges(self, diagnosis: Diagnosis | None, width: int) -> None:
        self.query_one("#gauges-pane", Pane).name_it("gauges", width)
        drawn, at = self._drawn
        if diagnosis is drawn and width == at:
            return  # the pictures are most of the work, and change at a look alone
        self._drawn = (diagnosis, width)
        gauges = Text() if diagnosis is None else gauge_texts.gauge_rows(diagnosis, width - 1)
        self.query_one("#gauge-rows", Words).show(gauges)

    def _share(self, room: int, findings: int, beside: int) -> None:
        """Give each part below the verdict its lines."""
        share = space.lines(room, _height(self.query_one("#gauge-rows", Words).text), findings, beside)
        self.query_one("#gauges").styles.height = share.gauges
        self.query_one("#findings").styles.height = share.findings
        self.query_one("#beside").display = share.beside
        self.query_one("#detail-pane").display = share.detail > 0

    def _show_findings(self, view: RunView, found: dict[str, Finding], now: float, width: int) -> None:
        counts = [f"{len(view.open)} open"] + ([f"{len(view.passed)} passed"] if view.passed else [])
        self.query_one("#findings-pane", Pane).name_it(f"findings {', '.join(counts)}", width)
        self.query_one("#findings", Rows).show(
            [(key, finding_texts.row(view, finding, now, width - 1)) for key, finding in found.items()],
            self.chosen,
            shorten(NO_WARNING if view.diagnosis is not None else "not judged yet", width - 1),
        )
        finding = self.finding(view)
        if finding is not None and self.query_one("#detail-pane").display:
            self.query_one("#detail-pane", Pane).name_it("detail", width)
            self.query_one("#finding", Words).show(finding_texts.detail(view, finding, now, width - 1))


def keyed(view: RunView) -> dict[str, Finding]:
    """Findings in the order shown, each under a key that stays with it."""
    made: dict[str, Finding] = {}
    for finding in (*view.open, *view.passed):
        key = f"{finding.name}@{finding.detected_at}"
        while key in made:
            key += "'"
        made[key] = finding
    return made


def _height(text: Text) -> int:
    """Lines of a text; none of an empty one."""
    return text.plain.count("\n") + 1 if text.plain else 0

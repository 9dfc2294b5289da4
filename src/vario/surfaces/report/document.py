"""The report as one HTML file that asks nothing of any network."""

from __future__ import annotations

from datetime import date

from markupsafe import Markup

from vario.surfaces.charts.names import brief
from vario.surfaces.pages.environment import asset, environment, hash_of, style
from vario.surfaces.pages.view import View
from vario.verdict.serial import VERSION


def html_report(view: View, made: date) -> str:
    """The whole file.

    Args:
        view: what is shown.
        made: the day that it is dated with.
    """
    script = asset("read.js")
    return (
        environment()
        .get_template("report.html")
        .render(
            view=view,
            version=VERSION,
            made=made.isoformat(),
            style=style(),
            script=Markup(script),
            script_hash=hash_of(script),
            citation=citation(view, made),
        )
    )


def citation(view: View, made: date) -> str:
    """How the report is cited, for a bibliography."""
    run = view.diagnosis.run
    return (
        f"@misc{{vario-{made.isoformat()},\n"
        f"  title = {{Diagnosis of {brief(view.name, 240)} ({run.framework}, {run.algorithm}), "
        f"steps {run.first_step} to {run.last_step}}},\n"
        f"  howpublished = {{vario {VERSION}}},\n"
        f"  year = {{{made.year}}},\n"
        f"  note = {{{view.diagnosis.verdict.action}, {view.diagnosis.verdict.confidence} confidence}}\n}}"
    )

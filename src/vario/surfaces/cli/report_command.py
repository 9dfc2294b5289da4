"""`vario report`: one run as a file that can be sent."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable
from pathlib import Path

from vario.errors import ConfigError
from vario.surfaces.charts.chart import Chart
from vario.surfaces.cli.wishes import (
    Wishes,
    add_judgement_options,
    add_sample_options,
    add_source_options,
    sample_options,
)
from vario.surfaces.excerpts import excerpts
from vario.surfaces.exemplars import exemplars
from vario.surfaces.outward import NotDelivered, write_whole
from vario.surfaces.pages.view import View
from vario.surfaces.report.document import html_report
from vario.surfaces.report.markdown import Pages, markdown_report, svg_bytes
from vario.verdict import diagnose

ENDINGS = {"html": ".html", "markdown": ".md"}


def add_report(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    one = commands.add_parser(
        "report",
        help="one run as a file that can be sent",
        description="Write the diagnosis of the run at PATH with its curves: one HTML file that needs no network, or Markdown "
        "with pictures beside it, for pull requests.",
    )
    one.add_argument("path", metavar="PATH")
    one.add_argument(
        "-o", "--output", metavar="FILE", help="where to (default vario-report.html or .md; - for standard output)"
    )
    one.add_argument(
        "--format", choices=tuple(ENDINGS), help="html or markdown (default: by the ending of FILE, else html)"
    )
    one.add_argument(
        "--charts", choices=("svg", "png", "none"), default="svg", help="pictures of a Markdown report (default svg)"
    )
    one.add_argument("--name", metavar="NAME", help="what the run is called in it (default PATH)")
    one.add_argument("--until", type=int, metavar="STEP", help="as the run stood at STEP")
    one.add_argument("--pedantic", action="store_true", help="show findings for the pedantic audience too")
    one.add_argument("--no-text", dest="text", action="store_false", help="no completions, and no excerpts of any")
    add_source_options(one)
    add_sample_options(one)
    add_judgement_options(one)


def run_report(options: argparse.Namespace) -> int:
    """Write it; 0 unless nothing can be read.

    Raises:
        VarioError: nothing lies there, or the file cannot be written.
    """
    wishes = Wishes.of(options, options.path)
    how = sample_options(options, wishes.project)
    run = wishes.apply(wishes.read(options.path, options), options)
    if options.until is not None:
        run = run.until(options.until)
    if not run.logged_steps.size:
        raise ConfigError(f"{options.path}: no row to report on")
    diagnosis = diagnose(run, replay=options.replay, choice=wishes.choice)
    words = excerpts(run, diagnosis, how) if options.text else {}
    read = exemplars(run, how) if options.text else []
    view = View(diagnosis, options.name or run.path, words, read, pedantic=options.pedantic)
    kind = options.format or next((k for k, e in ENDINGS.items() if (options.output or "").endswith(e)), "html")
    output = options.output or f"vario-report{ENDINGS[kind]}"
    today = datetime.datetime.now(tz=datetime.UTC).date()
    if kind == "html":
        _write(output, html_report(view, today))
    else:
        folder = "" if output == "-" else f"{Path(output).stem}-files"
        draw = None if output == "-" else _drawing(options.charts)
        _write_pages(output, markdown_report(view, today, folder, draw), folder)
    return 0


def _drawing(charts: str) -> Callable[[Chart], tuple[str, bytes]] | None:
    if charts == "png":
        from vario.surfaces.charts.png import png_bytes

        return png_bytes
    return svg_bytes if charts == "svg" else None


def _write(output: str, text: str) -> None:
    if output == "-":
        sys.stdout.write(text)
        return
    try:
        write_whole(Path(output), text)
    except NotDelivered as error:
        raise ConfigError(f"{output}: {error}") from error
    print(f"{output}: {len(text.encode()) / 1024:.0f} KiB", file=sys.stderr)


def _write_pages(output: str, pages: Pages, folder: str) -> None:
    if pages.files:
        beside = Path(output).parent / folder
        try:
            beside.mkdir(parents=True, exist_ok=True)
            for name, data in pages.files.items():
                (beside / name).write_bytes(data)
        except OSError as error:
            raise ConfigError(f"{beside}: cannot be written ({error.strerror or error})") from error
    _write(output, pages.text)

"""`vario report`: one run as a file that can be sent. Importing this loads the templates."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable
from pathlib import Path

from vario.errors import ConfigError
from vario.surfaces.charts.chart import Chart
from vario.surfaces.cli.report_command import ENDINGS
from vario.surfaces.cli.wishes import Wishes, sample_options
from vario.surfaces.excerpts import excerpts
from vario.surfaces.exemplars import exemplars
from vario.surfaces.outward import NotDelivered, write_whole
from vario.surfaces.pages.view import View
from vario.surfaces.report.document import html_report
from vario.surfaces.report.markdown import Pages, markdown_report, svg_bytes
from vario.verdict import diagnose


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

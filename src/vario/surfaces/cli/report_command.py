"""`vario report`: what it is asked for."""

from __future__ import annotations

import argparse

from vario.surfaces.cli.wishes import add_judgement_options, add_sample_options, add_source_options

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

"""`vario annotate`: write a diagnosis back beside the run, where its curves are looked at."""

from __future__ import annotations

import argparse
import datetime
import json
import sys

from vario.errors import ConfigError
from vario.surfaces.cli.format_options import add_format
from vario.surfaces.cli.wishes import (
    Wishes,
    add_judgement_options,
    add_sample_options,
    add_source_options,
)
from vario.surfaces.privacy import safe
from vario.verdict import diagnose


def add_annotate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    one = commands.add_parser(
        "annotate",
        help="write a diagnosis back beside the run",
        description="Diagnose the run at PATH and write verdict and findings to TARGET, under names that begin with vario/: "
        "wandb://entity/project/run, trackio://project/run, mlflow+http://HOST/RUN_ID (or mlflow+sqlite:///FILE/RUN_ID), "
        "tensorboard:FOLDER. Writing again replaces what was written before.",
    )
    one.add_argument("path", metavar="PATH")
    one.add_argument("--to", required=True, metavar="TARGET", help="where to write it")
    one.add_argument("--dry-run", action="store_true", help="print what would be written, and write nothing")
    add_format(one)
    one.add_argument("--until", type=int, metavar="STEP", help="as the run stood at STEP")
    add_source_options(one)
    add_sample_options(one)
    add_judgement_options(one)


def run_annotate(options: argparse.Namespace) -> int:
    """Write it; 0 unless the run cannot be read, or the tracker does not take it.

    Raises:
        VarioError: one of these.
    """
    # what draws the report is loaded by the commands that draw one
    from vario.surfaces.annotations.entries import annotation_of
    from vario.surfaces.annotations.targets import target_at

    target = target_at(options.to)
    wishes = Wishes.of(options, options.path)
    run = wishes.apply(wishes.read(options.path, options), options)
    if options.until is not None:
        run = run.until(options.until)
    if not run.logged_steps.size:
        raise ConfigError(f"{options.path}: no row to judge")
    diagnosis = diagnose(run, replay=options.replay, choice=wishes.choice)
    annotation = annotation_of(diagnosis, datetime.datetime.now(tz=datetime.UTC).date())
    if not options.dry_run:
        target.write(annotation)
    if options.format == "json":
        entries = [{"place": place, "text": text} for place, text in target.places(annotation)]
        document = {"run": options.path, "to": options.to, "written": not options.dry_run, "entries": entries}
        print(json.dumps(document, ensure_ascii=False, indent=2))
    elif options.dry_run:
        for place, text in target.places(annotation):
            first, *more = text.splitlines()
            print(safe(f"{place}: {first}{f' (and {len(more)} more lines)' if more else ''}"))
    else:
        print(f"{safe(options.to)}: {len(annotation.entries)} entries written", file=sys.stderr)
    return 0

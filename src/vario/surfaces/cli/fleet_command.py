"""`vario fleet ROOT…`: every run below the roots, judged side by side, in the order in which they need attention."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vario.errors import ConfigError, NothingReadable, SourceError
from vario.surfaces.cli.format_options import add_format
from vario.surfaces.cli.wishes import Wishes, add_judgement_options
from vario.surfaces.fleet.jobs import Job, jobs_below
from vario.surfaces.fleet.judging import FAILED as LOST
from vario.surfaces.fleet.judging import OK as JUDGED
from vario.surfaces.fleet.judging import UNREADABLE, Document, without_diagnosis
from vario.surfaces.fleet.page import LIMIT, WIDTH, fleet_page
from vario.surfaces.fleet.parquet import check_parquet, write_parquet
from vario.surfaces.fleet.row import SEVERITIES, Row, in_order
from vario.surfaces.fleet.running import fly
from vario.surfaces.fleet.store import Store, line_of
from vario.work import Work, pool
from vario.work.processes import Processes

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

WIDEST = 140
OF_JUDGEMENT = ("map", "only", "without", "rules", "baseline", "reference", "replay", "count", "all_text")
"""Options that a judgement depends on: a result that was kept holds only as long as they are the same."""


def add_fleet(commands: Commands) -> None:
    """The command and its options."""
    fleet = commands.add_parser(
        "fleet",
        help="diagnose every run below some folders or addresses",
        description="Diagnose every run below the ROOTs (folders, files, or addresses such as s3://bucket/experiments) and "
        "show them in the order in which they need attention. A run that cannot be read stops no other. "
        "With --output FILE.jsonl an interrupted fleet goes on where it was, and runs that have not changed are not judged again.",
    )
    fleet.add_argument("roots", nargs="+", metavar="ROOT")
    fleet.add_argument(
        "-o",
        "--output",
        action="append",
        default=[],
        metavar="FILE",
        help="keep the results in FILE.jsonl (a diagnosis a line, written as they are made) or FILE.parquet (a row a run); "
        "both may be given, and both may be addresses",
    )
    add_format(
        fleet,
        "text for people; json for programs: diagnosis/v1 with `fleet` beside it, a run a line, in the order of the table",
    )
    fleet.add_argument(
        "--limit", type=int, default=LIMIT, metavar="N", help=f"show so many runs one by one (default {LIMIT})"
    )
    fleet.add_argument("--workers", type=int, metavar="N", help="so many processes (default: one for each CPU)")
    fleet.add_argument("--ray", metavar="ADDRESS", help="on a Ray cluster instead; auto: the one that Ray finds")
    fleet.add_argument("--timeout", type=float, metavar="SECONDS", help="give up on a run that takes longer")
    fleet.add_argument(
        "--fail-on",
        choices=(*SEVERITIES, "never"),
        default="warning",
        help="exit 1 from this severity on (default: warning)",
    )
    fleet.add_argument("--exit-zero", action="store_true", help="exit 0 whatever was found")
    fleet.add_argument("--no-samples", dest="count", action="store_false", help="leave completions alone")
    fleet.add_argument(
        "--all-text", action="store_true", help="measure every text, not a sample of 128 completions of each step"
    )
    fleet.add_argument("-q", "--quiet", action="store_true", help="say nothing of the progress")
    add_judgement_options(fleet)


def run_fleet(options: argparse.Namespace) -> int:
    """Do it; returns the exit code.

    Raises:
        ConfigError: the options say what cannot be, or the output cannot be written.
    """
    from vario.surfaces.cli import FAILED

    work = _work(options)
    wishes = argparse.Namespace(map=[], config=None, **{k: getattr(options, k) for k in OF_JUDGEMENT if k != "map"})
    Wishes.of(wishes, "-")  # what is wrong with the options is wrong for every run: say it once, and now
    store, tables = _outputs(options.output)
    jobs, lost = _jobs(options, wishes)
    flown = fly(jobs, work, store, quiet=options.quiet)
    pairs = in_order([*flown.documents, *lost])
    if store is not None:
        store.end([d for r, d in pairs])
    for table in tables:
        write_parquet(table, [row for row, _ in pairs])
    if flown.interrupted:
        if store is not None:
            how = f"the results are in {store.place}, and the same command goes on from there"
        else:
            how = "nothing was kept; with --output FILE.jsonl the next one can go on where this one ended"
        print(f"vario: interrupted with {flown.done} of {len(jobs)} done: {how}", file=sys.stderr)
        return FAILED
    if options.format == "json":
        for _, document in pairs:
            print(line_of(document))
    else:
        print(fleet_page(pairs, limit=options.limit, width=_width()))
    return _exit_code(pairs, options)


def _work(options: argparse.Namespace) -> Work:
    if options.limit < 0:
        raise ConfigError("--limit: 0 or more")
    if options.timeout is not None and not options.timeout > 0.0:
        raise ConfigError("--timeout: more than 0 seconds")
    if options.ray is not None:
        if options.timeout is not None:
            raise ConfigError("--timeout: is kept by processes of this machine, not by a Ray cluster")
        return pool(options.workers, options.ray)
    # never in this process, not even by one worker: a run that ends its process must not end the fleet
    return Processes(options.workers if options.workers is not None else _cpus(), options.timeout)


def _cpus() -> int:
    """CPUs that this process may use, which a container or a scheduler can bound."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _outputs(places: Sequence[str]) -> tuple[Store | None, list[str]]:
    lines = [p for p in places if p.endswith((".jsonl", ".ndjson"))]
    tables = [p for p in places if p.endswith(".parquet")]
    for place in places:
        if place not in lines and place not in tables:
            raise ConfigError(f"--output {place}: a name that ends in .jsonl or .parquet says what to write")
    if len(lines) > 1:
        raise ConfigError("--output: one .jsonl file keeps all results; give one")
    if tables:
        check_parquet()
    return (Store(lines[0]) if lines else None), tables


def _jobs(options: argparse.Namespace, wishes: argparse.Namespace) -> tuple[list[Job], list[Document]]:
    """The jobs of all roots, each run once; and a line for each root that cannot be listed."""
    own = frozenset(Path(p) for place in options.output if "://" not in place for p in (place, Path(place).resolve()))
    jobs: dict[tuple[str, str | None], Job] = {}
    lost = []
    for root in options.roots:
        try:
            below = jobs_below(root, wishes, own)
            if not below:
                raise NothingReadable(f"{root}: no run here or below")
            for job in below:
                place = job.path if "://" in job.path else str(Path(job.path).resolve())
                jobs.setdefault((place, job.run), job)
        except (SourceError, OSError) as error:
            lost.append(without_diagnosis(Job(root, root, root, wishes), UNREADABLE, str(error)))
    return list(jobs.values()), lost


def _width() -> int:
    """Of a terminal as wide as it is, of anything else 80 columns."""
    return max(WIDTH, min(WIDEST, shutil.get_terminal_size().columns)) if sys.stdout.isatty() else WIDTH


def _exit_code(pairs: Sequence[tuple[Row, Document]], options: argparse.Namespace) -> int:
    from vario.surfaces.cli import FAILED, FOUND, NOTHING, OK

    rows = [row for row, _ in pairs]
    if any(row.status == LOST for row in rows):
        return FAILED
    if not any(row.status == JUDGED for row in rows):
        return NOTHING
    if options.exit_zero or options.fail_on == "never":
        return OK
    if any(row.status == UNREADABLE for row in rows):
        return FOUND
    return FOUND if any(_says(document, options.fail_on) for _, document in pairs) else OK


def _says(document: Any, fail_on: str) -> bool:  # noqa: ANN401  (plain JSON)
    least = SEVERITIES.index(fail_on)
    return any(SEVERITIES.index(f["severity"]) >= least and f["audience"] == "default" for f in document["findings"])

"""The command line: `vario diagnose`, `vario metrics`, `vario rule`, `vario demo`.

Exit codes: 0 nothing at or above `--fail-on`, 1 findings, 2 wrong use (several runs and none
chosen among it) or our own failure, 3 nothing readable was found. Several paths: the worst of 2, 3, 1, 0 in that order.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence

from vario.errors import ConfigError, SeveralRuns, SourceError, UnknownRule, VarioError
from vario.project_file import find_project
from vario.run import Run
from vario.sources import read, read_all
from vario.surfaces.cli.metrics_page import known_metrics, metrics_page
from vario.surfaces.cli.rule_page import rule_list, rule_page
from vario.surfaces.cli.text import diagnosis_text
from vario.verdict import Diagnosis, diagnose, to_json
from vario.verdict.serial import VERSION

OK, FOUND, FAILED, NOTHING = 0, 1, 2, 3
WORST = (FAILED, NOTHING, FOUND, OK)
SEVERITIES = ("info", "warning", "critical")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vario", description="Says what an RL post-training run does, how sure it is, why, and what to change."
    )
    parser.add_argument("--version", action="version", version=f"vario {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    one = commands.add_parser(
        "diagnose",
        help="diagnose one run or several",
        description="Diagnose the run at PATH: an output folder; a log (trainer_state.json, TensorBoard, W&B offline, trackio, "
        "MLflow, JSON lines, CSV, Parquet, notebook, console log, packed or not); an address (s3://..., hf://..., http://..., "
        "wandb://entity/project/run, mlflow+http://host:port/run, trackio://project/run); or - for standard input.",
    )
    one.add_argument("paths", nargs="+", metavar="PATH")
    one.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="text for people, json (diagnosis/v1, one document a line) for programs",
    )
    one.add_argument("--json", dest="format", action="store_const", const="json", help="same as --format json")
    one.add_argument(
        "--config",
        metavar="FILE",
        help="the trainer's configuration, if it does not lie beside the log (.json, .yaml, training_args.bin)",
    )
    one.add_argument("--until", type=int, metavar="STEP", help="judge the run as it stood at STEP")
    one.add_argument(
        "--no-replay", dest="replay", action="store_false", help="look once, at the end: faster, without detected_at"
    )
    one.add_argument("--pedantic", action="store_true", help="show findings for the pedantic audience too")
    one.add_argument(
        "--fail-on",
        choices=(*SEVERITIES, "never"),
        default="warning",
        help="exit 1 from this severity on (default: warning)",
    )
    one.add_argument("--exit-zero", action="store_true", help="exit 0 whatever was found")
    _add_choice(one)
    one.add_argument("--all", action="store_true", help="every run below PATH, one after the other")
    metrics = commands.add_parser("metrics", help="what was recognised in a log, under which key, and what was not")
    metrics.add_argument("path", nargs="?", metavar="PATH")
    metrics.add_argument("--known", action="store_true", help="list the canonical metrics instead")
    _add_choice(metrics)
    metrics.add_argument("--config", metavar="FILE")
    metrics.add_argument("--json", action="store_true")
    rule = commands.add_parser("rule", help="print a rule's page, or list all rules")
    rule.add_argument("name", nargs="?", metavar="NAME|CODE")
    return parser


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", metavar="NAME", help="which of several runs at PATH")
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="METRIC=KEY",
        help="what a key of the log means, as in --map reward/mean=my_reward (also [map] in vario.toml)",
    )


def _mapping(options: argparse.Namespace, path: str) -> dict[str, str]:
    mapping = dict(find_project(path).mapping)
    for item in options.map:
        metric, separator, key = item.partition("=")
        if not separator or not metric or not key:
            raise ConfigError(f"--map {item}: expected METRIC=KEY, as in --map reward/mean=my_reward")
        mapping[metric] = key
    return mapping


def _runs(options: argparse.Namespace, path: str) -> Iterator[Run | SourceError | ConfigError]:
    """The run that was asked for, or every one with --all; an error in its place."""
    try:
        mapping = _mapping(options, path)
        if options.all and options.run is None:
            yield from (run for _, run in read_all(path, config=options.config, mapping=mapping))
        else:
            yield read(path, config=options.config, run=options.run, mapping=mapping)
    except (SourceError, ConfigError) as error:
        yield error


def _said(diagnosis: Diagnosis, fail_on: str, *, pedantic: bool) -> bool:
    if fail_on == "never":
        return False
    least = SEVERITIES.index(fail_on)
    return any(
        SEVERITIES.index(f.severity) >= least and (pedantic or f.audience == "default") for f in diagnosis.findings
    )


def _diagnose(options: argparse.Namespace) -> int:
    codes = []
    shown = 0
    for path in options.paths:
        for run in _runs(options, path):
            if isinstance(run, Run) and options.until is not None:
                run = run.until(options.until)
                if not run.logged_steps.size:
                    run = SourceError(f"{path}: no row at or before step {options.until}")
            if not isinstance(run, Run):
                print(f"vario: {run}", file=sys.stderr)
                codes.append(FAILED if isinstance(run, ConfigError | SeveralRuns) else NOTHING)
                continue
            diagnosis = diagnose(run, replay=options.replay)
            if options.format == "json":
                print(json.dumps(to_json(diagnosis), ensure_ascii=False, allow_nan=False))
            else:
                if shown:
                    print()
                print(diagnosis_text(diagnosis, pedantic=options.pedantic))
            shown += 1
            codes.append(FOUND if _said(diagnosis, options.fail_on, pedantic=options.pedantic) else OK)
    worst = next(c for c in WORST if c in codes)
    return OK if options.exit_zero and worst == FOUND else worst


def _run(options: argparse.Namespace) -> int:
    if options.command == "diagnose":
        return _diagnose(options)
    if options.command == "metrics":
        if options.known:
            print(known_metrics())
            return OK
        if options.path is None:
            raise ConfigError("vario metrics: give a PATH, or --known")
        mapping = _mapping(options, options.path)
        run = read(options.path, config=options.config, run=options.run, mapping=mapping)
        print(metrics_page(run, as_json=options.json))
        return OK
    print(rule_page(options.name) if options.name else rule_list())
    return OK


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code and never lets a traceback out."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return FAILED
    try:
        return _run(options)
    except SeveralRuns as error:
        print(f"vario: {error}", file=sys.stderr)
        return FAILED
    except SourceError as error:
        print(f"vario: {error}", file=sys.stderr)
        return NOTHING
    except (UnknownRule, VarioError) as error:
        print(f"vario: {error}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        # the reader of our output has gone (`vario diagnose … | head`): nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return FAILED
    except Exception as error:  # our own failure: one line, not a traceback, unless it is asked for
        if os.environ.get("VARIO_DEBUG"):
            raise
        print(
            f"vario: internal error ({type(error).__name__}: {error}); VARIO_DEBUG=1 shows where. Please report it.",
            file=sys.stderr,
        )
        return FAILED


if __name__ == "__main__":
    sys.exit(main())

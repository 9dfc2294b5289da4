"""The command line: `vario diagnose`, `compare`, `baseline`, `samples`, `fleet`, `watch`, `metrics`, `rule`.

Exit codes: 0 nothing at or above `--fail-on`, 1 findings, 2 wrong use (several runs and none
chosen among it) or our own failure, 3 nothing readable was found. Several paths: the worst of 2, 3, 1, 0 in that order.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from vario.errors import ConfigError, SeveralRuns, SourceError, UnknownRule, VarioError
from vario.project_file import find_project
from vario.rules.choice import choose
from vario.surfaces.cli.annotate_command import add_annotate, run_annotate
from vario.surfaces.cli.compare_page import comparison_json, comparison_text
from vario.surfaces.cli.format_options import add_format
from vario.surfaces.cli.mcp_command import add_mcp, run_mcp
from vario.surfaces.cli.metrics_page import known_metrics, metrics_page
from vario.surfaces.cli.report_command import add_report
from vario.surfaces.cli.rule_page import rule_list, rule_page, rules_json
from vario.surfaces.cli.samples_command import NAME, add_samples, run_samples
from vario.surfaces.cli.serve_command import add_serve, run_serve
from vario.surfaces.cli.text import diagnosis_text
from vario.surfaces.cli.wishes import (
    Wishes,
    add_judgement_options,
    add_sample_options,
    add_source_options,
    runs_at,
    sample_options,
)
from vario.surfaces.excerpts import excerpts, with_excerpts
from vario.verdict import Diagnosis, diagnose, to_json
from vario.verdict.compare import compare
from vario.verdict.profile import FIRST, baseline_document, baseline_of
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
    add_format(
        one,
        "text for people, json (diagnosis/v1, one document a line) for programs, github for annotations of a workflow",
        "github",
    )
    one.add_argument("--until", type=int, metavar="STEP", help="judge the run as it stood at STEP")
    one.add_argument("--pedantic", action="store_true", help="show findings for the pedantic audience too")
    one.add_argument(
        "--fail-on",
        choices=(*SEVERITIES, "never"),
        default="warning",
        help="exit 1 from this severity on (default: warning)",
    )
    one.add_argument("--exit-zero", action="store_true", help="exit 0 whatever was found")
    one.add_argument("--no-text", dest="text", action="store_false", help="no excerpts of completions")
    one.add_argument("--all", action="store_true", help="every run below PATH, one after the other")
    add_source_options(one)
    add_sample_options(one)
    add_judgement_options(one)
    beside = commands.add_parser(
        "compare",
        help="two runs or more beside each other",
        description="Settings that differ, where each metric parts from the first run's for good (at equal steps, samples "
        "and KL), verdicts side by side. `vario compare TRAIN TEST`: where TRAIN does not rise, TEST is taken as the same "
        "recipe trained on the test set, and the branch of the ladder is named.",
    )
    beside.add_argument("paths", nargs="+", metavar="PATH")
    add_format(beside)
    add_source_options(beside)
    add_sample_options(beside)
    add_judgement_options(beside)
    before = commands.add_parser(
        "baseline",
        help="record what the model was like before RL",
        description="Write lengths, text measures, entropy and held-out scores of the model before RL to a file that "
        "--baseline and vario.toml take: from an evaluation of it (--all-rows), or from the first rows of a training.",
    )
    before.add_argument("path", metavar="PATH")
    before.add_argument("-o", "--output", metavar="FILE", help="where to write it (standard output otherwise)")
    before.add_argument(
        "--rows", type=int, default=FIRST, metavar="N", help=f"first rows of a training (default {FIRST})"
    )
    before.add_argument("--all-rows", action="store_true", help="PATH is an evaluation: take all of it")
    before.add_argument("--json", action="store_true", help="print the document, which is JSON, besides writing it")
    add_source_options(before)
    add_sample_options(before)
    metrics = commands.add_parser("metrics", help="what was recognised in a log, under which key, and what was not")
    metrics.add_argument("path", nargs="?", metavar="PATH")
    metrics.add_argument("--known", action="store_true", help="list the canonical metrics instead")
    add_source_options(metrics)
    add_sample_options(metrics)
    add_format(metrics)
    add_samples(commands)
    # here and not above: a process of a fleet comes in from the other end, and imports this package for its wishes
    from vario.surfaces.cli.fleet_command import add_fleet
    from vario.surfaces.cli.watch_command import add_watch

    add_fleet(commands)
    add_watch(commands)
    add_report(commands)
    add_serve(commands)
    add_annotate(commands)
    add_mcp(commands)
    rule = commands.add_parser("rule", help="print a rule's page, or list all rules")
    rule.add_argument("name", nargs="?", metavar="NAME|CODE")
    rule.add_argument("--rules", action="append", default=[], metavar="FILE", help="a Python file with rules of yours")
    add_format(rule)
    return parser


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
        for found in runs_at(options, path):
            if not isinstance(found, tuple):
                print(f"vario: {found}", file=sys.stderr)
                codes.append(FAILED if isinstance(found, ConfigError | SeveralRuns) else NOTHING)
                continue
            run, choice = found
            if options.until is not None:
                run = run.until(options.until)
                if not run.logged_steps.size:
                    print(f"vario: {path}: no row at or before step {options.until}", file=sys.stderr)
                    codes.append(NOTHING)
                    continue
            diagnosis = diagnose(run, replay=options.replay, choice=choice)
            words = excerpts(run, diagnosis, sample_options(options, find_project(path))) if options.text else {}
            if options.format == "json":
                print(json.dumps(with_excerpts(to_json(diagnosis), words), ensure_ascii=False, allow_nan=False))
            elif options.format == "github":
                from vario.surfaces.cli.github import add_to_summary, workflow_commands

                print(*workflow_commands(diagnosis, pedantic=options.pedantic), sep="\n")
                add_to_summary(diagnosis, pedantic=options.pedantic)
            else:
                if shown:
                    print()
                print(diagnosis_text(diagnosis, pedantic=options.pedantic, words=words))
            shown += 1
            codes.append(FOUND if _said(diagnosis, options.fail_on, pedantic=options.pedantic) else OK)
    worst = next(c for c in WORST if c in codes)
    return OK if options.exit_zero and worst == FOUND else worst


def _compare(options: argparse.Namespace) -> int:
    if len(options.paths) < 2:
        raise ConfigError("compare: give two paths or more")
    diagnoses = []
    for path in options.paths:
        found = next(runs_at(options, path))
        if not isinstance(found, tuple):
            raise found
        run, choice = found
        diagnoses.append(diagnose(run, replay=options.replay, choice=choice))
    made = compare(diagnoses)
    print(comparison_json(made) if options.format == "json" else comparison_text(made))
    return OK


def _baseline(options: argparse.Namespace) -> int:
    wishes = Wishes.of(options, options.path)
    run = wishes.project.apply(wishes.read(options.path, options))
    if options.rows < 1:
        raise ConfigError("--rows: at least 1")
    levels = baseline_of(run, None if options.all_rows else options.rows)
    if not levels:
        raise ConfigError(
            f"{options.path}: no length, text measure, entropy or score in it; `vario metrics` says what is"
        )
    document = baseline_document(run, levels)
    if options.output is None or options.json:
        print(document)
    if options.output is None:
        return OK
    try:
        Path(options.output).write_text(document + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{options.output}: cannot be written ({error.strerror or error})") from error
    if not options.json:
        print(
            f'{options.output}: {len(levels)} metrics; use it with --baseline, or baseline = "{options.output}" in vario.toml'
        )
    return OK


def _run(options: argparse.Namespace) -> int:
    if options.command == "diagnose":
        return _diagnose(options)
    if options.command == "compare":
        return _compare(options)
    if options.command == "baseline":
        return _baseline(options)
    if options.command == "samples":
        return run_samples(options)
    if options.command == "fleet":
        from vario.surfaces.cli.fleet_command import run_fleet

        return run_fleet(options)
    if options.command == "watch":
        from vario.surfaces.cli.watch_command import run_watch

        return run_watch(options)
    if options.command == "serve":
        return run_serve(options)
    if options.command == "report":
        from vario.surfaces.cli.reporting import run_report

        return run_report(options)
    if options.command == "annotate":
        return run_annotate(options)
    if options.command == "mcp":
        return run_mcp(options)
    if options.command == "metrics":
        if options.known:
            print(known_metrics(as_json=options.format == "json"))
            return OK
        if options.path is None:
            raise ConfigError("vario metrics: give a PATH, or --known")
        run = Wishes.of(options, options.path).read(options.path, options)
        print(metrics_page(run, as_json=options.format == "json"))
        return OK
    project = find_project(Path.cwd())
    load = (*(project.load if project.here else ()), *(Path(p) for p in options.rules))
    choice = choose(load=load)
    if options.format == "json":
        print(rules_json(options.name, choice))
    else:
        print(rule_page(options.name, choice) if options.name else rule_list(choice))
    return OK


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code and never lets a traceback out."""
    parser = _parser()
    options, more = parser.parse_known_args(arguments)
    if more and options.command == "samples" and all(NAME.fullmatch(word) for word in more):
        options.names += more  # names may stand behind options, too
    elif more:
        parser.error(f"unrecognized arguments: {' '.join(more)}")
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

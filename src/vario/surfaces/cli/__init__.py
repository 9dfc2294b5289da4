"""The command line: `vario diagnose`, `vario metrics`, `vario rule`, `vario demo`.

Exit codes: 0 nothing at or above `--fail-on`, 1 findings, 2 wrong use or our own failure,
3 nothing readable was found. Several paths: the worst of 2, 3, 1, 0 in that order.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from vario.errors import ConfigError, SourceError, UnknownRule, VarioError
from vario.sources import read
from vario.surfaces.cli.metrics_page import metrics_page
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
        description="Diagnose the run at PATH: an output folder, a checkpoint folder, a trainer_state.json or a .jsonl of rows.",
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
    metrics = commands.add_parser("metrics", help="what was recognised in a log, under which key, and what was not")
    metrics.add_argument("path", metavar="PATH")
    metrics.add_argument("--config", metavar="FILE")
    metrics.add_argument("--json", action="store_true")
    rule = commands.add_parser("rule", help="print a rule's page, or list all rules")
    rule.add_argument("name", nargs="?", metavar="NAME|CODE")
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
    for i, path in enumerate(options.paths):
        try:
            run = read(path, config=options.config)
            if options.until is not None:
                run = run.until(options.until)
                if not run.logged_steps.size:
                    raise SourceError(f"{path}: no row at or before step {options.until}")
            diagnosis = diagnose(run, replay=options.replay)
        except ConfigError as error:
            print(f"vario: {error}", file=sys.stderr)
            codes.append(FAILED)
            continue
        except SourceError as error:
            print(f"vario: {error}", file=sys.stderr)
            codes.append(NOTHING)
            continue
        if options.format == "json":
            print(json.dumps(to_json(diagnosis), ensure_ascii=False, allow_nan=False))
        else:
            if i:
                print()
            print(diagnosis_text(diagnosis, pedantic=options.pedantic))
        codes.append(FOUND if _said(diagnosis, options.fail_on, pedantic=options.pedantic) else OK)
    worst = next(c for c in WORST if c in codes)
    return OK if options.exit_zero and worst == FOUND else worst


def _run(options: argparse.Namespace) -> int:
    if options.command == "diagnose":
        return _diagnose(options)
    if options.command == "metrics":
        run = read(options.path, config=options.config)
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

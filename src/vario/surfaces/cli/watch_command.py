"""`vario watch PATH…`: runs that still grow, on a terminal or as lines, with alerts and acts."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from vario.errors import ConfigError
from vario.project_file import find_project
from vario.surfaces.cli.format_options import add_format
from vario.surfaces.cli.wishes import add_judgement_options, add_sample_options, add_source_options
from vario.surfaces.signals import ended_by

if TYPE_CHECKING:
    from vario.surfaces.live.notices import Notice
    from vario.surfaces.live.watching import Watching
    from vario.surfaces.live.wishes import LiveWishes

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

OK, FAILED = 0, 2
LOOPBACK = "127.0.0.1"
REST = 0.25
"""Of the time that a turn takes, what is left to the machine before the next one, where turns are long."""


def add_watch(commands: Commands) -> None:
    """The command and its options."""
    watch = commands.add_parser(
        "watch",
        help="follow runs that still grow",
        description="Follow what trainers write at the PATHs (files that grow, rotate and move; output folders, a folder of "
        "many runs; TensorBoard, W&B offline, trackio; addresses such as mlflow+http://host:port/run; - for standard input), "
        "and tell what changes: findings that open, worsen and resolve. [watch], [alerts] and [act] of vario.toml say how often, "
        "whom to tell, and what to do.",
    )
    watch.add_argument("paths", nargs="*", metavar="PATH")
    watch.add_argument("--plain", action="store_true", help="lines for a log file instead of the terminal application")
    add_format(
        watch, "text for people; json (watch/v1, one document a line) for programs, instead of the terminal application"
    )
    watch.add_argument(
        "--every", type=float, metavar="SECONDS", help="pause between two looks at the files (default: 2)"
    )
    watch.add_argument(
        "--once", action="store_true", help="one look at each run, alerts and acts with it, and end: for cron"
    )
    watch.add_argument(
        "--state",
        metavar="PLACE",
        help="where told findings and sent alerts are remembered: a file, or postgresql://HOST/DATABASE (default: beside each run)",
    )
    watch.add_argument(
        "--prometheus",
        metavar="[HOST:]PORT",
        help=f"serve numbers for Prometheus (on {LOOPBACK} unless a host is named)",
    )
    watch.add_argument("--test-alert", action="store_true", help="send a test to every channel of [alerts], and end")
    watch.add_argument(
        "--rehearse",
        action="store_true",
        help="go through recorded runs and tell what would have been told and done, and when",
    )
    add_source_options(watch)
    add_sample_options(watch)
    add_judgement_options(watch)


def run_watch(options: argparse.Namespace) -> int:
    """Follow, until all has ended or the user has had enough."""
    from vario.surfaces.live.wishes import LiveWishes

    if options.every is not None and not 0.1 <= options.every <= 86_400.0:
        raise ConfigError("--every: between 0.1 and 86400 seconds")
    if not options.paths and not options.test_alert:
        raise ConfigError("vario watch: give a PATH (an output folder, a log, an address, or - for standard input)")
    wishes = LiveWishes.of(find_project(options.paths[0] if options.paths else "."))
    wishes = replace(
        wishes,
        watch=replace(
            wishes.watch, every=options.every or wishes.watch.every, state=options.state or wishes.watch.state
        ),
    )
    if options.test_alert:
        from vario.surfaces.live.alerting import try_alerts

        return try_alerts(wishes.alerts)
    if options.rehearse:
        from vario.surfaces.live.rehearsal import rehearse

        return rehearse(options, wishes)
    return _follow(options, wishes)


def _follow(options: argparse.Namespace, wishes: LiveWishes) -> int:
    from vario.surfaces.live.watching import Watching

    watching = Watching(options.paths, options, wishes)
    as_json = options.format == "json"
    on_a_terminal = sys.stdout.isatty() and sys.stdin.isatty() and "-" not in options.paths
    is_plain = options.once or options.plain or as_json or not on_a_terminal
    told = 0
    with _until_a_signal() if is_plain else nullcontext() as enough:
        try:
            with _exported(options.prometheus, watching):
                if enough is None:
                    from vario.surfaces.terminal.show import show

                    return show(watching)
                told = _lines(watching, enough, once=options.once, as_json=as_json)
        finally:
            watching.close()
            _say(watching.messages[told:])  # what the last alerts and acts have come to
    return OK


@contextmanager
def _exported(wished: str | None, watching: Watching) -> Iterator[None]:
    """Numbers for Prometheus, while it goes on."""
    if wished is None:
        yield
        return
    host, _, port = wished.rpartition(":")
    if not port.isdigit() or not 0 < int(port) < 65_536:
        raise ConfigError(f"--prometheus {wished}: a port, or HOST:PORT")
    try:
        from vario.surfaces.exporters.prometheus import Exporter
    except ImportError as error:
        raise ConfigError('--prometheus needs prometheus_client: pip install "vario[prometheus]"') from error
    try:
        server = Exporter(watching.runs).serve(host or LOOPBACK, int(port))
    except OSError as error:
        raise ConfigError(f"--prometheus {wished}: cannot listen there ({error.strerror or error})") from error
    with server:
        yield


def _say(messages: Sequence[str]) -> None:
    for text in messages:
        print(f"vario: {text}", file=sys.stderr)


def _lines(watching: Watching, enough: threading.Event, *, once: bool, as_json: bool) -> int:
    """Print what changes; ends with the last run, or when it is enough. Gives how many messages were shown."""
    from vario.surfaces.cli.watch_lines import notice_json, run_json
    from vario.surfaces.live.watched import Status
    from vario.surfaces.terminal.plain import line_of, status_line

    def tell(notice: Notice) -> None:
        print(notice_json(notice, notice.at) if as_json else line_of(notice), flush=True)

    shown: dict[str, tuple[str, str]] = {}
    told = 0
    while not enough.is_set():
        began = time.monotonic()
        watching.turn(tell)
        for watched in watching.runs:
            diagnosis = watched.diagnosis
            stands = (diagnosis.verdict.action if diagnosis else "", watched.status.value)
            if shown.get(watched.name) != stands:
                shown[watched.name] = stands
                print(run_json(watched) if as_json else status_line(watched))
        _say(watching.messages[told:])
        told = len(watching.messages)
        sys.stdout.flush()
        if once or (watching.runs and all(w.status is Status.ENDED for w in watching.runs)):
            break
        took = time.monotonic() - began
        enough.wait(max(watching.every - took, REST * took))
    return told


@contextmanager
def _until_a_signal() -> Iterator[threading.Event]:
    """Is set when somebody ends it."""
    enough = threading.Event()
    with ended_by(lambda *_: enough.set()):
        yield enough

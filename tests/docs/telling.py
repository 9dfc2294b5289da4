"""A page is told from top to bottom in a folder: its files are written, its commands and Python are run."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import ROOT
from vario.surfaces.cli import _parser, main

BLOCK = re.compile(r"(?:^`([\w./-]+)`:\n\n)?^(```+)(\w+)\n(.*?)^\2$", flags=re.MULTILINE | re.DOTALL)
PROSE = re.compile(r"^(```+)\w+\n.*?^\1$", flags=re.MULTILINE | re.DOTALL)


@dataclass
class Told:
    """A command or a block of Python, what came of it, and what the page shows of its output."""

    line: str
    code: int
    out: str
    shown: list[str] = field(default_factory=list)


def text_of(page: str) -> str:
    return (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")


def commands_of(page: str) -> list[str]:
    return [line for _, _, kind, body in BLOCK.findall(text_of(page)) if kind == "sh" for line in body.splitlines()]


def blocks_of(page: str, kind: str) -> list[str]:
    """What stands in the blocks of one kind."""
    return [body for _, _, of, body in BLOCK.findall(text_of(page)) if of == kind]


def tell(
    page: str,
    here: Path,
    *,
    answers: str = "",
    names: dict[str, object] | None = None,
    left: Callable[[str], bool] = lambda line: "--ray" in line,
) -> list[Told]:
    """Every command of a page, and every block of Python.

    Args:
        page: its name. here: the folder in which it is told.
        answers: what the reader types at each command.
        names: what all blocks of Python share from top to bottom; each stands by itself without it.
        left: which commands are left to others, by default those on Ray.
    """
    found: list[Told] = []
    with contextlib.chdir(here):
        for name, _, kind, body in BLOCK.findall(text_of(page)):
            if name:
                Path(name).write_text(body, encoding="utf-8")
            elif kind == "sh":
                found += [run(line, answers) for line in body.splitlines() if not left(line)]
            elif kind == "python":
                with _heard("") as heard:
                    exec(compile(body, "block of a page", "exec"), {"__name__": "page"} if names is None else names)
                found.append(Told(body, 0, heard.getvalue()))
            elif kind == "text":
                found[-1].shown.append(body)
    return found


def run(line: str, answers: str = "") -> Told:
    """A command, in the folder where we are; a bucket is a folder there."""
    words = shlex.split(line.replace("s3://", f"file://{Path.cwd()}/"))
    assert words[0] == "vario", line
    with _heard(answers) as heard, _own_signals():
        code = main(words[1:])
    return Told(line, code, heard.getvalue())


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """A command that waits for signals does so for itself."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _heard(answers: str) -> Iterator[io.StringIO]:
    heard, before = io.StringIO(), sys.stdin
    sys.stdin = io.StringIO(answers)
    try:
        with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
            yield heard
    finally:
        sys.stdin = before


@contextlib.contextmanager
def on_ray() -> Iterator[None]:
    """A small cluster, which commands find by `--ray auto`."""
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        yield
    finally:
        ray.shutdown()


def is_printed(done: Told) -> None:
    """What the page shows below a command stands in what it printed, in that order; `…` is what was left out."""
    part = missing(done.out, *done.shown)
    assert part is None, f"{done.line}\nprints no {part!r} there:\n{done.out}"


def missing(out: str, *shown: str) -> str | None:
    """The first part of what a page shows that does not stand in the output after the parts before it."""
    rest = packed(out)
    for part in re.split(r"…|\n", "\n".join(shown)):
        if wanted := packed(part):
            _, found, rest = rest.partition(wanted)
            if not found:
                return part
    return None


def packed(text: str) -> str:
    """Without white space: how lines are broken is no part of what they say."""
    return re.sub(r"\s+", "", text)


def is_understood(page: str, *commands: str) -> None:
    """The commands and the options that stand in sentences and tables exist."""
    prose = PROSE.sub("", text_of(page))
    known = "".join(_usage(command) for command in commands)
    for command in re.findall(r"`vario ([a-z]+)", prose):
        assert _usage(command)
    for option in re.findall(r"`(--[a-z][\w-]+)", prose):
        assert option in known or option in _OF_TRAINERS, option


_OF_TRAINERS = frozenset(
    {"--log_completions", "--save_traces", "--rollouts_save_path", "--save-debug-rollout-data", "--logger", "--use-tensorboard",
     "--tb-experiment-name", "--with_tracking", "--enable_tensorboard", "--tensorboard_path", "--output_dir"}
)  # fmt: skip


def _usage(command: str) -> str:
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard), contextlib.suppress(SystemExit):
        _parser().parse_args([command, "--help"])
    assert "invalid choice" not in heard.getvalue(), command
    return heard.getvalue()


def links_lead_somewhere(page: str) -> None:
    """Every page and every heading that a page links to is there."""
    for name, anchor in re.findall(r"\]\(([\w./-]*?)(?:#([\w-]+))?\)", text_of(page)):
        file = ROOT / "docs" / (name or f"{page}.md")
        assert file.is_file(), name
        heads = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
        assert not anchor or anchor in {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in heads}, anchor


def table_below(page: str, heading: str) -> list[list[str]]:
    """Rows of the first table below a heading, without its head."""
    part = re.split(rf"^#+ {re.escape(heading)}$", text_of(page), maxsplit=1, flags=re.MULTILINE)[1]
    rows = list(re.findall(r"^\| (.*) \|$", part.split("\n#")[0], flags=re.MULTILINE))
    return [row.split(" | ") for row in rows[2:]]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)

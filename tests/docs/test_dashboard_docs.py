"""docs/dashboard.md: every command is started, every address is asked for, and every number is that of the code."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("polars")

from tests.cli.dumps import trl_run
from tests.conftest import ROOT, recorded
from tests.dashboard.serving import Dashboard, served
from tests.docs.telling import (
    commands_of,
    is_printed,
    is_understood,
    links_lead_somewhere,
    quoted,
    run,
    table_below,
    text_of,
)
from vario.sources.marks import NAME as MARKS
from vario.surfaces.cli.serve_command import EVERY, HOST, PORT, TOKENS
from vario.surfaces.dashboard.comparing import MOST
from vario.surfaces.dashboard.guard import LARGEST_BODY
from vario.surfaces.dashboard.overview import ENDED, KNOWN, OPEN, WORD
from vario.surfaces.state.places import NAME as STATE

PAGE = "dashboard"
TEXT = text_of(PAGE)
SAID = " ".join(TEXT.split())
SERVED = [line for line in commands_of(PAGE) if line.startswith("vario serve") and "0.0.0.0" not in line]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    for name, golden in {"my-run": "grpo-drift", "good": "grpo-healthy-kl"}.items():
        recorded(golden, home / "runs" / name)
    trl_run(home / "runs/texts")
    return home


@pytest.fixture(scope="module")
def shown(home: Path) -> Iterator[Dashboard]:
    with served("runs", cwd=home) as dashboard:
        dashboard.judged("my-run", "good", "texts")
        yield dashboard


@pytest.mark.parametrize("line", SERVED)
def test_a_command_serves(line: str, home: Path) -> None:
    words = shlex.split(line)[2:]
    with served(*words, cwd=home) as dashboard:
        answer = dashboard.ask("/", x_forwarded_user="me", host="runs.example.org" if "--name" in words else "localhost")
        assert answer.status == 200
        dashboard.process.send_signal(signal.SIGINT)
        assert dashboard.process.wait(30) == 0
        pytest.MonkeyPatch().setattr(dashboard.process, "poll", lambda: None)


def test_what_would_be_open_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    monkeypatch.delenv("VARIO_TOKEN", raising=False)
    (line,) = (line for line in commands_of(PAGE) if "0.0.0.0" in line)
    done = run(line)
    assert done.code == 2
    done.shown += re.findall(r"^```text\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert done.shown
    is_printed(done)


def test_every_address_answers(shown: Dashboard) -> None:
    ids = shown.ids()
    rows = table_below(PAGE, "What each page answers")
    for row in rows:
        (address,) = quoted(row[0])
        path = address.replace("RUN", ids["texts"]).replace("=A", f"={ids['my-run']}").replace("=B", f"={ids['good']}")
        assert shown.ask(path).status == 200, path
    assert len(rows) == 10


def test_every_light_is_told() -> None:
    assert {row[0] for row in table_below(PAGE, "What a light says")} == {*WORD.values(), OPEN, KNOWN, ENDED}


def test_numbers_and_names_of_the_page() -> None:
    assert (HOST, PORT, EVERY, MOST, LARGEST_BODY) == ("127.0.0.1", 8321, 1.0, 6, 64 << 10)
    assert TOKENS.fullmatch("aZ09._~-" * 2)
    assert not TOKENS.fullmatch("a" * 15)
    for said in (f"http://{HOST}:{PORT}/", "up to six runs", "one beyond 64 KiB with 413", "1 second without it", "16 characters or more", f"`{STATE}`", f"`{MARKS}`"):
        assert said in SAID, said


def test_what_stands_in_sentences_is_understood() -> None:
    is_understood(PAGE, "serve", "diagnose")


def test_it_is_linked() -> None:
    assert "](dashboard.md)" in (ROOT / "docs/index.md").read_text(encoding="utf-8")
    links_lead_somewhere(PAGE)

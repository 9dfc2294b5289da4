"""The order of the table, what the page says at 80 columns, and that no log drives the terminal."""

from __future__ import annotations

import copy as copying
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.logs import climb, trl_log
from tests.conftest import recorded
from tests.fleet.trees import FAST, fleet, started
from vario.sources import read
from vario.surfaces.cli import main
from vario.surfaces.fleet.causes import causes
from vario.surfaces.fleet.page import WIDTH, fleet_page, shorten
from vario.surfaces.fleet.row import ACTIONS, in_order, needs_attention, row_of
from vario.verdict import diagnose, to_json


@pytest.fixture(scope="module")
def drift(golden: Path) -> dict[str, Any]:
    return to_json(diagnose(read(golden / "grpo-drift"), replay=False)) | {"fleet": {"name": "drift", "path": "drift", "run": None, "status": "ok", "seconds": 1.0, "fingerprint": "f", "of": 1}}


def made(drift: dict[str, Any], name: str, *, status: str = "ok", reason: str | None = None, action: str = "continue", findings: tuple[tuple[str, str, str], ...] = (), confidence: str = "high", hours: float | None = None, devices: float | None = None) -> dict[str, Any]:
    """A document with another verdict; findings are (name, severity, audience)."""
    document = copying.deepcopy(drift)
    document["fleet"] |= {"name": name, "path": name, "status": status, "reason": reason}
    document["verdict"] |= {"action": action, "confidence": confidence}
    pattern = document["findings"][0]
    document["findings"] = [pattern | {"name": n, "severity": s, "audience": a} for n, s, a in findings]
    cost = document["verdict"]["risk"]["cost"]
    cost |= {"hours_since_first_finding": hours, "device_hours_since_first_finding": None if devices is None or hours is None else hours * devices, "hours_since_best": None, "device_hours_since_best": None}
    return document


def names(documents: list[dict[str, Any]]) -> list[str]:
    return [row.name for row, _ in in_order(documents)]


WARNING, CRITICAL = ("a-warning", "warning", "default"), ("a-critical", "critical", "default")


def test_the_order_of_attention(drift: dict[str, Any]) -> None:
    expected = [
        made(drift, "stop", action="stop", findings=(CRITICAL,)),
        made(drift, "stop, less bad", action="stop", findings=(WARNING,)),
        made(drift, "stop, less sure", action="stop", findings=(WARNING,), confidence="medium"),
        made(drift, "intervene, 800 device-hours", action="intervene", findings=(WARNING,), hours=100.0, devices=8.0),
        made(drift, "intervene, 500 hours", action="intervene", findings=(WARNING,), hours=500.0),
        made(drift, "intervene, hours unknown", action="intervene", findings=(WARNING,)),
        made(drift, "a tells nothing", action="cannot-tell"),
        made(drift, "b tells nothing", action="cannot-tell"),
        made(drift, "continue with a warning", findings=(WARNING,)),
        made(drift, "continue", findings=(("small", "info", "default"), ("fussy", "critical", "pedantic"))),
        made(drift, "failed", status="failed", reason="it took too long", action="stop"),
        made(drift, "unreadable", status="unreadable", reason="empty", action="stop"),
    ]
    wanted = [d["fleet"]["name"] for d in expected]
    for shift in range(len(expected)):
        assert names(expected[shift:] + expected[:shift]) == wanted
    assert names(expected[::-1]) == wanted
    assert [d["fleet"]["name"] for d in expected if needs_attention(row_of(d))] == [*wanted[:6], wanted[8]]


def test_a_finding_that_passed_comes_after_one_that_holds(drift: dict[str, Any]) -> None:
    document = made(drift, "run", findings=(CRITICAL, WARNING))
    document["findings"][0]["until"] = 90
    row = row_of(document)
    assert (row.finding, row.severity) == ("a-warning", "warning")
    assert row.findings == ("a-warning", "a-critical")


def test_at_stake_without_a_finding_only_where_it_should_not_go_on(drift: dict[str, Any]) -> None:
    for action, expected in (("continue", None), ("stop", 5.0)):
        document = made(drift, "run", action=action)
        document["verdict"]["risk"]["cost"]["hours_since_best"] = 5.0
        assert row_of(document).stake_hours == expected


@pytest.mark.parametrize("width", [80, 100, 140])
def test_the_page_fits(drift: dict[str, Any], width: int) -> None:
    long = "a/very/long/way/down/to/a/run-with-a-name-that-nobody-would-type-twice/seed0"
    documents = [
        made(drift, f"{long}{i}", action=action, findings=(("kl-rises-while-reward-falls-and-more-words", "critical", "default"),), hours=hours, devices=8.0)
        for i, (action, hours) in enumerate(itertools.product(ACTIONS, (None, 0.0001, 0.3, 12.0, 12345.0)))
    ]
    for i, document in enumerate(documents):
        document["run"] |= {"framework": ("trl", "deepspeed-chat")[i % 2], "last_step": 10**7}
    documents.append(made(drift, long * 3, status="failed", reason="word " * 60))
    page = fleet_page(in_order(documents), width=width)
    assert max(map(len, page.splitlines())) <= width
    assert "21 runs: 5 stop, 5 intervene, 5 cannot tell, 5 continue, 1 failed." in page
    assert "kl-rises-while-reward-falls-and-more-words" in page.partition("what runs have in common")[0], "a finding is told whole"
    assert "seed00" in page


def test_limit_says_what_it_leaves_out(drift: dict[str, Any]) -> None:
    documents = [made(drift, f"run{i}", action="stop", findings=(WARNING,)) for i in range(9)]
    documents += [made(drift, f"lost{i}", status="unreadable", reason=f"reason {i}") for i in range(9)]
    page = fleet_page(in_order(documents), limit=4)
    assert "and 5 more: --limit 9" in page
    assert "run3" in page
    assert "run4" not in page
    assert "lost4" not in page
    assert "18 runs" in page
    assert "and 5 more" not in fleet_page(in_order(documents), limit=9)


def test_nothing_at_all() -> None:
    assert fleet_page([]) == "0 runs."


def test_shared_causes_are_said_once(drift: dict[str, Any]) -> None:
    documents = [made(drift, f"run{i}", findings=(WARNING,)) for i in range(12)]
    documents += [made(drift, f"well{i}") for i in range(28)]
    for i, document in enumerate(documents[:12]):
        document["findings"][0]["changes"] = [
            {"knob": "kl-coef", "key": "beta", "current": 0.0 if i else 0.04, "suggested": 0.1, "why": "hold it"},
            {"knob": "learning-rate", "key": "learning_rate", "current": 10.0 ** -i, "suggested": None, "why": "less"},
        ]
    assert causes(documents) == ["a-warning in 12 of 40 runs; 11 of them have beta 0.0. To change: beta: hold it"]
    assert causes(documents[:2] + documents[12:]) == [], "two runs share nothing worth a sentence"
    page = fleet_page(in_order(documents))
    assert page.count("a-warning in 12 of 40 runs") == 1


def test_alike_runs_are_told_together(drift: dict[str, Any]) -> None:
    documents = [made(drift, f"run{i}", action="stop", findings=(WARNING,)) for i in range(3)]
    documents[2]["findings"][0]["evidence"] = ["something else"]
    text = fleet_page(in_order(documents)).partition("what needs attention")[2]
    assert "run0, run1\n" in text
    assert text.count("a-warning") == 2


@pytest.mark.parametrize(("text", "width", "expected"), [("short", 5, "short"), ("abcdefgh", 5, "ab…gh"), ("abcdefgh", 6, "ab…fgh"), ("ab", 1, "…"[:1])])
def test_shorten(text: str, width: int, expected: str) -> None:
    assert shorten(text, width) == expected
    assert len(shorten(text, width)) <= width


HOSTILE = "it's \"quoted\" \x1b[31mred\x1b[0m \u202eesrever \x07\ttab"


def test_names_with_blanks_quotes_and_escapes(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trl_log(Path("runs") / "a b" / HOSTILE / "rows.jsonl", reward=climb()[::-1], **{f"bad\x1b[2J/{i}": climb(i) for i in range(2)})
    broken = Path("runs") / "broken \x1b]0;title\x07" / "trainer_state.json"
    broken.parent.mkdir()
    broken.write_text("{\x1b[31m")
    assert fleet("runs", "-o", "out.jsonl", "--no-replay", "--workers", "1") == 1
    out, err = capfd.readouterr()
    for text in (out, err):
        assert not [c for c in text if (ord(c) < 32 and c != "\n") or c == "\u202e" or 127 <= ord(c) < 160]
    assert "it's \"quoted\" ?[31mred" in " ".join(out.split())
    assert "broken ?]0;title?" in " ".join(out.split())
    (kept,) = [d for d in map(json.loads, Path("out.jsonl").read_text().splitlines()) if d["fleet"]["status"] == "ok"]
    assert kept["fleet"]["name"] == f"a b/{HOSTILE}", "a file holds the true name"


@pytest.mark.skipif(not hasattr(__import__("os"), "fsencode"), reason="posix names")
def test_a_name_that_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import os

    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"runs/caf\xe9")
    try:
        trl_log(Path(name) / "rows.jsonl")
    except OSError:
        pytest.skip("this file system takes only text")
    assert fleet("runs", "-o", "out.jsonl", "-o", "out.parquet", *FAST) == 0
    assert "caf?" in capsys.readouterr().out
    (document,) = map(json.loads, Path("out.jsonl").read_text().splitlines())
    assert document["fleet"]["name"] == os.fsdecode(b"caf\xe9")
    assert fleet("runs", "-o", "out.jsonl", "--json", *FAST) == 0


def test_json_is_in_the_tables_order_and_the_same_as_diagnose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    places = {name: recorded(name, Path("runs") / "deep" / name) for name in ("dpo-healthy", "grpo-drift", "grpo-lr-too-low")}
    Path("vario.toml").write_text('[rules]\nwithout = ["length-jumped"]\n[suppress]\nkl-spike = "seen"\n')
    Path("runs/deep/grpo-drift/vario.toml").write_text("[declare]\ndevices = 8\n")
    assert fleet("runs", "--json", "--quiet") == 1
    fleets = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [d["fleet"]["name"] for d in fleets] == ["deep/grpo-drift", "deep/grpo-lr-too-low", "deep/dpo-healthy"]
    assert fleets[0]["verdict"]["risk"]["cost"]["devices"] == 8
    for document in fleets:
        place = places[document["fleet"].pop("name").rpartition("/")[2]]
        main(["diagnose", str(place), "--json"])
        del document["fleet"]
        assert document == json.loads(capsys.readouterr().out)


def test_progress(tmp_path: Path) -> None:
    for i in range(20):
        trl_log(tmp_path / "runs" / f"seed{i:02}" / "rows.jsonl", seed=i)
    done = started("runs", "--no-replay", "--workers", "2", "-o", "out.jsonl", cwd=tmp_path)
    _, said = done.communicate(timeout=60)
    told = [line.partition(" ")[0] for line in said.splitlines()]
    assert told == [f"{n}/20" for n in range(2, 21, 2)], said
    quiet = started("runs", "--no-replay", "--quiet", "--limit", "3", "-o", "out.jsonl", cwd=tmp_path)
    out, said = quiet.communicate(timeout=60)
    assert said == ""
    assert "and 17 more" in out
    assert np.max([len(line) for line in out.splitlines()]) <= WIDTH


def test_progress_on_a_terminal(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    import os
    import subprocess
    import sys

    from tests.fleet.trees import ROOT

    for i in range(3):
        trl_log(tmp_path / "runs" / f"seed{i}" / "rows.jsonl", seed=i)
    for without_rich in ("", "import sys; sys.modules['rich'] = None\n"):
        ours, theirs = pty.openpty()
        code = without_rich + "import sys; from tests.fleet.trees import fleet; sys.exit(fleet('runs', '--no-replay', '--workers', '1'))"
        with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stderr=theirs, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}) as process:
            os.close(theirs)
            said = b""
            while True:
                try:
                    piece = os.read(ours, 4096)
                except OSError:
                    break
                if not piece:
                    break
                said += piece
            out, _ = process.communicate(timeout=60)
        os.close(ours)
        assert process.returncode == 0
        assert "3 runs" in out
        assert b"3/3" in said
        assert (b"seed" in said) or not without_rich

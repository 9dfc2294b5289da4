"""What vario does by itself: only what was asked for, only when it is grave and sure enough, and never twice."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.live.growing import Growing, breaking
from vario.errors import ConfigError
from vario.surfaces import outward
from vario.surfaces.live.actions import Act, act_options, acts_of
from vario.surfaces.live.desk import Desk
from vario.surfaces.live.notices import Kind, Notice
from vario.surfaces.live.performing import ActFailed, perform
from vario.surfaces.live.watched import Status, WatchedRun
from vario.surfaces.live.wishes import LiveWishes
from vario.surfaces.state import State, place_of, run_key

BOTH = {"severity": "critical", "confidence": "medium"}
ACT = Act("sentinel", "reward-collapsed", 110, "critical", "high", "reward fell from 0.7 to 0")


def followed(
    wishes: LiveWishes, path: Path | None, handed: list[tuple[Any, ...]] | None = None, rows: int = 10
) -> Desk:
    """A breaking run, watched to its end; what is handed to its trainer is kept."""
    desk = Desk(wishes, trainer=None if handed is None else lambda *m: handed.append(m))
    watched = WatchedRun("run", Growing(breaking(), rows))
    desk.admit(watched, None if path is None else str(path))
    while watched.status is not Status.ENDED:
        desk.handle(watched, watched.look())
    desk.close()
    return desk


def asked(**act: object) -> LiveWishes:
    return LiveWishes(act=act_options(act))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"stop": True}, "needs a severity and a confidence"),
        ({"stop": {"severity": "critical"}}, "needs a severity and a confidence"),
        ({"stop": {"confidence": "high"}}, "needs a severity and a confidence"),
        ({"stop": {**BOTH, "severity": "grave"}}, "severity is one of info, warning, critical"),
        ({"stop": {**BOTH, "when": 1}}, "needs a severity and a confidence"),
        ({"stop": {**BOTH, "rules": "KL"}}, "rules is a list"),
        ({"command": BOTH}, "command needs run"),
        ({"stopp": BOTH}, "no action 'stopp'; stop?"),
        ({"dry-run": "yes"}, "dry-run is true or false"),
    ],
)
def test_what_cannot_be_is_said(table: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
        act_options(table)


def test_nothing_is_done_that_nobody_asked_for(tmp_path: Path) -> None:
    handed: list[tuple[Any, ...]] = []
    assert followed(LiveWishes(), tmp_path, handed).acts == []
    assert handed == []


def test_a_stop_is_handed_over_once_with_its_evidence_and_logged(tmp_path: Path) -> None:
    handed: list[tuple[Any, ...]] = []
    followed(asked(stop=BOTH), tmp_path, handed)
    assert [(m[0], m[1]) for m in handed] == [("act", "stop")]
    assert "critical, medium confidence" in handed[0][2]
    place = place_of(str(tmp_path))
    with State.open(place) as state:
        (kept,) = state.acts(run_key(str(tmp_path), place))
    assert (kept.action, kept.dry, kept.severity, kept.confidence) == ("stop", False, "critical", "medium")
    assert kept.evidence[0]


def test_a_restart_does_not_act_again(tmp_path: Path) -> None:
    followed(asked(stop=BOTH), tmp_path, [])
    handed: list[tuple[Any, ...]] = []
    followed(asked(stop=BOTH), tmp_path, handed, rows=1000)  # what was written meanwhile is there at once
    assert handed == []


def test_two_watchers_act_once(tmp_path: Path) -> None:
    handed: list[tuple[Any, ...]] = []
    desks = [Desk(asked(stop=BOTH), trainer=lambda *m: handed.append(m)) for _ in range(2)]
    runs = [WatchedRun("run", Growing(breaking(), 1000)) for _ in desks]
    for desk, watched in zip(desks, runs, strict=True):
        desk.admit(watched, str(tmp_path))
    notices = [watched.look() for watched in runs]  # both have seen it before either has noted it
    for desk, watched, made in zip(desks, runs, notices, strict=True):
        desk.handle(watched, made)
        desk.close()
    assert len(handed) == 1


@pytest.mark.parametrize(
    ("more", "acts"), [({}, 1), ({"rules": ["KL"]}, 0), ({"rules": ["RU", "RW"]}, 1), ({"rules": ["kl-spike"]}, 0)]
)
def test_rules_narrow_what_suffices(more: dict[str, object], acts: int) -> None:
    handed: list[tuple[Any, ...]] = []
    followed(asked(stop={**BOTH, **more}), None, handed)
    assert len(handed) == acts


def test_a_dry_run_tells_and_does_nothing(tmp_path: Path) -> None:
    handed: list[tuple[Any, ...]] = []
    sentinel = tmp_path / "STOP"
    desk = followed(asked(stop=BOTH, sentinel={**BOTH, "file": str(sentinel)}, **{"dry-run": True}), tmp_path, handed)
    assert {act.action for act, _ in desk.acts} == {"stop", "sentinel"}
    assert all(outcome.startswith("dry run") for _, outcome in desk.acts)
    assert handed == []
    assert not sentinel.exists()


def test_without_a_trainer_a_stop_is_told_as_not_done() -> None:
    desk = followed(asked(stop=BOTH), None)
    assert any("only vario's callback in the training can do it" in text for text in desk.messages)


@pytest.mark.parametrize("known", [False, True])
def test_what_is_acknowledged_moves_nothing(tmp_path: Path, known: bool) -> None:
    handed: list[tuple[Any, ...]] = []
    desk = Desk(asked(stop={**BOTH, "confidence": "high"}), trainer=lambda *m: handed.append(m))
    watched = WatchedRun("run", Growing(breaking(), 1000))
    desk.admit(watched, str(tmp_path))
    notices = watched.look()
    desk.handle(watched, notices)
    grave = next(n for n in notices if n.severity == "critical")
    assert grave.finding is not None
    if known:
        desk.acknowledge(watched, grave.subject, "we know")
        assert desk.acknowledged(watched) == {grave.subject: "we know"}
    surer = replace(grave.finding, confidence="high")
    desk.handle(watched, [replace(grave, kind=Kind.SURER, confidence="high", finding=surer)])
    desk.close()
    assert len(handed) == (0 if known else 1)


def test_a_rise_of_confidence_may_suffice() -> None:
    finding = next(
        n.finding
        for n in WatchedRun("run", Growing(breaking(), 1000)).look()
        if n.finding is not None and n.severity == "critical"
    )
    options = act_options({"stop": BOTH})
    unsure = Notice(Kind.OPENED, "r", finding.name, 9, "critical", "low", "t", "x", 0.0, replace(finding, confidence="low"))
    sure = Notice(Kind.SURER, "r", finding.name, 19, "critical", "medium", "t", "x", 0.0, finding)
    assert list(acts_of(options, unsure)) == []
    assert [a.action for a in acts_of(options, sure)] == ["stop"]


def test_a_sentinel_is_written_whole(tmp_path: Path) -> None:
    perform(replace(ACT, target=str(tmp_path / "STOP")), "run", "stop")
    assert json.loads((tmp_path / "STOP").read_text())["finding"] == "reward-collapsed"
    assert [p.name for p in tmp_path.iterdir()] == ["STOP"]


def test_a_sentinel_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(ActFailed, match="cannot be written"):
        perform(replace(ACT, target=str(tmp_path / "no" / "STOP")), "run", "stop")


def test_a_command_gets_the_evidence_and_no_shell(tmp_path: Path) -> None:
    script = tmp_path / "act.py"
    script.write_text(
        "import json, os, sys\n"
        f"open({str(tmp_path / 'seen')!r}, 'w').write(json.dumps([sys.argv[1:], json.load(sys.stdin), os.environ['VARIO_FINDING']]))\n"
    )
    hostile = replace(ACT, action="command", evidence="$(touch hacked); rm -rf /", target=f"{sys.executable} {script} '$HOME'")
    perform(hostile, "run", "stop")
    words, document, named = json.loads((tmp_path / "seen").read_text())
    assert words == ["$HOME"]
    assert document["evidence"] == hostile.evidence
    assert named == "reward-collapsed"


def test_a_command_that_fails_or_hangs_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = replace(ACT, action="command")
    with pytest.raises(ActFailed, match="exit code 3"):
        perform(replace(command, target=f"{sys.executable} -c 'raise SystemExit(3)'"), "run", "stop")
    with pytest.raises(ActFailed, match="could not be started"):
        perform(replace(command, target=str(tmp_path / "none")), "run", "stop")
    monkeypatch.setattr(outward, "SECONDS", 0.2)
    with pytest.raises(ActFailed, match="was ended"):
        perform(replace(command, target=f"{sys.executable} -c 'import time; time.sleep(60)'"), "run", "stop")


def test_a_webhook_is_called_and_its_failure_names_no_secret() -> None:
    received: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200 if len(received) == 1 else 500)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        target = replace(ACT, action="webhook", target=f"http://127.0.0.1:{server.server_port}/s3cret")
        perform(target, "run", "stop")
        assert received[0]["action"] == "webhook"
        assert received[0]["evidence"] == ACT.evidence
        with pytest.raises(ActFailed, match="500") as failed:
            perform(target, "run", "stop")
        server.shutdown()
    assert "s3cret" not in str(failed.value)
    with pytest.raises(ActFailed, match="http:// or https://"):
        perform(replace(target, target="file:///etc/passwd"), "run", "stop")

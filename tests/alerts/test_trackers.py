"""The trackers as they are installed: their alerts are read back from what they keep."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.alerts.world import NOON, finding, opened
from vario.surfaces.alerts.channels.base import ChannelError
from vario.surfaces.alerts.channels.choosing import channels_of
from vario.surfaces.alerts.channels.tracker import HandedOver
from vario.surfaces.alerts.message import Alert, alert_of
from vario.surfaces.alerts.trainer_side import send_here

ALERT = alert_of(opened(finding(), NOON), None)
BEGIN = """
import contextvars, json, sys, threading
from vario.surfaces.alerts.message import alert_from
from vario.surfaces.alerts.trainer_side import send_here
alert = alert_from(json.load(sys.stdin))
told = []
"""
TRACKIO = """
import trackio
told.append(send_here("trackio", alert))
trackio.init(project="p", name="r")
context = contextvars.copy_context()
def elsewhere():
    told.append(send_here("trackio", alert))
    told.append(send_here("trackio", alert, context))
thread = threading.Thread(target=elsewhere)
thread.start()
thread.join()
trackio.finish()
"""
WANDB = """
import wandb
told.append(send_here("wandb", alert))
run = wandb.init(project="p")
thread = threading.Thread(target=lambda: told.append(send_here("wandb", alert)))
thread.start()
thread.join()
run.finish()
told.append(send_here("wandb", alert))
"""
NO_RUN = "alert not delivered by {}: no {} run is active in this process; it works in the process that trains"


def trained(folder: Path, code: str) -> list[str | None]:
    """What was told in a process that trains with a tracker."""
    home = {"TRACKIO_DIR": str(folder), "WANDB_DIR": str(folder), "HOME": str(folder)}
    offline = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "HF_HUB_OFFLINE": "1"}
    made = subprocess.run(
        [sys.executable, "-c", f"{BEGIN}{code}\nprint('\\n' + json.dumps(told))"],
        input=json.dumps(ALERT.document()),
        env={**os.environ, **home, **offline},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    told: list[str | None] = json.loads(made.stdout.strip().splitlines()[-1])
    return told


def test_trackio_tells_in_its_own_run(tmp_path: Path) -> None:
    pytest.importorskip("trackio")
    none = NO_RUN.format("trackio", "trackio")
    assert trained(tmp_path, TRACKIO) == [none, none, None]
    connection = sqlite3.connect(tmp_path / "p.db")
    rows = connection.execute("SELECT title, text, level FROM alerts").fetchall()
    connection.close()
    assert rows == [(ALERT.title, ALERT.body, "error")]


def test_wandb_tells_in_its_own_run(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    none = NO_RUN.format("wandb", "wandb")
    assert trained(tmp_path, WANDB) == [none, None, none]
    (log,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    data = log.read_bytes()
    assert f"{ALERT.title[:62]}…".encode() in data
    assert ALERT.title.encode() not in data, "wandb takes titles of less than 64 characters"
    assert b"ERROR" in data


def test_without_a_run_it_is_said_and_nothing_is_imported() -> None:
    code = (
        "import sys; from vario.surfaces.alerts.channels.choosing import channels_of\n"
        "for word in ('trackio', 'wandb'):\n"
        "    try: channels_of([word], {})[0].send(None)\n"
        "    except Exception as error: print(type(error).__name__, error)\n"
        "print([m for m in ('trackio', 'wandb') if m in sys.modules])"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = made.stdout.splitlines()
    assert [line.split(";")[0] for line in lines[:2]] == [
        f"ChannelError no {word} run is active in this process" for word in ("trackio", "wandb")
    ]
    assert lines[2] == "[]"


def test_beside_a_training_the_alert_is_handed_over() -> None:
    given: list[tuple[str, Alert]] = []
    (channel,) = channels_of(["trackio"], {}, lambda word, alert: given.append((word, alert)))
    assert isinstance(channel, HandedOver)
    assert channel.here == "anywhere"
    channel.send(replace(ALERT, picture=b"no tracker shows it"))
    assert given == [("trackio", ALERT)]
    assert given[0][1].picture is None
    assert channel.id == channels_of(["trackio"], {})[0].id

    def gone(*_: object) -> None:
        raise BrokenPipeError

    with pytest.raises(ChannelError, match=r"^the training does not listen \(BrokenPipeError\)$"):
        channels_of(["wandb"], {}, gone)[0].send(ALERT)


def test_what_no_tracker_takes_is_refused() -> None:
    assert send_here("slack", ALERT) == send_here("wandb", object()) == "an alert was handed over that no tracker takes"

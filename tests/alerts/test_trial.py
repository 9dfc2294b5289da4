from __future__ import annotations

import json
from pathlib import Path

from tests.alerts.world import TOKEN, receiver
from vario.surfaces.alerts.policy import alert_options
from vario.surfaces.alerts.trial import OK, send_test


def test_every_channel_is_tried_and_says_what_came_of_it(tmp_path: Path) -> None:
    sentinel = tmp_path / "ALERT.json"
    with receiver() as well, receiver(500) as broken:
        environ = {"VARIO_ALERTS": f"{well.url()} {broken.url()}"}
        to = ["env:VARIO_ALERTS", f"file:{sentinel}", "command:false", "trackio", "env:ABSENT", TOKEN]
        made = send_test(alert_options({"to": to}), environ)
        (got,) = well.requests
    assert [outcome for _, outcome in made[:5]] == [
        OK,
        "answered 500",
        OK,
        "ended with exit code 1",
        "no trackio run is active in this process; it works in the process that trains",
    ]
    assert [name for name, _ in made] == [
        "json://127.0.0.1", "json://127.0.0.1", "file:ALERT.json", "command:false", "trackio", "env:ABSENT", "word 6 of to",
    ]  # fmt: skip
    assert made[5][1].startswith("[alerts] to: the environment has no ABSENT")
    assert TOKEN not in str(made)
    assert "TEST" in got["title"]
    assert got["type"] == "info"
    assert len(got["attachments"]) == 1
    assert json.loads(sentinel.read_text())["kind"] == "test"


def test_without_channels_nothing_is_tried() -> None:
    assert send_test(alert_options({}), {}) == []

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.alerts.world import TOKEN, broken, finding, opened
from vario.errors import ConfigError
from vario.surfaces.alerts.channels.base import ChannelError
from vario.surfaces.alerts.channels.bounded import HANGING, Bounded
from vario.surfaces.alerts.channels.choosing import channels_of
from vario.surfaces.alerts.channels.command import CommandChannel
from vario.surfaces.alerts.channels.sentinel import SentinelChannel
from vario.surfaces.alerts.message import Alert, alert_of

SCRIPT = """
import json, os, sys
told = {k: v for k, v in os.environ.items() if k.startswith("VARIO_")}
json.dump({"stdin": json.load(sys.stdin), "environment": told, "arguments": sys.argv[1:]}, open(OUT, "w"))
"""


@pytest.fixture
def alert() -> Alert:
    return alert_of(opened(finding()), broken())


def script(folder: Path, text: str, name: str = "page.py") -> str:
    path = folder / name
    path.write_text(f"OUT = {str(folder / 'out.json')!r}\n{text}")
    return f"{sys.executable} {path}"


def test_a_command_gets_the_alert_as_json_and_in_its_environment(tmp_path: Path, alert: Alert) -> None:
    channel = CommandChannel(script(tmp_path, SCRIPT) + " --to 'on call'")
    channel.send(alert)
    got = json.loads((tmp_path / "out.json").read_text())
    assert got["stdin"] == alert.document()
    assert got["arguments"] == ["--to", "on call"]
    assert got["environment"]["VARIO_TITLE"] == alert.title
    assert got["environment"]["VARIO_SEVERITY"] == "critical"
    assert channel.name == f"command:{Path(sys.executable).name}"


def test_no_shell_reads_a_hostile_title(tmp_path: Path, alert: Alert) -> None:
    hostile = f"$(touch {tmp_path}/owned) `touch {tmp_path}/owned`; touch {tmp_path}/owned\n| & ' \" \\ \0 %s {{}}"
    CommandChannel(script(tmp_path, SCRIPT)).send(replace(alert, title=hostile))
    got = json.loads((tmp_path / "out.json").read_text())
    assert got["stdin"]["title"] == hostile
    assert got["environment"]["VARIO_TITLE"] == hostile.replace("\0", "?")
    assert not (tmp_path / "owned").exists()


def test_a_command_that_fails_is_told_without_its_words(tmp_path: Path, alert: Alert) -> None:
    with pytest.raises(ChannelError, match=r"^ended with exit code 3$"):
        CommandChannel(script(tmp_path, "raise SystemExit(3)") + f" {TOKEN}").send(alert)
    with pytest.raises(ChannelError, match=r"^could not be started \(FileNotFoundError\)$"):
        CommandChannel(str(tmp_path / TOKEN / "absent")).send(alert)


def test_a_command_that_does_not_read_is_no_failure(tmp_path: Path, alert: Alert) -> None:
    CommandChannel(script(tmp_path, "import os; os.close(0)")).send(alert)


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path: Path, alert: Alert) -> None:
    child = "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); open(OUT, 'w').write(str(p.pid)); time.sleep(60)"
    with pytest.raises(ChannelError, match=r"^took more than 1 s and was ended$"):
        CommandChannel(script(tmp_path, child), seconds=1.0).send(alert)
    started = int((tmp_path / "out.json").read_text())
    deadline = time.monotonic() + 10.0
    while _runs(started) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _runs(started)


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_a_sentinel_is_written_whole(tmp_path: Path, alert: Alert) -> None:
    path = tmp_path / "ALERT.json"
    channel = SentinelChannel(str(path))
    seen: list[str] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            if path.exists():
                seen.append(json.loads(path.read_text())["key"])

    reader = threading.Thread(target=look)
    reader.start()
    for _ in range(100):
        channel.send(alert)
    done.set()
    reader.join()
    assert set(seen) <= {alert.key}
    assert json.loads(path.read_text()) == alert.document()
    assert [p.name for p in tmp_path.iterdir()] == ["ALERT.json"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_sentinel_that_cannot_be_written_leaves_nothing(tmp_path: Path, alert: Alert) -> None:
    with pytest.raises(ChannelError, match=r"^cannot be written \(No such file or directory\)$"):
        SentinelChannel(str(tmp_path / TOKEN / "ALERT.json")).send(alert)
    (tmp_path / "folder").mkdir()
    with pytest.raises(ChannelError, match=r"^cannot be written"):
        SentinelChannel(str(tmp_path / "folder")).send(alert)
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_what_hangs_is_left_behind_and_not_without_end() -> None:
    bounded = Bounded(0.02)
    release = threading.Event()
    for i in range(HANGING):
        with pytest.raises(ChannelError, match=r"did not answer within 0.02 s"):
            bounded.call(f"key-{i}", lambda: bool(release.wait(20.0)) and None)
    assert bounded.hanging == HANGING
    with pytest.raises(ChannelError, match="still hang"):
        bounded.call("another", lambda: None)
    release.set()
    deadline = time.monotonic() + 10.0
    while bounded.hanging and time.monotonic() < deadline:
        time.sleep(0.005)
    calls: list[int] = []
    bounded.call("key-0", lambda: calls.append(1))
    assert calls == [], "it was delivered late, and is not delivered again"
    bounded.call("another", lambda: calls.append(2))
    assert calls == [2]


def test_a_late_failure_is_tried_again() -> None:
    bounded = Bounded(0.02)

    def fail() -> None:
        time.sleep(0.1)
        raise ChannelError("no")

    with pytest.raises(ChannelError, match="did not answer"):
        bounded.call("key", fail)
    while bounded.hanging:
        time.sleep(0.005)
    calls: list[int] = []
    bounded.call("key", lambda: calls.append(1))
    assert calls == [1]


def test_words_name_channels(tmp_path: Path) -> None:
    environ = {
        "SECRET_URLS": f"json://localhost/{TOKEN} ntfys://{TOKEN}@ntfy.example.org/a, mailto://u:{TOKEN}@example.org?to=a@x.org,b@x.org",
        "PAGE": f"command:./page.sh {TOKEN}",
    }
    words = ["env:SECRET_URLS", "env:PAGE", f"file:{tmp_path}/{TOKEN}/A.json", "trackio", "wandb", "trackio"]
    channels = channels_of(words, environ)
    assert [c.name for c in channels] == [
        "json://localhost",
        "ntfys://ntfy.example.org",
        "mailto://example.org",
        "command:page.sh",
        "file:A.json",
        "trackio",
        "wandb",
    ]
    assert [c.here for c in channels] == ["anywhere"] * 5 + ["trainer"] * 2
    assert TOKEN not in "".join(f"{c.name}{c.id}{c!r}" for c in channels)
    assert [c.id for c in channels_of(words, environ)] == [c.id for c in channels]


@pytest.mark.parametrize(
    "url",
    [
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
        "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
        "tgram://123456789:abcdefg_hijklmnop/12315544",
        "pover://uuuuuuuuuuuuuuuuuuuuuuuuuuuuuu@tokentokentokentokentokentoken1",
        "ntfy://a-topic-that-is-the-password",
    ],
)
def test_a_token_in_the_place_of_a_host_is_not_shown(url: str) -> None:
    (channel,) = channels_of([url], {})
    assert channel.name == f"{url.partition('://')[0]}://…"


def test_two_addresses_of_one_service_are_two_channels() -> None:
    one, other = channels_of(["json://localhost/a", "json://localhost/b"], {})
    assert one.name == other.name
    assert one.id != other.id


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("env:NOT_THERE", "the environment has no NOT_THERE"),
        ("env:EMPTY", "the environment has no EMPTY"),
        ("trakio", "trackio?"),
        (TOKEN, "a word names no channel"),
        ("command:", "a command is missing"),
        ("command:'unclosed", "cannot be read"),
        ("file: ", "a path is missing"),
        (f"https://example.org/{TOKEN}", "a plain webhook is json://HOST/PATH"),
        (f"nosuchservice://{TOKEN}", "apprise cannot use the address nosuchservice://…"),
    ],
)
def test_a_wrong_word_is_told_without_being_shown(word: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        channels_of([word], {"EMPTY": " "})
    assert said in str(error.value)
    assert TOKEN not in str(error.value)


def test_without_apprise_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(ConfigError, match=r'pip install "vario\[alerts\]"'):
        channels_of(["json://localhost"], {})
    assert len(channels_of(["file:A.json", "trackio"], {})) == 2


def test_channels_alone_import_nothing_heavy() -> None:
    code = (
        "import sys; from vario.surfaces.alerts.channels.choosing import channels_of; channels_of(['file:A', 'trackio'], {});"
        "import vario.surfaces.alerts.dispatcher;"
        "print([m for m in ('apprise', 'requests', 'PIL', 'trackio', 'wandb', 'sqlalchemy') if m in sys.modules])"
    )
    made = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ), check=True
    )
    assert made.stdout.strip() == "[]"

"""Real requests over loopback, through apprise."""

from __future__ import annotations

import base64
import logging
import socket
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.alerts.world import TOKEN, Clock, Receiver, Watched, broken, finding, of_kind, opened, receiver
from vario.surfaces.alerts.channels.apprise_url import AppriseChannel
from vario.surfaces.alerts.channels.base import ChannelError
from vario.surfaces.alerts.dispatcher import Dispatcher
from vario.surfaces.alerts.ledger import MemoryLedger
from vario.surfaces.alerts.message import Alert, alert_of
from vario.surfaces.alerts.outbox import Retry
from vario.surfaces.alerts.picture import picture
from vario.surfaces.alerts.policy import AlertOptions
from vario.surfaces.live.notices import Kind

SHORT = 0.3
"""Seconds after which apprise gives up a silent server here."""
QUICK = Retry(first=0.01, longest=0.02, attempts=5)


@pytest.fixture
def alert() -> Alert:
    return alert_of(opened(finding(), time.time()), broken())


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Every logger at its loudest, as a user who looks for a fault sets them."""
    with caplog.at_level(1), caplog.at_level(1, "apprise"), caplog.at_level(1, "urllib3"):
        yield caplog


def test_the_alert_and_its_picture_arrive(alert: Alert) -> None:
    drawn = picture(broken())
    with receiver() as server:
        AppriseChannel(server.url()).send(replace(alert, picture=drawn))
        (got,) = server.requests
    assert (got["title"], got["message"], got["type"]) == (alert.title, alert.body, "failure")
    (attached,) = got["attachments"]
    assert (attached["filename"], attached["mimetype"]) == ("vario.png", "image/png")
    assert base64.b64decode(attached["base64"]) == drawn


def test_good_news_look_like_it(alert: Alert) -> None:
    with receiver() as server:
        AppriseChannel(server.url()).send(replace(alert, kind="resolved", severity="info"))
        (got,) = server.requests
    assert got["type"] == "success"
    assert got["attachments"] == []


def test_text_of_a_log_is_no_markup(alert: Alert) -> None:
    hostile = "<b>*_`~ :boom: \\n \\x41 <!channel> @everyone"
    with receiver() as server:
        AppriseChannel(server.url()).send(replace(alert, title=hostile, body=hostile))
        (got,) = server.requests
    assert got["title"] == got["message"] == hostile


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (500, "answered 500"),
        (404, "answered 404"),
        ("garbage", "could not be reached, or did not answer"),
        ("hang", "could not be reached, or did not answer"),
    ],
)
def test_what_a_server_does_wrong_is_told(alert: Alert, answer: int | str, said: str) -> None:
    with receiver(answer) as server:
        with pytest.raises(ChannelError) as error:
            AppriseChannel(server.url(rto=SHORT)).send(alert)
        assert len(server.requests) == 1
    assert str(error.value) == said


def test_a_server_that_is_not_there(alert: Alert) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ChannelError, match=r"^could not be reached, or did not answer$"):
        AppriseChannel(f"json://127.0.0.1:{port}/{TOKEN}").send(alert)


def test_a_server_that_answers_for_ever_is_left_behind(alert: Alert) -> None:
    with receiver("trickle") as server:
        channel = AppriseChannel(server.url(), seconds=SHORT)
        with pytest.raises(ChannelError, match=r"^did not answer within 0.3 s$"):
            channel.send(alert)
        assert channel.hanging == 1
        server.release.set()
        deadline = time.monotonic() + 20.0
        while channel.hanging and time.monotonic() < deadline:
            time.sleep(0.005)
        channel.send(alert)  # it came through after all
        assert len(server.requests) == 1
        channel.send(replace(alert, key="another"))
        assert len(server.requests) == 2


def test_pictures_are_left_out_where_they_are_refused(alert: Alert) -> None:
    pictured = replace(alert, picture=picture(broken()))
    with receiver(413) as server:
        channel = AppriseChannel(server.url())
        with pytest.raises(ChannelError, match=r"^answered 413 to a message with a picture; pictures are left out"):
            channel.send(pictured)
        channel.send(pictured)
        assert [len(r["attachments"]) for r in server.requests] == [1, 0]
        assert not channel.pictures


def test_no_secret_is_logged_or_told(everything_logged: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    with receiver(500, "garbage", "hang", 404, 200) as server:
        channel = AppriseChannel(server.url(**{"rto": SHORT, "+X-Key": TOKEN, ":token": TOKEN, "-token": TOKEN}))
        sender = Dispatcher(AlertOptions(picture=False), [channel], MemoryLedger(), told=told.append, retry=QUICK)
        sender.offer(opened(finding(), time.time()), Watched(broken()))
        assert len(server.wait(5)) == 5
        assert sender.close(20.0)
    shown = (
        f"{everything_logged.text} {told} {sender.failures} {channel!r} {vars(sender)!r} {channel.name} {channel.id}"
    )
    assert TOKEN not in shown
    assert [r.name for r in everything_logged.records if r.name.startswith(("apprise", "urllib3"))] == []
    assert sorted(told) == [
        "an alert was not delivered by json://127.0.0.1: answered 404; it is tried again",
        "an alert was not delivered by json://127.0.0.1: answered 500; it is tried again",
        "an alert was not delivered by json://127.0.0.1: could not be reached, or did not answer; it is tried again",
    ]


def test_what_others_log_is_still_heard(alert: Alert, everything_logged: pytest.LogCaptureFixture) -> None:
    with receiver() as server:
        AppriseChannel(server.url()).send(alert)
    logging.getLogger("urllib3.connectionpool").debug("of another request")
    logging.getLogger("apprise").warning("of another use")
    assert [r.getMessage() for r in everything_logged.records] == ["of another request", "of another use"]


def test_two_failures_and_then_one_message() -> None:
    with receiver(500, 500) as server:
        sender = Dispatcher(AlertOptions(), [AppriseChannel(server.url())], retry=QUICK)
        sender.offer(opened(finding(), time.time()), Watched(broken()))
        server.wait(3)
        assert sender.close(20.0)
        assert server.accepted == 1
        assert len(server.requests) == 3
    assert list(sender.failures.values()) == [2]


def test_a_service_that_hangs_holds_up_no_other() -> None:
    with receiver("trickle") as hanging, receiver() as well:
        channels = [AppriseChannel(hanging.url(), seconds=5.0), AppriseChannel(well.url())]
        sender = Dispatcher(AlertOptions(picture=False), channels)
        for i in range(5):
            sender.offer(opened(finding(f"kl-{i}", "KL101"), time.time()), Watched(broken()))
        assert len(well.wait(5)) == 5
        assert len(hanging.requests) == 1
        hanging.release.set()
        assert sender.close(20.0)
        assert len(hanging.requests) == 5


def _delivered(server: Receiver) -> list[str]:
    return [r["title"] for r in server.requests]


def test_a_whole_story_over_http() -> None:
    clock = Clock()
    with receiver() as server:
        options = AlertOptions(picture=False)
        sender = Dispatcher(options, [AppriseChannel(server.url())], clock=clock.now, steady=clock.monotonic)
        sender.offer(opened(finding("kl-runaway", "KL103", "warning")), Watched(broken()))
        assert sender.flush(20.0)
        clock.pass_(60.0)
        worse = finding("kl-runaway", "KL103", "critical")
        sender.offer(replace(opened(worse, clock.wall), kind=Kind.WORSENED), Watched(broken()))
        sender.offer(
            of_kind(Kind.RESOLVED, "kl-runaway", title="kl-runaway has passed", at=clock.wall), Watched(broken())
        )
        assert sender.close(20.0)
        assert [t.split(" ")[1] for t in _delivered(server)] == ["kl-runaway", "worse:", "kl-runaway"]

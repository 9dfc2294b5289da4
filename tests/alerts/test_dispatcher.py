from __future__ import annotations

import contextvars
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.alerts.world import NOON, RUN, SOON, Clock, Kept, Watched, broken, finding, of_kind, opened, resolved
from vario.errors import StateError
from vario.surfaces.alerts.channels.base import Channel
from vario.surfaces.alerts.dispatcher import OVERFLOW, WAITING, Dispatcher
from vario.surfaces.alerts.ledger import LEASE, Ledger, MemoryLedger
from vario.surfaces.alerts.outbox import Retry
from vario.surfaces.alerts.policy import AlertOptions, alert_options
from vario.surfaces.live.notices import Kind, Notice
from vario.surfaces.state import State

KL = finding("kl-spike", "KL105", "warning")
GRAVE = finding("kl-spike", "KL105", "critical")
MINUTE, HOUR = 60.0, 3600.0
NIGHT = time.mktime((2031, 5, 6, 23, 0, 0, 0, 0, -1))


class Desk:
    """Dispatchers that share a clock and a ledger; each is closed in the end."""

    def __init__(self, clock: Clock, ledger: Ledger | None) -> None:
        self.clock, self.ledger = clock, ledger
        self.made: list[Dispatcher] = []
        self.told: list[str] = []

    def sender(self, *channels: Channel, retry: Retry | None = None, **table: object) -> Dispatcher:
        options = alert_options({k.replace("_", "-"): v for k, v in table.items()})
        made = Dispatcher(
            options,
            channels,
            self.ledger,
            self.clock.now,
            steady=self.clock.monotonic,
            told=self.told.append,
            retry=retry,
        )
        self.made.append(made)
        return made

    def tell(self, sender: Dispatcher, *notices: Notice) -> None:
        for notice in notices:
            sender.offer(replace(notice, at=self.clock.wall), Watched())
        assert sender.flush(SOON)

    def later(self, sender: Dispatcher, seconds: float) -> None:
        self.clock.pass_(seconds)
        assert sender.flush(SOON)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def desk(clock: Clock) -> Iterator[Desk]:
    """Without a store: what one process remembers."""
    made = Desk(clock, MemoryLedger())
    yield made
    for sender in made.made:
        sender.close(SOON)


@pytest.fixture
def kept(clock: Clock, tmp_path: Path) -> Iterator[Desk]:
    """With a real store."""
    with State.open(f"sqlite:///{tmp_path}/state.sqlite") as state:
        made = Desk(clock, state)
        yield made
        for sender in made.made:
            sender.close(SOON)


def kill(sender: Dispatcher) -> None:
    """As SIGKILL does: nothing is said any more, and nothing given back."""
    with sender._changed:
        sender._stopped = True
        for outbox in sender._outboxes:
            outbox.stop().clear()


def test_an_alert_goes_to_every_channel_once(desk: Desk) -> None:
    one, other = Kept("one"), Kept("other")
    sender = desk.sender(one, other)
    desk.tell(sender, opened(KL), opened(KL))
    assert one.told == other.told == ["kl-spike:opened"]


def test_nothing_is_sent_of_what_nobody_wants(desk: Desk) -> None:
    channel = Kept()
    sender = desk.sender(channel)
    desk.tell(sender, opened(finding("length-growing", "LN101", "info")), of_kind(Kind.TROUBLE, "trouble"))
    assert channel.told == []


def test_the_end_follows_what_was_told_and_nothing_else(desk: Desk) -> None:
    channel = Kept()
    sender = desk.sender(channel)
    quiet = finding("length-growing", "LN101", "info")
    desk.tell(sender, opened(KL), opened(quiet), resolved(quiet, 150), resolved(KL, 150), resolved(KL, 150))
    assert channel.told == ["kl-spike:opened", "kl-spike:resolved"]


def test_a_finding_that_comes_to_suffice_is_told_and_so_is_its_end(desk: Desk) -> None:
    channel = Kept()
    sender = desk.sender(channel)
    unsure = finding("kl-spike", "KL105", "warning", confidence="low")
    desk.tell(sender, opened(unsure), replace(opened(KL), kind=Kind.SURER), resolved(KL, 150))
    assert channel.told == ["kl-spike:surer", "kl-spike:resolved"]


def test_rows_that_come_again_are_told_where_their_absence_was(desk: Desk) -> None:
    channel = Kept()
    sender = desk.sender(channel)
    back = of_kind(Kind.RESUMED, "resumed")
    desk.tell(sender, back, of_kind(Kind.STALLED, "run-stalled", "warning"), back, back)
    assert channel.told == ["run-stalled:stalled", "resumed:resumed"]


def test_the_death_of_a_training_is_told(desk: Desk) -> None:
    channel = Kept()
    sender = desk.sender(channel)
    desk.tell(sender, of_kind(Kind.DIED, "training-died", "critical"), of_kind(Kind.RESUMED, "resumed"))
    assert channel.told == ["training-died:died", "resumed:resumed"]


def test_the_cool_down_holds_back_what_flaps_and_loses_nothing(desk: Desk) -> None:
    channel = Kept()
    sender = desk.sender(channel, cool_down="30m")
    desk.tell(sender, opened(KL), resolved(KL, 150))
    for until in (170, 190, 210):
        desk.clock.pass_(MINUTE)
        desk.tell(sender, opened(KL), resolved(KL, until))
    desk.clock.pass_(MINUTE)
    desk.tell(sender, opened(KL))
    assert channel.told == ["kl-spike:opened", "kl-spike:resolved"]
    desk.later(sender, 25 * MINUTE)
    assert len(channel.told) == 2
    desk.later(sender, 2 * MINUTE)
    assert channel.told[2:] == ["kl-spike:opened"], "it still stands when the cool-down is over"
    desk.tell(sender, resolved(KL, 300))
    assert channel.told[3:] == ["kl-spike:resolved"]


def test_the_cool_down_is_of_one_subject_of_one_run(desk: Desk) -> None:
    channel = Kept()
    sender = desk.sender(channel)
    desk.tell(sender, opened(KL), opened(finding("kl-reset", "KL106", "warning")), opened(KL, run="another"))
    assert len(channel.got) == 3


def test_what_is_graver_passes_the_cool_down(desk: Desk) -> None:
    channel = Kept()
    sender = desk.sender(channel)
    desk.tell(sender, opened(KL), replace(opened(GRAVE), kind=Kind.WORSENED))
    assert channel.told == ["kl-spike:opened", "kl-spike:worsened"]
    desk.tell(sender, resolved(GRAVE, 150), opened(KL))
    assert channel.told == ["kl-spike:opened", "kl-spike:worsened", "kl-spike:resolved"]


def test_after_the_cool_down_the_same_finding_is_a_new_alert(desk: Desk) -> None:
    channel = Kept()
    sender = desk.sender(channel)
    desk.tell(sender, opened(KL), resolved(KL, 150))
    desk.clock.pass_(HOUR)
    desk.tell(sender, opened(KL))
    assert channel.told == ["kl-spike:opened", "kl-spike:resolved", "kl-spike:opened"]


def test_a_digest_gathers_what_is_not_critical(desk: Desk) -> None:
    channel = Kept()
    sender = desk.sender(channel, digest="1h")
    desk.tell(sender, opened(KL))
    desk.later(sender, 20 * MINUTE)
    desk.tell(sender, opened(finding("kl-reset", "KL106", "warning")))
    desk.tell(sender, opened(finding("kl-runaway", "KL103")))
    assert channel.told == ["kl-runaway:opened"]
    desk.later(sender, 39 * MINUTE)
    assert len(channel.got) == 1
    desk.later(sender, 2 * MINUTE)
    assert [a.kind for a in channel.got] == ["opened", "digest"]
    assert "2 alerts (kl-spike, kl-reset)" in channel.got[1].title
    desk.later(sender, 2 * HOUR)
    assert len(channel.got) == 2


def test_one_gathered_alert_goes_as_itself(desk: Desk) -> None:
    channel = Kept()
    sender = desk.sender(channel, digest="1h")
    desk.tell(sender, opened(KL))
    desk.later(sender, HOUR)
    assert channel.told == ["kl-spike:opened"]


def test_what_was_gathered_goes_at_the_end(desk: Desk) -> None:
    channel = Kept()
    sender = desk.sender(channel, digest="1h")
    desk.tell(sender, opened(KL), opened(finding("kl-reset", "KL106", "warning")))
    assert sender.close(SOON)
    assert [a.kind for a in channel.got] == ["digest"]


def test_what_the_cool_down_holds_back_goes_at_the_end(desk: Desk) -> None:
    channel = Kept()
    sender = desk.sender(channel)
    desk.tell(sender, opened(KL), resolved(KL, 150), opened(KL))
    assert sender.close(SOON)
    assert channel.told == ["kl-spike:opened", "kl-spike:resolved", "kl-spike:opened"]


def test_quiet_hours_hold_back_and_end_in_one_message(desk: Desk) -> None:
    desk.clock.wall = NIGHT
    channel = Kept()
    sender = desk.sender(channel, quiet="22:00-07:00")
    desk.tell(sender, opened(KL))
    desk.later(sender, HOUR)
    desk.tell(sender, opened(finding("kl-reset", "KL106", "warning")))
    desk.tell(sender, opened(finding("kl-runaway", "KL103")))
    assert channel.told == ["kl-runaway:opened"], "critical passes"
    desk.later(sender, 6 * HOUR + 59 * MINUTE)
    assert len(channel.got) == 1
    desk.later(sender, 2 * MINUTE)
    assert [a.kind for a in channel.got] == ["opened", "digest"]
    assert "(kl-spike, kl-reset)" in channel.got[1].title


def test_quiet_hours_may_hold_back_everything(desk: Desk) -> None:
    desk.clock.wall = NIGHT
    channel = Kept()
    sender = desk.sender(channel, quiet="22:00-07:00", quiet_except="nothing")
    desk.tell(sender, opened(finding("kl-runaway", "KL103")))
    assert channel.got == []
    desk.later(sender, 8 * HOUR)
    assert channel.told == ["kl-runaway:opened"]


def test_an_end_in_quiet_hours_leaves_the_rest_to_the_next_watcher(kept: Desk) -> None:
    kept.clock.wall = NIGHT
    first = Kept()
    sender = kept.sender(first, quiet="22:00-07:00")
    kept.tell(sender, opened(KL))
    assert sender.close(SOON)
    assert first.got == []
    assert kept.told == ["1 alerts are held back by quiet hours: whoever watches the run next sends them"]
    second = Kept()
    next_one = kept.sender(second, quiet="22:00-07:00")
    next_one.begin(RUN)
    assert next_one.flush(SOON)
    assert second.got == []
    kept.later(next_one, 9 * HOUR)
    assert second.told == ["kl-spike:opened"]
    assert "late: this was at 05-06 23:00" in second.got[0].body


def test_without_a_store_an_end_in_quiet_hours_tells_at_once(desk: Desk) -> None:
    desk.clock.wall = NIGHT
    channel = Kept()
    sender = desk.sender(channel, quiet="22:00-07:00")
    desk.tell(sender, opened(KL))
    assert sender.close(SOON)
    assert channel.told == ["kl-spike:opened"]


def test_what_fails_is_tried_again_ever_later(desk: Desk) -> None:
    channel = Kept(failing=3)
    sender = desk.sender(channel, retry=Retry(first=10.0, longest=15.0, attempts=5))
    desk.tell(sender, opened(KL))
    assert channel.tried == 1
    desk.later(sender, 7.0)
    assert channel.tried == 1
    for seconds, tried in ((5.1, 2), (18.1, 3), (18.1, 4)):
        desk.later(sender, seconds)
        assert channel.tried == tried
    assert channel.told == ["kl-spike:opened"]
    desk.later(sender, HOUR)
    assert channel.tried == 4
    assert desk.told == ["an alert was not delivered by kept: is out of order; it is tried again"]
    assert list(sender.failures.values()) == [3]


def test_what_fails_for_an_hour_is_given_up_and_told(desk: Desk) -> None:
    channel = Kept(failing=99)
    sender = desk.sender(channel)
    desk.tell(sender, opened(KL))
    passed = 0.0
    while channel.tried < 11:
        desk.later(sender, MINUTE)
        passed += MINUTE
        assert passed < 2 * HOUR
    assert passed >= 30 * MINUTE
    desk.later(sender, 5 * HOUR)
    assert channel.tried == 11
    assert desk.told[-1] == "an alert was not delivered by kept: is out of order; given up after 11 attempts"


def test_a_fault_of_a_channel_is_a_failure_like_any_other(desk: Desk) -> None:
    class Faulty(Kept):
        def send(self, _) -> None:
            raise RuntimeError("https://user:secret@host")

    sender = desk.sender(Faulty(), Kept("well"))
    desk.tell(sender, opened(KL))
    assert desk.told == ["an alert was not delivered by kept: RuntimeError; it is tried again"]


def test_offering_never_waits_for_a_channel(desk: Desk) -> None:
    release = threading.Event()

    class Hanging(Kept):
        def send(self, alert) -> None:
            release.wait(SOON)
            super().send(alert)

    hanging, well = Hanging("hanging"), Kept("well")
    sender = desk.sender(hanging, well)
    for i in range(20):
        sender.offer(opened(finding(f"kl-{i}", "KL101")), Watched())
    deadline = time.monotonic() + SOON
    while len(well.got) < 20 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert len(well.got) == 20
    assert not sender.flush(0.01)
    release.set()
    assert sender.flush(SOON)
    assert len(hanging.got) == 20


def test_more_than_can_be_looked_at_is_counted_and_told_once(desk: Desk) -> None:
    release = threading.Event()

    class Slow(MemoryLedger):
        def claim(self, *args, **kwargs) -> bool:
            release.wait(SOON)
            return super().claim(*args, **kwargs)

    desk.ledger = Slow()
    channel = Kept()
    sender = desk.sender(channel)
    sender.offer(opened(KL), Watched())
    while sender._inbox:
        time.sleep(0.001)  # the thread has taken it, and hangs
    for _ in range(WAITING + 7):
        sender.offer(opened(KL), Watched())
    release.set()
    assert sender.flush(SOON)
    assert sender.failures[OVERFLOW] == 7
    assert desk.told == [OVERFLOW]


def test_the_end_is_heard_though_more_came_than_can_be_looked_at(desk: Desk) -> None:
    release = threading.Event()

    class Slow(MemoryLedger):
        def claim(self, *args, **kwargs) -> bool:
            release.wait(SOON)
            return super().claim(*args, **kwargs)

    desk.ledger = Slow()
    channel = Kept()
    sender = desk.sender(channel, digest="1h")
    for _ in range(WAITING + 9):
        sender.offer(opened(KL), Watched())
    threading.Timer(0.05, release.set).start()
    assert sender.close(SOON)
    assert channel.told == ["kl-spike:opened"]


def test_a_restart_repeats_nothing(kept: Desk) -> None:
    first, second = Kept(), Kept()
    sender = kept.sender(first)
    kept.tell(sender, opened(KL), opened(GRAVE, run="other"))
    assert sender.close(SOON)
    again = kept.sender(second)
    kept.tell(again, opened(KL), opened(replace(KL, since=90)), opened(GRAVE, run="other"))
    assert (len(first.got), len(second.got)) == (2, 0)
    kept.later(again, 2 * HOUR)
    assert second.got == []


def test_a_restart_forgets_nothing(kept: Desk) -> None:
    first, second = Kept(failing=1), Kept()
    sender = kept.sender(first)
    kept.tell(sender, opened(KL))
    assert not first.got
    kill(sender)
    again = kept.sender(second)
    again.begin(RUN)
    assert again.flush(SOON)
    assert second.told == ["kl-spike:opened"]
    assert second.got[0].at == NOON
    kept.tell(again, resolved(KL, 150))
    assert second.told == ["kl-spike:opened", "kl-spike:resolved"]


@pytest.mark.parametrize("waits", ["digest", "quiet", "cool-down"])
def test_a_kill_loses_nothing_that_was_held_back(kept: Desk, waits: str) -> None:
    first, second = Kept(), Kept()
    table = {"digest": "1h"} if waits == "digest" else {"quiet": "11:00-13:00"} if waits == "quiet" else {}
    sender = kept.sender(first, **table)
    if waits == "cool-down":
        kept.tell(sender, opened(KL), resolved(KL, 150))
    kept.tell(sender, opened(KL))
    before = len(first.got)
    kill(sender)
    again = kept.sender(second, **table)
    again.begin(RUN)
    assert again.flush(SOON)
    assert second.got == []
    kept.later(again, HOUR + LEASE)
    kept.later(again, HOUR + LEASE)
    assert (len(first.got) - before, second.told) == (0, ["kl-spike:opened"])


def test_what_was_held_back_and_has_passed_is_not_brought_back(kept: Desk) -> None:
    first, second = Kept(), Kept()
    sender = kept.sender(first)
    kept.tell(sender, opened(KL), resolved(KL, 150), opened(KL), resolved(KL, 170))
    assert len(first.got) == 2
    kill(sender)
    again = kept.sender(second)
    again.begin(RUN)
    kept.later(again, 2 * HOUR)
    assert second.got == []


def test_the_cool_down_survives_a_restart(kept: Desk) -> None:
    first, second = Kept(), Kept()
    sender = kept.sender(first)
    kept.tell(sender, opened(KL), resolved(KL, 150))
    assert sender.close(SOON)
    kept.clock.pass_(10 * MINUTE)
    kept.clock.steady = 5.0  # another boot
    again = kept.sender(second)
    kept.tell(again, opened(replace(KL, detected_at=300)))
    assert second.got == []
    kept.later(again, 19 * MINUTE)
    assert second.got == []
    kept.later(again, 2 * MINUTE)
    assert second.told == ["kl-spike:opened"]


def test_the_same_look_after_a_restart_is_a_new_alert_where_it_had_passed(kept: Desk) -> None:
    first, second = Kept(), Kept()
    sender = kept.sender(first)
    kept.tell(sender, opened(KL), resolved(KL, 150))
    assert sender.close(SOON)
    kept.clock.pass_(HOUR)
    again = kept.sender(second)
    kept.tell(again, opened(KL))
    assert second.told == ["kl-spike:opened"], (
        "the engine takes it for the same finding; people were told that it is over"
    )


def test_two_watchers_tell_once(kept: Desk) -> None:
    one, other = Kept(), Kept()
    senders = kept.sender(one), kept.sender(other)
    for i in range(30):
        for sender in senders:
            sender.offer(opened(finding(f"kl-{i}", "KL101")), Watched())
    assert all(sender.flush(SOON) for sender in senders)
    assert sorted(one.told + other.told) == sorted(f"kl-{i}:opened" for i in range(30))


def test_two_watchers_with_channels_of_their_own_tell_each_their_people(kept: Desk) -> None:
    one, other = Kept("one"), Kept("other")
    for channel in (one, other):
        kept.tell(kept.sender(channel), opened(KL))
    assert one.told == other.told == ["kl-spike:opened"]


def test_a_watcher_takes_over_what_another_could_not_send(kept: Desk) -> None:
    broken_line, well = Kept(failing=99), Kept()
    first, second = kept.sender(broken_line, retry=Retry(first=10 * MINUTE)), kept.sender(well)
    second.begin(RUN)
    kept.tell(first, opened(KL))
    assert broken_line.tried == 1
    kept.later(second, MINUTE)
    assert well.told == ["kl-spike:opened"]
    kept.later(first, HOUR)
    assert broken_line.tried == 1, "it was sent by the other meanwhile"


def test_what_somebody_knows_of_is_not_told(kept: Desk) -> None:
    assert isinstance(kept.ledger, State)
    channel = Kept()
    sender = kept.sender(channel)
    kept.ledger.acknowledge(RUN, "kl-spike", "somebody", "it is known", NOON)
    kept.ledger.mute(RUN, "kl-reset", "somebody", "it is known", NOON, NOON + HOUR)
    desired = [opened(KL), replace(opened(GRAVE), kind=Kind.WORSENED), opened(finding("kl-reset", "KL106", "warning"))]
    kept.tell(sender, *desired, opened(finding("kl-runaway", "KL103")))
    assert channel.told == ["kl-runaway:opened"]


def test_what_somebody_comes_to_know_of_while_it_waits_is_not_told(kept: Desk) -> None:
    assert isinstance(kept.ledger, State)
    channel = Kept()
    sender = kept.sender(channel, digest="1h")
    kept.tell(sender, opened(KL), opened(finding("kl-reset", "KL106", "warning")))
    kept.ledger.acknowledge(RUN, "kl-spike", "somebody", "it is known", kept.clock.wall)
    kept.later(sender, HOUR)
    assert channel.told == ["kl-reset:opened"]


def test_another_run_in_the_same_place_starts_anew(desk: Desk) -> None:
    channel = Kept()
    sender = desk.sender(channel)
    desk.tell(sender, opened(KL))
    desk.tell(sender, of_kind(Kind.REPLACED, "replaced"), opened(replace(KL, detected_at=90)))
    assert channel.told == ["kl-spike:opened", "kl-spike:opened"]


@pytest.mark.parametrize("jump", [-400.0 * 24 * HOUR, -90.0, 90.0, 400.0 * 24 * HOUR])
@pytest.mark.parametrize("where", ["desk", "kept"])
def test_a_clock_that_jumps_neither_doubles_nor_loses(request, where: str, jump: float) -> None:
    desk: Desk = request.getfixturevalue(where)
    channel = Kept(failing=1)
    sender = desk.sender(channel, retry=Retry(first=10.0))
    desk.tell(sender, opened(KL))
    desk.clock.wall += jump
    desk.tell(sender, opened(KL))
    desk.later(sender, MINUTE)
    assert channel.told == ["kl-spike:opened"]
    desk.tell(sender, resolved(KL, 150), opened(replace(KL, detected_at=200)))
    assert channel.told == ["kl-spike:opened", "kl-spike:resolved"], "the cool-down goes by the steady clock"
    desk.clock.wall -= jump
    desk.later(sender, 31 * MINUTE)
    assert channel.told == ["kl-spike:opened", "kl-spike:resolved", "kl-spike:opened"]
    desk.later(sender, 31 * MINUTE)
    assert len(channel.got) == 3


def test_a_clock_that_was_set_back_over_a_restart_silences_nobody_for_long(kept: Desk) -> None:
    first, second = Kept(), Kept()
    sender = kept.sender(first)
    kept.tell(sender, opened(KL), resolved(KL, 150))
    assert sender.close(SOON)
    kept.clock.wall -= 400 * 24 * HOUR
    again = kept.sender(second)
    kept.tell(again, opened(replace(KL, detected_at=300)))
    kept.later(again, 31 * MINUTE)
    assert second.told == ["kl-spike:opened"]


def test_a_store_that_is_locked_neither_doubles_nor_loses(kept: Desk) -> None:
    channel = Kept()
    sender = kept.sender(channel)
    kept.tell(sender, opened(finding("kl-runaway", "KL103")))

    class Locked:
        """The real store, while somebody else holds it."""

        def __getattr__(self, name: str) -> Callable[..., object]:
            def fail(*_: object, **__: object) -> object:
                raise StateError("database is locked")

            return fail

    books = sender._runs[RUN].books
    real, books._store = books._store, Locked()
    kept.tell(sender, opened(KL), opened(KL), opened(finding("kl-runaway", "KL103")))
    assert channel.told == ["kl-runaway:opened", "kl-spike:opened"]
    assert kept.told == [
        "what was sent could not be written down (StateError); after a restart an alert may be repeated"
    ]
    books._store = real
    kept.later(sender, HOUR)
    assert len(channel.got) == 2


def test_a_delivery_that_could_not_be_written_down_is_written_later(kept: Desk, tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    first, second = Kept(), Kept()
    sender = kept.sender(first)
    books_of = lambda: sender._runs[RUN].books  # noqa: E731
    kept.tell(sender, opened(finding("kl-runaway", "KL103")))
    real = books_of()._store

    class Unwritable:
        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

        def sent(self, *_: object) -> None:
            raise StateError("disk full")

    books_of()._store = Unwritable()
    kept.tell(sender, opened(KL))
    assert first.told == ["kl-runaway:opened", "kl-spike:opened"]
    books_of()._store = real
    kept.later(sender, MINUTE)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM vario_alerts WHERE sent_at IS NULL").fetchone() == (0,)
    connection.close()
    again = kept.sender(second)
    again.begin(RUN)
    kept.later(again, HOUR)
    assert second.got == []


def test_a_channel_of_the_trainer_is_called_in_its_context(desk: Desk) -> None:
    current: contextvars.ContextVar[str] = contextvars.ContextVar("current", default="none")
    seen: list[str] = []

    class Tracker(Kept):
        def send(self, _) -> None:
            seen.append(current.get())

    sender = desk.sender(Tracker(here="trainer"), Tracker("other", here="trainer"))
    current.set("the run")
    desk.tell(sender, opened(KL))
    assert seen == ["the run", "the run"]


def test_a_picture_goes_where_it_is_shown(desk: Desk) -> None:
    plain, pictured = Kept("plain"), Kept("pictured", pictures=True)
    sender = desk.sender(plain, pictured)
    sender.offer(opened(finding()), Watched(broken()))
    assert sender.flush(SOON)
    assert pictured.got[0].picture is not None
    assert pictured.got[0].picture.startswith(b"\x89PNG")
    without = desk.sender(off := Kept("off", pictures=True), picture=False)
    without.offer(opened(KL), Watched(broken()))
    assert without.flush(SOON)
    assert off.got[0].picture is None


def test_a_forked_child_says_nothing(desk: Desk) -> None:
    channel = Kept()
    sender = desk.sender(channel)
    desk.tell(sender, opened(KL))
    assert sender._pid == os.getpid()
    sender._pid = -1  # as a child sees it
    sender.offer(opened(finding("kl-runaway", "KL103")), Watched())
    assert sender.flush(0.0)
    assert sender.close(0.0)
    assert not sender._inbox
    sender._pid = os.getpid()
    assert channel.told == ["kl-spike:opened"]


def test_nothing_is_taken_after_the_end(desk: Desk) -> None:
    channel = Kept()
    sender = desk.sender(channel)
    assert sender.close(0.0), "it was never used"
    desk.tell(sender, opened(KL))
    assert sender.close(SOON)
    sender.offer(opened(finding("kl-runaway", "KL103")), Watched())
    assert sender.close(SOON)
    assert channel.told == ["kl-spike:opened"]


def test_what_is_left_at_the_end_is_told(desk: Desk) -> None:
    sender = desk.sender(Kept(failing=9))
    desk.tell(sender, opened(KL))
    assert not sender.close(SOON)
    assert desk.told[-1] == "1 alerts were left unsent at the end"


def test_long_keys_are_one_key_all_the_same(kept: Desk) -> None:
    channel = Kept("c" * 300)
    sender = kept.sender(channel)
    one, other = (finding("kl-" + "x" * 300 + end, "KL101") for end in "ab")
    kept.tell(sender, opened(one), opened(one), opened(other))
    assert len(channel.got) == 2
    assert AlertOptions() == alert_options({})

"""What survives restarts, on SQLite and on a real PostgreSQL alike."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from tests.state.tasks import claim_all, open_all
from tests.work.helpers import ROOT, kill_when_written
from vario.samples import Mark
from vario.surfaces.live.notices import Kind, Notice, Standing
from vario.surfaces.state import State, StateError, findings, place_of, schema
from vario.surfaces.state.acts import Act
from vario.surfaces.state.alerts import LEASE, SKEW
from vario.verdict import Finding

RUN = "outputs/grpo"
FINDING = Finding(
    "KL101", "kl-spike", "warning", "low", "default", 180, 230, None, (), (), (), (), (), (), "KL jumped"
)  # fmt: skip
OPENED = Notice(
    Kind.OPENED, "grpo", "kl-spike", 230, "warning", "low", "kl-spike since step 180", "KL 0.9 at step 180", 10.0, FINDING
)  # fmt: skip
WORSENED = replace(OPENED, kind=Kind.WORSENED, step=260, severity="critical", at=20.0)
RESOLVED = replace(OPENED, kind=Kind.RESOLVED, step=300, severity="info", at=30.0, finding=None, text="It has passed.")
ENDED = Notice(Kind.ENDED, "grpo", "ended", 400, "info", "high", "grpo: ended", "stop", 40.0)


def claim(state: State, key: str = "k", now: float = 100.0, by: str = "a", run: str = RUN) -> bool:
    return state.claim(run, key, now, by, subject="kl-spike", payload=f'{{"key": "{key}"}}')


def test_what_was_told_stands_after_a_restart(place: str) -> None:
    with State.open(place) as state:
        assert state.told(RUN) == {}
        state.remember(RUN, [OPENED])
    with State.open(place) as state:
        assert state.told(RUN) == {"kl-spike": Standing("kl-spike", "warning", "low", 180, 230)}
        state.remember(RUN, [WORSENED])
        assert state.told(RUN) == {"kl-spike": Standing("kl-spike", "critical", "low", 180, 260)}
        assert state.told("another") == {}
        state.remember(RUN, [RESOLVED, ENDED])
    with State.open(place) as state:
        assert state.told(RUN) == {}
        past = state.history(RUN)
    assert [(p.kind, p.step, p.severity, p.at) for p in past] == [
        ("opened", 230, "warning", 10.0), ("worsened", 260, "critical", 20.0), ("resolved", 300, "info", 30.0),
        ("ended", 400, "info", 40.0),
    ]  # fmt: skip
    assert (past[0].subject, past[0].title, past[0].text, past[0].confidence) == (
        "kl-spike", "kl-spike since step 180", "KL 0.9 at step 180", "low",
    )  # fmt: skip


def test_what_two_watchers_tell_is_history_once(place: str) -> None:
    with State.open(place) as one, State.open(place) as other:
        for watcher in (one, other):
            watcher.remember(RUN, [replace(OPENED, at=10.0 + (watcher is one))])
        for watcher in (one, other):
            watcher.remember(RUN, [RESOLVED, ENDED])
        assert [p.kind for p in one.history(RUN)] == ["opened", "resolved", "ended"]
        one.remember(RUN, [replace(OPENED, step=330)])
        assert [p.kind for p in other.history(RUN, most=2)] == ["ended", "opened"]


def test_of_the_history_the_newest_are_kept(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "NEWEST", 5)
    state.remember("another", [ENDED])
    for step in range(20):
        state.remember(RUN, [replace(ENDED, step=step), replace(ENDED, step=step, text="again")])
    assert [(p.step, p.text) for p in state.history(RUN)] == [
        (17, "again"), (18, "stop"), (18, "again"), (19, "stop"), (19, "again"),
    ]  # fmt: skip
    assert len(state.history("another")) == 1


def test_an_alert_is_sent_once(place: str) -> None:
    with State.open(place) as one, State.open(place) as other:
        assert claim(one)
        assert not claim(other, by="b")
        assert not claim(one), "a watcher is told once, too"
        one.sent(RUN, "k", 105.0)
        assert not claim(other, now=1e9, by="b")
        assert other.last_sent(RUN, "kl-spike") == 105.0
        assert other.last_sent(RUN, "kl-noisy") is None
        assert claim(other, "k2", by="b")
    with State.open(place) as again:
        assert not claim(again, now=1e9)
        assert [u.key for u in again.unsent(RUN, 1e9)] == ["k2"]


def test_an_alert_that_failed_is_free_and_not_forgotten(state: State) -> None:
    assert claim(state)
    assert state.unsent(RUN, 101.0) == []
    state.failed(RUN, "k", 102.0, "a", "HTTP 500")
    (unsent,) = state.unsent(RUN, 103.0)
    assert (unsent.key, unsent.subject, unsent.payload) == ("k", "kl-spike", '{"key": "k"}')
    assert (unsent.attempts, unsent.error, unsent.tried_at) == (1, "HTTP 500", 102.0)
    assert claim(state, now=104.0, by="b")
    state.failed(RUN, "k", 105.0, "b", "HTTP 500")
    assert state.unsent(RUN, 106.0)[0].attempts == 2
    assert state.last_sent(RUN, "kl-spike") is None


def test_a_lease_that_is_over_passes_to_another_who_then_holds_it(state: State) -> None:
    assert claim(state)
    assert not claim(state, now=100.0 + LEASE - 1.0, by="b")
    assert state.unsent(RUN, 100.0 + LEASE)[0].error == ""
    assert claim(state, now=100.0 + LEASE, by="b")
    state.failed(RUN, "k", 230.0, "a", "too late to say so")
    assert not claim(state, now=231.0, by="c"), "what the first holder says frees nothing"


def test_a_clock_that_was_set_back_keeps_no_alert_from_being_sent(state: State) -> None:
    assert claim(state, now=1e6)
    assert not claim(state, now=1e6 - SKEW, by="b"), "clocks differ"
    assert claim(state, now=1e6 - SKEW - 1.0, by="b")


def test_two_processes_send_each_alert_once(place: str, two: ProcessPoolExecutor) -> None:
    count = 200
    first, second = (f.result(60) for f in [two.submit(claim_all, place, RUN, count) for _ in range(2)])
    assert sorted(first + second) == sorted(f"opened:finding-{n}" for n in range(count))
    with State.open(place) as state:
        assert state.unsent(RUN, 1e9) == []


def test_two_processes_make_the_same_database(
    request: pytest.FixtureRequest, place: str, tmp_path: Path, two: ProcessPoolExecutor
) -> None:
    if place.startswith("sqlite"):
        places = [place_of("-", str(tmp_path / f"{n}.sqlite")) for n in range(10)]
    else:
        places = [place_of("-", request.getfixturevalue("server").fresh()) for _ in range(10)]
    assert [f.result(60) for f in [two.submit(open_all, places) for _ in range(2)]] == [10, 10]
    for one in places:
        with State.open(one) as state:
            assert state.count("run", "opened", 1.0) == 3
            assert state.warnings == []


def test_an_alert_whose_sender_was_killed_is_sent_by_another(place: str, tmp_path: Path) -> None:
    """And what it had been told was kept, is: it is killed while it writes."""
    ready, kept = tmp_path / "ready", tmp_path / "kept"
    script = f"""
import os, sys, time
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from vario.surfaces.state import State
state = State.open({place!r})
assert state.claim({RUN!r}, "k", 100.0, "killed", subject="kl-spike", payload="[1]")
Path({str(ready)!r} + ".part").write_text(str(os.getpid()))
os.rename({str(ready)!r} + ".part", {str(ready)!r})
with open({str(kept)!r}, "w") as kept:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        print(state.count({RUN!r}, "x", 1.0), file=kept, flush=True)
"""
    victim = subprocess.Popen([sys.executable, "-c", script])
    try:
        kill_when_written(ready)
    finally:
        victim.kill()
        victim.wait()
    counted = len(kept.read_text().splitlines())
    with State.open(place) as state:
        assert state.count(RUN, "x", 1.0) - 1 in (counted, counted + 1)
        assert state.warnings == []
        assert not claim(state, now=110.0, by="b")
        assert state.unsent(RUN, 110.0) == []
        assert [u.payload for u in state.unsent(RUN, 100.0 + LEASE)] == ["[1]"]
        assert claim(state, now=100.0 + LEASE, by="b")
        state.sent(RUN, "k", 221.0)
        assert state.unsent(RUN, 1e9) == []


def test_threads_share_a_state(state: State) -> None:
    with ThreadPoolExecutor(8) as threads:
        given = list(threads.map(lambda n: claim(state, f"k{n % 20}", by=str(n)), range(80)))
        counts = list(threads.map(lambda _: state.count(RUN, "slow disk", 1.0), range(40)))
    assert sum(given) == 20
    assert sorted(counts) == list(range(1, 41))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_leaves_its_parents_connections_alone(place: str) -> None:
    """And finds no lock held for ever by a thread that it does not have."""
    script = f"""
import os, sys, threading
sys.path.insert(0, {str(ROOT)!r})
from vario.surfaces.state import State
state, opening = State.open({place!r}), State({place!r})
state.count("run", "x", 1.0)
held, done = threading.Event(), threading.Event()
def hold():
    with opening._database._alone():
        held.set()
        done.wait(60)
thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if not child:
    found = state.count("run", "x", 2.0) + opening.count("run", "y", 2.0)
    del state, opening
    os._exit(found)
ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
done.set()
thread.join()
print(ended, state.count("run", "x", 3.0), state.warnings)
state.close()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.split(), done.stderr) == (["3", "3", "[]"], "")


def test_what_people_said_of_a_finding_ends_with_it(state: State) -> None:
    state.remember(RUN, [OPENED])
    state.acknowledge(RUN, "kl-spike", "ada", "warm-up", 50.0)
    state.acknowledge(RUN, "kl-noisy", "ada", "for an hour", 50.0, until=3650.0)
    said = state.acknowledged(RUN, 60.0)
    assert (said["kl-spike"].by, said["kl-spike"].reason, said["kl-spike"].at, said["kl-spike"].until) == (
        "ada", "warm-up", 50.0, None,
    )  # fmt: skip
    assert set(said) == {"kl-spike", "kl-noisy"}
    assert set(state.acknowledged(RUN, 3650.0)) == {"kl-spike"}
    state.remember(RUN, [WORSENED])
    assert set(state.acknowledged(RUN, 60.0)) == {"kl-spike", "kl-noisy"}
    state.remember(RUN, [RESOLVED])
    state.remember(RUN, [replace(OPENED, step=330)])
    assert set(state.acknowledged(RUN, 60.0)) == {"kl-noisy"}


def test_a_mute_until_a_time_lasts_until_then(state: State) -> None:
    state.remember(RUN, [OPENED])
    state.mute(RUN, "kl-spike", "bob", "known", 50.0, until=500.0)
    state.mute(RUN, "kl-noisy", "bob", "known", 50.0)
    state.remember(RUN, [RESOLVED, replace(RESOLVED, subject="kl-noisy")])
    assert set(state.muted(RUN, 60.0)) == {"kl-spike"}
    assert state.acknowledged(RUN, 60.0) == {}
    assert state.muted(RUN, 500.0) == {}
    state.mute(RUN, "kl-spike", "eve", "longer", 60.0, until=900.0)
    assert state.muted(RUN, 500.0)["kl-spike"].by == "eve"
    state.speak_again(RUN, "kl-spike")
    assert state.muted(RUN, 60.0) == {}


def test_a_stall_that_is_over_is_acknowledged_no_more(state: State) -> None:
    state.acknowledge(RUN, "run-stalled", "ada", "saving", 50.0)
    state.remember(RUN, [replace(ENDED, kind=Kind.RESUMED, subject="resumed")])
    assert state.acknowledged(RUN, 60.0) == {}


def test_another_run_at_the_same_place_begins_anew(place: str) -> None:
    with State.open(place) as state, State.open(place) as other:
        assert state.generation(RUN) == 1
        state.remember(RUN, [OPENED])
        assert claim(state)
        state.sent(RUN, "k", 101.0)
        assert claim(state, "k2")
        state.failed(RUN, "k2", 102.0, "a", "HTTP 500")
        state.acknowledge(RUN, "kl-spike", "ada", "known", 50.0)
        state.mute(RUN, "kl-noisy", "ada", "this week", 50.0, until=1000.0)
        state.reviewed(RUN, 200, 60.0, "ada")
        state.put_marks(RUN, [Mark(1, 2, "good")])
        assert state.replaced(RUN, was=1) == 2
        assert other.replaced(RUN, was=1) == 2, "the other watcher sees it too, and later"
        assert other.generation(RUN) == 2
        assert (state.told(RUN), state.unsent(RUN, 1e9), state.acknowledged(RUN, 60.0)) == ({}, [], {})
        assert (state.last_review(RUN), state.marks(RUN), state.last_sent(RUN, "kl-spike")) == (None, (), None)
        assert set(state.muted(RUN, 60.0)) == {"kl-noisy"}
        assert claim(state), "the same alert about another run is another alert"
        state.remember(RUN, [OPENED])
        assert [(p.generation, p.kind) for p in state.history(RUN)] == [(1, "opened"), (2, "opened")]


def test_reviews_and_marks(state: State) -> None:
    assert state.last_review(RUN) is None
    state.reviewed(RUN, 200, 60.0, "ada")
    state.reviewed(RUN, 400, 90.0, "bob")
    last = state.last_review(RUN)
    assert last is not None
    assert (last.step, last.at, last.by) == (400, 90.0, "bob")
    state.put_marks(RUN, [Mark(7, 1, "good", 0.5, 9), Mark(3, 2, "bad"), Mark(10**30, 1, "bad"), Mark(7, 1, "hacked")])
    state.put_marks(RUN, [Mark(3, 2, "good", 1.0, 12)])
    state.put_marks(RUN, [])
    assert state.marks(RUN) == (Mark(3, 2, "good", 1.0, 12), Mark(7, 1, "hacked"))


def test_acts_are_kept_with_their_evidence(state: State) -> None:
    act = Act(
        "stop", "kl-spike", 230, "critical", "high", ("KL 0.9", "reward fell"), False, 70.0, "stopped at step 231"
    )
    dry = Act("webhook", "kl-spike", None, "critical", "high", (), True, 71.0, "would have been called")
    state.act(RUN, act)
    state.act(RUN, dry)
    assert state.acts(RUN) == [act, dry]
    assert state.acts("another") == []


def test_failures_are_counted_by_sentence(state: State) -> None:
    assert [state.count(RUN, "the webhook answered 500", float(n)) for n in range(3)] == [1, 2, 3]
    assert state.count(RUN, "the disk is full", 1.0) == 1
    assert state.count("another", "the disk is full", 1.0) == 1


def test_texts_of_any_origin_are_kept(state: State) -> None:
    hostile = "a\0b\udc80c\x1b[31m💥'; DROP TABLE vario_runs; --"
    longer = "x" * 5000
    state.remember(hostile, [replace(OPENED, subject=longer, title=hostile, text=hostile)])
    state.remember(RUN + "\0", [OPENED])
    assert set(state.told(RUN)) == set()
    (past,) = state.history(hostile)
    assert past.text == "a\N{REPLACEMENT CHARACTER}b?c\x1b[31m💥'; DROP TABLE vario_runs; --"
    assert state.count(RUN, longer, 1.0) == 1
    assert state.count(RUN, longer + "y", 1.0) == 1, "long texts that begin alike are told apart"
    assert state.count(RUN, longer, 1.0) == 2
    assert claim(state, longer)
    assert not claim(state, longer)
    state.remember(hostile, [replace(RESOLVED, subject=longer)])
    assert state.told(hostile) == {}


def test_a_database_of_a_newer_vario_is_left_alone(place: str) -> None:
    with State.open(place) as state:
        state.remember(RUN, [OPENED])
        state._database.write(lambda c: c.execute(update(schema.SCHEMA).values(version=99)))
    with pytest.raises(StateError, match=r"newer vario \(its tables are of version 99, this vario knows 1\).*update"):
        State.open(place)


def test_a_closed_state_says_so(state: State) -> None:
    state.close()
    with pytest.raises(StateError, match="was closed"):
        state.told(RUN)

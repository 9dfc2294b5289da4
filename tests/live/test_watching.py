"""Many runs under one watch: found where they lie, once each, whenever they begin and whoever stands beside them."""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

import vario
from tests.live.growth import BROKEN, Clock, append, at_the_end, findings, lines, rows, told
from vario.errors import ConfigError
from vario.sources.places import MAX_TOGETHER
from vario.surfaces.cli.watch_command import add_watch
from vario.surfaces.live import watching as module
from vario.surfaces.live.desk import MESSAGES
from vario.surfaces.live.followed import PATIENCE
from vario.surfaces.live.notices import Notice
from vario.surfaces.live.watched import Status, WatchedRun
from vario.surfaces.live.watching import SEARCH_SECONDS, Watching
from vario.surfaces.live.wishes import LiveWishes, WatchOptions

GOOD = rows(40)


class Watch:
    """A `Watching` whose clock stands still until it is told to go on."""

    def __init__(self, folder: Path, *paths: Path, options: tuple[str, ...] = ()) -> None:
        parser = argparse.ArgumentParser()
        add_watch(parser.add_subparsers())
        given = parser.parse_args(["watch", *map(str, paths), *options])
        self.clock = Clock()
        wishes = LiveWishes(WatchOptions(state=str(folder / "state.sqlite")))
        self.it = Watching(given.paths, given, wishes, clock=lambda: 1.7e9 + self.clock(), monotonic=self.clock)

    def turn(self, seconds: float = 2.0) -> list[Notice]:
        self.clock.now += seconds
        return self.it.turn()

    def searched(self) -> list[Notice]:
        """A turn after the pause between two searches."""
        return self.turn(SEARCH_SECONDS + 1.0)

    def rows(self) -> dict[str, int]:
        """Rows by run, with the folder of the test left out of the names."""
        return {Path(w.name).name: w.rows for w in self.it.runs}

    def run(self, name: str) -> WatchedRun:
        return next(w for w in self.it.runs if Path(w.name).name == name)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


def write(path: Path, some: list[dict[str, float]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    append(path, lines(some))
    return path


def test_a_folder_that_is_empty_then_holds_one_run_then_two(tmp_path: Path, home: Path) -> None:
    watch = Watch(tmp_path, home)
    assert watch.turn() == []
    assert (watch.rows(), watch.it.runs[0].status) == ({"home": 0}, Status.WAITING)
    write(home / "one" / "log.jsonl", GOOD[:20])
    watch.turn()
    assert watch.rows() == {"one": 20}
    assert watch.searched() == []
    write(home / "two" / "log.jsonl", BROKEN[:90])
    made = watch.searched()
    assert watch.rows() == {"one": 20, "two": 90}
    assert {n.run for n in made} == {watch.run("two").name}
    assert told(made).count("opened reward-function-broke") == 1
    append(home / "one" / "log.jsonl", lines(GOOD[20:]))
    watch.turn()
    watch.searched()
    assert watch.rows() == {"one": 40, "two": 90}
    for name in ("one", "two"):
        assert findings(at_the_end(watch.run(name))) == findings(vario.diagnose(vario.read(home / name)))


def test_a_path_that_is_not_there_may_become_a_log_or_a_folder_of_runs(tmp_path: Path, home: Path) -> None:
    watch = Watch(tmp_path, home / "a.jsonl", home / "b")
    assert watch.turn() == []
    assert [n.text.split(": ")[0] for n in watch.turn(PATIENCE)] == ["waiting", "waiting"]
    assert watch.turn() == []
    write(home / "a.jsonl", GOOD[:12])
    for name in ("one", "two", "three"):
        write(home / "b" / name / "log.jsonl", GOOD[:15])
    watch.turn()
    assert watch.rows() == {"a.jsonl": 12, "one": 15, "three": 15, "two": 15}
    assert all(w.status is Status.LIVE for w in watch.it.runs)


def test_a_second_log_in_the_folder_of_a_run_is_a_second_run(tmp_path: Path, home: Path) -> None:
    """Both lie in one folder: the first keeps what was told of it, and is read by its name from then on."""
    first, second = home / "first.jsonl", home / "second.jsonl"
    watch = Watch(tmp_path, home)
    write(first, BROKEN[:90])
    made = watch.turn()
    assert told(made).count("opened reward-function-broke") == 1
    other = rows(60, seed=7)
    for end in (1, 3, 10, 40):
        write(second, other[len(second.read_text().splitlines()) if second.exists() else 0 : end])
        made += watch.turn()
    made += watch.searched()
    write(first, BROKEN[90:])
    write(second, other[40:])
    made += watch.searched()
    assert sorted(watch.rows().values()) == [60, 100]
    assert told(made).count("opened reward-function-broke") == 1
    assert not {"replaced", "lost"} & set(told(made))
    first.unlink()  # the second is left alone
    made = watch.searched() + watch.searched()
    assert len(watch.it.runs) == 2
    assert not {"replaced", "trouble"} & set(told(made))


def test_a_second_run_in_the_database_of_a_tracker(tmp_path: Path, home: Path) -> None:
    path = home / "proj.db"

    def log(name: str, some: list[dict[str, float]]) -> None:
        with sqlite3.connect(path) as db:
            db.execute("create table if not exists metrics (id integer primary key, timestamp text, run_name text, step integer, metrics text)")
            db.execute("create table if not exists configs (id integer primary key, run_name text, config text, created_at text)")
            for row in some:
                db.execute(
                    "insert into metrics (timestamp, run_name, step, metrics) values (?, ?, ?, ?)",
                    ("2026-08-21T12:00:00", name, int(row["step"]), json.dumps(row)),
                )
        db.close()

    log("one", BROKEN[:90])
    watch = Watch(tmp_path, home)
    made = watch.turn()
    assert list(watch.rows().values()) == [90]
    log("two", GOOD[:20])
    made += watch.turn() + watch.searched()
    log("one", BROKEN[90:])
    log("two", GOOD[20:])
    made += watch.turn()
    assert sorted(watch.rows().values()) == [40, 100]
    assert told(made).count("opened reward-function-broke") == 1
    assert not {"replaced", "lost", "trouble"} & set(told(made))


def test_what_two_paths_lead_to_is_one_run(tmp_path: Path, home: Path) -> None:
    write(home / "one" / "log.jsonl", GOOD[:12])
    write(home / "two" / "log.jsonl", GOOD[:12])
    watch = Watch(tmp_path, home, home / "one", home)
    watch.turn()
    assert len(watch.it.runs) == 2


def test_one_run_by_its_name(tmp_path: Path, home: Path) -> None:
    for name in ("one", "two"):
        write(home / name / "log.jsonl", GOOD[:12])
    watch = Watch(tmp_path, home, options=("--run", "two"))
    watch.turn()
    assert list(watch.rows().values()) == [12]
    write(home / "three" / "log.jsonl", GOOD[:12])
    watch.searched()
    assert len(watch.it.runs) == 1


def test_a_setting_above_all_runs_counts_for_each(tmp_path: Path, home: Path) -> None:
    """The configuration lies in the folder above: a run is read from there, as an offline diagnosis reads it."""
    (home / "config.json").write_text(json.dumps({"learning_rate": 1e-6, "beta": 0.04, "num_generations": 8}))
    for name in ("one", "two"):
        write(home / name / "log.jsonl", BROKEN)
    watch = Watch(tmp_path, home)
    watch.turn()
    for watched in list(watch.it.runs):
        offline = vario.read(home, run=Path(watched.name).name)
        assert offline.config["learning_rate"] == 1e-6
        assert findings(at_the_end(watched)) == findings(vario.diagnose(offline))


def test_a_run_that_cannot_be_judged_silences_no_other_and_is_told_once(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home / "one" / "log.jsonl", GOOD[:12])
    write(home / "two" / "log.jsonl", BROKEN[:90])
    watch = Watch(tmp_path, home)

    def broken() -> list[Notice]:
        raise ZeroDivisionError("of the test")

    monkeypatch.setattr(watch.run("one"), "look", broken)
    made = watch.turn() + watch.turn() + watch.turn()
    assert told(made).count("trouble") == 1
    assert "ZeroDivisionError: of the test" in next(n.text for n in made if n.kind.value == "trouble")
    assert told(made).count("opened reward-function-broke") == 1


def test_more_runs_than_can_be_followed_are_told_of(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RUNS", 2)
    for name in ("a", "b", "c", "d"):
        write(home / name / "log.jsonl", GOOD[:12])
    watch = Watch(tmp_path, home)
    watch.turn()
    watch.searched()
    assert sorted(watch.rows()) == ["a", "b"]
    assert len([m for m in watch.it.messages if "more than 2 runs" in m]) == 1


def test_a_project_file_that_is_broken_while_it_goes_on(tmp_path: Path, home: Path) -> None:
    write(home / "one" / "log.jsonl", GOOD[:12])
    watch = Watch(tmp_path, home)
    watch.turn()
    (home / "vario.toml").write_text("[rules]\nonly = [\"no-such-rule\"]\n")
    write(home / "two" / "log.jsonl", GOOD[:12])
    watch.searched()
    watch.searched()
    append(home / "one" / "log.jsonl", lines(GOOD[12:30]))
    watch.turn()
    assert watch.rows() == {"one": 30, "two": 0}
    assert [m for m in watch.run("two").troubles if "no-such-rule" in m]
    with pytest.raises(ConfigError):
        Watch(tmp_path, home)


def test_a_run_whose_own_project_file_is_broken_hides_no_other(tmp_path: Path, home: Path) -> None:
    for name in ("a", "b", "c"):
        write(home / name / "log.jsonl", GOOD[:30])
    toml = home / "a" / "vario.toml"
    toml.write_text('[rules]\nload = ["somebody_elses.py"]\n')
    watch = Watch(tmp_path, home)
    watch.turn()
    assert watch.rows() == {"a": 0, "b": 30, "c": 30}
    (why,) = watch.run("a").troubles
    assert "name the file with --rules" in why
    assert "trouble" not in told(watch.searched()), "told once"
    toml.write_text('[rules]\nonly = ["no-such-rule"]\n')
    watch.searched()
    assert any("no-such-rule" in text for text in watch.run("a").troubles)
    toml.unlink()
    watch.searched()
    assert watch.rows() == {"a": 30, "b": 30, "c": 30}
    toml.write_text('[rules]\nonly = ["no-such-rule"]\n')
    shutil.rmtree(home / "b")
    write(home / "d" / "log.jsonl", GOOD[:30])
    (home / "d" / "vario.toml").write_text('[rules]\nonly = ["no-such-rule"]\n')
    watch.searched()
    assert watch.rows()["d"] == 0
    shutil.rmtree(home / "d")
    watch.searched()
    assert "d" not in watch.rows()


def test_what_is_kept_beside_the_arrays_does_not_grow(tmp_path: Path, home: Path) -> None:
    """After many turns with troubles and notices, lists that a surface shows are as long as they may be."""
    path = write(home / "log.jsonl", GOOD[:12])
    watch = Watch(tmp_path, home)
    run = watch.it.runs[0]
    for i in range(120):
        path.write_text(lines(rows(2, seed=i)))  # each time another run
        watch.turn()
    assert len(run.pauses) <= 2
    assert len(run.troubles) <= 2
    assert len(watch.it.messages) <= 2
    assert len(watch.it.history) <= 1000
    assert run.rows == 2
    for i in range(2 * MESSAGES):
        watch.it.desk.say(f"sentence {i}")
    assert len(watch.it.messages) == MESSAGES + 1


def test_a_search_reads_no_log_while_no_new_one_lies_there(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        write(home / name / "log.jsonl", GOOD[:12])
    watch = Watch(tmp_path, home)
    searched: list[Path] = []
    below = module.found_below
    monkeypatch.setattr(module, "found_below", lambda path, run, **how: (searched.append(path), below(path, run, **how))[1])  # type: ignore[func-returns-value]
    append(home / "one" / "log.jsonl", lines(GOOD[12:]))
    watch.searched()
    assert searched == []
    write(home / "three" / "log.jsonl", GOOD[:12])
    watch.searched()
    assert searched
    assert watch.rows() == {"one": 40, "three": 12, "two": 12}


def test_runs_that_can_be_but_one_each_are_read_once(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of many runs is a list of them: only where two logs lie in one folder are they read to tell whose they are."""
    for i in range(MAX_TOGETHER + 1):
        write(home / f"run-{i:02d}" / "log.jsonl", GOOD[:12])
    write(home / "mixed" / "log.jsonl", GOOD[:12])
    write(home / "mixed" / "other.jsonl", rows(12, seed=8))
    searched: list[Path] = []
    below = module.found_below
    monkeypatch.setattr(module, "found_below", lambda path, run, **how: (searched.append(path), below(path, run, **how))[1])  # type: ignore[func-returns-value]
    watch = Watch(tmp_path, home)
    assert searched == [home, home / "mixed"]
    watch.turn()
    alone = {name: count for name, count in watch.rows().items() if name.startswith("run-")}
    assert alone == {f"run-{i:02d}": 12 for i in range(MAX_TOGETHER + 1)}

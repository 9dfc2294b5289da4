"""W&B: offline files made by its own client, files made by its layout and damaged, and its server."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vario
from tests.effort import tries
from tests.sources.writers import (
    assert_same,
    points_of,
    read_elsewhere,
    run_python,
    wandb_config,
    wandb_history,
    wandb_log,
    wandb_stats,
)
from vario.errors import Malformed, NothingReadable, VarioError
from vario.sources import interpret
from vario.sources.readers import wandb_offline
from vario.sources.readers.wandb_offline import BLOCK, OfflineRun

Points = dict[str, list[tuple[int, float]]]


def parsed(data: bytes, cuts: list[int] | None = None) -> OfflineRun:
    made = OfflineRun("run-abc.wandb")
    for a, b in pairwise([0, *sorted(cuts or []), len(data)]):
        made.feed(data[a:b])
    made.close()
    return made


def metrics_of(table: object) -> Points:
    """The columns without W&B's own clocks."""
    return {k: v for k, v in points_of(table).items() if k not in ("_timestamp", "_runtime")}  # type: ignore[arg-type]


def is_part(ours: Points, true: Points) -> bool:
    """Whether every point that was read had been written."""
    return all(set(points) <= set(true.get(key, [])) for key, points in ours.items())


# files of the released client

CLIENT = """
import math, sys, json
import wandb
folder, config = sys.argv[1:3]
run = wandb.init(project="p", dir=folder, mode="offline", config=json.loads(config), id="abc123")
exec(sys.argv[3])
run.finish()
"""
CONFIG = {"learning_rate": 1e-6, "actor": {"lr": 1e-5, "optim": {"name": "adam", "betas": [0.9, 0.95]}}, "beta": 0.04, "none": None, "flag": True}
BODY = """
run.config["late"] = 3
run.config.update({"actor": {"lr": 2e-5}}, allow_val_change=True)
for s in range(400):
    row = {"train/reward": s / 7, "loss": math.nan if s % 50 == 3 else s * 1e-9, "inf": (math.inf, -math.inf, 1.0)[s % 3],
           "nested": {"a": s, "b": {"c": s * 2}}, "text": 'said "q" é\\u2028\\x82', "flag": s % 2 == 0, "none": None,
           "big": 10**20, "é/Â": s, "list": [1, 2], "k" * 200: s, "long": "y" * 300}
    if s % 100 == 0:
        row["hist"] = wandb.Histogram([1, 2, 3])
        row["html"] = wandb.Html("<b>x</b>")
        row["table"] = wandb.Table(columns=["a"], data=[[1]])
    run.log(row, step=3 * s) if s < 200 else run.log(row)
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An offline run by the released client."""
    pytest.importorskip("wandb")
    folder = tmp_path_factory.mktemp("client")
    run_python(CLIENT, str(folder), json.dumps(CONFIG), BODY, WANDB_SILENT="true", WANDB_DIR=str(folder))
    (found,) = folder.glob("wandb/offline-run-*/run-abc123.wandb")
    return found


def test_the_released_client_value_by_value(client: Path) -> None:
    table = wandb_offline.read(client)
    # a row without a step goes to the step that is open: 597, where it takes the place of the row before it
    rows = [s for s in range(400) if s != 199]
    steps = [3 * s if s < 200 else 597 + s - 200 for s in rows]
    exact: dict[str, list[float]] = {
        "train/reward": [s / 7 for s in rows],
        "loss": [math.nan if s % 50 == 3 else s * 1e-9 for s in rows],
        "inf": [(math.inf, -math.inf, 1.0)[s % 3] for s in rows],
        "nested/a": [float(s) for s in rows],
        "nested/b/c": [2.0 * s for s in rows],
        "flag": [float(s % 2 == 0) for s in rows],
        "none": [math.nan] * 399,
        "big": [1e20] * 399,
        "é/Â": [float(s) for s in rows],
        "k" * 200: [float(s) for s in rows],
    }
    expected: Points = {k: list(zip(steps, v, strict=True)) for k, v in exact.items()}
    assert_same(metrics_of(table), expected)  # neither the table's size nor the histogram's: they are no metrics
    assert table.warnings == []
    assert table.ignored == 0
    assert table.texts >= 3 * 399
    assert table.config == {**CONFIG, "actor": {"lr": 2e-5}, "late": 3}


def test_the_whole_folder_of_the_client(client: Path) -> None:
    for path in (client.parents[2], client):
        run = vario.read(path)
        assert run.config["actor.lr"] == 2e-5
        assert (run.logged_steps.size, run.last_step) == (399, 796)


RESUMED = """
import sys, time, wandb
for first in (0, 100):
    with wandb.init(project="p", dir=sys.argv[1], mode="offline", id="abc123", resume="allow", config={"beta": 0.1}) as run:
        for s in range(first, first + 100):  # an offline client knows nothing of the earlier file: the trainer gives the step
            run.log({"train/reward": s / 7, "train/kl": s * 0.1}, step=s)
    time.sleep(1.1)  # its folder is named by the second
"""


def test_a_resumed_offline_run(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    run_python(RESUMED, str(tmp_path), WANDB_SILENT="true")
    files = sorted(tmp_path.glob("wandb/offline-run-*/run-abc123.wandb"))
    assert [metrics_of(wandb_offline.read(f))["train/reward"][0] for f in files] == [(0, 0.0), (100, 100 / 7)]
    reward = vario.read(tmp_path).series["reward/mean"]
    assert list(zip(reward.steps.tolist(), reward.values.tolist(), strict=True)) == [(s, s / 7) for s in range(200)]


def test_a_resume_without_a_row(tmp_path: Path) -> None:
    """A run that was resumed and ended before its first row is still the run that it was."""
    run_python(RESUMED, str(tmp_path), WANDB_SILENT="true")
    before = vario.read(tmp_path).series["reward/mean"]
    later = tmp_path / "wandb/offline-run-20991231_235959-abc123"
    later.mkdir()
    (later / "run-abc123.wandb").write_bytes(wandb_log([wandb_config({"learning_rate": "1e-06"})]))
    reward = vario.read(tmp_path).series["reward/mean"]
    assert list(zip(reward.steps.tolist(), reward.values.tolist(), strict=True)) == list(
        zip(before.steps.tolist(), before.values.tolist(), strict=True)
    )


def test_the_clients_file_cut_off(client: Path) -> None:
    data = client.read_bytes()
    true = metrics_of(parsed(data).table)
    seen = 0
    for cut in range(0, len(data), 97 * 193):
        made = metrics_of(parsed(data[:cut]).table)
        for key, points in made.items():
            assert list(map(str, points)) == list(map(str, true[key][: len(points)])), (cut, key)
        rows = len(made.get("train/reward", []))
        assert rows >= seen
        seen = rows
    assert seen > 300


# files by the layout


def small_log(rows: int = 44) -> tuple[bytes, Points]:
    """Rows of several shapes over more than one block, and what they hold."""
    true: Points = {"a": [], "n/x": [], "b": []}
    records = [wandb_config({"learning_rate": "1e-06"})]
    for s in range(rows):
        records.append(wandb_history({"a": repr(s / 3), ("n", "x"): str(s), "_step": str(2 * s)}, 2 * s))
        true["a"].append((2 * s, s / 3))
        true["n/x"].append((2 * s, float(s)))
        if s % 4 == 0:
            records.append(wandb_history({("b",): str(-s), "text": json.dumps("x" * 4000), ("_step",): str(2 * s + 1)}, 2 * s + 1))
            true["b"].append((2 * s + 1, float(-s)))
    return wandb_log(records), true


def test_the_layout_is_the_clients(client: Path) -> None:
    """The client's own bytes, taken apart and framed again, are the client's own bytes."""
    data = client.read_bytes()
    found: list[bytes] = []
    made = OfflineRun("x")
    made._record = found.append  # type: ignore[method-assign]
    made.feed(data)
    assert len(found) > 400
    assert wandb_log(found)[7:] == data[7:]  # behind the file's header, which names the client's version


def test_records_across_blocks() -> None:
    data, true = small_log()
    assert len(data) > BLOCK
    made = parsed(data)
    assert points_of(made.table) == true
    assert made.table.config == {"learning_rate": 1e-06}
    assert made.table.warnings == []
    for size in (*range(BLOCK - 60, BLOCK + 10), 3 * BLOCK, 200_000):  # the end of a block at every place of a header
        records = [wandb_history({"t": json.dumps("y" * size), "_step": "1"}), wandb_history({"a": "2.5", "_step": "2"})]
        assert points_of(parsed(wandb_log(records)).table) == {"a": [(2, 2.5)]}, size


def test_cut_off_at_every_97th_byte(tmp_path: Path) -> None:
    data, true = small_log()
    path = tmp_path / "run-abc.wandb"
    for cut in range(0, len(data), 97):
        made = parsed(data[:cut])
        ours = points_of(made.table)
        assert all(true[k][: len(v)] == v for k, v in ours.items()), cut
        if cut % 970 == 0:
            path.write_bytes(data[:cut])
            try:
                vario.read(path)
            except VarioError as error:
                assert path.name in str(error)
    assert "ends inside a record" in parsed(data[:-5]).table.warnings[0]


def test_a_flipped_byte_costs_its_block_and_gives_no_other_number() -> None:
    data, true = small_log()
    rng = np.random.default_rng(0)
    total = sum(map(len, true.values()))
    least = total
    for at in (*range(7, len(data), 37), *range(BLOCK - 30, BLOCK + 30)):
        damaged = bytearray(data)
        damaged[at] ^= int(rng.integers(1, 256))
        made = parsed(bytes(damaged))
        ours = points_of(made.table)
        assert is_part(ours, true), at
        if ours != true:
            assert made.table.warnings, at
            assert made.table.ignored or "inside a record" in made.table.warnings[-1]
        least = min(least, sum(map(len, ours.values())))
        if at % 5 == 0:
            assert points_of(parsed(bytes(damaged), [at]).table) == ours
    assert 0 < least < total
    # the blocks behind the damaged one are read
    damaged = bytearray(data)
    damaged[5000] ^= 1
    made = parsed(bytes(damaged))
    assert points_of(made.table)["a"][-1] == true["a"][-1]
    assert "byte" in made.table.warnings[0]


@settings(max_examples=tries(60), deadline=None)
@given(st.lists(st.integers(0, 2**20), max_size=30))
def test_in_pieces_it_is_the_same(cuts: list[int]) -> None:
    data, true = small_log()
    made = parsed(data, [c % len(data) for c in cuts])
    assert points_of(made.table) == true
    assert (made.table.rows, made.table.texts, made.table.ignored, made.table.warnings) == (55, 11, 0, [])


def test_byte_by_byte() -> None:
    data, true = small_log(6)
    made = parsed(data, list(range(1, len(data))))
    assert points_of(made.table) == {k: v for k, v in true.items() if v}


@pytest.mark.parametrize("zeros", [1, 6, 7, 8, 5000, 40_000, 100_000])
def test_zeros_behind_the_last_record(zeros: int) -> None:
    data, true = small_log()
    for cuts in ([], [len(data) + zeros // 2]):
        made = parsed(data + bytes(zeros), cuts)
        assert points_of(made.table) == true
        assert made.table.warnings == []  # the client sets room aside


def test_a_writer_that_went_on_behind_zeros() -> None:
    """A machine that went down leaves zeros; the client goes on at the next block."""
    data, true = small_log(6)
    more = wandb_log([b"x" * (BLOCK - 7 - 7), wandb_history({"a": "9", "_step": "99"})])[BLOCK:]
    made = parsed(data + bytes(-len(data) % BLOCK) + more)
    assert points_of(made.table)["a"] == [*true["a"], (99, 9.0)]


def test_a_record_without_its_end_is_not_joined_with_the_next() -> None:
    first = wandb_log([wandb_history({"t": json.dumps("y" * 50_000), "a": "1", "_step": "1"})])
    broken_off = first[: BLOCK]  # its second half was never written
    rest = wandb_log([b"x" * (BLOCK - 14), wandb_history({"a": "2", "_step": "2"}), wandb_history({"t": json.dumps("z" * 50_000), "a": "3", "_step": "3"})])[BLOCK:]
    made = parsed(broken_off + rest)
    assert points_of(made.table) == {"a": [(2, 2.0), (3, 3.0)]}
    assert made.table.ignored == 1


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=150)
NUMBER = st.one_of(st.floats(allow_nan=False, allow_infinity=False, max_value=1e99, min_value=-1e99), st.integers(-(2**70), 2**70))
KEY = st.one_of(TEXT, st.lists(TEXT, min_size=1, max_size=3).map(tuple))


def joined(key: str | tuple[str, ...]) -> str:
    return key if isinstance(key, str) else "/".join(key)


@settings(max_examples=tries(150), deadline=None)
@given(st.lists(st.dictionaries(KEY, st.one_of(NUMBER, NUMBER, TEXT), max_size=6), min_size=1, max_size=6))
def test_rows_of_any_keys_and_values(rows: list[Mapping[str | tuple[str, ...], float | str]]) -> None:
    """Short items and long ones, keys and texts with any character: the quick way and the careful one agree."""
    records, true = [], {}
    for s, row in enumerate(rows):
        row = {k: v for k, v in row.items() if "_" not in joined(k) and joined(k) not in wandb_offline.STEP_KEYS}
        row = {joined(k): (k, v) for k, v in row.items()}.values()  # type: ignore[assignment]
        records.append(wandb_history({k: json.dumps(v, ensure_ascii=s % 2 == 0) for k, v in row} | {"_step": str(s)}, s))  # type: ignore[misc]
        for k, v in row:  # type: ignore[misc]
            if isinstance(v, int | float) or (isinstance(v, str) and _is_numeric(v)):
                true.setdefault(joined(k), {})[s] = float(v)
    made = parsed(wandb_log(records))
    assert_same(points_of(made.table), {k: sorted(v.items()) for k, v in true.items()})
    assert made.table.ignored == 0


def _is_numeric(text: str) -> bool:
    from vario.sources.rows import number

    return number(text) is not None


def test_a_row_without_a_step_among_its_items_has_the_clients_own() -> None:
    records = [wandb_history({"a": "1"}, 0), wandb_history({"a": "2"}, 5), wandb_history({"a": "3"}, 6), wandb_history({"a": "4"})]
    assert points_of(parsed(wandb_log(records)).table) == {"a": [(0, 1.0), (5, 2.0), (6, 3.0), (7, 4.0)]}


def test_media_are_no_metrics_in_either_way_of_writing() -> None:
    image = {"_type": "image-file", "size": 69, "width": 4, "path": "media/x.png"}
    records = [
        wandb_history({"a": "1", "img": json.dumps(image), "_step": "1"}),
        wandb_history({"a": "2", **{("img", k): json.dumps(v) for k, v in image.items()}, "image": "5", "_step": "2"}),
    ]
    table = parsed(wandb_log(records)).table
    assert points_of(table) == {"a": [(1, 1.0), (2, 2.0)], "image": [(2, 5.0)]}
    assert table.texts == 1 + len(image)


def test_a_long_text_among_numbers_takes_no_room_for_all() -> None:
    import tracemalloc

    records = [wandb_history({"a": str(s), "_step": str(s)}) for s in range(2000)]
    records.append(wandb_history({"a": json.dumps("z" * 1_000_000), "_step": "2000"}))
    data = wandb_log(records)
    tracemalloc.start()
    table = parsed(data).table
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6  # 2 GB where each item has the room of the longest
    assert len(points_of(table)["a"]) == 2000


def test_samples_of_the_devices_are_reduced_over_a_row() -> None:
    """Two devices: their mean power and use, the fuller one's memory; other gauges are none of a training's."""
    records = [
        wandb_stats({f"gpu.{i}.{k}": v for i in (0, 1) for k, v in (("memoryAllocated", f"{60 + i}.0"), ("powerWatts", "300"))}),
        wandb_stats({"gpu.0.memoryAllocated": "97.5", "gpu.0.powerWatts": "650.0", "gpu.0.gpu": "80", "cpu": "12.0", "gpu.0.temp": "60"}),
        wandb_history({"eval/reward": "0.5", "_step": "1"}),
        wandb_history({"reward": "0.1", "_step": "1"}),
        wandb_history({"reward": "0.2", "_step": "2"}),
        wandb_stats({"gpu.0.gpu": '"broken"', "gpu.0.powerWatts": "280"}),
        wandb_history({"reward": "0.3", "_step": "3"}),
        wandb_stats({"gpu.0.powerWatts": "310"}),
    ]
    table = parsed(wandb_log(records)).table
    assert points_of(table) == {
        "eval/reward": [(1, 0.5)],
        "reward": [(1, 0.1), (2, 0.2), (3, 0.3)],
        "system/gpu/memoryAllocated/min": [(1, 61.0)],
        "system/gpu/memoryAllocated/max": [(1, 97.5)],
        "system/gpu/powerWatts/min": [(1, 300.0), (3, 280.0)],
        "system/gpu/powerWatts/max": [(1, 650.0), (3, 280.0)],
        "system/gpu/gpu/mean": [(1, 80.0)],
    }
    run = interpret(table)
    assert run.unmapped == ()
    assert run.series["systems/memory-share"].values.tolist() == [0.975]
    assert run.series["systems/memory-share/low"].values.tolist() == [0.61]
    assert run.series["systems/device-use"].values.tolist() == [0.8]
    assert run.series["systems/power/max"].values.tolist() == [650.0, 280.0]


def test_settings_told_by_a_path_of_keys() -> None:
    records = [
        wandb_config({"actor": '{"lr": 1, "name": "adam"}', "_wandb": '{"cli_version": "1"}'}),
        wandb_config({("actor", "lr"): "2", ("critic", "lr"): "3"}),
        wandb_history({"a": "1", "_step": "1"}),
    ]
    table = parsed(wandb_log(records)).table
    assert table.config == {"actor": {"lr": 2, "name": "adam"}, "critic": {"lr": 3}}


@pytest.mark.parametrize("record", [b"\x12\x05ab", b"\x12\x02\x0a\x05", b"\x13", b"\xff" * 20, b"\x2a\x04\x0a\x02\x82\x01"])
def test_a_whole_record_that_is_no_message_is_counted(record: bytes) -> None:
    made = parsed(wandb_log([record, wandb_history({"a": "1", "_step": "1"})]))
    assert points_of(made.table) == {"a": [(1, 1.0)]}
    assert made.table.ignored == 1


@settings(max_examples=tries(100), deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_with_right_sums(record: bytes) -> None:
    made = parsed(wandb_log([wandb_history({"good": "1", "_step": "1"}), record]))
    assert points_of(made.table)["good"][0] == (1, 1.0)


def test_a_run_that_logged_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run-abc.wandb"
    for content in (wandb_log([]), wandb_log([wandb_config({"a": "1"})]), wandb_log([wandb_history({"t": '"x"', "_step": "1"})])):
        path.write_bytes(content)
        with pytest.raises(Malformed, match=r"run-abc\.wandb"):
            vario.read(path)


# the text form of old clients


def test_history_as_lines_with_its_settings(tmp_path: Path) -> None:
    folder = tmp_path / "wandb" / "run-20200101_100000-abc123"
    folder.mkdir(parents=True)
    rows = [{"reward": s / 40, "reward_std": 0.2, "kl": 0.01, "frac_reward_zero_std": 0.1, "_step": s, "_runtime": s, "_timestamp": 1.7e9 + s} for s in range(1, 41)]
    (folder / "wandb-history.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (folder / "config.yaml").write_text(
        "wandb_version: 1\n\n_wandb:\n  desc: null\n  value:\n    cli_version: 0.8.0\nlearning_rate:\n  desc: null\n  value: 1.0e-06\n"
        "beta:\n  desc: null\n  value: 0.04\nnum_generations:\n  desc: null\n  value: 8\n"
    )
    for path in (tmp_path, folder, folder / "wandb-history.jsonl"):
        run = vario.read(path)
        assert run.series["reward/mean"].steps.tolist() == list(range(1, 41))
        assert run.series["reward/mean"].values.tolist() == [s / 40 for s in range(1, 41)]
        assert (run.config["beta"], run.config["learning_rate"], run.config["num_generations"]) == (0.04, 1e-6, 8)
        assert not [k for k in run.config if "value" in k or "wandb" in k]


# the server


class Server:
    """Answers what W&B's client asks; the history in pages, as the server gives it."""

    rows: ClassVar = [
        {"_step": s, "train/reward": s / 7, "train/kl": "NaN" if s % 5 == 0 else s * 0.001, "_timestamp": 1.7e9 + s, "text": "x",
         "img": {"_type": "image-file", "size": 3}, "nested": {"a": s}, "never": None}
        for s in range(3200) if s % 3 != 1
    ]  # fmt: skip

    def __init__(self, *, fails_behind: int | None = None) -> None:
        self.asked: list[tuple[int, int]] = []
        self.fails_behind = fails_behind

    def run(self, name: str) -> dict[str, object]:
        config = {"learning_rate": {"desc": None, "value": 1e-6}, "actor": {"desc": None, "value": {"lr": 1}}, "_wandb": {"value": {}}}
        keys = {"lastStep": self.rows[-1]["_step"], "keys": {}}
        texts = ("group", "jobType", "commit", "description", "notes", "sweepName")
        return {
            "id": name, "name": name, "displayName": f"brisk-sun-{name}", "state": "finished", "config": json.dumps(config), "tags": [],
            "createdAt": "2026-01-01T00:00:00", "heartbeatAt": "2026-01-01T00:00:00", "systemMetrics": "{}", "summaryMetrics": "{}",
            "historyLineCount": len(self.rows), "user": {"name": "me", "username": "me"}, "historyKeys": keys, "projectId": "1", "readOnly": False,
            **dict.fromkeys(texts),
        }  # fmt: skip

    def answer(self, query: str, variables: Mapping[str, object]) -> dict[str, object] | None:
        if "viewer" in query:
            return {"viewer": {"id": "1", "entity": "me", "username": "me", "name": "me", "email": "a@b", "flags": "{}", "teams": {"edges": []}}}
        if variables.get("project") != "proj":
            return {"project": None}
        if "minStep" in variables:
            first, behind = int(str(variables["minStep"])), int(str(variables["maxStep"]))
            self.asked.append((first, behind))
            if self.fails_behind is not None and first >= self.fails_behind:
                return None
            return {"project": {"run": {"history": [json.dumps(r) for r in self.rows if first <= r["_step"] < behind]}}}
        if "parquetHistory" in query:
            return {"project": {"run": {"parquetHistory": {"parquetUrls": [], "liveData": []}}}}
        if "runs(" in query:
            edges = [{"node": self.run(n), "cursor": n} for n in ("a1", "b2")]
            return {"project": {"internalId": "1", "runCount": 2, "readOnly": False, "runs": {"edges": edges, "pageInfo": {"endCursor": "b2", "hasNextPage": False}}}}
        known = variables.get("name") in ("a1", "b2")
        return {"project": {"internalId": "1", "run": self.run(str(variables["name"])) if known else None}}

    @contextmanager
    def listening(self) -> Iterator[str]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                asked = json.loads(body) if self.path == "/graphql" else {"query": ""}
                data = server.answer(asked["query"], asked.get("variables") or {})
                content = json.dumps({"data": data} if data is not None else {"errors": [{"message": "no such page"}]}).encode()
                self.send_response(200 if data is not None else 400)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
            thread = Thread(target=http.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{http.server_port}"
            finally:
                http.shutdown()
                thread.join()


def asked(url: str, *addresses: str) -> list[dict[str, Any]]:
    """What is read at each address, where a name may follow."""
    return read_elsewhere(*addresses, WANDB_BASE_URL=url, WANDB_API_KEY="x" * 40, WANDB_SILENT="true")


def test_the_whole_history_of_a_run_from_the_server() -> None:
    pytest.importorskip("wandb")
    server = Server()
    with server.listening() as url:
        addresses = ("wandb://me/proj/a1", "wandb://me/proj b2", "wandb://me/proj/none", "wandb://me/other", "wandb://me")
        made, of_project, missing, foreign, half = asked(url, *addresses)
    assert len({a for a, _ in server.asked}) > 3  # more than one page
    steps = [r["_step"] for r in Server.rows]
    series = {k: v for k, v in made["series"].items() if k != "_timestamp"}
    assert set(series) == {"train/reward", "train/kl", "nested/a"}
    assert series["train/reward"] == [steps, [s / 7 for s in steps]]
    assert series["nested/a"] == [steps, [float(s) for s in steps]]
    np.testing.assert_array_equal(series["train/kl"][1], [math.nan if s % 5 == 0 else s * 0.001 for s in steps])
    assert made["config"] == {"learning_rate": 1e-6, "actor": {"lr": 1}}
    assert (made["names"], made["path"]) == (["brisk-sun-a1@a1"], "wandb://me/proj/a1")
    assert (made["warnings"], made["ignored"]) == ([], 0)
    assert of_project["names"] == ["brisk-sun-b2@b2"]
    assert of_project["series"].keys() == made["series"].keys()
    assert of_project["config"] == made["config"]
    for failed, word in ((missing, "me/proj/none"), (foreign, "me/other"), (half, "expected wandb://")):
        assert failed["error"] == "NothingReadable"
        assert word in failed["text"]


def test_a_history_that_breaks_off_is_said() -> None:
    pytest.importorskip("wandb")
    with Server(fails_behind=2000).listening() as url:
        (made,) = asked(url, "wandb://me/proj/a1")
    assert made["series"]["train/reward"][0] == [s for s in range(2000) if s % 3 != 1]
    assert "breaks off" in made["warnings"][0]
    with Server(fails_behind=0).listening() as url:
        (failed,) = asked(url, "wandb://me/proj/a1")
    assert "cannot be read" in failed["text"]


def test_without_the_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(NothingReadable, match=r"pip install 'vario\[wandb\]'"):
        vario.read("wandb://me/proj/a1")

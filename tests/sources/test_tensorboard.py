"""TensorBoard event files, against TensorBoard's own protos, its own reader, and the writers that trainers use."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboardX import SummaryWriter

import vario
from tests.effort import tries
from tests.sources.writers import accumulated, assert_same, event_bytes, framed, points_of, scalar_event, write_events
from vario.errors import Malformed, VarioError
from vario.sources.event_files import read_together
from vario.sources.readers import tensorboard
from vario.sources.readers.crc32c import masked
from vario.sources.readers.tensorboard import EventFile

DT_FLOAT, DT_DOUBLE, DT_INT32, DT_STRING, DT_INT64, DT_HALF = 1, 2, 3, 7, 9, 19


def parsed(data: bytes, pieces: list[int] | None = None) -> EventFile:
    """A parser that was fed the bytes, cut at the given places, and closed."""
    made = EventFile("events.out.tfevents.1")
    cuts = [0, *sorted(pieces or []), len(data)]
    for a, b in pairwise(cuts):
        made.feed(data[a:b])
    made.close()
    return made


def written(made: EventFile) -> dict[str, list[tuple[int, float]]]:
    """Steps and values in the order of writing."""
    return {tag: list(zip(s.tolist(), v.tolist(), strict=True)) for tag, (s, v) in made.columns().items()}


def event_file(folder: Path) -> Path:
    (found,) = folder.glob("events.out.tfevents.*")
    return found


def tensor_event(step: int, tag: str, tensor: TensorProto, plugin: str | None = "scalars", wall: float = 1.7e9) -> Event:
    metadata = None
    if plugin is not None:
        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin))
    return Event(wall_time=wall + step, step=step, summary=Summary(value=[Summary.Value(tag=tag, tensor=tensor, metadata=metadata)]))


def shape(*sizes: int) -> TensorShapeProto:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in sizes])


def prefix(ours: dict[str, list[tuple[int, float]]], true: dict[str, list[tuple[int, float]]]) -> bool:
    """Whether what was read is the beginning of what was written, for every tag."""
    return all(true[tag][: len(points)] == points for tag, points in ours.items())


# sums


@settings(max_examples=tries(60), deadline=None)
@given(st.binary(max_size=700), st.lists(st.tuples(st.integers(0, 700), st.integers(0, 700)), max_size=30))
def test_sums_are_tensorboards(data: bytes, stretches: list[tuple[int, int]]) -> None:
    spans = [(min(a, len(data)), min(a + n, len(data))) for a, n in stretches]
    got = masked(np.frombuffer(data, dtype=np.uint8), np.array([a for a, _ in spans], np.int64), np.array([b - a for a, b in spans], np.int64))
    assert got.tolist() == [masked_crc32c(data[a:b]) for a, b in spans]


def test_sum_of_a_long_record() -> None:
    data = np.random.default_rng(0).integers(0, 256, 100_003, dtype=np.uint8)
    assert masked(data, np.array([1]), np.array([100_002])).tolist() == [masked_crc32c(data[1:].tobytes())]
    empty = np.empty(0, dtype=np.int64)
    assert masked(data, empty, empty).size == 0


# writers


def test_tensorboardx_value_by_value(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    with SummaryWriter(str(tmp_path)) as writer:
        for step in [*range(300), *range(16_300, 16_500), 2_097_151, 2_097_152, 2**40]:  # steps of one to six bytes
            for tag in ("train/reward", "train/ünïcode ✓", "a", "x" * 200):
                writer.add_scalar(tag, float(rng.normal() * 10.0 ** rng.integers(-30, 30)), step)
    path = event_file(tmp_path)
    table = tensorboard.read(path)
    assert sum(map(len, points_of(table).values())) == 503 * 4
    assert_same(points_of(table), accumulated(path))
    assert table.warnings == []
    assert table.ignored == 0


def test_the_writer_that_torch_uses(tmp_path: Path) -> None:
    writer = EventFileWriter(str(tmp_path))
    for step in range(200):
        writer.add_event(scalar_event(step, {"train/loss": np.sin(step)}))
        writer.add_event(tensor_event(step, "train/new_style", TensorProto(dtype=DT_FLOAT, float_val=[step / 7], tensor_shape=shape())))
    writer.close()
    table = tensorboard.read(event_file(tmp_path))
    f32 = np.float32
    assert points_of(table) == {
        "train/loss": [(s, float(f32(np.sin(s)))) for s in range(200)],
        "train/new_style": [(s, float(f32(s / 7))) for s in range(200)],
    }


def test_torch_value_by_value(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch.utils.tensorboard")
    with torch.SummaryWriter(str(tmp_path)) as writer:
        for step in range(150):
            writer.add_scalar("plain", step / 3, step)
            writer.add_scalar("new", step / 3, step, new_style=True)
            writer.add_scalar("double", step / 3, step, new_style=True, double_precision=True)
    made = points_of(tensorboard.read(event_file(tmp_path)))
    assert made["double"] == [(s, s / 3) for s in range(150)]
    assert made["plain"] == made["new"] == [(s, float(np.float32(s / 3))) for s in range(150)]


SCALARS = {
    "float_val": (TensorProto(dtype=DT_FLOAT, float_val=[-0.75]), -0.75),
    "float zero": (TensorProto(dtype=DT_FLOAT, float_val=[0.0]), 0.0),
    "double_val": (TensorProto(dtype=DT_DOUBLE, double_val=[1 / 3]), 1 / 3),
    "int_val": (TensorProto(dtype=DT_INT32, int_val=[-12345]), -12345.0),
    "int64_val": (TensorProto(dtype=DT_INT64, int64_val=[2**40]), 2.0**40),
    "negative int64_val": (TensorProto(dtype=DT_INT64, int64_val=[-5]), -5.0),
    "float content": (TensorProto(dtype=DT_FLOAT, tensor_content=np.float32(2.5).tobytes()), 2.5),
    "double content": (TensorProto(dtype=DT_DOUBLE, tensor_content=np.float64(-1e-9).tobytes()), -1e-9),
    "int content": (TensorProto(dtype=DT_INT32, tensor_content=np.int32(-7).tobytes()), -7.0),
    "int64 content": (TensorProto(dtype=DT_INT64, tensor_content=np.int64(7).tobytes()), 7.0),
    "shape 1": (TensorProto(dtype=DT_FLOAT, float_val=[4.0], tensor_shape=shape(1)), 4.0),
    "shape 1 1": (TensorProto(dtype=DT_FLOAT, float_val=[4.0], tensor_shape=shape(1, 1)), 4.0),
    "infinite": (TensorProto(dtype=DT_FLOAT, float_val=[float("inf")]), float("inf")),
}


@pytest.mark.parametrize("name", SCALARS)
def test_scalars_in_tensors(name: str) -> None:
    tensor, value = SCALARS[name]
    # the plugin is told with the first event of a tag only, as TensorFlow's writer does
    made = parsed(event_bytes(tensor_event(s, "x", tensor, "scalars" if s == 0 else None) for s in range(150)))
    assert written(made) == {"x": [(s, value) for s in range(150)]}
    assert made.table.texts == 0


@pytest.mark.parametrize(
    "tensor",
    [
        TensorProto(dtype=DT_FLOAT, float_val=[1.0, 2.0], tensor_shape=shape(2)),
        TensorProto(dtype=DT_DOUBLE, double_val=[1.0, 2.0], tensor_shape=shape(2)),
        TensorProto(dtype=DT_INT32, int_val=[1, 2], tensor_shape=shape(2)),
        TensorProto(dtype=DT_FLOAT, tensor_content=np.zeros(4, np.float32).tobytes(), tensor_shape=shape(2, 2)),
        TensorProto(dtype=DT_FLOAT, tensor_content=b"abc"),
        TensorProto(dtype=DT_FLOAT, float_val=[1.0], tensor_shape=shape(3)),  # one value stands for all three
        TensorProto(dtype=DT_FLOAT, float_val=[], tensor_shape=shape(0)),
        TensorProto(dtype=DT_HALF, half_val=[15360]),
        TensorProto(dtype=DT_STRING, string_val=[b"12.5"]),
    ],
)
def test_tensors_that_are_no_scalars_are_counted(tensor: TensorProto) -> None:
    made = parsed(event_bytes([tensor_event(1, "x", tensor), scalar_event(2, {"y": 1.0})]))
    assert written(made) == {"y": [(2, 1.0)]}
    assert made.table.texts == 1


def test_one_number_of_another_plugin_is_no_scalar() -> None:
    tensor = TensorProto(dtype=DT_FLOAT, float_val=[3.0])
    events = [tensor_event(0, "pr", tensor, "pr_curves"), *(tensor_event(s, "pr", tensor, None) for s in range(1, 9))]
    made = parsed(event_bytes([*events, scalar_event(2, {"y": 1.0})]))
    assert written(made) == {"y": [(2, 1.0)]}


def test_several_values_in_an_event() -> None:
    rng = np.random.default_rng(2)
    true = {tag: [(s, float(np.float32(v))) for s, v in enumerate(rng.normal(size=400).tolist())] for tag in "abc"}
    both = [scalar_event(s, {tag: true[tag][s][1] for tag in "abc"}) for s in range(400)]
    assert written(parsed(event_bytes(both))) == true
    # two of them twice in one event: what was written last counts
    summary = Summary(value=[Summary.Value(tag="a", simple_value=v) for v in (1.0, 2.0)])
    made = parsed(event_bytes([Event(wall_time=1.0, step=s, summary=summary) for s in range(3)]))
    assert points_of(made.table) == {"a": [(s, 2.0) for s in range(3)]}


def test_the_last_value_of_a_step_counts_whatever_the_clock_says() -> None:
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"), display_name="the first is longer")
    first = Event(wall_time=5.0, step=7, summary=Summary(value=[Summary.Value(tag="x", simple_value=1.0, metadata=metadata)]))
    events = [first, scalar_event(7, {"x": 2.0}, wall=5.0), scalar_event(8, {"x": 3.0}, wall=9.0), scalar_event(8, {"x": 4.0}, wall=1.0)]
    assert points_of(parsed(event_bytes(events)).table) == {"x": [(7, 2.0), (8, 4.0)]}


def test_events_without_a_step_and_negative_steps() -> None:
    plain = [scalar_event(0, {"x": 1.5})]
    assert b"\x10" not in plain[0].SerializeToString()[9:10]  # the step is left out where it is 0
    events = [*plain, *(scalar_event(s, {"x": s / 4}) for s in (-3, -2**40, 5, 1_000))]
    assert points_of(parsed(event_bytes(events)).table) == {
        "x": [(-(2**40), -(2.0**38)), (-3, -0.75), (0, 1.5), (5, 1.25), (1_000, 250.0)]
    }


def test_nothing_logged_with_a_step_is_put_in_its_order(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(40):
            writer.add_scalar("x", step / 2)
            if step % 10 == 0:
                writer.add_scalar("y", step)
    table = tensorboard.read(event_file(tmp_path))
    assert points_of(table) == {"x": [(s + 1, s / 2) for s in range(40)], "y": [(s + 1, 10.0 * s) for s in range(4)]}
    assert any("without a step" in w for w in table.warnings)


@pytest.mark.parametrize("step", [2**63 - 1, -(2**63), 2**62])
def test_steps_without_measure(step: int) -> None:
    made = parsed(event_bytes([scalar_event(s, {"x": 1.0}, wall=1.0) for s in (1, 2, step)]))
    assert sorted(made.columns()["x"][0].tolist()) == sorted([1, 2, step])
    made.table.series()


def test_not_finite_values() -> None:
    made = points_of(parsed(event_bytes(scalar_event(s, {"x": v}) for s, v in enumerate([1.0, np.nan, np.inf, -np.inf, 3e38]))).table)
    np.testing.assert_array_equal([v for _, v in made["x"]], [1.0, np.nan, np.inf, -np.inf, float(np.float32(3e38))])


def test_what_is_no_scalar_is_skipped_and_counted(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(5):
            writer.add_scalar("x", step, step)
            writer.add_histogram("h", np.random.default_rng(step).normal(size=100), step)
            writer.add_image("i", np.zeros((3, 8, 8), dtype=np.uint8), step)
            writer.add_text("t", "what the model said", step)
    table = tensorboard.read(event_file(tmp_path))
    assert points_of(table) == {"x": [(s, float(s)) for s in range(5)]}
    assert table.texts == 15
    assert table.ignored == 0
    assert table.warnings == []


def test_only_histograms_is_said(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_histogram("h", np.arange(10.0), 1)
    with pytest.raises(Malformed, match="without scalars"):
        vario.read(tmp_path)


def test_large_records_do_not_cost_a_loop_over_their_bytes() -> None:
    rng = np.random.default_rng(0)
    image = Summary.Value(tag="i", image=Summary.Image(encoded_image_string=rng.bytes(3_000_000)))
    events = [Event(wall_time=1.0, step=1, summary=Summary(value=[image, Summary.Value(tag="x", simple_value=2.0)]))]
    for size in range(20, 400):
        histogram = HistogramProto(bucket_limit=rng.normal(size=size), bucket=rng.normal(size=size))
        events.append(Event(wall_time=1.0, step=1, summary=Summary(value=[Summary.Value(tag="h", histo=histogram)])))
    data = event_bytes(events)
    began = time.perf_counter()
    made = parsed(data)
    assert time.perf_counter() - began < 3.0  # 12 s where each byte takes a turn
    assert written(made) == {"x": [(1, 2.0)]}
    assert made.table.texts == 381


def test_a_large_record_is_held_to_its_sum_too() -> None:
    image = Summary.Value(tag="i", image=Summary.Image(encoded_image_string=bytes(5_000_000)))
    event = Event(wall_time=1.0, step=1, summary=Summary(value=[image, Summary.Value(tag="x", simple_value=2.0)]))
    data = bytearray(event_bytes([scalar_event(0, {"x": 1.0}), event]))
    data[-6] ^= 0x40  # within the value
    made = parsed(bytes(data))
    assert written(made) == {"x": [(0, 1.0)]}
    assert "checksum" in made.table.warnings[0]


# settings


def test_hparams_are_the_configuration(tmp_path: Path) -> None:
    hparams = {"learning_rate": 1e-6, "num_generations": 8, "scale_rewards": False, "loss_type": "grpo", "delta": float("inf"), "x": float("nan")}
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_hparams(hparams, {"final": 0.5}, name="hp")
    config = tensorboard.read(event_file(tmp_path / "hp")).config
    assert np.isnan(config.pop("x"))  # type: ignore[call-overload]
    assert config == {"learning_rate": 1e-6, "num_generations": 8, "scale_rewards": False, "loss_type": "grpo", "delta": float("inf")}
    assert type(config["num_generations"]) is int


def test_hparams_in_one_event() -> None:
    start = plugin_data_pb2.SessionStartInfo()
    start.hparams["beta"].number_value = 0.04
    contents = {"experiment": b"\x12\x00", "session_start_info": plugin_data_pb2.HParamsPluginData(session_start_info=start).SerializeToString()}
    values = [
        Summary.Value(tag=f"_hparams_/{tag}", metadata=SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="hparams", content=content)))
        for tag, content in contents.items()
    ]
    made = parsed(event_bytes([Event(wall_time=1.0, summary=Summary(value=values)), scalar_event(1, {"x": 1.0})]))
    assert made.table.config == {"beta": 0.04}


def test_the_trainers_arguments_as_text_are_the_configuration(tmp_path: Path) -> None:
    arguments = {"learning_rate": 1e-6, "beta": 0.04, "num_generations": 8, "output_dir": "out", "reward_weights": [1.0, 0.5]}
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_text("args", json.dumps(arguments, indent=2))
        writer.add_text("model_config", json.dumps({"hidden_size": 64}))
        writer.add_text("args_of_mine", "{}")
        for step in range(1, 31):
            writer.add_scalar("train/reward", step / 30, step)
    assert tensorboard.read(event_file(tmp_path)).config == arguments
    run = vario.read(tmp_path)
    assert run.config["beta"] == 0.04
    assert run.series["reward/mean"].steps.tolist() == list(range(1, 31))


@pytest.mark.parametrize("text", ["{", "[1]", "{" * 50_000, "null", ""])
def test_broken_arguments_are_left(tmp_path: Path, text: str) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_text("args", text)
        writer.add_scalar("x", 1.0, 1)
    assert tensorboard.read(event_file(tmp_path)).config == {}


# damage


def small_file() -> tuple[bytes, dict[str, list[tuple[int, float]]]]:
    """All layouts in one short file, and what it holds."""
    true: dict[str, list[tuple[int, float]]] = {"a": [], "b": [], "t": []}
    events = []
    for step in (0, 1, 2, 127, 128, 300):
        value = float(np.float32(step / 3 + 0.1))
        events.append(scalar_event(step, {"a": value}))
        true["a"].append((step, value))
        events.append(scalar_event(step, {"b": -value, "a": value}))
        true["b"].append((step, -value))
        true["a"].append((step, value))
        events.append(tensor_event(step, "t", TensorProto(dtype=DT_DOUBLE, double_val=[step / 3]), "scalars" if step == 0 else None))
        true["t"].append((step, step / 3))
        histogram = HistogramProto(bucket_limit=[1.0, 2.0], bucket=[1.0, step])
        events.append(Event(wall_time=1.7e9 + step, step=step, summary=Summary(value=[Summary.Value(tag="h", histo=histogram)])))
    return event_bytes(events), true


def test_the_small_file_is_read() -> None:
    data, true = small_file()
    assert written(parsed(data)) == true


def test_cut_off_at_every_byte(tmp_path: Path) -> None:
    data, true = small_file()
    path = tmp_path / "events.out.tfevents.1"
    ends, at = {0}, 0
    while at < len(data):
        at += 16 + int.from_bytes(data[at : at + 8], "little")
        ends.add(at)
    for cut in range(len(data)):
        made = parsed(data[:cut])
        assert prefix(written(made), true), cut
        assert bool(made.table.warnings) == (cut not in ends), cut
        if cut % 7 == 0:
            path.write_bytes(data[:cut])
            try:
                vario.read(path)
            except VarioError as error:
                assert path.name in str(error)


def test_a_flipped_byte_anywhere_gives_no_other_number() -> None:
    data, true = small_file()
    rng = np.random.default_rng(4)
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= int(rng.integers(1, 256))
        made = parsed(bytes(damaged))
        assert prefix(written(made), true), at
        assert made.table.warnings, at
        if at % 5 == 0:  # in pieces it is the same up to the damage
            assert written(parsed(bytes(damaged), [at])) == written(made), at


@pytest.mark.parametrize("zeros", [1, 11, 12, 16, 28, 4096, 3_000_000])
def test_zeros_behind_the_last_record(zeros: int) -> None:
    data, true = small_file()
    for pieces in ([], [len(data)], [len(data) + zeros // 2], list(range(len(data), len(data) + min(zeros, 40)))):
        made = parsed(data + bytes(zeros), pieces)
        assert written(made) == true
        (warning,) = made.table.warnings
        assert str(zeros) in warning


def test_zeros_in_the_middle_hide_what_follows_and_it_is_said() -> None:
    data, true = small_file()
    for pieces in ([], [len(data) + 50], [len(data) + 100]):
        made = parsed(data + bytes(100) + framed(scalar_event(900, {"a": 5.0}).SerializeToString()), pieces)
        assert written(made) == true
        assert f"zeros from byte {len(data)}" in made.table.warnings[0]


def test_a_length_beyond_all_measure(tmp_path: Path) -> None:
    data, true = small_file()
    size = (1 << 40).to_bytes(8, "little")
    made = parsed(data + size + masked_crc32c(size).to_bytes(4, "little") + bytes(100))
    assert written(made) == true
    assert f"byte {len(data)}" in made.table.warnings[0]
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(b"\xff" * 100)
    with pytest.raises(VarioError, match=r"tfevents\.1"):
        vario.read(path)


@pytest.mark.parametrize("record", [b"\x09", b"\x2a\x05\x0a\x03", b"\x13\x14", b"\x10" + b"\xff" * 11, b"\x2a\xff\xff\xff\xff\x0f", b"", b"\xff" * 40])
def test_a_whole_record_that_is_no_event(record: bytes) -> None:
    data, true = small_file()
    made = parsed(data + framed(record) * 3 + framed(scalar_event(900, {"z": 5.0}).SerializeToString()))
    assert written(made) == {**true, "z": [(900, 5.0)]}
    assert made.table.ignored == (3 if record else 0)


@settings(max_examples=tries(60), deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_with_right_sums(payload: bytes) -> None:
    made = parsed(event_bytes([scalar_event(1, {"x": 2.0})]) + framed(payload))
    assert written(made)["x"][0] == (1, 2.0)


# growing files


@settings(max_examples=tries(80), deadline=None)
@given(st.lists(st.integers(0, 10_000), max_size=40))
def test_in_pieces_it_is_the_same(cuts: list[int]) -> None:
    data, _ = small_file()
    whole = parsed(data)
    made = parsed(data, [c % len(data) for c in cuts])
    assert written(made) == written(whole)
    assert points_of(made.table) == points_of(whole.table)
    assert (made.others, made.table.ignored, made.table.warnings) == (whole.others, 0, [])
    assert (made.began, made.first_wall, made.last_wall) == (whole.began, whole.first_wall, whole.last_wall)


def test_a_long_record_in_small_pieces_is_joined_once() -> None:
    event = Event(wall_time=1.0, step=1, summary=Summary(value=[Summary.Value(tag="i", image=Summary.Image(encoded_image_string=bytes(6_000_000)))]))
    data = event_bytes([event, scalar_event(2, {"x": 1.0})])
    began = time.perf_counter()
    made = parsed(data, list(range(0, len(data), 1_000)))
    assert time.perf_counter() - began < 2.0  # joined at every piece: 18 GB of copies
    assert written(made) == {"x": [(2, 1.0)]}


# several files


def rows(first: int, last: int, add: float = 0.0, tag: str = "train/x", wall: float = 1.7e9) -> list[Event]:
    return [scalar_event(s, {tag: s + add}, wall=wall + s) for s in range(first, last + 1)]


def together(tmp_path: Path, *files: list[Event]) -> dict[str, list[tuple[int, float]]]:
    paths = [write_events(tmp_path / f"events.out.tfevents.{i}", f, began=f[0].wall_time - 1) for i, f in enumerate(files)]
    table = read_together(paths)
    together.table = table  # type: ignore[attr-defined]
    return points_of(table)


def test_a_restart_with_steps_that_were_run_again(tmp_path: Path) -> None:
    made = together(tmp_path, rows(1, 100), rows(61, 140, 0.5, wall=1.7e9 + 1000))
    assert made == {"train/x": [(s, s + (0.5 if s > 60 else 0.0)) for s in range(1, 141)]}
    assert [(e.kind, e.step) for e in together.table.events] == [("resume", 61)]  # type: ignore[attr-defined]


def test_points_that_a_restart_did_not_reach_again_are_dropped(tmp_path: Path) -> None:
    made = together(tmp_path, rows(1, 100), rows(61, 70, 0.5, wall=1.7e9 + 1000))
    assert [s for s, _ in made["train/x"]] == list(range(1, 71))


def test_a_restart_that_goes_straight_on(tmp_path: Path) -> None:
    made = together(tmp_path, rows(1, 100), rows(101, 140, wall=1.7e9 + 1000))
    assert made == {"train/x": [(s, float(s)) for s in range(1, 141)]}
    assert together.table.events == []  # type: ignore[attr-defined]


def test_a_new_start_in_the_same_folder(tmp_path: Path) -> None:
    made = together(tmp_path, rows(1, 100), rows(1, 30, 0.5, wall=1.7e9 + 1000))
    assert made == {"train/x": [(s, s + 0.5) for s in range(1, 31)]}
    assert any("started anew" in w for w in together.table.warnings)  # type: ignore[attr-defined]


def test_a_value_logged_at_the_start_of_each_session_is_no_new_start(tmp_path: Path) -> None:
    older = [scalar_event(0, {"train/gpus": 8.0}, wall=1.7e9), *rows(1, 100)]
    newer = [scalar_event(0, {"train/gpus": 8.0}, wall=1.7e9 + 1000), *rows(61, 140, 0.5, wall=1.7e9 + 1000)]
    made = together(tmp_path, older, newer)
    assert made["train/x"] == [(s, s + (0.5 if s > 60 else 0.0)) for s in range(1, 141)]
    assert made["train/gpus"] == [(0, 8.0)]


def test_three_restarts_each_shorter(tmp_path: Path) -> None:
    made = together(tmp_path, rows(1, 50), rows(31, 60, 0.25, wall=1.7e9 + 1000), rows(21, 25, 0.5, wall=1.7e9 + 2000))
    assert made == {"train/x": [(s, float(s) if s < 21 else s + 0.5) for s in range(1, 26)]}


def test_writers_of_different_metrics_side_by_side(tmp_path: Path) -> None:
    made = together(tmp_path, rows(1, 100), rows(10, 90, 0.5, tag="eval/x"), rows(1, 100, 0.25, tag="train/y"))
    assert {k: len(v) for k, v in made.items()} == {"train/x": 100, "eval/x": 81, "train/y": 100}
    assert together.table.warnings == []  # type: ignore[attr-defined]


def test_of_ranks_the_longer_series_counts_and_it_is_said(tmp_path: Path) -> None:
    ranks = [rows(1, 98), rows(1, 100, 0.25), rows(1, 99, 0.5)]
    made = together(tmp_path, *ranks)
    assert made == {"train/x": [(s, s + 0.25) for s in range(1, 101)]}
    assert any("same time" in w for w in together.table.warnings)  # type: ignore[attr-defined]


@pytest.mark.parametrize("newest", [120, 300])
def test_a_restart_on_a_machine_whose_clock_is_behind_loses_nothing(tmp_path: Path, newest: int) -> None:
    made = together(tmp_path, rows(1, 100), rows(81, newest, wall=1.7e9 - 60))
    assert made == {"train/x": [(s, float(s)) for s in range(1, newest + 1)]}


def test_settings_of_the_newest_file_count(tmp_path: Path) -> None:
    for name, began, rate in (("b.tfevents.1", 1000.0, 1e-5), ("a.tfevents.1", 2000.0, 1e-6)):
        text = TensorProto(dtype=DT_STRING, string_val=[json.dumps({"learning_rate": rate, name[0]: 1}).encode()])
        events = [tensor_event(0, "args/text_summary", text, "text", wall=began), *rows(1, 9, tag=name, wall=began)]
        write_events(tmp_path / name, events, began)
    table = read_together(sorted(tmp_path.iterdir()))
    assert table.config == {"learning_rate": 1e-6, "a": 1, "b": 1}


def test_a_damaged_file_beside_a_good_one(tmp_path: Path) -> None:
    write_events(tmp_path / "events.out.tfevents.1", rows(1, 50))
    (tmp_path / "events.out.tfevents.2").write_bytes(event_bytes(rows(51, 60, wall=1.7e9 + 1000))[:-9])
    run = vario.read(tmp_path)
    assert run.logged_steps.tolist() == list(range(1, 60))
    assert any("tfevents.2" in w and "inside a record" in w for w in run.warnings)


# size


def test_a_million_points(tmp_path: Path) -> None:
    steps, tags = 20_000, 50
    rng = np.random.default_rng(0)
    values = rng.normal(size=(steps, tags)).astype(np.float32)
    pieces = [event_bytes([])]
    at = np.arange(steps)
    for low, high in ((0, 1), (1, 128), (128, 16_384), (16_384, steps)):  # steps of one length have records of one length
        chosen = at[low:high]
        blocks = []
        for tag in range(tags):
            pattern = np.frombuffer(framed(scalar_event(int(chosen[0]), {f"train/m{tag:02}": 0.5}).SerializeToString()), np.uint8)
            block = np.repeat(pattern[None, :], chosen.size, axis=0)
            width = {0: 0, 1: 1, 128: 2, 16_384: 3}[low]
            for place in range(width):
                byte = (chosen >> (7 * place)) & 0x7F
                block[:, 12 + 10 + place] = byte | (0x80 if place < width - 1 else 0)
            block[:, -8:-4] = values[chosen, tag].copy().view(np.uint8).reshape(-1, 4)
            size = pattern.size
            sums = masked(block.ravel(), np.arange(chosen.size) * size + 12, np.full(chosen.size, size - 16))
            block[:, -4:] = sums.view(np.uint8).reshape(-1, 4)
            blocks.append(block)
        pieces.append(np.stack(blocks, axis=1).tobytes())
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(b"".join(pieces))
    series = tensorboard.read(path).series()
    assert sum(len(s) for s in series.values()) == 1_000_000
    for tag in range(tags):
        one = series[f"train/m{tag:02}"]
        assert one.steps.tolist() == at.tolist()
        assert np.array_equal(one.values, values[:, tag].astype(np.float64))
    # the same file in short, as TensorBoard's own reader reads it
    short = tmp_path / "short.tfevents.1"
    short.write_bytes(b"".join(pieces)[: 52 * 50 * 300])
    assert_same(points_of(tensorboard.read(short)), accumulated(short))

"""What a training hands over: values as the readers of logs would take them, and nothing that raises or waits."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from vario.surfaces.live import handover
from vario.surfaces.live.handover import OnDevice, copied, plain, settings, settled, step_of, table, taken


def row_of(metrics: Mapping[str, object]) -> tuple[dict[str, float], list[str]]:
    left: list[str] = []
    return settled(taken(metrics, no_device, left.append)), left


def no_device() -> OnDevice:
    raise AssertionError("no value here is on a device")


class Count(enum.IntEnum):
    TWO = 2


class Broken:
    """A value whose own methods fail."""

    shape = ()

    def item(self) -> float:
        raise RuntimeError("device lost")

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0.5, 0.5),
        (3, 3.0),
        (True, 1.0),
        (None, math.nan),
        (math.inf, math.inf),
        (10**400, math.inf),
        (-(10**400), -math.inf),
        ("1e-3", 1e-3),
        (" 5 ", 5.0),
        ("nan", math.nan),
        (Count.TWO, 2.0),
        (np.float32(0.25), 0.25),
        (np.float64(0.1), 0.1),
        (np.int64(7), 7.0),
        (np.bool_(True), 1.0),
        (np.array(2.5), 2.5),
        (torch.tensor(1.5), 1.5),
        (torch.tensor(2.0, requires_grad=True), 2.0),
        (torch.tensor(3, dtype=torch.int64), 3.0),
        (torch.tensor(0.5, dtype=torch.bfloat16), 0.5),
    ],
    ids=repr,
)
def test_numbers_of_all_kinds_are_taken(value: object, number: float) -> None:
    row, left = row_of({"key": value})
    assert not left
    assert row["key"] == number or (math.isnan(number) and math.isnan(row["key"]))


@pytest.mark.parametrize(
    "value",
    [
        "text",
        "1" * 64,
        [1.0],
        (1.0,),
        b"1",
        1j,
        np.array([1.0]),
        np.str_("a"),
        np.complex64(1),
        torch.zeros(3),
        object(),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_is_no_number_is_left_out(value: object) -> None:
    assert row_of({"key": value, "loss": 1.0}) == ({"loss": 1.0}, [])


def test_nested_tables_are_flattened_as_the_readers_do() -> None:
    row, _ = row_of({"train": {"loss": 1, "deep": {"kl": "0.5", 3: torch.tensor(2.0)}}, 5: 1.0})
    assert row == {"train/loss": 1.0, "train/deep/kl": 0.5, "train/deep/3": 2.0, "5": 1.0}
    deep: dict[str, object] = {"x": 1.0}
    for _ in range(6):
        deep = {"a": deep}
    assert row_of(deep) == ({}, [])


def test_a_table_that_holds_itself_ends() -> None:
    endless: dict[str, object] = {"loss": 1.0}
    endless["self"] = endless
    row, _ = row_of(endless)
    assert row["self/self/loss"] == 1.0


def test_one_broken_value_costs_only_itself() -> None:
    row, left = row_of({"loss": 1.0, "kl": Broken(), "reward": 2.0})
    assert row == {"loss": 1.0, "reward": 2.0}
    assert left == ["kl could not be read (RuntimeError: device lost)"]


def test_keys_without_end_are_bounded(monkeypatch) -> None:
    monkeypatch.setattr(handover, "MAX_KEYS", 100)
    row, left = row_of({f"k{i}": float(i) for i in range(1000)})
    assert len(row) == 100
    assert len(left) == 1
    row, left = row_of({"a": {f"k{i}": {f"l{j}": 1.0 for j in range(90)} for i in range(90)}})
    assert len(row) == 100
    row, left = row_of({"x" * 1_000_000: 1.0, "loss": 1.0})
    assert row == {"loss": 1.0}
    assert len(left[0]) < 200


def test_the_summary_at_the_end_repeats_nothing() -> None:
    row, _ = row_of({"train_runtime": 5.0, "train_loss": 0.1, "epoch": 1.0, "reward": 0.5})
    assert row == {"train_runtime": 5.0, "train_loss": 0.1, "epoch": 1.0}


def test_the_step_is_the_arguments() -> None:
    assert row_of({"step": 5, "_timestamp": 3.0, "loss": 1.0}) == ({"loss": 1.0}, [])


@pytest.mark.parametrize("step", [3, np.int32(3), 3.0, "3", " 3\n", np.str_("3"), torch.tensor(3), Count.TWO])
def test_steps(step: object) -> None:
    assert step_of(step) in (2, 3)


@pytest.mark.parametrize("step", [math.nan, None, "three", b"3", "", "--3", 2**62, -(2**80), math.inf, [1]])
def test_what_is_no_step(step: object) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        step_of(step)


def test_an_exit_that_comes_while_a_text_is_told_as_no_step_is_not_lost() -> None:
    """`int` loses it: it replaces whatever is raised while it takes the text's representation."""

    class Interrupted(str):
        def __repr__(self) -> str:
            raise SystemExit

    with pytest.raises(SystemExit):
        step_of(Interrupted("three"))


class DeviceTensor:
    """Stands for a tensor of a graphics card, which tests have not: it cannot be read, only handed on."""

    ndim = 0
    device = SimpleNamespace(type="cuda")

    def detach(self) -> DeviceTensor:
        return self


class Later(OnDevice):
    """Values of a device that the test computes."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: list[object] = []

    def add(self, tensor: object) -> handover.Slot:
        self.tensors.append(tensor)
        return handover.Slot(len(self.tensors) - 1)


def test_values_on_a_device_are_put_in_their_places_when_they_are_read() -> None:
    later = Later()
    row = taken({"a": 1.0, "b": DeviceTensor(), "c": {"d": DeviceTensor()}}, lambda: later, pytest.fail)
    assert len(later.tensors) == 2
    assert settled(row, [0.25, 0.75]) == {"a": 1.0, "b": 0.25, "c/d": 0.75}
    rows = [{"completion": "x", "reward": DeviceTensor()}, {"completion": "y", "reward": DeviceTensor()}]
    made, _ = table(copied(rows, lambda: later), [0, 0, 0.5, 1.0])
    assert made == {"completion": ["x", "y"], "reward": [0.5, 1.0]}


def test_a_tensor_that_lies_on_several_processes_is_left_out_and_not_gathered(tmp_path: Path) -> None:
    # to put it together is a collective: a rank that asks alone would wait for the others without end
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate

    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        whole = DTensor.from_local(torch.tensor(2.0), mesh, [Replicate()])
        part = DTensor.from_local(torch.tensor(2.0), mesh, [Partial()])
        row, left = row_of({"whole": whole, "part": part})
    finally:
        dist.destroy_process_group()
    assert row == {"whole": 2.0}
    assert len(left) == 1
    assert "full_tensor()" in left[0]


def tables(samples: object) -> dict[str, list[object]]:
    made, whole = table(copied(samples, no_device))  # type: ignore[arg-type]
    assert whole
    return made


def test_completions_as_rows_and_as_columns_are_the_same() -> None:
    rows = [
        {"prompt": "p", "completion": "a", "reward": 0.5},
        {"prompt": "p", "completion": "b", "reward": np.float32(1.0)},
    ]
    columns = {"prompt": ["p", "p"], "completion": ("a", "b"), "reward": torch.tensor([0.5, 1.0])}
    assert tables(rows) == tables(columns)
    assert tables({**columns, "reward": np.array([0.5, 1.0])}) == tables(rows)


def test_completions_are_copied_at_once() -> None:
    rows = [{"completion": "a"}]
    kept = copied(rows, no_device)
    rows[0]["completion"] = "b"
    rows.append({"completion": "c"})
    assert table(kept)[0] == {"completion": ["a"]}


def test_a_column_that_one_row_lacks_is_empty_there_and_longer_columns_are_cut() -> None:
    assert tables([{"a": 1}, {"b": 2}]) == {"a": [1, None], "b": [None, 2]}
    assert tables({"a": [1, 2, 3], "b": [4, 5]}) == {"a": [1, 2], "b": [4, 5]}
    assert tables([]) == {}


def test_only_so_many_completions_and_characters_are_taken(monkeypatch) -> None:
    assert len(tables({"completion": ["x"] * 1000})["completion"]) == handover.SAMPLES
    monkeypatch.setattr(handover, "TABLE_CHARACTERS", 100)
    made, whole = table(copied({"completion": ["x" * 30] * 9, "prompt": [["y" * 5]] * 9}, no_device))
    assert not whole
    assert len(made["completion"]) == len(made["prompt"]) == 2


class Unlike(Mapping[str, object]):
    """A table that fails when it is read."""

    def __getitem__(self, key: str) -> object:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("interpolation failed")

    def __len__(self) -> int:
        return 1


def test_settings_become_plain_values() -> None:
    endless: list[object] = []
    endless.append(endless)
    made = settings(
        {
            "path": Path("out"), 5: (1, {2}), "count": Count.TWO, "dtype": torch.bfloat16, "array": np.arange(3),
            "weights": torch.zeros(5), "scale": np.float32(0.5), "broken": Broken(), "endless": endless, "text": np.str_("a"),
        }
    )  # fmt: skip
    assert made["path"] == "out"
    assert made["5"] == [1, [2]]
    assert type(made["count"]) is int
    assert made["dtype"] == "torch.bfloat16"
    assert made["array"] == [0, 1, 2]
    assert made["weights"] == "<Tensor>"
    assert made["scale"] == 0.5
    assert type(made["text"]) is str
    with pytest.raises(RuntimeError):
        settings(Unlike())


def test_a_setting_of_any_size_is_bounded() -> None:
    made = plain([[0] * 1000] * 1000)
    assert isinstance(made, list)
    assert sum(len(part) for part in made if isinstance(part, list)) <= 1_000_000
    assert len(str(plain(SimpleNamespace(text="x" * 1_000_000)))) <= handover.PLAIN_LENGTH

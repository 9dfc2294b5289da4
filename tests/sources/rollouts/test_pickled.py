"""Pickles are read and never run, whoever made them."""

from __future__ import annotations

import collections
import os
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("polars")

from tests.sources.rollouts.torch_files import torch_zip, torch_zip_of
from vario.errors import Malformed
from vario.sources.rollouts import pickled
from vario.sources.rollouts.blocks import Troubles, blocks
from vario.sources.rollouts.dumps import DumpFile, Piece


def stored(root: Path, content: bytes, name: str = "7.pt") -> DumpFile:
    (root / name).write_bytes(content)
    return DumpFile(str(root / name), "slime", 7, size=len(content))


def held(root: Path, content: bytes) -> dict[str, object]:
    (found,) = pickled.objects(stored(root, content))
    return found


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_come_as_they_are(tmp_path: Path, protocol: int) -> None:
    value = {
        "text": "é\n.", "list": [1, -2, 70_000, 10**30, 0.5, True, None], "tuple": (1, "a"), "dict": {"a": {"b": []}},
        "long": "x" * 300, "ordered": collections.OrderedDict(a=1),
    }  # fmt: skip
    found = held(tmp_path, torch_zip(value, protocol=protocol))
    assert found == value


@pytest.mark.parametrize("protocol", [2, 4])
def test_numbers_of_numpy_are_numbers(tmp_path: Path, protocol: int) -> None:
    value = {"f8": np.float64(0.3), "f4": np.float32(0.25), "i8": np.int64(-3), "b1": np.bool_(True), "array": np.ones(3)}
    found = held(tmp_path, torch_zip(value, protocol=protocol))
    assert found == {"f8": 0.3, "f4": 0.25, "i8": -3, "b1": True, "array": None}


class Stranger:
    """A class that a reader may not have."""

    def __init__(self) -> None:
        self.inside = 1


def test_other_objects_are_unknown(tmp_path: Path) -> None:
    found = held(tmp_path, torch_zip({"one": Stranger(), "set": {1}, "bytes": b"x", "known": 2}))
    assert found == {"one": None, "set": None, "bytes": None, "known": 2}


class Runs:
    """Runs a command when it is unpickled as Python does it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return (os.system, (f"touch {self.mark}",))


def test_what_a_pickle_names_is_not_called(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    data = pickle.dumps({"rollout_id": 1, "samples": [{"reward": 1.0, "response": Runs(mark)}]}, 2)
    pickle.loads(data)
    assert mark.exists(), "the pickle is armed"
    mark.unlink()
    one = stored(tmp_path, torch_zip_of(data))
    (found,) = pickled.objects(one)
    assert found == {"rollout_id": 1, "samples": [{"reward": 1.0, "response": None}]}
    assert not mark.exists()


def nested(deep: int, wide: int) -> list[object]:
    made: list[object] = [1]
    for _ in range(deep):
        made = [made] * wide
    return made


GLOBAL = b"c__main__\nx\n"
HOSTILE = {
    "the object itself runs": b"cos\nsystem\n(S'true'\ntR.",
    "room for a number that nothing has": b"\x80\x02]r\xff\xff\xff\xff.",
    "the same in text": b"]p4000000000\n.",
    "a string longer than the file": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"x.",
    "a list that holds itself": b"\x80\x02}q\x00X\x01\x00\x00\x00a]q\x01h\x01as.",
    "a dict that holds itself": b"\x80\x02}q\x00X\x01\x00\x00\x00ah\x00s.",
    "lists of lists of lists, the same ones": pickle.dumps({"a": nested(8, 12)}, 2),
    "deeper than anybody nests": pickle.dumps({"a": nested(40, 1)}, 2),
    "no end": b"\x80\x02}X\x01\x00\x00\x00a",
    "no pickle": b"\xff\xfe not a pickle",
    "extensions": b"\x80\x02\x82\x01.",
    "nothing on the stack": b"\x80\x02R.",
    "changes a maker": b"ccollections\nOrderedDict\n(N}X\x05\x00\x00\x00_makeNstb.",
    "sets what a maker holds": b"c_codecs\nencode\n}X\x05\x00\x00\x00_makeNsb.",
    "items for a stand-in's class": GLOBAL + b"X\x01\x00\x00\x00aNs.",
    "a number, not a dict": b"K\x01.",
    "a text of bytes that is no text": b"\x80\x02X\x02\x00\x00\x00\xff\xfe.",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_pickles_are_malformed(tmp_path: Path, data: bytes) -> None:
    one = stored(tmp_path, torch_zip_of(data))
    makers = {name: maker._make for name, maker in pickled._KNOWN.items()}
    with pytest.raises(Malformed, match=r"7\.pt"):
        list(pickled.objects(one))
    assert {name: maker._make for name, maker in pickled._KNOWN.items()} == makers
    troubles = Troubles()
    assert list(blocks(Piece((one,)), troubles)) == []
    assert len(troubles.texts) == 1


NOT_TORCH = {
    "text": b"hello",
    "empty": b"",
    "a bare pickle": pickle.dumps({"rollout_id": 1, "samples": []}),
    "a zip of something else": torch_zip_of(b"x", "archive/other.pkl"),
    "cut off": torch_zip({"rollout_id": 1, "samples": [{}] * 50})[:-60],
}


@pytest.mark.parametrize("content", NOT_TORCH.values(), ids=NOT_TORCH)
def test_other_files_are_malformed(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(Malformed, match=r"7\.pt"):
        list(pickled.objects(stored(tmp_path, content)))


def test_what_is_damaged_inside_is_malformed(tmp_path: Path) -> None:
    content = bytearray(torch_zip({"rollout_id": 1, "samples": ["x" * 100]}))
    at = content.index(b"xxxx")
    content[at] = ord("y")
    with pytest.raises(Malformed, match="CRC"):
        list(pickled.objects(stored(tmp_path, bytes(content))))


def test_sizes_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = stored(tmp_path, torch_zip({"rollout_id": 1, "samples": ["x" * 1000]}))
    assert list(pickled.objects(one))
    monkeypatch.setattr(pickled, "MAX_BYTES", 999)
    with pytest.raises(Malformed, match="at most 999"):
        list(pickled.objects(one))


def test_a_zip_that_unpacks_to_more_than_it_says_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "7.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\0" * (8 << 20))
    monkeypatch.setattr(pickled, "MAX_BYTES", 1 << 20)
    with pytest.raises(Malformed, match="at most"):
        list(pickled.objects(DumpFile(str(path), "slime", 7)))


def test_what_lies_beside_the_pickle_is_not_read(tmp_path: Path) -> None:
    """Tensors are persistent ids in torch's pickles."""

    class WithTensors(pickle.Pickler):
        def persistent_id(self, value: object) -> object:
            return ("storage", "FloatStorage", "0", "cpu", 4) if isinstance(value, Stranger) else None

    import io

    made = io.BytesIO()
    WithTensors(made, 2).dump({"rollout_id": 2, "samples": [{"tokens": Stranger(), "reward": 1.0}]})
    assert held(tmp_path, torch_zip_of(made.getvalue())) == {"rollout_id": 2, "samples": [{"tokens": None, "reward": 1.0}]}

"""Logs packed with gzip and zstandard: every format, cut off, damaged, packed twice, and bombs."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import polars
import pytest
import zstandard

import vario
from tests.sources.test_console import trl_row, verl_line
from tests.sources.writers import event_bytes, scalar_event
from vario.errors import Malformed, NothingReadable, VarioError
from vario.sources import opening

STEPS = range(1, 41)


def row(step: int) -> dict[str, float]:
    return {"reward": 0.25 + step / 64, "loss": -0.5 + step / 128, "kl": step / 1024}


def stepped(step: int) -> dict[str, float]:
    return {"step": step, **row(step)}


def parquet() -> bytes:
    out = io.BytesIO()
    polars.DataFrame([stepped(s) for s in STEPS]).write_parquet(out)
    return out.getvalue()


def notebook() -> bytes:
    cells = "".join(f"<tr><td>{s}</td>" + "".join(f"<td>{v}</td>" for v in row(s).values()) + "</tr>" for s in STEPS)
    html = f"<table><tr><th>Step</th><th>reward</th><th>loss</th><th>kl</th></tr>{cells}</table>"
    return json.dumps({"cells": [{"outputs": [{"data": {"text/html": [html]}}]}], "nbformat": 4}).encode()


FORMATS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "jsonl": ("rows.jsonl", lambda: "".join(json.dumps(stepped(s)) + "\n" for s in STEPS).encode()),
    "state": ("trainer_state.json", lambda: json.dumps({"global_step": 40, "log_history": [stepped(s) for s in STEPS]}).encode()),
    "document": ("metrics.json", lambda: json.dumps([stepped(s) for s in STEPS]).encode()),
    "csv": ("metrics.csv", lambda: ("step,reward,loss,kl\n" + "".join(",".join(map(str, stepped(s).values())) + "\n" for s in STEPS)).encode()),
    "console": ("train.log", lambda: "".join(f"[Step {s}/40] loss={row(s)['loss']} reward={row(s)['reward']} kl={row(s)['kl']}\n" for s in STEPS).encode()),
    "notebook": ("run.ipynb", notebook),
    "tensorboard": ("events.out.tfevents.1700000000.host.1.0", lambda: event_bytes(scalar_event(s, row(s)) for s in STEPS)),
    "parquet": ("metrics.parquet", parquet),
}  # fmt: skip
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": lambda data: gzip.compress(data, mtime=0),
    "zst": lambda data: zstandard.ZstdCompressor().compress(data),
    "zst-streamed": lambda data: _streamed(data),
    "gz-members": lambda data: gzip.compress(data[: len(data) // 2]) + gzip.compress(data[len(data) // 2 :]),
    "zst-frames": lambda data: _streamed(data[: len(data) // 2]) + zstandard.ZstdCompressor(write_checksum=True).compress(data[len(data) // 2 :]),
}  # fmt: skip


def _streamed(data: bytes) -> bytes:
    """As `zstd` packs a pipe: the size is not written."""
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(data) + packer.flush()


def values(run: vario.Run, metric: str) -> dict[int, float]:
    series = run.series[metric]
    return dict(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def save(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("packer", sorted(PACKERS))
@pytest.mark.parametrize("kind", sorted(FORMATS))
@pytest.mark.parametrize("renamed", [False, True])
def test_every_format_packed(tmp_path: Path, kind: str, packer: str, renamed: bool) -> None:
    name, make = FORMATS[kind]
    if renamed and kind not in ("state", "parquet", "tensorboard", "console", "jsonl"):
        pytest.skip("told by its name too")  # what is packed is told by its content, whatever the ending
    path = tmp_path / ("log" if renamed else f"{name}.{packer[:3].rstrip('-')}")
    run = vario.read(save(path, PACKERS[packer](make())))
    metrics = {"reward/mean": "reward", "loss/total": "loss", "kl/reference": "kl"}
    found = {m: values(run, m) for m in metrics}
    assert found == {m: pytest.approx({s: row(s)[k] for s in STEPS}) for m, k in metrics.items()}
    assert not [w for w in run.warnings if "cut" in w]


def lines(count: int) -> bytes:
    """A log whose packed form is long enough to be cut in its middle."""
    return "".join(f"{verl_line(s)} - noise/x:{(s * 2654435761) % 2**32}\n" for s in range(1, count + 1)).encode()


@pytest.mark.parametrize("packer", ["gz", "zst", "zst-streamed"])
@pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
def test_cut_off_while_packed_gives_what_came_before(tmp_path: Path, packer: str, share: float) -> None:
    raw = lines(8_000)
    packed = PACKERS[packer](raw)
    run = vario.read(save(tmp_path / "train.log", packed[: int(len(packed) * share)]))
    steps = run.series["reward/mean"].steps
    assert 8_000 * share * 0.5 < steps.size < 8_000
    assert steps.tolist() == list(range(1, steps.size + 1))
    whole = vario.read(save(tmp_path / "whole.log", raw)).series["reward/mean"].values
    assert run.series["reward/mean"].values.tolist() == whole[: steps.size].tolist()
    assert any("cut off while packed" in w and "train.log" in w for w in run.warnings)


@pytest.mark.parametrize("packer", ["gz", "zst"])
@pytest.mark.parametrize("kept", [4, 11])
def test_cut_off_at_once(tmp_path: Path, packer: str, kept: int) -> None:
    path = save(tmp_path / "train.log", PACKERS[packer](lines(100))[:kept])
    with pytest.raises(Malformed, match=r"train\.log: .*packed"):
        vario.read(path)


def test_a_cut_trainer_state(tmp_path: Path) -> None:
    history = [stepped(s) | {"note": (s * 2654435761) % 2**32} for s in range(1, 5000)]
    packed = gzip.compress(json.dumps({"log_history": history}).encode())
    run = vario.read(save(tmp_path / "trainer_state.json.gz", packed[: len(packed) // 2]))
    assert 1000 < run.logged_steps.size < 4999
    assert any("cut off" in w for w in run.warnings)


@pytest.mark.parametrize("packer", ["gz", "zst-frames"])
def test_damaged_packed_data_gives_no_numbers(tmp_path: Path, packer: str) -> None:
    packed = bytearray(PACKERS[packer](lines(3000)))
    for at in (len(packed) // 2, len(packed) * 3 // 4):
        packed[at] ^= 0x55
    with pytest.raises(Malformed, match=r"train\.log: damaged compressed data"):
        vario.read(save(tmp_path / "train.log", bytes(packed)))


def test_a_wrong_sum_at_the_end_gives_no_numbers(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(lines(50)))
    packed[-8] ^= 1
    with pytest.raises(Malformed, match="damaged compressed data"):
        vario.read(save(tmp_path / "train.log.gz", bytes(packed)))


def test_padding_behind_the_packed_data(tmp_path: Path) -> None:
    for tail in (bytes(512), b"\nsomething else\n"):
        run = vario.read(save(tmp_path / "train.log", gzip.compress(lines(50)) + tail))
        assert run.last_step == 50


@pytest.mark.parametrize("inner", ["gz", "zst"])
@pytest.mark.parametrize("outer", ["gz", "zst"])
def test_packed_twice(tmp_path: Path, inner: str, outer: str) -> None:
    data = PACKERS[outer](PACKERS[inner](lines(50)))
    with pytest.raises(NothingReadable, match=r"train\.log: packed twice"):
        vario.read(save(tmp_path / "train.log", data))


def test_an_empty_file_that_is_packed(tmp_path: Path) -> None:
    for packer in ("gz", "zst"):
        with pytest.raises(Malformed, match="empty"):
            vario.read(save(tmp_path / "train.log", PACKERS[packer](b"")))


# bombs


def deflated(pieces: Iterator[bytes]) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([*map(packer.compress, pieces), packer.flush()])


def bomb(packer: str, piece: bytes, count: int, first: bytes = b"") -> bytes:
    """Gigabytes of the same, packed without ever being held."""
    if packer == "gz":
        return deflated(iter([first, *[piece] * count]))
    one = zstandard.ZstdCompressor(level=3).compressobj()
    return b"".join([*map(one.compress, [first, *[piece] * count]), one.flush()])


MEBI = 1 << 20
STARTS = {
    "train.log": b"".join(verl_line(s).encode() + b"\n" for s in range(50)),
    "rows.jsonl": b"".join(json.dumps(stepped(s)).encode() + b"\n" for s in range(90)),
    "metrics.csv": b"step,reward,loss\n" + b"1,0.5,0.5\n" * 500,
    "metrics.json": b"[" + json.dumps(stepped(1)).encode() + b", ",
    "trainer_state.json": b'{"log_history": [' + json.dumps(stepped(1)).encode() + b", ",
    "run.ipynb": b'{"cells": [',
    "events.out.tfevents.1": event_bytes([scalar_event(1, row(1))]),
}


@pytest.mark.parametrize("packer", ["gz", "zst"])
@pytest.mark.parametrize("piece", [b"\0", b"9", b"\n", b" "])
@pytest.mark.parametrize("name", ["train.log", "rows.jsonl", "metrics.csv", "trainer_state.json"])
def test_a_bomb_is_refused_quickly(tmp_path: Path, name: str, packer: str, piece: bytes) -> None:
    path = save(tmp_path / name, bomb(packer, piece * MEBI, 40, STARTS[name]))
    if name == "trainer_state.json" and piece in (b"\0", b"9"):  # not JSON: nothing behind it is looked at
        assert vario.read(path).last_step == 1
        return
    refused(path)


@pytest.mark.parametrize("name", sorted(STARTS))
def test_the_memory_for_a_bomb_is_bounded(tmp_path: Path, name: str) -> None:
    path = save(tmp_path / name, bomb("gz", b" " * MEBI, 60, STARTS[name]))
    tracemalloc.start()
    try:
        refused(path)
        assert tracemalloc.get_traced_memory()[1] < 60 * MEBI
    finally:
        tracemalloc.stop()


def refused(path: Path) -> None:
    assert path.stat().st_size < MEBI
    began = time.process_time()
    with pytest.raises(VarioError, match="decompression bomb"):
        vario.read(path)
    assert time.process_time() - began < 10.0


def test_a_log_that_packs_well_is_no_bomb(tmp_path: Path) -> None:
    text = "".join(f"{verl_line(s)}\n" + "Processed prompts: running 3 reqs, waiting 0 reqs\n" * 40 for s in range(1, 400))
    packed = gzip.compress(text.encode())
    assert len(text) > 20 * len(packed)
    assert vario.read(save(tmp_path / "train.log.gz", packed)).last_step == 399


def test_a_frame_that_asks_for_much_memory(tmp_path: Path) -> None:
    window = zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=True, write_content_size=False)
    packer = zstandard.ZstdCompressor(compression_params=window).compressobj()
    data = packer.compress(lines(50)) + packer.flush()
    with pytest.raises(Malformed, match="memory"):
        vario.read(save(tmp_path / "train.log", data))


def test_without_zstandard_it_says_what_to_install(tmp_path: Path) -> None:
    path = save(tmp_path / "train.log.zst", PACKERS["zst"](lines(50)))
    code = (
        "import sys; sys.modules['zstandard'] = None\nimport vario\nfrom vario.errors import NothingReadable\n"
        "try:\n    vario.read(sys.argv[1])\nexcept NothingReadable as error:\n    print(error)\n"
    )
    made = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "pip install 'vario[zstd]'" in made.stdout
    assert "train.log.zst" in made.stdout


def test_nothing_stays_open(tmp_path: Path) -> None:
    """`filterwarnings = error` turns an unclosed file into a failure here."""
    import gc

    for packer in ("gz", "zst"):
        path = save(tmp_path / f"a.{packer}", PACKERS[packer](lines(20)))
        with opening.open_log(path) as stream:
            assert stream.read(4) == b"step"
        stream = opening.open_log(path)
        raw = stream.raw if isinstance(stream, io.BufferedReader) else None
        stream.close()
        assert raw is not None
        assert raw._packed_stream.closed
    gc.collect()


def test_a_trl_log_packed_beside_another(tmp_path: Path) -> None:
    save(tmp_path / "train.log.gz", gzip.compress("\n".join(str(trl_row(s)) for s in STEPS).encode()))
    assert vario.read(tmp_path).framework == "trl"

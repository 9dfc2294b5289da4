"""Runs that lie elsewhere: what is fetched, where it is put, what is refused, and that nothing is left behind."""

from __future__ import annotations

import functools
import gc
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import vario
from tests.effort import tries
from tests.sources.writers import run_python, scalar_event, write_events
from vario.errors import Malformed, NothingReadable, SeveralRuns, SourceError
from vario.sources import remote
from vario.sources.remote import found_at, safe_name

ROWS = "".join(json.dumps({"step": s, "reward": s / 40, "reward_std": 0.2, "kl": 0.01}) + "\n" for s in range(1, 41))
CONFIG = '{"beta": 0.1, "learning_rate": 1e-6}'


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files that has to be empty at the end."""
    folder = tmp_path_factory.mktemp("temporary").resolve()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))  # for what runs in a process of its own
    yield folder
    gc.collect()
    assert list(folder.iterdir()) == []


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    filesystem = fsspec.filesystem("memory")
    filesystem.store.clear()
    yield filesystem
    filesystem.store.clear()


def good(run: vario.Run, beta: float | None = 0.1) -> None:
    assert run.series["reward/mean"].steps.tolist() == list(range(1, 41))
    assert run.series["reward/mean"].values.tolist() == [s / 40 for s in range(1, 41)]
    assert run.config.get("beta") == beta
    assert not [w for w in run.warnings if "vario-" in w]


# object stores


def test_a_folder_of_an_object_store(memory: fsspec.AbstractFileSystem, temporary: Path) -> None:
    for name, content in {"run/log.jsonl": ROWS, "run/config.json": CONFIG, "run/weights.bin": "x" * 1000, "run/tokenizer.json": "{}"}.items():
        memory.pipe(f"/{name}", content.encode())
    opened: list[str] = []
    whole = type(memory).open

    def counted(self: object, path: str, *more: object, **named: object) -> object:
        opened.append(path)
        return whole(self, path, *more, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(memory), "open", counted)
        found = found_at("memory://run", None)
    assert sorted(opened) == ["/run/config.json", "/run/log.jsonl"]  # weights and tokenizers stay where they are
    (kept,) = temporary.iterdir()  # while a reader needs it
    assert kept.is_dir()
    del found
    gc.collect()
    assert list(temporary.iterdir()) == []
    run = vario.read("memory://run")
    good(run)
    assert run.path == "memory://run"


def test_a_file_of_an_object_store(memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe("/run/log.jsonl", ROWS.encode())
    good(vario.read("memory://run/log.jsonl"), beta=None)


def test_several_runs_by_their_names(memory: fsspec.AbstractFileSystem) -> None:
    for name in ("a", "b"):
        memory.pipe(f"/exp/{name}/log.jsonl", ROWS.replace('"kl": 0.01', f'"kl": {len(name)}.5').encode())
        memory.pipe(f"/exp/{name}/config.json", json.dumps({"beta": 0.1 if name == "a" else 0.2, "learning_rate": 1}).encode())
    with pytest.raises(SeveralRuns) as raised:
        vario.read("memory://exp")
    assert raised.value.names == ["a", "b"]
    assert vario.read("memory://exp", run="b").config["beta"] == 0.2
    assert [run.config["beta"] for _, run in vario.sources.read_all("memory://exp") if isinstance(run, vario.Run)] == [0.1, 0.2]
    with pytest.raises(NothingReadable, match=r"memory://exp.*'c'"):
        vario.read("memory://exp", run="c")


def test_event_files_and_checkpoints_speak_of_the_address(memory: fsspec.AbstractFileSystem, tmp_path: Path) -> None:
    path = write_events(tmp_path / "events.out.tfevents.1", [scalar_event(s, {"train/reward": s / 4}) for s in range(40)])
    memory.pipe("/out/runs/events.out.tfevents.1", path.read_bytes()[:-5])
    state = {"global_step": 20, "log_history": [{"step": s, "reward": s / 4} for s in range(20)]}
    memory.pipe("/out/checkpoint-20/trainer_state.json", json.dumps(state).encode())
    assert [(c.step, c.path) for c in vario.read("memory://out").checkpoints] == [(20, "checkpoint-20")]
    run = vario.read("memory://out/runs")
    assert run.last_step == 38
    (text,) = [w for w in run.warnings if "inside a record" in w]
    assert "vario-" not in text


def test_the_keys_of_an_mlflow_store_with_dots_in_them(memory: fsspec.AbstractFileSystem) -> None:
    run = "/mlruns/7/" + "ab" * 16
    memory.pipe(f"{run}/meta.yaml", b"run_id: abab\nlifecycle_stage: active\n")
    for key in ("train/reward", "train/clip_ratio.low", "a b.c"):
        memory.pipe(f"{run}/metrics/{key}", "".join(f"{s} {s / 4} {s}\n" for s in range(40)).encode())
    memory.pipe(f"{run}/params/optim.lr", b"1e-6")
    memory.pipe("/mlruns/7/other/metrics/model.safetensors", b"x")
    read = vario.read("memory://mlruns")
    keys = {s.key for s in read.series.values()} | set(read.unmapped) | set(read.ignored)
    assert any("reward" in k for k in keys)
    assert any("clip_ratio" in k for k in keys)
    assert any(k.startswith("a") for k in keys)
    assert read.config["optim.lr"] == 1e-6


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_database_comes_with_its_log_of_changes(suffix: str) -> None:
    assert remote.WANTED.search(f"trackio/project.db{suffix}")
    assert not remote.WANTED.search(f"model.safetensors{suffix}")


def test_nothing_there_and_nothing_of_use(memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe("/model/weights.bin", b"x")
    memory.pipe("/empty/log.jsonl", b"")
    memory.pipe("/noise/log.jsonl", os.urandom(3000))
    for address, word in (("memory://nowhere", "memory://nowhere"), ("memory://model", "1 files"), ("memory://empty", "empty"),
                          ("memory://noise/log.jsonl", "memory://noise/log.jsonl"), ("nonsense://x", "nonsense")):  # fmt: skip
        with pytest.raises(SourceError, match=re.escape(word)) as raised:
            vario.read(address)
        assert address in str(raised.value)
        assert "vario-" not in str(raised.value)


def test_too_much_is_refused_before_it_is_fetched(memory: fsspec.AbstractFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MAX_FETCH", 10_000)
    monkeypatch.setattr(remote, "MAX_FILES", 3)
    memory.pipe("/big.jsonl", b"x" * 10_001)
    memory.pipe("/many/a.jsonl", b"x" * 6_000)
    memory.pipe("/many/b.jsonl", b"x" * 6_000)
    for i in range(4):
        memory.pipe(f"/files/{i}.jsonl", ROWS.encode()[:50])
    monkeypatch.setattr(type(memory), "open", lambda *_, **__: pytest.fail("was fetched"))
    for address in ("memory://big.jsonl", "memory://many", "memory://files"):
        with pytest.raises(NothingReadable, match=r"too much|could be logs"):
            vario.read(address)


def test_sizes_that_a_server_does_not_tell_are_counted(memory: fsspec.AbstractFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MAX_FETCH", 100_000)
    monkeypatch.setattr(remote, "PIECE", 1000)

    class Endless(io.RawIOBase):
        given = 0

        def read(self, size: int = -1) -> bytes:
            Endless.given += size
            return b"x" * size

    for i in range(5):
        memory.pipe(f"/files/{i}.jsonl", b"x")
    monkeypatch.setattr(type(memory), "open", lambda *_, **__: Endless())
    with pytest.raises(NothingReadable, match="does not end"):
        vario.read("memory://files/1.jsonl")
    assert Endless.given <= 101_000
    monkeypatch.setattr(type(memory), "open", lambda *_, **__: io.BytesIO(b"x" * 30_000))  # listed as 1 byte each
    with pytest.raises(NothingReadable, match="too much to fetch"):
        vario.read("memory://files")


def test_a_local_address_is_read_in_place(tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "log.jsonl").write_text(ROWS)
    (tmp_path / "config.json").write_text(CONFIG)
    found = found_at(f"file://{tmp_path}", None)
    assert list(temporary.iterdir()) == []
    good(vario.sources.interpret(found[0][1]()))
    good(vario.read(f"file://{tmp_path}/log.jsonl"))
    with pytest.raises(NothingReadable, match="does not exist"):
        vario.read(f"file://{tmp_path}/none")


# archives and names


def test_an_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        archive.writestr("out/log.jsonl", ROWS)
        archive.writestr("out/config.json", CONFIG)
    good(vario.read(f"zip://out::{tmp_path}/run.zip"))
    good(vario.read(f"zip://::{tmp_path}/run.zip"))
    good(vario.read(f"zip://out/log.jsonl::{tmp_path}/run.zip"), beta=None)


@pytest.mark.parametrize("evil", ["../evil.jsonl", "../../../../../../evil.jsonl", "/evil.jsonl", "a/../../evil.jsonl", "..\\evil.jsonl", "C:\\evil.jsonl"])
def test_names_in_an_archive_do_not_lead_out(tmp_path: Path, temporary: Path, evil: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with zipfile.ZipFile(home / "run.zip", "w") as archive:
        archive.writestr("log.jsonl", ROWS)
        archive.writestr(evil, ROWS)
    before = set(tmp_path.rglob("*"))
    found = None
    try:
        found = found_at(f"zip://::{home}/run.zip", None)
    except SourceError as error:
        assert "run.zip" in str(error)
    folders = list(temporary.iterdir())
    assert all(f.is_dir() and f.name.startswith("vario-") for f in folders)
    assert set(tmp_path.rglob("*")) == before
    assert not Path("/evil.jsonl").exists()
    del found


@settings(max_examples=tries(400), deadline=None)
@given(st.text(st.characters(codec=None), max_size=400))
@example("..")
@example(" .. ")
@example("../x")
@example("\x00")
@example("ü" * 300 + ".jsonl")
@example("\ud800")
@example("x" * 500 + ".tar.gz")
def test_safe_names(name: str) -> None:
    made = safe_name(name)
    assert made
    assert made not in (".", "..")
    assert not set(made) & set("/\\\0:")
    assert len(os.fsencode(made)) <= 255
    if len(name) > 250 and name.isascii() and name.isprintable() and not set(name) & set("/\\:") and name == name.strip():
        assert made.endswith(name[-90:])  # the ending says what it is
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / made
        path.write_bytes(b"x")
        assert [p.name for p in Path(folder).iterdir()] == [made]


@settings(max_examples=tries(150), deadline=None)
@given(st.lists(st.text(st.sampled_from("ab/.:\\ _"), min_size=1, max_size=8), min_size=1, max_size=8))
def test_files_are_put_below_the_folder_and_none_over_another(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "in"
        folder.mkdir()
        targets = []
        for i, name in enumerate(names):
            target = remote._target(folder, name.lstrip("/") or "x")
            assert target.resolve().is_relative_to(folder.resolve())
            assert target.resolve() != folder.resolve()
            target.write_text(str(i))
            targets.append(target)
        assert [t.read_text() for t in targets] == [str(i) for i in range(len(names))]
        assert [p.name for p in Path(home).iterdir()] == ["in"]


# the web


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class Endless(BaseHTTPRequestHandler):
    """Sends rows for ever, and a size of no more than a word."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        try:
            while True:
                self.wfile.write(b'{"step": 1, "reward": 1}\n' * 4000)
        except OSError:
            pass

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(handler: object) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:  # type: ignore[arg-type]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_file_and_a_folder_of_a_web_server(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    (tmp_path / "run" / "logs").mkdir(parents=True)
    (tmp_path / "run" / "logs" / "log.jsonl").write_text(ROWS)
    (tmp_path / "run" / "config.json").write_text(CONFIG)
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text("<html><a href='weights.bin'>weights</a></html>")
    with served(functools.partial(Quiet, directory=str(tmp_path))) as url:
        for address in (f"{url}/run", f"{url}/run/"):
            run = vario.read(address)
            good(run)
            assert run.path == address
        for address in (f"{url}/run/logs/log.jsonl", f"{url}/run/logs/log.jsonl?token=abc"):
            good(vario.read(address), beta=None)
        with pytest.raises(NothingReadable, match="a web page that links to no log"):
            vario.read(f"{url}/page/")
        with pytest.raises(NothingReadable, match=r"none\.jsonl: cannot be read"):
            vario.read(f"{url}/none.jsonl")
    with pytest.raises(NothingReadable, match="cannot be read"):
        vario.read(f"{url}/run/")


def test_a_web_server_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aiohttp")
    monkeypatch.setattr(remote, "MAX_FETCH", 3_000_000)
    with served(Endless) as url, pytest.raises(NothingReadable, match="does not end"):
        vario.read(f"{url}/log.jsonl")


def test_s3(tmp_path: Path) -> None:
    pytest.importorskip("s3fs")
    server_of = pytest.importorskip("moto.server")
    (tmp_path / "log.jsonl").write_text(ROWS)
    server = server_of.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        code = (
            "import sys, fsspec, vario\n"
            "fs = fsspec.filesystem('s3'); fs.mkdir('bucket')\n"
            "fs.put(sys.argv[1], 'bucket/run/log.jsonl'); fs.pipe('bucket/run/config.json', b'{\"beta\": 0.1, \"learning_rate\": 1e-6}')\n"
            "run = vario.read('s3://bucket/run')\n"
            "print(run.path, run.config['beta'], run.series['reward/mean'].values.tolist() == [s / 40 for s in range(1, 41)])\n"
            "other = fsspec.filesystem('s3', skip_instance_cache=True)\n"
            "other.pipe('bucket/run/log.jsonl', other.cat('bucket/run/log.jsonl') + b'{\"step\": 41, \"reward\": 2}\\n')\n"
            "print(vario.read('s3://bucket/run').last_step, vario.read('s3://bucket/run/log.jsonl').last_step)\n"
            "try:\n    vario.read('s3://bucket/none')\nexcept vario.errors.NothingReadable as error:\n    print('said', 's3://bucket/none' in str(error))\n"
        )
        keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
        made = subprocess.run([sys.executable, "-c", code, str(tmp_path / "log.jsonl")], capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **keys})
        assert made.stdout.splitlines() == ["s3://bucket/run 0.1 True", "41 41", "said True"], made.stderr[-2000:]
    finally:
        server.stop()


# packages that are not there


def test_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "fsspec", None)
        with pytest.raises(NothingReadable, match=r"pip install 'vario\[remote\]'"):
            vario.read("memory://run")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(NothingReadable, match="s3fs"):
        vario.read("s3://bucket/run")
    code = (
        "import sys; sys.modules['aiohttp'] = None\nimport vario\n"
        "try:\n    vario.read('http://127.0.0.1:1/log.jsonl')\nexcept vario.errors.NothingReadable as error:\n    print(error)\n"
    )
    assert re.search(r"http://127\.0\.0\.1:1/log\.jsonl: .*aiohttp.*install", run_python(code))


@pytest.mark.parametrize("address", ["https://wandb.ai/me/proj/runs/abc?nw=nwuser", "https://wandb.ai/me/proj", "https://api.wandb.ai/me/proj/runs/abc/overview"])
def test_the_address_of_a_page_of_wandb(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(NothingReadable, match=r"^wandb://me/proj(/abc)?: needs `pip install 'vario\[wandb\]'`"):
        vario.read(address)


# standard input


def piped(content: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-W", "error", "-m", "vario.surfaces.cli", "diagnose", "-", *arguments]
    return subprocess.run(command, input=content, capture_output=True, timeout=120, check=False)


def test_a_log_through_a_pipe(tmp_path: Path) -> None:
    made = piped(ROWS.encode(), "--format", "json")
    assert made.returncode in (0, 1), made.stderr.decode()
    document = json.loads(made.stdout)
    assert document["run"]["path"] == "-"
    assert document["run"]["last_step"] == 40
    assert document["run"]["metrics"]["reward/mean"] == {"key": "reward", "points": 40}
    path = write_events(tmp_path / "events.out.tfevents.1", [scalar_event(s, {"train/reward": s / 4}) for s in range(40)])
    assert json.loads(piped(path.read_bytes(), "--format", "json").stdout)["run"]["metrics"]["reward/mean"]["points"] == 40


@pytest.mark.parametrize(("content", "word"), [(b"", "standard input: empty"), (b"\0\1\2" * 500, "standard input"), (b"hello\n", "standard input")])
def test_a_pipe_without_a_log(content: bytes, word: str) -> None:
    made = piped(content)
    assert made.returncode == 3, made.stdout
    assert word in made.stderr.decode()
    assert "vario-" not in made.stderr.decode()
    assert "Traceback" not in made.stderr.decode()


def test_runs_in_a_pipe_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "project.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE metrics (id INTEGER PRIMARY KEY, timestamp TEXT, run_name TEXT, step INTEGER, metrics TEXT)")
        for s in range(30):
            for name in ("a", "b"):
                connection.execute("INSERT INTO metrics (run_name, step, metrics) VALUES (?, ?, ?)", (name, s, json.dumps({"reward": s + (name == "b")})))
    connection.close()

    def read(run: str | None) -> vario.Run:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        return vario.read("-", run=run)

    assert read("b").series["reward/mean"].values.tolist() == [s + 1.0 for s in range(30)]
    with pytest.raises(SeveralRuns):
        read(None)


def test_a_pipe_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MAX_FETCH", 10_000)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x" * 20_000)))
    with pytest.raises(Malformed, match="standard input: more than"):
        vario.read("-")

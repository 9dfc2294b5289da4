"""The real process `vario serve`, and a plain client of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.conftest import GOLDEN, ROOT, recorded

COMMAND = (sys.executable, "-m", "vario.surfaces.cli", "serve")
PATIENCE = 30.0
"""Seconds for what happens at once on a machine that is not busy."""


@dataclass(frozen=True)
class Answer:
    """Status, headers (names in small letters) and text."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def sentence(self) -> str:
        """What a refusal says, on a page or as text alone."""
        found = re.search(r"<h1>\d+</h1><p>(.*?)</p>", self.text, re.DOTALL)
        return found[1] if found else self.text.strip()


@dataclass
class Dashboard:
    """A dashboard that runs.

    Attributes:
        url: as it was printed. errors: what it writes to standard error.
    """

    url: str
    errors: Path
    process: subprocess.Popen[str]
    token: str = field(init=False)

    def __post_init__(self) -> None:
        self.token = urlsplit(self.url).query.partition("token=")[2]

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(self, path: str, method: str = "GET", body: str | bytes | None = None, **headers: str) -> Answer:
        """One request of a connection of its own; `_` in the names of headers stands for `-`."""
        with contextlib.closing(self.connect()) as connection:
            connection.putrequest(method, path, skip_host="host" in headers, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            sent = body.encode() if isinstance(body, str) else body
            if sent is not None and "content_length" not in headers and "transfer_encoding" not in headers:
                connection.putheader("content-length", str(len(sent)))
            connection.endheaders(sent)
            got = connection.getresponse()
            return Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read().decode())

    def order(self, path: str, fields: Mapping[str, str], **headers: str) -> Answer:
        """What a form of its own pages sends."""
        more = {"origin": self.origin, "content_type": "application/x-www-form-urlencoded"} | headers
        return self.ask(path, "POST", urlencode(fields), **more)

    def ids(self) -> dict[str, str]:
        """The runs by the end of their paths."""
        listed = re.findall(r'<a href="/runs/([\w-]+)">([^<]*)</a></div>', self.ask("/?part=list").text)
        return {name.rsplit("/", 1)[-1]: run for run, name in listed}

    def light(self, run: str) -> str:
        """The word of a run's light."""
        found = re.search(rf'id="run-{run}">\n<div class="name">.*?<span class="word \w+">([\w ]+)<', self.ask("/?part=list").text)
        assert found is not None, run
        return found[1]

    def judged(self, *names: str) -> dict[str, str]:
        """The ids of these runs, once each of them has a verdict."""

        def all_of_them() -> dict[str, str] | None:
            ids = self.ids()
            there = all(n in ids and self.ask(f"/runs/{ids[n]}/diagnosis.json").status == 200 for n in names)
            return ids if there else None

        return until(all_of_them)

    @property
    def said(self) -> str:
        return self.errors.read_text(encoding="utf-8")


def until(look: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """What `look` gives, as soon as it gives something."""
    end = time.monotonic() + patience
    while not (found := look()):
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)
    return found


def environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("VARIO_TOKEN", "VARIO_DEBUG")}
    return kept | {"PYTHONPATH": str(ROOT / "src"), "NO_PROXY": "*"} | more


@contextlib.contextmanager
def served(*words: str | Path, cwd: Path, **more: str) -> Iterator[Dashboard]:
    """Started on a free port, and ended in the end; it must not have failed meanwhile."""
    errors = cwd / f"errors-{time.monotonic_ns()}"
    with errors.open("w") as stream:
        process = subprocess.Popen(
            [*COMMAND, *map(str, words), "--port", "0"], cwd=cwd, env=environment(**more), stdout=subprocess.PIPE, stderr=stream, text=True
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("vario serve: "), errors.read_text()
        dashboard = Dashboard(line.removeprefix("vario serve: ").strip(), errors, process)
        yield dashboard
        assert process.poll() is None, "it ended by itself"
        process.terminate()
        assert process.wait(PATIENCE) == 0
        assert "Traceback" not in dashboard.said, dashboard.said
        assert "Error" not in dashboard.said, dashboard.said
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def copied(folder: Path, *names: str) -> Path:
    """A folder with copies of recorded runs."""
    for name in names:
        recorded(name, folder / name)
    return folder


class Growing:
    """A run of TRL whose log another process would write: lines of JSON that come from a recorded run."""

    def __init__(self, folder: Path, golden: str) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.log = folder / "metrics.jsonl"
        state = json.loads((GOLDEN / golden / "trainer_state.json").read_text())
        self.rows = [row for row in state["log_history"] if "train_runtime" not in row]
        for extra in ("config.json", "training_args.json"):
            if (GOLDEN / golden / extra).is_file():
                shutil.copy(GOLDEN / golden / extra, folder / extra)
        self.written = 0

    def write(self, until: int | None = None) -> float:
        """Append rows up to that number; when the last one was written."""
        end = len(self.rows) if until is None else until
        with self.log.open("a") as stream:
            for row in self.rows[self.written : end]:
                stream.write(json.dumps(row) + "\n")
        self.written = end
        return time.time()

"""What alerts meet: a clock that can be set, a web server that misbehaves, and notices of a real run."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import vario
from tests.conftest import GOLDEN
from vario.surfaces.alerts.channels.base import ChannelError
from vario.surfaces.alerts.message import Alert
from vario.surfaces.live.notices import Kind, Notice, changes
from vario.verdict import Diagnosis, Finding

RUN = "grpo-7"
TOKEN = "s3cr3tT0kenThatNobodyMaySee"
NOON = time.mktime((2031, 5, 6, 12, 0, 0, 0, 0, -1))
SOON = 20.0


@dataclass
class Clock:
    """A wall clock and a steady one; `pass_` moves both, `set` only what the wall shows."""

    wall: float = NOON
    steady: float = 1_000.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.steady

    def pass_(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


@dataclass(eq=False)
class Kept:
    """A channel that keeps what it is given, and fails as often as it is told to."""

    name: str = "kept"
    here: str = "anywhere"
    pictures: bool = False
    failing: int = 0
    tried: int = 0
    got: list[Alert] = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"{self.name}#1"

    def send(self, alert: Alert) -> None:
        self.tried += 1
        if self.failing > 0:
            self.failing -= 1
            raise ChannelError("is out of order")
        self.got.append(alert)

    @property
    def told(self) -> list[str]:
        return [f"{a.subject}:{a.kind}" for a in self.got]


@dataclass(eq=False)
class Receiver:
    """A web server; it answers each request with the next of `answers`, and with 200 when there are none left."""

    port: int = 0
    answers: deque[int | str] = field(default_factory=deque)
    requests: list[dict] = field(default_factory=list)
    accepted: int = 0
    arrived: threading.Condition = field(default_factory=threading.Condition)
    release: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str = "", **parameters: object) -> str:
        query = "&".join(f"{k}={v}" for k, v in parameters.items())
        return f"json://user:{TOKEN}@127.0.0.1:{self.port}/{path or TOKEN}" + (f"?{query}" if query else "")

    def wait(self, count: int, timeout: float = SOON) -> list[dict]:
        with self.arrived:
            self.arrived.wait_for(lambda: len(self.requests) >= count, timeout)
            return list(self.requests)


@contextmanager
def receiver(*answers: int | str) -> Iterator[Receiver]:
    made = Receiver(answers=deque(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with made.arrived:
                answer = made.answers.popleft() if made.answers else 200
                made.requests.append(json.loads(body))
                made.accepted += answer == 200
                made.arrived.notify_all()
            if answer == "hang":
                made.release.wait(SOON)
            elif answer == "trickle":
                # a byte now and then keeps the connection alive for ever
                self.wfile.write(b"HTTP/1.0 200 OK\r\nX: ")
                while not made.release.wait(0.02):
                    self.wfile.write(b"x")
                self.wfile.write(b"\r\n\r\n")
            elif answer == "garbage":
                self.wfile.write(b"\x00\xff\xfe nonsense\r\n\r\n\x00")
            else:
                self.send_response(int(answer))
                self.end_headers()
                self.wfile.write(b"<html>\x00\xff not what you expect")

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            pass  # a client that went away

    server = Server(("127.0.0.1", 0), Handler)
    made.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield made
    finally:
        made.release.set()
        server.shutdown()
        server.server_close()
        thread.join()


@cache
def broken() -> Diagnosis:
    """A real run whose reward function broke."""
    return vario.diagnose(vario.read(GOLDEN / "grpo-reward-bug"))


@dataclass
class Watched:
    diagnosis: Diagnosis | None = None


def finding(name: str = "reward-function-broke", code: str = "RU104", severity: str = "critical", **more) -> Finding:
    """A finding of the real run, under any name."""
    first = next(f for f in broken().findings if f.name == "reward-function-broke")
    return replace(first, name=name, code=code, severity=severity, **{"confidence": "high", "detected_at": 110, **more})


def opened(found: Finding, at: float = NOON, run: str = RUN) -> Notice:
    """The notice with which a finding opens, as the watch makes it."""
    (made,) = changes(run, {}, replace(broken(), findings=(found,)), at)
    return made


def of_kind(kind: Kind, subject: str, severity: str = "info", *, at: float = NOON, step: int = 120, **more) -> Notice:
    said = {"title": f"{RUN}: {kind}", "text": "it is so", "confidence": "high", "run": RUN, **more}
    return Notice(kind=kind, subject=subject, step=step, severity=severity, at=at, **said)


def resolved(found: Finding, until: int, at: float = NOON) -> Notice:
    passed = replace(found, severity="info", until=until)
    return of_kind(
        Kind.RESOLVED, found.name, at=at, title=f"{found.name} has passed at step {until}", text="", finding=passed
    )

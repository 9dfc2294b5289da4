"""Over streamable HTTP: the same tools, and who may ask."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.mcp.runs import grow
from tests.mcp.talking import HELLO, call, over_http, talk_to
from vario.surfaces.cli import main

httpx2 = pytest.importorskip("httpx2")

from mcp.client.streamable_http import streamable_http_client  # noqa: E402

TOKEN = "a-token-of-enough-length-42"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    grow(home / "runs/one/log.jsonl", 1, 60)
    return home


@pytest.fixture(scope="module")
def url(home: Path) -> Iterator[str]:
    with over_http("runs", cwd=home) as url:
        yield url


def posted(url: str, message: object = HELLO, **headers: str) -> tuple[int, str]:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    usual = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.request("POST", place.path, json.dumps(message), usual | {k.replace("_", "-"): v for k, v in headers.items()})
    answer = connection.getresponse()
    read = answer.status, answer.read().decode()
    connection.close()
    return read


def test_the_same_tools(url: str, home: Path) -> None:
    with talk_to(url) as talk:
        ((name, word),) = talk.ids().items()
        assert name == "one"
        answer, text = talk.ask("diagnose", run=word)
        assert answer["run"]["path"] == str(home / "runs/one")
        assert word in text
        assert "outside" in talk.refused("diagnose", run=str(home))
        many = [talk.begin("diagnose", run=word, step=step) for step in range(30, 38)]
        assert [one.result(60).structured_content["at_step"] for one in many] == list(range(30, 38))


def test_clients_come_and_go(url: str) -> None:
    """One that breaks off while it is answered, one that sends half a request; the next is answered."""
    place = urlsplit(url)
    body = json.dumps(call(1, "list_runs")).encode()
    head = f"POST {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\n".encode()
    head += b"Accept: application/json, text/event-stream\r\n" + f"Content-Length: {len(body)}\r\n\r\n".encode()
    for sent in (head + body, head + body[:10], b"no HTTP\r\n\r\n"):
        with socket.create_connection((place.hostname, place.port)) as line:
            line.sendall(sent)
    for _ in range(2):
        with talk_to(url) as talk:
            assert len(talk.ids()) == 1


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example:1", "10.0.0.1"])
def test_a_foreign_host_is_refused(url: str, host: str) -> None:
    assert posted(url, Host=host)[0] == 421


def test_a_foreign_origin_is_refused(url: str) -> None:
    assert posted(url, Origin="https://evil.example")[0] == 403
    assert posted(url, Origin=f"http://{urlsplit(url).netloc}")[0] == 200
    assert posted(url, Host="localhost:1")[0] == 200


def test_nothing_else_is_there(url: str) -> None:
    assert posted(url.removesuffix("/mcp") + "/other")[0] == 404


@pytest.fixture(scope="module")
def guarded(home: Path) -> Iterator[str]:
    with over_http("runs", "--host", "0.0.0.0", "--name", "proxy.example", cwd=home, env={"VARIO_TOKEN": TOKEN}) as url:
        yield url.replace("0.0.0.0", "127.0.0.1")


@pytest.mark.parametrize("given", [None, "", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer wrong", TOKEN])
def test_without_the_token_nothing_is_answered(guarded: str, given: str | None) -> None:
    status, said = posted(guarded, **({} if given is None else {"Authorization": given}))
    assert status == 401
    assert TOKEN not in said
    assert "serverInfo" not in said


def test_with_the_token(guarded: str) -> None:
    status, said = posted(guarded, Authorization=f"Bearer {TOKEN}")
    assert status == 200
    assert json.loads(said)["result"]["serverInfo"]["name"] == "vario"
    client = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30)
    with talk_to(streamable_http_client(guarded, http_client=client)) as talk:
        assert len(talk.ids()) == 1
        talk.portal.call(client.aclose)


def test_hosts_beyond_loopback_are_those_of_the_machine(guarded: str) -> None:
    def status(host: str) -> int:
        return posted(guarded, Host=host, Authorization=f"Bearer {TOKEN}")[0]

    assert status(f"{socket.gethostname()}:80") == 200
    assert status("proxy.example") == 200
    assert status("evil.example") == 421


def test_a_port_that_is_taken(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(home)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["mcp", "--transport", "http", "--port", str(port)]) == 2
    assert "cannot listen there" in capsys.readouterr().err

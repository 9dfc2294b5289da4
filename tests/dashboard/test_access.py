"""Who may ask a dashboard, by which name, with how much, and what paths lead nowhere."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.cli.dumps import trl_run
from tests.dashboard.serving import COMMAND, PATIENCE, Dashboard, copied, environment, served, until
from tests.dashboard.test_pages import is_guarded
from vario.surfaces.dashboard.guard import LARGEST_BODY

TOKEN = "a-token.of_our~own-1"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    home = tmp_path_factory.mktemp("home")
    copied(home / "runs", "grpo-drift")
    with served("runs", "--token", TOKEN, "--name", "runs.example.org", cwd=home) as dashboard:
        yield dashboard


@pytest.mark.parametrize("host", ["evil.example.org", "localhost.evil.example.org", "127.0.0.1.evil.example.org", "", "[", "localhost@evil.org"])
def test_another_name_is_refused(shown: Dashboard, host: str) -> None:
    """A name of somebody else's that leads here (DNS rebinding) shows nothing."""
    answer = shown.ask("/", host=host)
    assert answer.status == 421
    assert "--name" in answer.sentence
    is_guarded(answer)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]:8321", "192.0.2.7", "[2001:db8::1]:8321"])
def test_our_names_and_addresses_are_answered(shown: Dashboard, host: str) -> None:
    assert shown.ask("/", host=host).status == 200


def test_a_name_that_was_added_is_answered(guarded: Dashboard) -> None:
    assert guarded.ask("/rules", host="runs.example.org", authorization=f"Bearer {TOKEN}").status == 200


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example.org", "http://[::1", "https://", "http://127.0.0.1:1", "file://", "x" * 5000])
def test_orders_of_other_pages_are_refused(shown: Dashboard, origin: str | None) -> None:
    run = shown.ids()["parser"]
    for where in ("findings", "marks", "read"):
        headers = {} if origin is None else {"origin": origin}
        answer = shown.ask(f"/runs/{run}/{where}", "POST", "name=98/0&word=bad", content_type="application/x-www-form-urlencoded", **headers)
        assert answer.status == 403
        is_guarded(answer)
    assert "Nobody has said" in shown.ask(f"/runs/{run}").text


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
def test_other_methods(shown: Dashboard, method: str) -> None:
    answer = shown.ask("/", method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD, POST"
    is_guarded(answer)


def test_orders_where_there_are_none(shown: Dashboard) -> None:
    for path in ("/", "/events", "/assets/live.js", "/alerts"):
        answer = shown.order(path, {})
        assert answer.status == 405
        assert "GET" in answer.headers["allow"]
    assert shown.ask(f"/runs/{shown.ids()['parser']}/marks").status == 405


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "multipart/form-data", "application/json", ""])
@pytest.mark.parametrize("body", [b"", b"\xff\xfe=\x00", b"--x\r\nContent-Disposition: form-data\r\n\r\n", b"a&" * 3000, b"a=1&" * 3000])
def test_strange_orders(shown: Dashboard, kind: str, body: bytes) -> None:
    answer = shown.ask(f"/runs/{shown.ids()['parser']}/marks", "POST", body, origin=shown.origin, content_type=kind)
    assert answer.status == 400
    assert "\n" not in answer.sentence


def test_files_are_not_taken(shown: Dashboard) -> None:
    body = '--x\r\nContent-Disposition: form-data; name="word"; filename="a"\r\n\r\nbad\r\n--x--\r\n'
    kind = "multipart/form-data; boundary=x"
    assert shown.ask(f"/runs/{shown.ids()['parser']}/marks", "POST", body, origin=shown.origin, content_type=kind).status == 400


def test_a_large_order_is_refused(shown: Dashboard) -> None:
    path = f"/runs/{shown.ids()['parser']}/marks"
    kind = "application/x-www-form-urlencoded"
    said = shown.ask(path, "POST", b"x" * (LARGEST_BODY + 1), origin=shown.origin, content_type=kind)
    assert said.status == 413
    is_guarded(said)
    # without a length it is counted as it comes
    chunk = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    body = chunk * 40 + b"0\r\n\r\n"
    for content in (kind, "multipart/form-data; boundary=x"):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            answer = shown.ask(path, "POST", body, origin=shown.origin, content_type=content, transfer_encoding="chunked")
            assert answer.status in (400, 413)
    assert shown.ask("/").status == 200


@pytest.mark.parametrize("sent", [
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
    b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    b"POST /runs/x/marks HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Length: -4\r\n\r\n",
    b"POST /runs/x/marks HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Length: 1e9\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example.org\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
    b"nonsense\r\n\r\n",
    b"GET http://evil.example.org/ HTTP/1.1\r\nHost: evil.example.org\r\n\r\n",
], ids=lambda sent: sent[:40].decode("latin-1"))  # fmt: skip
def test_what_is_no_request_ends(shown: Dashboard, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", shown.port), timeout=PATIENCE) as line:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            line.sendall(sent)
        got = b""
        with contextlib.suppress(OSError):  # it may have hung up already
            line.shutdown(socket.SHUT_WR)
            while part := line.recv(65536):
                got += part
    assert not got or re.match(rb"HTTP/1.1 4\d\d ", got), got[:100]
    assert shown.ask("/").status == 200


def test_an_upgrade_is_no_way_in(shown: Dashboard) -> None:
    key = {"connection": "Upgrade", "upgrade": "websocket", "sec_websocket_version": "13", "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ=="}
    assert shown.ask("/", host="evil.example.org", **key).status == 421
    assert shown.ask("/", **key).status == 200


PATHS = (
    "/assets/../../../../pyproject.toml", "/assets/..%2f..%2fstyle.py", "/assets/%2e%2e/%2e%2e/environment.py", "/assets/%2fetc%2fpasswd",
    "/assets/live.js%00.css", "/assets//etc/passwd", "/runs/..%2f..%2fetc/samples", "/runs/%2e%2e/samples", "/runs/../../etc/passwd",
    "/runs/%2ftmp/diagnosis.json", "/rules/..%2f..%2fREADME.md", "/..%2f..%2fetc/passwd", "//etc/passwd", "/%00", "/runs/%00", "/runs/%ff%fe",
    "/\\..\\..\\etc", "/compare?run=../../etc", "/compare?run=/etc/passwd&run=%2fetc%2fshadow",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_out(shown: Dashboard, path: str) -> None:
    answer = shown.ask(path)
    assert answer.status in (400, 404), path
    assert "root:" not in answer.text
    assert "[project]" not in answer.text
    is_guarded(answer)


@pytest.mark.parametrize("name", ["../../etc/passwd", "..%2f1/2", "98/../../x", "98/1%00", "/etc/passwd"])
def test_no_name_of_a_completion_leads_out(shown: Dashboard, name: str) -> None:
    run = shown.ids()["parser"]
    for query in (f"name={name}", f"group={name}"):
        assert shown.ask(f"/runs/{run}/samples?{query}").status == 400
    assert shown.order(f"/runs/{run}/marks", {"name": name, "word": "bad"}).status == 400


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """Runs that lead elsewhere: by a link of a log, of completions, of marks, and by a setting."""
    home = tmp_path_factory.mktemp("home")
    away = trl_run(home / "away/secret")
    copied(home / "away", "grpo-drift")
    trl_run(home / "runs/honest")
    (home / "runs/elsewhere").mkdir()
    (home / "runs/elsewhere/trainer_state.json").symlink_to(home / "away/grpo-drift/trainer_state.json")
    trl_run(home / "runs/dump", dump=False)
    (home / "runs/dump/completions").symlink_to(away / "completions")
    trl_run(home / "runs/file")
    last = home / "runs/file/completions/completions_00100.parquet"
    last.unlink()
    last.symlink_to(away / "completions/completions_00100.parquet")
    trl_run(home / "runs/marked")
    (home / "away/marks").write_text("")
    (home / "runs/marked/vario-marks.jsonl").symlink_to(home / "away/marks")
    with served("runs", cwd=home) as dashboard:
        dashboard.judged("honest", "dump", "file", "marked")
        yield dashboard


def test_links_are_not_followed_out(linked: Dashboard) -> None:
    ids = linked.ids()
    assert linked.ask(f"/runs/{ids['honest']}/samples").status == 200
    for name in ("dump", "file"):
        for page in ("samples", "review", "samples?name=100/0"):
            answer = linked.ask(f"/runs/{ids[name]}/{page}")
            # a folder that is a link is not searched; a file that is one is refused
            assert answer.status == (404 if name == "dump" else 403), (name, page)
            assert "the answer is" not in answer.text
        assert linked.ask(f"/runs/{ids[name]}").status == 200
    assert linked.ask(f"/runs/{ids['elsewhere']}/diagnosis.json").status == 404
    marked = linked.order(f"/runs/{ids['marked']}/marks", {"name": "100/0", "word": "bad"})
    assert marked.status == 403
    assert (linked.errors.parent / "away/marks").read_text() == ""


def test_a_token_is_asked_for(guarded: Dashboard) -> None:
    assert guarded.token == TOKEN
    for path in ("/", "/events", "/assets/live.js", "/runs/x", "/?token=wrong-wrong-wrong-1", "/?token=", "/?tok%65n=x"):
        answer = guarded.ask(path)
        assert answer.status == 401, path
        assert answer.headers["www-authenticate"] == "Bearer"
        assert TOKEN not in answer.text
        is_guarded(answer)
    for headers in ({"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}, {"authorization": "Bearer \xff"}, {"cookie": "vario-token=x; a=\xff\"; ;;"}):
        assert guarded.ask("/", **headers).status == 401
    assert guarded.ask("/", authorization=f"Bearer {TOKEN}").status == 200


def test_the_token_leaves_the_address(guarded: Dashboard) -> None:
    answer = guarded.ask(f"/compare?by=KL&token={TOKEN}&run=a%26b")
    assert answer.status == 303
    assert answer.headers["location"] == "/compare?by=KL&run=a%26b"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    kept = cookie.partition(";")[0]
    # among those of other programs on this machine, well written or not
    assert guarded.ask("/rules", cookie=f'other="x; theme=dark; {kept}; session={{"a": 1}}').status == 200
    assert guarded.ask("/rules", cookie=kept[:-1]).status == 401
    assert guarded.ask("/", "POST", "", cookie=kept, origin="http://evil.example.org").status == 403


@pytest.mark.parametrize("path", ["//evil.example.org", "/\\evil.example.org", "///evil.example.org/a", "/%2fevil.example.org", "/%5cevil.example.org", "/%09/evil.example.org", "/a%0d%0aX:y"])
def test_the_token_leads_to_no_other_host(guarded: Dashboard, path: str) -> None:
    answer = guarded.ask(f"{path}?token={TOKEN}")
    where = answer.headers["location"]
    assert where.startswith("/")
    assert not where.startswith(("//", "/\\"))
    assert "x" not in answer.headers
    assert "token" not in where


def test_who_asks_is_said_by_the_proxy(home: Path) -> None:
    copied(home / "runs", "grpo-drift")
    with served("runs", "--user-header", "X-Forwarded-User", cwd=home) as dashboard:
        assert dashboard.ask("/").status == 401
        assert "X-Forwarded-User" in dashboard.ask("/").sentence
        assert dashboard.ask("/", x_forwarded_user="").status == 401
        known = {"x_forwarded_user": "Ada <b>"}

        def judged() -> re.Match[str] | None:
            return re.search(r"/runs/(grpo-drift-\w+)#finding-([\w-]+)", dashboard.ask("/", **known).text)

        found = until(judged)
        run, finding = found.groups()
        done = dashboard.order(f"/runs/{run}/findings", {"finding": finding, "what": "acknowledge", "reason": "a <i>test</i>"}, **known)
        assert done.status == 303
        text = dashboard.ask(f"/runs/{run}", **known).text
        assert "<strong>acknowledged</strong> by Ada &lt;b&gt;: a &lt;i&gt;test&lt;/i&gt;" in text


@pytest.mark.parametrize(("words", "said"), [
    (["--host", "0.0.0.0"], "--token new"),
    (["--host", "::"], "--token new"),
    (["--host", "192.0.2.1"], "--token new"),
    (["--host", "0.0.0.0", "--token", ""], "--token new"),
    (["--token", "short"], "16 characters"),
    (["--token", "with spaces and ; more"], "16 characters"),
    (["--token", TOKEN, "--user-header", "X-User"], "one of them"),
    (["--port", "99999"], "--port"),
    (["--port", "-1"], "--port"),
    (["--host", "no such host", "--token", TOKEN], "cannot listen"),
    (["--host", "192.0.2.1", "--token", TOKEN], "cannot listen"),
    (["--every", "0"], "--every"),
    (["--every", "nan"], "--every"),
])  # fmt: skip
def test_what_would_be_open_or_cannot_be_is_refused(home: Path, words: list[str], said: str) -> None:
    (home / "runs").mkdir()
    done = subprocess.run([*COMMAND, "runs", *words], cwd=home, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_port_that_is_taken(home: Path, shown: Dashboard) -> None:
    (home / "runs").mkdir()
    done = subprocess.run([*COMMAND, "runs", "--port", str(shown.port)], cwd=home, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert "cannot listen" in done.stderr


def test_beyond_this_machine_with_a_token_and_a_warning(home: Path) -> None:
    copied(home / "runs", "grpo-drift")
    with served("runs", "--host", "0.0.0.0", "--token", "new", cwd=home) as dashboard:
        assert len(dashboard.token) >= 32
        assert until(lambda: "without encryption" in dashboard.said)
        assert dashboard.ask("/").status == 401
        assert dashboard.ask("/", authorization=f"Bearer {dashboard.token}", host=f"{socket.gethostname()}:1").status == 200
    with served("runs", "--host", "0.0.0.0", cwd=home, VARIO_TOKEN=TOKEN) as dashboard:
        assert dashboard.ask("/", authorization=f"Bearer {TOKEN}").status == 200


def test_ipv6(home: Path) -> None:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as tried:
            tried.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 here")
    (home / "runs").mkdir()
    with served("runs", "--host", "::1", cwd=home) as dashboard:
        assert dashboard.url.startswith("http://[::1]:")
        place = http.client.HTTPConnection("::1", dashboard.port, timeout=PATIENCE)
        place.request("GET", "/")
        assert place.getresponse().status == 200
        place.close()


def test_a_path_with_odd_characters(home: Path) -> None:
    copied(home / "a b#c?d <e>", "grpo-drift")
    with served("a b#c?d <e>", cwd=home) as dashboard:
        ids = dashboard.judged("grpo-drift")
        assert dashboard.ask(f"/runs/{quote(ids['grpo-drift'])}").status == 200

"""What can befall a server."""

from __future__ import annotations

import socket
import time

import psycopg
import pytest

from tests.state.postgres import PASSWORD, Server, pause, resume
from tests.state.test_state import OPENED, RUN, claim
from vario.surfaces.state import State, StateError, place_of, postgresql
from vario.surfaces.state.database import LONGEST


def refused(address: str) -> str:
    with pytest.raises(StateError) as caught:
        State.open(place_of("-", address))
    assert PASSWORD not in str(caught.value)
    assert "wrong-9" not in str(caught.value)
    return str(caught.value)


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        message = refused(f"postgresql://vario:{PASSWORD}@127.0.0.1:{port}/team")
    assert message.startswith(f"postgresql://127.0.0.1:{port}/team: no connection to the server")


def test_a_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "CONNECT", 2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = time.monotonic()
        message = refused(f"postgresql://vario:{PASSWORD}@127.0.0.1:{silent.getsockname()[1]}/team")
        assert time.monotonic() - began < LONGEST
    assert "no connection to the server" in message


def test_wrong_password_and_wrong_database(server: Server) -> None:
    assert "password authentication failed" in refused(server.address(password="wrong-9"))
    assert 'database "none" does not exist' in refused(server.address(database="none"))


def test_an_address_that_is_none() -> None:
    assert "this is no address of a database" in refused("postgresql://vario:wrong-9@host:port/team")


def test_a_server_that_was_restarted_is_asked_again(server: Server) -> None:
    with State.open(place_of("-", server.fresh())) as state:
        state.remember(RUN, [OPENED])
        server.restart()
        assert set(state.told(RUN)) == {"kl-spike"}
        server.restart()
        assert claim(state)
        assert not claim(state)
        assert state.warnings == []


def test_a_server_that_stops_answering_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "WAIT", 0.2)
    monkeypatch.setattr(postgresql, "CUT", 0.4)
    with State.open(place_of("-", server.fresh())) as state:
        (session,) = server.sessions()
        pause(session)
        try:
            began = time.monotonic()
            with pytest.raises(StateError, match="no connection to the server"):
                state.told(RUN)
            assert time.monotonic() - began < LONGEST
            assert claim(state), "the next call has a connection of its own"
        finally:
            resume(session)


def test_a_table_that_is_locked_is_waited_for_and_then_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "WAIT", 0.2)
    address = server.fresh()
    with State.open(place_of("-", address)) as state:
        with psycopg.connect(address) as other:
            other.execute("LOCK TABLE vario_alerts")
            with pytest.raises(StateError, match="locked by somebody else"):
                claim(state)
            other.rollback()
        assert claim(state)


def test_a_user_who_may_not_make_tables(server: Server) -> None:
    with psycopg.connect(server.address(), autocommit=True) as owner:
        owner.execute(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
        owner.execute("CREATE SCHEMA closed")
        owner.execute("GRANT USAGE ON SCHEMA closed TO reader")
    address = server.address(name="reader") + "?options=-csearch_path%3Dclosed"
    assert "let it create tables in the database" in refused(address)

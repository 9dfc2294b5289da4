"""PostgreSQL: how a server is asked without ever waiting for it without end."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Timer

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from vario.surfaces.state.failures import Refused

CONNECT = 4
"""Seconds for a connection; a whole number of at least 2, as libpq wants it."""
WAIT = 4.0
"""Seconds that a lock, or a free connection, is waited for."""
ANSWER = 6.0
"""Seconds after which the server itself gives a statement up."""
CUT = 8.0
"""Seconds after which the connection is cut from here: a server that has stopped gives nothing up."""
CONNECTIONS = 4
"""Connections of one process at most: threads beyond them wait."""


def engine(place: str) -> Engine:
    """Connections to the server.

    Raises:
        Refused: the address is none, or the driver is not installed.
    """
    try:
        made = create_engine(
            make_url(place),
            connect_args={
                "connect_timeout": CONNECT,
                "application_name": "vario",
                "prepare_threshold": None,  # a pooler may give every transaction to another server process
                "tcp_user_timeout": int(1000 * CUT),
            },
            pool_size=1,
            max_overflow=CONNECTIONS - 1,
            pool_timeout=WAIT,
        )
    except (ArgumentError, ValueError):
        raise Refused("this is no address of a database; it looks like postgresql://USER@HOST/DATABASE") from None
    except ImportError as error:
        raise Refused(f'PostgreSQL needs psycopg ({error}): pip install "vario[postgres]"') from error

    @event.listens_for(made, "begin")
    def begun(connection: Connection) -> None:
        # for this transaction alone: behind a pooler, others use the connection afterwards
        connection.exec_driver_sql(
            f"SET LOCAL lock_timeout = {int(1000 * WAIT)}; SET LOCAL statement_timeout = {int(1000 * ANSWER)}; "
            f"SET LOCAL idle_in_transaction_session_timeout = {int(1000 * CUT)}"
        )

    return made


@contextmanager
def bounded(connection: Connection) -> Iterator[None]:
    """Cut the connection if what is done with it takes too long."""
    from psycopg import OperationalError

    driver = connection.connection.driver_connection
    try:
        handle = os.dup(driver.pgconn.socket) if driver is not None else -1  # ours: its number is given to nobody else
    except OperationalError:
        handle = -1  # it is lost, as the first statement will tell
    lock = Lock()
    over = False

    def cut() -> None:
        with lock:
            if not over:
                with suppress(OSError), socket.socket(fileno=os.dup(handle)) as wire:
                    wire.shutdown(socket.SHUT_RDWR)

    timer = Timer(CUT, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            over = True
        if handle >= 0:
            os.close(handle)

"""A real PostgreSQL on loopback, in a temporary folder, for as long as the tests run."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import psycopg

from tests.debian import Unavailable, brought

NAME, PASSWORD = "vario", "not-to-be-shown-7"
HOMES = ("/usr/lib/postgresql/*/bin", "/usr/local/bin", "/usr/pgsql-*/bin")
TRIES = 3
"""Somebody else may take a free port before the server does."""


class Server:
    """A cluster of its own. Raises Unavailable where it cannot be had."""

    def __init__(self) -> None:
        self._binaries = brought(_binaries, "postgresql", told="PostgreSQL server here (initdb, pg_ctl)")
        self._user = _user()
        self._folder = Path(tempfile.mkdtemp(prefix="vario-postgres-"))
        self._schemas = 0
        try:
            if self._user is not None:
                os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)
            secret = self._folder / "password"
            secret.write_text(PASSWORD)
            secret.chmod(0o644)
            data = str(self._folder / "data")
            self._run(["initdb", "-D", data, "-U", NAME, "-A", "scram-sha-256", "--pwfile", str(secret), "-E", "UTF8",
                       "--locale=C", "--no-sync"])  # fmt: skip
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self) -> None:
        """Start it on a free port."""
        for attempt in range(TRIES):
            self.port = _free_port()
            options = f"-p {self.port} -h 127.0.0.1 -k {self._folder} -F -c max_connections=40"
            try:
                self._run(
                    [
                        "pg_ctl",
                        "-D",
                        str(self._folder / "data"),
                        "-l",
                        str(self._folder / "log"),
                        "-w",
                        "-o",
                        options,
                        "start",
                    ]
                )
            except Unavailable:
                if attempt == TRIES - 1:
                    raise
            else:
                return

    def restart(self) -> None:
        """Stop and start it at the same port; connections are lost."""
        self._run(["pg_ctl", "-D", str(self._folder / "data"), "-m", "immediate", "-w", "restart"])

    def stop(self) -> None:
        """Stop it and remove all of it."""
        data = str(self._folder / "data")
        self._run(["pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"], needed=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def address(self, name: str = NAME, password: str = PASSWORD, database: str = "postgres") -> str:
        return f"postgresql://{name}:{password}@127.0.0.1:{self.port}/{database}"

    def fresh(self) -> str:
        """The address of tables of its own."""
        self._schemas += 1
        name = f"test_{self._schemas}"
        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{self.address()}?options=-csearch_path%3D{name}"

    def sessions(self) -> list[int]:
        """Process ids of the sessions that vario has open, which can be stopped as a hanging server stops."""
        with psycopg.connect(self.address()) as connection:
            found = connection.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'vario'")
            return [row[0] for row in found]

    def _run(self, command: Sequence[str], *, needed: bool = True) -> None:
        identity = {} if self._user is None else {
            "user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []
        }  # fmt: skip
        program = str(self._binaries / command[0])
        with (self._folder / "output").open("a+b") as output:  # no pipe: the server would hold it open
            done = subprocess.run(
                [program, *command[1:]], cwd=self._folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                timeout=60, env={**os.environ, "HOME": str(self._folder), "LC_ALL": "C"}, check=False, **identity,
            )  # fmt: skip
            if needed and done.returncode:
                output.seek(0)
                raise Unavailable(f"{command[0]} failed: {output.read()[-500:].decode(errors='replace')}")


def _binaries() -> Path | None:
    """The folder with the server's programs, the newest where there are several."""
    on_path = shutil.which("initdb")
    homes = [Path(on_path).parent] if on_path else []
    for pattern in HOMES:
        found = Path("/").glob(pattern[1:])
        homes += sorted(found, key=lambda p: [int(n) for n in re.findall(r"\d+", str(p))], reverse=True)
    return next((home for home in homes if (home / "initdb").exists() and (home / "pg_ctl").exists()), None)


def _user() -> pwd.struct_passwd | None:
    """Whom the server runs as: it refuses root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise Unavailable("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def pause(process: int) -> None:
    """Let a process answer nothing any more."""
    os.kill(process, signal.SIGSTOP)


def resume(process: int) -> None:
    """Let it go on."""
    os.kill(process, signal.SIGCONT)

"""Work spread over the machines of a Ray cluster.

Ray's own retries are switched off: what is tried again, how often and beside how much else is decided here, where an
item has one attempt on its way at a time and is handed on once. Results come as plain bytes, which are copied out of
Ray's object store when they are fetched and freed there, whatever the caller keeps.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from vario.errors import ConfigError, VarioError
from vario.work import Lost, R, T, in_words
from vario.work.parcel import opened, packed

TRIES = 3
"""So often an item is tried whose worker or machine goes under; the last time alone."""
PER_CPU = 2
"""Items on their way for each CPU of the cluster: one at work, one ready to follow."""
RECOUNT = 10.0
"""Seconds between counts of the cluster's CPUs: machines come and go."""
PATIENCE = 5.0
"""Seconds in which the head of a cluster has to answer."""

HOW_TO_NAME_IT = (
    "give host:port of the cluster's head (Ray's own port is 6379), ray://host:10001 for its client port, "
    "auto for a cluster that Ray finds by itself, or local to start one on this machine"
)


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster, on whose machines vario is installed.

    Where Ray is connected already, that connection is used whatever the address, and left as it is.
    """

    address: str
    """As for ray.init; "" is the same as "auto", and "local" starts a cluster on this machine."""
    workers: int | None = None
    """At most so many items at a time; without it, as many as the cluster has room for."""

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ConfigError(f"{self.workers} workers can do nothing: give 1 or more")

    def each(self, task: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R | Lost]]:
        """Index and result of each item, as they finish."""
        with _connected(self.address or "auto", self.workers) as ray:
            yield from _Flight(ray, task, items, self.workers).land()


@dataclass
class _Job:
    """An item that is not done yet."""

    index: int
    room: int = 0
    """So many were allowed on their way when it was sent off, itself among them."""
    bound: int = sys.maxsize
    """So many are allowed on their way while it is, itself among them."""
    deaths: int = 0
    squeezed: bool = False
    """Memory has run out on it before."""


class _Flight:
    """Items on their way through a cluster."""

    def __init__(self, ray: Any, task: Callable[[Any], object], items: Sequence[Any], workers: int | None) -> None:  # noqa: ANN401
        self.ray = ray
        self.task = ray.cloudpickle.dumps(task)
        self.items = items
        self.workers = workers
        self.send = ray.remote(num_cpus=1, max_retries=0)(_what_its_machine_does()).remote
        self.waiting = deque(_Job(index) for index in range(len(items)))
        self.flying: dict[Any, _Job] = {}
        self.landed: deque[tuple[int, Any]] = deque()
        self.proven = False
        self.counted = time.monotonic()
        self.full = self._count()
        self.room = float(self.full)

    def land(self) -> Iterator[tuple[int, Any]]:
        """Index and result of each item."""
        try:
            while self.waiting or self.flying:
                self._fill()
                if self.flying:
                    self._fetch()
                    self._fill()  # the cluster goes on before the results are looked at
                while self.landed:
                    yield self.landed.popleft()
        finally:
            for ref in self.flying:
                with suppress(Exception):  # what has failed may be the cluster
                    self.ray.cancel(ref, force=True)

    def _count(self) -> int:
        """So many may be on their way at the most."""
        if self.workers is not None:
            return self.workers
        return max(1, int(PER_CPU * self.ray.cluster_resources().get("CPU", 0)))

    def _recount(self) -> None:
        if time.monotonic() - self.counted < RECOUNT:
            return
        unhindered = self.room >= self.full
        self.full, self.counted = self._count(), time.monotonic()
        self.room = float(self.full) if unhindered else min(self.room, float(self.full))

    def _fill(self) -> None:
        """Send items off while there is room."""
        while self.waiting:
            job = self.waiting[0]
            job.room = max(1, min([int(self.room), job.bound, *(other.bound for other in self.flying.values())]))
            if len(self.flying) >= job.room:
                break
            self.waiting.popleft()
            parcel = packed(self.items, job.index, self.ray.cloudpickle.dumps)
            if isinstance(parcel, Lost):
                self.landed.append((job.index, parcel))
                continue
            try:
                ref = self.send(socket.gethostname(), sys.path, self.task, parcel)
            except self.ray.exceptions.RayError as error:  # a large item takes room in the object store too
                self._failed(job, error)
            except Exception as error:
                raise _broken(error) from error
            else:
                self.flying[ref] = job

    def _fetch(self) -> None:
        """Take what has come back, once something has; its reference ends here, and with it its place in the store."""
        try:
            self._recount()
            done, _ = self.ray.wait(list(self.flying), num_returns=1, timeout=RECOUNT)
        except Exception as error:
            raise _broken(error) from error
        for ref in done:
            job = self.flying.pop(ref)
            try:
                came = self.ray.get(ref)
            except self.ray.exceptions.RayError as error:
                self._failed(job, error)
            except Exception as error:
                raise _broken(error) from error
            else:
                self._came(job, came)

    def _came(self, job: _Job, came: bytes | str) -> None:
        if isinstance(came, str):  # its machine can do nothing at all
            if not self.proven:
                raise ConfigError(came)
            self._died(job, came)
            return
        self.proven = True
        self.landed.append((job.index, opened(came)))
        self.room = min(float(self.full), self.room + 1 / self.room)

    def _failed(self, job: _Job, error: Exception) -> None:
        """What follows when Ray has no result: the task itself never raises."""
        errors = self.ray.exceptions
        if isinstance(error, errors.OutOfMemoryError):
            self._squeezed(job, "its machine had too little memory for it")
        elif isinstance(error, (errors.ObjectStoreFullError, errors.OutOfDiskError)):
            self._squeezed(job, "the object store of the cluster had no room for it")
        elif isinstance(error, errors.WorkerCrashedError):
            self._died(job, "its worker process was killed or crashed")
        elif isinstance(error, errors.NodeDiedError):
            self._died(job, "the machine that it ran on was lost")
        elif isinstance(error, errors.ObjectLostError):
            self._died(job, "its result was lost with the machine that held it")
        else:
            self._died(job, _short(getattr(error, "cause", None) or error))

    def _died(self, job: _Job, how: str) -> None:
        job.deaths += 1
        if job.deaths == TRIES:
            self.landed.append((job.index, Lost(f"{how}, {TRIES} times out of {TRIES}")))
            return
        if job.deaths == TRIES - 1:
            job.bound = 1
        self.waiting.append(job)

    def _squeezed(self, job: _Job, how: str) -> None:
        """Fewer at a time from now on, and this one again beside fewer still, in the end alone."""
        if job.squeezed and job.room == 1:
            self.landed.append((job.index, Lost(f"{how}, even alone")))
            return
        job.squeezed = True
        job.bound = max(1, job.room // 4)
        # of several that fail together each was sent off into the same room: it is halved once
        self.room = min(self.room, max(1.0, job.room / 2))
        self.waiting.append(job)


def _broken(error: Exception) -> VarioError:
    return VarioError(f"the connection to the Ray cluster broke: {_short(error)}")


def _short(error: BaseException) -> str:
    """What an error says, without the traceback from the other side that Ray puts into its middle."""
    lines = [line.strip() for line in in_words(error).splitlines() if line.strip()]
    return lines[0] if len(lines) == 1 else f"{lines[0]} {lines[-1]}"


def _what_its_machine_does() -> Callable[[str, list[str], bytes, bytes], bytes | str]:
    """The function that is sent to the cluster: by value, so that it can tell when vario is missing there."""

    def work(home: str, paths: list[str], task: bytes, parcel: bytes) -> bytes | str:
        """The parcel that is sent back, or why this machine can do no item at all."""
        import os
        import pickle
        import socket
        import sys

        # there is a task for each CPU; were each to start a thread for each CPU too, they would fight over them
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        here = socket.gethostname()
        if here == home:  # on the caller's own machine the caller's modules can be had
            sys.path.extend(path for path in paths if path and path not in sys.path)
        try:
            from vario.work.parcel import worked
        except Exception as error:
            return (
                f"vario cannot be imported on {here} of the Ray cluster ({error}): install it on each of its machines"
            )
        try:
            function = pickle.loads(task)
        except Exception as error:
            return f"the task cannot be loaded on {here} of the Ray cluster ({error}): install its module there"
        return worked(function, parcel)

    return work


@contextmanager
def _connected(address: str, workers: int | None) -> Iterator[Any]:
    """Ray, connected; what was connected here is disconnected in the end."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before Ray is there to read it: nothing is reported to its makers
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise ConfigError(f"Ray cannot be imported here ({error}): pip install 'vario[ray]'") from error
    if ray.is_initialized():
        yield ray
        return
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    started = {"num_cpus": workers, "include_dashboard": False} if address == "local" else {}
    if address != "local":
        _probe(address)
    try:
        with _no_news():
            ray.init(address=address, **quiet, **started)
    except Exception as error:
        ray.shutdown()
        why = f"{error} {error.__cause__ or ''}"
        if "AuthToken" in why or "uthentication" in why:
            advice = (
                "it asks for a token, which Ray finds with RAY_AUTH_MODE=token and RAY_AUTH_TOKEN or ~/.ray/auth_token"
            )
        else:
            advice = HOW_TO_NAME_IT
        raise ConfigError(f"no connection to a Ray cluster at {address} ({_short(error)}): {advice}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _no_news() -> Iterator[None]:
    """Connect without the thread that prints news of the cluster (a worker that died) to standard output.

    The caller's own result may be going there; log_to_driver does not cover it, and Ray has no setting that does.
    """
    try:
        worker: Any = import_module("ray._private.worker")
        listen = worker.listen_error_messages
    except (ImportError, AttributeError):  # another Ray, whose news cannot be helped
        yield
        return
    worker.listen_error_messages = lambda *_: None
    try:
        yield
    finally:
        worker.listen_error_messages = listen


def _probe(address: str) -> None:
    """Find out in seconds whether a cluster answers there: by itself Ray would wait for minutes, deaf to Ctrl-C."""
    place = (os.environ.get("RAY_ADDRESS") or _running_here()) if address == "auto" else address
    scheme, _, rest = (place or "").rpartition("://")
    if not place or scheme not in ("", "ray") or place == "local":
        return  # nothing known that could be asked
    try:
        parts = urlsplit(f"//{rest}")
        host, port = parts.hostname, parts.port or (10001 if scheme else None)
    except ValueError as error:
        raise ConfigError(f"{place} is no address of a Ray cluster ({error}): {HOW_TO_NAME_IT}") from error
    if not host or not port:
        raise ConfigError(f"{place} is no address of a Ray cluster: {HOW_TO_NAME_IT}")
    try:
        with socket.create_connection((host, port), timeout=PATIENCE) as connection:
            answers = _speaks_http2(connection)
    except OSError as error:
        raise ConfigError(f"no Ray cluster answers at {place} ({error}): {HOW_TO_NAME_IT}") from error
    if not answers:
        raise ConfigError(f"what answers at {place} is no Ray cluster: {HOW_TO_NAME_IT}")


def _speaks_http2(connection: socket.socket) -> bool:
    """Whether the other side greets as every gRPC server does: with its settings."""
    if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
        return True  # it greets after the handshake, which Ray itself has the keys for
    connection.settimeout(PATIENCE)
    no_settings = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + no_settings)
    greeting = connection.recv(len(no_settings), socket.MSG_WAITALL)
    return len(greeting) == len(no_settings) and greeting[3] == no_settings[3]


def _running_here() -> str | None:
    """The cluster of this machine that Ray takes for auto: one whose processes it sees, or the last one started.

    Either may have crashed since, and the processes that Ray once saw it keeps in mind: it has to look anew.
    """
    seen: list[str] = []
    with suppress(ImportError, AttributeError):  # another Ray, which looks in another way
        find: Any = import_module("ray._private.services").find_gcs_addresses
        find.cache_clear()
        seen = list(find())
    if len(seen) == 1:
        return seen[0]
    temporary = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    with suppress(OSError):
        return Path(temporary, "ray", "ray_current_cluster").read_text().strip()
    return seen[0] if seen else None

"""Runs under watch as numbers for Prometheus, answered over HTTP. Importing this needs prometheus_client."""

from __future__ import annotations

import math
import socket
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from threading import Thread
from types import TracebackType
from typing import Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from vario.errors import ConfigError
from vario.surfaces.exporters.families import FAMILIES, Family, Kind
from vario.surfaces.exporters.snapshot import Snapshot, snapshots
from vario.surfaces.live.watched import WatchedRun
from vario.verdict.serial import VERSION

try:
    from prometheus_client import CollectorRegistry, make_wsgi_app
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError as error:
    raise ConfigError("numbers for Prometheus need prometheus_client: `pip install 'vario[prometheus]'`") from error

LOOPBACK = "127.0.0.1"
PORT = 10777
"""Beyond 9100 to 9999, which are all given to other exporters."""
MOST_PORT = 65_535
CLIENT_SECONDS = 10.0
"""A client that says nothing for so long is sent away: Prometheus' own limit for a scrape."""


class _Request(WSGIRequestHandler):
    timeout = CLIENT_SECONDS

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a line for each scrape would fill the terminal that the training writes to."""


class _Http(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """A client that breaks off is no news; anything else is a fault of ours and is shown."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Http6(_Http):
    address_family = socket.AF_INET6


@dataclass(frozen=True, slots=True)
class Server:
    """An exporter that answers over HTTP; `close` it, or use it in a `with` statement.

    Attributes:
        address, port: where it listens.
    """

    address: str
    port: int
    _http: WSGIServer
    _thread: Thread

    @property
    def url(self) -> str:
        """What Prometheus scrapes."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}/metrics"

    def close(self) -> None:
        """Stop answering and free the port."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Exporter(Collector):
    """Tells Prometheus how runs under watch stand; a collector for any registry of prometheus_client.

    A scrape reads what the last look left behind: it judges nothing, waits for nobody, and keeps nothing from one
    scrape to the next.

    Args:
        runs: the runs under watch; the collection may grow while it is exported.
    """

    def __init__(self, runs: Collection[WatchedRun]) -> None:
        self.runs = runs

    def describe(self) -> Iterator[Metric]:
        """The families without samples, so that a registry need not ask the runs."""
        for family in FAMILIES:
            yield _made(family, ())

    def collect(self) -> Iterator[Metric]:
        """All families with their samples as they stand now."""
        seen = snapshots(self.runs)
        for family in FAMILIES:
            yield _made(family, seen)

    def serve(self, addr: str = LOOPBACK, port: int = PORT) -> Server:
        """Answer scrapes from a thread in the background.

        There is no authentication and no encryption: whoever reaches the port reads names of runs, metrics and
        findings. So it listens to this machine alone unless another address is given; give one only behind a firewall,
        or put a proxy that asks for a password in front.

        Args:
            addr: the address to listen at; `0.0.0.0` for every network of this machine.
            port: 0 for any that is free.

        Raises:
            ConfigError: it cannot listen there.
        """
        if not addr:
            raise ConfigError(f"an exporter needs an address to listen at: {LOOPBACK}, or 0.0.0.0 for every network")
        if not 0 <= port <= MOST_PORT:
            raise ConfigError(f"port {port}: there is none; give one from 1 to {MOST_PORT}, or 0 for any that is free")
        registry = CollectorRegistry()
        registry.register(self)
        try:
            http = make_server(addr, port, make_wsgi_app(registry), _Http6 if ":" in addr else _Http, _Request)
        except OSError as error:
            why = error.strerror or error
            raise ConfigError(f"{addr}:{port}: cannot listen there: {why}; try another port, or 0 for any") from error
        thread = Thread(target=http.serve_forever, name="vario-prometheus", daemon=True)
        thread.start()
        return Server(addr, http.server_port, http, thread)


def _made(family: Family, seen: Iterable[Snapshot]) -> Metric:
    if family.kind is Kind.INFO:
        return InfoMetricFamily(family.name.removesuffix("_info"), family.help, value={"version": VERSION})
    if family.kind is Kind.COUNTER:
        counter = CounterMetricFamily(
            family.name.removesuffix("_total"), family.help, labels=family.labels, unit=family.unit
        )
        for labels, value in _samples(family, seen):
            counter.add_metric(labels, value)
        return counter
    gauge = GaugeMetricFamily(family.name, family.help, labels=family.labels, unit=family.unit)
    for labels, value in _samples(family, seen):
        gauge.add_metric(labels, value)
    return gauge


def _samples(family: Family, seen: Iterable[Snapshot]) -> Iterator[tuple[tuple[str, ...], float]]:
    """Those that have a value: None and what is not finite are left out."""
    assert family.read is not None
    for snapshot in seen:
        for labels, value in family.read(snapshot):
            if value is not None and math.isfinite(value):
                yield (snapshot.label, *labels), value

"""A run of an MLflow tracking server, through MLflow's own client.

`mlflow+http://host:port/RUN_ID`, or `…/EXPERIMENT` or nothing for its runs; or the address that MLflow's pages show.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from urllib.error import HTTPError, URLError
from urllib.parse import unquote
from urllib.request import urlopen

import numpy as np

from vario.errors import Malformed, NothingReadable
from vario.sources.readers.mlflow_values import setting
from vario.sources.rows import Table

Named = list[tuple[str, Callable[[], Table]]]
BROWSER = re.compile(r"^(https?://[^#?]+?)/?(?:\?[^#]*)?#/experiments/(\d+)(?:/runs/(\w+))?")
"""The address of an experiment or of a run as MLflow's pages show it."""
PATIENCE = 10.0
"""Seconds to wait for a sign of life: the client itself tries for minutes."""


def found_in_mlflow(address: str, run: str | None) -> Named:
    """The runs at a server's address.

    Raises:
        NothingReadable: MLflow's client is not installed, the server does not answer, or has no such run.
    """
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError as error:
        raise NothingReadable(f"{address}: needs `pip install 'vario[mlflow]'`") from error
    experiment = ""
    if page := BROWSER.match(address):
        server, experiment, wanted = page[1], page[2], page[3] or ""
    else:
        scheme, _, rest = address.removeprefix("mlflow+").removeprefix("mlflow://").rpartition("://")
        host, _, wanted = rest.partition("/")
        server = f"{scheme or 'http'}://{host}"
    _knock(server, address)
    client = MlflowClient(tracking_uri=server)
    try:
        found = _runs(client, wanted.strip("/"), experiment)
    except (MlflowException, OSError) as error:
        raise NothingReadable(
            f"{address}: the server does not give it ({str(error)[:200]}); check the address and your credentials"
        ) from error
    named = [(_name(r), r) for r in found]
    if run is not None:
        named = [(n, r) for n, r in named if run in (n, n.rpartition("@")[0], n.rpartition("@")[2], r.info.run_id)]  # type: ignore[attr-defined]
    if not named:
        raise NothingReadable(f"{address}: the server has no such run")

    def maker(one: object) -> Callable[[], Table]:
        return lambda: _read(client, one, server)

    return [(name, maker(one)) for name, one in named]


def _knock(server: str, address: str) -> None:
    """See whether anything answers there at all."""
    try:
        with urlopen(f"{server}/health", timeout=PATIENCE):
            pass
    except HTTPError as error:
        error.close()  # it answers, and may want what only the client knows
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ConnectionError | TimeoutError) or type(reason).__name__ == "gaierror":
            raise NothingReadable(f"{address}: nothing answers there ({reason}); is the server up?") from error


def _name(run: object) -> str:
    info = run.info  # type: ignore[attr-defined]
    return f"{info.run_name or info.run_id}@{info.run_id[:8]}"


def _runs(client: object, wanted: str, experiment: str) -> list[object]:
    from mlflow.exceptions import MlflowException

    if wanted:
        try:
            return [client.get_run(wanted)]  # type: ignore[attr-defined]
        except MlflowException:
            named = (client.get_experiment_by_name(n) for n in (wanted, unquote(wanted), f"/{wanted}"))  # type: ignore[attr-defined]
            ids = [e.experiment_id for e in named if e is not None][:1]
    elif experiment:
        ids = [experiment]
    else:
        ids = [e.experiment_id for e in _pages(lambda token: client.search_experiments(page_token=token))]  # type: ignore[attr-defined]
    found = _pages(lambda token: client.search_runs(ids, page_token=token)) if ids else []  # type: ignore[attr-defined]
    return [r for r in found if r.data.metrics]  # type: ignore[attr-defined]


def _pages(ask: Callable[[str | None], object]) -> list[object]:
    """Everything that the server gives in pages."""
    found: list[object] = []
    token: str | None = None
    while True:
        page = ask(token)
        found += page  # type: ignore[arg-type]
        token = page.token  # type: ignore[attr-defined]
        if not token:
            return found


def _read(client: object, run: object, server: str) -> Table:
    from mlflow.exceptions import MlflowException

    info, data = run.info, run.data  # type: ignore[attr-defined]
    table = Table(f"mlflow+{server}/{info.run_id}", "mlflow")
    for key, text in data.params.items():
        name, value = setting(key, text)
        table.config[name] = value
    for read, key in enumerate(sorted(data.metrics)):
        try:
            history = client.get_metric_history(info.run_id, key)  # type: ignore[attr-defined]
        except (MlflowException, OSError) as error:
            lost = f"the history of {key} and what follows cannot be read ({str(error)[:200]})"
            if not table.rows:
                raise NothingReadable(f"{table.path}: {lost}; try again") from error
            table.warnings.append(f"{lost}: {read} of {len(data.metrics)} metrics were read")
            break
        history = sorted(history, key=lambda m: (m.timestamp, m.step))
        steps = np.array([m.step for m in history], dtype=np.int64)
        values = np.array([math.nan if m.value is None else m.value for m in history], dtype=np.float64)
        table.put(key, steps, values)
    if not table.rows:
        raise Malformed(f"{table.path}: the run logged no metric")
    table.flush()
    return table

"""A run of an MLflow tracking server, through MLflow's own client.

`mlflow+http://host:port/RUN_ID`, or `…/EXPERIMENT` or nothing for its runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from vario.errors import Malformed, NothingReadable
from vario.sources.readers.mlflow_values import setting
from vario.sources.rows import Table

Named = list[tuple[str, Callable[[], Table]]]
MAX_RUNS = 1000


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
    scheme, _, rest = address.removeprefix("mlflow+").removeprefix("mlflow://").rpartition("://")
    host, _, wanted = rest.partition("/")
    server = f"{scheme or 'http'}://{host}"
    client = MlflowClient(tracking_uri=server)
    try:
        found = _runs(client, wanted.strip("/"))
    except (MlflowException, OSError) as error:
        raise NothingReadable(f"{address}: the server does not give it ({str(error)[:200]})") from error
    named = [(_name(r), r) for r in found]
    if run is not None:
        named = [(n, r) for n, r in named if run in (n, n.rpartition("@")[0], n.rpartition("@")[2])]
    if not named:
        raise NothingReadable(f"{address}: the server has no such run")

    def maker(one: object) -> Callable[[], Table]:
        return lambda: _read(client, one, server)

    return [(name, maker(one)) for name, one in named]


def _name(run: object) -> str:
    info = run.info  # type: ignore[attr-defined]
    return f"{info.run_name or info.run_id}@{info.run_id[:8]}"


def _runs(client: object, wanted: str) -> list[object]:
    from mlflow.exceptions import MlflowException

    if wanted:
        try:
            return [client.get_run(wanted)]  # type: ignore[attr-defined]
        except MlflowException:
            experiment = client.get_experiment_by_name(wanted)  # type: ignore[attr-defined]
            experiments = [experiment] if experiment is not None else []
    else:
        experiments = client.search_experiments()  # type: ignore[attr-defined]
    ids = [e.experiment_id for e in experiments]
    return list(client.search_runs(ids, max_results=MAX_RUNS)) if ids else []  # type: ignore[attr-defined]


def _read(client: object, run: object, server: str) -> Table:
    info, data = run.info, run.data  # type: ignore[attr-defined]
    table = Table(f"mlflow+{server}/{info.run_id}", "mlflow")
    for key, text in data.params.items():
        name, value = setting(key, text)
        table.config[name] = value
    for key in sorted(data.metrics):
        history = client.get_metric_history(info.run_id, key)  # type: ignore[attr-defined]
        history = sorted(history, key=lambda m: (m.timestamp, m.step))
        steps = np.array([m.step for m in history], dtype=np.int64)
        values = np.array([math.nan if m.value is None else m.value for m in history], dtype=np.float64)
        table.put(key, steps, values)
    if not table.rows:
        raise Malformed(f"{table.path}: the run logged no metric")
    table.flush()
    return table

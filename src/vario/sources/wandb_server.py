"""A run of a W&B server, through W&B's own client: the whole history, never its sample.

`wandb://entity/project/run`, or `wandb://entity/project` for its runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vario.errors import Malformed, NothingReadable
from vario.sources.rows import Table

Named = list[tuple[str, Callable[[], Table]]]
PAGE = 1000


def found_in_wandb(address: str, run: str | None) -> Named:
    """The runs at an address.

    Raises:
        NothingReadable: W&B's client is not installed, nobody is logged in, or there is no such run.
    """
    try:
        import wandb
    except ImportError as error:
        raise NothingReadable(f"{address}: needs `pip install 'vario[wandb]'`") from error
    parts = address.removeprefix("wandb://").strip("/").split("/")
    if len(parts) not in (2, 3):
        raise NothingReadable(f"{address}: expected wandb://entity/project/run, or wandb://entity/project")
    try:
        api = wandb.Api()
        found = [api.run("/".join(parts))] if len(parts) == 3 else list(api.runs("/".join(parts)))
    except Exception as error:  # the client raises errors of its own, of its transport and of its login
        raise NothingReadable(
            f"{address}: W&B does not give it ({type(error).__name__}: {str(error)[:200]}); check `wandb login` and the name"
        ) from error
    named = [(f"{r.name}@{r.id}", r) for r in found]
    if run is not None:
        named = [(n, r) for n, r in named if run in (n, r.name, r.id)]
    if not named:
        raise NothingReadable(f"{address}: no such run there")

    def maker(one: object) -> Callable[[], Table]:
        return lambda: _read(one, address)

    return [(name, maker(one)) for name, one in named]


def _read(run: object, address: str) -> Table:
    table = Table(f"wandb://{'/'.join(run.path)}", "wandb")  # type: ignore[attr-defined]
    try:
        # of a project's runs the client fetches the settings now
        table.config.update({k: v for k, v in dict(run.config).items() if not str(k).startswith("_")})  # type: ignore[attr-defined]
        for row in run.scan_history(page_size=PAGE):  # type: ignore[attr-defined]
            if not table.add({k: v for k, v in row.items() if v is not None and not _is_medium(v)}):
                table.ignored += 1
    except Exception as error:  # the transport's errors are its own
        if not table.rows:
            raise NothingReadable(
                f"{address}: the history cannot be read ({type(error).__name__}: {str(error)[:200]}); try again, or sync the run's files"
            ) from error
        table.warnings.append(f"the history breaks off ({type(error).__name__}): {table.rows} rows were read")
    table.flush()
    if not table.rows:
        raise Malformed(f"{address}: the run logged no number")
    return table


def _is_medium(value: object) -> bool:
    """An image, a table or a histogram: a mapping that names its type, whose size is no metric."""
    return isinstance(value, Mapping) and "_type" in value

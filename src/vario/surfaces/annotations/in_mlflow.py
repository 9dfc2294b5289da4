"""MLflow: tags of a run, and the report as an artifact. Tags that an earlier writing left and that hold no more go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import urlopen

from vario.errors import ConfigError
from vario.surfaces.annotations.entries import Annotation
from vario.surfaces.outward import NotDelivered

OF_DATABASES = ("sqlalchemy", "alembic")
"""What MLflow opens a database with: its client alone, which `vario[mlflow]` brings, is without them."""
OURS = "vario."
REPORT = "vario/report.md"
LONGEST = 5000
"""Characters of a tag that every store of MLflow takes."""
PATIENCE = 10.0
"""Seconds to wait for a sign of life: the client itself tries for minutes."""


@dataclass(frozen=True, slots=True)
class InMlflow:
    """A run of a tracking server or store."""

    store: str
    run: str

    @classmethod
    def at(cls, address: str) -> InMlflow:
        """The run of `mlflow+URI/RUN_ID`, where URI is what MLflow takes as its tracking URI.

        Raises:
            ConfigError: no run is named.
        """
        store, _, run = address.removeprefix("mlflow+").rstrip("/").rpartition("/")
        if not run.isalnum() or "://" not in store or store.endswith(("/", ":")):
            raise ConfigError(
                f"--to {address}: expected mlflow+http://HOST/RUN_ID, mlflow+sqlite:///FILE/RUN_ID or mlflow+file:///FOLDER/RUN_ID"
            )
        return cls(store, run)

    def places(self, annotation: Annotation) -> Iterator[tuple[str, str]]:
        """Tags, and one artifact."""
        for name, text in _tags(annotation).items():
            yield f"run {self.run}: tag {name}", text
        yield f"run {self.run}: artifact {REPORT}", annotation.report

    def write(self, annotation: Annotation) -> None:
        """Set the tags and log the report.

        Raises:
            NotDelivered: MLflow's client is not installed, or the store does not take it.
        """
        try:
            from mlflow import MlflowClient
            from mlflow.exceptions import MlflowException
        except ImportError as error:
            raise NotDelivered(f"{self.store}: needs `pip install 'vario[mlflow]'`") from error
        _is_there(self.store)
        lacking = [name for name in OF_DATABASES if find_spec(name) is None]
        if lacking and urlsplit(self.store).scheme not in ("http", "https", "file"):
            raise NotDelivered(
                f"{self.store}: a database without a server before it needs all of MLflow: `pip install mlflow` "
                f"(there is no {', '.join(lacking)})"
            )
        tags = _tags(annotation)
        try:
            client = MlflowClient(tracking_uri=self.store)
            before = client.get_run(self.run).data.tags
            for name, text in tags.items():
                client.set_tag(self.run, name, text)
            for name in before:
                if name.startswith(OURS) and name not in tags:
                    client.delete_tag(self.run, name)
            client.log_text(self.run, annotation.report, REPORT)
        except (MlflowException, OSError) as error:
            raise NotDelivered(
                f"{self.store}: does not take it ({_one_line(error)}); check the address and your credentials"
            ) from error


def _tags(annotation: Annotation) -> dict[str, str]:
    return {entry.name.replace("/", "."): entry.text[:LONGEST] for entry in annotation.entries}


def _is_there(store: str) -> None:
    """A store that is not there must not be made, and a server that does not answer is said at once."""
    address = urlsplit(store)
    if address.scheme in ("http", "https"):
        try:
            with urlopen(f"{store}/health", timeout=PATIENCE):
                return
        except HTTPError as error:
            error.close()  # it answers, and may want what only the client knows
        except (URLError, OSError, ValueError) as error:
            raise NotDelivered(f"{store}: nothing answers there ({getattr(error, 'reason', error)})") from error
    elif address.scheme in ("sqlite", "file"):
        # sqlite:///relative and sqlite:////absolute, as SQLAlchemy has them
        path = Path(unquote(address.path[1:] if address.scheme == "sqlite" else address.path))
        if not path.exists():
            raise NotDelivered(f"{store}: there is no {path}")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]

"""W&B: entries of a run's summary, through its public API. Entries that an earlier writing left and that hold no more go.

An offline folder is not written to: its file belongs to the client, and a second folder of the same run would be synced
with a summary of its own, which the server takes for the run's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vario.errors import ConfigError
from vario.surfaces.annotations.entries import OURS, Annotation
from vario.surfaces.outward import NotDelivered


@dataclass(frozen=True, slots=True)
class InWandb:
    """A run of a W&B server."""

    path: str

    @classmethod
    def at(cls, address: str) -> InWandb:
        """The run of `wandb://entity/project/run`.

        Raises:
            ConfigError: no run is named.
        """
        parts = address.removeprefix("wandb://").strip("/").split("/")
        if len(parts) != 3 or not all(parts):
            raise ConfigError(f"--to {address}: expected wandb://entity/project/run; sync an offline run first")
        return cls("/".join(parts))

    def places(self, annotation: Annotation) -> Iterator[tuple[str, str]]:
        """Entries of the summary."""
        for name, text in _summary(annotation).items():
            yield f"{self.path}: summary {name}", text

    def write(self, annotation: Annotation) -> None:
        """Update the summary.

        Raises:
            NotDelivered: W&B's client is not installed, nobody is logged in, or there is no such run.
        """
        try:
            import wandb
        except ImportError as error:
            raise NotDelivered(f"wandb://{self.path}: needs `pip install 'vario[wandb]'`") from error
        try:
            run = wandb.Api().run(self.path)
            made = _summary(annotation)
            for name in [n for n in run.summary.keys() if n.startswith(OURS) and n not in made]:  # noqa: SIM118
                del run.summary[name]
            run.summary.update(made)
        except Exception as error:  # the client raises errors of its own, of its transport and of its login
            raise NotDelivered(
                f"wandb://{self.path}: W&B does not take it ({type(error).__name__}: {' '.join(str(error).split())[:200]}); "
                "check `wandb login` and the name"
            ) from error


def _summary(annotation: Annotation) -> dict[str, str]:
    return {entry.name: entry.text for entry in annotation.entries}

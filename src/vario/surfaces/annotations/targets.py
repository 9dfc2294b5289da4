"""`--to TARGET`: which tracker, by how its address begins."""

from __future__ import annotations

from vario.errors import ConfigError
from vario.surfaces.annotations.entries import Target

FORMS = "wandb://entity/project/run, trackio://project/run, mlflow+URI/RUN_ID or tensorboard:FOLDER"


def target_at(address: str) -> Target:
    """The target at an address.

    Raises:
        ConfigError: it names no tracker, or not one run of it.
    """
    # each is loaded when it is meant: none of them needs the others' clients
    if address.startswith("wandb://"):
        from vario.surfaces.annotations.in_wandb import InWandb

        return InWandb.at(address)
    if address.startswith("trackio://"):
        from vario.surfaces.annotations.in_trackio import InTrackio

        return InTrackio.at(address)
    if address.startswith("mlflow+"):
        from vario.surfaces.annotations.in_mlflow import InMlflow

        return InMlflow.at(address)
    if address.startswith("tensorboard:"):
        from vario.surfaces.annotations.in_tensorboard import InTensorboard

        return InTensorboard.at(address)
    raise ConfigError(f"--to {address}: expected {FORMS}")

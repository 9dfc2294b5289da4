"""Readers: one file per format. The table below is all there is; order is priority in recognising."""

from __future__ import annotations

from types import ModuleType

from vario.sources.readers import (
    console,
    csv_rows,
    json_document,
    jsonl,
    mlflow_database,
    notebook,
    parquet,
    tensorboard,
    trackio,
    trainer_state,
    wandb_offline,
)

READERS: tuple[ModuleType, ...] = (
    trackio,
    mlflow_database,
    parquet,
    wandb_offline,
    tensorboard,
    trainer_state,
    notebook,
    jsonl,
    json_document,
    csv_rows,
    console,
)
"""Each has `recognises(path, head) -> bool` and `read(path) -> Table`; those that read as bytes come
have `start(path) -> Parser`; those of lines have `finish(parser, path) -> Table`, with which a file that grows is read
on (`growing`); those whose files hold several runs have `runs(path)` and `read(path, run)`."""

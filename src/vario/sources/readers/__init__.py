"""Readers: one file per format. The table below is all there is; order is priority."""

from __future__ import annotations

from types import ModuleType

from vario.sources.readers import jsonl, trainer_state

READERS: tuple[ModuleType, ...] = (trainer_state, jsonl)
"""Each has `recognises(path, head) -> bool` and `read(path) -> Table`."""

"""Unsloth: TRL's trainers, patched: `kl` is always logged and `entropy` never."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vario.run import Setting
from vario.sources.dialects import trl


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """The old `completion_length` beside keys that TRL only has since it dropped that one."""
    modern = any(
        k.startswith(("completions/", "sampling/")) or (k.startswith("rewards/") and k.endswith("/mean")) for k in keys
    )
    return "completion_length" in keys and modern and "reward" in keys


DIALECT = replace(trl.DIALECT, name="unsloth", recognises=recognises)

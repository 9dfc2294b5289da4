"""The layouts of dumps; the first that recognises a file wins, the most particular first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vario.sources.rollouts.layouts import (
    areal,
    art,
    generic,
    ms_swift,
    nemo_rl,
    open_instruct,
    prime_rl,
    rllm,
    skyrl,
    slime,
    tinker,
    trl,
    verl,
)
from vario.sources.rollouts.layouts.base import Grouping, Layout

__all__ = ["LAYOUTS", "Grouping", "Layout", "by_key", "layout_of", "prefer"]

LAYOUTS: tuple[Layout, ...] = (
    trl.LAYOUT,
    areal.LAYOUT,
    areal.ELSEWHERE,
    verl.V1_VALIDATION,
    verl.V1,
    verl.V0_VALIDATION,
    verl.V0,
    nemo_rl.LAYOUT,
    skyrl.LAYOUT,
    slime.LAYOUT,
    prime_rl.EPISODES,
    prime_rl.TRACES,
    prime_rl.STANDALONE,
    prime_rl.RESULTS,
    open_instruct.LAYOUT,
    tinker.LAYOUT,
    art.TABLE,
    art.GROUPS,
    ms_swift.MEGATRON,
    ms_swift.LAYOUT,
    ms_swift.OLD,
    rllm.LAYOUT,
)


def by_key(key: str) -> Layout:
    """The layout of that key."""
    return next(one for one in (*LAYOUTS, generic.LAYOUT, generic.BY_GROUP) if one.key == key)


def layout_of(path: str, keys: Iterable[str]) -> Layout | None:
    """The layout of a file by its place and the keys of its first object; None if it holds no samples."""
    held = set(keys)
    for layout in LAYOUTS:
        if layout.recognises(path, held):
            return layout
    return generic.layout_of(held)


def prefer(paths: Sequence[str]) -> list[str]:
    """Leave out files that tell again, and less well, what another of them tells."""
    return art.prefer(prime_rl.prefer(paths))

"""Words: how many of a group's word sequences are the only ones of their kind."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from vario.sources.rollouts.bytes import Floats, Ints

WINDOW = 256
"""Words at the start of each completion that are compared: a share of distinct sequences falls with length otherwise."""
ORDER = 4
"""Words in a sequence."""
CHUNK = 2 << 20
"""Bytes of text that are taken apart at a time: each word costs some forty bytes on the way."""
WORD = r"[0-9A-Za-z_]+|[^\s0-9A-Za-z_]"
"""A run of ASCII letters, digits and underscores, or one other character that is no blank (so that Chinese has words)."""


def distinct_share(texts: pl.Series, group: Ints, groups: int) -> Floats:
    """Distinct word 4-grams over all 4-grams of a group, its completions' first 256 words each; shape (groups,).

    NaN for a group whose completions are all shorter than four words.

    Args:
        texts: n completions.
        group: number of each completion's group, shape (n,), below `groups`.
        groups: how many there are.
    """
    made = np.full(groups, np.nan)
    order = np.argsort(group, kind="stable")
    size = np.cumsum(texts.str.len_bytes().fill_null(0).to_numpy()[order])
    # a chunk holds whole groups
    chunk = (size // CHUNK)[np.searchsorted(group[order], group[order])]
    edges = np.flatnonzero(np.diff(chunk, prepend=-1, append=-1))
    for first, last in pairwise(edges.tolist()):
        rows = order[first:last]
        _count(texts[rows], group[rows], made)
    return made


def _count(texts: pl.Series, group: Ints, made: Floats) -> None:
    """Put the share of each group of these texts in its place."""
    words = (
        pl.DataFrame({"text": texts, "row": np.arange(len(texts))})
        .lazy()
        .select("row", word=pl.col("text").str.extract_all(WORD).list.head(WINDOW))
        .explode("word")
        .drop_nulls("word")  # of texts without a word
        .select("row", word=pl.col("word").hash())
        .collect()
    )
    count = words.height - ORDER + 1
    if count < 1:
        return
    word, row = words["word"].to_numpy(), words["row"].to_numpy()
    grams = np.zeros(count, dtype=np.uint64)
    for offset in range(ORDER):
        grams = _mixed(grams + word[offset : count + offset])
    whole = row[:count] == row[ORDER - 1 :]
    found = (
        pl.DataFrame({"group": group[row[:count][whole]], "gram": grams[whole]})
        .group_by("group")
        .agg(share=pl.col("gram").n_unique() / pl.len())
    )
    made[found["group"].to_numpy()] = found["share"].to_numpy()


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread the bits, so that the order of the words counts and sums do not collide."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray(values ^ (values >> np.uint64(27)))

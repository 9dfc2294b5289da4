"""Characters: which completions hold what no text has, or a script that nobody asked in; how even their letters are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from vario.sources.rollouts.bytes import Floats, Texts

WINDOW = 2_000
"""Bytes at the end over which the entropy of characters is taken: a fixed window, since entropy grows with length."""
FOREIGN = 2
"""Letters of a script that the prompts do not use: one may be a name or a symbol, two are a word."""

_SCRIPTS: tuple[tuple[int, int, int], ...] = (
    # first and last code point of blocks of 128, and a script's number; all else (Latin, Greek as in formulas,
    # symbols, emoji) is common to every text. Unicode's own block table.
    (0x0400, 0x052F, 1),  # Cyrillic
    (0x0530, 0x058F, 2),  # Armenian
    (0x0590, 0x05FF, 3),  # Hebrew
    (0x0600, 0x077F, 4),  # Arabic
    (0x0900, 0x0DFF, 5),  # the scripts of India
    (0x0E00, 0x0EFF, 6),  # Thai, Lao
    (0x1000, 0x109F, 7),  # Myanmar
    (0x10A0, 0x10FF, 8),  # Georgian
    (0x1100, 0x11FF, 9),  # Hangul
    (0x1200, 0x137F, 10),  # Ethiopic
    (0x1780, 0x17FF, 11),  # Khmer
    (0x3040, 0x30FF, 12),  # Kana
    (0x3130, 0x318F, 9),
    (0x3400, 0x4DBF, 13),  # Han
    (0x4E00, 0x9FFF, 13),
    (0xAC00, 0xD7AF, 9),
    (0xF900, 0xFAFF, 13),
    (0xFB50, 0xFDFF, 4),
    (0xFE70, 0xFEFF, 4),
    (0xFF60, 0xFF9F, 12),
    (0x20000, 0x2FFFF, 13),
)
SCRIPTS = 16
ROWS = 512
"""Texts at a time, for the sake of memory."""
REPLACED, PRIVATE_FIRST, PRIVATE_LAST = 0xFFFD, 0xE000, 0xF8FF
HARMLESS = frozenset({0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x1B})
"""Control characters that texts do have: tabs, ends of lines and pages, and the escape of terminals."""


@cache
def _table() -> NDArray[np.uint8]:
    """The script of every code point, 16 at a time."""
    table = np.zeros(0x110000 >> 4, dtype=np.uint8)
    for first, last, script in _SCRIPTS:
        table[first >> 4 : (last >> 4) + 1] = script
    return table


def garbled(texts: Texts, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether a text holds a replacement, private-use or control character, or a script that is not `known`.

    Args:
        texts: n completions.
        known: scripts that the prompts use, shape (n, SCRIPTS).
    """
    found = np.zeros(len(texts), dtype=bool)
    found[texts.holding(np.flatnonzero(_control()[texts.data]))] = True
    for row, points in _beyond_ascii(texts):
        counted = np.bincount(_table()[points >> 4], minlength=SCRIPTS)
        odd = (points == REPLACED) | ((points >= PRIVATE_FIRST) & (points <= PRIVATE_LAST)) | (points < 0xA0)
        found[row] |= bool(odd.any() or (counted[1:][~known[row, 1:]] >= FOREIGN).any())
    return found


def scripts(texts: Texts) -> NDArray[np.bool_]:
    """Which scripts each text uses, shape (n, SCRIPTS); the first stands for what is common to all."""
    used = np.zeros((len(texts), SCRIPTS), dtype=bool)
    for row, points in _beyond_ascii(texts):
        used[row, _table()[points >> 4]] = True
    used[:, 0] = True
    return used


def entropy(texts: Texts) -> Floats:
    """Entropy in bits of the bytes in the last 2,000 of each text, shape (n,); NaN for an empty text."""
    made = [_entropy(texts.part(first, first + ROWS)) for first in range(0, len(texts), ROWS)]
    return np.concatenate([np.zeros(0), *made])


def _entropy(texts: Texts) -> Floats:
    tails = texts.tails(WINDOW)
    size = np.minimum(texts.sizes, WINDOW)
    rows = np.arange(1, 257 * len(texts), 257)[:, None]
    counts = np.bincount((rows + tails).ravel(), minlength=257 * len(texts)).reshape(-1, 257)[:, 1:]
    share = counts / np.maximum(size, 1)[:, None]
    bits = -(share * np.log2(share, out=np.zeros_like(share), where=share > 0)).sum(axis=1)
    return np.where(size > 0, bits + 0.0, np.nan)


@cache
def _control() -> NDArray[np.bool_]:
    """Which bytes are control characters that no text has."""
    made = np.zeros(256, dtype=bool)
    made[:0x20] = made[0x7F] = True
    made[list(HARMLESS)] = False
    return made


def _beyond_ascii(texts: Texts) -> Iterator[tuple[int, NDArray[np.uint32]]]:
    """The code points beyond ASCII of the texts that have any; most texts have none, and cost next to nothing here."""
    for row in np.unique(texts.holding(np.flatnonzero(texts.data >= 0x80))):
        raw = texts.data[texts.starts[row] : texts.ends[row]].tobytes()
        points = np.frombuffer(raw.decode("utf-8", "replace").encode("utf-32-le"), dtype=np.uint32)
        yield int(row), points[points >= 0x80]

"""Compression: how much a group's completions have in common, and how much a text repeats itself."""

from __future__ import annotations

from collections.abc import Sequence

import zstandard

LEVEL = 3
"""Of zstd: agrees with slow overlap scores (rank correlation -.99 with 4-gram Jaccard, methods) at 200 MB/s."""


class Packer:
    """Sizes after compression. One compressor is kept; its frame's own bytes are taken off."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=LEVEL, write_content_size=False)
        self._frame = len(self._compressor.compress(b""))

    def size(self, text: bytes) -> int:
        """Bytes of the compressed text; 0 for none."""
        return len(self._compressor.compress(text)) - self._frame if text else 0

    def group_diversity(self, texts: Sequence[bytes]) -> float | None:
        """Compressed size of the texts together over the sum of their sizes apart; None without two texts.

        1/n for n equal texts, about .9 for unrelated ones.
        """
        apart = sum(map(self.size, texts))
        return self.size(b"\n".join(texts)) / apart if apart and len(texts) > 1 else None

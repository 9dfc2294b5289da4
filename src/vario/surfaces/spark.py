"""Small pictures in text. They use the metric's own range, so that picture and sentence agree."""

from __future__ import annotations

from collections.abc import Sequence

from vario.catalogue import lookup

BARS = "▁▂▃▄▅▆▇█"
FLAT_SHARE = 0.25


def sparkline(name: str, values: Sequence[float], noise: float, width: int = 24) -> str:
    """A row of bars; a metric that only makes noise is drawn flat, not scaled to its noise."""
    if not values:
        return ""
    n = min(width, len(values))
    blocks = [values[round(i * len(values) / n) : round((i + 1) * len(values) / n)] for i in range(n)]
    means = [sum(b) / len(b) for b in blocks]
    low, high = min(means), max(means)
    metric = lookup(name)
    if metric.low == 0.0:
        low = min(low, 0.0)
    span = max(high - low, 4.0 * noise, FLAT_SHARE * abs(high), 1e-12)
    return "".join(BARS[min(len(BARS) - 1, max(0, int((m - low) / span * len(BARS))))] for m in means)

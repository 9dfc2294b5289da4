"""SG105 gradient-zero-despite-signal."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Gradient, Signal
from vario.rules.base import Evidence, Severity, Sign, percent, rule


@rule(
    "SG105",
    "gradient-zero-despite-signal",
    Severity.CRITICAL,
    holds=2,
    causes=("frozen or detached parameters", "a sharding or engine bug", "weights that never reach the loss"),
    explains=("policy-does-not-move", "reward-never-rises", "kl-pinned-near-zero", "gradient-vanished"),
)
def gradient_zero_despite_signal(signal: Signal, gradient: Gradient) -> Iterator[Sign]:
    """Groups differ, yet the gradient is exactly zero.

    What it shows:
        At least ten logged steps with a zero gradient while less than 95 % of the groups are tied.
    Why it matters:
        The path from reward to weights is cut: a bug, not a difficulty.
    Evidence:
        Both values over the same steps.
    Looks like it but is not:
        All groups tied (no advantage: then zero is right); a learning rate of zero still has a gradient.
    What to change:
        Check trainable parameters, sharding stage and versions; run ten steps on one device.
    How sure:
        High.
    References:
        taxonomy of public threads, no_gradient_bug (7 threads)
    """
    if signal.zero_share is None and signal.within is None:
        return
    dead = signal.dead_share
    if dead is not None and dead >= 0.95:
        return
    since = gradient.norm.since_below(1e-12)
    if since is not None and gradient.norm.points_since(since) >= 10:
        yield Evidence(
            f"gradient/norm is exactly 0 since step {since} while groups differ"
            + (f" ({percent(dead)} are tied)" if dead is not None else ""),
            ("gradient/norm", signal.reading.name),
            since,
        )

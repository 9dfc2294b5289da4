"""GR109 attention-entropy-collapsing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vario.instruments import AttentionEntropy, Gradient, Length, Reading
from vario.rules.base import Doubt, Evidence, Excluded, Grave, Severity, Sign, lower, number, percent, raise_, rule

LEAST = 40
LEFT = 0.5
"""Compared with its own start: layers differ by an order of magnitude, runs of one model hardly at all."""
GRADIENT_GREW = 2.0


@rule(
    "GR109",
    "attention-entropy-collapsing",
    Severity.WARNING,
    holds=3,
    causes=("a learning rate that the attention logits do not bear", "warm-up too short", "very long repetitions"),
    turns=(
        lower("learning-rate", "attention logits grow with the step size"),
        raise_("warmup", "smaller first steps"),
        lower("max-grad-norm", "bounds what one batch can do"),
    ),
)
def attention_entropy_collapsing(
    attention: AttentionEntropy, length: Length | None, gradient: Gradient | None
) -> Iterator[Sign]:
    """Attention narrows to single tokens.

    What it shows:
        Mean attention entropy, or that of the narrowest layer, falls to half of its start, further than a change
        of length explains. A warning where the gradient grows with it; information without.
    Why it matters:
        Attention that looks at one token has steep gradients: it goes before losses that diverge, in training of
        every kind.
    Evidence:
        Entropy at first and now, the gradient norm over the same steps.
    Looks like it but is not:
        Shorter samples: attention over fewer tokens has less entropy to begin with. A layer that was narrow from
        the first step, as those that attend to the first token are. A slow decline by a fifth.
    What to change:
        A smaller learning rate or a longer warm-up; then a smaller gradient bound.
    How sure:
        Medium; the rule has been tried on drawn curves only, for no trainer logs this by itself.
    References:
        Zhai et al. 2023, arXiv 2303.06296: attention entropy collapse goes with unstable training
    """
    tried = [r for r in (attention.mean, attention.lowest) if r is not None]
    reading = next((r for r in tried if _collapsed(r)), None)
    if reading is None:
        return
    if length is not None and length.mean.start > 1.0 and length.mean.level > 1.0:
        explained = float(np.log(length.mean.level) / np.log(length.mean.start))
        if reading.level > LEFT * explained * reading.start:
            return
        yield Excluded(f"not shorter samples: these explain a fall to {percent(min(explained, 1.0))} of it")
    else:
        yield Doubt("the length of the samples is not known, and entropy falls with it")
    since = reading.onset_of_move()
    yield Evidence(
        f"{reading.name} fell from {number(reading.start)} to {number(reading.level)} nats", (reading.name,), since
    )
    if gradient is not None and gradient.norm.rises() and gradient.norm.level > GRADIENT_GREW * gradient.norm.start:
        yield Evidence(
            f"gradient/norm grew from {number(gradient.norm.start)} to {number(gradient.norm.level)}",
            ("gradient/norm",),
        )
    else:
        yield Grave(Severity.INFO)


def _collapsed(reading: Reading) -> bool:
    return reading.points >= LEAST and reading.fell() and reading.level < LEFT * reading.start

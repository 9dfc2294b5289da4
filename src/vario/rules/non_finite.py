"""GR101 non-finite."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Record
from vario.rules.base import Doubt, Evidence, Grave, Severity, Sign, counted, lower, rule

VITAL = ("gradient/norm", "loss/", "kl/", "entropy/", "preference/")


@rule(
    "GR101",
    "non-finite",
    Severity.CRITICAL,
    holds=1,
    lasting=True,
    causes=(
        "fp16 overflow",
        "a token id or mask mismatch (in several turns: token ids are passed on, not text tokenised again)",
        "an exponential in the KL estimate",
        "a batch split to zero size",
    ),
    turns=(lower("learning-rate", "only if gradients grew before it"), lower("max-grad-norm", "a guard, not a cure")),
    explains=("gradient-vanished", "reward-missing"),
)
def non_finite(record: Record) -> Iterator[Sign]:
    """NaN or infinity in loss, gradient, KL or entropy.

    What it shows:
        Non-finite values in a vital metric: which one, first at which step, how often.
    Why it matters:
        A NaN in the weights never heals: every later checkpoint is dead.
    Evidence:
        The first metric to go, its step, and the count.
    Looks like it but is not:
        Isolated NaN gradients under fp16 loss scaling (the step is skipped); an empty class in a batch;
        a loss logged as 0.0 at a NaN step.
    What to change:
        Restore the last finite checkpoint; find the first non-finite tensor, not the last.
    How sure:
        High when it is the newest row or repeats; medium for an isolated one that recovered.
    References:
        taxonomy of public threads, nan_grad (25 threads)
    """
    found = {n: s for n, s in record.non_finite().items() if n.startswith(VITAL)}
    if not found:
        return
    first = min(found, key=lambda n: found[n][0])
    last = max(s[-1] for s in found.values())
    reading = record.find(first, least=1)
    recovered = (
        reading is not None and reading.points > 0 and int(reading.steps[-1]) > last and reading.points_since(last) > 20
    )
    for name in sorted(found, key=lambda n: found[n][0])[:4]:
        yield Evidence(
            f"{name} is not finite at {counted(len(found[name]), 'step')}, first at step {found[name][0]}",
            (name,),
            found[first][0],
        )
    norm = record.find("gradient/norm", least=1)
    bad = {s for steps in found.values() for s in steps}
    if (
        norm is not None
        and not norm.bad_steps.size
        and bad <= set(norm.steps.tolist())
        and all(n.startswith(("loss/", "preference/")) for n in found)
    ):
        yield Grave(Severity.WARNING)
        yield Doubt(
            "the gradient is finite at each of these steps: an average over an empty class in the batch, perhaps, and not the weights"
        )
    if recovered:
        yield Grave(Severity.WARNING)
        yield Doubt("finite again since: a skipped step, perhaps")

"""TX102 outputs-repeat."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Repetition, Truncation
from vario.rules.base import Doubt, Evidence, Grave, Severity, Sign, lower, percent, raise_, rule, set_

HIGH = 0.2
"""Published monitors warn from .2 to .3; loops filled under .01 of prose and code in the project's own measurement."""
GAIN = 0.15
"""What it must have gained over the first batches: tables and lists repeat from the start."""
MOSTLY = 0.5
"""From here it is said whatever the start was: more loop than answer."""


@rule(
    "TX102",
    "outputs-repeat",
    Severity.WARNING,
    holds=2,
    causes=("the policy has drifted off its language", "an end token that is never produced", "repetition is paid"),
    turns=(
        lower("learning-rate", "from the last checkpoint without loops"),
        raise_("kl-coef", "holds to the reference, which does not loop"),
        set_("missing-eos-penalty", None, "makes an answer without an end cost something"),
    ),
)
def outputs_repeat(repetition: Repetition, truncation: Truncation | None) -> Iterator[Sign]:
    """The completions run into loops.

    What it shows:
        A fifth or more of the text lies in exact loops (or of the completions are one), well above the first
        batches; or half and more, whatever the start was.
    Why it matters:
        A looping policy is broken or is paid for tokens; it fills the cap, and every batch teaches it again.
    Evidence:
        The share then and now, and how many completions are cut.
    Looks like it but is not:
        A task whose answers repeat (tables, code, lists): the same share from the first batch on; completions
        that are cut but do not loop (truncation-high); a base model that loops and unlearns it.
    What to change:
        Go back to a checkpoint without loops; a smaller learning rate, some KL, a price for a missing end.
    How sure:
        High for a rise; lower where it was there from the start.
    References:
        taxonomy of public threads, gibberish and length_explosion
    """
    share = repetition.share
    rose = share.level >= HIGH and share.level >= share.start + GAIN
    if not rose and not (share.level >= MOSTLY and share.start >= MOSTLY - GAIN):
        return
    if not rose:
        yield Grave(Severity.INFO)
        yield Doubt("it was so from the first batches: the start model's habit, or the task's")
    what = "text lies in exact loops" if share.name == "text/repetition-share" else "completions are loops"
    yield Evidence(
        f"{percent(share.level)} of the {what}, {percent(share.start)} at the start",
        (share.name,),
        share.since_above(0.5 * (share.start + share.level)) if rose else int(share.steps[0]),
    )
    if truncation is not None and truncation.share.level >= HIGH:
        yield Evidence(f"{percent(truncation.share.level)} of completions are cut", ("length/truncated-share",))

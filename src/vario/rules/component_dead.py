"""RW113 component-dead."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Components, Reward
from vario.rules.base import Evidence, Excluded, Grave, Severity, Sign, counted, rule, set_

LEAST = 20


@rule(
    "RW113",
    "component-dead",
    Severity.WARNING,
    causes=("its parser finds nothing", "completions are cut before it can score", "the task is out of reach"),
    turns=(set_("max-completion-length", None, "if completions are cut"),),
)
def component_dead(components: Components, reward: Reward) -> Iterator[Sign]:
    """One reward function is zero for every sample while others move.

    What it shows:
        A weighted component that has been exactly zero for at least 20 logged steps.
    Why it matters:
        Hard tasks give rare non-zero scores; exactly zero is far more often a parser than a difficulty.
    Evidence:
        Its value and the stretch; what the other components do meanwhile.
    Looks like it but is not:
        A hard task with rare successes; a penalty that never has to act; a decoration
        that never scored in a run that learns all the same (information); a component logged with weight 0.
    What to change:
        Run the function by hand on stored completions.
    How sure:
        High for zero since the start; a fall to zero mid-run is reward-function-broke.
    References:
        taxonomy of public threads, reward_zero
    """
    if len(components.means) < 2 or reward.total.constant:
        return
    for name in components.weighted:
        if components.weights.get(name, 1.0) < 0.0:
            continue  # a penalty that never has to act
        reading = components.means[name]
        zero_from = reading.since_below(1e-9) if float(reading.values.min()) >= 0.0 else None
        if zero_from is None or reading.points_since(zero_from) < LEAST:
            continue
        if float(reading.values[-LEAST:].max()) > 1e-9:
            continue
        if zero_from <= int(reading.steps[0]) and reward.rises():
            yield Grave(Severity.INFO)
            yield Excluded(
                "it has always been zero and the run learns without it: decoration, or a parser that never worked"
            )
        yield Evidence(
            f"{name} is exactly 0 since step {zero_from} ({counted(reading.points_since(zero_from), 'step')})",
            (reading.name,),
            zero_from,
        )

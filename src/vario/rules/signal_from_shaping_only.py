"""SG107 signal-from-shaping-only."""

from __future__ import annotations

from collections.abc import Iterator

from vario.errors import NotReadable
from vario.instruments import Reward, Shaping
from vario.rules.base import Doubt, Evidence, Grave, Severity, Sign, number, percent, raise_, rule, set_

SOME = 0.25
MOST = 0.5
"""Of the groups that carry an advantage at all."""
LEAST = 20
LONG = 60
"""Points without a single right answer: in the first twenty a format is often learnt before the task."""
RUN_SHARE = 0.25


@rule(
    "SG107",
    "signal-from-shaping-only",
    Severity.WARNING,
    holds=3,
    causes=(
        "groups are filtered, or advantages made, from the shaped reward",
        "the task is too hard while a form is easy",
        "the task's parser fails on every answer",
    ),
    turns=(
        set_("dynamic-filter", True, "drop groups by the task's own reward, before shaping"),
        set_("component-weight", None, "gate: pay the form only where the task is met, instead of adding it"),
        raise_("group-size", "more tries: a right one among them"),
    ),
)
def signal_from_shaping_only(shaping: Shaping, reward: Reward | None) -> Iterator[Sign]:
    """What is being learnt is only the shaping: nobody meets the task.

    What it shows:
        Groups in which all answers fail the task and differ in length or format alone make most of the groups
        with an advantage; or the task's reward function is 0 for every completion while a form still differs.
    Why it matters:
        Normalised by the group, crumbs of shaping become full-size advantages: short or well-formed wrong
        answers are reinforced. Public runs were destroyed so within 40 steps.
    Evidence:
        The share of such groups; or since when the task has been failed by all, and what still differs.
    Looks like it but is not:
        A format learnt first, with the task following; groups without any difference; a form that everybody has
        met, and so differs no more; a task reward that is low and not zero.
    What to change:
        Filter on the task's own reward; pay the form only where the task is met; larger groups.
    How sure:
        High from the samples; medium from the reward functions, whose kind is told by their names.
    References:
        taxonomy of public threads, shaped_or_noise_advantage (verl-recipe PR 125, NeMo-RL issue 2431)
    """
    share = shaping.share
    rising = reward is not None and reward.total.late is not None and reward.total.late.rises(0.1)
    if share is not None:
        alive = 1.0 - shaping.zero_share.level if shaping.zero_share is not None else 1.0
        if share.level < MOST * alive:
            return
        if share.points >= LEAST and share.level >= SOME:
            if rising:
                yield Grave(Severity.INFO)
                yield Doubt("the reward still rises: a form may be learnt before the task")
            yield Evidence(
                f"in {percent(share.level)} of the groups nobody meets the task and only the shaping differs"
                f" ({percent(alive)} have any difference)",
                (share.name,),
                share.since_above(0.5 * share.level),
            )
            return
        # few groups differ at all: whether anything but form ever told them apart, the functions themselves say
        if not shaping.tasks or not shaping.forms:
            return
    if not shaping.tasks or not shaping.forms:
        raise NotReadable(
            "signal/shaping-only-share", reason="which reward function is the task's cannot be told from their names"
        )
    components = shaping.components
    assert components is not None
    failed = [shaping.failed_since(n) for n in shaping.tasks]
    since = max((s for s in failed if s is not None), default=None)
    if since is None or None in failed:
        return
    task = components.means[shaping.tasks[0]]
    points = task.points_since(since)
    differing = [n for n in shaping.forms if shaping.differs(n)]
    if points < LEAST or points < RUN_SHARE * task.points or not differing:
        return
    if points < LONG or rising:
        yield Grave(Severity.INFO)
    yield Doubt("task and form are told apart by their names")
    yield Evidence(
        f"{' and '.join(shaping.tasks)} {'is' if len(failed) == 1 else 'are'} 0 for every completion"
        f" since step {since} ({points} logged rows)",
        (task.name,),
        since,
    )
    for name in differing:
        spread = components.stds.get(name) or components.means[name]
        yield Evidence(f"{name} still differs ({spread.name} {number(spread.level)})", (spread.name,))

"""What looks wrong but is fine: one function, one condition a note. The condition makes it fine, not the looks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vario.instruments import Gradient, Look, Preference, Reading, Reward


@dataclass(frozen=True, slots=True)
class Note:
    """A benign pattern, named, with the condition that makes it benign."""

    name: str
    text: str


def notes_of(look: Look) -> Iterator[Note]:
    """All notes that hold at this look."""
    yield from _loss(look)
    yield from _clip(look)
    yield from _kl(look)
    yield from _reward(look)
    yield from _gradient(look)
    yield from _between_prompts(look)
    yield from _filtered(look)
    yield from _preference(look)
    yield from _systems(look)


def _learns(look: Look) -> bool:
    reward = look.instrument(Reward)
    return isinstance(reward, Reward) and reward.rises()


def _gradient_alive(look: Look) -> bool:
    norm = look.find("gradient/norm")
    return norm is not None and float(np.max(norm.values[-20:])) > 1e-9


def _loss(look: Look) -> Iterator[Note]:
    loss = look.find("loss/total") or look.find("loss/policy")
    if loss is None or look.find("reward/mean") is None:
        return
    updates = look.history.run.declared.updates_per_rollout
    if abs(loss.level) < 1e-3 and updates == 1.0 and _gradient_alive(look):
        yield Note(
            "loss-zero-is-normal",
            f"the loss is {loss.level:.1g}: with one update per rollout and advantages centred in groups its value is near 0 while its gradient is not",
        )
    elif loss.shape is None and float(loss.values.min()) < 0.0 and _gradient_alive(look):
        yield Note(
            "loss-trend-is-not-progress",
            f"the loss is negative ({loss.values.min():.2g}): the surrogate has no sign of its own, and its value is no measure of progress",
        )
    elif loss.shape is not None and loss.shape.moved:
        rises = loss.shape.end > loss.shape.start
        name = "loss-rises-while-learning" if rises and _learns(look) else "loss-trend-is-not-progress"
        yield Note(
            name,
            f"the loss moved from {loss.shape.start:.2g} to {loss.shape.end:.2g}: the value of a policy loss is no measure of progress",
        )


def _clip(look: Look) -> Iterator[Note]:
    clip = look.find("clip/fraction/total", least=10)
    if clip is None:
        return
    if look.history.run.declared.updates_per_rollout == 1.0 and float(clip.values.max()) == 0.0:
        yield Note(
            "clip-zero-is-on-policy", "nothing is ever clipped: with one update per rollout the ratio is exactly 1"
        )
    low, high = look.find("clip/fraction/low", least=20), look.find("clip/fraction/high", least=20)
    if low is not None and high is not None and 0.0 < clip.level < 0.05:
        a, b = float(low.values[-20:].mean()), float(high.values[-20:].mean())
        if a > 0.0 and b > 0.0 and 0.33 < a / b < 3.0 and _learns(look):
            yield Note(
                "clipping-balanced-is-healthy",
                f"{100 * clip.level:.1f} % of tokens clip, both sides alike, while the reward rises",
            )


def _kl(look: Look) -> Iterator[Note]:
    declared = look.history.run.declared
    kl = look.find("kl/reference", least=1) or look.find("kl/reference/sequence", least=1)
    if kl is None and declared.kl_by_design is False:
        yield Note(
            "kl-not-logged-by-design",
            "the KL coefficient is 0, so no reference is loaded and no KL logged; drift is judged by entropy, length and text",
        )
    if kl is not None and int(kl.steps[0]) <= 1 and abs(float(kl.values[0])) < 1e-6 and kl.points > 1:
        yield Note("kl-zero-at-start", "KL is 0 at the first step: policy and reference are still the same model")


def _between_prompts(look: Look) -> Iterator[Note]:
    zero, within = look.find("signal/zero-variance-share"), look.find("reward/std/within-group")
    if not (
        (zero is not None and float(zero.values[-1]) == 1.0) or (within is not None and float(within.values[-1]) == 0.0)
    ):
        return
    for name in look.history.run.components():
        spread = look.find(f"reward/component/{name}/std")
        if spread is not None and float(spread.values[-1]) > 0.0:
            yield Note(
                "spread-between-prompts-only",
                f"{spread.key} is {spread.values[-1]:.3g} over the batch while no group differs inside: it lies between the prompts, and teaches nothing",
            )
            return


def _score_holds(look: Look) -> Reading | None:
    reward = look.find("reward/mean", least=24)
    if reward is None or reward.shape is None:
        return None
    return reward if reward.rises() or reward.level >= 0.95 * reward.high else None


def _reward(look: Look) -> Iterator[Note]:
    length = look.find("length/mean", least=24)
    reward = _score_holds(look)
    if length is not None and reward is not None and length.falls() and length.level < 0.85 * length.start:
        parts = [look.find(f"reward/component/{n}/mean", least=24) for n in look.history.run.components()]
        if not any(p is not None and p.falls() and p.high - p.level > 0.2 * abs(p.high) for p in parts):
            yield Note(
                "length-falls-with-accuracy",
                f"length fell from {length.start:.0f} to {length.level:.0f} tokens while no score fell: the model stopped rambling",
            )
    components = [c for n in look.history.run.components() if (c := look.find(f"reward/component/{n}/mean", least=24))]
    total = look.find("reward/mean", least=24)
    if total is not None and total.shape is not None and total.flat() and any(c.rises() for c in components):
        yield Note("reward-flat-but-learning", "the total stands while one of its parts still rises")
    if len(components) >= 2 and total is not None and total.rises():
        done = [c for c in components if c.shape is not None and c.shape.word == "plateau" and c.level > 0.9]
        going = [c for c in components if c.shape is not None and c.shape.word in ("rising", "slowing")]
        if done and going:
            yield Note(
                "components-learn-in-turn",
                f"{done[0].name.split('/')[2]} is learnt, {going[0].name.split('/')[2]} is being learnt",
            )


def _gradient(look: Look) -> Iterator[Note]:
    gradient = look.instrument(Gradient)
    if isinstance(gradient, Gradient) and gradient.clip_at and gradient.norm.level > gradient.clip_at:
        yield Note(
            "grad-norm-is-pre-clip",
            f"gradient norms of {gradient.norm.level:.2g} exceed the bound of {gradient.clip_at:.2g}: they are logged before clipping",
        )


def _filtered(look: Look) -> Iterator[Note]:
    run = look.history.run
    reward = look.find("reward/mean", least=10)
    if run.declared.reward_filtered is True and reward is not None:
        yield Note(
            "reward-filtered-by-design",
            f"{reward.key} is the reward of the groups that a filter kept: these are mixed by construction, so it stays in "
            f"the middle (now {reward.level:.2g}) however much is learnt; a held-out score shows that",
        )
    dropped = look.find("signal/groups-dropped", least=10)
    if dropped is not None and dropped.level > 0.0:
        yield Note(
            "groups-filtered-by-design",
            f"{dropped.level:.2g} groups a step are dropped for lack of spread ({dropped.key}): the filter costs samples, "
            "and the groups that are trained on all carry signal",
        )
        return
    tied = look.find("signal/zero-variance-share", least=10)
    filter_ = run.knobs.get("dynamic-filter")
    on = filter_ is not None and not filter_.is_default and filter_.current not in (None, False, 0, "", "none", "null")
    if filter_ is not None and on and tied is not None and tied.level > 0.3:
        yield Note(
            "groups-filtered-by-design",
            f"{100 * tied.level:.0f} % of the groups are tied, and {filter_.key} takes them out: no advantage is lost",
        )


def _preference(look: Look) -> Iterator[Note]:
    pairs = look.instrument(Preference)
    if not isinstance(pairs, Preference) or pairs.chosen is None or pairs.rejected is None:
        return
    if (
        pairs.chosen.level < pairs.chosen.start
        and pairs.rejected.falls()
        and pairs.margin.rises()
        and pairs.chosen.start - pairs.chosen.level < 0.34 * pairs.margin.level
    ):
        yield Note(
            "preference-both-fall-margin-rises",
            "chosen and rejected rewards both fall, the chosen one slowly, and the margin rises: usual for this loss",
        )


LESS_POWER = 0.7
"""Sampling token by token waits for memory, not for arithmetic: well below what the update draws."""
TIGHT, EASED = 0.9, 0.1
"""Share of the device that is worth a word, and how much emptier another phase must leave it."""


def _systems(look: Look) -> Iterator[Note]:
    low, high = look.find("systems/power/min", least=10), look.find("systems/power/max", least=10)
    generates = look.find("length/mean") is not None or look.find("systems/rollout-time") is not None
    # the update must draw what it always did: only another phase then draws less
    if low is not None and high is not None and generates and high.level > 0.9 * high.high:
        yield from _less_power(low.level, high.level)
    peak, least = look.find("systems/memory-share", least=10), look.find("systems/memory-share/low", least=10)
    if peak is not None and least is not None and peak.level > TIGHT and peak.level - least.level > EASED:
        yield Note(
            "memory-shifts-between-phases",
            f"memory is {100 * peak.level:.0f} % full at the peak of a step and {100 * least.level:.0f} % at its emptiest: it goes from one phase to the other, and is tight in one of them only",
        )


def _less_power(low: float, high: float) -> Iterator[Note]:
    if low < LESS_POWER * high:
        yield Note(
            "generation-power-low-is-normal",
            f"power goes down to {low:.0f} W within a step and up to {high:.0f} W: generation, token by token, draws less than the update",
        )

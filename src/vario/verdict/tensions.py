"""What seems to contradict, and how it is resolved: one function, one pair of signals that could be read two ways."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import Entropy, Kl, Look, Reward, Signal, Witness
from vario.rules.base import number, percent

NEAR_CEILING = 0.9
LITTLE_LEFT = 0.3
"""Share of the entropy of the start that is little."""
MOST_TIED = 0.5
HACKED = frozenset({"reward-hacking", "format-hacking", "length-hacking"})
"""Findings that a rise of the reward is no gain."""
MUCH_DEARER = 4.0
"""A saturating reward over a steady drift makes gains dearer by itself; a factor of four within a run is beyond that."""


def tensions_of(look: Look, trajectory: str, open_names: frozenset[str]) -> Iterator[str]:
    """Sentences, each with what decided."""
    reward = look.instrument(Reward)
    solved = isinstance(reward, Reward) and (reward.share_of_ceiling or 0.0) >= NEAR_CEILING
    yield from _entropy(look, reward if isinstance(reward, Reward) else None, solved, open_names)
    yield from _signal(look, solved, open_names)
    yield from _kl(look, trajectory, open_names)
    yield from _held_out(look, trajectory, open_names)


def _entropy(look: Look, reward: Reward | None, solved: bool, open_names: frozenset[str]) -> Iterator[str]:
    entropy = look.instrument(Entropy)
    if not isinstance(entropy, Entropy) or entropy.share_left > LITTLE_LEFT or reward is None:
        return
    if solved and "entropy-collapsing" not in open_names and reward.share_of_ceiling is not None:
        yield (
            f"entropy is near zero ({number(entropy.mean.level)}) because the task is solved "
            f"({percent(reward.share_of_ceiling)} of the ceiling): not a collapse"
        )
    elif "entropy-collapsing" in open_names and reward.rises():
        yield "the reward rises while entropy collapses: the gain is being bought with the last choices the policy has"


def _signal(look: Look, solved: bool, open_names: frozenset[str]) -> Iterator[str]:
    signal = look.instrument(Signal)
    dead = signal.dead_share if isinstance(signal, Signal) else None
    if dead is not None and dead >= MOST_TIED and solved and "signal-collapsed-unsolved" not in open_names:
        yield f"{percent(dead)} of the groups carry no advantage because they are solved: no fault, and little left to learn"


def _kl(look: Look, trajectory: str, open_names: frozenset[str]) -> Iterator[str]:
    kl = look.instrument(Kl)
    if not isinstance(kl, Kl):
        return
    if kl.still and HACKED & open_names:
        yield "KL is small and clears nothing: rewards can be wrong far from where KL looks"
    elif (
        kl.rises_late()
        and trajectory in ("rising", "slowing")
        and not (HACKED | {"kl-runaway", "kl-rises-without-reward", "reward-up-eval-not"}) & open_names
    ):
        dearer = _price_rises(kl, look)
        yield (
            f"KL climbs with the reward, and each gain costs {number(dearer)} times the KL that it did in the first half: "
            + _dearer_means(look)
            if dearer is not None
            else "KL climbs with the reward: paid for so far, no drift without gain"
        )


def _dearer_means(look: Look) -> str:
    """What a gain that becomes dearer means, as far as another score says."""
    witness = look.instrument(Witness)
    if not isinstance(witness, Witness):
        return "suspect overoptimisation; a held-out score would tell"
    if witness.score.rises():
        return f"{witness.source} rises with it, so it is dear, and still a gain"
    return f"suspect overoptimisation; {witness.source} does not rise with it"


def _price_rises(kl: Kl, look: Look) -> float | None:
    """How many times dearer a unit of reward has become in KL, first half to second; None while it is steady."""
    reward = look.find("reward/mean", least=48)
    if reward is None or reward.shape is None:
        return None
    half = int(reward.steps[reward.points // 2])
    early, late = reward.shape.middle - reward.shape.start, reward.shape.end - reward.shape.middle
    paid_early = kl.reference.level_at(half, 11) - kl.reference.start
    paid_late = kl.reference.level - kl.reference.level_at(half, 11)
    if early <= 0.0 or late <= 0.0 or paid_early <= 0.0 or paid_late <= 0.0:
        return None
    dearer = (paid_late / late) / (paid_early / early)
    return dearer if dearer >= MUCH_DEARER else None


def _held_out(look: Look, trajectory: str, open_names: frozenset[str]) -> Iterator[str]:
    witness = look.instrument(Witness)
    if not isinstance(witness, Witness) or witness.score.points < 6:
        return
    if trajectory in ("rising", "slowing") and {"reward-up-eval-not", "train-eval-overfit"} & open_names:
        yield f"the trained reward rises and {witness.source} does not: the latter is believed"
    elif trajectory in ("plateau", "noise") and witness.score.rises():
        yield f"the trained reward stands and {witness.source} rises: it still learns"

"""What the founding texts prescribe is what the rules prescribe, in their order, under each framework's own keys.

`PRESCRIBED` holds a row for each "if you see X, do Y" of the four texts, in our words. A knob is written with its
direction: `+` turn it up, `-` turn it down, `=` set it. `ADVISED` holds those whose Y is to stop or to go back,
which the verdict says; `LOOKED_AT` those whose Y is to look at something, which the rule's page says; `DECLINED`
those that the rules do not follow, each with the reason. `LACKING` says where a framework has no such knob.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from vario.rules import find_rule
from vario.rules.base import Fires, Turn
from vario.rules.engine import Incident
from vario.run import Setting
from vario.sources.dialects import DIALECTS
from vario.sources.dialects.base import Context, Dialect
from vario.verdict.advice import Situation, advise

TEXTS = {
    "000": "how a practitioner judges a run",
    "001": "instruments for GRPO",
    "002": "instruments for preference optimisation and RL",
    "003": "AReaL's guide to diagnosing RL performance",
}


@dataclass(frozen=True)
class Row:
    """`knobs` lead the rule's turns; where `leads` is False they stand among them in that order."""

    text: str
    seen: str
    rule: str
    knobs: tuple[str, ...]
    leads: bool = True


PRESCRIBED = (
    Row("003", "the importance weight is off 1 with several minibatches: fewer; with one: deterministic algorithms", "importance-weight-off-one", ("-minibatches", "=deterministic-kernels")),
    Row("003", "the behaviour weight is off 1: see that a cap is set; then a lower bound on staleness", "behaviour-weight-off-one", ("=behaviour-weight-cap", "-staleness-bound")),
    Row("003", "asynchrony is suspected: staleness 0, the engine's log-probabilities, the plain loss", "rollouts-too-stale", ("=staleness-bound", "=recompute-logprob", "=decoupled-loss")),
    Row("003", "rewards do not rise: a larger batch, or a larger learning rate", "reward-never-rises", ("+batch-size", "+learning-rate")),
    Row("003", "the training data are too hard or too easy in part: filter groups as they come", "few-groups-carry-signal", ("=dynamic-filter",)),
    Row("003", "the training reward fluctuates: a larger batch", "reward-variance-high", ("+batch-size",)),
    Row("003", "more than one in twenty is cut: allow longer answers; then leave the overlong out", "truncation-high", ("+max-completion-length", "=overlong-filter")),
    Row("002", "rewards are unstable: a lower learning rate or a larger KL penalty", "reward-variance-high", ("-learning-rate", "+kl-coef"), leads=False),
    Row("002", "the margin stops early: the learning rate may be too low", "margin-plateaued", ("+learning-rate",)),
    Row("002", "chosen and rejected rewards converge: the learning rate may be too high", "rewards-converge", ("-learning-rate",)),
    Row("002", "KL grows without bound: a larger KL penalty or a lower learning rate", "kl-runaway", ("+kl-coef", "-learning-rate")),
    Row("002", "KL stays near zero: a smaller KL penalty", "kl-pinned-near-zero", ("-kl-coef",)),
    Row("002", "KL is noisy: the learning rate is too high for this penalty", "kl-noisy", ("-learning-rate",)),
    Row("002", "the ratio leaves 1: a lower learning rate", "ratio-far-from-one", ("-learning-rate",)),
    Row("002", "too much is clipped: a lower learning rate, or with care a wider bound", "clip-fraction-high", ("-learning-rate", "+clip-high")),
    Row("002", "hardly anything is clipped: the learning rate may be very low", "clip-fraction-negligible", ("+learning-rate",)),
    Row("002", "clipping grows: updates become aggressive", "clip-fraction-growing", ("-learning-rate",)),
    Row("002", "answers grow: a price on length, or a normalisation", "length-growing", ("=length-penalty",)),
    Row("002", "lengths no longer vary: a higher temperature or an entropy bonus", "length-diversity-collapsing", ("+temperature", "+entropy-bonus")),
    Row("002", "many answers are cut: a higher limit", "truncation-high", ("+max-completion-length",)),
    Row("001", "the spread of rewards stays high: look at the reward function and the learning rate", "signal-not-declining", ("=learning-rate",)),
    Row("001", "many answers hit the limit, or mean and terminated length part: raise the limit", "truncation-high", ("+max-completion-length",)),
    Row("001", "length pays: an explicit penalty or a normalisation", "length-buys-reward", ("=length-penalty", "=loss-type")),
    Row("001", "rewards are often cut at their bounds: these are too narrow", "reward-clipped-often", ("=reward-bounds",)),
    Row("001", "unscaled rewards drift: recalibrate", "reward-scale-drifts", ("=reward-scaling",)),
    Row("001", "entropy falls too fast: an entropy bonus", "entropy-collapsing", ("+entropy-bonus",)),
    Row("001", "KL climbs steadily: a larger penalty or a lower learning rate", "kl-runaway", ("+kl-coef", "-learning-rate")),
    Row("001", "KL stays near zero: a smaller penalty; or the learning rate is too low", "kl-pinned-near-zero", ("-kl-coef", "+learning-rate")),
    Row("001", "KL rises while the reward falls: retune the penalty", "kl-rises-while-reward-falls", ("=kl-coef",)),
)  # fmt: skip

ADVISED: tuple[tuple[str, str, str, str, tuple[str, ...], str], ...] = (
    # text, what is seen, trajectory, regime, findings, action
    ("000", "KL rises while the reward falls: stop at once", "declining", "kl-up-reward-down", (), "stop"),
    ("000", "the reward peaked and fell: use the checkpoint at the peak", "peaked", "unknown", (), "stop"),
    ("000", "KL rises while the reward stands: the run has had its course", "plateau", "kl-up-reward-flat", ("kl-rises-without-reward",), "stop"),
    ("000", "KL and reward both stand: enough or not, that depends on the target", "plateau", "kl-flat-reward-flat", (), "cannot-tell"),
    ("000", "KL stands while the reward rises: the best there is", "rising", "kl-flat-reward-up", (), "continue"),
)  # fmt: skip

LOOKED_AT: tuple[tuple[str, str, str, str], ...] = (
    # text, what is seen, rule, what its page says to look at
    ("000", "the policy loss doubles or halves at once: find out what changed", "loss-discontinuity", "what changed at that step"),
    ("001", "the spread of rewards drops suddenly: a shortcut may have been found", "signal-dropped-suddenly", "what changed at that step"),
    ("001", "KL spikes: find out what is different about that batch", "kl-spike", "look at that batch"),
    ("001", "entropy spikes: gradients, or strange data", "entropy-spike", "look at that batch of data, and at the gradient norm"),
    ("001", "parts of the reward learn in turn: watch each for itself", "component-saturated", "weight"),
    ("002", "answers shrink: look at the distribution of rewards", "length-shrinking", "reward"),
    ("003", "no reward on easy data: the task may be too hard, supervised training first", "task-too-hard", "SFT before RL"),
)  # fmt: skip

DECLINED: tuple[tuple[str, str, str, str], ...] = (
    # text, what it says, rule, why the rule does not follow it
    ("000", "a policy loss that swings around zero: continuing is pointless", "policy-loss-without-direction",
     "with centred advantages and one update per rollout the loss is 0 by construction: a description only"),
    ("000", "a policy loss that turned negative: stop", "policy-loss-changed-sign",
     "below zero is where a surrogate belongs that its updates improve; with token means the sign is a preference in length"),
    ("001", "less than 1 % clipped: too conservative", "clip-fraction-negligible",
     "with one update per rollout exactly 0 is right: the rule asks for reuse first"),
    ("001", "entropy below 1: collapse", "entropy-collapsing",
     "reasoning runs begin below 1: the run is compared with its own start"),
    ("002", "a penalty on missing end tokens against answers that shrink", "length-shrinking",
     "the penalty pays for ending: it shortens, and is prescribed for loops and for answers that never end"),
    ("002", "KL above 1: stop", "kl-runaway",
     "the number has no unit: 1 nat a token is another model, 1 nat a sequence next to nothing"),
)  # fmt: skip


def turned(turn: Turn, wanted: str) -> bool:
    """Whether the turn is of that knob and in that direction; one that is left to the reader goes either way."""
    way, knob = wanted[0], wanted[1:]
    if turn.knob != knob:
        return False
    return way == "=" or turn.factor is None or (turn.factor > 1.0) == (way == "+")


@pytest.mark.parametrize("row", PRESCRIBED, ids=lambda r: f"{r.text}: {r.seen}")
def test_a_rule_prescribes_what_the_texts_do(row: Row) -> None:
    assert row.text in TEXTS
    turns = find_rule(row.rule).turns
    if row.leads:
        assert len(turns) >= len(row.knobs)
        assert all(map(turned, turns, row.knobs)), [t.knob for t in turns]
    else:
        left = iter(turns)
        assert all(any(turned(t, wanted) for t in left) for wanted in row.knobs), [t.knob for t in turns]


@pytest.mark.parametrize("case", ADVISED, ids=lambda c: c[1])
def test_the_verdict_says_stop_where_the_texts_do(case: tuple[str, str, str, str, tuple[str, ...], str]) -> None:
    _, _, trajectory, regime, names, action = case
    open_ = [Incident(find_rule(n), 1, 10, None, Fires(()), 200) for n in names]
    said = advise(Situation(trajectory, "high", regime, open_, False, frozenset({"kl", "entropy"})))
    assert said.action == action


@pytest.mark.parametrize("case", LOOKED_AT, ids=lambda c: c[1])
def test_a_page_says_where_to_look(case: tuple[str, str, str, str]) -> None:
    _, _, rule, words = case
    assert words in find_rule(rule).section("What to change").replace("\n", " ")


@pytest.mark.parametrize("case", DECLINED, ids=lambda c: c[1])
def test_what_is_not_followed_has_a_reason(case: tuple[str, str, str, str]) -> None:
    _, _, rule, why = case
    assert find_rule(rule)
    assert len(why.split()) > 8


ASYNCHRONOUS: Mapping[str, frozenset[str]] = {
    # keys by which a dialect knows that sampling runs beside training
    "verl": frozenset({"fully_async/total_wait_time"}),
    "nemo-rl": frozenset({"train/avg_trajectory_age"}),
    "skyrl": frozenset({"async/staleness_mean"}),
    "rllm": frozenset({"async/staleness_mean", "actor/pg_loss"}),
    "art": frozenset({"train/steps_off_policy"}),
    "tinker": frozenset({"async/staleness_mean"}),
}
FRAMEWORKS = tuple(d for d in DIALECTS if d.name != "generic")


def contexts(dialect: Dialect, config: Mapping[str, Setting] | None = None) -> Iterator[Context]:
    """Each trainer of a framework, in step and asynchronous."""
    told = {algorithm for alias in dialect.aliases for algorithm in alias.algorithms}
    for algorithm in sorted(told | {"grpo", "ppo", "dpo"}):
        for keys in (frozenset[str](), ASYNCHRONOUS.get(dialect.name, frozenset())):
            yield Context(keys, config or {}, algorithm, {})


def keys_of(dialect: Dialect) -> dict[str, set[str]]:
    """The framework's own key, or keys, for each knob."""
    found: dict[str, set[str]] = {}
    for context in contexts(dialect):
        for knob, setting in dialect.knobs(context).items():
            found.setdefault(knob, set()).add(setting.key)
    return found


KNOBS_OF_THE_TEXTS = sorted({wanted[1:] for row in PRESCRIBED for wanted in row.knobs})
LACKING: Mapping[str, tuple[str, str]] = {
    # knob: why, and the frameworks without it
    "batch-size": (
        "ART trains on the groups that the caller gathers: their number is an argument of the code",
        "art",
    ),
    "behaviour-weight-cap": (
        "no weight between trainer and sampler is applied, or its bounds are part of the loss",
        "deepspeed-chat llama-factory prime-rl tinker trlx verl-agent",
    ),
    "clip-high": (
        "the upper bound is a constant of the source or of the service, or the loss has another form",
        "llama-factory prime-rl tinker",
    ),
    "decoupled-loss": (
        "old log-probabilities come from one place by construction: there is no switch between two losses",
        "art axolotl deepspeed-chat llama-factory openrlhf prime-rl skyrl slime tinker trl trlx unsloth verl-agent",
    ),
    "deterministic-kernels": (
        "no setting of its own: kernels are chosen by environment variables, in the engine, or in the service",
        "art axolotl deepspeed-chat llama-factory nemo-rl open-instruct prime-rl ragen skyrl tinker trlx verl-agent",
    ),
    "dynamic-filter": (
        "groups are not resampled: without groups, by the caller's own code, or by a rank that has no switch",
        "art axolotl deepspeed-chat llama-factory ragen trlx verl-agent",
    ),
    "entropy-bonus": (
        "the loss has no entropy term; a price on certainty has to go into the reward",
        "areal art deepspeed-chat llama-factory ms-swift nemo-rl open-instruct prime-rl tinker trlx",
    ),
    "kl-coef": (
        "LLaMA-Factory leaves it to the default of the trainer beneath; prime-rl has no reference in its loss",
        "llama-factory prime-rl",
    ),
    "length-penalty": (
        "a price on length is a reward function of the user there, no setting",
        "art axolotl deepspeed-chat llama-factory open-instruct prime-rl ragen rllm skyrl slime tinker trl trlx unsloth verl-agent",
    ),
    "loss-type": (
        "tokens are aggregated in one way, which the source or the service fixes",
        "areal art deepspeed-chat tinker trlx",
    ),
    "max-completion-length": (
        "ART samples in the caller's own code: the cap is an argument of each request",
        "art",
    ),
    "minibatches": (
        "one update is made of each batch, or epochs are the only way to make more",
        "art axolotl prime-rl",
    ),
    "overlong-filter": (
        "cut answers cannot be left out by a setting: a filter in the user's code, or a penalty, stands for it",
        "areal art deepspeed-chat llama-factory openrlhf prime-rl ragen slime tinker trlx verl verl-agent",
    ),
    "recompute-logprob": (
        "the trainer always scores the samples itself, or the choice has a name that counts the other way (as slime's use_rollout_logprobs)",
        "art axolotl deepspeed-chat llama-factory ms-swift nemo-rl open-instruct openrlhf prime-rl ragen rllm skyrl slime tinker trl trlx unsloth verl verl-agent",
    ),
    "reward-bounds": (
        "rewards are taken as the reward function gives them: bounds belong into it",
        "art axolotl llama-factory ms-swift nemo-rl open-instruct prime-rl ragen rllm skyrl slime tinker verl verl-agent",
    ),
    "reward-scaling": (
        "advantages have one fixed scale there",
        "deepspeed-chat prime-rl tinker",
    ),
    "staleness-bound": (
        "sampling and training take turns, or the age of samples has no bound that can be set",
        "axolotl deepspeed-chat llama-factory ms-swift ragen slime trlx verl-agent",
    ),
    "temperature": (
        "an argument of the request in the caller's code (ART), a constant of the source (DeepSpeed-Chat)",
        "art deepspeed-chat",
    ),
}
SWITCHES: Mapping[tuple[str, str], Mapping[str, Setting]] = {
    # a setting that has no effect, and is not told, without its switch
    ("skyrl", "entropy-bonus"): {"trainer.algorithm.use_entropy_loss": True},
}


@pytest.mark.parametrize("knob", KNOBS_OF_THE_TEXTS)
def test_each_framework_names_the_knob_or_lacks_it_for_a_reason(knob: str) -> None:
    without = {d.name for d in FRAMEWORKS if knob not in keys_of(d)}
    why, listed = LACKING.get(knob, ("", ""))
    assert without == set(listed.split())
    assert bool(why.split()) == bool(listed)
    assert len(without) < len(FRAMEWORKS), "no framework has it: no rule could prescribe it to anybody"


@pytest.mark.parametrize("dialect", FRAMEWORKS, ids=lambda d: d.name)
def test_the_current_value_is_the_configured_one(dialect: Dialect) -> None:
    for knob, keys in keys_of(dialect).items():
        if knob not in KNOBS_OF_THE_TEXTS:
            continue
        for key in keys:
            if " (in " in key:
                continue  # a constant of the source: no configuration holds it
            config = {key: 0.125} | dict(SWITCHES.get((dialect.name, knob), {}))
            read = {
                (s.current, s.is_default)
                for context in contexts(dialect, config)
                for s in dialect.knobs(context).values()
                if s.knob == knob and s.key == key
            }
            assert (0.125, False) in read, (knob, key, read)

"""One injector for each fault that a rule can name: what the policy does from its onset on.

A fault changes the plan of a healthy run (`simulated.Plan`), not its log, so that the metrics go on
agreeing with one another: answers that grow into the cap are cut, groups of identical completions are
tied. The sizes come from recorded and reported failures, not from the thresholds of the rules.
`means` names the rules of which any one counts as having found the fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from simulated import LENGTH_SIGMA, PLANS, Plan, drawn

from vario.run import Event, Floats, Run


@dataclass(frozen=True)
class Injected:
    """A run with one fault. `onset_step`: the step before the first row that shows it; 0 from the start."""

    run: Run
    fault: str
    onset_step: int
    onset_row: int
    means: frozenset[str]


@dataclass(frozen=True)
class Fault:
    """One injector. `mid`: it begins in the middle of a healthy run. `means`: rules of which any one counts as found."""

    name: str
    kind: str
    mid: bool
    means: frozenset[str]
    shape: str
    inject: Callable[[Plan], None]


FAULTS: dict[str, Fault] = {}


def fault(*means: str, kind: str = "grpo", mid: bool = True, shape: str = "linear"):
    """Register an injector under its function's name."""

    def registered(inject):
        name = inject.__name__.replace("_", "-")
        FAULTS[name] = Fault(name, kind, mid, frozenset(means), shape, inject)
        return inject

    return registered


def faulty(rng: np.random.Generator, name: str, memory: float | str = 0.5, rows: int | None = None) -> Injected:
    """A run with one fault of `FAULTS`; mid-run faults begin between 35 and 55 % of it."""
    which = FAULTS[name]
    rows = int(rng.choice([150, 300, 500])) if rows is None else rows
    onset = int(rows * rng.uniform(0.35, 0.55)) if which.mid else 0
    plan = PLANS[which.kind](rng, which.shape, rows)
    if which.kind == "grpo" and "kl/reference" not in plan.levels:
        plan.level("kl/reference", 0.03 * (0.02 + plan.gained), 0.3)
        plan.knobs["kl-coef"] = 0.01
    plan.onset, plan.rng = onset, rng
    which.inject(plan)
    run = drawn(rng, plan, memory, f"{name}, memory {memory}, {rows} rows, from row {onset + 1}")
    return Injected(run, name, onset * plan.stride, onset, which.means)


def _ease(plan: Plan, over: float) -> Floats:
    """0 up to the onset, then to 1 over so many rows; 0 rows is a jump."""
    since = np.arange(plan.rows) - plan.onset + 1.0
    return np.clip(since / over, 0.0, 1.0) if over > 0 else (since > 0).astype(float)


def _towards(values: Floats, target: Floats | float, weight: Floats) -> Floats:
    """Linear way from values to a target."""
    return (1.0 - weight) * values + weight * target


def _times(values: Floats, factor: float, weight: Floats) -> Floats:
    """Geometric way from values to `factor` times them."""
    return values * factor**weight


def _late(plan: Plan) -> np.ndarray:
    """Which rows lie at or after the onset."""
    return np.arange(plan.rows) >= plan.onset


def _left(plan: Plan) -> int:
    """Rows from the onset to the end."""
    return plan.rows - plan.onset


def _stop(plan: Plan) -> None:
    """Every success, and the held-out score, stays where it was at the onset."""
    last = max(plan.onset - 1, 0)
    for name, p in plan.success.items():
        plan.success[name] = np.where(_late(plan), p[last], p)
    if plan.held_out is not None:
        plan.held_out = np.where(_late(plan), plan.held_out[last], plan.held_out)


def _never(plan: Plan, p: float | None = None) -> None:
    """Nothing is learnt: every success stays at p, or where it began."""
    for name, old in plan.success.items():
        plan.success[name] = np.full(plan.rows, float(old[0]) if p is None else p)
    if plan.held_out is not None:
        plan.held_out = np.full(plan.rows, float(plan.success["correctness"][0]))
    for name in ("entropy/mean", "gradient/norm"):
        plan.levels[name] = np.full(plan.rows, float(plan.levels[name][0]))
    assert plan.length is not None
    plan.length = np.full(plan.rows, float(plan.length[0]))


def _scale(plan: Plan, name: str, factor: float, weight: Floats) -> None:
    plan.levels[name] = _times(plan.levels[name], factor, weight)


def _fall(plan: Plan, share: float, weight: Floats) -> None:
    """Every success, and the held-out score, falls to this share of itself."""
    for name, p in plan.success.items():
        plan.success[name] = _towards(p, share * p, weight)
    if plan.held_out is not None:
        plan.held_out = _towards(plan.held_out, share * plan.held_out, weight)


@fault("policy-collapse", "mode-collapse", "reward-collapsed")
def policy_collapse(plan: Plan) -> None:
    """Within 15 rows the reward is gone, KL is up fortyfold, the text falls apart."""
    way = _ease(plan, 15)
    _fall(plan, 0.02, way)
    _scale(plan, "kl/reference", 40.0, way)
    _scale(plan, "entropy/mean", plan.rng.choice([0.05, 4.0]), way)
    _scale(plan, "gradient/norm", 3.0, way)
    plan.length = _towards(plan.length, plan.rng.choice([0.05, 0.95]) * plan.cap, way)


@fault("reward-function-broke", "reward-collapsed", "component-dead")
def reward_function_broke(plan: Plan) -> None:
    """From one row to the next the parser matches nothing; the policy is as it was."""
    plan.success["correctness"] = plan.success["correctness"] * (np.arange(plan.rows) < plan.onset)


@fault("kl-runaway", "kl-over-budget", "kl-rises-without-reward", "kl-rises-while-reward-falls")
def kl_runaway(plan: Plan) -> None:
    """KL doubles every tenth of the rest up to hundreds of times its level; the reward stops and then sinks."""
    _stop(plan)
    way = _ease(plan, _left(plan))
    _scale(plan, "kl/reference", 200.0, way)
    _fall(plan, 0.75, np.clip(2.0 * way - 1.0, 0.0, 1.0))


@fault("kl-rises-without-reward", "kl-runaway", "kl-over-budget")
def kl_up_reward_flat(plan: Plan) -> None:
    """The reward stops; KL goes on to four times its level."""
    _stop(plan)
    _scale(plan, "kl/reference", 4.0, _ease(plan, _left(plan)))


@fault("kl-rises-while-reward-falls", "kl-runaway", "reward-peaked-then-declined")
def kl_up_reward_down(plan: Plan) -> None:
    """The reward falls to half while KL goes to five times its level."""
    _stop(plan)
    way = _ease(plan, 0.7 * _left(plan))
    _scale(plan, "kl/reference", 5.0, way)
    _fall(plan, 0.5, way)


@fault("reward-peaked-then-declined", "kl-rises-while-reward-falls", "reward-collapsed")
def peak_then_decline(plan: Plan) -> None:
    """The reward peaks and loses 60 % of its height; KL does what it did."""
    _stop(plan)
    _fall(plan, 0.4, _ease(plan, _left(plan)))


@fault(
    "kl-rises-without-reward",
    "kl-rises-while-reward-falls",
    "kl-runaway",
    "reward-is-noise",
    "reward-never-rises",
    mid=False,
)
def random_reward(plan: Plan) -> None:
    """The reward is a coin; the policy drifts."""
    _never(plan, 0.5)
    plan.difficulty = 0.0
    plan.level("kl/reference", 0.5 * (np.arange(plan.rows) + 1.0) / plan.rows, 0.3)


@fault("kl-pinned-near-zero", "policy-does-not-move", mid=False)
def kl_pinned(plan: Plan) -> None:
    """A penalty of 5 holds the policy at its reference: KL of 2e-4, nothing learnt."""
    _never(plan)
    plan.level("kl/reference", 2e-4, 0.3)
    plan.knobs["kl-coef"] = 5.0


@fault("kl-spike", "kl-noisy")
def kl_spike(plan: Plan) -> None:
    """One batch with a KL of thirty times the level."""
    plan.levels["kl/reference"][plan.onset] *= 30.0


@fault("kl-reset", "resume-discontinuity")
def kl_reset(plan: Plan) -> None:
    """The reference is replaced by the present policy: KL starts again from nothing."""
    after = np.arange(plan.rows) >= plan.onset
    late = np.maximum(plan.levels["kl/reference"] - plan.levels["kl/reference"][plan.onset], 0.0)
    plan.levels["kl/reference"] = np.where(after, 0.3 * late + 5e-4, plan.levels["kl/reference"])


@fault("kl-negative", mid=False)
def kl_negative(plan: Plan) -> None:
    """A k1 estimate of -0.05: the samples are not the policy's."""
    del plan.levels["kl/reference"]
    plan.signed("kl/reference", -0.05, 0.01)


@fault("kl-nonzero-at-start", mid=False)
def kl_nonzero_at_start(plan: Plan) -> None:
    """The reference is another model: KL of 0.4 in the first row."""
    plan.stride = 1
    plan.levels["kl/reference"] = plan.levels["kl/reference"] + 0.4


@fault("kl-penalty-outweighs-reward", kind="ppo", mid=False)
def kl_penalty_outweighs(plan: Plan) -> None:
    """The penalty costs three times what the score ever gained."""
    span = float(np.ptp(plan.plain["reward/mean"]))
    kl = plan.levels["kl/reference/sequence"]
    plan.plain["reward/kl-penalty/mean"] = -3.0 * span * kl / float(kl[-1])


@fault("entropy-collapsing", "mode-collapse")
def entropy_collapse(plan: Plan) -> None:
    """Within 30 rows the entropy is at a fiftieth; groups give the same answer; the reward stops."""
    way = _ease(plan, 30)
    _stop(plan)
    _scale(plan, "entropy/mean", 0.02, way)
    plan.tied = 0.9 * way


@fault("entropy-exploding", "entropy-spike")
def entropy_explosion(plan: Plan) -> None:
    """Entropy grows fivefold over the rest of the run and the reward wastes away."""
    way = _ease(plan, 0.8 * _left(plan))
    _stop(plan)
    _scale(plan, "entropy/mean", 5.0, way)
    _fall(plan, 0.6, way)


@fault("entropy-spike")
def entropy_spike(plan: Plan) -> None:
    """One batch with an entropy of fifteen times the level."""
    plan.levels["entropy/mean"][plan.onset] *= 15.0


@fault("mode-collapse", "policy-collapse", "entropy-collapsing", "outputs-lose-diversity")
def mode_collapse(plan: Plan) -> None:
    """One answer for everything: no entropy, no spread of lengths, groups tied, the reward at a third."""
    way = _ease(plan, 25)
    _stop(plan)
    _fall(plan, 0.33, way)
    _scale(plan, "entropy/mean", 0.02, way)
    _scale(plan, "kl/reference", 10.0, way)
    plan.tied = 0.97 * way
    plan.length_sigma = LENGTH_SIGMA * (1.0 - 0.97 * way)


@fault("length-hacking", "length-growing", "length-buys-reward", mid=False)
def length_hack(plan: Plan) -> None:
    """A reward function pays for length; length goes up threefold, correctness sinks."""
    way = _ease(plan, 0.6 * plan.rows)
    _never(plan)
    plan.success = {"correctness": plan.success["correctness"] * (1.0 - 0.4 * way)}
    plan.weights = {"correctness": 0.5, "length": 1.0}
    plan.length = _towards(plan.length, 0.6 * plan.cap, way)
    plan.sizes["length"] = np.clip(plan.length / plan.cap, 0.0, 1.0)


@fault("length-shrinking", "length-hacking")
def length_collapse(plan: Plan) -> None:
    """Answers shrink to a third, and correctness goes with them."""
    way = _ease(plan, 0.5 * _left(plan))
    _stop(plan)
    plan.length = _times(plan.length, 0.33, way)
    _fall(plan, 0.5, way)


@fault("length-jumped")
def length_jump(plan: Plan) -> None:
    """Answers are 60 % longer from one row to the next."""
    plan.length = _times(plan.length, 1.6, _ease(plan, 0))


@fault("length-growing", "length-hacking")
def length_growth(plan: Plan) -> None:
    """Answers grow to twice their length over the rest of the run."""
    plan.length = _times(plan.length, 2.0, _ease(plan, _left(plan)))


@fault("length-diversity-collapsing", "mode-collapse", "outputs-lose-diversity")
def length_diversity_lost(plan: Plan) -> None:
    """All answers become equally long within 40 rows, the mean as it was."""
    plan.length_sigma = LENGTH_SIGMA * (1.0 - 0.98 * _ease(plan, 40))


@fault("truncation-high", "truncation-never-ends", "truncation-biases-reward")
def truncation_grows(plan: Plan) -> None:
    """Answers grow into the cap: half of them end there, and with them half of the reward."""
    way = _ease(plan, 0.5 * _left(plan))
    _stop(plan)
    plan.length = _towards(plan.length, 1.05 * plan.cap, way)
    _fall(plan, 0.6, way)


@fault("truncation-never-ends", "truncation-high", mid=False)
def truncation_from_the_start(plan: Plan) -> None:
    """The cap is a third of what answers need: hardly one ends by itself."""
    _never(plan, 0.03)
    plan.length = np.full(plan.rows, 3.0 * plan.cap)


def _poison(onset: int, names: tuple[str, ...]) -> Callable[[dict[str, Floats]], None]:
    def change(log: dict[str, Floats]) -> None:
        for name in names:
            if name in log:
                log[name] = np.where(np.arange(log[name].size) >= onset, np.nan, log[name])

    return change


@fault("non-finite")
def nan_gradient(plan: Plan) -> None:
    """Loss and gradient are NaN from one row on, and the reward with them is gone."""
    plan.after.append(_poison(plan.onset, ("gradient/norm", "loss/total", "kl/reference", "entropy/mean")))
    _fall(plan, 0.0, _ease(plan, 0))


@fault("reward-missing", "non-finite")
def reward_nan(plan: Plan) -> None:
    """From the onset on one row in five has no reward."""

    def change(log: dict[str, Floats]) -> None:
        rows = np.arange(plan.rows)
        log["reward/mean"] = np.where((rows >= plan.onset) & ((rows - plan.onset) % 5 == 0), np.nan, log["reward/mean"])

    plan.after.append(change)


@fault("gradient-spike")
def gradient_spike(plan: Plan) -> None:
    """One batch with a gradient of forty times the level."""
    plan.levels["gradient/norm"][plan.onset] *= 40.0


@fault("gradient-growing", "gradient-spike")
def gradient_growth(plan: Plan) -> None:
    """The gradient grows to ten times its level over the rest of the run."""
    _scale(plan, "gradient/norm", 10.0, _ease(plan, _left(plan)))


@fault("gradient-vanished", "gradient-zero-despite-signal")
def gradient_vanishes(plan: Plan) -> None:
    """No gradient from one row on, though groups differ; nothing moves any more."""
    _stop(plan)
    _scale(plan, "gradient/norm", 0.0, _ease(plan, 0))


@fault("learning-rate-zero", "policy-does-not-move", mid=False)
def learning_rate_zero(plan: Plan) -> None:
    """The scheduler gives 0 throughout: the policy stays what it was."""
    _never(plan)
    plan.exact["learning-rate"] = np.zeros(plan.rows)
    plan.level("kl/reference", 1e-5, 0.5)


@fault("policy-does-not-move", "kl-pinned-near-zero", "reward-never-rises", mid=False)
def learning_too_slow(plan: Plan) -> None:
    """A rate 500 times too low: KL of 3e-4 at the end, the reward where it was."""
    _never(plan)
    plan.exact["learning-rate"] = plan.exact["learning-rate"] / 500.0
    plan.level("kl/reference", 3e-4 * (np.arange(plan.rows) + 1.0) / plan.rows, 0.4)


@fault("reward-constant", "signal-collapsed-unsolved", "task-too-hard", "component-dead", mid=False)
def reward_all_zero(plan: Plan) -> None:
    """A reward function that returns 0 for everything."""
    _never(plan, 0.0)
    plan.level("gradient/norm", 0.0)
    plan.level("kl/reference", 1e-4, 0.5)


@fault("task-too-hard", "signal-collapsed-unsolved", "reward-never-rises", "component-dead", mid=False)
def task_too_hard(plan: Plan) -> None:
    """One completion in a hundred is right, and it stays so."""
    _never(plan, 0.01)
    plan.success = {"correctness": plan.success["correctness"]}
    plan.level("kl/reference", 0.01, 0.3)


@fault(
    "reward-saturated",
    "run-has-converged",
    "signal-collapsed-solved",
    "few-groups-carry-signal",
    mid=False,
    shape="converged",
)
def saturation(plan: Plan) -> None:
    """Solved almost from the start: hardly a group differs."""
    for name in plan.success:
        plan.success[name] = np.full(plan.rows, 0.995)


@fault("component-dead", "task-too-hard", mid=False)
def component_dead(plan: Plan) -> None:
    """One of two reward functions never pays."""
    plan.success["style"] = np.zeros(plan.rows)
    plan.weights["style"] = 0.5


@fault("component-falls-while-total-rises", "reward-hacking", "format-hacking", mid=False)
def component_falls(plan: Plan) -> None:
    """The format pays twice what correctness pays: format to 1, correctness to a third."""
    way = _ease(plan, 0.7 * plan.rows)
    start = float(plan.success["correctness"][0])
    plan.success = {"correctness": start * (1.0 - 0.7 * way), "format": 0.3 + 0.68 * way}
    plan.weights = {"correctness": 0.5, "format": 1.0}
    if plan.held_out is not None:
        plan.held_out = plan.success["correctness"].copy()


@fault("reward-hacking", "reward-up-eval-not", "train-eval-overfit", "format-hacking")
def proxy_hack(plan: Plan) -> None:
    """The training reward goes on rising; the held-out score falls to a third from the onset on."""
    held = 0.9 * plan.success["correctness"]
    at = float(held[plan.onset])
    plan.held_out = np.where(
        np.arange(plan.rows) < plan.onset,
        held,
        _towards(np.full(plan.rows, at), 0.33 * at, _ease(plan, 0.7 * _left(plan))),
    )
    plan.eval_every = max(plan.rows // 20, 4)


@fault("reward-up-eval-not", "train-eval-overfit", "reward-hacking", mid=False)
def eval_never_rises(plan: Plan) -> None:
    """The training reward rises all the way, the held-out score never does."""
    plan.held_out = np.full(plan.rows, float(plan.success["correctness"][0]))
    plan.eval_every = max(plan.rows // 20, 4)


@fault("signal-dropped-suddenly", "few-groups-carry-signal", "signal-collapsed-solved", "outputs-duplicated")
def signal_drops(plan: Plan) -> None:
    """From one row on nine groups in ten hold identical completions (the sampler lost its temperature)."""
    plan.tied = 0.9 * _ease(plan, 0)


@fault("clip-fraction-growing", "clip-fraction-high")
def clipping_grows(plan: Plan) -> None:
    """The clipped share grows tenfold over the rest of the run."""
    plan.updates = 4.0
    way = _ease(plan, _left(plan))
    for side in ("high", "low"):
        plan.level(f"clip/fraction/{side}", 0.006, 0.4)
        _scale(plan, f"clip/fraction/{side}", 10.0, way)


@fault("clip-fraction-high", "ratio-far-from-one", "clip-fraction-growing", mid=False)
def clipping_high(plan: Plan) -> None:
    """Sixteen updates from each rollout: a fifth of all tokens clipped."""
    plan.updates = 16.0
    plan.level("clip/fraction/high", 0.12, 0.2)
    plan.level("clip/fraction/low", 0.08, 0.2)


@fault("clipping-one-sided-high", "clip-fraction-high", mid=False)
def clipping_high_side(plan: Plan) -> None:
    """Ten times as much clipped above as below."""
    plan.updates = 4.0
    plan.level("clip/fraction/high", 0.03, 0.3)
    plan.level("clip/fraction/low", 0.003, 0.3)


@fault("clipping-one-sided-low", "clip-fraction-high", mid=False)
def clipping_low_side(plan: Plan) -> None:
    """Ten times as much clipped below as above; nothing is learnt."""
    _never(plan)
    plan.updates = 4.0
    plan.level("clip/fraction/high", 0.003, 0.3)
    plan.level("clip/fraction/low", 0.03, 0.3)


@fault("ratio-far-from-one", "clip-fraction-high", "clip-fraction-growing", kind="ppo")
def ratio_leaves_one(plan: Plan) -> None:
    """The mean ratio goes from 1 to 1.6 over the rest of the run, clipping with it."""
    way = _ease(plan, _left(plan))
    plan.plain["ratio/mean"] = 1.0 + 0.6 * way
    _scale(plan, "clip/fraction/total", 10.0, way)


@fault("engine-mismatch", "weights-never-synced", "behaviour-weight-off-one")
def engine_gap(plan: Plan) -> None:
    """The sampler no longer gets the weights: the gap grows from 0.01 to 0.3, the reward stops."""
    _stop(plan)
    plan.level("engine/logprob-gap/mean", 0.01, 0.1)
    _scale(plan, "engine/logprob-gap/mean", 30.0, _ease(plan, 0.4 * _left(plan)))


@fault("rollouts-too-stale", "behaviour-weight-off-one", "engine-mismatch")
def stale_rollouts(plan: Plan) -> None:
    """The trainer outruns the samplers: from one version behind to ten."""
    plan.level("staleness/mean", 1.0, 0.1)
    _scale(plan, "staleness/mean", 10.0, _ease(plan, 0.6 * _left(plan)))


@fault("behaviour-weight-off-one", "engine-mismatch")
def behaviour_weight_off(plan: Plan) -> None:
    """The applied weight falls from 1 to a half."""
    plan.signed("behaviour-weight/mean", 1.0 - 0.5 * _ease(plan, 40), 0.01)


@fault("data-shift")
def data_shift(plan: Plan) -> None:
    """Other prompts from one row on: the reward halves, answers are half as long again; learning goes on."""
    way = _ease(plan, 0)
    p = plan.success["correctness"]
    late = 0.45 * p[plan.onset] * (1.0 + 0.5 * (plan.gained - plan.gained[plan.onset]))
    plan.success["correctness"] = np.where(way > 0, late, p)
    plan.length = _times(plan.length, 1.5, way)
    _scale(plan, "entropy/mean", 1.4, way)


@fault("resume-discontinuity", "kl-reset")
def resume_with_jumps(plan: Plan) -> None:
    """Resumed without the optimiser's state: reward back to a half, gradient and entropy up at once."""
    plan.events.append(Event("resume", (plan.onset + 1) * plan.stride, "resumed"))
    way = _ease(plan, 0)
    _fall(plan, 0.5, way)
    _scale(plan, "entropy/mean", 1.8, way)
    _scale(plan, "gradient/norm", 4.0, way)


@fault("loss-discontinuity")
def loss_jump(plan: Plan) -> None:
    """The loss stands elsewhere, twenty of its noises away, from one row on."""
    size = plan.noises["loss/total"][0]
    plan.plain["loss/total"] = plan.plain["loss/total"] + 20.0 * size * _ease(plan, 0)


@fault("value-loss-diverging", kind="ppo")
def value_diverges(plan: Plan) -> None:
    """The value loss grows thirtyfold from the onset on; it explains ever less."""
    way = _ease(plan, _left(plan))
    _scale(plan, "loss/value", 30.0, way)
    plan.plain["value/explained-variance"] = plan.plain["value/explained-variance"] - 1.5 * way


@fault("value-explains-nothing", "value-loss-diverging", kind="ppo", mid=False)
def value_blind(plan: Plan) -> None:
    """The critic never learns."""
    plan.plain["value/explained-variance"] = np.full(plan.rows, -0.4)
    plan.levels["loss/value"] = np.full(plan.rows, float(plan.levels["loss/value"][0]))


@fault("value-clipping-high", kind="ppo", mid=False)
def value_clipped(plan: Plan) -> None:
    """Half of the value predictions are clipped."""
    plan.level("value/clip-fraction", 0.5, 0.1)


@fault("margin-grows-without-bound", "preference-saturated", kind="dpo", mid=False)
def dpo_overtrained(plan: Plan) -> None:
    """A few pairs, many epochs: all ranked right, and a margin that grows to 25 nats."""
    plan.plain["preference/margin"] = 25.0 * plan.gained
    plan.noises["preference/margin"] = (0.6, 0.0)
    plan.exact["accuracy"] = np.clip(0.6 + 4.0 * plan.gained, 0.0, 1.0)
    plan.held_out = None


@fault("train-eval-overfit", "reward-up-eval-not", kind="dpo")
def dpo_overfits(plan: Plan) -> None:
    """The held-out margin peaks and loses half."""
    assert plan.held_out is not None
    at = float(plan.held_out[plan.onset])
    down = _towards(np.full(plan.rows, at), 0.5 * at, _ease(plan, _left(plan)))
    plan.held_out = np.where(np.arange(plan.rows) < plan.onset, plan.held_out, down)
    plan.eval_every = max(plan.rows // 20, 4)


@fault("chosen-reward-falls", "margin-grows-without-bound", kind="dpo", mid=False)
def dpo_chosen_falls(plan: Plan) -> None:
    """The margin is made by pushing both down: the chosen side loses twice what the margin gains."""
    plan.plain["chosen"] = -2.0 * plan.plain["preference/margin"]


@fault("accuracy-at-chance", "margin-plateaued", kind="dpo", mid=False)
def dpo_label_noise(plan: Plan) -> None:
    """Labels are coin throws: accuracy at one half, no margin."""
    plan.exact["accuracy"] = np.full(plan.rows, 0.5)
    plan.plain["preference/margin"] = np.zeros(plan.rows)
    plan.plain["chosen"] = np.zeros(plan.rows)
    plan.held_out = np.zeros(plan.rows)
    plan.level("loss/total", 0.693, 0.03)


@fault("preference-saturated", "margin-grows-without-bound", kind="dpo", mid=False)
def dpo_saturated(plan: Plan) -> None:
    """Every pair is ranked right from a tenth of the run on."""
    plan.exact["accuracy"] = np.clip(0.6 + 4.0 * _ease(plan, plan.rows), 0.0, 1.0)


@fault("step-time-jumped", "background-contention", "rollout-dominates-step")
def step_time_jump(plan: Plan) -> None:
    """Steps take twice as long from one row on, answers as long as before."""
    _scale(plan, "systems/step-time", 2.0, _ease(plan, 0))


@fault("memory-creeping", "memory-near-capacity", mid=False)
def memory_creep(plan: Plan) -> None:
    """Memory in use goes from 60 to 97 % over the run."""
    plan.level("systems/memory-share", 0.6 + 0.37 * (np.arange(plan.rows) + 1.0) / plan.rows, 0.005)
    plan.level("systems/memory", 80.0 * plan.levels["systems/memory-share"], 0.005)


@fault("reward-scale-drifts", "reward-variance-high", "reward-grows-without-bound")
def reward_scale_drifts(plan: Plan) -> None:
    """A judge without bounds: from the onset on its scores and their spread grow tenfold."""
    plan.success = {"judge": plan.success["correctness"]}
    plan.weights = {"judge": 1.0}
    plan.within_logged = True
    plan.knobs["reward-scaling"] = "none"
    factor = 10.0 ** _ease(plan, _left(plan))

    def change(log: dict[str, Floats]) -> None:
        for name in log:
            if name.startswith("reward/"):
                log[name] = log[name] * factor

    plan.after.append(change)

"""Simulated training runs whose truth is known: healthy ones of several shapes (`faults.py` injects faults).

A run is planned first (`Plan`: what the policy does, row by row) and drawn afterwards. GRPO runs are
drawn sample by sample: prompts of different difficulty, groups of completions, 0/1 rewards and lengths.
So mean, both spreads, tied groups, extremes and truncation agree with one another as they do in a log,
and a fault is injected into the plan, from where it reaches every metric that it would reach.

What is modelled after recorded runs (94 public ones and 31 of TRL):

- The reward's noise from batch to batch has a lag-one correlation of 0 in the median and .84 in the
  worst tenth (62 recorded runs); so runs are drawn with memory 0, .5, .9, and `mix` (half the variance
  slow, half white: the hardest to judge).
- KL and gradient norm are log-normal with single values of two to four times the level;
  entropy falls to between 30 and 85 % of its start as the reward rises; KL grows with what is learnt.
- The last third of a healthy run may be flat; its KL is then flat but for a slow creep.

`healthy(rng, shape, memory, rows)` gives a run. All rows are logged rows; the run's own steps may be
1, 5 or 10 apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from error_rates import ar1

from vario.run import Declared, Event, Floats, KnobSetting, Run, Series

SHAPES = ("linear", "saturating", "sigmoid", "plateau", "converged", "slow")
MEMORIES: tuple[float | str, ...] = (0.0, 0.5, 0.9, "mix")
KINDS = ("grpo", "ppo", "dpo")
STRIDES = (1, 1, 1, 5, 10)
LENGTH_SIGMA = 0.35
"""Spread of log-length among the completions of a batch."""
CLUSTERED = 0.25
"""Correlation of rewards inside a group, for the noise of a batch mean: (1 + .25 (G - 1)) times the binomial's."""
LEAVING = 5.0
"""Rows until KL is what the learning asks for: it begins at 0."""
SLOW_GAIN = (2.5, 4.0)
"""What a slow run gains, in standard deviations of a batch mean: below 2 no honest test tells it from flat."""


@dataclass
class Plan:
    """What the policy does, row by row; arrays have shape (rows,).

    Attributes:
        success: chance of each 0/1 reward function. sizes: reward functions that are no 0/1 (name -> 0 to 1).
        difficulty: spread of the prompts' difficulty in logits. tied: share of groups with identical completions.
        held_out: the true held-out score, None where nobody evaluates. kl: None where it is not logged.
        levels: every other positive metric by name, with `noises`: relative noise and chance of an outlier.
        plain: signed metrics, with their noise in `noises`.
        after: changes to the drawn log, last of all: name -> values (infinite: not logged).
        first: steps that were run before the log begins.
        onset, rng: for an injected fault: the first row that shows it, and where it draws from.
    """

    kind: str
    rows: int
    gained: Floats
    prompts: int = 16
    group: int = 8
    cap: float = 1024.0
    stride: int = 1
    success: dict[str, Floats] = field(default_factory=dict)
    sizes: dict[str, Floats] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    difficulty: float = 1.5
    tied: Floats | None = None
    length: Floats | None = None
    length_sigma: Floats | None = None
    held_out: Floats | None = None
    eval_every: int = 20
    eval_error: float = 0.02
    levels: dict[str, Floats] = field(default_factory=dict)
    plain: dict[str, Floats] = field(default_factory=dict)
    noises: dict[str, tuple[float, float]] = field(default_factory=dict)
    exact: dict[str, Floats] = field(default_factory=dict)
    knobs: dict[str, float | str] = field(default_factory=dict)
    updates: float = 1.0
    events: list[Event] = field(default_factory=list)
    after: list[Callable[[dict[str, Floats]], None]] = field(default_factory=list)
    within_logged: bool = True
    first: int = 0
    onset: int = 0
    rng: np.random.Generator = field(default_factory=np.random.default_rng)

    def level(self, name: str, values: Floats | float, noise: float = 0.05, outliers: float = 0.0) -> None:
        """A positive metric with log-normal noise."""
        self.levels[name] = np.broadcast_to(np.asarray(values, dtype=float), (self.rows,)).copy()
        self.noises[name] = (noise, outliers)

    def signed(self, name: str, values: Floats | float, noise: float) -> None:
        """A metric that may be negative, with additive noise."""
        self.plain[name] = np.broadcast_to(np.asarray(values, dtype=float), (self.rows,)).copy()
        self.noises[name] = (noise, 0.0)


# --- noise and curves ---------------------------------------------------------------------------------------


def noise(rng: np.random.Generator, n: int, memory: float | str) -> Floats:
    """Noise of unit standard deviation with this memory."""
    if memory == "mix":
        return np.sqrt(0.5) * (ar1(rng, n, 0.9) + rng.standard_normal(n))
    return ar1(rng, n, float(memory))


def progress(rng: np.random.Generator, shape: str, rows: int) -> Floats:
    """How much of the gain has been made, 0 to 1, by row."""
    t = (np.arange(rows) + 1.0) / rows
    if shape == "saturating":
        if rng.random() < 0.5:
            middle, power = rng.uniform(0.1, 0.3), rng.uniform(1.0, 2.0)
            curve = t**power / (t**power + middle**power)
        else:
            curve = 1.0 - np.exp(-t / rng.uniform(0.15, 0.4))
        return curve / curve[-1]
    if shape == "sigmoid":
        curve = 1.0 / (1.0 + np.exp(-(t - rng.uniform(0.5, 0.7)) / rng.uniform(0.06, 0.1)))
        return (curve - curve[0]) / (curve[-1] - curve[0])
    if shape == "plateau":
        return np.minimum(t / rng.uniform(0.3, 0.6), 1.0)
    if shape == "converged":
        return 1.0 - np.exp(-t / 0.05)
    if shape == "constant":
        return np.full(rows, 0.5)
    return t


def _schedule(rng: np.random.Generator, rows: int) -> Floats:
    """Constant, linear or cosine with a warm-up, as trainers log it (the first value may be 0)."""
    t = np.arange(rows) / rows
    peak = 10.0 ** rng.uniform(-6.3, -5.0)
    kind = rng.integers(3)
    shape = np.ones(rows) if kind == 0 else 1.0 - t if kind == 1 else 0.5 * (1.0 + np.cos(np.pi * t))
    warm = rng.choice([0.0, 0.03, 0.1]) * rows
    return peak * shape * (np.minimum(np.arange(rows) / warm, 1.0) if warm >= 1.0 else 1.0)


# --- healthy plans -------------------------------------------------------------------------------------------


def plan_grpo(rng: np.random.Generator, shape: str, rows: int) -> Plan:
    """A healthy GRPO run."""
    u = progress(rng, shape, rows)
    t = (np.arange(rows) + 1.0) / rows
    plan = Plan("grpo", rows, u, prompts=int(rng.choice([8, 16, 32])), group=int(rng.choice([4, 8, 16])))
    plan.cap = float(rng.choice([512, 1024, 2048]))
    plan.stride = int(rng.choice(STRIDES))
    plan.difficulty = rng.uniform(1.0, 2.5)
    low, high = rng.uniform(0.15, 0.4), rng.uniform(0.6, 0.85)
    if shape == "converged":
        high = rng.uniform(0.93, 0.98)
    if shape == "slow":
        low = rng.uniform(0.3, 0.5)
        high = low + rng.uniform(*SLOW_GAIN) * batch_error(low, plan.prompts, plan.group)
    plan.success["correctness"] = low + (high - low) * u
    plan.weights["correctness"] = 1.0
    if rng.random() < 0.5:
        ends = rng.uniform(0.95, 0.995)
        begins = ends - (ends - rng.uniform(0.5, 0.85)) * (0.3 if shape == "slow" else 1.0)
        plan.success["format"] = begins + (ends - begins) * u**0.7
        plan.weights["format"] = float(rng.choice([0.2, 0.5, 1.0]))
    plan.within_logged = bool(rng.random() < 0.5)
    # in its first row a policy is its reference, however fast it learns
    leaving = 1.0 if shape == "constant" else np.minimum(np.arange(rows) / LEAVING, 1.0)
    plan.length = rng.uniform(0.12, 0.3) * plan.cap * rng.uniform(0.8, 1.25) ** u
    if rng.random() < 0.8:
        plan.level(
            "kl/reference",
            rng.uniform(0.015, 0.1) * (0.9 * u ** rng.uniform(0.7, 1.3) + 0.1 * np.sqrt(t)) * leaving,
            0.3,
            0.01,
        )
        plan.knobs["kl-coef"] = float(rng.choice([0.001, 0.01, 0.04]))
    plan.level("entropy/mean", rng.uniform(0.3, 1.2) * rng.uniform(0.3, 0.85) ** u, 0.07, 0.002)
    plan.level("gradient/norm", rng.uniform(0.1, 1.0) * (1.0 - 0.4 * u), 0.3, 0.01)
    plan.signed("loss/total", 0.0, 10.0 ** rng.uniform(-3.0, -1.3))
    plan.exact["learning-rate"] = _schedule(rng, rows)
    plan.level("systems/step-time", rng.uniform(5.0, 60.0), 0.06, 0.01)
    plan.level("systems/memory-share", rng.uniform(0.5, 0.85), 0.01)
    plan.updates = float(rng.choice([1, 1, 4]))
    clipped = rng.uniform(0.0005, 0.006) if plan.updates > 1 else 0.0
    plan.level("clip/fraction/high", clipped * (1.0 - 0.3 * u), 0.4)
    plan.level("clip/fraction/low", clipped * rng.uniform(0.5, 1.5) * (1.0 - 0.3 * u), 0.4)
    if rng.random() < 0.4:
        plan.level("engine/logprob-gap/mean", rng.uniform(0.004, 0.015), 0.1, 0.005)
        plan.signed("behaviour-weight/mean", 1.0, 0.004)
    if rng.random() < 0.2:
        plan.level("staleness/mean", rng.uniform(0.5, 1.5), 0.1)
    if rng.random() < 0.6:
        plan.held_out = low - 0.03 + 0.85 * (high - low) * u
        plan.eval_every = max(rows // int(rng.integers(8, 26)), 4)
        plan.eval_error = rng.uniform(0.01, 0.02)
    plan.knobs |= {"learning-rate": float(plan.exact["learning-rate"].max()), "group-size": plan.group,
                   "max-completion-length": plan.cap, "temperature": 1.0, "clip-low": 0.2, "clip-high": 0.2}  # fmt: skip
    return plan


def plan_ppo(rng: np.random.Generator, shape: str, rows: int) -> Plan:
    """A healthy PPO run with a reward model's scores, as TRL logs one."""
    u = progress(rng, shape, rows)
    t = (np.arange(rows) + 1.0) / rows
    plan = Plan("ppo", rows, u, stride=int(rng.choice(STRIDES)), updates=4.0)
    gain = rng.uniform(1.0, 4.0)
    spread = gain / (rng.uniform(*SLOW_GAIN) if shape == "slow" else rng.uniform(6.0, 15.0))
    score = rng.uniform(-2.0, 1.0) + gain * u
    coefficient = float(rng.choice([0.02, 0.05]))
    kl = rng.uniform(4.0, 12.0) * (0.9 * u ** rng.uniform(0.7, 1.3) + 0.1 * np.sqrt(t))
    plan.signed("reward/mean", score, spread)
    plan.level("kl/reference/sequence", kl, 0.12)
    plan.signed("reward/kl-penalty/mean", -coefficient * kl, 0.05 * coefficient * float(kl[-1]))
    plan.level("kl/update", 0.003 * (1.0 - 0.4 * u), 0.5)
    plan.level("entropy/mean", rng.uniform(0.4, 1.5) * rng.uniform(0.3, 0.85) ** u, 0.08, 0.002)
    plan.level("gradient/norm", rng.uniform(0.5, 3.0) * (1.0 - 0.4 * u), 0.3, 0.01)
    plan.level("loss/value", rng.uniform(0.3, 1.5) * (0.15 + 0.85 * np.exp(-t / 0.15)), 0.15, 0.005)
    plan.signed("value/explained-variance", 0.6 - 0.6 * np.exp(-t / 0.1), 0.05)
    plan.level("value/clip-fraction", rng.uniform(0.01, 0.05), 0.4)
    plan.level("clip/fraction/total", rng.uniform(0.005, 0.04) * (1.0 - 0.4 * u), 0.4)
    plan.signed("ratio/mean", 1.0, 0.002)
    plan.signed("loss/policy", -0.005, 0.003)
    plan.exact["learning-rate"] = _schedule(rng, rows)
    plan.knobs = {"kl-coef": coefficient, "learning-rate": float(plan.exact["learning-rate"].max())}
    return plan


def plan_dpo(rng: np.random.Generator, shape: str, rows: int) -> Plan:
    """A healthy DPO run: the margin rises and slows, accuracy with it; the chosen side may fall a little."""
    u = progress(rng, "slow" if shape in ("slow", "linear") else shape, rows)
    plan = Plan("dpo", rows, u, stride=int(rng.choice(STRIDES)))
    width = rng.uniform(0.6, 1.5)
    top = rng.uniform(0.8, 1.6) * width
    margin = top * u
    noises = rng.uniform(0.08, 0.15) * width
    plan.plain["chosen"] = rng.uniform(-0.2, 0.25) * margin
    plan.signed("preference/margin", margin, noises)
    plan.noises["chosen"] = (0.5 * noises, 0.0)
    plan.exact["accuracy"] = 1.0 / (1.0 + np.exp(-1.7 * margin / width))
    plan.level("loss/total", np.log1p(np.exp(-margin)) * 0.98, 0.06)
    plan.level("gradient/norm", rng.uniform(1.0, 8.0) * (1.0 - 0.5 * u), 0.3, 0.01)
    plan.exact["learning-rate"] = _schedule(rng, rows)
    plan.held_out = 0.9 * margin
    plan.eval_every = max(rows // int(rng.integers(8, 20)), 4)
    plan.eval_error = 0.2 * noises
    plan.knobs = {"preference-beta": 0.1, "learning-rate": float(plan.exact["learning-rate"].max())}
    return plan


PLANS = {"grpo": plan_grpo, "ppo": plan_ppo, "dpo": plan_dpo}


def batch_error(p: Floats | float, prompts: int, group: int):
    """Standard deviation of the mean of a batch of 0/1 rewards that resemble each other inside a group."""
    p = np.clip(p, 0.0, 1.0)
    return np.sqrt(p * (1.0 - p) / (prompts * group) * (1.0 + CLUSTERED * (group - 1)))


# --- drawing -------------------------------------------------------------------------------------------------


def _samples(rng: np.random.Generator, plan: Plan, memory: float | str, log: dict[str, Floats]) -> None:
    """Groups of completions with 0/1 rewards and lengths, reduced to what a trainer logs of them."""
    rows, prompts, group = plan.rows, plan.prompts, plan.group
    batch = prompts * group
    size = (rows, prompts, group)
    difficulty = plan.difficulty * rng.standard_normal((rows, prompts, 1))
    tied = np.zeros((rows, prompts, 1), dtype=bool)
    if plan.tied is not None:
        tied = rng.random((rows, prompts, 1)) < plan.tied[:, None, None]
    same_luck = noise(rng, rows, memory)
    total = np.zeros(size)
    rewards: dict[str, Floats] = {}
    assert plan.length is not None
    sigma = np.full(rows, LENGTH_SIGMA) if plan.length_sigma is None else plan.length_sigma
    shape = np.where(tied, rng.standard_normal((rows, prompts, 1)), rng.standard_normal(size))
    mean = plan.length * np.exp(0.03 * noise(rng, rows, memory))
    lengths = np.exp(np.log(mean) - sigma**2 / 2.0)[:, None, None] * np.exp(sigma[:, None, None] * shape)
    ended = lengths <= plan.cap
    lengths = np.maximum(np.round(np.minimum(lengths, plan.cap)), 1.0)
    for name, p in plan.success.items():
        luck = 0.8 * same_luck + 0.6 * noise(rng, rows, memory)
        level = np.clip(p + luck * batch_error(p, prompts, group), 0.0, 1.0)
        count = np.round(batch * level).astype(int)
        count[p <= 0.0] = 0
        own = rng.logistic(size=size)
        score = (np.where(tied, rng.logistic(size=(rows, prompts, 1)), own) - difficulty).reshape(rows, batch)
        ranked = -np.sort(-score, axis=1)
        least = np.where(count > 0, ranked[np.arange(rows), np.maximum(count, 1) - 1], np.inf)
        rewards[name] = (score >= least[:, None]).astype(float).reshape(size)
    for name, value in plan.sizes.items():
        rewards[name] = np.clip(value[:, None, None] * lengths / mean[:, None, None], 0.0, 1.0)
    for name, x in rewards.items():
        total += plan.weights[name] * x
        log[f"reward/component/{name}/mean"] = x.mean((1, 2))
        log[f"reward/component/{name}/std"] = x.reshape(rows, batch).std(1, ddof=1)
    within = total.std(2, ddof=1)
    log["reward/mean"] = total.mean((1, 2))
    log["reward/std/within-group" if plan.within_logged else "reward/std/batch"] = (
        within.mean(1) if plan.within_logged else total.reshape(rows, batch).std(1, ddof=1)
    )
    log["signal/zero-variance-share"] = (within < 1e-6).mean(1)
    log["length/mean"] = lengths.mean((1, 2))
    log["length/min"] = lengths.min((1, 2))
    log["length/max"] = lengths.max((1, 2))
    log["length/truncated-share"] = 1.0 - ended.mean((1, 2))
    log["length/terminated/mean"] = (lengths * ended).sum((1, 2)) / np.maximum(ended.sum((1, 2)), 1)
    log["systems/tokens"] = np.cumsum(lengths.sum((1, 2)))


def _preference(rng: np.random.Generator, plan: Plan, memory: float | str, log: dict[str, Floats]) -> None:
    """Accuracy of 64 pairs, and the two sides of the margin."""
    p = plan.exact.pop("accuracy")
    drawn = np.clip(p + noise(rng, plan.rows, memory) * np.sqrt(p * (1.0 - p) / 64.0), 0.0, 1.0)
    log["preference/accuracy"] = np.round(64.0 * drawn) / 64.0
    log["preference/chosen-reward"] = log.pop("chosen")
    log["preference/rejected-reward"] = log["preference/chosen-reward"] - log["preference/margin"]


def drawn(rng: np.random.Generator, plan: Plan, memory: float | str, path: str) -> Run:
    """Draw a plan with noise of this memory."""
    log: dict[str, Floats] = {}
    for name, level in plan.levels.items():
        spread, outliers = plan.noises[name]
        loud = np.where(rng.random(plan.rows) < outliers, rng.uniform(1.5, 4.0, plan.rows), 1.0)
        log[name] = level * np.exp(spread * noise(rng, plan.rows, memory) - spread**2 / 2.0) * loud
        if name.endswith("share"):
            log[name] = np.minimum(log[name], 1.0)
    for name, level in plan.plain.items():
        log[name] = level + plan.noises[name][0] * noise(rng, plan.rows, memory)
    if plan.kind == "grpo":
        _samples(rng, plan, memory, log)
        log["clip/fraction/total"] = log["clip/fraction/low"] + log["clip/fraction/high"]
        if "kl/reference" in log:
            log["loss/total"] = log["loss/total"] + float(plan.knobs.get("kl-coef", 0.0)) * log["kl/reference"]
    if plan.kind == "dpo":
        _preference(rng, plan, memory, log)
    if plan.kind == "ppo":
        log["reward/penalised/mean"] = log["reward/mean"] + log["reward/kl-penalty/mean"]
        log["value/explained-variance"] = np.minimum(log["value/explained-variance"], 1.0)
    log |= plan.exact
    if plan.held_out is not None:
        name = "eval/preference/margin" if plan.kind == "dpo" else "eval/score/mean"
        rows = np.arange(plan.rows)
        values = plan.held_out + plan.eval_error * rng.standard_normal(plan.rows)
        log[name] = np.where((rows + 1) % plan.eval_every == 0, values, np.inf)
    for change in plan.after:
        change(log)
    return _run(plan, log, path)


def _run(plan: Plan, log: Mapping[str, Floats], path: str) -> Run:
    steps = plan.first + (np.arange(plan.rows, dtype=np.int64) + 1) * plan.stride
    series = {}
    for name, values in log.items():
        logged = ~np.isinf(values)
        series[name] = Series(name, steps[logged], np.asarray(values[logged], dtype=float))
    of_groups = plan.kind == "grpo"
    declared = Declared(
        updates_per_rollout=None if plan.kind == "dpo" else plan.updates,
        max_length=plan.cap if of_groups else None,
        kl_by_design=None if plan.kind == "dpo" else plan.kind == "ppo" or "kl/reference" in series,
        component_weights=MappingProxyType(dict(plan.weights)),
        steps_per_row=float(plan.stride),
        batch_completions=float(plan.prompts * plan.group) if of_groups else None,
        group_size=float(plan.group) if of_groups else None,
        group_centred=of_groups,
    )
    knobs = {k: KnobSetting(k, k, v) for k, v in plan.knobs.items()}
    return Run(path, "trl", plan.kind, MappingProxyType(series), steps, declared=declared,
               knobs=MappingProxyType(knobs), events=tuple(plan.events))  # fmt: skip


def healthy(rng: np.random.Generator, shape: str, memory: float | str, rows: int, kind: str = "grpo") -> Run:
    """A healthy run: one of `SHAPES`, one of `MEMORIES`, so many logged rows.

    The shape `constant` is no run that anybody wants but the plainest background for a false alarm: half
    of the gain was made before the log begins, and nothing moves.
    """
    plan = PLANS[kind](rng, shape, rows)
    if shape == "constant":
        plan.first = 10_000
    return drawn(rng, plan, memory, f"{kind}, {shape}, memory {memory}, {rows} rows")

"""Canonical metrics: `quantity/aggregate/population`, with unit, range and meaning.

The population is part of the name because the same word means different things: the spread
of rewards *within a group* feeds GRPO's advantages, the spread over *the batch* does not.
"""

from __future__ import annotations

from dataclasses import dataclass

INFINITY = float("inf")
PER_TOKEN, PER_SEQUENCE = "nats/token", "nats/sequence"
"""The two units of a divergence: a mean over tokens, and their sum over a sequence."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One quantity that a run may log.

    `low` and `high` bound what the quantity can be, not what is healthy. `scale` says whether
    ratios mean something (`ratio`: a positive size, judged on a logarithm) or only differences
    (`difference`). `family` groups metrics for the reader.
    """

    name: str
    unit: str
    meaning: str
    low: float = -INFINITY
    high: float = INFINITY
    scale: str = "difference"

    @property
    def family(self) -> str:
        """First part of the name."""
        return self.name.split("/", 1)[0]


def _positive(name: str, unit: str, meaning: str) -> Metric:
    return Metric(name, unit, meaning, low=0.0, scale="ratio")


def _share(name: str, meaning: str) -> Metric:
    return Metric(name, "share", meaning, low=0.0, high=1.0)


_ALL = (
    Metric("reward/mean", "reward", "Mean raw score of the training batch, before any KL penalty."),
    Metric("reward/penalised/mean", "reward", "Mean score after the KL penalty was subtracted."),
    Metric("reward/kl-penalty/mean", "reward", "What the KL penalty adds to the score (negative: it costs)."),
    Metric("reward/min", "reward", "Smallest raw score of the batch."),
    Metric("reward/max", "reward", "Largest raw score of the batch."),
    _share("reward/clipped-share", "Share of rewards that were cut at a bound before they were used."),
    Metric("reward/kept/mean", "reward", "Mean raw score of the groups that a dynamic filter kept."),
    _positive("reward/std/batch", "reward", "Spread of rewards over the whole batch, groups mixed."),
    _positive(
        "reward/std/within-group",
        "reward",
        "Spread of rewards inside a group of one prompt: the mean as logged, the root mean square as counted.",
    ),
    _positive("reward/range/within-group", "reward", "Mean of largest minus smallest reward inside a group."),
    Metric("reward/component/*/mean", "reward", "Mean of one reward function, before its weight."),
    _positive("reward/component/*/std", "reward", "Batch spread of one reward function, before its weight."),
    Metric(
        "reward/component/*/variance-share",
        "share",
        "Part of the rewards' variance inside groups that one weighted function makes; the parts add up to 1.",
    ),
    Metric(
        "reward/component-conflict",
        "correlation",
        "Lowest correlation inside groups between two reward functions.",
        low=-1.0,
        high=1.0,
    ),
    Metric(
        "reward/truncated-gap/within-group",
        "reward",
        "Mean reward of cut completions minus that of finished ones, inside groups that hold both.",
    ),
    _positive("reward/truncated-gap/se", "reward", "Standard error of that gap, from the groups."),
    _share("signal/zero-variance-share", "Share of groups whose rewards are all equal: no advantage there."),
    _share(
        "signal/solved-share",
        "Share of groups in which every completion has the full reward; counted: the same one, the highest so far.",
    ),
    _share(
        "signal/unsolved-share",
        "Share of groups in which no completion has any reward; counted: without spread, and nothing of the task's rewards.",
    ),
    _share(
        "signal/tiny-spread-share",
        "Share of groups whose spread is above rounding and below a twentieth of the batch spread at the start.",
    ),
    _share("signal/shaping-only-share", "Share of groups that all fail the task and differ in shaping terms alone."),
    Metric(
        "signal/zero-variance-excess",
        "share",
        "Share of groups without spread minus what the batch's rewards, dealt at random to groups, would give.",
        low=-1.0,
        high=1.0,
    ),
    _positive("signal/effective-groups", "groups", "Groups whose rewards differ."),
    _positive("signal/effective-completions", "samples", "Completions in groups whose rewards differ."),
    _positive(
        "signal/groups-dropped", "groups", "Groups that a filter dropped since the step before, for lack of spread."
    ),
    Metric("eval/score/mean", "reward", "Mean score on held-out prompts."),
    Metric("eval/set/*/mean", "reward", "Mean score on one named held-out set."),
    Metric("eval/component/*/mean", "reward", "Mean of one reward function on held-out prompts."),
    Metric("eval/preference/margin", "nats", "Implicit reward margin on held-out pairs."),
    _share("eval/preference/accuracy", "Share of held-out pairs ranked correctly."),
    Metric("eval/loss", "loss", "Loss on held-out data; says little about an RL run."),
    Metric("kl/reference", "nats/token", "Divergence of the policy from its reference, token mean."),
    Metric("kl/reference/sequence", "nats/sequence", "Divergence from the reference, summed over a sequence."),
    Metric("kl/update", "nats/token", "Divergence of the updated policy from the one that sampled."),
    _positive("kl/coefficient", "1", "Weight of the KL term as it stands; moves under an adaptive controller."),
    Metric("ratio/mean", "ratio", "Mean probability ratio new/old policy.", low=0.0),
    Metric("ratio/variance", "ratio^2", "Variance of the probability ratio.", low=0.0),
    Metric("ratio/min", "ratio", "Smallest probability ratio new/old policy.", low=0.0),
    Metric("ratio/max", "ratio", "Largest probability ratio new/old policy.", low=0.0),
    _share("clip/fraction/total", "Share of tokens (or sequences) whose ratio was clipped on either side."),
    _share("clip/fraction/low", "Share clipped from below (disadvantaged tokens)."),
    _share("clip/fraction/high", "Share clipped from above (advantaged tokens)."),
    _share("clip/fraction/high-max", "Largest high-side clipped share among completions."),
    _positive("entropy/mean", "nats/token", "Mean entropy of the policy's next-token distribution."),
    _positive("entropy/sequence", "nats/sequence", "Entropy estimate summed over a sequence."),
    _positive("attention/entropy/mean", "nats", "Mean entropy of the attention weights over layers, heads and tokens."),
    _positive("attention/entropy/layer-min", "nats", "Mean attention entropy of the layer that has the least."),
    _positive("length/mean", "tokens", "Mean completion length."),
    _positive("length/min", "tokens", "Shortest completion of the batch."),
    _positive("length/max", "tokens", "Longest completion of the batch."),
    _positive("length/std", "tokens", "Spread of completion lengths over the batch."),
    _positive("length/prompt/mean", "tokens", "Mean prompt length."),
    _positive("length/terminated/mean", "tokens", "Mean length of the completions that ended by themselves."),
    _share("length/truncated-share", "Share of completions cut at the length cap."),
    _share("length/aborted-share", "Share of completions that were aborted or came back empty."),
    _positive("length/std/within-group", "tokens", "Spread of completion lengths inside a group of one prompt."),
    _positive(
        "length/log-std/within-group",
        "1",
        "Spread of log length inside groups, root mean square; from bytes where tokens are not known.",
    ),
    _share(
        "length/bimodality/within-group",
        "Bimodality coefficient of log length relative to the group's mean, cut completions left out.",
    ),
    _positive(
        "length/bimodality/separation",
        "sd",
        "Distance of the two modes of those lengths in their own spreads; 0 where one mode fits as well.",
    ),
    _share("length/bimodality/dip-p", "p of the dip test that those lengths have one mode."),
    Metric(
        "length/reward-correlation/within-group",
        "correlation",
        "Rank correlation of length and reward inside groups, pooled over groups.",
        low=-1.0,
        high=1.0,
    ),
    _positive("length/reward-correlation/se", "correlation", "Standard error of that correlation, from the groups."),
    _positive("length/solved/mean", "tokens", "Mean length of the completions with the reward of a right answer."),
    _positive("length/unsolved/mean", "tokens", "Mean length of the completions without any reward."),
    _positive("turns/mean", "turns", "Mean turns per episode."),
    Metric("importance-weight/mean", "ratio", "Mean weight proximal/current policy.", low=0.0),
    Metric("importance-weight/min", "ratio", "Smallest weight proximal/current policy.", low=0.0),
    Metric("importance-weight/max", "ratio", "Largest weight proximal/current policy.", low=0.0),
    Metric("behaviour-weight/mean", "ratio", "Mean weight trainer/sampling engine, as applied.", low=0.0),
    Metric("behaviour-weight/min", "ratio", "Smallest weight trainer/sampling engine.", low=0.0),
    Metric("behaviour-weight/max", "ratio", "Largest weight trainer/sampling engine.", low=0.0),
    _share("behaviour-weight/capped-share", "Share of trainer/sampler weights that were capped, masked or rejected."),
    _share("behaviour-weight/effective-share", "Effective sample size of the trainer/sampler weights, as a share."),
    _positive("engine/logprob-gap/mean", "nats", "Mean |trainer - sampler| log-probability gap per token."),
    _positive("engine/logprob-gap/max", "nats", "Largest |trainer - sampler| log-probability gap."),
    _positive("engine/probability-gap/mean", "probability", "Mean |trainer - sampler| probability gap per token."),
    _positive("engine/probability-gap/max", "probability", "Largest |trainer - sampler| probability gap."),
    Metric(
        "engine/correlation",
        "correlation",
        "Correlation of the trainer's and the sampler's probabilities.",
        low=-1.0,
        high=1.0,
    ),
    Metric(
        "engine/kl", "nats/token", "Divergence of the sampling engine from the trainer, same weights or stale ones."
    ),
    _positive("staleness/mean", "versions", "How many policy versions old the samples are, on average."),
    _positive("staleness/max", "versions", "How many policy versions old the oldest sample is."),
    _positive("staleness/dropped", "samples", "Samples dropped for being too old, since the step before."),
    Metric("advantage/max", "advantage", "Largest advantage of the batch, as it enters the loss."),
    Metric("advantage/min", "advantage", "Smallest advantage of the batch, as it enters the loss."),
    _positive("advantage/max/group-sds", "sd", "Largest advantage of the batch, in standard deviations of its group."),
    Metric("loss/policy", "loss", "Policy surrogate loss; no measure of progress."),
    Metric("loss/total", "loss", "The loss that was optimised; no measure of progress in RL."),
    _positive("loss/value", "loss", "Value function loss."),
    _share("value/clip-fraction", "Share of value predictions clipped."),
    Metric("value/explained-variance", "share", "Share of return variance the value function explains.", high=1.0),
    _positive("gradient/norm", "norm", "Global gradient norm, before clipping."),
    _positive("learning-rate", "1", "Learning rate of the first parameter group."),
    Metric("preference/chosen-reward", "nats", "Implicit reward of chosen answers."),
    Metric("preference/rejected-reward", "nats", "Implicit reward of rejected answers."),
    Metric("preference/margin", "nats", "Chosen minus rejected implicit reward."),
    _share("preference/accuracy", "Share of training pairs ranked correctly."),
    Metric("preference/chosen-logp", "nats", "Log-probability of chosen answers.", high=0.0),
    Metric("preference/rejected-logp", "nats", "Log-probability of rejected answers.", high=0.0),
    _positive("text/token-accuracy", "share", "Share of tokens predicted right under teacher forcing."),
    _positive("text/distinct-share", "share", "Share of distinct completions or n-grams."),
    _share(
        "text/distinct-ngram-share",
        "Distinct word 4-grams over all in a group, its completions' first 256 words each.",
    ),
    _share(
        "text/repetition-share",
        "Share of a completion's last 2,000 bytes inside an exact loop that it ends in (three times around at least).",
    ),
    _share("text/looping-share", "Share of completions that are mostly one passage over and over."),
    _share("text/duplicate-share/within-group", "Share of completions that are an exact copy of one in their group."),
    _share("text/duplicate-share/across-prompts", "Share of completions that also answer another prompt of the batch."),
    _positive(
        "text/group-diversity",
        "share",
        "Compressed size of a group's completions together over the sum of their sizes apart (zstd).",
    ),
    _share(
        "text/garbled-share",
        "Share of completions with replacement or control characters, or with scripts that the prompts do not use.",
    ),
    _positive("text/character-entropy", "bits", "Entropy of the bytes in a completion's last 2,000."),
    _positive("text/tail-compression", "share", "Compressed size over size of a completion's last 2,000 bytes (zstd)."),
    _positive("text/size/mean", "bytes", "Mean size of a completion's text."),
    _positive("text/prompt-size/mean", "bytes", "Mean size of a prompt's text."),
    _share("text/empty-share", "Share of completions without text."),
    Metric("samples/reward/mean", "reward", "Mean raw score, counted from the completions."),
    _positive(
        "samples/reward/se",
        "reward",
        "Standard error of that mean, taken over groups: rewards of one prompt are alike.",
    ),
    _share("samples/source/*/share", "Share of completions whose prompt is of one data set."),
    Metric("samples/source/*/reward", "reward", "Mean raw score of the completions whose prompt is of one data set."),
    _share("samples/zero-variance-share", "Share of groups without spread, counted from the completions."),
    _share("samples/truncated-share", "Share of completions cut at the length cap, counted from the completions."),
    _positive("systems/step-time", "s", "Wall time of a training step."),
    _positive("systems/rollout-time", "s", "Wall time of the generation phase of a step."),
    _positive("systems/train-time", "s", "Wall time of the policy update of a step."),
    _positive("systems/logprob-time", "s", "Wall time of recomputing log-probabilities in a step."),
    _positive("systems/reward-time", "s", "Wall time of scoring in a step."),
    _positive("systems/sync-time", "s", "Wall time of handing new weights to the sampler."),
    _positive("systems/wait-time", "s", "Time that the trainer waited for samples in a step."),
    _positive("systems/checkpoint-time", "s", "Wall time of saving a checkpoint."),
    _positive("systems/eval-time", "s", "Wall time of an evaluation."),
    _positive("systems/throughput", "tokens/s", "Tokens per second, as the framework counts them."),
    _positive("systems/request-time/mean", "s", "Mean wall time of one rollout request, from prompt to last token."),
    _positive("systems/request-time/max", "s", "Wall time of the slowest rollout request of the step."),
    _positive("systems/memory", "GiB", "Device memory in use at the peak of the step."),
    _share("systems/memory-share", "Share of device memory in use at the peak of the step."),
    _share("systems/memory-share/low", "Share of device memory in use at the emptiest moment of the step."),
    _positive("systems/power/min", "W", "Lowest power draw during the step, mean over devices."),
    _positive("systems/power/max", "W", "Highest power draw during the step, mean over devices."),
    _share("systems/device-use", "Share of the step in which a device computed anything, mean over devices."),
    _share(
        "systems/host-memory-share", "Share of the host's memory in use, or of the container's where that is fuller."
    ),
    _positive("systems/host-memory", "GiB", "Resident host memory of the training process and its children, added up."),
    _share("systems/host-use", "Share of the host's processor time in use, by whatever process."),
    _positive(
        "systems/background/*/time",
        "s",
        "Time within the row in which one work beside the training ran: an upload, a merge, another process.",
    ),
    _share("systems/mfu", "Share of the devices' peak arithmetic that training uses."),
    Metric("systems/wall-clock", "s", "When the row was written, in seconds since 1970.", low=0.0),
    _positive("systems/tokens", "tokens", "Tokens processed so far."),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
"""Every canonical metric by name; families hold a `*`."""

_COUNTED = (
    "samples/", "length/log-std/", "reward/component-conflict", "reward/range/", "signal/effective-",
    "signal/zero-variance-excess", "text/character-entropy", "text/distinct-ngram-share", "text/size/", "text/prompt-size/",
    "text/tail-compression", "length/bimodality/", "length/reward-correlation/", "length/std/within-group", "length/truncated-share",
    "reward/std/within-group", "reward/truncated-gap/", "signal/zero-variance-share", "signal/solved-share",
    "signal/unsolved-share", "signal/tiny-spread-share", "signal/shaping-only-share", "text/distinct-share",
    "text/duplicate-share/", "text/empty-share", "text/garbled-share", "text/group-diversity", "text/looping-share",
    "text/repetition-share",
)  # fmt: skip
FROM_SAMPLES = frozenset(name for name in METRICS if name.startswith(_COUNTED))
"""Metrics that can be counted from completions with their rewards, in groups of one prompt, where nobody logs them."""


def lookup(name: str) -> Metric:
    """The metric of that name; a member of a family gives the family's entry.

    Raises:
        KeyError: no such metric.
    """
    if name in METRICS:
        return METRICS[name]
    parts = name.split("/")
    if len(parts) >= 4:
        return METRICS["/".join([*parts[:2], "*", parts[-1]])]
    raise KeyError(name)


def component_of(name: str) -> str | None:
    """`reward/component/x/mean` -> `x`; None for other metrics."""
    if name.startswith(("reward/component/", "eval/component/")):
        return "/".join(name.split("/")[2:-1])
    return None

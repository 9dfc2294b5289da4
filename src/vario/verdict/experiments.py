"""What to try when the log cannot tell: an experiment, what either outcome would mean, and the patch that makes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vario.rules.base import Turn
from vario.run import Run, Setting
from vario.verdict.changes import change_of
from vario.verdict.ladder import BRANCHES, Branch, Rung
from vario.verdict.patch import patch

DATA_KEYS = (
    ("data.train_files", "data.val_files"),
    ("train_dataset.path", "valid_dataset.path"),
    ("data.train.data_path", "data.validation.data_path"),
)
"""Where frameworks name both sets; used only where the run's own configuration holds both."""
SIZE_OF_ALL = "num_rollouts"
"""How a key is called that sets `minibatches` by the size of what is split."""
SEED_KEYS = ("seed", "data.seed", "grpo.seed", "trainer.seed", "train.seed", "training.seed")
OFF_POLICY = frozenset(
    {
        "rollouts-too-stale",
        "behaviour-weight-off-one",
        "engine-mismatch",
        "weights-never-synced",
        "importance-weight-off-one",
    }
)
REUSE = frozenset({"importance-weight-off-one", "ratio-far-from-one", "clip-fraction-high", "clip-fraction-growing"})
ENGINE = frozenset({"engine-mismatch", "weights-never-synced", "behaviour-weight-off-one"})
ONE_SEED = frozenset(
    {"reward-peaked-then-declined", "reward-variance-high", "reward-is-noise", "policy-collapse", "unexplained-change"}
)
STANDS = frozenset({Rung.MEASURE_BASELINE, Rung.TRAIN_ON_TEST, Rung.SETUP, Rung.DATA})


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment.

    Attributes:
        name: `synchronous`, `one-minibatch`, `zero-learning-rate`, `train-on-test`, `second-seed`, or a ladder's rung.
        why: what it decides. tells: outcome -> what that means.
        settings: the framework's own keys; empty where it has none for this. patch: the same, to be pasted.
        words: what no setting does.
    """

    name: str
    why: str
    tells: Mapping[str, str]
    settings: Mapping[str, Setting]
    patch: str
    words: tuple[str, ...] = ()


def experiments(run: Run, named: frozenset[str], branch: Branch | None) -> tuple[Experiment, ...]:
    """The experiments that would decide what is open here, the most decisive first."""
    return tuple(_wanted(run, named, branch))


def _made(
    run: Run, name: str, why: str, tells: Mapping[str, str], settings: Mapping[str, Setting], *words: str
) -> Experiment:
    return Experiment(name, why, tells, settings, patch(settings, run.patch) if settings else "", words)


def _set(run: Run, **wanted: Setting) -> dict[str, Setting]:
    """Settings under this framework's keys, for the knobs that it has; a switch only where its key is one."""
    settings: dict[str, Setting] = {}
    for name, value in wanted.items():
        knob = run.knobs.get(name.replace("_", "-"))
        if knob is None or (isinstance(value, bool) and not isinstance(knob.current, bool)):
            continue
        settings[knob.key] = not value if isinstance(value, bool) and knob.inverse else value
    return settings


def _wanted(run: Run, named: frozenset[str], branch: Branch | None) -> Iterator[Experiment]:
    if named & OFF_POLICY:
        settings = _set(run, staleness_bound=0, recompute_logprob=False, decoupled_loss=False)
        if "asynchronous" in run.knobs:
            settings = _set(run, asynchronous=False)  # a queue of no length may be one without a bound
        if "staleness-bound" in run.knobs:
            yield _made(
                run,
                "synchronous",
                "tells what staleness does from what the set-up does",
                {
                    "the trouble goes": "samples were too old: raise the bound step by step",
                    "it stays": "not staleness: the engine, the loss or the data",
                },
                settings,
            )
    if named & REUSE and run.declared.updates_per_rollout != 1.0:
        yield _made(
            run,
            "one-minibatch",
            "with one update per rollout the ratio is exactly 1",
            {
                "the ratio is 1": "several updates drove it away: keep fewer",
                "it is not": "trainer and sampler disagree on the same weights",
            },
            _one_update(run),
            "take the whole rollout batch in one update",
        )
    if named & ENGINE:
        yield _made(
            run,
            "zero-learning-rate",
            "ten steps without learning: nothing may move",
            {
                "the gap stays flat": "numerics, or settings of the sampler",
                "the gap grows, or the reward falls": "weights or samples are corrupted on the way",
            },
            _set(run, learning_rate=0.0),
            "stop after ten steps",
        )
    if branch is not None and branch.rung in STANDS:
        yield from _of_ladder(run, branch)
    if named & ONE_SEED:
        key = next((k for k in SEED_KEYS if k in run.config), None)
        seed = run.config.get(key) if key is not None else None
        other = seed + 1 if isinstance(seed, int) and not isinstance(seed, bool) else 1
        yield _made(
            run,
            "second-seed",
            "one run cannot tell its recipe from its luck",
            {"the same happens": "the recipe", "it does not": "chance: no knob is to blame"},
            {key: other} if key is not None else {},
            "run it again with another seed",
        )


def _one_update(run: Run) -> dict[str, Setting]:
    """One part, in one pass: their number where the key counts them, else the size, by the updates that there are."""
    settings = _set(run, epochs=1)
    knob = run.knobs.get("minibatches")
    if knob is None:
        return settings
    of_all = knob.key.endswith(SIZE_OF_ALL)
    if not knob.inverse and not of_all:
        return settings | {knob.key: 1}
    updates, passes = run.declared.updates_per_rollout, run.knobs.get("epochs")
    epochs = passes.current if passes is not None and passes.current else 1
    if not isinstance(knob.current, int) or not isinstance(epochs, int) or updates is None:
        return settings
    parts = updates / epochs
    return settings | {knob.key: round(knob.current / parts if of_all else knob.current * parts)}


def _of_ladder(run: Run, branch: Branch) -> Iterator[Experiment]:
    if branch.rung is Rung.MEASURE_BASELINE:
        yield _made(run, branch.rung.value, branch.means, {}, {}, *branch.words)
    if branch.rung not in (Rung.TRAIN_ON_TEST, Rung.MEASURE_BASELINE):
        yield _made(run, branch.rung.value, branch.means, {}, _turned(run, branch.turns), *branch.words)
        return
    tells = {
        "it rises there": "the training data: quality, distribution, difficulty",
        "it does not": "batch size or learning rate, another base model, SFT first",
    }
    pair = next(((a, b) for a, b in DATA_KEYS if run.config.get(a) and run.config.get(b)), None)
    settings: dict[str, Setting] = {pair[0]: run.config[pair[1]]} if pair is not None else {}
    words = BRANCHES[Rung.TRAIN_ON_TEST].words
    yield _made(run, "train-on-test", "shows whether the reward can rise at all", tells, settings, *words)


def _turned(run: Run, turns: tuple[Turn, ...]) -> dict[str, Setting]:
    changes = [c for t in turns if (c := change_of(t, run)) is not None]
    return {c.key: c.suggested for c in changes if c.key is not None and c.suggested is not None}

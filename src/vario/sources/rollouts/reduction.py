"""The reduction: a step's samples as one number per metric. What each means is said in the catalogue and here."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import polars as pl

from vario.catalogue.reward_words import pays_for_form
from vario.sources.rollouts.columns import COMPONENT
from vario.sources.rollouts.counting import GROUP, STEP, Counted
from vario.sources.rollouts.modes import modes

ROUNDING = 1e-6
"""Of the largest reward of the step: groups whose rewards lie closer have none but rounding between them (float32)."""
EFFECT_GROUPS = 3
"""Groups that an effect and its standard error are taken from. One batch needs five to be judged by itself
(methods, 5.3); the instruments pool five steps and more, and trust no error below the median one."""
LOOPING = 0.5
"""Share of its end inside a loop from which a completion counts as looping."""
VERSION = "_version"
"""Column of the mean weights version that sampled; what it says of staleness depends on the framework."""
MAX_SOURCES = 12
"""Data sets that are counted apart, the first by their names."""
MAX_COMPONENTS = 12
"""Reward functions whose pairs are compared."""
TIED_VALUES, TIED_FAILED, GROUP_SPREADS = "_tied", "_failed", "_spreads"
"""Columns that another step's samples are needed to judge: see `series`."""


def reduce(counted: Counted, weights: Mapping[str, float]) -> pl.DataFrame:
    """One row for each step (train and evaluation apart) with a column for each metric that could be counted.

    All over samples with a finite reward where rewards are concerned; a group counts for spreads with two of them.
    A metric that cannot be counted is null.
    """
    rows = counted.rows.lazy()
    names = counted.names
    groups = _groups(rows, names, weights)
    parts = [
        _rewards(rows, names),
        _spreads(groups),
        _chance(rows, groups),
        _lengths(rows, groups),
        _correlation(rows),
        _truncation(rows),
        _duplicates(rows),
        _texts(rows),
        _alike(counted.groups.lazy()),
        _advantages(rows),
        _sources(counted.rows),
        *([_components(rows, names, weights)] if names else []),
    ]
    whole = rows.group_by(*STEP, maintain_order=True).agg(rows=pl.len())
    for part in parts:
        whole = whole.join(part, on=STEP, how="left")
    made = _collected(whole.sort(*STEP))
    return _with_modes(made, rows)


def _collected(lazy: pl.LazyFrame) -> pl.DataFrame:
    """The same to the last bit however the dump is divided: every sum is taken in the order of the rows.

    The streaming engine adds up in an order that depends on what else lies in the block, and without the flag the
    optimiser forgets the order of groups where it takes it for unobserved.
    """
    return lazy.collect(engine="in-memory", optimizations=pl.QueryOptFlags(check_order_observe=False))


def _groups(rows: pl.LazyFrame, names: tuple[str, ...], weights: Mapping[str, float]) -> pl.LazyFrame:
    """A row a group: rewards, and which of its reward functions paid anything."""
    task = [n for n in names if not pays_for_form(n)]
    # a function that is logged with weight 0 is there to be watched: it tells the task from what is paid
    task = [n for n in task if weights.get(n) == 0.0] or task
    failed: pl.Expr = pl.lit(None)
    if task and len(task) < len(names):
        failed = pl.max_horizontal([pl.col(COMPONENT + n).max() for n in task]) <= 0.0
    reward = pl.col("reward")
    return rows.group_by(*GROUP, maintain_order=True).agg(
        rows=pl.len(),
        n=reward.count(),
        mean=reward.mean(),
        variance=reward.var(),
        low=reward.min(),
        high=reward.max(),
        failed=failed.cast(pl.Boolean),
        size_variance=pl.when(pl.col("length").count() > 1).then(pl.col("length").var()),
        log_variance=_log_length().var(),
    )


def _log_length() -> pl.Expr:
    """Log of the length in tokens, or in bytes where that is all there is; relative to others only."""
    return pl.coalesce("length", pl.col("size").cast(pl.Float64)).clip(lower_bound=1.0).log()


def _rewards(rows: pl.LazyFrame, names: tuple[str, ...]) -> pl.LazyFrame:
    reward = pl.col("reward")
    means = rows.group_by(*STEP, maintain_order=True).agg(
        reward.mean().alias("samples/reward/mean"),
        reward.std().alias("reward/std/batch"),
        reward.min().alias("reward/min"),
        reward.max().alias("reward/max"),
        *(pl.col(COMPONENT + n).mean().alias(f"reward/component/{n}/mean") for n in names),
        *(pl.col(COMPONENT + n).std().alias(f"reward/component/{n}/std") for n in names),
        pl.col("version").mean().alias(VERSION),
    )
    # errors come in groups: rewards of one prompt resemble each other, so the groups are what is independent
    centred = rows.with_columns(residual=reward - reward.mean().over(*STEP))
    error = (
        centred.group_by(*GROUP, maintain_order=True)
        .agg(residual=pl.col("residual").sum(), n=reward.count())
        .filter(pl.col("n") > 0)
        .group_by(*STEP, maintain_order=True)
        .agg(
            pl.when(pl.len() > 1)
            .then(((pl.col("residual") ** 2).sum() * pl.len() / (pl.len() - 1)).sqrt() / pl.col("n").sum())
            .alias("samples/reward/se")
        )
    )
    return means.join(error, on=STEP, how="left")


def _tolerance() -> pl.Expr:
    largest = pl.max_horizontal(pl.col("low").abs().max(), pl.col("high").abs().max())
    return ROUNDING * largest.over(*STEP)


def _spreads(groups: pl.LazyFrame) -> pl.LazyFrame:
    """Within groups of two rewards and more. A group is tied when they differ by rounding at most."""
    of_two = groups.with_columns(tied=pl.col("high") - pl.col("low") <= _tolerance()).filter(pl.col("n") > 1)
    tied = pl.col("tied")
    return of_two.group_by(*STEP, maintain_order=True).agg(
        pl.col("variance").mean().sqrt().alias("reward/std/within-group"),
        (pl.col("high") - pl.col("low")).mean().alias("reward/range/within-group"),
        tied.mean().alias("samples/zero-variance-share"),
        (~tied).sum().cast(pl.Float64).alias("signal/effective-groups"),
        pl.col("rows").filter(~tied).sum().cast(pl.Float64).alias("signal/effective-completions"),
        (pl.col("failed") & ~tied).filter(pl.col("failed").is_not_null()).mean().alias("signal/shaping-only-share"),
        pl.col("mean").filter(tied).alias(TIED_VALUES),
        pl.col("failed").filter(tied).alias(TIED_FAILED),
        pl.when(tied).then(0.0).otherwise(pl.col("variance").sqrt()).alias(GROUP_SPREADS),
    )


def _chance(rows: pl.LazyFrame, groups: pl.LazyFrame) -> pl.LazyFrame:
    """Share of tied groups if the step's rewards were dealt to its groups at random: the sum of p^n over its rewards.

    n is the commonest number of rewards in a group, the smaller of two.
    """
    size = groups.filter(pl.col("n") > 1).group_by(*STEP, maintain_order=True).agg(size=pl.col("n").mode().min())
    shares = (
        rows.filter(pl.col("reward").is_not_null())
        .group_by(*STEP, "reward", maintain_order=True)
        .agg(count=pl.len())
        .join(size, on=STEP, maintain_order="left")
        .with_columns(share=pl.col("count") / pl.col("count").sum().over(*STEP))
    )
    return shares.group_by(*STEP, maintain_order=True).agg(
        (pl.col("share") ** pl.col("size")).sum().alias("_tied_by_chance")
    )


def _lengths(rows: pl.LazyFrame, groups: pl.LazyFrame) -> pl.LazyFrame:
    known = pl.col("length").filter("length_known")
    cut = pl.col("truncated").filter("cut_known")
    within = groups.group_by(*STEP, maintain_order=True).agg(
        pl.col("size_variance").mean().sqrt().alias("length/std/within-group"),
        pl.col("log_variance").mean().sqrt().alias("length/log-std/within-group"),
    )
    finished = pl.col("length").filter(pl.col("length_known") & pl.col("cut_known") & ~pl.col("truncated"))
    best, none = pl.col("reward") == pl.col("reward").max(), pl.col("reward") <= 0.0
    apart = pl.col("reward").max() > pl.max_horizontal(pl.col("reward").min(), pl.lit(0.0))
    of_best = pl.col("length").filter(best & pl.col("length_known")).mean()
    of_none = pl.col("length").filter(none & pl.col("length_known")).mean()
    made = rows.group_by(*STEP, maintain_order=True).agg(
        known.mean().alias("length/mean"),
        known.min().alias("length/min"),
        known.max().alias("length/max"),
        known.std().alias("length/std"),
        finished.mean().alias("length/terminated/mean"),
        cut.mean().alias("samples/truncated-share"),
        pl.col("size").mean().alias("text/size/mean"),
        pl.col("prompt_size").mean().alias("text/prompt-size/mean"),
        pl.when(apart).then(of_best).alias("length/solved/mean"),
        pl.when(apart).then(of_none).alias("length/unsolved/mean"),
    )
    return made.join(within, on=STEP, how="left")


def _correlation(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Spearman's correlation with ranks inside groups, pooled; its error from the groups' own parts (methods, 5.2)."""
    both = rows.filter(pl.col("reward").is_not_null() & _log_length().is_not_null())
    length = pl.coalesce("length", pl.col("size").cast(pl.Float64)).rank("average")
    ranked = both.with_columns(
        a=(length - length.mean()).over(*GROUP),
        b=(pl.col("reward").rank("average") - pl.col("reward").rank("average").mean()).over(*GROUP),
    )
    a, b = pl.col("a"), pl.col("b")
    groups = ranked.group_by(*GROUP, maintain_order=True).agg(ab=(a * b).sum(), aa=(a * a).sum(), bb=(b * b).sum())
    groups = groups.filter((pl.col("aa") > 0.0) & (pl.col("bb") > 0.0))
    ab, aa, bb = (pl.col(n).sum().over(*STEP) for n in ("ab", "aa", "bb"))
    rho = ab / (aa * bb).sqrt()
    part = pl.col("ab") / (aa * bb).sqrt() - rho / 2.0 * (pl.col("aa") / aa + pl.col("bb") / bb)
    found = (
        groups.with_columns(rho=rho, part=part)
        .group_by(*STEP, maintain_order=True)
        .agg(
            pl.col("rho").first(),
            error=((pl.col("part") ** 2).sum() * pl.len() / (pl.len() - 1)).sqrt(),
            count=pl.len(),
        )
    )
    return _effect(
        found.with_columns(scale=1.0), "rho", "length/reward-correlation/within-group", "length/reward-correlation/se"
    )


def _truncation(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Mean reward of cut minus finished completions in groups that hold both, weighted by n1·n0/n."""
    known = rows.with_columns(scale=pl.col("reward").abs().max().over(*STEP)).filter(
        pl.col("truncated").is_not_null() & pl.col("reward").is_not_null()
    )
    cut = pl.col("truncated")
    groups = (
        known.group_by(*GROUP, maintain_order=True)
        .agg(
            n=pl.len(),
            cut=cut.sum(),
            gap=pl.col("reward").filter(cut).mean() - pl.col("reward").filter(~cut).mean(),
            scale=pl.col("scale").first(),
        )
        .filter((pl.col("cut") > 0) & (pl.col("cut") < pl.col("n")))
        .with_columns(weight=pl.col("cut") * (pl.col("n") - pl.col("cut")) / pl.col("n"))
    )
    total = pl.col("weight").sum()
    mean = ((pl.col("weight") * pl.col("gap")).sum() / total).over(*STEP)
    found = (
        groups.with_columns(mean=mean, part=pl.col("weight") * (pl.col("gap") - mean))
        .group_by(*STEP, maintain_order=True)
        .agg(
            pl.col("mean", "scale").first(),
            error=((pl.col("part") ** 2).sum() * pl.len() / (pl.len() - 1)).sqrt() / total,
            count=pl.len(),
        )
    )
    return _effect(found, "mean", "reward/truncated-gap/within-group", "reward/truncated-gap/se")


def _effect(found: pl.LazyFrame, effect: str, name: str, error: str) -> pl.LazyFrame:
    """An effect with its error, from enough groups; one without scatter but rounding has no error to be judged by."""
    enough = (pl.col("count") >= EFFECT_GROUPS) & (pl.col("error") > ROUNDING * pl.col("scale"))
    return found.select(*STEP, pl.when(enough).then(effect).alias(name), pl.when(enough).then("error").alias(error))


def _duplicates(rows: pl.LazyFrame) -> pl.LazyFrame:
    held = rows.filter(pl.col("size").is_not_null())
    copies = pl.len().over(*GROUP, "text") > 1
    shared = held.group_by(*STEP, "text", maintain_order=True).agg(
        shared=pl.col("asked").n_unique() > 1, count=pl.len()
    )
    across = shared.group_by(*STEP, maintain_order=True).agg(
        (pl.col("count").filter("shared").sum() / pl.col("count").sum()).alias("text/duplicate-share/across-prompts"),
        (pl.len() / pl.col("count").sum()).alias("text/distinct-share"),
    )
    within = (
        held.with_columns(copy=copies)
        .group_by(*STEP, maintain_order=True)
        .agg(
            pl.col("copy").mean().alias("text/duplicate-share/within-group"),
            pl.col("empty").mean().alias("text/empty-share"),
        )
    )
    return across.join(within, on=STEP, how="full", coalesce=True)


def _texts(rows: pl.LazyFrame) -> pl.LazyFrame:
    return (
        rows.filter("drawn")
        .group_by(*STEP, maintain_order=True)
        .agg(
            pl.col("looped").mean().alias("text/repetition-share"),
            (pl.col("looped") > LOOPING).mean().alias("text/looping-share"),
            pl.col("garbled").mean().alias("text/garbled-share"),
            pl.col("entropy").mean().alias("text/character-entropy"),
            pl.col("packed").mean().alias("text/tail-compression"),
        )
    )


def _alike(groups: pl.LazyFrame) -> pl.LazyFrame:
    return groups.group_by(*STEP, maintain_order=True).agg(
        pl.col("diversity").mean().alias("text/group-diversity"),
        pl.col("distinct").mean().alias("text/distinct-ngram-share"),
    )


def _sources(rows: pl.DataFrame) -> pl.LazyFrame:
    """Share and mean reward of each data set among the samples whose source is known."""
    names = rows["source"].drop_nulls().unique().sort().head(MAX_SOURCES).to_list()
    of = pl.col("source")
    return (
        rows.lazy()
        .filter(of.is_not_null())
        .group_by(*STEP, maintain_order=True)
        .agg(
            *((of == name).mean().alias(f"samples/source/{name}/share") for name in names),
            *(pl.col("reward").filter(of == name).mean().alias(f"samples/source/{name}/reward") for name in names),
        )
    )


def _advantages(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.group_by(*STEP, maintain_order=True).agg(
        pl.col("advantage").max().alias("advantage/max"), pl.col("advantage").min().alias("advantage/min")
    )


def _components(rows: pl.LazyFrame, names: tuple[str, ...], weights: Mapping[str, float]) -> pl.LazyFrame:
    """Each function's share of the rewards' variance inside groups, and the pair that pulls most against each other.

    A function that does not apply to a completion adds nothing to its reward, and is compared with no other there.
    """
    rewarded = pl.col("reward").is_not_null()
    paid = {"reward": pl.col("reward")}
    paid |= {name: pl.when(rewarded).then(pl.col(COMPONENT + name).fill_null(0.0)) for name in names}
    centred = rows.with_columns(_within_groups(one).alias(f"~{name}") for name, one in paid.items())
    reward = pl.col("~reward")
    own = (reward * reward).sum()
    shares = []
    for name in names:
        covered = (pl.col(f"~{name}") * reward).sum() * weights.get(name, 1.0)
        there = pl.col(COMPONENT + name).is_not_null().any() & (own > _rounding("reward"))
        share = pl.when(there).then(covered / own)
        shares.append(share.alias(f"reward/component/{name}/variance-share"))
    pairs, sides = [], []
    for number, (one, other) in enumerate(combinations([COMPONENT + n for n in names[:MAX_COMPONENTS]], 2)):
        both = pl.col(one).is_not_null() & pl.col(other).is_not_null()
        sides += [_within_groups(pl.when(both).then(c)).alias(f"~{number}{s}") for c, s in ((one, "a"), (other, "b"))]
        a, b = pl.col(f"~{number}a"), pl.col(f"~{number}b")
        aa, bb = (a * a).sum(), (b * b).sum()
        differ = (aa > _rounding(one)) & (bb > _rounding(other))
        pairs.append(pl.when(differ).then((a * b).sum() / (aa.sqrt() * bb.sqrt())))
    conflict = [pl.min_horizontal(pairs).alias("reward/component-conflict")] if pairs else []
    return centred.with_columns(sides).group_by(*STEP, maintain_order=True).agg(*shares, *conflict)


def _within_groups(values: pl.Expr) -> pl.Expr:
    return values - values.mean().over(*GROUP)


def _rounding(column: str) -> pl.Expr:
    """What squares of differences add up to, at the most, where there is none but rounding."""
    return (ROUNDING * pl.col(column).abs().max()) ** 2


def _with_modes(made: pl.DataFrame, rows: pl.LazyFrame) -> pl.DataFrame:
    """Bimodality of log length relative to the group's mean, cut completions left out; groups of two and more."""
    finished = rows.filter(pl.col("truncated").is_null() | ~pl.col("truncated")).filter(
        pl.col("size").is_not_null() | pl.col("length").is_not_null()
    )
    length = pl.coalesce("length", pl.col("size").cast(pl.Float64))
    apart = (
        finished.select(
            *STEP, length=length, apart=_log_length() - _log_length().mean().over(*GROUP), n=pl.len().over(*GROUP)
        )
        .filter(pl.col("n") > 1)
        .group_by(*STEP, maintain_order=True)
        .agg("apart", distinct=pl.col("length").n_unique())
    )
    found = {
        (e, s): modes(np.asarray(values, dtype=np.float64), count) for e, s, values, count in _collected(apart).rows()
    }
    keys = made.select(*STEP).rows()
    for name, part in (("within-group", "coefficient"), ("separation", "separation"), ("dip-p", "dip_p")):
        values = [getattr(m, part) if (m := found.get(key)) is not None else None for key in keys]
        made = made.with_columns(pl.Series(f"length/bimodality/{name}", values, dtype=pl.Float64))
    return made

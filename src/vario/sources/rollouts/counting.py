"""Counting: what is known of each sample as numbers, without its texts. Works on a block of whole steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from vario.run import LARGEST
from vario.sources.rollouts import characters, compression, loops, words
from vario.sources.rollouts.bytes import Texts
from vario.sources.rollouts.columns import COMPONENT
from vario.sources.rollouts.layouts import Grouping, Layout

DRAWN = 128
"""Completions of a step whose texts are measured unless all are wanted: whole groups, evenly over their mean reward."""
TAIL = 2_000
"""Bytes at the end whose compression is measured; the compression of a whole text grows with its length."""
TAIL_LEAST = 256
"""Bytes below which compression says more of the compressor than of the text."""
CUT_ALIKE = 0.8
"""The cut completions all have the cap's length in tokens; shorter than this share of their median in bytes is none."""
WHOLE, RESUMES = 0.75, 3
"""Share of the usual rows of a step at which it counts as sampled anew, and parts at most: more are several steps mixed."""
AGREE = 0.95
"""Share of groups of consecutive rows that must have one prompt each."""
STEP = ("evaluation", "step")
GROUP = (*STEP, "group")


@dataclass(frozen=True, slots=True)
class Wishes:
    """What of the run helps to count its samples, and how much is wanted.

    Attributes:
        group_size: completions per prompt, where the configuration says it.
        weights: weight of each reward function by its name; the weighted sum is only taken where all are known.
        components: the reward functions that the run logs; of other columns of numbers nobody knows what they are.
        max_length: cap on the completion's length in tokens.
        lengths: logged mean length in tokens by step: brings bytes into tokens where a dump has none.
        cut: logged share of cut completions by step: tells which were cut where a dump does not.
        all_text: measure every text, not a sample of each step.
    """

    group_size: int | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    components: tuple[str, ...] = ()
    max_length: float | None = None
    lengths: Mapping[int, float] = field(default_factory=dict)
    cut: Mapping[int, float] = field(default_factory=dict)
    all_text: bool = False


@dataclass(frozen=True, slots=True)
class Counted:
    """A block in numbers.

    Attributes:
        rows: a row a sample, with `place_in_step`, by which a sample is found again.
        groups: a row a group whose texts were measured.
        names: its reward functions.
        repeated: steps that were sampled again after a resume; their last samples count.
        regrouped: steps whose rows were not in groups as configured: equal prompts were taken.
    """

    rows: pl.DataFrame
    groups: pl.DataFrame
    names: tuple[str, ...]
    repeated: int = 0
    regrouped: int = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A block with its texts: grouped, rewarded, sized; see `Counted`."""

    rows: pl.DataFrame
    names: tuple[str, ...]
    repeated: int
    regrouped: int


def prepare(block: pl.DataFrame, layout: Layout, wishes: Wishes) -> Prepared:
    """Everything that is known of each sample before its text is measured."""
    block, repeated = _last_time(block)
    names = _names(block, wishes)
    grouped, regrouped = _grouped(block, layout, wishes)
    return Prepared(_numbers(_rewarded(grouped, names, layout, wishes), wishes), names, repeated, regrouped)


def count(block: pl.DataFrame, layout: Layout, wishes: Wishes) -> Counted:
    """Numbers of a block of samples; `drawn` marks those whose texts were measured."""
    prepared = prepare(block, layout, wishes)
    names = prepared.names
    rows = _drawn(prepared.rows, all_of_them=wishes.all_text)
    measured, groups = measure_texts(rows.filter("drawn"), rows)
    kept = [
        *STEP, "group", "place_in_step", "reward", "advantage", "length", "length_known", "size", "truncated", "cut_known",
        "text", "asked", "source", "version", "prompt_size", "empty", "drawn", *(COMPONENT + n for n in names),
    ]  # fmt: skip
    return Counted(
        rows.select(kept).join(measured, on=[*STEP, "place_in_step"], how="left"),
        groups,
        names,
        prepared.repeated,
        prepared.regrouped,
    )


def _last_time(block: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Leave out what was sampled again later: a step that comes back, after others, as large as a whole one.

    Stragglers are not: a step in two parts, each smaller than the steps that lie in one.
    """
    block = block.with_columns(stretch=pl.struct(*STEP, "place").rle_id().over("evaluation"))
    stretches = block.group_by(*STEP, "place", "stretch").agg(rows=pl.len())
    of_step = stretches.group_by(*STEP, "place").agg(
        times=pl.len(),
        last=pl.col("stretch").max(),
        rows=pl.col("rows").sort_by("stretch").last(),
        most=pl.col("rows").max(),
    )
    usual = of_step.filter(pl.col("times") == 1)["rows"].median()
    whole = pl.lit(usual) if usual is not None else pl.col("most")
    again = of_step.filter((pl.col("times") > 1) & (pl.col("times") <= RESUMES) & (pl.col("rows") >= WHOLE * whole))
    if not again.height:
        return block.drop("stretch"), 0
    kept = block.join(again.select(*STEP, "place", "last"), on=[*STEP, "place"], how="left", maintain_order="left")
    kept = kept.filter(pl.col("last").is_null() | (pl.col("stretch") == pl.col("last")))
    return kept.drop("stretch", "last"), again.height


def _names(block: pl.DataFrame, wishes: Wishes) -> tuple[str, ...]:
    found = [c.removeprefix(COMPONENT) for c in block.columns if c.startswith(COMPONENT)]
    known = [n for n in found if n in wishes.components]
    return tuple(known or found)


def _grouped(block: pl.DataFrame, layout: Layout, wishes: Wishes) -> tuple[pl.DataFrame, int]:
    """Number the groups of each step; rows without anything to group by are groups of one."""
    block = block.with_columns(place_in_step=pl.int_range(pl.len()).over(*STEP))
    asked = pl.coalesce(pl.col("prompt"), pl.col("group")).hash()
    alone = pl.struct(pl.col("place_in_step"), pl.lit("alone")).hash()
    by_prompt = pl.when(pl.col("prompt").is_null()).then(alone).otherwise(pl.col("prompt").hash())
    by_column = pl.when(pl.col("group").is_null()).then(by_prompt).otherwise(pl.col("group").hash())
    block = block.with_columns(asked=asked)
    if layout.grouping is Grouping.COLUMN:
        return block.with_columns(group=by_column), 0
    if layout.grouping is Grouping.PROMPT:
        return block.with_columns(group=by_prompt), 0
    if wishes.group_size is None or wishes.group_size < 2:
        runs = pl.col("prompt").rle_id().over(*STEP).cast(pl.UInt64)
        return block.with_columns(group=pl.when(pl.col("prompt").is_null()).then(alone).otherwise(runs)), 0
    block = block.with_columns(group=(pl.col("place_in_step") // wishes.group_size).cast(pl.UInt64))
    alike = (
        block.group_by(*GROUP)
        .agg(one=pl.col("prompt").n_unique() == 1)
        .group_by(*STEP)
        .agg(fits=pl.col("one").mean() >= AGREE)
    )
    block = block.join(alike, on=STEP, how="left", maintain_order="left")
    block = block.with_columns(group=pl.when("fits").then("group").otherwise(by_prompt)).drop("fits")
    return block, alike.height - int(alike["fits"].sum())


def _rewarded(block: pl.DataFrame, names: tuple[str, ...], layout: Layout, wishes: Wishes) -> pl.DataFrame:
    """The reward of each sample: as written, or the weighted sum of its functions (those that do not apply left out)."""
    finite = [
        pl.when(pl.col(c).abs() < LARGEST).then(c).alias(c)  # neither NaN nor infinite either
        for c in ("reward", "advantage", "length", *(COMPONENT + n for n in names))
    ]
    block = block.with_columns(finite)
    settled = [n for n in names if n in wishes.weights]
    if layout.weighted and settled:
        terms = [pl.col(COMPONENT + n) * wishes.weights[n] for n in settled]
        known = pl.any_horizontal(t.is_not_null() for t in terms)
        for name in set(names) - set(settled):  # judged by row, so that it is the same however the dump is divided
            known &= pl.col(COMPONENT + name).is_null()
        block = block.with_columns(reward=pl.coalesce(pl.col("reward"), pl.when(known).then(pl.sum_horizontal(terms))))
    return block


def _numbers(block: pl.DataFrame, wishes: Wishes) -> pl.DataFrame:
    """Sizes, lengths and cuts; what had to be inferred is marked by `length_known` and `cut_known`."""
    text = pl.col("completion")
    block = block.with_columns(
        size=text.str.len_bytes().cast(pl.Int64),
        prompt_size=pl.col("prompt").str.len_bytes().cast(pl.Int64),
        text=text.hash(),
        empty=text.str.strip_chars() == "",
        length_known=pl.col("length").is_not_null(),
    )
    if wishes.max_length is not None:
        over = pl.col("length") >= wishes.max_length
        block = block.with_columns(truncated=pl.coalesce(pl.col("truncated"), over))
    block = block.with_columns(cut_known=pl.col("truncated").is_not_null())
    block = _cut_by_the_log(block, wishes)
    if wishes.lengths:
        logged = pl.DataFrame(
            {"step": list(wishes.lengths), "logged": list(wishes.lengths.values())},
            schema={"step": pl.Int64, "logged": pl.Float64},
        )
        block = block.join(logged, on="step", how="left", maintain_order="left")
        inferred = pl.col("size") * (pl.col("logged") / pl.col("size").mean().over(*STEP))
        usable = ~pl.col("evaluation") & inferred.is_finite()
        block = block.with_columns(length=pl.coalesce("length", pl.when(usable).then(inferred))).drop("logged")
    return block


def _cut_by_the_log(block: pl.DataFrame, wishes: Wishes) -> pl.DataFrame:
    """Where only the log tells how many were cut: the longest, as many as it counts, if they are about equally long."""
    if not wishes.cut or block["cut_known"].all():
        return block
    shares = pl.DataFrame(
        {"step": list(wishes.cut), "share": list(wishes.cut.values())}, schema={"step": pl.Int64, "share": pl.Float64}
    )
    block = block.join(shares, on="step", how="left", maintain_order="left")
    number = (pl.col("share") * pl.len().over(*STEP)).round()
    longest = pl.col("size").rank("ordinal", descending=True).over(*STEP) <= number
    block = block.with_columns(longest=longest)
    sizes = pl.when("longest").then("size")
    alike = sizes.min().over(*STEP) >= CUT_ALIKE * sizes.median().over(*STEP)
    told = ~pl.col("cut_known") & ~pl.col("evaluation") & (alike | (number == 0))
    return block.with_columns(truncated=pl.when(told).then("longest").otherwise("truncated")).drop("share", "longest")


def _drawn(rows: pl.DataFrame, *, all_of_them: bool) -> pl.DataFrame:
    """Mark the samples whose texts are measured: of each step whole groups, evenly over the groups by mean reward."""
    has_text = pl.col("completion").is_not_null()
    if all_of_them:
        return rows.with_columns(drawn=has_text)
    groups = rows.group_by(*GROUP).agg(rows=pl.len(), mean=pl.col("reward").mean(), first=pl.col("place_in_step").min())
    groups = groups.sort(*STEP, "mean", "first", nulls_last=True).with_columns(
        rank=pl.int_range(pl.len()).over(*STEP), count=pl.len().over(*STEP), most=pl.col("rows").max().over(*STEP)
    )
    wanted = pl.min_horizontal("count", (DRAWN // pl.col("most")).clip(lower_bound=1)).cast(pl.Int64)
    chosen = ((pl.col("rank") + 1) * wanted) // pl.col("count") > (pl.col("rank") * wanted) // pl.col("count")
    rows = rows.join(groups.select(*GROUP, chosen=chosen), on=GROUP, how="left", maintain_order="left")
    few = pl.int_range(pl.len()).over(*GROUP) < DRAWN
    return rows.with_columns(drawn=pl.col("chosen") & few & has_text).drop("chosen")


def measure_texts(rows: pl.DataFrame, asked: pl.DataFrame | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Measures of texts: by sample and by group.

    Args:
        rows: the samples whose texts are measured.
        asked: every sample of their steps, for the prompts; `rows` where that is all of them.
    """
    keys = rows.select(*STEP, "group", "place_in_step")
    texts = Texts.of(rows["completion"])
    known = _known_scripts(rows, rows if asked is None else asked, texts)
    packer = compression.Packer()
    raw = texts.data.tobytes()
    tails = [
        packer.size(raw[max(s, e - TAIL) : e]) / min(e - s, TAIL) if e - s >= TAIL_LEAST else None
        for s, e in zip(texts.starts.tolist(), texts.ends.tolist(), strict=True)
    ]
    measured = keys.drop("group").with_columns(
        looped=pl.Series(loops.looped_share(texts), dtype=pl.Float64),
        entropy=pl.Series(characters.entropy(texts), dtype=pl.Float64).fill_nan(None),
        garbled=pl.Series(characters.garbled(texts, known), dtype=pl.Boolean),
        packed=pl.Series(tails, dtype=pl.Float64),
    )
    number = keys.select(pl.struct(*GROUP).rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
    groups = keys.group_by(*GROUP).len().sort(*GROUP)
    order = np.argsort(number, kind="stable")
    edges = np.searchsorted(number[order], np.arange(groups.height + 1))
    starts, ends = texts.starts[order].tolist(), texts.ends[order].tolist()
    together = [
        packer.group_diversity([raw[starts[i] : ends[i]] for i in range(a, b)])
        for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]
    distinct = words.distinct_share(rows["completion"], number, groups.height)
    return measured, groups.drop("len").with_columns(
        diversity=pl.Series(together, dtype=pl.Float64), distinct=pl.Series(distinct, dtype=pl.Float64).fill_nan(None)
    )


def _known_scripts(
    rows: pl.DataFrame, asked: pl.DataFrame, texts: Texts
) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """The scripts that the prompts of each sample's step use, shape (n, SCRIPTS); all where no prompt is known."""
    if not texts.data.size or texts.data.max() < 0x80:
        return np.zeros((len(texts), characters.SCRIPTS), dtype=bool)
    held = rows.select(*STEP).rows()
    steps = {key: number for number, key in enumerate(dict.fromkeys(held))}
    prompts = asked.select(*STEP, "prompt").drop_nulls().unique(maintain_order=True)
    known = np.zeros((len(steps), characters.SCRIPTS), dtype=bool)
    at = np.array([steps.get(key, -1) for key in prompts.select(*STEP).rows()], dtype=np.int64)
    np.logical_or.at(known, at[at >= 0], characters.scripts(Texts.of(prompts["prompt"]))[at >= 0])
    known[~known.any(axis=1)] = True
    return np.asarray(known[[steps[key] for key in held]])

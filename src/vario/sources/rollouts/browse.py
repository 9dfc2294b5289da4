"""Browsing: completions themselves, found again by step and number, or by what is wished of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from vario.errors import ConfigError, NothingReadable
from vario.run import Run
from vario.sources.rollouts.blocks import Troubles, blocks, objects_of
from vario.sources.rollouts.columns import COMPONENT
from vario.sources.rollouts.counting import STEP, Wishes, measure_texts, prepare
from vario.sources.rollouts.discovery import discover
from vario.sources.rollouts.dumps import Dump, DumpFile, Piece
from vario.sources.rollouts.series import settled, wishes_of
from vario.sources.sampled import SampleOptions

REPETITIVE = 0.2
"""Share of its end inside a loop from which a completion is repetitive (methods, 5.5: all loops, no prose)."""
TOKEN_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "token": ("response_tokens", "completion_tokens", "tokens", "token_ids"),
    "log-prob": ("logprobs", "response_logprobs", "generation_logprobs", "rollout_log_probs", "log_probs"),
    "reference": ("ref_logprobs", "reference_logprobs", "ref_log_probs"),
    "entropy": ("entropy", "entropies", "token_entropy"),
    "reward": ("token_rewards",),
    "value": ("values",),
}
"""Columns with a value a token, and the keys under which dumps hold them."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One completion. `number` counts those of its step; `known` says which measures could be taken.

    `measures`: reward, advantage, length (tokens; `estimated length` where it was brought from bytes by the logged
    mean), size (bytes), repetition, entropy, and truncated (`estimated truncated` where the log's count told), garbled,
    duplicated, empty (0 or 1). `components`: single reward functions.
    """

    step: int
    number: int
    group: int
    prompt: str | None
    completion: str | None
    source: str | None
    evaluation: bool
    measures: Mapping[str, float]
    components: Mapping[str, float]

    @property
    def name(self) -> str:
        """`STEP/NUMBER`, by which it can be asked for."""
        return f"{self.step}/{self.number}"


@dataclass(frozen=True, slots=True)
class Query:
    """Which completions are wished.

    Attributes:
        steps: first and last step, None for all.
        names: (step, number) of single ones.
        like: (step, number) of one whose whole group is wished.
        kind: one of `sampled.KINDS`.
        by: one of `sampled.ORDERS`; None keeps the order of the dump.
        lowest: the lowest first.
        evaluation: samples of evaluations instead.
        most: so many at most.
    """

    steps: tuple[int, int] | None = None
    names: tuple[tuple[int, int], ...] = ()
    like: tuple[int, int] | None = None
    kind: str | None = None
    by: str | None = None
    lowest: bool = False
    evaluation: bool = False
    most: int = 8


@dataclass(frozen=True, slots=True)
class StepSummary:
    """One sampled step: how many completions and groups, and their mean reward (None if unknown)."""

    step: int
    completions: int
    groups: int
    reward: float | None


@dataclass(frozen=True)
class Browser:
    """The completions of a run, opened for reading."""

    dump: Dump
    wishes: Wishes
    troubles: Troubles = field(default_factory=Troubles)

    @classmethod
    def of(cls, run: Run, options: SampleOptions) -> Browser:
        """Open the completions that lie beside a run.

        Raises:
            NothingReadable: there are none. ConfigError: there are none where the user said.
        """
        dump = discover(run.dumps, run.path.partition("#")[0], options.mapping or None) if run.dumps else Dump(())
        dump = dump.for_run(run)
        if not dump.files and options.places:
            raise ConfigError(f"--samples: no completions that vario can read in {', '.join(options.places[:3])}")
        if not dump.files:
            how = f" {run.how_to_sample}." if run.how_to_sample else ""
            raise NothingReadable(
                f"{run.path}: no completions lie beside the log.{how} Or name them with --samples PLACE"
            )
        with_weights, _ = settled(run, dump)
        return cls(dump, replace(wishes_of(with_weights, options), all_text=True))

    def summaries(self, *, evaluation: bool = False) -> list[StepSummary]:
        """Every sampled step."""
        made: dict[int, StepSummary] = {}
        for rows in self._rows(None, evaluation=evaluation):
            table = rows.group_by("step").agg(
                n=pl.len(), groups=pl.col("group").n_unique(), mean=pl.col("reward").mean()
            )
            for step, n, groups, mean in table.sort("step").rows():
                made[step] = StepSummary(step, n, groups, mean)
        return [made[s] for s in sorted(made)]

    def find(self, query: Query) -> list[Sample]:
        """The completions that a query asks for, measured.

        Raises:
            ConfigError: it names one that is not there.
        """
        wanted = {s for s, _ in query.names} | ({query.like[0]} if query.like else set())
        span = query.steps if not wanted else (min(wanted), max(wanted))
        best: pl.DataFrame | None = None
        for rows in self._rows(span, evaluation=query.evaluation):
            if wanted:
                rows = rows.filter(pl.col("step").is_in(list(wanted)))
            if query.names:
                named = pl.DataFrame(
                    list(query.names), schema={"step": pl.Int64, "place_in_step": pl.Int64}, orient="row"
                )
                rows = rows.join(named, on=["step", "place_in_step"], how="semi")
            if query.like is not None:
                own = rows.filter(pl.col("place_in_step") == query.like[1])
                rows = rows.join(own.select("step", "group"), on=["step", "group"], how="semi")
            if not rows.height:
                continue
            chosen = _chosen(_measured(rows), query)
            best = chosen if best is None else _ordered(pl.concat([best, chosen], how="diagonal"), query)
        found = [] if best is None else [_sample(row) for row in best.iter_rows(named=True)]
        if query.names:
            place = {name: i for i, name in enumerate(query.names)}
            found.sort(key=lambda s: place[s.step, s.number])
        there = {(s.step, s.number) for s in found}
        if query.kind is None and (lost := [name for name in query.names if name not in there]):
            raise _missing(*lost[0])
        if query.like is not None and not found and not self.find(Query(names=(query.like,))):
            raise _missing(*query.like)
        return found

    def tokens(self, sample: Sample) -> dict[str, list[object]]:
        """What the dump holds for each token of a completion, by `TOKEN_COLUMNS`; empty where it holds nothing."""
        span = (sample.step, sample.step)
        # of a step that was sampled again the last rows count
        number = -sum(raw - rows.height for rows, raw in self._parts(span, evaluation=sample.evaluation))
        for one in self._files(span, evaluation=sample.evaluation):
            for row, step in objects_of(one, Piece((one,)), self.troubles):
                if (step if step is not None else one.step or 0) != sample.step:
                    continue
                if number == sample.number:
                    return {
                        name: list(value)
                        for name, keys in TOKEN_COLUMNS.items()
                        for key in keys
                        if isinstance(value := _unwrapped(row.get(key)), list)
                    }
                number += 1
        return {}

    def _files(self, span: tuple[int, int] | None, *, evaluation: bool) -> Iterator[DumpFile]:
        for one in self.dump.files:
            outside = span is not None and one.step is not None and not span[0] <= one.step <= span[1]
            if not outside and one.held_out == evaluation:
                yield one

    def _rows(self, span: tuple[int, int] | None, *, evaluation: bool) -> Iterator[pl.DataFrame]:
        """Prepared rows, whole steps at a time."""
        return (rows for rows, _ in self._parts(span, evaluation=evaluation))

    def _parts(self, span: tuple[int, int] | None, *, evaluation: bool) -> Iterator[tuple[pl.DataFrame, int]]:
        """Prepared rows, and how many of their steps were written."""
        files = tuple(self._files(span, evaluation=evaluation))
        inside = pl.lit(value=True) if span is None else pl.col("step").is_between(*span)
        for piece in Dump(files).pieces():
            for block in blocks(piece, self.troubles):
                if raw := block.filter(inside).height:  # prepared whole: which rows came again is told by those between
                    yield prepare(block, piece.files[0].layout, self.wishes).rows.filter(inside), raw


def _missing(step: int, number: int) -> ConfigError:
    return ConfigError(f"no completion {step}/{number} here; `vario samples RUN` lists the sampled steps")


def _measured(rows: pl.DataFrame) -> pl.DataFrame:
    held = rows.filter(pl.col("completion").is_not_null())
    copied = (pl.len().over(*STEP, "group", "text") > 1) & (pl.col("size") > 0)
    rows = rows.with_columns(copied=copied)
    if not held.height:
        return rows.with_columns(
            looped=pl.lit(None, pl.Float64), entropy=pl.lit(None, pl.Float64), garbled=pl.lit(None, pl.Boolean)
        )
    measured, _ = measure_texts(held)
    return rows.join(measured.drop("packed"), on=[*STEP, "place_in_step"], how="left", maintain_order="left")


def _chosen(rows: pl.DataFrame, query: Query) -> pl.DataFrame:
    kinds = {
        "truncated": pl.col("truncated"),
        "repetitive": pl.col("looped") > REPETITIVE,
        "duplicated": pl.col("copied"),
        "garbled": pl.col("garbled"),
        "empty": pl.col("empty"),
    }
    return _ordered(rows.filter(kinds[query.kind]) if query.kind is not None else rows, query)


def _ordered(rows: pl.DataFrame, query: Query) -> pl.DataFrame:
    keys = {
        "reward": pl.col("reward"),
        "advantage": pl.col("advantage"),
        "length": pl.coalesce("length", pl.col("size").cast(pl.Float64)),
        "repetition": pl.col("looped"),
        "entropy": pl.col("entropy"),
    }
    if query.by is not None:
        rows = rows.sort(keys[query.by], descending=not query.lowest, nulls_last=True, maintain_order=True)
    return rows if query.names else rows.head(query.most)


def _sample(row: Mapping[str, object]) -> Sample:
    names = {
        "reward": "reward", "advantage": "advantage", "length": "length", "size": "size", "repetition": "looped",
        "entropy": "entropy", "truncated": "truncated", "garbled": "garbled", "duplicated": "copied", "empty": "empty",
    }  # fmt: skip
    known = {"length": "length_known", "truncated": "cut_known"}
    return Sample(
        _whole(row["step"]),
        _whole(row["place_in_step"]),
        _whole(row["group"]),
        _text(row["prompt"]),
        _text(row["completion"]),
        _text(row["source"]),
        bool(row["evaluation"]),
        {
            f"estimated {name}" if name in known and not row[known[name]] else name: float(v)
            for name, key in names.items()
            if isinstance(v := row.get(key), int | float)
        },
        {
            key.removeprefix(COMPONENT): float(v)
            for key, v in row.items()
            if key.startswith(COMPONENT) and isinstance(v, int | float)
        },
    )


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _unwrapped(value: object) -> object:
    """A list that holds one list is that list."""
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 1 and isinstance(value[0], list):
        return value[0]
    return value

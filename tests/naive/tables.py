"""Random tables of completions: everything that a dump may hold, and all of it seldom."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from vario.sources.rollouts.columns import COLUMNS
from vario.sources.rollouts.counting import Wishes

Row = dict[str, Any]
SAID = "so the answer is 4 because two and two x = y \\boxed{12} Therefore, wait let me check 3.14 def f(): return"
WORDS = SAID.split()
LETTERS = {
    "Latin": "aeiouàéñß",
    "Greek": "αβγ",
    "Cyrillic": "привет",
    "Chinese": "我们来看这个问题",
    "Arabic": "مرحبا",
    "Kana": "ありがとうカタ",
    "Hangul": "안녕하세요",
    "India": "नमस्ते",
    "Emoji": "😀👩‍🚀🏳️‍🌈",
    "marks": "e\u0301o\u0308\u200d\ufe0f",
    "odd": "\x00\x07\x7f\x85\x9f\ue000\uf8ff\ufffd",
    "blank": " \u00a0\u2003\u3000\t\n\x0b\x0c\x1b\x1c\x1f",
    "planes": "𠀀𝒳\U0001f600\U0010ffff",
}
REWARDS: Sequence[Callable[[random.Random], float | None]] = (
    lambda rng: float(rng.random() < 0.5),
    lambda rng: float(rng.random() < 0.5),
    lambda rng: rng.choice([0.0, 0.1, 0.2, 0.3, 1.0]),
    lambda rng: rng.choice([-1.0, -0.0, 0.0, 0.5]),
    lambda rng: rng.gauss(0.0, 2.0),
    lambda _: 0.1,
    lambda _: 0.0,
    lambda rng: 0.7 + 1e-8 * rng.random(),
    lambda rng: 1e3 * rng.random(),
    lambda rng: rng.choice([1.0, None, float("nan"), float("inf"), float("-inf")]),
    lambda _: None,
)
NAMES = ("correctness", "format_reward", "xml_tag", "watched", "length_penalty")


def text(rng: random.Random) -> str | None:
    kind = rng.random()
    if kind < 0.03:
        return None
    if kind < 0.08:
        return rng.choice(["", " ", "\n\t ", "\u3000", "\x1c", "."])
    if kind < 0.3:
        return rng.choice(["4", "The answer is 4.", "I do not know", "<think>two and two</think> 4"])
    if kind < 0.45:
        letters = LETTERS[rng.choice(list(LETTERS))]
        return "".join(rng.choice(letters + "ab ") for _ in range(rng.randrange(1, 40)))
    if kind < 0.6:  # a loop, perhaps after something, perhaps cut
        unit = "".join(rng.choice("ab 1我\n") for _ in range(rng.choice([1, 1, 2, 3, 7, 40, 90])))
        made = " ".join(rng.choice(WORDS) for _ in range(rng.randrange(30))) + unit * rng.randrange(1, 60)
        return made[: len(made) - rng.randrange(len(unit))]
    if kind < 0.62:
        return "".join(rng.choice(LETTERS["odd"] + LETTERS["blank"]) for _ in range(rng.randrange(1, 6)))
    return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 120)))


def table(
    rng: random.Random, *, steps: int | None = None, most_rows: int = 40, resumed: bool = True
) -> tuple[list[Row], Wishes]:
    """Rows as they stand in the file, and what the run tells of them."""
    maybe = rng.random
    size = rng.choice([1, 2, 2, 4, 8, rng.randrange(1, 12)])
    names = rng.sample(NAMES, rng.randrange(0, 4))
    missing = {
        name
        for name in ("group", "prompt", "completion", "reward", "advantage", "length", "truncated")
        if maybe() < 0.2
    }
    all_null = {
        name
        for name in ("group", "prompt", "completion", "reward", "advantage", "length", "truncated")
        if maybe() < 0.05
    }
    ragged, mixed, sparse = maybe() < 0.4, maybe() < 0.3, maybe() < 0.3
    lengths_known, cuts_known = rng.choice([0.0, 0.5, 1.0, 1.0]), rng.choice([0.0, 0.5, 1.0])
    language = rng.choice(["", "", "我们看", "привет, ", "नमस्ते"])
    rows: list[Row] = []
    first = rng.choice([-3, 0, 1, 7, 10**9])
    count = rng.choice([1, 2, 5]) if steps is None else steps
    for at in range(first, first + count):
        pay = rng.choice(REWARDS)
        pays = {name: rng.choice(REWARDS) for name in names}
        evaluation = maybe() < 0.15
        held: list[Row] = []
        for group in range(rng.randrange(1, max(2, most_rows // size))):
            prompt = None if maybe() < 0.05 else f"{language}question {group if maybe() < 0.9 else 0}"
            own = rng.choice([pay, lambda rng: rng.choice([0.0, 1.0])])
            for _ in range(rng.randrange(1, 2 * size + 1) if ragged else size):
                row: Row = {
                    "step": at,
                    "group": None if maybe() < 0.05 else f"g{group}",
                    "prompt": prompt,
                    "completion": text(rng),
                    "reward": own(rng) if maybe() < 0.95 else None,
                    "advantage": rng.choice([rng.gauss(0, 1), 0.0, float("nan"), None]),
                    "length": rng.choice([float(rng.randrange(0, 60)), 1.0, 512.0])
                    if maybe() < lengths_known
                    else None,
                    "truncated": (maybe() < 0.3) if maybe() < cuts_known else None,
                    "source": rng.choice([None, "maths", "code/unit tests"]),
                    "version": float(at),
                    "evaluation": evaluation,
                    "place": "a.jsonl",
                }
                for name in names:
                    if not sparse or maybe() < 0.7:
                        row[f"reward.{name}"] = pays[name](rng)
                for name in missing | all_null:
                    row[name] = None
                held.append(row)
        if mixed:
            rng.shuffle(held)
        rows += held
    if resumed and maybe() < 0.4:  # some of the last steps again, perhaps fewer rows of them than before
        again = [{**row, "completion": text(rng)} for row in rows if row["step"] >= first + count - rng.choice([2, 3])]
        rows += again[: rng.choice([len(again), len(again) // 2])]
    settled = {name: rng.choice([0.0, 1.0, 0.5, -1.0, 2.0]) for name in names if maybe() < 0.9}
    numbers = sorted({row["step"] for row in rows})
    wishes = Wishes(
        group_size=rng.choice([None, 1, size, size, size + 1]),
        weights=settled,
        components=tuple(rng.sample(names, rng.randrange(len(names) + 1))) if maybe() < 0.3 else (),
        max_length=rng.choice([None, 40.0, 512.0]),
        lengths={n: rng.uniform(5, 300) for n in numbers if maybe() < 0.6} if maybe() < 0.5 else {},
        cut={n: rng.choice([0.0, 0.25, 0.5, 1.0, rng.random()]) for n in numbers if maybe() < 0.6}
        if maybe() < 0.5
        else {},
        all_text=maybe() < 0.3,
    )
    return rows, wishes


def frame(rows: Sequence[Row]) -> pl.DataFrame:
    """The table as `blocks` gives it."""
    parts = dict.fromkeys(name for row in rows for name in row if name.startswith("reward."))
    kinds = dict(COLUMNS) | dict.fromkeys(parts, pl.Float64()) | {"evaluation": pl.Boolean(), "place": pl.String()}
    return pl.DataFrame({n: pl.Series(n, [row.get(n) for row in rows], dtype=k) for n, k in kinds.items()})


def sample(step: int, prompt: str | None, completion: str | None, reward: float | None, **more: Any) -> Row:
    """One row; what is not given is unknown."""
    empty = dict.fromkeys(("group", "advantage", "length", "truncated", "source", "version"))
    told = {"step": step, "prompt": prompt, "completion": completion, "reward": reward}
    return {**empty, **told, "evaluation": False, "place": "a.jsonl", **more}

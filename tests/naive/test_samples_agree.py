"""Every series that is counted from completions equals its slow twin, on random tables of everything that dumps hold."""

from __future__ import annotations

import math
import random
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

pl = pytest.importorskip("polars")
pytest.importorskip("zstandard")
pytest.importorskip("diptest")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from tests.effort import tries  # noqa: E402
from tests.naive import samples as slow  # noqa: E402
from tests.naive.tables import LETTERS, frame, sample, table  # noqa: E402
from vario.sources.rollouts import characters, words  # noqa: E402
from vario.sources.rollouts.counting import Counted, Wishes, count  # noqa: E402
from vario.sources.rollouts.layouts import Grouping, Layout, generic  # noqa: E402
from vario.sources.rollouts.reduction import VERSION, reduce  # noqa: E402
from vario.sources.rollouts.series import _finished  # noqa: E402

Rows = Sequence[Mapping[str, Any]]
RELATIVE = 1e-9
"""Of the value: the parts of a sum are added in another order here than there."""
ABSOLUTE = 1e-12
"""Of the largest reward for what is told in rewards, of 1 for the rest: two ways of adding what cancels out differ so."""
LOOSE = {"length/bimodality/separation": 1e-6, "length/bimodality/dip-p": 1e-6}
"""Sixty rounds of fitting, and steps of a table of p, make more of the last digits than one sum does."""
SEEDS = range(24)


def layout(grouping: Grouping, *, weighted: bool = False) -> Layout:
    return replace(generic.LAYOUT, key="here", grouping=grouping, weighted=weighted)


def scale_of(rows: Rows) -> float:
    numbers = [abs(v) for row in rows for k, v in row.items() if k.startswith("reward") and v is not None]
    return max([1.0, *(v for v in numbers if v < slow.LARGEST)])


def same(name: str, found: object, wished: float | None, scale: float, where: object) -> None:
    """Equal, or neither can be counted."""
    known = isinstance(found, int | float) and math.isfinite(found)
    if wished is None or not known:
        assert wished is None, f"{name} at {where}: {found} and not {wished}"
        assert not known, f"{name} at {where}: {found} and not unknown"
    else:
        unit = scale if name.startswith(("reward/", "samples/reward/")) else 1.0
        relative = LOOSE.get(name, RELATIVE)
        assert found == pytest.approx(wished, rel=relative, abs=ABSOLUTE * unit), f"{name} at {where}"


def compare(rows: Rows, wishes: Wishes, grouping: Grouping, *, weighted: bool = True) -> dict[str, dict[int, float]]:
    """The twin's series, where count and reduce give the same."""
    counted = count(frame(rows), layout(grouping, weighted=weighted), wishes)
    made = reduce(counted, wishes.weights)
    wished = slow.reduced(rows, grouping, wishes, weighted=weighted)
    scale = scale_of(rows)
    by_key = {(row["evaluation"], row["step"]): row for row in made.to_dicts()}
    assert by_key.keys() == wished.keys()
    for key, step in wished.items():
        row = by_key[key]
        assert row["rows"] == len(step.samples)
        told = {name for name in row if not name.startswith("_")} - {"evaluation", "step", "rows"}
        assert told == step.values.keys(), "a series without a twin, or a twin without a series"
        assert drawn_of(counted, key) == {one.number for one in step.samples if one.drawn}
        for name, value in step.values.items():
            same(name, row[name], value, scale, key)
    series = _finished(made.filter(~pl.col("evaluation")).drop(VERSION))
    finished = slow.finished(wished)
    assert series.keys() == finished.keys()
    for name, one in series.items():
        assert one.steps.tolist() == list(finished[name]), name
        for at, value in zip(one.steps.tolist(), one.values.tolist(), strict=True):
            same(name, value, finished[name][at], scale, at)
    return finished


def drawn_of(counted: Counted, key: slow.Key) -> set[int]:
    held = counted.rows.filter(pl.col("evaluation") == key[0], pl.col("step") == key[1])
    return set(held.filter("drawn")["place_in_step"].to_list())


@pytest.mark.parametrize("grouping", list(Grouping), ids=lambda g: g.name.lower())
@pytest.mark.parametrize("seed", SEEDS)
def test_every_series_of_a_random_table(seed: int, grouping: Grouping) -> None:
    rng = random.Random(f"{seed} {grouping.name}")
    rows, wishes = table(rng)
    compare(rows, wishes, grouping, weighted=rng.random() < 0.7)


ODD_NUMBERS = st.sampled_from(
    [0.0, -0.0, 1.0, 0.1, 0.1 + 1e-9, -2.5, 1e140, -1e200, math.nan, math.inf, -math.inf, None]
)
SMALL_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "step": st.sampled_from([0, 1, -1]),
            "group": st.sampled_from(["a", "b", None]),
            "prompt": st.sampled_from(["p", "q", "", None, "я"]),
            "completion": st.one_of(
                st.none(),
                st.text(max_size=6),
                st.builds(lambda unit, n: unit * n, st.text(max_size=3), st.integers(0, 700)),
            ),
            "reward": ODD_NUMBERS,
            "advantage": ODD_NUMBERS,
            "length": st.sampled_from([0.0, 1.0, 5.0, 100.0, math.nan, math.inf, None]),
            "truncated": st.sampled_from([True, False, None]),
            "evaluation": st.sampled_from([False, False, True]),
            "place": st.just("here"),
            "reward.correct": ODD_NUMBERS,
            "reward.format": st.sampled_from([0.0, 0.5, None]),
        }
    ),
    min_size=1,
    max_size=14,
)


@settings(max_examples=tries(60), deadline=None)
@given(
    rows=SMALL_ROWS,
    grouping=st.sampled_from(Grouping),
    weighted=st.booleans(),
    wishes=st.builds(
        Wishes,
        group_size=st.sampled_from([None, 2, 3]),
        weights=st.sampled_from(
            [{}, {"correct": 1.0, "format": 0.5}, {"correct": 0.0, "format": 1.0}, {"format": -1.0}]
        ),
        max_length=st.sampled_from([None, 5.0]),
        lengths=st.sampled_from([{}, {0: 10.0}]),
        cut=st.sampled_from([{}, {0: 0.5, 1: 0.0}]),
        all_text=st.booleans(),
    ),
)
def test_every_series_of_a_few_odd_rows(rows: Rows, grouping: Grouping, weighted: bool, wishes: Wishes) -> None:
    compare(rows, wishes, grouping, weighted=weighted)


# --- the drawn sample ---


def batch(rng: random.Random, groups: int, size: int, longest: int = 12) -> list[dict[str, Any]]:
    """One step; rewards are eighths, so that equal means are equal to the last bit whatever the order of adding."""
    said = [f"word{i}" for i in range(30)]
    return [
        sample(1, f"q{group}", " ".join(rng.choices(said, k=rng.randrange(longest))), rng.randrange(9) / 8)
        for group in range(groups)
        for _ in range(size)
    ]


@pytest.mark.parametrize(
    ("groups", "size", "wished"),
    [
        (1, 4_000, 128),
        (3, 200, 128),
        (2, 128, 128),
        (129, 1, 128),
        (500, 1, 128),
        (16, 8, 128),
        (17, 8, 128),
        (40, 7, 126),
        (64, 65, 65),
    ],
)
def test_whole_groups_are_drawn_evenly(groups: int, size: int, wished: int) -> None:
    rows = batch(random.Random(groups), groups, size)
    compare(rows, Wishes(), Grouping.PROMPT)
    counted = count(frame(rows), layout(Grouping.PROMPT), Wishes())
    drawn = counted.rows.filter("drawn")
    assert drawn.height == wished
    assert all(n == min(size, 128) for n in drawn.group_by("group").len()["len"])
    if groups > drawn["group"].n_unique() > 8:  # even over the groups' means: their mean is near that of all
        assert drawn["reward"].mean() == pytest.approx(counted.rows["reward"].mean(), abs=0.06)


def test_a_group_too_many_is_left_out_at_neither_end_of_the_rewards() -> None:
    rows = [sample(1, f"q{i}", "text", i / 8) for i in range(256)]
    counted = count(frame(rows), layout(Grouping.PROMPT), Wishes())
    assert drawn_of(counted, (False, 1)) == set(range(1, 256, 2))


def test_all_text_measures_every_text_and_no_null() -> None:
    rows = [*batch(random.Random(1), 70, 4), sample(1, "q1", None, 1.0)]
    compare(rows, Wishes(all_text=True), Grouping.PROMPT)
    counted = count(frame(rows), layout(Grouping.PROMPT), Wishes(all_text=True))
    assert drawn_of(counted, (False, 1)) == set(range(280))


# --- long and odd texts ---


@pytest.mark.parametrize(
    "text",
    [
        "a" * 100_000,
        "so " * 40_000,
        "0123456789" * 10_000,
        "we think, " * 3,
        "x" * 15,
        "x" * 16,
        "=-" * 8,
        "начало " + "да " * 700,
        "你好" * 1_000 + "你",
        ("p" * 399 + "q") * 6,
        ("p" * 400 + "q") * 6,  # a byte more than the longest passage
        "\U0001f600" * 500,
        "\ufffd" * 300,
        "\x00" * 300,
        "e\u0301" * 300,
        "".join(random.Random(5).choices("abcdefgh ", k=100_000)),
        "tail of noise " + "".join(map(str, random.Random(6).sample(range(10**6), 2_000))) + "ab" * 30,
    ],
    ids=lambda text: f"{text[:6]!r}x{len(text)}",
)
def test_long_texts_and_loops(text: str) -> None:
    others = ["yes", text[: len(text) // 2], text[1:], f"{text}."]
    compare([sample(1, "a question", one, 1.0) for one in [text, *others]], Wishes(all_text=True), Grouping.PROMPT)


def test_words_are_counted_the_same_however_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = batch(random.Random(9), 20, 5, longest=40)
    random.Random(9).shuffle(rows)
    for size in (1, 300, 2_000):
        monkeypatch.setattr(words, "CHUNK", size)
        compare(rows, Wishes(all_text=True), Grouping.PROMPT)


@pytest.mark.parametrize("prompt", ["a question", "一个问题", "вопрос", None, ""])
@pytest.mark.parametrize("letters", LETTERS.values(), ids=list(LETTERS))
def test_scripts_and_what_no_text_holds(prompt: str | None, letters: str) -> None:
    rows = [sample(1, prompt, "".join(letters[: i + 1]), 1.0) for i in range(len(letters))]
    compare(rows, Wishes(all_text=True), Grouping.PROMPT)


NAMED = {
    "CYRILLIC": "Cyrillic", "ARMENIAN": "Armenian", "HEBREW": "Hebrew", "ARABIC": "Arabic", "SYRIAC": "Arabic",
    "DEVANAGARI": "India", "BENGALI": "India", "GURMUKHI": "India", "GUJARATI": "India", "ORIYA": "India", "TAMIL": "India",
    "TELUGU": "India", "KANNADA": "India", "MALAYALAM": "India", "SINHALA": "India", "THAI": "Thai and Lao",
    "LAO": "Thai and Lao", "MYANMAR": "Myanmar", "GEORGIAN": "Georgian", "HANGUL": "Hangul", "ETHIOPIC": "Ethiopic",
    "KHMER": "Khmer", "HIRAGANA": "Kana", "KATAKANA": "Kana", "HALFWIDTH": "Kana", "CJK": "Han",
}  # fmt: skip
"""What the names of a script's letters begin with in Unicode's own table of characters."""


def test_the_blocks_hold_the_letters_that_unicode_says() -> None:
    letters = [c for c in map(chr, range(0xA0, 0x30000)) if unicodedata.category(c) == "Lo" and slow.script(c)]
    assert len(letters) > 60_000
    wrong = [f"U+{ord(c):04X}" for c in letters if NAMED.get(unicodedata.name(c).partition(" ")[0]) != slow.script(c)]
    assert not wrong
    table = characters._table()
    by_number: dict[int, set[str | None]] = {}
    for at in range(0xA0, 0x110000, 16):
        by_number.setdefault(int(table[at >> 4]), set()).add(slow.script(chr(at)))
    assert all(len(names) == 1 for names in by_number.values()), "one number, one script"
    assert len({next(iter(names)) for names in by_number.values()}) == len(by_number) == len(slow.BLOCKS) + 1


# --- what must not matter ---


@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_the_rows_in_a_step_does_not_matter(seed: int) -> None:
    """But for how well one text packs behind another, and where the log tells how many were cut and lengths are equal."""
    rng = random.Random(seed)
    rows, wishes = table(rng, steps=3, resumed=False)
    rows = [{**row, "place": str(row["step"])} for row in rows]
    wishes = replace(wishes, all_text=True, cut={})
    first = slow.reduced(rows, Grouping.COLUMN, wishes, weighted=True)
    scale = scale_of(rows)
    for _ in range(3):
        shuffled = sorted(rows, key=lambda row: (row["step"], row["evaluation"], rng.random()))
        made = reduce(count(frame(shuffled), layout(Grouping.COLUMN, weighted=True), wishes), wishes.weights)
        for row in made.to_dicts():
            for name, value in first[row["evaluation"], row["step"]].values.items():
                if name != "text/group-diversity":
                    same(name, row[name], value, scale, row["step"])


def test_nothing_looks_ahead() -> None:
    """What is judged by `so far` is the same at a step, whether or not later steps are there."""
    for seed in range(12):
        rng = random.Random(seed)
        rows, wishes = table(rng, steps=6)
        last = [row for row in rows if not row["evaluation"]]
        made = reduce(count(frame(last), layout(Grouping.PROMPT, weighted=True), wishes), wishes.weights)
        whole = _finished(made)
        for step in made["step"].to_list():
            cut = _finished(made.filter(pl.col("step") <= step))
            seen = {name: one.until(step) for name, one in whole.items() if len(one.until(step))}
            assert cut.keys() == seen.keys(), (seed, step, cut.keys() ^ seen.keys())
            for name, one in cut.items():
                assert one.steps.tolist() == seen[name].steps.tolist()
                assert one.values.tolist() == seen[name].values.tolist(), name


def test_staleness_is_the_step_minus_the_version_that_sampled() -> None:
    rows = [{**sample(step, "p", "text", 1.0), "version": step - 2.0} for step in (5, 5, 6)]
    made = reduce(count(frame(rows), layout(Grouping.PROMPT), Wishes()), {})
    staleness = _finished(made)["staleness/mean"]
    assert dict(zip(staleness.steps.tolist(), staleness.values.tolist(), strict=True)) == {5: 2.0, 6: 2.0}

"""The slow twin of `vario.sources.rollouts`: series from completions by plain loops, from the catalogue's words alone.

A table is a list of rows as `blocks` gives them: what is missing is missing or None. Steps are told apart by
`(evaluation, step)`. A value that cannot be counted is None.
"""

from __future__ import annotations

import math
import re
import statistics
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations, groupby
from typing import Any

import zstandard

from vario.catalogue.reward_words import pays_for_form
from vario.sources.rollouts.counting import Wishes
from vario.sources.rollouts.layouts import Grouping

Row = Mapping[str, Any]
Key = tuple[bool, int]
Values = dict[str, float | None]

DRAWN = 128
ROUNDING = 1e-6
LARGEST = 1e150
"""Numbers beyond it have squares that are none."""
WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""Unicode's White_Space."""


@dataclass
class Sample:
    """One completion. `length` and `cut` may be inferred; then they are not `known`."""

    number: int
    group: Hashable
    prompt: str | None
    asked: Hashable
    text: str | None
    reward: float | None
    advantage: float | None
    parts: dict[str, float]
    length: float | None
    length_known: bool
    cut: bool | None
    cut_known: bool = False
    source: str | None = None
    drawn: bool = False

    @property
    def size(self) -> int | None:
        return None if self.text is None else len(self.text.encode())

    @property
    def extent(self) -> float | None:
        """Tokens, or bytes where there are no tokens."""
        return self.length if self.length is not None else self.size


@dataclass
class Step:
    """The samples of one step and what was counted of them."""

    key: Key
    samples: list[Sample]
    values: Values = field(default_factory=dict)
    spreads: list[float] = field(default_factory=list)
    tied: list[tuple[float, bool | None]] = field(default_factory=list)
    chance: float | None = None
    size_of_rounding: float = 0.0

    def groups(self) -> list[list[Sample]]:
        made: dict[Hashable, list[Sample]] = {}
        for one in self.samples:
            made.setdefault(one.group, []).append(one)
        return list(made.values())


def reduced(rows: Sequence[Row], grouping: Grouping, wishes: Wishes, *, weighted: bool = False) -> dict[Key, Step]:
    """What `count` and `reduce` give for one block."""
    names = names_of(rows, wishes)
    made = {}
    for key, held in sorted(by_step(last_time(rows)).items()):
        step = Step(key, samples_of(held, key, grouping, wishes, names if weighted else (), names))
        draw(step, all_of_them=wishes.all_text)
        measure(step, names, wishes.weights)
        made[key] = step
    every = {one.source for step in made.values() for one in step.samples if one.source is not None}
    for step in made.values():
        step.values |= sources(step, every)
    return made


def names_of(rows: Sequence[Row], wishes: Wishes) -> list[str]:
    found = list(dict.fromkeys(k.removeprefix("reward.") for row in rows for k in row if k.startswith("reward.")))
    return [n for n in found if n in wishes.components] or found


def by_step(rows: Iterable[Row]) -> dict[Key, list[Row]]:
    made: dict[Key, list[Row]] = {}
    for row in rows:
        made.setdefault((row["evaluation"], row["step"]), []).append(row)
    return made


def last_time(rows: Sequence[Row]) -> list[Row]:
    """Without what was sampled again after a resume: one or two times more, three quarters of a usual step at least."""

    def where(row: Row) -> Hashable:
        return row["evaluation"], row["step"], row["place"]

    stretches: dict[Hashable, list[list[Row]]] = {}
    for name, held in groupby(sorted(rows, key=lambda row: row["evaluation"]), where):
        stretches.setdefault(name, []).append(list(held))
    whole = [len(parts[0]) for parts in stretches.values() if len(parts) == 1]
    left_out: set[int] = set()
    for parts in stretches.values():
        usual = statistics.median(whole) if whole else max(map(len, parts))
        if 1 < len(parts) <= 3 and len(parts[-1]) >= 0.75 * usual:
            left_out |= {id(row) for part in parts[:-1] for row in part}
    return [row for row in rows if id(row) not in left_out]


def samples_of(
    rows: Sequence[Row], key: Key, grouping: Grouping, wishes: Wishes, summed: Sequence[str], names: Sequence[str]
) -> list[Sample]:
    made = []
    for number, (row, group) in enumerate(zip(rows, labels(rows, grouping, wishes.group_size), strict=True)):
        parts = {n: v for n in names if (v := finite(row.get(f"reward.{n}"))) is not None}
        reward = finite(row.get("reward"))
        if reward is None and summed and parts and all(n in wishes.weights for n in parts):
            reward = math.fsum(wishes.weights[n] * v for n, v in parts.items())
        length, cut = finite(row.get("length")), row.get("truncated")
        if cut is None and length is not None and wishes.max_length is not None:
            cut = length >= wishes.max_length
        asked = row.get("prompt") if row.get("prompt") is not None else row.get("group")
        made.append(
            Sample(
                number, group, row.get("prompt"), asked, row.get("completion"), reward, finite(row.get("advantage")),
                parts, length, length is not None, cut, cut is not None, row.get("source"),
            )
        )  # fmt: skip
    if not key[0]:
        infer_cuts(made, wishes.cut.get(key[1]))
        infer_lengths(made, wishes.lengths.get(key[1]))
    return made


def labels(rows: Sequence[Row], grouping: Grouping, size: int | None) -> list[Hashable]:
    """Which group each row of a step is in."""
    prompts = [row.get("prompt") for row in rows]
    by_prompt: list[Hashable] = [("alone", i) if p is None else ("prompt", p) for i, p in enumerate(prompts)]
    if grouping is Grouping.PROMPT:
        return by_prompt
    if grouping is Grouping.COLUMN:
        named = [row.get("group") for row in rows]
        return [other if g is None else ("group", g) for g, other in zip(named, by_prompt, strict=True)]
    if size is None or size < 2:
        run, made = 0, list[Hashable]()
        for i, prompt in enumerate(prompts):
            run += i > 0 and prompt != prompts[i - 1]
            made.append(("alone", i) if prompt is None else ("run", run))
        return made
    parts = [prompts[i : i + size] for i in range(0, len(prompts), size)]
    alike = sum(len(set(part)) == 1 for part in parts)
    return [("part", i // size) for i in range(len(rows))] if alike / len(parts) >= 0.95 else by_prompt


def infer_cuts(samples: list[Sample], share: float | None) -> None:
    """The longest, as many as the log counts, if they are about equally long."""
    if share is None:
        return
    number = round(share * len(samples))
    sized = sorted((one for one in samples if one.size is not None), key=lambda one: (-(one.size or 0), one.number))
    longest = sized[:number]
    sizes = [one.size or 0 for one in longest]
    if number and not (sizes and min(sizes) >= 0.8 * statistics.median(sizes)):
        return
    for one in sized:
        if not one.cut_known:
            one.cut = any(one is other for other in longest)


def infer_lengths(samples: list[Sample], logged: float | None) -> None:
    sizes = [one.size for one in samples if one.size is not None]
    if logged is None or not sum(sizes):
        return
    for one in samples:
        if one.length is None and one.size is not None:
            one.length = one.size * logged / (sum(sizes) / len(sizes))


def draw(step: Step, *, all_of_them: bool) -> None:
    """Whole groups, evenly over their mean reward, as many as hold 128 completions were all as large as the largest."""
    groups = step.groups()
    if not all_of_them:
        wanted = min(len(groups), max(DRAWN // max(map(len, groups)), 1))

        def place(group: list[Sample]) -> tuple[bool, float, int]:
            level = mean(one.reward for one in group)
            return level is None, level or 0.0, min(one.number for one in group)

        ranked = sorted(groups, key=place)
        groups = [ranked[math.ceil(k * len(ranked) / wanted) - 1][:DRAWN] for k in range(1, wanted + 1)]
    for group in groups:
        for one in group:
            one.drawn = one.text is not None


# --- numbers ---


def finite(value: float | None) -> float | None:
    return value if value is not None and abs(value) < LARGEST else None


def held(values: Iterable[float | None]) -> list[float]:
    return [float(v) for v in values if v is not None]


def mean(values: Iterable[float | None]) -> float | None:
    some = held(values)
    return math.fsum(some) / len(some) if some else None


def variance(values: Iterable[float | None]) -> float | None:
    some = held(values)
    if len(some) < 2:
        return None
    centre = math.fsum(some) / len(some)
    return math.fsum((v - centre) ** 2 for v in some) / (len(some) - 1)


def root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


def least(values: Iterable[float | None]) -> float | None:
    return min(held(values), default=None)


def most(values: Iterable[float | None]) -> float | None:
    return max(held(values), default=None)


def measure(step: Step, names: Sequence[str], weights: Mapping[str, float]) -> None:
    step.values |= rewards(step, names) | spreads(step, names, weights) | functions(step, names, weights)
    for part in (lengths, correlation, truncation, duplicates, texts, modes):
        step.values |= part(step)


# --- rewards ---


def rewards(step: Step, names: Sequence[str]) -> Values:
    paid = held(one.reward for one in step.samples)
    step.size_of_rounding = ROUNDING * max(map(abs, paid), default=0.0)
    centre = mean(paid)
    sums = [
        (math.fsum(r - (centre or 0.0) for r in own), len(own))
        for group in step.groups()
        if (own := held(one.reward for one in group))
    ]
    scatter = math.fsum(s * s for s, _ in sums)
    made: Values = {
        "samples/reward/mean": centre,
        "samples/reward/se": (math.sqrt(scatter * len(sums) / (len(sums) - 1)) / len(paid) if len(sums) > 1 else None),
        "reward/std/batch": root(variance(paid)),
        "reward/min": least(paid),
        "reward/max": most(paid),
        "advantage/max": most(one.advantage for one in step.samples),
        "advantage/min": least(one.advantage for one in step.samples),
    }
    for name in names:
        made[f"reward/component/{name}/mean"] = mean(one.parts.get(name) for one in step.samples)
        made[f"reward/component/{name}/std"] = root(variance(one.parts.get(name) for one in step.samples))
    return made


def failed(group: list[Sample], names: Sequence[str], weights: Mapping[str, float]) -> bool | None:
    """Whether no completion of the group was paid anything by the task; None where nothing tells.

    The task's functions are those that do not pay for form; of them, those that are only watched (weight 0).
    """
    task = [n for n in names if not pays_for_form(n)]
    task = [n for n in task if weights.get(n) == 0.0] or task
    if not task or len(task) == len(names):
        return None
    paid = [one.parts[n] for one in group for n in task if n in one.parts]
    return max(paid) <= 0.0 if paid else None


def spreads(step: Step, names: Sequence[str], weights: Mapping[str, float]) -> Values:
    all_paid = held(one.reward for one in step.samples)
    groups = [g for g in step.groups() if len(held(one.reward for one in g)) > 1]
    wide: list[list[Sample]] = []
    variances, ranges, form_only = [], [], []
    for group in groups:
        paid = held(one.reward for one in group)
        lost = failed(group, names, weights)
        differs = max(paid) - min(paid) > step.size_of_rounding
        variances.append(variance(paid))
        ranges.append(max(paid) - min(paid))
        if differs:
            wide.append(group)
            step.spreads.append(math.sqrt(variance(paid) or 0.0))
        else:
            step.tied.append((math.fsum(paid) / len(paid), lost))
            step.spreads.append(0.0)
        if lost is not None:
            form_only.append(float(lost and differs))
    sizes = Counter(len(held(one.reward for one in g)) for g in groups)
    if sizes:
        commonest = min(n for n, times in sizes.items() if times == max(sizes.values()))
        step.chance = math.fsum((times / len(all_paid)) ** commonest for times in Counter(all_paid).values())
    return {
        "reward/std/within-group": root(mean(variances)),
        "reward/range/within-group": mean(ranges),
        "samples/zero-variance-share": len(step.tied) / len(groups) if groups else None,
        "signal/effective-groups": float(len(wide)) if groups else None,
        "signal/effective-completions": float(sum(map(len, wide))) if groups else None,
        "signal/shaping-only-share": mean(form_only),
    }


def functions(step: Step, names: Sequence[str], weights: Mapping[str, float]) -> Values:
    """What each function makes of the variance inside groups; a function that does not apply adds nothing."""
    made: Values = {}
    whole, parts = 0.0, dict.fromkeys(names, 0.0)
    for group in step.groups():
        rewarded = [one for one in group if one.reward is not None]
        centre = mean(one.reward for one in rewarded) or 0.0
        whole += math.fsum(((one.reward or 0.0) - centre) ** 2 for one in rewarded)
        for name in names:
            own = mean(one.parts.get(name, 0.0) for one in rewarded) or 0.0
            parts[name] += math.fsum(
                (one.parts.get(name, 0.0) - own) * ((one.reward or 0.0) - centre) for one in rewarded
            )
    for name in names:
        there = any(name in one.parts for one in step.samples) and whole > step.size_of_rounding**2
        share = weights.get(name, 1.0) * parts[name] / whole if there else None
        made[f"reward/component/{name}/variance-share"] = share
    if len(names) > 1:
        found = [together(step, a, b) for a, b in combinations(names[:12], 2)]
        made["reward/component-conflict"] = least(found)
    return made


def together(step: Step, one: str, other: str) -> float | None:
    """Correlation inside groups, over the completions that both functions judge."""
    ab = aa = bb = 0.0
    for group in step.groups():
        both = [s for s in group if one in s.parts and other in s.parts]
        if both:
            a0, b0 = (math.fsum(s.parts[n] for s in both) / len(both) for n in (one, other))
            ab += math.fsum((s.parts[one] - a0) * (s.parts[other] - b0) for s in both)
            aa += math.fsum((s.parts[one] - a0) ** 2 for s in both)
            bb += math.fsum((s.parts[other] - b0) ** 2 for s in both)
    rounding = [
        ROUNDING * max((abs(s.parts[n]) for s in step.samples if n in s.parts), default=0.0) for n in (one, other)
    ]
    return ab / (math.sqrt(aa) * math.sqrt(bb)) if aa > rounding[0] ** 2 and bb > rounding[1] ** 2 else None


# --- lengths ---


def logs(group: Iterable[Sample]) -> list[float]:
    return [math.log(max(one.extent, 1.0)) for one in group if one.extent is not None]


def sources(step: Step, every: Iterable[str]) -> Values:
    known = [one for one in step.samples if one.source is not None]
    made: Values = {}
    for name in every:
        of = [one for one in known if one.source == name]
        made[f"samples/source/{name}/share"] = len(of) / len(known) if known else None
        made[f"samples/source/{name}/reward"] = mean(one.reward for one in of)
    return made


def lengths(step: Step) -> Values:
    known = [one for one in step.samples if one.length_known]
    paid = held(one.reward for one in step.samples)
    apart = bool(paid) and max(paid) > max(min(paid), 0.0)
    return {
        "length/mean": mean(one.length for one in known),
        "length/min": least(one.length for one in known),
        "length/max": most(one.length for one in known),
        "length/std": root(variance(one.length for one in known)),
        "length/terminated/mean": mean(one.length for one in known if one.cut_known and not one.cut),
        "samples/truncated-share": mean(float(bool(one.cut)) for one in step.samples if one.cut_known),
        "text/size/mean": mean(one.size for one in step.samples),
        "text/prompt-size/mean": mean(
            len(one.prompt.encode()) if one.prompt is not None else None for one in step.samples
        ),
        "length/solved/mean": mean(one.length for one in known if one.reward == max(paid)) if apart else None,
        "length/unsolved/mean": (
            mean(one.length for one in known if one.reward is not None and one.reward <= 0.0) if apart else None
        ),
        "length/std/within-group": root(mean(variance(one.length for one in g) for g in step.groups())),
        "length/log-std/within-group": root(mean(variance(logs(g)) for g in step.groups())),
    }


def ranks(values: Sequence[float]) -> list[float]:
    """From 1; equal values share the mean of theirs."""
    ordered = sorted(values)
    return [(bisect_left(ordered, x) + 1 + bisect_right(ordered, x)) / 2 for x in values]


def correlation(step: Step) -> Values:
    """Over groups in which both length and reward differ; the error by taking the groups for what is independent."""
    parts = []
    for group in step.groups():
        both = [one for one in group if one.reward is not None and one.extent is not None]
        middle = (len(both) + 1) / 2
        a = [r - middle for r in ranks([float(one.extent or 0) for one in both])]
        b = [r - middle for r in ranks([float(one.reward or 0) for one in both])]
        if any(a) and any(b):
            parts.append((dot(a, b), dot(a, a), dot(b, b)))
    rho = error = None
    if len(parts) >= 3:
        ab, aa, bb = (math.fsum(p[i] for p in parts) for i in range(3))
        rho = ab / math.sqrt(aa * bb)
        # how far each group's own sums move rho, to the first order
        moves = [x / math.sqrt(aa * bb) - rho * (y / aa + z / bb) / 2 for x, y, z in parts]
        error = math.sqrt(dot(moves, moves) * len(parts) / (len(parts) - 1))
    return effect(rho, error, 1.0, "length/reward-correlation/within-group", "length/reward-correlation/se")


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def truncation(step: Step) -> Values:
    parts = []
    for group in step.groups():
        cut = held(one.reward for one in group if one.cut is True)
        finished = held(one.reward for one in group if one.cut is False)
        if cut and finished:
            gap = math.fsum(cut) / len(cut) - math.fsum(finished) / len(finished)
            parts.append((len(cut) * len(finished) / (len(cut) + len(finished)), gap))
    middle = error = None
    if len(parts) >= 3:
        total = math.fsum(w for w, _ in parts)
        middle = math.fsum(w * gap for w, gap in parts) / total
        scatter = math.fsum((w * (gap - middle)) ** 2 for w, gap in parts)
        error = math.sqrt(scatter * len(parts) / (len(parts) - 1)) / total
    scale = max(map(abs, held(one.reward for one in step.samples)), default=0.0)
    return effect(middle, error, scale, "reward/truncated-gap/within-group", "reward/truncated-gap/se")


def effect(value: float | None, error: float | None, scale: float, name: str, name_of_error: str) -> Values:
    """Without scatter, beyond rounding, an effect has no error to be judged by."""
    if error is None or error <= ROUNDING * scale:
        value = error = None
    return {name: value, name_of_error: error}


# --- texts ---


def duplicates(step: Step) -> Values:
    said = [one for one in step.samples if one.text is not None]
    asked: dict[str, set[Hashable]] = {}
    for one in said:
        asked.setdefault(str(one.text), set()).add(one.asked)
    copies = Counter((one.group, one.text) for one in said)
    return {
        "text/distinct-share": len(asked) / len(said) if said else None,
        "text/duplicate-share/across-prompts": mean(float(len(asked[str(one.text)]) > 1) for one in said),
        "text/duplicate-share/within-group": mean(float(copies[one.group, one.text] > 1) for one in said),
        "text/empty-share": mean(float(not re.sub(f"[{WHITE}]", "", str(one.text))) for one in said),
    }


def texts(step: Step) -> Values:
    drawn = [one for one in step.samples if one.drawn]
    looped = [looped_share(str(one.text)) for one in drawn]
    known = scripts_of_prompts(step)
    groups = [[str(one.text) for one in group if one.drawn] for group in step.groups()]
    return {
        "text/repetition-share": mean(looped),
        "text/looping-share": mean(float(share > 0.5) for share in looped),
        "text/garbled-share": mean(float(garbled(str(one.text), known)) for one in drawn),
        "text/character-entropy": mean(entropy(str(one.text)) for one in drawn),
        "text/tail-compression": mean(tail_compression(str(one.text)) for one in drawn),
        "text/group-diversity": mean(diversity(group) for group in groups),
        "text/distinct-ngram-share": mean(distinct_grams(group) for group in groups),
    }


def tail(text: str) -> bytes:
    return text.encode()[-2_000:]


def looped_share(text: str) -> float:
    """Share of the window inside the longest loop that the text ends in, three times around at least."""
    window = tail(text)
    best = 0
    for period in range(1, 401):
        stretch = period
        while stretch < len(window) and window[-1 - stretch] == window[-1 - stretch + period]:
            stretch += 1
        if stretch <= len(window) and stretch >= 3 * period and stretch >= 16:
            best = max(best, stretch)
    return best / len(window) if window else 0.0


def entropy(text: str) -> float | None:
    window = tail(text)
    shares = [times / len(window) for times in Counter(window).values()]
    return math.fsum(-p * math.log2(p) for p in shares) if window else None


BLOCKS: Mapping[str, Sequence[tuple[int, int]]] = {
    "Cyrillic": [(0x0400, 0x04FF), (0x0500, 0x052F)],
    "Armenian": [(0x0530, 0x058F)],
    "Hebrew": [(0x0590, 0x05FF)],
    # Arabic, Syriac, Arabic Supplement, Presentation Forms A and B
    "Arabic": [(0x0600, 0x06FF), (0x0700, 0x074F), (0x0750, 0x077F), (0xFB50, 0xFDFF), (0xFE70, 0xFEFF)],
    # Devanagari, Bengali, Gurmukhi, Gujarati, Oriya, Tamil, Telugu, Kannada, Malayalam, Sinhala
    "India": [(first, first + 0x7F) for first in range(0x0900, 0x0E00, 0x80)],
    "Thai and Lao": [(0x0E00, 0x0E7F), (0x0E80, 0x0EFF)],
    "Myanmar": [(0x1000, 0x109F)],
    "Georgian": [(0x10A0, 0x10FF)],
    # Jamo, Syllables, Compatibility Jamo
    "Hangul": [(0x1100, 0x11FF), (0xAC00, 0xD7AF), (0x3130, 0x318F)],
    "Ethiopic": [(0x1200, 0x137F)],
    "Khmer": [(0x1780, 0x17FF)],
    # Hiragana, Katakana, half-width Katakana
    "Kana": [(0x3040, 0x309F), (0x30A0, 0x30FF), (0xFF60, 0xFF9F)],
    # Unified Ideographs, their extension A, Compatibility Ideographs, planes 2
    "Han": [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0xF900, 0xFAFF), (0x20000, 0x2FFFF)],
}
"""Unicode's blocks by script. Latin, Greek, symbols and emoji are common to all."""


@cache
def script(char: str) -> str | None:
    at = ord(char)
    return next((name for name, blocks in BLOCKS.items() if any(a <= at <= b for a, b in blocks)), None)


def scripts_of_prompts(step: Step) -> set[str | None]:
    """Scripts that the prompts of the step use; every one where no prompt is known."""
    prompts = [one.prompt for one in step.samples if one.prompt is not None]
    return {script(c) for prompt in prompts for c in prompt} if prompts else set(BLOCKS)


def garbled(text: str, known: set[str | None]) -> bool:
    """A replacement, private-use or control character, or two characters of a script that nobody asked in."""
    for char in text:
        at = ord(char)
        if at == 0xFFFD or 0xE000 <= at <= 0xF8FF:
            return True
        if (at < 0x20 or 0x7F <= at < 0xA0) and char not in "\t\n\v\f\r\x1b":
            return True
    written = Counter(s for c in text if (s := script(c)) is not None)
    return any(times > 1 for name, times in written.items() if name not in known)


def packed(text: bytes) -> int:
    """Bytes of the text after zstd, without what every frame has."""

    def size(data: bytes) -> int:
        return len(zstandard.ZstdCompressor(level=3, write_content_size=False).compress(data))

    return size(text) - size(b"") if text else 0


def tail_compression(text: str) -> float | None:
    return packed(tail(text)) / len(tail(text)) if len(text.encode()) >= 256 else None


def diversity(group: Sequence[str]) -> float | None:
    apart = sum(packed(text.encode()) for text in group)
    return packed("\n".join(group).encode()) / apart if len(group) > 1 and apart else None


def distinct_grams(group: Sequence[str]) -> float | None:
    grams = []
    for text in group:
        words = re.findall(rf"[0-9A-Za-z_]+|[^{WHITE}0-9A-Za-z_]", text)[:256]
        grams += [tuple(words[i : i + 4]) for i in range(len(words) - 3)]
    return len(set(grams)) / len(grams) if grams else None


# --- two kinds of lengths ---


def modes(step: Step) -> Values:
    apart: list[float] = []
    distinct = set()
    for group in step.groups():
        finished = [one for one in group if not one.cut and one.extent is not None]
        if len(finished) > 1:
            own = logs(finished)
            centre = math.fsum(own) / len(own)
            apart += [v - centre for v in own]
            distinct |= {one.extent for one in finished}
    n = len(apart)
    sd = math.sqrt((variance(apart) or 0.0) * (n - 1) / n) if n else 0.0
    names = [f"length/bimodality/{part}" for part in ("within-group", "separation", "dip-p")]
    if n < 64 or sd <= 1e-6:
        return dict.fromkeys(names)
    middle = math.fsum(apart) / n
    third, fourth = (math.fsum(((v - middle) / sd) ** k for v in apart) / n for k in (3, 4))
    skew = third * math.sqrt(n * (n - 1)) / (n - 2)
    excess = (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * (fourth - 3.0) + 6.0)
    coefficient = min(max((skew**2 + 1) / (excess + 3 * (n - 1) ** 2 / ((n - 2) * (n - 3))), 0.0), 1.0)
    p = None
    if 2 * len(distinct) >= n:
        import diptest
        import numpy as np

        p = float(diptest.diptest(np.array(apart))[1])
    return dict(zip(names, (coefficient, separation(apart) if coefficient > 5 / 9 else 0.0, p), strict=True))


def separation(x: Sequence[float]) -> float:
    """Two Gaussians by expectation and maximisation, as `modes.separation` says it."""
    n, ordered = len(x), sorted(x)

    def quantile(q: float) -> float:
        at = q * (n - 1)
        low = int(at)
        return ordered[low] + (at - low) * (ordered[min(low + 1, n - 1)] - ordered[low])

    def bell(v: float, centre: float, sd: float) -> float:
        return math.exp(-0.5 * ((v - centre) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))

    def likelihood(densities: Iterable[float]) -> float:
        return math.fsum(math.log(max(d, 1e-300)) for d in densities)

    middle = math.fsum(x) / n
    spread = math.sqrt(math.fsum((v - middle) ** 2 for v in x) / n)
    share, centres, sds = 0.5, [quantile(0.2), quantile(0.8)], [max(spread / 2, math.sqrt(1e-3))] * 2
    densities: list[tuple[float, float]] = []
    for _ in range(60):
        densities = [(share * bell(v, centres[0], sds[0]), (1 - share) * bell(v, centres[1], sds[1])) for v in x]
        owns = [(a / max(a + b, 1e-300), b / max(a + b, 1e-300)) for a, b in densities]
        sizes = [math.fsum(own[k] for own in owns) + 1e-9 for k in (0, 1)]
        share = sizes[0] / n
        centres = [math.fsum(own[k] * v for own, v in zip(owns, x, strict=True)) / sizes[k] for k in (0, 1)]
        sds = [
            math.sqrt(
                max(math.fsum(o[k] * (v - centres[k]) ** 2 for o, v in zip(owns, x, strict=True)) / sizes[k], 1e-3)
            )
            for k in (0, 1)
        ]
    gain = likelihood(a + b for a, b in densities) - likelihood(
        bell(v, middle, max(spread, math.sqrt(1e-3))) for v in x
    )
    if 2 * gain - 3 * math.log(n) < 6 or min(share, 1 - share) < 0.1:
        return 0.0
    return abs(centres[1] - centres[0]) / math.sqrt((sds[0] ** 2 + sds[1] ** 2) / 2)


# --- steps together ---


def finished(steps: Mapping[Key, Step]) -> dict[str, dict[int, float]]:
    """What `series._finished` gives: each step is judged by itself and those before it."""
    made: dict[str, dict[int, float]] = {}
    high = low = start = None
    for (evaluation, at), step in sorted(steps.items()):
        if evaluation:
            continue
        values = dict(step.values)
        high = most([high, values["reward/max"]])
        low = least([low, values["reward/min"]])
        spread = values["reward/std/batch"]
        if start is None and spread is not None and spread > step.size_of_rounding:
            start = spread
        tied = values["samples/zero-variance-share"]
        if tied is not None and high is not None and low is not None:
            values["signal/zero-variance-excess"] = tied - (step.chance or 0.0)
            near = ROUNDING * max(abs(high), abs(low))
            solved = [level >= high - near and lost is not True for level, lost in step.tied]
            nothing = [(level <= low + near and level <= near) or lost is True for level, lost in step.tied]
            if high - low > near and high > 0.0:
                values["signal/solved-share"] = sum(solved) / len(step.spreads)
            values["signal/unsolved-share"] = sum(nothing) / len(step.spreads)
            crumbs = [s for s in step.spreads if start is not None and 0.0 < s < 0.05 * start]
            values["signal/tiny-spread-share"] = len(crumbs) / len(step.spreads)
        for name, value in values.items():
            if value is not None:
                made.setdefault(name, {})[at] = value
    return made

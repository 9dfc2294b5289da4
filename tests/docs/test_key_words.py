"""Patterns are shown as people read them, and what is shown is what the pattern matches."""

from __future__ import annotations

import re

import pytest
from key_words import examples, in_words

from vario.sources.dialects import DIALECTS

PATTERNS = sorted(
    {alias.key for dialect in DIALECTS for alias in dialect.aliases}
    | {p for dialect in DIALECTS for p in dialect.ignored}
)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("reward", ("reward",)),
        (r"rewards/(?P<part>.+)/mean", ("rewards/*/mean",)),
        (r"rewards/(?P<part>(?!(?:chosen|rejected)$)[^/]+)", ("rewards/*",)),
        (r"epoch|step", ("epoch", "step")),
        (r"x/(min|max)_y|z", ("x/{min, max}_y", "z")),
        (r"eval/pass@\d+", ("eval/pass@N",)),
        (r"kl[1-4]_avg", ("klN_avg",)),
        (r"count_-?[\d.]+", ("count_[-]N",)),
        (r"(un)?matched(_a|_b)?", ("[un]matched[{_a, _b}]",)),
        (r"memory \(GiB\)", ("memory (GiB)",)),
        (r"pass[@^]\d", ("pass{@, ^}N",)),
        (r"(?P<part>[A-Z]\w*)", ("{A-Z}*",)),
        (r"NN\*", ("NN*",)),
        (r"(a|.+)_loss", ("*_loss",)),
        (r"a/[^/]+/.*", ("a/*/*",)),
        (r"(x/)?eval/([^/]+)/(n|\2/.+)", ("[x/]eval/*/{n, */*}",)),
        (r"(min|max)_of_\1", ("{min, max}_of_{min, max}",)),
    ],
)
def test_words(pattern: str, words: tuple[str, ...]) -> None:
    assert in_words(pattern) == words
    for example in examples(pattern):
        assert re.fullmatch(pattern, example)


@pytest.mark.parametrize("pattern", [r"a{2}", r"a+?", r"(?i)a", r"\bword", r"(unclosed", r"[unclosed", "trailing\\"])
def test_what_is_not_understood_is_shown_as_it_is(pattern: str) -> None:
    assert in_words(pattern) == (pattern,)
    assert examples(pattern) == ()


def test_every_pattern_of_a_dialect_is_understood_and_means_what_is_shown() -> None:
    assert len(PATTERNS) > 500
    for pattern in PATTERNS:
        made = examples(pattern)
        assert made, pattern
        assert len(made) >= len(in_words(pattern))
        for example in made:
            assert re.fullmatch(pattern, example) or pattern == example, f"{pattern} is no {example}"

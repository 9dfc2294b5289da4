"""What a layout is: how one framework writes its completions to disk."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from vario.sources.rollouts.columns import COMPONENT

Row = Mapping[str, object]
HELD_OUT = r"(?:[^/]*[^a-zA-Z/])?(?:val(?!ue)|eval|test)[^/]*"
"""What people call the folder or file of an evaluation: a word of its own, so neither `latest` nor `values`."""


class Grouping(Enum):
    """What tells which completions answer the same prompt."""

    COLUMN = "the dump names the group"
    PROMPT = "equal prompts are one group"
    CONSECUTIVE = "as many rows in a row as the group is large, with one prompt"


def no_components(_names: Iterable[str]) -> tuple[str, ...]:
    """The dump holds no reward function apart."""
    return ()


def named_components(names: Iterable[str]) -> list[str]:
    """The reward functions of rows that `unpack` made: it marks them as the table does."""
    return [n for n in names if n.startswith(COMPONENT)]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    r"""How one framework writes its completions.

    Attributes:
        key: what a layout is called, one of its kind.
        name: the framework's, as dialects have it.
        files: where they lie, a pattern searched in the path below the run's folder, with `/` between folders.
            A group `(?P<step>\d+)` is the step where the rows do not say it; `(?P<eval>...)` that matches something
            marks files of an evaluation.
        needs: keys that the file's first object (or table) holds, before `unpack`; what tells a layout from a neighbour's.
        lacks: keys that it must not hold: another's.
        fields: keys of each column of `columns.COLUMNS`, the first that a row holds counts.
        grouping: what tells groups.
        components: of all keys, those that are reward functions of their own (where they hold numbers).
        weighted: whether the reward is the weighted sum of the components, and not written down.
        unpack: what turns one object of the file into rows, where a line is not a row.
        keep: whether a row counts (padding, failed episodes do not); None keeps all.
        filtered: paths of files that hold only what a filter kept; None for a layout that holds everything sampled.
        versioned: whether `version` counts as the file's steps do, so that their difference is a staleness.
        evaluation: whether the rows of a file of this layout are of an evaluation, whatever it is called.
        source: where the layout is known from.
    """

    key: str
    name: str
    files: re.Pattern[str]
    needs: frozenset[str]
    fields: Mapping[str, tuple[str, ...]]
    grouping: Grouping
    components: Callable[[Iterable[str]], Iterable[str]] = no_components
    weighted: bool = False
    unpack: Callable[[Row], Iterable[Row]] | None = None
    keep: Callable[[Row], bool] | None = None
    filtered: re.Pattern[str] | None = None
    versioned: bool = False
    evaluation: bool = False
    source: str = ""
    lacks: frozenset[str] = frozenset()

    def recognises(self, path: str, keys: Iterable[str]) -> bool:
        """Whether a file at this path, whose first object holds these keys, is this framework's."""
        held = set(keys)
        return self.needs <= held and not self.lacks & held and self.files.search(path) is not None

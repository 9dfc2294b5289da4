"""Text: how alike, how looped and how garbled the completions are. Compared with the run's own first batches."""

from __future__ import annotations

from dataclasses import dataclass

from vario.errors import NotReadable
from vario.instruments.reading import Look, Reading

LEAST = 8
"""Batches of samples: five make the start, and a level needs its own."""


@dataclass(frozen=True)
class Diversity:
    """How much the completions differ. `floor` is what a group of identical texts compresses to, 1/group size."""

    group: Reading | None
    distinct: Reading | None
    floor: float

    @classmethod
    def read(cls, look: Look) -> Diversity:
        """Needs the compression of groups, or the share of distinct texts."""
        group = look.find("text/group-diversity", least=LEAST)
        distinct = look.find("text/distinct-share", least=LEAST)
        if group is None and distinct is None:
            raise NotReadable("text/distinct-share", "text/group-diversity")
        size = look.history.run.declared.group_size
        return cls(group, distinct, 1.0 / size if size else 0.0)

    def left(self, measure: Reading, step: int | None = None) -> float:
        """Share of a measure's start that is left at `step` (now, if None), above what identical texts give."""
        low = self.floor if measure is self.group else 0.0
        level = measure.level if step is None else measure.level_at(step)
        return (level - low) / (measure.start - low) if measure.start > low else 1.0

    @property
    def least_left(self) -> tuple[Reading, float]:
        """The measure that lost most, and the share of its start that is left above what identical texts give."""
        measures = [r for r in (self.group, self.distinct) if r is not None]
        return min(((r, self.left(r)) for r in measures), key=lambda pair: pair[1])


@dataclass(frozen=True)
class Repetition:
    """Loops: the share of the text inside exact ones, or of the completions that end in one."""

    share: Reading

    @classmethod
    def read(cls, look: Look) -> Repetition:
        """Needs either share."""
        found = look.find("text/repetition-share", least=LEAST) or look.find("text/looping-share", least=LEAST)
        if found is None:
            raise NotReadable("text/repetition-share", "text/looping-share")
        return cls(found)


@dataclass(frozen=True)
class Garbling:
    """Completions with characters that no text has, or with a script that the prompts do not use; and empty ones."""

    share: Reading
    empty: Reading | None

    @classmethod
    def read(cls, look: Look) -> Garbling:
        """Needs text/garbled-share."""
        return cls(look.need("text/garbled-share", least=LEAST), look.find("text/empty-share", least=LEAST))


@dataclass(frozen=True)
class Duplication:
    """Exact copies: of another prompt's completion, and of a sibling in the group."""

    across: Reading
    within: Reading | None
    empty: Reading | None

    @classmethod
    def read(cls, look: Look) -> Duplication:
        """Needs copies across prompts: those in a group say no more than that a prompt is solved."""
        return cls(
            look.need("text/duplicate-share/across-prompts", least=LEAST),
            look.find("text/duplicate-share/within-group", least=LEAST),
            look.find("text/empty-share", least=LEAST),
        )

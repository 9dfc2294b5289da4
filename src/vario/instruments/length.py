"""Length: mean, extremes, and the share cut at the cap."""

from __future__ import annotations

from dataclasses import dataclass

from vario.instruments.reading import Look, Reading


@dataclass(frozen=True)
class Length:
    """Completion lengths. `cap` is the configured maximum in tokens, None if unknown."""

    mean: Reading
    shortest: Reading | None
    longest: Reading | None
    terminated: Reading | None
    truncated: Reading | None
    cap: float | None

    @classmethod
    def read(cls, look: Look) -> Length:
        """Needs length/mean."""
        mean = look.need("length/mean", least=5)
        return cls(
            mean,
            look.find("length/min"),
            look.find("length/max"),
            look.find("length/terminated/mean"),
            look.find("length/truncated-share"),
            look.history.run.declared.max_length,
        )

    @property
    def growth(self) -> float:
        """Level now relative to the start."""
        return self.mean.level / self.mean.start if self.mean.start > 0 else 1.0


@dataclass(frozen=True)
class Truncation:
    """Share of completions cut at the cap. `believable` is False where the longest stay below the cap."""

    share: Reading
    believable: bool
    cap: float | None

    @classmethod
    def read(cls, look: Look) -> Truncation:
        """Needs the truncated share; a cap and a maximum length make it checkable."""
        share = look.need("length/truncated-share", least=5)
        longest, cap = look.find("length/max"), look.history.run.declared.max_length
        believable = not (cap and longest is not None and share.level > 0.05 and longest.high < 0.95 * cap)
        return cls(share, believable, cap)

"""Preference: chosen, rejected, margin and accuracy of a DPO-like run."""

from __future__ import annotations

from dataclasses import dataclass

from vario.instruments.reading import Look, Reading


@dataclass(frozen=True)
class Preference:
    """The margin with its two sides."""

    margin: Reading
    chosen: Reading | None
    rejected: Reading | None
    accuracy: Reading | None
    held_out: Reading | None

    @classmethod
    def read(cls, look: Look) -> Preference:
        """Needs the margin."""
        return cls(
            look.need("preference/margin", least=5),
            look.find("preference/chosen-reward", least=5),
            look.find("preference/rejected-reward", least=5),
            look.find("preference/accuracy", least=5),
            look.find("eval/preference/margin", least=4),
        )

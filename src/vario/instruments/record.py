"""The whole record: non-finite values, events, and every reading by name, for rules about the run itself."""

from __future__ import annotations

from dataclasses import dataclass

from vario.instruments.reading import Look, Reading
from vario.run import Declared, Event


@dataclass(frozen=True)
class Record:
    """What was logged so far, as far as it concerns the run and not one metric."""

    look: Look

    @classmethod
    def read(cls, look: Look) -> Record:
        """Always readable."""
        return cls(look)

    @property
    def rows(self) -> int:
        """Logged training rows."""
        return self.look.rows

    @property
    def events(self) -> tuple[Event, ...]:
        """Resumes and seams so far."""
        return tuple(e for e in self.look.history.run.events if e.step <= self.look.step)

    @property
    def declared(self) -> Declared:
        """What the dialect knows of the run."""
        return self.look.history.run.declared

    def find(self, name: str, *, least: int = 5) -> Reading | None:
        """A reading by canonical name."""
        return self.look.find(name, least=least)

    def non_finite(self) -> dict[str, list[int]]:
        """Steps at which each metric was NaN or infinite."""
        found: dict[str, list[int]] = {}
        for name in self.look.history.run.series:
            kept = self.look.history.kept(name)
            if kept is not None and kept.bad_steps.size:
                steps = [int(s) for s in kept.bad_steps if s <= self.look.step]
                if steps:
                    found[name] = steps
        return found

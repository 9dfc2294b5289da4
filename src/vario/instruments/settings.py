"""What the configuration says, beside what the log shows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vario.errors import NotReadable
from vario.instruments.reading import Look, Reading
from vario.run import Declared, KnobSetting

NUMBER = r"-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"


@dataclass(frozen=True)
class Settings:
    """The settings that were read from this run's configuration; a framework's default is no statement of the run."""

    look: Look
    knobs: dict[str, KnobSetting]
    declared: Declared

    @classmethod
    def read(cls, look: Look) -> Settings:
        """Needs a configuration beside the log."""
        run = look.history.run
        knobs = {name: k for name, k in run.knobs.items() if not k.is_default and k.current is not None}
        if not knobs and run.declared.max_length is None:
            raise NotReadable("configuration", reason="no configuration was found beside the log")
        return cls(look, knobs, run.declared)

    def number(self, knob: str) -> float | None:
        """A knob's value in this run's configuration, where it is a number."""
        value = self.knobs[knob].current if knob in self.knobs else None
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def numbers(self, knob: str) -> tuple[float, ...]:
        """The values of a knob that holds a list, written as `[1.0, 0.25]`; empty for anything else."""
        value = self.knobs[knob].current if knob in self.knobs else None
        if not isinstance(value, str) or not re.fullmatch(rf"\[{NUMBER}(, ?{NUMBER})*\]", value):
            return ()
        return tuple(float(part) for part in value.strip("[]").split(","))

    def key(self, knob: str) -> str:
        """The knob under this framework's name."""
        return self.knobs[knob].key if knob in self.knobs else knob

    def find(self, name: str, *, least: int = 5) -> Reading | None:
        """A reading by canonical name."""
        return self.look.find(name, least=least)

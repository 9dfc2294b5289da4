"""KL to the reference: what the policy has paid so far. Unit-aware, and compared with itself first."""

from __future__ import annotations

from dataclasses import dataclass

from vario.errors import NotReadable
from vario.instruments.reading import Look, Reading
from vario.instruments.reward import scatter
from vario.run import Floats
from vario.stats.spread import median

TO_REFERENCE = {"kl/reference": "nats/token", "kl/reference/sequence": "nats/sequence"}
"""The metrics that measure it, each with its unit; the first that a run has is taken."""
STILL = {"nats/token": 5e-3, "nats/sequence": 0.25}
"""Below this a policy has hardly left its reference: 5e-3 nats a token is 1 nat in 200 tokens."""
USUAL = {"nats/token": 0.1, "nats/sequence": 15.0}
"""The most that recipes spend. TRL and verl recipes hold 1e-3 to 1e-1 a token; objective/kl 5 to 15."""
LARGE = {"nats/token": 1.0, "nats/sequence": 60.0}
"""Above this the policy is another model: several times the most that recipes spend."""


@dataclass(frozen=True)
class Kl:
    """Divergence from the reference. `unit` is nats/token or nats/sequence."""

    reference: Reading
    unit: str
    coefficient: float | None

    @classmethod
    def read(cls, look: Look) -> Kl:
        """Needs a KL to the reference, per token or per sequence."""
        for name, unit in TO_REFERENCE.items():
            reading = look.find(name, least=5)
            if reading is not None:
                knob = look.history.run.knobs.get("kl-coef")
                beta = knob.current if knob is not None and not knob.is_default else None
                return cls(reading, unit, float(beta) if isinstance(beta, int | float) else None)
        short = look.find("kl/reference") is not None
        raise NotReadable("kl/reference", reason="kl/reference: fewer than 5 points so far" if short else "")

    @property
    def still(self) -> bool:
        """Whether the policy has hardly left its reference."""
        return abs(self.reference.high) < STILL[self.unit]

    @property
    def stays_still(self) -> bool:
        """Whether it has hardly left, and would not have in a long run at the pace so far: slow is not pinned."""
        return self.still and self.reference.gains_at_most() < STILL[self.unit]

    @property
    def beyond_usual(self) -> bool:
        """Whether more is spent than recipes spend on a whole run."""
        return self.reference.level > USUAL[self.unit]

    @property
    def large(self) -> bool:
        """Whether the policy is another model by now."""
        return self.reference.level > LARGE[self.unit]

    def rises_late(self) -> bool:
        """Whether it still climbs in the last half, beyond noise and by a fifth of its level."""
        late = self.reference.late
        return late is not None and late.rises() and late.change > 0.2 * abs(self.reference.level) and not self.still

    def unrest(self) -> tuple[float, float] | None:
        """Scatter from point to point over the level: in the first third, and in the last half; None where too short.

        Neither a climb nor single spikes count.
        """
        values = self.reference.values
        first, last = values[: values.size // 3], values[values.size // 2 :]
        if first.size < SCATTER_LEAST:
            return None
        return _relative_scatter(first), _relative_scatter(last)


SCATTER_LEAST = 20


def _relative_scatter(values: Floats) -> float:
    level = abs(median(values))
    return scatter(values) / level if level > 1e-12 else 0.0

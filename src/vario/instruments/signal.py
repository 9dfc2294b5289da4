"""Learning signal: how much of the batch has any advantage at all. GRPO's primary instrument."""

from __future__ import annotations

from dataclasses import dataclass

from vario.errors import NotReadable
from vario.instruments.reading import Look, Reading


@dataclass(frozen=True)
class Signal:
    """Share of groups without spread, or the spread within groups."""

    zero_share: Reading | None
    within: Reading | None
    batch: Reading | None

    @classmethod
    def read(cls, look: Look) -> Signal:
        """Needs a share of dead groups, a within-group spread, or a batch spread that is zero."""
        zero = look.find("signal/zero-variance-share", least=5)
        within = look.find("reward/std/within-group", least=5)
        batch = look.find("reward/std/batch", least=5)
        if zero is None and within is None and (batch is None or batch.level > 1e-6):
            raise NotReadable("signal/zero-variance-share", "reward/std/within-group")
        return cls(zero, within, batch)

    @property
    def dead_share(self) -> float | None:
        """Share of groups that carry no advantage, now; None where only spreads are known."""
        if self.zero_share is not None:
            return self.zero_share.level
        for reading in (self.within, self.batch):
            if reading is not None and reading.level <= 1e-6:
                return 1.0
        return None

    @property
    def reading(self) -> Reading:
        """The metric it was read from."""
        found = self.zero_share or self.within or self.batch
        assert found is not None
        return found

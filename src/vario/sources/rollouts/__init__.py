"""Rollouts: completions as they were sampled, reduced to series under canonical names. polars lives here."""

from __future__ import annotations

from vario.sources.rollouts.discovery import discover
from vario.sources.rollouts.series import with_samples

__all__ = ["discover", "with_samples"]

"""Every error that vario raises on purpose.

    VarioError
    ├── SourceError          a path that cannot be read as a run
    │   ├── NothingReadable  nothing there that a reader recognises
    │   └── Malformed        recognised, but too broken to give a single row
    ├── ConfigError          a configuration file that cannot be read
    ├── NotReadable          an instrument lacks the metric that it needs
    └── UnknownRule          no rule of that name or code

A message says what is wrong, where, and what to try next.
"""

from __future__ import annotations


class VarioError(Exception):
    """Base of all deliberate errors."""


class SourceError(VarioError):
    """A path cannot be read as a run."""


class NothingReadable(SourceError):
    """No reader recognises what lies at the path."""


class Malformed(SourceError):
    """A file was recognised, but no row of it could be read."""


class ConfigError(VarioError):
    """A configuration file cannot be read."""


class UnknownRule(VarioError):
    """No rule has that name or code."""


class NotReadable(VarioError):
    """An instrument cannot be read; `missing` names the metrics that would enable it."""

    def __init__(self, *missing: str, reason: str = "") -> None:
        self.missing = missing
        self.reason = reason or f"{', '.join(missing)} not logged"
        super().__init__(self.reason)

"""Every error that vario raises on purpose.

    VarioError
    ├── SourceError          a path that cannot be read as a run
    │   ├── NothingReadable  nothing there that a reader recognises
    │   ├── Malformed        recognised, but too broken to give a single row
    │   └── SeveralRuns      more than one run lies there: one has to be chosen
    ├── ConfigError          a configuration file that cannot be read
    ├── NotReadable          an instrument lacks the metric that it needs
    ├── UnknownRule          no rule of that name or code
    └── StateError           what survives restarts cannot be read or kept now

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


class SeveralRuns(SourceError):
    """More than one run lies at the path; `names` can be given as the run to read."""

    def __init__(self, path: object, names: list[str]) -> None:
        self.names = names
        some = "".join(f"\n  {name}" for name in names[:MAX_NAMES])
        more = f"\n  and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        super().__init__(
            f"{path}: {len(names)} runs lie here; choose one with --run NAME, or take each with --all:{some}{more}"
        )


MAX_NAMES = 20


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


class StateError(VarioError):
    """The database of what survives restarts is locked, full, broken, not there, or of a newer vario."""

"""Names that stay: a run's, from where it lies, and a finding's, from its run, its rule and the step of its onset."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import PurePath

from vario.surfaces.privacy import masked
from vario.verdict import Finding

MOST_NAME = 32
ID = re.compile(r"[A-Za-z0-9._-]+-[0-9a-f]{8}")
FINDING = re.compile(r"(?P<run>[^/@]+)/(?P<name>[a-z0-9-]+)@(?P<since>-?\d+|none)")


@dataclass(frozen=True, slots=True)
class Ref:
    """Where a run lies: a resolved path or an address, and which of several runs there (None: the only one)."""

    path: str
    run: str | None = None

    @property
    def id(self) -> str:
        """The last part of its name, for people, and eight digits of a hash of the whole: the same tomorrow."""
        told = PurePath(self.path).name + (f"-{self.run}" if self.run else "")
        word = re.sub(r"[^A-Za-z0-9._]+", "-", masked(told)).strip("-.")[-MOST_NAME:].strip("-.") or "run"
        made = hashlib.sha256(f"{self.path}\0{self.run or ''}".encode(errors="surrogateescape")).hexdigest()
        return f"{word}-{made[:8]}"


def finding_id(ref: Ref, finding: Finding) -> str:
    """`RUN_ID/finding-name@since`; `none` where no onset is known."""
    return f"{ref.id}/{finding.name}@{'none' if finding.since is None else finding.since}"


def rule_named(word: str) -> str:
    """The rule that a finding's id, its name or its code speaks of."""
    found = FINDING.fullmatch(word.strip())
    return found["name"] if found else word.strip()

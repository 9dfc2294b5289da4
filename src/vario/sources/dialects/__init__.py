"""Dialects: one file per framework. First that recognises the keys wins; generic stands last."""

from __future__ import annotations

from vario.sources.dialects import generic, trl, unsloth
from vario.sources.dialects.base import Dialect

DIALECTS: tuple[Dialect, ...] = (unsloth.DIALECT, trl.DIALECT, generic.DIALECT)

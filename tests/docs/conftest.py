"""The scripts that make the pages are imported by the tests as they import each other."""

from __future__ import annotations

import sys

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

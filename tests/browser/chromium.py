"""A real Chromium without a window, for as long as the tests of a file run."""

from __future__ import annotations

import os
import shutil

from tests.debian import brought

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def executable() -> str:
    """Where the browser lies. Raises Unavailable where it cannot be had."""
    told = "Chromium here (VARIO_CHROMIUM names one that lies elsewhere)"
    return brought(_found, "chromium", "fonts-dejavu-core", told=told)


def _found() -> str | None:
    named = os.environ.get("VARIO_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)

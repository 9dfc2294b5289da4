"""Prometheus itself, with its tool that checks what it is given."""

from __future__ import annotations

import shutil

import pytest

from tests.debian import Unavailable, brought


@pytest.fixture(scope="session")
def prometheus() -> None:
    """Makes sure that `prometheus` and `promtool` are here."""
    try:
        brought(lambda: shutil.which("prometheus") and shutil.which("promtool"), "prometheus", told="Prometheus here")
    except Unavailable as why:
        pytest.skip(str(why))

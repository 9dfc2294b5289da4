"""The documentation in a real browser: silent, usable by everybody, readable on a phone, searchable where it is served."""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

pytest.importorskip("mkdocs", reason="mkdocs is not installed (vario[docs])")
PAGES = ("index", "tutorial", "rules/kl-runaway", "frameworks/skyrl")
PAPER = {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 19, 24)"}
WIDTH = "() => document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", PAPER)
def test_page_is_silent_and_axe_finds_nothing_serious(
    name: str, scheme: str, served: str, visit: Any, violations: Any
) -> None:
    page = visit(f"{served}{name}.html", within=served, color_scheme=scheme)
    assert page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor") == PAPER[scheme]
    assert not violations(page)


@pytest.mark.parametrize("name", ["index", "tutorial", "rules/kl-runaway", "metrics", "schemas"])
def test_a_phone_shows_it_without_scrolling_sideways(name: str, site: Path, visit: Any, keep: Any) -> None:
    page = visit(site / f"{name}.html", within=site.as_uri(), width=390, height=844)
    assert page.evaluate(WIDTH) <= 390
    top = page.locator("h1").bounding_box()
    assert top["y"] < 844, "the text comes before the contents"
    page.click(".to-nav")
    assert page.locator("nav").bounding_box()["y"] < 844
    page.evaluate("() => window.scrollTo(0, 0)")
    keep(page, whole=False)


def test_the_nav_shows_where_one_is(site: Path, visit: Any, keep: Any) -> None:
    page = visit(site / "rules/kl-runaway.html", within=site.as_uri())
    here = page.locator("nav a[aria-current=page]")
    assert here.inner_text() == "kl-runaway"
    assert here.is_visible()
    assert not page.locator("nav a", has_text="verl-agent").is_visible(), "what is elsewhere is folded"
    assert page.locator(".search").is_hidden(), "a page from a disk cannot read the index"
    keep(page, whole=False)


def test_keys_reach_the_text_first(site: Path, visit: Any) -> None:
    page = visit(site / "index.html", within=site.as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("() => location.hash") == "#content"


def test_the_search_finds_a_rule(served: str, visit: Any, violations: Any, keep: Any) -> None:
    page = visit(f"{served}concepts.html", within=served)
    page.focus("#mkdocs-search-query")
    page.keyboard.type("runaway")  # before the index is there
    page.wait_for_selector("#mkdocs-search-results a[href*='kl-runaway']", timeout=20_000)
    assert not violations(page)
    keep(page, whole=False)
    page.fill("#mkdocs-search-query", "xyzzy")
    page.wait_for_selector("#mkdocs-search-results >> text=Nothing found")
    page.fill("#mkdocs-search-query", "runaway")
    page.locator("#mkdocs-search-results a[href*='kl-runaway']").first.click()
    page.wait_for_load_state()
    assert page.inner_text("h1") == "kl-runaway"

"""The browser, pages that must stay silent, and where pictures of them are kept."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import ARGUMENTS, executable
from tests.debian import Unavailable

Visit = Callable[..., Any]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser of its own for each file of tests: while Playwright runs, no other test could run an event loop."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (vario[test])")
    try:
        path = executable()
    except Unavailable as error:
        pytest.skip(str(error))
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots are kept: VARIO_ARTEFACTS, or a temporary folder."""
    named = os.environ.get("VARIO_ARTEFACTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("artefacts")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def keep(artefacts: Path, request: pytest.FixtureRequest) -> Callable[..., Path]:
    """Keep a screenshot of a page under the test's name."""

    def kept(page: Any, name: str = "", *, whole: bool = True) -> Path:
        words = re.sub(r"[^\w-]+", "-", f"{request.node.name}-{name}").strip("-")[:120]
        path = artefacts / f"{words}.png"
        page.screenshot(path=path, full_page=whole)
        return path

    return kept


@pytest.fixture
def visit(chromium: Any) -> Iterator[Visit]:
    """Opens a file or an address in a fresh profile.

    The test fails on any error in the console or on the page, on any dialog, and on any request that leaves the file
    (or the addresses that begin with `within`). What a test provokes itself it names in `expected`.
    """
    contexts, troubles = [], []

    def opened(
        where: Path | str, *, within: str | None = None, expected: str | None = None, width: int = 1200, height: int = 900, **more: Any
    ) -> Any:
        url = where.as_uri() if isinstance(where, Path) else where
        context = chromium.new_context(viewport={"width": width, "height": height}, **more)
        contexts.append(context)
        page = context.new_page()

        def trouble(kind: str, text: str) -> None:
            if expected is None or not re.search(expected, text):
                troubles.append(f"{kind}: {text[:300]}")

        page.on("console", lambda said: trouble("console", said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: trouble("error", str(error)))

        def dialog(shown: Any) -> None:
            trouble("dialog", shown.message)
            shown.dismiss()

        page.on("dialog", dialog)

        def request(asked: Any) -> None:
            target = asked.url.split("#")[0]
            if target != url.split("#")[0] and not target.startswith("data:") and not (within and target.startswith(within)):
                trouble("request", asked.url)

        context.on("request", request)
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not troubles, "\n".join(troubles)


SERIOUS = ("serious", "critical")
ALIKE = 8
"""Rows of a table that stand for those below them: hundreds of steps have the same marks and colours."""
FEWER_ROWS = "(n) => document.querySelectorAll('tbody').forEach((body) => { while (body.rows.length > n) body.deleteRow(n); })"


@pytest.fixture(scope="session")
def violations() -> Callable[..., list[str]]:
    """What axe holds against a page, of what is serious or critical; by some of its rules, or by all. Long tables lose rows."""
    carrier = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (vario[test])")

    def found(page: Any, *rules: str) -> list[str]:
        page.evaluate(FEWER_ROWS, ALIKE)
        options: dict[str, Any] = {"resultTypes": ["violations"]}
        if rules:
            options["runOnly"] = list(rules)
        results = carrier.Axe().run(page, options=options).response["violations"]
        return [
            f"{v['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
            for v in results
            if v["impact"] in SERIOUS
            for node in v["nodes"][:3]
        ]

    return found

"""The card that a diagnosis shows in a notebook: its HTML, how it is reached, and what it leaves alone."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

import pytest

import vario
from tests.conftest import GOLDEN, golden_runs
from tests.notebook.hostile import hostile_run
from vario.shown import as_html, show_by
from vario.surfaces.charts.look import INKS
from vario.surfaces.notebook import card
from vario.surfaces.notebook.scope import CARD, card_style
from vario.surfaces.panels import panels

VOID = frozenset({"br", "meta", "img", "path", "rect", "line", "circle", "span", "li"})


class Seen(HTMLParser):
    """The elements and the texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open[-1] != tag:
            assert self.open[-1] in VOID, self.open
            self.open.pop()
        assert self.open, tag
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def having(self, name: str) -> list[str]:
        return [value or "" for _, attributes in self.elements if (value := attributes.get(name)) is not None]


def seen(html: str) -> Seen:
    made = Seen()
    made.feed(html)
    made.close()
    assert not [tag for tag in made.open if tag not in VOID]
    return made


def shown(diagnosis: vario.Diagnosis) -> Seen:
    html = diagnosis._repr_html_()
    assert html is not None
    return seen(html)


@pytest.fixture(scope="module")
def drift() -> vario.Diagnosis:
    return vario.diagnose(vario.read(GOLDEN / "grpo-drift"))


def test_verdict_findings_and_the_primary_panel(drift: vario.Diagnosis) -> None:
    page = shown(drift)
    text = " ".join(" ".join(page.texts).split())
    assert "STOP" in text
    assert drift.verdict.narrative in text
    (finding,) = (f for f in drift.findings if f.severity != "info")
    assert finding.name in text
    for line in finding.evidence:
        assert line in text
    primary, *others = panels(drift)
    charts = [a["id"] for tag, a in page.elements if tag == "figure"]
    assert [re.sub(r"^chart-|-[0-9a-f]{8}$", "", i or "") for i in charts] == [n.replace("/", "-") for n in primary[1]]
    assert others
    assert len([a for tag, a in page.elements if tag == "path" and a.get("class") == "trend"]) == len(primary[1])
    assert [a for tag, a in page.elements if tag == "line" and a.get("class") == "since critical"]


@pytest.mark.parametrize("path", golden_runs(), ids=lambda p: p.name)
def test_every_run_gives_a_whole_card(path) -> None:
    page = shown(vario.diagnose(vario.read(path), replay=False))
    assert [tag for tag, _ in page.elements].count("div") > 3
    assert page.elements[0] == ("div", {"class": "vario-card"})


def test_a_run_without_a_row_has_one_too() -> None:
    empty = vario.diagnose(vario.read(GOLDEN / "grpo-drift").until(-1))
    assert "CANNOT TELL" in shown(empty).texts
    assert "steps None to None" not in repr(empty)


def test_nothing_runs_in_it(drift: vario.Diagnosis) -> None:
    page = shown(drift)
    assert not {"script", "iframe", "object", "link", "form", "img"} & {tag for tag, _ in page.elements}
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")]
    assert not page.having("src")
    assert all(address.startswith("#") for address in page.having("href"))
    assert not page.having("data-values"), "what only a script reads makes a notebook large"
    assert not page.having("tabindex"), "nothing answers a key here"


def test_links_lead_within_the_card_and_names_are_its_own(drift: vario.Diagnosis) -> None:
    page = shown(drift)
    names = page.having("id")
    assert len(names) == len(set(names))
    assert page.having("href")
    for name in [*(a[1:] for a in page.having("href")), *page.having("aria-labelledby")]:
        assert name in names
    other = shown(vario.diagnose(vario.read(GOLDEN / "grpo-healthy"), replay=False))
    assert not set(names) & set(other.having("id")), "two cards of one notebook"


def test_hostile_names_are_text() -> None:
    page = shown(vario.diagnose(hostile_run(), replay=False))
    assert [tag for tag, _ in page.elements].count("style") == 1
    assert not {"script", "img", "b"} & {tag for tag, _ in page.elements}
    text = "".join(page.texts)
    assert '<b id="verdict">runs</b>" data-values="1' in text, "the path is shown as it is"
    assert "<img src=x onerror=alert(2)>" in text
    assert "<script>alert(1)</script>" in text
    html = vario.diagnose(hostile_run(), replay=False)._repr_html_() or ""
    assert "\x1b" not in html
    assert "\u202e" not in html


def test_a_password_in_an_address_is_masked() -> None:
    run = replace(vario.read(GOLDEN / "grpo-drift"), path="mlflow+https://me:s3cretword@host/abc")
    html = vario.diagnose(run, replay=False)._repr_html_() or ""
    assert "s3cretword" not in html
    assert "@host/abc" in html


# the style


def rules(css: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each block that holds declarations: the selectors and conditions that it lies in, and what it declares."""
    at: list[str] = []
    text = ""
    for character in css:
        if character == "{":
            *declared, selector = text.split(";")
            if "".join(declared).strip():
                yield tuple(at), ";".join(declared)
            at.append(selector.strip())
            text = ""
        elif character == "}":
            if text.strip():
                yield tuple(at), text
            at.pop()
            text = ""
        else:
            text += character
    assert not at
    assert not text.strip(), "something stands outside of all rules"


def test_no_style_reaches_outside_the_card() -> None:
    found = list(rules(re.sub(r"/\*.*?\*/", "", str(card_style()))))
    assert len(found) > 60
    for where, _ in found:
        assert where[0] == CARD, "everything is nested in the card's rule"
        for selector in where[1:]:
            assert selector.startswith("@media") or not re.search(r":root|:host|(?<![\w.#-])(html|body)\b", selector)
            if "&" in selector:  # a nested selector with & may stand beside the card: it must end at it
                assert all(part.strip().endswith("&") or part.strip().startswith("&") for part in selector.split(","))


def test_each_theme_sets_every_colour_on_the_card_itself() -> None:
    found = [(where[1:], declared) for where, declared in rules(str(card_style()))]
    for ink in INKS:
        light = [where for where, declared in found if f"--{ink}:{INKS[ink].light}" in declared]
        dark = [where for where, declared in found if f"--{ink}:{INKS[ink].dark}" in declared]
        assert ("&",) in light
        assert any("prefers-color-scheme:dark" in where[0] for where in dark)
        assert any('[data-jp-theme-light="false"] &' in where[-1] and ".vscode-dark &" in where[-1] for where in dark)
        assert any('[data-jp-theme-light="true"] &' in where[-1] and ".vscode-light &" in where[-1] for where in light)


# the way to it


def test_what_judges_knows_nothing_of_what_draws(drift: vario.Diagnosis) -> None:
    before = card(drift)
    try:
        show_by(lambda value: f"<p>{type(value).__name__}</p>")
        assert drift._repr_html_() == "<p>Diagnosis</p>"
    finally:
        show_by(card)
    assert drift._repr_html_() == before
    assert as_html(drift.verdict) is None


@pytest.mark.parametrize("way", ["import vario", "from vario.verdict import diagnose"])
def test_drawing_is_loaded_when_it_is_drawn(way: str) -> None:
    code = f"""
import sys
{way}
import vario
late = ["vario.surfaces.notebook", "jinja2"]
print([m for m in [*late, "numpy"] if m in sys.modules and "verdict" not in {way!r}])
diagnosis = vario.diagnose(vario.read({str(GOLDEN / "grpo-drift")!r}), replay=False)
print([m for m in late if m in sys.modules])
print(diagnosis._repr_html_()[:24])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "[]", '<div class="vario-card">']


# in plain text


def test_its_repr_is_two_lines(drift: vario.Diagnosis) -> None:
    first, second = repr(drift).splitlines()
    assert str(GOLDEN / "grpo-drift") in first
    assert first.endswith("trl grpo, steps 1 to 140: stop, medium confidence")
    assert second == "  kl-rises-while-reward-falls since 43>"
    assert repr(drift) == str(drift)


def test_its_repr_where_nothing_was_found_and_of_a_hostile_path() -> None:
    healthy = vario.diagnose(vario.read(GOLDEN / "grpo-healthy"), replay=False)
    assert repr(healthy).splitlines()[1] == "  no warning>"
    named = replace(healthy, run=replace(healthy.run, path="a\x1b[31m\nb"))
    assert "\x1b" not in repr(named)
    assert len(repr(named).splitlines()) == 2

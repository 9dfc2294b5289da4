"""The visual language: what is written can be read, and the pages use nothing beside it."""

from __future__ import annotations

import re
from itertools import product

import pytest

from vario.surfaces.charts.look import (
    GRAPHIC_INKS,
    INKS,
    OF_ACTION,
    OF_REGIME,
    OF_SEVERITY,
    SIZES,
    TEXT_INKS,
    css_variables,
    of_verdict,
)
from vario.surfaces.charts.style import CURVES
from vario.surfaces.pages.environment import asset

SURROUNDINGS = ("light", "dark")
TEXT, GRAPHIC = 4.5, 3.0
"""Contrasts that WCAG 2 asks of text (1.4.3) and of what has to be seen in a picture (1.4.11)."""


def luminance(colour: str) -> float:
    parts = (int(colour[i : i + 2], 16) / 255.0 for i in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ink(name: str, surroundings: str) -> str:
    return str(getattr(INKS[name], surroundings))


def test_contrast_is_measured_as_wcag_does() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize(("name", "behind", "surroundings"), list(product(TEXT_INKS, ("paper", "raised"), SURROUNDINGS)))
def test_words_can_be_read(name: str, behind: str, surroundings: str) -> None:
    assert contrast(ink(name, surroundings), ink(behind, surroundings)) >= TEXT


@pytest.mark.parametrize(("name", "surroundings"), list(product(GRAPHIC_INKS, SURROUNDINGS)))
def test_curves_can_be_seen(name: str, surroundings: str) -> None:
    assert contrast(ink(name, surroundings), ink("paper", surroundings)) >= GRAPHIC


@pytest.mark.parametrize(("name", "surroundings"), list(product(sorted({*OF_SEVERITY.values(), *OF_ACTION.values()}), SURROUNDINGS)))
def test_letters_on_badges_can_be_read(name: str, surroundings: str) -> None:
    assert contrast(ink("paper", surroundings), ink(name, surroundings)) >= TEXT


def test_severities_differ_without_colours() -> None:
    for surroundings in SURROUNDINGS:
        tones = sorted(luminance(ink(name, surroundings)) for name in OF_REGIME.values())
        assert len(set(tones)) == len(tones)


CSS = asset("vario.css")
RULES = re.findall(r"([\w-]+):([^;{}]+)[;}]", re.sub(r"@media[^{]+\{", "{", CSS + CURVES))
COLOURED = ("color", "background", "fill", "stroke", "border-left-color", "border-color", "outline-color")
SPACED = re.compile(r"^(padding|margin|gap|column-gap|row-gap|top|left|right|bottom)(-\w+)?$")
DISTANCE = re.compile(r"^(0|auto|-100rem|var\(--space\)|calc\([\d.]+\*var\(--space\)\))$")


def test_pages_use_no_colour_beside_the_language() -> None:
    assert not re.findall(r"#[0-9a-fA-F]{3,8}\b|\b(?:rgb|hsl|oklch)a?\(", CSS + CURVES)
    for name, value in RULES:
        if name in COLOURED:
            assert re.fullmatch(r"(var\(--[\w-]+\)|none|inherit|transparent)", value.strip()), (name, value)
        if name in ("border", "border-left", "border-top", "border-bottom", "outline"):
            assert re.search(r"solid var\(--[\w-]+\)$", value), (name, value)
    assert {*re.findall(r"var\(--([\w-]+)\)", CSS + CURVES)} <= {*INKS, *(f"size-{s}" for s in SIZES), "space"}


def test_pages_use_no_size_of_type_beside_the_four() -> None:
    sizes = [value.strip() for name, value in RULES if name == "font-size"]
    assert len(sizes) > 8
    for value in sizes:
        # in a picture a letter is as large as the circle around it
        assert re.fullmatch(r"var\(--size-(small|text|large|huge)\)|1[13]px", value), value
    assert "font-size" not in re.sub(r"font-size:var\(--size-\w+\)", "", CSS)


def test_every_distance_is_a_multiple_of_one() -> None:
    found = [(name, value.strip()) for name, value in RULES if SPACED.match(name)]
    assert len(found) > 40
    for name, value in found:
        for part in re.findall(r"calc\([^()]*(?:\([^()]*\)[^()]*)*\)|\S+", value):
            assert DISTANCE.match(part), (name, value)


def test_to_stop_what_has_nothing_left_to_gain_is_no_alarm() -> None:
    assert of_verdict("stop", {"critical", "warning"}) == "critical"
    assert of_verdict("stop", {"warning"}) == "warning"
    assert of_verdict("stop", {"info"}) == of_verdict("stop", ()) == "info"
    assert [of_verdict(word, ()) for word in ("continue", "intervene", "cannot-tell")] == ["good", "warning", "info"]
    assert of_verdict("", ()) == "pale", "not judged yet"


def test_paper_that_is_printed_on_is_light() -> None:
    variables = css_variables()
    light, _, rest = variables.partition("@media")
    assert f"--paper:{INKS['paper'].light}" in light
    for part in rest.split("@media"):
        assert part.strip().startswith("screen"), "dark is for screens alone"


def test_a_badge_keeps_its_colour_on_paper() -> None:
    assert re.search(r"@media print\{.*\.badge[^{}]*\{[^{}]*print-color-adjust:exact", CSS, re.DOTALL)

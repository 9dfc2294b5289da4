"""The panels as a small PNG for a phone: what moved, since when, and what the verdict is."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from vario.catalogue import lookup
from vario.rules.base import number
from vario.run import Floats, Ints
from vario.surfaces.charts import look
from vario.surfaces.charts.trend import smoothed, thinned
from vario.surfaces.live.notices import SEVERITIES
from vario.surfaces.panels import panels, short
from vario.surfaces.privacy import masked
from vario.verdict import Diagnosis, Finding

WIDTH, HEIGHT = 760, 900
"""Pixels: a phone shows it at half the size, so letters are twice as large as usual."""
CURVES = 6
"""Curves in a picture; more are too low to be read on a phone."""
FOUND_CURVES = 2
"""Of them, those that stand in a finding's evidence and in no primary panel."""
FINDINGS = 2
"""Findings whose steps are marked; lines of more cannot be told apart."""
SHARPNESS = 2
"""Lines are drawn so many times larger and brought down, for Pillow draws them without smoothing."""
COLOURS = 32
"""Of the palette: it keeps the file small, and text stays readable."""
EDGE, LABEL_SIZE, TEXT_SIZE, HEAD_SIZE = 24, 20, 22, 30
LONGEST_LINE = 120
"""Characters of a line that are looked at: no more of them ever fit."""

PAPER, INK, PALE, FRAME, BAND, CURVE = (
    look.INKS[name].light for name in ("paper", "ink", "pale", "frame", "values", "curve")
)
"""The colours of the visual language; the pale band behind the bold curve is every value."""
OF_SEVERITY = {word: look.INKS[name].light for word, name in look.OF_SEVERITY.items()}
OF_ACTION = {word: look.INKS[name].light for word, name in look.OF_ACTION.items()}


@dataclass(frozen=True, slots=True)
class _Marked:
    """A finding with the letter that stands for it in the picture."""

    letter: str
    finding: Finding

    @property
    def colour(self) -> str:
        return OF_SEVERITY[self.finding.severity]


@dataclass(frozen=True, slots=True)
class _Box:
    """Where a curve is drawn, in drawn pixels, and the steps from its left to its right edge."""

    left: int
    top: int
    right: int
    bottom: int
    first: int
    last: int

    def x(self, step: float) -> float:
        """Where a step stands."""
        share = (step - self.first) / max(1, self.last - self.first)
        return self.left + share * (self.right - self.left)


def picture(
    diagnosis: Diagnosis,
    *,
    name: str | None = None,
    subject: str | None = None,
    width: int = WIDTH,
    height: int = HEIGHT,
) -> bytes:
    """A PNG with the run's name, the verdict, the primary curves and what was found.

    Args:
        diagnosis: what is drawn.
        name: what the run is called; its path by default.
        subject: the finding that it is drawn for; it is marked first.
        width, height: in pixels.
    """
    return _Sheet(width, height).draw(diagnosis, name or diagnosis.run.path, subject)


def placard(name: str, word: str, text: str, width: int = WIDTH, height: int = WIDTH // 4) -> bytes:
    """A PNG with a name, a word in large letters and a line of text, and no curves."""
    return _Sheet(width, height).placard(name, word, text)


class _Sheet:
    def __init__(self, width: int, height: int) -> None:
        self._size = (width, height)
        self._image = Image.new("RGB", (width * SHARPNESS, height * SHARPNESS), PAPER)
        self._pen = ImageDraw.Draw(self._image)

    def draw(self, diagnosis: Diagnosis, name: str, subject: str | None) -> bytes:
        marked = _marked(diagnosis, subject)
        top = self._head(diagnosis, name, marked)
        self._curves(diagnosis, marked, top)
        return self._png()

    def placard(self, name: str, word: str, text: str) -> bytes:
        edge, right = EDGE * SHARPNESS, self._image.width - EDGE * SHARPNESS
        y = self._line(_drawable(name), edge, edge, right, LABEL_SIZE, PALE)
        y = self._line(_drawable(word), edge, y, right, 2 * HEAD_SIZE, OF_ACTION["continue"])
        self._line(_drawable(text), edge, y, right, TEXT_SIZE, INK)
        return self._png()

    def _png(self) -> bytes:
        small = self._image.resize(self._size, Image.Resampling.LANCZOS)
        made = io.BytesIO()
        small.quantize(COLOURS, dither=Image.Dither.NONE).save(made, "PNG", optimize=True)
        return made.getvalue()

    def _head(self, diagnosis: Diagnosis, name: str, marked: Sequence[_Marked]) -> int:
        """The run, the verdict and the findings; gives where they end."""
        run, verdict = diagnosis.run, diagnosis.verdict
        edge, right = EDGE * SHARPNESS, self._image.width - EDGE * SHARPNESS
        y = edge // 2
        y = self._line(_drawable(name), edge, y, right, LABEL_SIZE, PALE, keep_end=True)
        word = _drawable(verdict.action).upper().replace("-", " ")
        filled = OF_ACTION.get(verdict.action, INK)
        font = _font(HEAD_SIZE)
        wide = int(self._pen.textlength(word, font)) + 20 * SHARPNESS
        tall = (HEAD_SIZE + 14) * SHARPNESS
        self._pen.rounded_rectangle((edge, y, edge + wide, y + tall), 6 * SHARPNESS, filled)
        self._pen.text((edge + wide / 2, y + tall / 2), word, PAPER, font, anchor="mm", stroke_width=SHARPNESS / 2)
        best = verdict.best_checkpoint
        beside = [f"{verdict.confidence} confidence, {verdict.trajectory}"]
        beside.append(f"step {run.last_step}" + (f", best at step {best.step}" if best is not None else ""))
        for i, text in enumerate(beside):
            self._line(_drawable(text), edge + wide + 16 * SHARPNESS, y + i * tall // 2, right, LABEL_SIZE, INK)
        y += tall + 10 * SHARPNESS
        for mark in marked:
            finding = mark.finding
            told = [f"since {finding.since}"] if finding.since is not None else []
            told += [f"seen at {finding.detected_at}"] if finding.detected_at is not None else []
            text = f"{finding.severity}: {finding.name}" + (f" ({', '.join(told)})" if told else "")
            self._badge(mark, edge + 12 * SHARPNESS, y + 14 * SHARPNESS)
            y = self._line(_drawable(text), edge + 32 * SHARPNESS, y, right, TEXT_SIZE, mark.colour)
        return y + 8 * SHARPNESS

    def _line(self, text: str, x: int, y: int, right: int, size: int, colour: str, *, keep_end: bool = False) -> int:
        """One line of text that fits; gives where the next one begins."""
        font = _font(size)
        text = text[-LONGEST_LINE:] if keep_end else text[:LONGEST_LINE]
        while text and self._pen.textlength(text, font) > right - x:
            text = "…" + text[2:] if keep_end else text[:-2] + "…"
        self._pen.text((x, y), text, colour, font)
        return y + int(size * 1.35) * SHARPNESS

    def _curves(self, diagnosis: Diagnosis, marked: Sequence[_Marked], top: int) -> None:
        names = _names(diagnosis, marked)
        run = diagnosis.run
        if not names or run.first_step is None or run.last_step is None:
            self._line("no metric of the panels is logged", EDGE * SHARPNESS, top, self._image.width, TEXT_SIZE, PALE)
            return
        edge, axis = EDGE * SHARPNESS, int(LABEL_SIZE * 1.5) * SHARPNESS
        tall = (self._image.height - top - axis - edge // 2) // len(names)
        ranges = [_range(diagnosis, name) for name in names]
        font = _font(LABEL_SIZE)
        gutter = max(int(self._pen.textlength(number(v), font)) for r in ranges for v in r) + 10 * SHARPNESS
        last_wide = max(int(self._pen.textlength(_last(diagnosis, n), font)) for n in names) + 12 * SHARPNESS
        box = _Box(0, 0, 0, 0, 0, 0)
        for i, name in enumerate(names):
            y = top + i * tall
            box = _Box(
                edge + gutter,
                y + int(LABEL_SIZE * 1.3) * SHARPNESS,
                self._image.width - edge - last_wide,
                y + tall - 10 * SHARPNESS,
                run.first_step,
                run.last_step,
            )
            self._title(_drawable(short(name)), box, marked if i == 0 else ())
            self._curve(
                diagnosis, name, box, ranges[i], [m.finding.since for m in marked if m.finding.since is not None]
            )
            for mark in marked:
                self._marks(mark, box, letters=i == 0)
        y = box.bottom + 6 * SHARPNESS
        self._pen.text((box.left, y), f"step {run.first_step}", PALE, font)
        self._pen.text((box.right, y), str(run.last_step), PALE, font, anchor="ra")

    def _title(self, text: str, box: _Box, marked: Sequence[_Marked]) -> None:
        """The curve's name above it: on the left, or on the right where a letter stands in the way."""
        font, room = _font(LABEL_SIZE), 16 * SHARPNESS
        wide = self._pen.textlength(text, font) + room
        letters = [box.x(m.finding.since) for m in marked if m.finding.since is not None]
        left = not any(x < box.left + wide for x in letters) or any(x > box.right - wide for x in letters)
        at = (box.left if left else box.right, box.top - int(LABEL_SIZE * 1.3) * SHARPNESS)
        self._pen.text(at, text, INK, font, anchor="la" if left else "ra", stroke_width=SHARPNESS * 0.2)

    def _curve(
        self, diagnosis: Diagnosis, name: str, box: _Box, span: tuple[float, float], breaks: Sequence[int]
    ) -> None:
        font, pen = _font(LABEL_SIZE), self._pen
        low, high = span
        pen.rectangle((box.left, box.top, box.right, box.bottom), outline=FRAME, width=SHARPNESS)
        gap = box.left - 6 * SHARPNESS
        pen.text((gap, box.top), number(high), PALE, font, anchor="rt")
        pen.text((gap, box.bottom), number(low), PALE, font, anchor="rb")
        steps, values = diagnosis.run.series[name].finite()
        if not len(values):
            return

        def y(value: float) -> float:
            return box.bottom - (value - low) / (high - low) * (box.bottom - box.top)

        if len(values) * 2 * SHARPNESS > box.right - box.left:
            for x, least, most in _columns(steps, values, box):
                pen.line((x, y(least), x, y(most) - 1), BAND, 2 * SHARPNESS)
        elif len(values) > 1:
            pen.line([(box.x(float(s)), y(float(v))) for s, v in zip(steps, values, strict=True)], BAND, 2 * SHARPNESS)
        known = diagnosis.readings[name].changes if name in diagnosis.readings else ()
        # no more points than the picture is wide
        kept = thinned(len(steps), max(1, (box.right - box.left) // SHARPNESS))
        smooth = smoothed(steps, values, {*breaks, *known}, kept)
        points = [(box.x(s), y(v)) for s, v in zip(steps[kept].tolist(), smooth.tolist(), strict=True)]
        if len(points) > 1:
            pen.line(points, CURVE, int(2.5 * SHARPNESS), joint="curve")
        x, end = points[-1][0], y(float(smooth[-1]))
        radius = 4 * SHARPNESS
        pen.ellipse((x - radius, end - radius, x + radius, end + radius), CURVE)
        half = LABEL_SIZE * SHARPNESS // 2
        at = min(max(end, box.top + half), box.bottom - half)
        pen.text((box.right + 10 * SHARPNESS, at), _last(diagnosis, name), INK, font, anchor="lm")

    def _marks(self, mark: _Marked, box: _Box, *, letters: bool) -> None:
        """A full line where it began, a broken one where it was seen."""
        finding, pen = mark.finding, self._pen
        if finding.since is not None and box.first <= finding.since <= box.last:
            x = box.x(finding.since)
            pen.line((x, box.top, x, box.bottom), mark.colour, 2 * SHARPNESS)
            if letters:
                self._badge(mark, x, box.top - 12 * SHARPNESS)
        if finding.detected_at is not None and box.first <= finding.detected_at <= box.last:
            x, dash = box.x(finding.detected_at), 5 * SHARPNESS
            for y in range(box.top, box.bottom, 2 * dash):
                pen.line((x, y, x, min(y + dash, box.bottom)), mark.colour, 2 * SHARPNESS)

    def _badge(self, mark: _Marked, x: float, y: float) -> None:
        radius = 11 * SHARPNESS
        self._pen.ellipse((x - radius, y - radius, x + radius, y + radius), mark.colour)
        self._pen.text((x, y), mark.letter, PAPER, _font(LABEL_SIZE - 3), anchor="mm", stroke_width=SHARPNESS * 0.2)


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size * SHARPNESS)


def _drawable(text: str) -> str:
    """Text in the letters that Pillow's own font has."""
    plain = unicodedata.normalize("NFKD", masked(text))
    return "".join(c if " " <= c <= "~" else "?" for c in plain if not unicodedata.combining(c))


def _marked(diagnosis: Diagnosis, subject: str | None) -> list[_Marked]:
    open_now = [f for f in diagnosis.findings if f.until is None and f.audience == "default"]
    grave = [f for f in open_now if f.severity != "info" or f.name == subject]
    grave.sort(key=lambda f: (f.name != subject, -SEVERITIES.index(f.severity)))
    return [_Marked("ABCDEF"[i], f) for i, f in enumerate(grave[:FINDINGS])]


def _names(diagnosis: Diagnosis, marked: Sequence[_Marked]) -> list[str]:
    """The primary curves, in the order of the panels; of the findings' own metrics some, and the next panels' last."""
    by_panel = dict(panels(diagnosis))
    in_order = [name for names in by_panel.values() for name in names]
    primary = by_panel.get("primary", [])
    found = [m for mark in marked for m in mark.finding.metrics if m in diagnosis.readings]
    beside = [m for m in dict.fromkeys(found) if m not in primary][:FOUND_CURVES]
    kept = _first(primary, found, CURVES - len(beside))
    chosen = [*kept, *beside]
    chosen += [n for n in in_order if n not in chosen][: max(0, CURVES - len(chosen))]
    return sorted(chosen, key=lambda n: in_order.index(n) if n in in_order else len(in_order))


def _first(names: Sequence[str], wanted: Sequence[str], most: int) -> list[str]:
    """At most so many of the names: those that are wanted, and the first of the others."""
    ranked = sorted(names, key=lambda n: (n not in wanted, names.index(n)))[: max(0, most)]
    return [n for n in names if n in ranked]


def _range(diagnosis: Diagnosis, name: str) -> tuple[float, float]:
    values = diagnosis.run.series[name].finite()[1]
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    if high - low > 1e-9 * max(1.0, abs(high)):
        return low, high
    room, known = 0.5 * abs(high) or 0.5, lookup(name)  # a constant stands in the middle, within what can be
    least, most = max(low - room, known.low), min(high + room, known.high)
    return (least, most) if most > least else (low - room, high + room)


def _last(diagnosis: Diagnosis, name: str) -> str:
    values = diagnosis.run.series[name].values
    return (
        number(float(values[-1])) if len(values) and np.isfinite(values[-1]) else "none" if not len(values) else "NaN"
    )


def _columns(steps: Ints, values: Floats, box: _Box) -> Iterator[tuple[float, float, float]]:
    """Least and largest value in each column of two drawn points, joined to the column before."""
    column = ((steps - box.first) * ((box.right - box.left) / max(1, box.last - box.first)) // (2 * SHARPNESS)).astype(
        int
    )
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    least, most = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    for i, start in enumerate(starts):
        low, high = float(least[i]), float(most[i])
        if i:
            before = float(values[start - 1])
            low, high = min(low, before), max(high, before)
        yield box.left + (int(column[start]) + 0.5) * 2 * SHARPNESS, low, high

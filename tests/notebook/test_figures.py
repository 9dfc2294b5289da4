"""Figures for papers and charts as PNG: what is drawn stands where the chart says, in every format."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from xml.etree import ElementTree

import numpy as np
import pytest

import vario
from tests.conftest import GOLDEN
from tests.notebook.hostile import COMPONENT, hostile_run
from vario.errors import ConfigError
from vario.run import Series
from vario.surfaces.charts.chart import chart_of
from vario.surfaces.charts.look import INKS
from vario.surfaces.charts.marks import marks_of
from vario.surfaces.charts.png import DPI, HEIGHT, WIDTH, png_bytes
from vario.surfaces.panels import panels

pytest.importorskip("matplotlib")
from matplotlib import rcParams
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from vario.figures import panel, save


@pytest.fixture(scope="module")
def drift() -> vario.Diagnosis:
    return vario.diagnose(vario.read(GOLDEN / "grpo-drift"))


@pytest.fixture(scope="module")
def healthy() -> vario.Diagnosis:
    return vario.diagnose(vario.read(GOLDEN / "grpo-healthy-kl"), replay=False)


def named(figure: Figure, gid: str) -> list[Artist]:
    return [a for axes in figure.axes for a in axes.get_children() if a.get_gid() == gid]


def texts(figure: Figure) -> list[str]:
    return [t.get_text() for t in figure.findobj(Text) if t.get_visible() and t.get_text()]


def steps_of(line: Artist) -> list[float]:
    return sorted({float(x) for x in line.get_xdata()})  # type: ignore[attr-defined]


# what is drawn


def test_its_metrics_are_the_first_panel_s_or_those_asked_for(drift: vario.Diagnosis) -> None:
    first = next(names for _, names in panels(drift))
    assert [axes.get_title(loc="left").split(" (")[0] for axes in panel(drift).axes] == first
    chosen = panel(drift, ["kl/reference", "entropy/mean"]).axes
    assert [axes.get_title(loc="left").split(" (")[0] for axes in chosen] == ["kl/reference", "entropy/mean"]


def test_curves_are_the_chart_s_own(drift: vario.Diagnosis) -> None:
    figure = panel(drift, ["reward/mean"])
    chart = chart_of(drift, "reward/mean", marks_of(drift))
    (trend,), (values,) = named(figure, "trend"), named(figure, "values")
    np.testing.assert_array_equal(trend.get_xydata(), np.column_stack([chart.trend_steps, chart.trend]))  # type: ignore[attr-defined]
    np.testing.assert_array_equal(values.get_xydata(), np.column_stack([chart.columns.first, chart.columns.mean]))  # type: ignore[attr-defined]
    (noise,) = named(figure, "noise")
    box = noise.get_paths()[0].get_extents()  # type: ignore[attr-defined]
    assert (box.x0, box.x1) == (chart.trend_steps[0], chart.trend_steps[-1])
    assert box.y1 - chart.trend.max() == pytest.approx(2.0 * chart.noise)


def test_a_part_of_the_run_is_told_with_its_own_ends(drift: vario.Diagnosis) -> None:
    whole, part = (chart_of(drift, "kl/reference", marks_of(drift), span=span) for span in (None, (51, 90)))
    assert part.words == f"{whole.words} over the whole run"
    assert (part.start, part.level) == (part.trend[0], part.trend[-1])
    assert part.low <= part.level <= part.high
    assert whole.level > part.high, "what stands at the end of the run lies beyond the part"
    assert chart_of(drift, "kl/reference", marks_of(drift), span=(1, 140)).level == whole.level


def test_a_finding_has_its_letter_its_steps_and_its_name(drift: vario.Diagnosis) -> None:
    figure = panel(drift, ["reward/mean"])
    (mark,) = marks_of(drift)
    assert steps_of(named(figure, "since-A")[0]) == [mark.finding.since]
    assert steps_of(named(figure, "seen-A")[0]) == [mark.finding.detected_at]
    assert not named(figure, "until-A"), "it has not passed"
    assert "A" in texts(figure)
    assert f"A: {mark.finding.name}, {mark.when}" in texts(figure)
    (held,) = named(figure, "held")
    assert held.get_extents().transformed(figure.axes[0].transData.inverted()).x0 == pytest.approx(mark.finding.since)  # type: ignore[attr-defined]
    assert not [t for t in texts(panel(drift, ["reward/mean"], legend=False)) if mark.finding.name in t]
    assert "A" not in texts(panel(drift, ["entropy/mean"])), "it does not rest on this one"


def test_a_finding_that_passed_has_its_end(drift: vario.Diagnosis) -> None:
    passed = replace(drift, findings=tuple(replace(f, until=130) for f in drift.findings))
    assert steps_of(named(panel(passed, ["reward/mean"]), "until-A")[0]) == [130]


def test_best_step_checkpoints_and_forecast(drift: vario.Diagnosis, healthy: vario.Diagnosis) -> None:
    best = drift.verdict.best_checkpoint
    assert best is not None
    figure = panel(drift, ["reward/mean"])
    assert steps_of(named(figure, "best-step")[0]) == [best.step]
    (interval,) = named(figure, "best")
    extent = interval.get_extents().transformed(figure.axes[0].transData.inverted())  # type: ignore[attr-defined]
    assert (extent.x0, extent.x1) == pytest.approx(best.interval)
    (saved,) = named(figure, "checkpoint")
    drawn = [float(p.vertices[0][0]) for p in saved.get_paths()]  # type: ignore[attr-defined]
    assert drawn == [c.step for c in drift.run.checkpoints]
    figure = panel(healthy, ["reward/mean", "kl/reference"])
    fan = healthy.verdict.upside.fan
    (expected,) = named(figure, "expected")
    assert expected.get_xydata().tolist() == [[step, level] for step, _, level, _ in fan]  # type: ignore[attr-defined]
    (band,) = named(figure, "fan")
    low, high = band.get_paths()[0].get_extents().intervaly  # type: ignore[attr-defined]
    assert (low, high) == (min(f[1] for f in fan), max(f[3] for f in fan))
    for axes in figure.axes:
        assert axes.get_xlim() == (healthy.run.first_step, fan[-1][0]), "all share the steps of the forecast"


def test_what_is_no_number_is_marked(drift: vario.Diagnosis) -> None:
    series = drift.run.series["entropy/mean"]
    values = series.values.copy()
    values[[10, 20]] = np.nan
    broken = {**drift.run.series, "entropy/mean": Series(series.key, series.steps, values)}
    figure = panel(replace(drift, run=replace(drift.run, series=MappingProxyType(broken))), ["entropy/mean"])
    (bad,) = named(figure, "bad")
    assert [float(p.vertices[0][0]) for p in bad.get_paths()] == series.steps[[10, 20]].tolist()  # type: ignore[attr-defined]


def test_a_long_run_keeps_its_spikes_in_few_points(drift: vario.Diagnosis) -> None:
    steps = np.arange(1, 20_001)
    values = np.sin(steps / 900.0)
    values[12_345] = 1.5
    long = {**drift.run.series, "entropy/mean": Series("entropy", steps, values)}
    run = replace(drift.run, series=MappingProxyType(long), logged_steps=steps)
    (drawn,) = named(panel(replace(drift, run=run), ["entropy/mean"]), "values")
    vertices = drawn.get_paths()[0].vertices  # type: ignore[attr-defined]
    assert len(vertices) < 1_200
    assert vertices[:, 1].max() == 1.5


# for print


def test_lines_differ_without_their_colours(healthy: vario.Diagnosis, drift: vario.Diagnosis) -> None:
    passed = replace(drift, findings=tuple(replace(f, until=130) for f in drift.findings))
    figure = panel(replace(passed, verdict=replace(passed.verdict, upside=healthy.verdict.upside)), ["reward/mean"])
    gids = ("trend", "values", "since-A", "seen-A", "until-A", "best-step", "expected", "now")
    styles = {gid: named(figure, gid)[0] for gid in gids}
    looks = {gid: (str(line._unscaled_dash_pattern), line.get_linewidth()) for gid, line in styles.items()}  # type: ignore[attr-defined]
    assert len(set(looks.values())) == len(gids), looks
    assert [gid for gid, line in styles.items() if line.get_linestyle() == "-"] == ["trend", "values", "since-A"]  # type: ignore[attr-defined]
    hatches = [named(figure, gid)[0].get_hatch() for gid in ("held", "best", "fan")]  # type: ignore[attr-defined]
    assert len(set(hatches)) == 3


def test_severities_and_curves_differ_in_grey() -> None:
    def grey(ink: str) -> float:
        return sum(w * int(INKS[ink].light[i : i + 2], 16) for w, i in ((0.299, 1), (0.587, 3), (0.114, 5)))

    assert grey("values") - grey("curve") > 80
    assert grey("noise") - grey("values") > 20


def test_the_size_is_the_column_s(drift: vario.Diagnosis, tmp_path: Path) -> None:
    for width in (3.25, 6.75):
        figure = panel(drift, ["reward/mean", "kl/reference"], width_inches=width, height_inches=1.2)
        assert figure.get_size_inches()[0] == width
        save(figure, tmp_path / "figure.png")
        with Image.open(tmp_path / "figure.png") as image:
            assert image.width == int(width * 300)
        assert {t.get_fontsize() for t in figure.findobj(Text) if t.get_text() and t.get_visible()} <= {7.0, 0.85 * 7.0}


def test_nothing_leaves_the_figure(drift: vario.Diagnosis) -> None:
    figure = panel(drift)
    figure.draw_without_rendering()
    wide = figure.bbox.x1 + 1.0
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text():
            box = text.get_window_extent()
            assert box.x0 >= -1.0, text
            assert box.x1 <= wide, text


def test_pdf_holds_vectors_and_letters(drift: vario.Diagnosis, tmp_path: Path) -> None:
    save(panel(drift, ["reward/mean"]), tmp_path / "figure.pdf")
    data = (tmp_path / "figure.pdf").read_bytes()
    assert data.startswith(b"%PDF")
    assert b"/Subtype /Type3" not in data.replace(b"/Subtype/", b"/Subtype /"), "publishers refuse such fonts"
    assert b"/TrueType" in data or b"/CIDFontType2" in data
    assert b"/Subtype /Image" not in data
    streams = [_unpacked(part) for part in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", data, re.DOTALL)]
    drawn = max(streams, key=lambda s: s.count(b" l\n"))
    assert drawn.count(b" l\n") > 100, "the curves are lines"
    save(panel(drift, ["reward/mean"]), tmp_path / "again.pdf")
    assert (tmp_path / "again.pdf").read_bytes() == data, "the same figure is the same file"


def _unpacked(data: bytes) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error:
        return data


def test_svg_holds_paths_and_texts(drift: vario.Diagnosis, tmp_path: Path) -> None:
    save(panel(drift, ["reward/mean", "kl/reference"]), tmp_path / "figure.svg")
    root = ElementTree.parse(tmp_path / "figure.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    said = ["".join(t.itertext()).strip() for t in root.iter(f"{space}text")]
    assert said.count("A") == 2
    assert "A: kl-rises-while-reward-falls, since step 43, seen at 120" in said
    assert "reward/mean (reward)" in said
    groups = [g.get("id") for g in root.iter(f"{space}g")]
    assert groups.count("trend") == 2
    path = next(path for g in root.iter(f"{space}g") if g.get("id") == "trend" for path in g.iter(f"{space}path"))
    assert path.get("d", "").count("L") > 50
    assert not list(root.iter(f"{space}image"))
    first = (tmp_path / "figure.svg").read_bytes()
    save(panel(drift, ["reward/mean", "kl/reference"]), tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_bytes() == first


# png


def test_a_chart_as_png(drift: vario.Diagnosis) -> None:
    ending, data = png_bytes(chart_of(drift, "reward/mean", marks_of(drift)))
    assert ending == "png"
    with Image.open(io.BytesIO(data)) as image:
        assert image.size == (round(WIDTH * DPI), round(HEIGHT * DPI))
        assert "reward/mean" in str(image.info["Description"])
        pixels = np.asarray(image.convert("RGB")).astype(int)
    for ink in ("curve", "critical", "good"):
        wanted = np.array([int(INKS[ink].light[i : i + 2], 16) for i in (1, 3, 5)])
        near = np.abs(pixels - wanted).sum(axis=2) < 150
        assert near.sum() > 100, ink
    critical = np.array([int(INKS["critical"].light[i : i + 2], 16) for i in (1, 3, 5)])
    columns = (np.abs(pixels - critical).sum(axis=2) < 60).sum(axis=0)
    dark = np.abs(pixels - 255).sum(axis=2) > 60
    frame = np.flatnonzero(dark[-40:].mean(axis=0) > 0.02)
    finding = marks_of(drift)[0].finding
    assert finding.since is not None
    share = (int(columns.argmax()) - frame.min()) / (frame.max() - frame.min())
    assert share == pytest.approx((finding.since - 1) / 139, abs=0.07), "the line of its onset"


def test_markdown_with_png(tmp_path: Path) -> None:
    from vario.surfaces.cli import main

    assert main(["report", str(GOLDEN / "grpo-drift"), "-o", str(tmp_path / "r.md"), "--charts", "png", "--no-replay"]) == 0
    names = re.findall(r"\]\((r-files/[\w.-]+\.png)\)", (tmp_path / "r.md").read_text())
    assert len(names) > 5
    for name in names:
        with Image.open(tmp_path / name) as image:
            image.load()


# what it leaves alone, and what it refuses


def test_nothing_global_changes(drift: vario.Diagnosis, tmp_path: Path) -> None:
    code = f"""
import matplotlib
before = dict(matplotlib.rcParams)
import vario
from vario.figures import panel, save
diagnosis = vario.diagnose(vario.read({str(GOLDEN / "grpo-drift")!r}), replay=False)
save(panel(diagnosis), {str(tmp_path / "a.pdf")!r})
assert dict(matplotlib.rcParams) == before
from matplotlib import pyplot
assert not pyplot.get_fignums()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_reader_s_own_settings_do_not_reach_it(drift: vario.Diagnosis, tmp_path: Path) -> None:
    from matplotlib import rc_context

    save(panel(drift, ["reward/mean"]), tmp_path / "plain.svg")
    with rc_context({"text.usetex": False, "font.size": 30, "axes.titlesize": 40, "lines.linewidth": 9, "axes.grid": False}):
        save(panel(drift, ["reward/mean"]), tmp_path / "other.svg")
    assert rcParams["font.size"] != 30
    sizes = [set(re.findall(r"font(?:-size)?: (?:\w+ )?(\d[\d.]*px)", (tmp_path / n).read_text())) for n in ("plain.svg", "other.svg")]
    assert sizes[0] == sizes[1]
    assert sizes[0]


def test_hostile_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    diagnosis = vario.diagnose(hostile_run(), replay=False)
    name = f"reward/component/{COMPONENT}/mean"
    figure = panel(diagnosis, [name])
    save(figure, tmp_path / "figure.svg")
    root = ElementTree.parse(tmp_path / "figure.svg").getroot()
    said = ["".join(t.itertext()) for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any("</style><script>alert(1)</script>$\\frac{&$é?[31m?" in text for text in said), "neither TeX nor markup"
    assert not [e for e in root.iter() if e.tag.endswith("script")]
    assert len(png_bytes(chart_of(diagnosis, name, ()))[1]) > 5_000


def test_a_metric_goes_by_the_trainers_key_too(drift: vario.Diagnosis) -> None:
    assert drift.run.series["reward/mean"].key == "reward"
    assert texts(panel(drift, ["reward"])) == texts(panel(drift, ["reward/mean"]))


def test_one_metric_needs_no_list(drift: vario.Diagnosis) -> None:
    assert len(panel(drift, "reward").axes) == len(panel(drift, ["reward"]).axes) == 1


def test_what_stands_below_a_narrow_figure_stays_in_it(drift: vario.Diagnosis) -> None:
    figure = panel(drift, "reward/mean", width_inches=2.2)
    figure.savefig(io.BytesIO(), format="png")
    below = figure._supxlabel
    assert below.get_window_extent().x1 <= figure.bbox.x1
    told = " ".join(below.get_text().split())
    assert "kl-rises-while-reward-falls, since step 43, seen at 120" in told


@pytest.mark.parametrize("size", [{"width_inches": 0.0}, {"height_inches": -1.0}])
def test_a_size_that_cannot_be(drift: vario.Diagnosis, size: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="above zero"):
        panel(drift, **size)


def test_what_is_no_diagnosis_is_said() -> None:
    run = vario.read(GOLDEN / "grpo-drift")
    with pytest.raises(TypeError, match=r"vario\.diagnose\(run\)"):
        panel(run)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"vario\.diagnose_path"):
        vario.diagnose(str(GOLDEN))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        run.until("50")  # type: ignore[arg-type]
    assert repr(run) == f"<Run {run.path!r}: trl grpo, steps 1 to 140, {len(run.series)} metrics>"


def test_a_metric_that_is_not_there(drift: vario.Diagnosis) -> None:
    with pytest.raises(ConfigError, match="no metric 'rewards'; it has clip/fraction/high"):
        panel(drift, ["rewards"])
    with pytest.raises(ConfigError, match="no metric to draw"):
        panel(drift, [])


def test_a_place_or_a_format_that_cannot_be(drift: vario.Diagnosis, tmp_path: Path) -> None:
    figure = panel(drift, ["reward/mean"])
    with pytest.raises(ConfigError, match=r"none/a\.pdf: cannot be written \(No such file"):
        save(figure, tmp_path / "none" / "a.pdf")
    with pytest.raises(ConfigError, match=r"a\.docx: cannot be written \(Format 'docx' is not supported"):
        save(figure, tmp_path / "a.docx")


def test_without_matplotlib_it_says_what_to_install(drift: vario.Diagnosis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "vario.surfaces.figures.sheet")
    for name in ("matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r"pip install 'vario\[notebook\]'"):
        panel(drift)
    with pytest.raises(ConfigError, match=r"pip install 'vario\[notebook\]'"):
        png_bytes(chart_of(drift, "reward/mean", ()))

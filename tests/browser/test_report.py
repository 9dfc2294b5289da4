"""`vario report` in a real browser: what is said, what is drawn and where, and that nothing else happens."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser.reports import BROKEN_OUT, PWNED, Report, climbing, hostile, large, logged, report
from tests.cli.dumps import KEY, trl_run
from tests.conftest import GOLDEN, SHARED
from vario.rules.base import number
from vario.surfaces import sentences
from vario.verdict import Finding

pytest.importorskip("playwright")

LARGEST = 2_000_000
PHONE = {"width": 360, "height": 740}
EXACT = 1e-9

SAYS = """() => [...document.querySelectorAll('.chart')].map((chart) => {
  const box = chart.querySelector('svg.plot').getBoundingClientRect();
  const at = (kind) => [...chart.querySelectorAll(`svg.plot line.${kind}`)].map((line) => {
    const seen = line.getBoundingClientRect();
    return (seen.left + seen.width / 2 - box.left) / box.width;
  });
  return {
    metric: chart.dataset.metric, first: +chart.dataset.first, last: +chart.dataset.last, wide: box.width,
    since: at('since'), seen: at('seen'), until: at('until'), now: at('now'), best: at('best-step'),
    letters: [...chart.querySelectorAll('svg.plot .letter text')].map((t) => t.textContent),
    fans: chart.querySelectorAll('svg.plot .fan').length,
    name: chart.querySelector('svg.plot').getAttribute('aria-label'),
    rows: [...chart.querySelectorAll('tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent)),
  };
})"""
OPEN_ALL = "() => document.querySelectorAll('details').forEach((d) => { d.open = true; })"
WIDE = "() => [document.documentElement.scrollWidth, window.innerWidth]"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Report]:
    """Reports by name, each made once."""
    known: dict[str, Report] = {}
    n = 120

    def spiked() -> dict[str, np.ndarray]:
        columns = climbing(n)
        columns["reward"] = np.where(np.arange(n) == 70, 1e30, columns["reward"])
        columns["kl"] = np.where(np.arange(n) == 80, 1e30, columns["kl"])
        return columns

    builders: dict[str, Callable[[Path], Path]] = {
        "completions": lambda folder: trl_run(folder, texts={(98, 0): f"My key is {KEY}.", (96, 1): f"My key is {KEY}."}),
        "three-rows": lambda folder: logged(folder, climbing(3)),
        "nothing-but-nan": lambda folder: logged(folder, {k: np.full(n, np.nan) for k in climbing(n)}),
        "half-nan": lambda folder: logged(
            folder, {k: np.where(np.arange(n) > 60, np.nan, v) for k, v in climbing(n).items()}
        ),
        "constant": lambda folder: logged(folder, {k: np.full(n, v[0]) for k, v in climbing(n).items()}),
        "tiny-range": lambda folder: logged(folder, climbing(n) | {"reward": 0.5 + 1e-7 * climbing(n)["reward"]}),
        "spike": lambda folder: logged(folder, spiked()),
        "hostile": hostile,
    }

    def one(name: str) -> Report:
        if name not in known:
            folder = tmp_path_factory.mktemp("reports")
            run = GOLDEN / name if (GOLDEN / name).is_dir() else builders[name](folder / name)
            known[name] = report(run, folder)
        return known[name]

    return one


def findings(report: Report) -> list[Finding]:
    return [mark.finding for mark in report.marks]


PICTURED = ("grpo-drift", "constant")
LOGGED = ("grpo-drift", "grpo-healthy", "grpo-resumed", "grpo-reward-bug", "dpo-overtrain", "grpo-all-zero")
ODD = ("completions", "three-rows", "nothing-but-nan", "half-nan", "constant", "tiny-range", "spike", "hostile")


@pytest.mark.parametrize("name", [*LOGGED, *ODD])
def test_every_report_is_whole(name: str, made: Any, visit: Any, keep: Any) -> None:
    told = made(name)
    page = visit(told.file)
    text = page.inner_text("body")
    verdict = told.diagnosis.verdict
    assert page.inner_text("h2.action") == sentences.action(verdict)
    assert verdict.narrative in text
    for fact, said in sentences.facts(verdict):
        assert said.split("\n")[0] in text, fact
    for finding in findings(told):
        shown = page.inner_text(f"#finding-{finding.name}")
        assert sentences.when_and_how_sure(finding) in shown
    assert all(name for name in page.evaluate("() => [...document.querySelectorAll('svg[role=img]')].map((s) => s.getAttribute('aria-label'))"))
    unnamed = "() => [...document.querySelectorAll('svg')].filter((s) => !s.closest('[aria-label]') && !s.closest('[aria-hidden]')).length"
    assert page.evaluate(unnamed) == 0
    ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
    aims = page.evaluate("() => [...document.querySelectorAll('a[href^=\"#\"]')].map((a) => a.getAttribute('href').slice(1))")
    assert set(aims) <= set(ids)
    assert told.size < LARGEST
    charts = page.evaluate(SAYS)
    for chart in charts:
        assert "nan" not in chart["name"].lower(), chart["name"]
        assert chart["rows"], chart["metric"]
    has_its_forecast_and_best_step(told, charts)
    if name in PICTURED:
        keep(page)


@pytest.mark.parametrize("name", ["grpo-resumed", "completions", "spike"])
def test_tables_say_what_the_log_says(name: str, made: Any, visit: Any) -> None:
    told = made(name)
    page = visit(told.file)
    charts = page.evaluate(SAYS)
    assert {c["metric"] for c in charts} <= set(told.diagnosis.readings)
    assert charts
    for chart in charts:
        steps, values = told.log.series[chart["metric"]].finite()
        counted = 0
        for where, least, mean, most in chart["rows"]:
            first, last = (int(s) for s in (where.split(" to ") * 2)[:2])
            inside = values[(steps >= first) & (steps <= last)]
            counted += inside.size
            assert least == number(float(inside.min()))
            assert most == number(float(inside.max()))
            assert mean == number(float(inside.mean())), chart["metric"]
        assert counted == values.size


@pytest.mark.parametrize("name", ["grpo-drift", "grpo-reward-bug", "grpo-length-hack", "half-nan"])
def test_findings_stand_where_they_were(name: str, made: Any, visit: Any) -> None:
    told = made(name)
    page = visit(told.file)
    page.evaluate(OPEN_ALL)
    charts = page.evaluate(SAYS)
    drawn = {chart["metric"] for chart in charts}
    assert findings(told)
    for chart in charts:
        own = [mark for mark in told.marks if chart["metric"] in mark.metrics]
        for kind, steps in (
            ("since", [m.finding.since for m in own]),
            ("seen", [m.finding.detected_at for m in own]),
            ("until", [m.finding.until for m in own]),
        ):
            there = [step for step in steps if step is not None and chart["first"] <= step <= chart["last"]]
            expected = [(step - chart["first"]) / (chart["last"] - chart["first"]) for step in there]
            assert sorted(chart[kind]) == pytest.approx(sorted(expected), abs=2.0 / chart["wide"]), (chart["metric"], kind)
        assert [x for x in chart["letters"] if x != "★"] == [m.letter for m in own if m.finding.since is not None]
    for mark in told.marks:
        assert mark.metrics & drawn or not mark.metrics & set(told.diagnosis.readings), mark.finding.name


def has_its_forecast_and_best_step(told: Report, charts: list[dict[str, Any]]) -> None:
    """They are drawn where the verdict has them, and nowhere else."""
    upside, last = told.diagnosis.verdict.upside, told.diagnosis.run.last_step
    fans = {chart["metric"]: chart["fans"] for chart in charts if chart["fans"]}
    assert fans == ({upside.by: 1} if upside.fan else {})
    best = told.diagnosis.verdict.best_checkpoint
    for chart in charts:
        at = lambda step, c=chart: [pytest.approx((step - c["first"]) / (c["last"] - c["first"]), abs=2.0 / c["wide"])]  # noqa: E731
        if chart["fans"]:
            assert chart["last"] == max(last, upside.fan[-1][0])
            assert chart["now"] == at(last)
        if best is not None and chart["metric"] == best.by and chart["wide"]:
            assert chart["best"] == at(best.step)


def test_letters_of_findings_that_began_together_are_all_seen(made: Any, visit: Any) -> None:
    crowded = 0
    for name in ("constant", "grpo-all-zero", "grpo-reward-bug"):
        page = visit(made(name).file)
        boxes = page.evaluate(
            """() => [...document.querySelectorAll('svg.plot')].map((p) => [...p.querySelectorAll('.letter circle')].map((c) => {
               const b = c.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; }))"""
        )
        for letters in boxes:
            crowded += len(letters) > 1
            for i, (x, y) in enumerate(letters):
                assert all(abs(x - a) > 12 or abs(y - b) > 12 for a, b in letters[:i])
    assert crowded


def test_keys_read_the_log_and_the_pointer_reads_all_charts(made: Any, visit: Any, keep: Any) -> None:
    told = made("grpo-drift")
    page = visit(told.file)
    series = told.log.series["kl/reference"]
    page.focus("#chart-kl-reference .plotted")
    reading = page.locator("#chart-kl-reference .reading")

    def read() -> tuple[int, float]:
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        found = re.fullmatch(r"step (\d+): (\S+)", reading.inner_text())
        assert found
        assert page.inner_text(".voice") in ("", reading.inner_text())
        return int(found[1]), float(found[2])

    page.keyboard.press("Home")
    assert read() == (series.steps[0], pytest.approx(series.values[0], rel=EXACT))
    for presses in range(1, 4):
        page.keyboard.press("ArrowRight")
        assert read() == (series.steps[presses], pytest.approx(series.values[presses], rel=EXACT))
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert read() == (series.steps[-2], pytest.approx(series.values[-2], rel=EXACT))
    page.keyboard.press("PageUp")
    assert read()[0] == series.steps[-12]
    assert page.inner_text(".voice").startswith(f"step {series.steps[-12]}: ")
    page.keyboard.press("Escape")
    page.wait_for_function("() => !document.querySelector('#chart-kl-reference .reading').textContent")

    page.evaluate("() => document.activeElement.blur()")
    box = page.locator("#chart-reward-mean .plotted")
    box.scroll_into_view_if_needed()
    place = box.bounding_box()
    page.mouse.move(place["x"] + 0.4 * place["width"], place["y"] + 20)
    page.wait_for_function("() => document.querySelector('#chart-reward-mean .reading').textContent")
    steps = page.evaluate("() => [...document.querySelectorAll('.chart')].filter((c) => c.checkVisibility()).map((c) => c.querySelector('.reading').textContent.split(':')[0])")
    first, last = told.diagnosis.run.first_step, told.diagnosis.run.last_step
    assert set(steps) == {f"step {round(first + 0.4 * (last - first))}"}
    assert len(steps) > 8
    assert page.inner_text(".voice") == "", "what the pointer passes over is not said"
    keep(page, whole=False)


def test_tab_reaches_everything_in_the_order_of_the_page(made: Any, visit: Any) -> None:
    page = visit(made("grpo-drift").file)
    wanted = page.evaluate(
        """() => [...document.querySelectorAll('a[href],button,summary,[tabindex="0"]')].filter((e) => e.checkVisibility())
           .map((e, i) => { e.dataset.order = i; return i; })"""
    )
    page.evaluate("() => window.scrollTo(0, 0)")
    reached = []
    for _ in wanted:
        page.keyboard.press("Tab")
        reached.append(page.evaluate("() => +document.activeElement.dataset.order"))
    assert reached == wanted
    assert len(wanted) > 25
    page.focus("#chart-kl-reference summary")
    page.keyboard.press("Enter")
    assert page.locator("#chart-kl-reference details").get_attribute("open") is not None
    assert page.locator("#chart-kl-reference td").first.is_visible()
    outline = "() => getComputedStyle(document.activeElement).outlineStyle"
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(outline) == "solid"


def test_a_link_opens_what_it_leads_to(made: Any, visit: Any) -> None:
    page = visit(made("grpo-drift").file)
    hidden = "chart-" + page.evaluate("() => document.querySelector('.panel-more .chart').id.slice(6)")
    assert not page.locator(f"#{hidden}").is_visible()
    page.evaluate(f"() => {{ location.hash = '{hidden}'; }}")
    page.wait_for_selector(f"#{hidden}", state="visible")
    for link in page.query_selector_all(".jumps a"):
        link.click()
    assert page.evaluate("() => location.hash").startswith("#finding-")


@pytest.mark.parametrize(("name", "scheme"), [("grpo-drift", "light"), ("grpo-drift", "dark"), ("hostile", "light")])
def test_axe_finds_nothing_serious(name: str, scheme: str, made: Any, visit: Any, violations: Any) -> None:
    page = visit(made(name).file, color_scheme=scheme)
    # three charts of a panel are as good as all of them, and one table
    page.evaluate("() => document.querySelectorAll('.panel-more .chart:nth-child(n + 2), .chart:nth-child(n + 4)').forEach((c) => c.remove())")
    page.evaluate("() => document.querySelectorAll('details.open-in-print, #chart-reward-mean details').forEach((d) => { d.open = true; })")
    paper = page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 19, 24)"}[scheme]
    assert not violations(page)


def test_light_and_dark_can_be_chosen(made: Any, visit: Any, keep: Any) -> None:
    page = visit(made("grpo-healthy").file, color_scheme="light")
    paper = "() => getComputedStyle(document.documentElement).backgroundColor"
    button = page.locator("[data-action=theme]")
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    assert page.evaluate(paper) == "rgb(15, 19, 24)"
    assert button.get_attribute("aria-pressed") == "true"
    keep(page)
    page.emulate_media(media="print")
    assert page.evaluate(paper) == "rgb(255, 255, 255)", "paper is never dark"


def test_all_of_it_is_printed_but_the_tables(made: Any, visit: Any, keep: Any, artefacts: Path) -> None:
    told = made("completions")
    page = visit(told.file, color_scheme="dark")
    page.evaluate(
        """() => addEventListener('beforeprint', () => {
          window.printed = [...document.querySelectorAll('details')].map((d) => [d.classList.contains('open-in-print'), d.open]); })"""
    )
    page.pdf(path=artefacts / "completions.pdf")
    printed = page.evaluate("() => window.printed")
    assert {wanted for wanted, _ in printed} == {True, False}
    assert all(wanted == opened for wanted, opened in printed)
    assert page.evaluate("() => document.querySelectorAll('details.open-in-print[open]').length") == 0, "and closed again"
    page.emulate_media(media="print")
    assert page.locator("#samples").is_visible()
    assert not page.locator(".controls").is_visible()
    assert page.locator("#samples ~ details pre").first.is_visible(), "without the script too"
    assert page.locator(".panel-more .chart svg.plot").first.is_visible()
    assert not page.locator("#chart-reward-mean details").is_visible()
    keep(page)


@pytest.mark.parametrize("name", ["grpo-drift", "hostile", "three-rows"])
def test_a_phone_shows_it_without_scrolling_sideways(name: str, made: Any, visit: Any, keep: Any) -> None:
    page = visit(made(name).file, **PHONE)
    assert page.evaluate(WIDE)[0] <= PHONE["width"]
    page.evaluate(OPEN_ALL)
    assert page.evaluate(WIDE)[0] <= PHONE["width"]
    tall = "() => [...document.querySelectorAll('svg.plot')].filter((s) => s.checkVisibility()).map((s) => s.getBoundingClientRect().width)"
    assert min(page.evaluate(tall)) > 150
    keep(page)


def test_hostile_text_stays_text(made: Any, visit: Any) -> None:
    told = made("hostile")
    source = told.file.read_text(encoding="utf-8")
    assert "\u202e" not in source
    assert "\u2066" not in source
    assert "\x00" not in source
    assert "\x07" not in source
    assert "{{ 7 * 7 }}" in source, "a template is not read twice"
    page = visit(told.file)
    page.evaluate(OPEN_ALL)
    page.wait_for_timeout(100)
    assert page.evaluate("() => window.pwned") is None
    assert page.evaluate("() => [document.scripts.length, document.images.length, document.querySelectorAll('[onerror],[onload],iframe,object').length]") == [1, 0, 0]
    text = page.text_content("main")
    assert PWNED in text
    assert BROKEN_OUT in text
    assert "n" * 200 not in text, "a name of ten thousand characters is cut"
    assert "A" * 1_300 not in text, "and a completion"
    assert "sk-proj-" not in source
    assert told.size < LARGEST


def test_the_page_may_ask_nothing_of_any_network(made: Any, visit: Any) -> None:
    page = visit(made("grpo-drift").file, expected="Content Security Policy|violates|127.0.0.1")
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(0.2)
    refused = page.evaluate(
        """async (address) => {
          const said = [];
          document.addEventListener('securitypolicyviolation', (event) => said.push(event.effectiveDirective));
          const script = document.createElement('script');
          script.textContent = 'window.pwned = 1';
          document.body.append(script);
          const image = new Image();
          image.src = `${address}x.png`;
          document.body.append(image);
          await fetch(address).catch(() => null);
          await new Promise((done) => setTimeout(done, 100));
          return said.map((word) => word.replace('-elem', '')).sort();
        }""",
        f"http://127.0.0.1:{listening.getsockname()[1]}/",
    )
    with listening, pytest.raises(TimeoutError):
        listening.accept()
    assert refused == ["connect-src", "img-src", "script-src"]
    assert page.evaluate("() => window.pwned") is None


def test_a_key_in_a_completion_is_not_shown(made: Any) -> None:
    assert KEY not in made("completions").file.read_text(encoding="utf-8")


def test_one_spike_does_not_press_the_curve_flat(made: Any, visit: Any) -> None:
    page = visit(made("spike").file)
    assert "1 value beyond the picture, the farthest 1.0e+30" in page.inner_text("#chart-reward-mean")
    heights = page.evaluate(
        "() => ['reward-mean', 'kl-reference'].map((m) => document.querySelector(`#chart-${m} .trend`).getAttribute('d').match(/[\\d.]+ ([\\d.]+)/g).map((p) => +p.split(' ')[1]))"
    )
    for ys in heights:
        assert max(ys[:60]) - min(ys[:60]) > 20
        assert max(ys[100:]) - min(ys[100:]) > 1, "nor is the trend behind it lost"


def test_the_ends_of_an_axis_can_be_told_apart(made: Any, visit: Any) -> None:
    page = visit(made("tiny-range").file)
    low, high = (page.inner_text(f"#chart-reward-mean .axis.{end}") for end in ("low", "high"))
    assert float(low) < float(high)
    assert float(high) - float(low) == pytest.approx(5e-8, rel=0.4)


def test_what_has_no_finite_number_is_named(made: Any, visit: Any) -> None:
    assert "Without a single finite number" in visit(made("nothing-but-nan").file).inner_text("main")
    page = visit(made("half-nan").file)
    assert "no finite number at 59 steps, first at 62" in page.inner_text("#chart-reward-mean")


def test_five_thousand_steps_of_sixty_metrics(tmp_path: Path, visit: Any, keep: Any) -> None:
    told = report(large(tmp_path / "large", 5_000, 60), tmp_path, "--no-replay")
    assert told.size < LARGEST
    page = visit(told.file)
    page.evaluate(OPEN_ALL)
    charts = page.evaluate(SAYS)
    assert len(charts) >= 55
    reward = next(c for c in charts if c["metric"] == "reward/mean")
    values = told.log.series["reward/mean"].values
    assert min(float(row[1]) for row in reward["rows"]) == pytest.approx(values.min(), rel=1e-2)
    assert max(float(row[3]) for row in reward["rows"]) == pytest.approx(values.max(), rel=1e-2)
    page.focus("#chart-reward-mean .plotted")
    page.keyboard.press("Home")
    assert re.fullmatch(r"steps 1 to \d+: \S+ \(\S+ to \S+\)", page.inner_text(".voice"))
    keep(page, whole=False)


@pytest.mark.skipif(not (SHARED / "lab/runs").is_dir(), reason="the lab's runs are not beside this checkout")
@pytest.mark.parametrize("name", ["ppo_value_fail-s0"])
def test_runs_of_the_lab(name: str, tmp_path: Path, visit: Any, keep: Any) -> None:
    told = report(SHARED / "lab/runs" / name, tmp_path)
    page = visit(told.file)
    assert page.inner_text("h2.action") == sentences.action(told.diagnosis.verdict)
    assert told.size < LARGEST
    page.evaluate(OPEN_ALL)
    assert page.evaluate(SAYS)
    keep(page)

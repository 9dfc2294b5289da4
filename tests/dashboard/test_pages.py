"""Every address of the dashboard answers, and says in one sentence why it cannot."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.browser.reports import PWNED
from tests.dashboard.serving import Dashboard
from vario.rules import RULES

HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "same-origin",
}
PAGES = ("/", "/?part=list", "/?find=drift", "/alerts", "/compare", "/rules", "/rules/kl-spike", "/rules/KL105")
OF_A_RUN = (
    "", "?part=said", "?part=below", "?from=20&to=60", "?pedantic=yes", "/panels", "/panels?from=20&to=60", "/rest", "/rest?from=3",
    "/diagnosis.json", "/report.html",
)  # fmt: skip
OF_COMPLETIONS = (
    "/samples", "/samples?from=10&to=20", "/samples?from=40&to=40", "/samples?only=empty", "/samples?by=reward&lowest=yes", "/samples?n=2",
    "/samples?name=98/1", "/samples?group=98/1", "/samples?eval=yes", "/samples?finding=reward-function-broke", "/review",
)  # fmt: skip
BIG = "1" + "0" * 400


def is_guarded(answer: Any) -> None:
    """The headers of every answer."""
    for name, value in HEADERS.items():
        assert answer.headers.get(name) == value, name
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy or policy.startswith("sandbox;")
    assert "server" not in answer.headers


@pytest.mark.parametrize("path", PAGES)
def test_a_page(shown: Dashboard, path: str) -> None:
    answer = shown.ask(path)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["cache-control"] == "no-store"
    is_guarded(answer)


@pytest.mark.parametrize("name", ["grpo-drift", "dpo-healthy", "hostile"])
@pytest.mark.parametrize("path", OF_A_RUN)
def test_a_page_of_a_run(shown: Dashboard, name: str, path: str) -> None:
    answer = shown.ask(f"/runs/{shown.ids()[name]}{path}")
    assert answer.status == 200
    is_guarded(answer)


@pytest.mark.parametrize("path", OF_COMPLETIONS)
def test_completions(shown: Dashboard, path: str) -> None:
    answer = shown.ask(f"/runs/{shown.ids()['parser']}{path}")
    assert answer.status == 200, answer.sentence
    is_guarded(answer)


@pytest.mark.parametrize("name", ["read.js", "live.js", "vario.css", "dashboard.css"])
def test_an_asset(shown: Dashboard, name: str) -> None:
    answer = shown.ask(f"/assets/{name}")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/javascript" if name.endswith("js") else "text/css")
    is_guarded(answer)


def test_steps_beyond_the_run_are_said(shown: Dashboard) -> None:
    run = shown.ids()["grpo-drift"]
    assert "which has steps 1 to 140: all of them are shown" in shown.ask(f"/runs/{run}?from=900&to=1000").text
    assert "all of them are shown" not in shown.ask(f"/runs/{run}?from=20&to=60").text


def test_the_sampled_steps_beside_those_that_are_shown(shown: Dashboard) -> None:
    page = f"/runs/{shown.ids()['parser']}/samples"
    first = shown.ask(page).text
    sampled = [int(step) for step in re.findall(r'<option value="(\d+)"></option>', first)]
    assert f">earlier: step {sampled[-2]}</a>" in first
    assert ">later:" not in first
    earlier = re.search(r'href="([^"]+)">earlier: step', shown.ask(f"{page}?from={sampled[-2]}&to={sampled[-2]}&by=reward&lowest=yes").text)
    assert earlier is not None
    text = shown.ask(earlier[1].replace("&amp;", "&")).text
    assert re.findall(r">(earlier|later): step (\d+)</a>", text) == [("earlier", str(sampled[-4])), ("later", str(sampled[-2]))]
    assert '<input type="checkbox" name="lowest" value="yes" checked>' in text


def test_the_run_that_was_named_first_stays_the_one_to_be_held_against(shown: Dashboard) -> None:
    """A form sends its boxes in the order of the page: that is the order in which the runs were chosen."""
    ids = shown.ids()
    chosen = [ids["grpo-drift"], ids["dpo-healthy"]]
    for order in (chosen, chosen[::-1]):
        text = shown.ask(f"/compare?run={order[0]}&run={order[1]}&by=samples").text
        assert re.findall(r'name="run" value="([^"]+)" checked', text) == order
        assert re.findall(r'href="(/compare[^"]+)">hold the others', text) == [
            f"/compare?run={order[1]}&amp;run={order[0]}&amp;by=samples"
        ]


def test_a_rule_s_page_has_headings_paragraphs_and_lists(shown: Dashboard) -> None:
    text = shown.ask("/rules/kl-rises-while-reward-falls").text
    for title in ("What it shows", "Why it matters", "Looks like it but is not", "What to change", "Likely causes"):
        assert f"<h2>{title}</h2>" in text
    assert "A reward function that broke (KL does not move then), harder data (KL hardly moves), a dip of noise with memory" in text
    assert "<ul><li>learning rate too high</li>" in re.sub(r"\s+<li>", "<li>", text)
    assert text.count("<ul>") == text.count("</ul>")


def test_every_rule_has_its_page(shown: Dashboard) -> None:
    text = shown.ask("/rules").text
    for rule in RULES:
        assert f'href="/rules/{rule.name}"' in text


def test_the_samples_that_are_asked_for(shown: Dashboard) -> None:
    run = shown.ids()["parser"]

    def steps(query: str) -> list[int]:
        return [int(s) for s in re.findall(r'aria-label="completion (\d+)/\d+"', shown.ask(f"/runs/{run}/samples?{query}").text)]

    assert set(steps("")) == {100}
    assert set(steps("from=10&to=14&n=64")) == {10, 12, 14}
    assert steps("from=40&to=40") == [40] * 8
    assert set(steps("from=90&n=64")) == {90, 92, 94, 96, 98, 100}
    assert steps("from=10&to=14&n=3") == [10] * 3
    assert steps("group=98/1") == [98] * 4
    page = shown.ask(f"/runs/{run}/samples?from=10&to=14").text
    assert 'name="from" inputmode="numeric" size="8" list="steps" value="10"' in page
    assert 'name="to" inputmode="numeric" size="8" list="steps" value="14"' in page
    assert 'name="to" inputmode="numeric" size="8" list="steps" value=""' in shown.ask(f"/runs/{run}/samples?from=90").text


def test_the_document_is_that_of_the_command(shown: Dashboard) -> None:
    document = json.loads(shown.ask(f"/runs/{shown.ids()['grpo-drift']}/diagnosis.json").text)
    assert document["schema"] == "diagnosis/v1"
    assert document["verdict"]["action"] == "stop"


@pytest.mark.parametrize("by", ["steps", "samples", "KL"])
def test_comparison(shown: Dashboard, by: str) -> None:
    ids = shown.ids()
    pair = f"run={ids['grpo-drift']}&run={ids['grpo-healthy-kl']}"
    answer = shown.ask(f"/compare?{pair}&by={by}&metric=reward/mean")
    assert answer.status == 200
    assert len(re.findall(r'<svg class="plot overlay"', answer.text)) <= 1
    assert f"Curves at equal {by}" in answer.text


def test_comparison_of_one_and_of_strangers(shown: Dashboard) -> None:
    ids = shown.ids()
    assert "Choose at least one more run" in shown.ask(f"/compare?run={ids['grpo-drift']}").text
    assert shown.ask(f"/compare?run={ids['grpo-drift']}&run=nobody").status == 404
    mixed = shown.ask(f"/compare?run={ids['grpo-drift']}&run={ids['dpo-healthy']}&by=KL")
    assert mixed.status == 200


def test_settings_are_masked_where_runs_are_compared(shown: Dashboard) -> None:
    ids = shown.ids()
    text = shown.ask(f"/compare?run={ids['hostile']}&run={ids['parser']}").text
    assert "sk-proj-" not in text
    assert "<script>window" not in text


STRANGE = (
    ("/runs/nobody", 404), ("/runs/nobody/panels", 404), ("/runs/nobody/samples", 404), ("/nothing", 404), ("/rules/no-such-rule", 404),
    ("/compare?by=luck", 400), ("/assets/vario.js", 404), ("/runs/{drift}/samples", 404), ("/runs/{drift}/nothing", 404),
    ("/runs/{drift}?from=abc", 400), (f"/runs/{{drift}}?from={BIG}", 400), ("/runs/{drift}?from=60&to=20", 400), ("/runs/{drift}?part=x", 400),
    ("/runs/{drift}/panels?to=1e3", 400), ("/runs/{drift}?from=%D9%A1", 400), ("/runs/{parser}/samples?n=-3", 400),
    ("/runs/{parser}/samples?n=0", 400), ("/runs/{parser}/samples?n=x", 400), ("/runs/{parser}/samples?only=x", 400),
    ("/runs/{parser}/samples?by=x", 400), ("/runs/{parser}/samples?name=x", 400), ("/runs/{parser}/samples?name=98/99999999", 404),
    (f"/runs/{{parser}}/samples?name={BIG}/1", 400), ("/runs/{parser}/samples?group=3", 400), ("/runs/{parser}/samples?group=98/99", 404),
    ("/runs/{parser}/samples?finding=x", 404),
)  # fmt: skip


@pytest.mark.parametrize(("path", "status"), STRANGE)
def test_what_cannot_be_is_refused_in_a_sentence(shown: Dashboard, path: str, status: int) -> None:
    ids = shown.ids()
    answer = shown.ask(path.format(drift=ids["grpo-drift"], parser=ids["parser"]))
    assert answer.status == status, answer.sentence
    assert answer.sentence
    assert "\n" not in answer.sentence.strip()
    assert len(answer.sentence) < 400
    assert "Traceback" not in answer.text
    is_guarded(answer)


@pytest.mark.parametrize("path", ["/runs/{0}/samples", "/runs/{0}/samples?name=98/0&name=98/1&name=98/2&name=98/3", "/runs/{0}/review", "/runs/{0}"])
def test_what_a_model_wrote_stays_text(shown: Dashboard, path: str) -> None:
    text = shown.ask(path.format(shown.ids()["hostile"])).text
    assert PWNED not in text
    assert "<img src=x" not in text
    assert "\u202e" not in text
    assert "\x00" not in text
    assert "sk-proj-" not in text
    assert len(text) < 3_000_000


def test_names_of_runs_are_no_markup_in_refusals(shown: Dashboard) -> None:
    answer = shown.ask("/rules/%3Cscript%3Ealert(1)%3C%2Fscript%3E")
    assert answer.status == 404
    assert "<script>alert" not in answer.text


def test_head_of_everything(shown: Dashboard) -> None:
    for path in ("/", "/events", "/assets/live.js"):
        answer = shown.ask(path, "HEAD")
        assert answer.status == 200
        assert answer.text == ""

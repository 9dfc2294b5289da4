from __future__ import annotations

import json
from dataclasses import replace

import pytest

import vario
from tests.alerts.world import NOON, RUN, broken, finding, of_kind, opened, resolved
from tests.conftest import GOLDEN
from vario.surfaces.alerts.digest import digest, late_note
from vario.surfaces.alerts.message import TITLE_SHOWN, alert_from, alert_of, fingerprint, key_of
from vario.surfaces.live.notices import Kind

KEY = "sk-abcdefghijklmnopqrstuvwx"


def test_an_alert_says_what_since_when_why_and_what_to_do() -> None:
    alert = alert_of(opened(finding()), broken(), "https://runs.example/{run}?step={step}")
    since = finding().since
    assert alert.title == f"{RUN}: reward-function-broke since step {since} (critical, high confidence)"
    lines = alert.body.splitlines()
    assert "fell from" in lines[0]
    assert any(line.startswith("Verdict: stop (high confidence): ") for line in lines)
    assert any(line.startswith("Best checkpoint: step ") for line in lines)
    assert lines[-1] == alert.link == f"https://runs.example/{RUN}?step={broken().run.last_step}"
    assert len(lines) <= 12


def test_what_has_passed_and_what_worsened_say_so() -> None:
    passed = alert_of(resolved(finding(), 150), None)
    assert passed.title == f"{RUN}: reward-function-broke has passed at step 150"
    worse = alert_of(replace(opened(finding()), kind=Kind.WORSENED), None)
    assert worse.title.startswith(f"{RUN}: worse: reward-function-broke since")


def test_no_key_and_no_control_character_leaves_the_machine() -> None:
    hostile = f"\x1b[31mred {KEY} api_key={KEY}\x07"
    notice = replace(opened(finding()), run=f"run {KEY}", title=hostile, text=f"{hostile}\n{hostile}")
    alert = alert_of(notice, broken(), "https://x/{run}")
    shown = json.dumps(alert.document(), ensure_ascii=False)
    assert KEY not in alert.title + alert.body + alert.run
    assert "\\u001b" not in json.dumps(alert.document())
    assert "\x07" not in shown
    assert "[masked]" in alert.body


def test_texts_do_not_grow_without_end() -> None:
    notice = replace(opened(finding()), run="x/" * 5000, title="t " * 5000, text="word " * 5000)
    alert = alert_of(notice, broken())
    assert len(alert.title) <= TITLE_SHOWN
    assert len(alert.body) < 2000


def test_a_link_holds_no_more_than_its_template() -> None:
    alert = alert_of(replace(opened(finding()), run="a/b c?d={step}"), None, "https://x/{run}")
    assert alert.link == "https://x/a%2Fb%20c%3Fd%3D%7Bstep%7D"


def test_the_key_does_not_depend_on_when_one_looks() -> None:
    early = key_of(replace(opened(finding()), step=110), broken())
    late = key_of(replace(opened(finding(since=97)), step=140, at=NOON + 900.0), broken())
    assert early == late, "both saw what was detected at the same look"
    assert early != key_of(opened(finding(detected_at=150)), broken())
    assert early != key_of(opened(finding(severity="warning")), broken())
    assert early != key_of(resolved(finding(), 150), broken())
    assert key_of(resolved(finding(), 150), None) != key_of(resolved(finding(), 170), None)


def test_troubles_are_told_apart_by_what_they_say() -> None:
    one, other = (of_kind(Kind.TROUBLE, "trouble", text=text) for text in ("disk full", "cannot be read"))
    assert key_of(one, None) != key_of(other, None)


def test_a_run_is_known_by_the_first_values_it_logged() -> None:
    run = broken().run
    assert fingerprint(run) == fingerprint(run.until(30)) != ""
    other = vario.read(GOLDEN / "grpo-healthy")
    assert fingerprint(other) != fingerprint(run)
    assert fingerprint(None) == ""


def test_an_alert_survives_as_json() -> None:
    alert = alert_of(opened(finding()), broken(), "https://x/{run}")
    assert alert_from(json.loads(json.dumps(alert.document()))) == alert
    for wrong in ({}, {**alert.document(), "at": "x"}, {**alert.document(), "step": "x"}):
        with pytest.raises(ValueError, match="no document"):
            alert_from(wrong)


def test_a_digest_lists_what_came_in_order_and_is_as_grave_as_its_gravest() -> None:
    alerts = [
        alert_of(opened(finding(name, "KL101", severity), at), None)
        for name, severity, at in (
            ("kl-spike", "warning", NOON + 60),
            ("kl-runaway", "critical", NOON),
            ("kl-reset", "info", NOON + 90),
        )
    ]
    made = digest(alerts)
    assert made.severity == "critical"
    assert made.title == f"{RUN}: 3 alerts (kl-runaway, kl-spike, kl-reset)"
    titles = [line for line in made.body.splitlines() if not line.startswith(" ")]
    assert [t.split()[2] for t in titles] == ["kl-runaway", "kl-spike", "kl-reset"]
    assert digest(list(reversed(alerts))).key == made.key


def test_a_long_digest_is_cut_and_says_so() -> None:
    alerts = [alert_of(opened(finding(f"kl-{i}", "KL101"), NOON + i, f"run-{i % 2}"), None) for i in range(50)]
    made = digest(alerts)
    assert made.title == "2 runs: 50 alerts (kl-0, kl-1, kl-2, kl-3, …)"
    assert made.body.splitlines()[-1] == "and 30 more"


def test_a_message_that_comes_late_says_when_it_was_due() -> None:
    alert = alert_of(opened(finding()), None)
    assert late_note(alert, NOON + 60.0) == ""
    assert "05-06 12:00" in late_note(alert, NOON + 7200.0)

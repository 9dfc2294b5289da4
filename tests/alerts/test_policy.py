from __future__ import annotations

import time

import pytest

from tests.alerts.world import finding, of_kind, opened
from vario.errors import ConfigError
from vario.surfaces.alerts.policy import AlertOptions, Quiet, alert_options
from vario.surfaces.live.notices import Kind

LOSS_TRENDS = {
    "loss-discontinuity": "GR106",
    "policy-loss-without-direction": "GR107",
    "policy-loss-changed-sign": "GR108",
    "value-loss-diverging": "VF101",
}


def wants(table: dict, name: str, code: str, severity: str = "warning", confidence: str = "high") -> bool:
    return alert_options(table).wants(opened(finding(name, code, severity, confidence=confidence)), alerted=False)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("signal-dropped-suddenly", "SG103"),
        ("kl-rises-without-reward", "KL101"),
        ("reward-peaked-then-declined", "RW104"),
        ("policy-does-not-move", "RU101"),
        ("margin-grows-without-bound", "PF102"),
        ("run-stalled", "SY107"),
    ],
)
def test_by_default_the_learning_signal_and_kl_are_told(name: str, code: str) -> None:
    assert wants({}, name, code)
    assert not wants({}, name, code, severity="info")
    assert not wants({}, name, code, confidence="low")


def test_by_default_other_families_are_told_when_critical() -> None:
    assert not wants({}, "entropy-collapsing", "EN101")
    assert wants({}, "non-finite", "GR101", severity="critical")
    assert wants({"rules": ["default", "EN"]}, "entropy-collapsing", "EN101")
    assert not wants({"rules": ["KL"]}, "non-finite", "GR101", severity="critical")
    assert wants({"rules": ["KL", "critical"]}, "non-finite", "GR101", severity="critical")


@pytest.mark.parametrize("severity", ["info", "warning", "critical"])
@pytest.mark.parametrize("name", LOSS_TRENDS)
def test_a_loss_trend_is_never_told_by_default(name: str, severity: str) -> None:
    code = LOSS_TRENDS[name]
    assert not wants({"severity": "info"}, name, code, severity)
    assert not wants({"severity": "info", "rules": ["default", code[:2]]}, name, code, severity)
    assert wants({"severity": "info", "rules": [name]}, name, code, severity)
    assert wants({"severity": "info", "rules": [code.lower()]}, name, code, severity)


def test_what_is_over_is_told_of_what_was_told() -> None:
    options = AlertOptions()
    for kind in (Kind.RESOLVED, Kind.RESUMED):
        notice = of_kind(kind, "kl-spike")
        assert options.wants(notice, alerted=True)
        assert not options.wants(notice, alerted=False)
    assert not alert_options({"on": ["opened"]}).wants(of_kind(Kind.RESOLVED, "kl-spike"), alerted=True)


def test_a_finding_that_becomes_surer_is_told_once_it_suffices() -> None:
    options = alert_options({"confidence": "high"})
    surer = of_kind(Kind.SURER, "kl-runaway", "critical", finding=finding("kl-runaway", "KL103"))
    assert options.wants(surer, alerted=False), "it was too unsure when it opened"
    assert not options.wants(surer, alerted=True)


def test_other_events_are_told_as_chosen() -> None:
    for kind, told in (
        (Kind.STALLED, True),
        (Kind.DIED, True),
        (Kind.LOST, True),
        (Kind.REVIEW, True),
        (Kind.ENDED, False),
        (Kind.TROUBLE, False),
        (Kind.REPLACED, False),
    ):
        assert AlertOptions().wants(of_kind(kind, kind.value), alerted=False) is told, kind
        assert alert_options({"on": [kind.value]}).wants(of_kind(kind, kind.value), alerted=False)


def test_options_are_read() -> None:
    options = alert_options(
        {
            "to": "env:VARIO_ALERTS",
            "cool-down": "1h30m",
            "digest": 90,
            "quiet": "22:00-07:00",
            "quiet-except": "nothing",
            "picture": False,
        }
    )
    assert options.to == ("env:VARIO_ALERTS",)
    assert (options.cool_down, options.digest, options.picture) == (5400.0, 90.0, False)
    assert options.quiet is not None
    assert not options.disturbs("critical")
    assert AlertOptions().disturbs("critical")
    assert not AlertOptions().disturbs("warning")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"severty": "info"}, "has no 'severty'; severity?"),
        ({"severity": "bad"}, "severity is one of info, warning, critical, not 'bad'"),
        ({"rules": ["kl-runway"]}, "no rule is called 'kl-runway'; kl-runaway?"),
        ({"rules": ["QQ"]}, "`vario rule` lists them all"),
        ({"on": ["opend"]}, "on knows no 'opend'; opened?"),
        ({"cool-down": "soon"}, 'cool-down is a span such as "30m"'),
        ({"cool-down": -1}, "cool-down is a span"),
        ({"digest": True}, "digest is a span"),
        ({"quiet": "25:00-07:00"}, 'quiet = "22:00-07:00"'),
        ({"quiet": "07:00-07:00"}, 'quiet = "22:00-07:00"'),
        ({"quiet-except": "never"}, "quiet-except is one of"),
        ({"picture": "yes"}, "picture is true or false"),
        ({"link": "https://x/{name}"}, "link knows {run} and {step}, not {name}"),
        ({"to": [3]}, "to is a list of words"),
    ],
)
def test_a_wrong_option_is_told_with_what_to_write(table: dict, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        alert_options(table, "vario.toml: [alerts]")
    assert str(error.value).startswith("vario.toml: [alerts] ")
    assert said in str(error.value)


def test_addresses_are_not_in_the_options_text() -> None:
    options = alert_options({"to": ["json://user:hunter22@host/secretpath"], "link": "https://x/?key=abc{run}"})
    assert "hunter22" not in repr(options)
    assert "key=abc" not in repr(options)


@pytest.mark.parametrize(
    ("hour", "minute", "left"),
    [(21, 59, 0.0), (22, 0, 9 * 3600.0), (23, 30, 7.5 * 3600.0), (0, 0, 7 * 3600.0), (6, 59, 60.0), (7, 0, 0.0)],
)
def test_quiet_hours_cross_midnight(hour: int, minute: int, left: float) -> None:
    quiet = alert_options({"quiet": "22:00-07:00"}).quiet
    assert quiet is not None
    assert quiet.seconds_left(time.mktime((2031, 5, 6, hour, minute, 0, 0, 0, -1))) == left


def test_quiet_hours_within_a_day() -> None:
    quiet = alert_options({"quiet": "12:00-13:30"}).quiet
    assert isinstance(quiet, Quiet)
    assert quiet.seconds_left(time.mktime((2031, 5, 6, 12, 30, 0, 0, 0, -1))) == 3600.0
    assert quiet.seconds_left(time.mktime((2031, 5, 6, 11, 59, 0, 0, 0, -1))) == 0.0


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(("month", "day", "hours"), [(3, 29, 8.0), (10, 25, 10.0), (6, 1, 9.0)])
@pytest.mark.usefixtures("berlin")
def test_quiet_hours_end_by_the_clock_on_the_wall(month: int, day: int, hours: float) -> None:
    quiet = alert_options({"quiet": "22:00-07:00"}).quiet
    assert quiet is not None
    assert quiet.seconds_left(time.mktime((2025, month, day, 22, 0, 0, 0, 0, -1))) == hours * 3600.0

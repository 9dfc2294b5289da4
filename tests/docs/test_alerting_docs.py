"""docs/alerting.md: its commands are run on a recorded run, its options read by the real parsers, its tables those of the code."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.conftest import ROOT, recorded
from tests.docs.telling import (
    Told,
    blocks_of,
    commands_of,
    is_printed,
    is_understood,
    links_lead_somewhere,
    packed,
    quoted,
    run,
    table_below,
    tell,
    text_of,
)
from vario.errors import ConfigError
from vario.rules import RULES, find_rule
from vario.surfaces.alerts import ledger, policy
from vario.surfaces.alerts.channels import apprise_url, choosing, command
from vario.surfaces.alerts.message import Alert
from vario.surfaces.alerts.outbox import Retry
from vario.surfaces.alerts.policy import AlertOptions, alert_options, seconds_of
from vario.surfaces.live import performing
from vario.surfaces.live.actions import IN_TRAINER, OUTSIDE, Act, act_options
from vario.surfaces.live.notices import CONFIDENCES, SEVERITIES
from vario.surfaces.live.wishes import watch_options

PAGE = "alerting"
TEXT = text_of(PAGE)
SAID = " ".join(TEXT.split())
TABLES = [tomllib.loads(block) for page in (PAGE, "your-project") for block in blocks_of(page, "toml")]
ACT = Act("command", "reward-collapsed", 110, "critical", "high", "reward fell from 0.7 to 0")


def plain(cell: str) -> str:
    return cell.replace("`", "")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    recorded("grpo-drift", home / "runs/my-run")
    return home


@pytest.fixture(scope="module")
def told(home: Path) -> list[Told]:
    return tell(PAGE, home)


@pytest.mark.parametrize("line", dict.fromkeys(commands_of(PAGE)))
def test_command_runs(line: str, told: list[Told]) -> None:
    for done in told:
        if done.line == line:
            assert done.code == 0, done.out
            assert "Traceback" not in done.out
            assert "internal error" not in done.out


def test_what_the_page_shows_is_printed(told: list[Told]) -> None:
    assert sum(len(done.shown) for done in told) == len(blocks_of(PAGE, "text")) == 2
    for done in told:
        is_printed(done)


def test_what_the_page_shows_of_an_alert_is_written(told: list[Told], home: Path) -> None:
    assert [done.line for done in told][:2] == ["vario watch --test-alert", "vario watch runs/my-run --once"]
    written = (home / "ALERT.json").read_text()
    (shown,) = blocks_of(PAGE, "json")
    is_printed(Told("ALERT.json", 0, written, [shown]))
    body = json.loads(written)["body"]
    for said in ("It explains ", "Change beta ", "Verdict: stop ", "Best checkpoint: step "):
        assert said in body, body
    assert list(json.loads(written)) == re.findall(r'^ "(\w+)"', shown, re.MULTILINE)


def test_a_rehearsal_alerts_nobody(home: Path, told: list[Told]) -> None:
    (home / "ALERT.json").unlink()
    with contextlib.chdir(home):
        done = run(told[-1].line)
    assert "would be alerted" in done.out
    assert not (home / "ALERT.json").exists()


# options


def test_every_block_of_options_is_understood() -> None:
    seen: set[str] = set()
    for table in TABLES:
        seen |= set(table)
        watch_options(table.get("watch", {}))
        alert_options(table.get("alerts", {}))
        act_options(table.get("act", {}))
    assert {"watch", "alerts", "act"} <= seen
    assert {name for table in TABLES for name in table.get("alerts", {})} == set(policy.OPTIONS)
    assert {name for table in TABLES for name in table.get("act", {})} >= {"dry-run", "stop", "checkpoint", *OUTSIDE}


def test_every_option_of_alerts_is_told_with_its_default() -> None:
    rows = {plain(row[0]): row for row in table_below(PAGE, "What is told, and when")}
    assert tuple(rows) == policy.OPTIONS
    defaults, made = AlertOptions(), alert_options({})
    assert made == defaults
    for name in ("severity", "confidence"):
        assert plain(rows[name][2]) == getattr(defaults, name)
    assert quoted(rows["severity"][1]) == list(SEVERITIES)
    assert quoted(rows["confidence"][1]) == list(CONFIDENCES)
    assert quoted(rows["on"][2]) == [kind.value for kind in policy.DEFAULT_ON]
    assert seconds_of("page", "cool-down", plain(rows["cool-down"][2])) == defaults.cool_down
    assert seconds_of("page", "digest", plain(rows["digest"][2])) == defaults.digest == 0.0
    assert (rows["quiet"][2], defaults.quiet) == ("none", None)
    assert plain(rows["quiet-except"][2]) == defaults.quiet_except
    assert quoted(rows["quiet-except"][1]) == [policy.NOTHING]
    assert rows["picture"][2] == f"{defaults.picture}".lower()
    assert (rows["link"][2], defaults.link) == ("none", "")
    assert quoted(rows["link"][1]) == ["{run}", "{step}"]
    assert (rows["to"][2], defaults.to) == ("nobody is told", ())
    assert plain(rows["rules"][2]) == policy.DEFAULT


def test_spans_of_time_are_understood() -> None:
    sentence = SAID.split("A span of time is ")[1].split("; ")[0]
    seconds = [seconds_of("page", "digest", word.strip('"')) for word in quoted(sentence)]
    assert seconds == [90.0, 1800.0, 5400.0, 86400.0, 0.0]


def test_the_default_rules_are_told() -> None:
    part = TEXT.split("### Why these rules")[1].split("\n### ")[0]
    families = re.findall(r"\(`([A-Z]{2})`\)", part)
    assert tuple(families) == policy.FAMILIES
    assert {*families, *re.findall(r"of `(run-stalled)`", part), "critical"} == set(policy.DEFAULT_RULES)
    named = [word for word in quoted(part) if word in {rule.name for rule in RULES}]
    assert set(named) == {"run-stalled", *policy.LOSS_TRENDS}
    assert len(policy.LOSS_TRENDS) == 4
    assert all(find_rule(name) for name in policy.LOSS_TRENDS)


@pytest.mark.filterwarnings("ignore")  # apprise's plug-ins warn of the standard library
def test_every_channel_is_told() -> None:
    first = [row[0] for row in table_below(PAGE, "Whom to tell")]
    words = {word for cell in first for word in quoted(cell)}
    kinds = {word.partition(":")[0] for word in choosing.KNOWN}
    assert kinds <= {word.partition(":")[0] for word in words}
    plugins = pytest.importorskip("apprise.manager_plugins")
    schemes = plugins.NotificationManager().schemas()
    addresses = {word.partition("://")[0] for word in words if "://" in word}
    assert addresses
    assert addresses <= set(schemes)


def test_addresses_from_the_environment() -> None:
    pytest.importorskip("apprise")
    (block,) = blocks_of(PAGE, "bash")
    name, _, value = shlex.split(block)[1].partition("=")
    made = choosing.channels_of([f"env:{name}"], {name: value})
    assert [channel.name for channel in made] == ["mailto://example.org", "json://localhost"]
    assert not any("password" in f"{channel.name}{channel.id}" for channel in made)


def test_a_file_beside_somebodys_log_runs_nothing(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "runs", tmp_path / "runs")
    for table in ('[act]\ncommand = { severity = "info", confidence = "low", run = "touch evil" }\n', '[alerts]\nto = ["command:touch evil"]\n'):  # fmt: skip
        (tmp_path / "runs/my-run/vario.toml").write_text(table)
        with contextlib.chdir(tmp_path):
            done = run("vario watch runs/my-run --once")
        assert done.code == 2
        assert "not where you stand" in done.out
        assert not (tmp_path / "evil").exists()


# acts


def test_every_action_is_told_with_where_it_works() -> None:
    rows = {plain(row[0]): row for row in table_below(PAGE, "What to do by itself")}
    assert tuple(rows) == (*IN_TRAINER, *OUTSIDE)
    for name, row in rows.items():
        assert row[2] == ("in the process that trains" if name in IN_TRAINER else "anywhere")
        assert name not in OUTSIDE or f"`{OUTSIDE[name]}`" in row[1]


@pytest.mark.parametrize("name", [*IN_TRAINER, *OUTSIDE])
def test_no_action_has_a_default(name: str) -> None:
    for words in ({}, {"severity": "critical"}, {"confidence": "high"}):
        with pytest.raises(ConfigError, match="needs a severity and a confidence"):
            act_options({name: words})


def test_what_an_act_is_told(tmp_path: Path) -> None:
    """By the real command and the real sentinel."""
    sentence = SAID.split("`sentinel`, `command` and `webhook` get ")[1]
    names = quoted(sentence.split(", as JSON")[0])
    out = tmp_path / "told.txt"
    target = shlex.join(["/bin/sh", "-c", f"cat > {out}.json; env > {out}"])
    performing.perform(dataclasses.replace(ACT, target=target), "run", "stop")
    assert set(json.loads(Path(f"{out}.json").read_text())) == set(names)
    told = dict(line.partition("=")[::2] for line in out.read_text().splitlines() if line.startswith("VARIO_"))
    assert {f"VARIO_{name.upper()}" for name in names} == set(told)
    assert {word for word in quoted(sentence.split(". ")[0]) if word.startswith("VARIO_")} <= set(told)


def test_what_a_command_of_alerts_is_told() -> None:
    fields = {f"VARIO_{field.name.upper()}" for field in dataclasses.fields(Alert)}
    (row,) = (row for row in table_below(PAGE, "Whom to tell") if "command:" in row[0])
    assert {word for word in quoted(row[1]) if word.startswith("VARIO_")} <= fields


def test_a_list_has_several_of_a_kind() -> None:
    one = {"severity": "critical", "confidence": "high", "run": "true"}
    assert len(act_options({"command": [one, one]}).actions) == 2
    assert "`command = [{ … }, { … }]`" in SAID


def test_numbers_of_the_page() -> None:
    retry = Retry()
    assert (retry.first, retry.attempts, ledger.LEASE) == (5.0, 11, 300.0)
    hour = sum(retry.pause(n, 0.5) for n in range(1, retry.attempts))
    assert 0.5 * 3600.0 < hour < 1.5 * 3600.0
    assert apprise_url.SEND_SECONDS == command.SECONDS == performing.SECONDS == 30.0
    for said in (
        "given up after 30 seconds", "after 5 seconds first", "11 times within about an hour", "five minutes after",
        "and their like; 30 seconds", "starts `run`, without a shell; 30 seconds", "`https://`; 30 seconds",
    ):  # fmt: skip
        assert said in SAID, said


def test_commands_in_sentences_are_understood() -> None:
    is_understood(PAGE, "watch")


def test_links_lead_somewhere() -> None:
    links_lead_somewhere(PAGE)
    links_lead_somewhere("your-project")
    assert f"]({PAGE}.md)" in (ROOT / "docs/index.md").read_text(encoding="utf-8")
    assert f"](docs/{PAGE}.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_your_project_names_the_sections() -> None:
    rows = [plain(row[0]) for row in table_below("your-project", "Beside a training")]
    assert rows == ["[watch]", "[alerts]", "[act]"]
    assert packed("`[alerts]`, `[act]` and the `state` of `[watch]` count") in packed(text_of("your-project"))

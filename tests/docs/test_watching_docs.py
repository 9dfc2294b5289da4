"""docs/watching.md: every command is run on recorded runs (on a terminal too), and every table is that of the code."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.dumps import trl_run
from tests.conftest import ROOT, recorded
from tests.docs.telling import (
    Told,
    blocks_of,
    commands_of,
    is_printed,
    is_understood,
    links_lead_somewhere,
    missing,
    packed,
    quoted,
    run,
    table_below,
    tell,
    text_of,
)
from vario.rules.engine import CADENCE_ROWS, CADENCE_SHARE
from vario.surfaces.cli import _parser
from vario.surfaces.exporters import prometheus
from vario.surfaces.exporters.alert_rules import RULES
from vario.surfaces.live import followed, watched, watching
from vario.surfaces.live.notices import Kind
from vario.surfaces.live.wishes import FLAGS, NUMBERS, WORDS, ReviewPlan, WatchOptions, watch_options
from vario.surfaces.state import place_of, shown_place
from vario.surfaces.state.places import NAME

PAGE = "watching"
TEXT = text_of(PAGE)
SAID = " ".join(TEXT.split())
RUNS = {"my-run": "grpo-drift", "good": "grpo-healthy-kl"}
SECONDS = 60.0
"""Longest time that a command may take to say what is waited for, on a busy machine."""
VARIO = (sys.executable, "-m", "vario.surfaces.cli")


def goes_on(line: str) -> bool:
    """Whether a command follows until it is ended."""
    return "vario watch" in line and not re.search(r"--(once|rehearse|test-alert)", line)


GOING = [line for line in dict.fromkeys(commands_of(PAGE)) if goes_on(line)]


def copied(home: Path) -> Path:
    for name, golden in RUNS.items():
        recorded(golden, home / "runs" / name)
        # they are to be more steps than there are: a run that has made all of its steps has ended
        config = home / "runs" / name / "config.json"
        for saved in config.parent.rglob("training_args.bin"):
            saved.unlink()
        config.write_text(re.sub(r'"max_steps": \d+', '"max_steps": 1000', config.read_text()))
    return home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = copied(tmp_path_factory.mktemp("home"))
    trl_run(home / "sampled/my-run", steps=40)
    return home


@pytest.fixture(scope="module")
def told(home: Path) -> list[Told]:
    return tell(PAGE, home, answers="g\n" * 8, left=goes_on)


# what ends by itself


@pytest.mark.parametrize("line", [line for line in dict.fromkeys(commands_of(PAGE)) if not goes_on(line)])
def test_command_runs(line: str, told: list[Told]) -> None:
    for done in told:
        if done.line == line:
            assert done.code == 0, done.out
            assert "internal error" not in done.out
            assert "Traceback" not in done.out
            assert done.out.strip()


def test_what_the_page_shows_is_printed(told: list[Told]) -> None:
    assert sum(len(done.shown) for done in told) == len(blocks_of(PAGE, "text"))
    for done in told:
        is_printed(done)


def test_what_was_told_is_not_told_again(told: list[Told], home: Path) -> None:
    assert " opened critical " in told[0].out
    assert (home / "runs/my-run" / NAME).is_file()
    with contextlib.chdir(home):
        again = run(told[0].line).out
    assert " opened " not in again
    assert "runs/my-run              stop" in again


def test_elsewhere_the_state_knows_of_nothing_yet(told: list[Told], home: Path) -> None:
    (done,) = (done for done in told if "--state" in done.line)
    assert " opened critical " in done.out
    assert (home / done.line.rpartition(" ")[2]).is_file()


@pytest.mark.usefixtures("told")
def test_a_rehearsal_leaves_nothing_behind(home: Path) -> None:
    before = sorted(home.rglob("*"))
    with contextlib.chdir(home):
        run("vario watch sampled/my-run --rehearse --no-samples")
    assert sorted(home.rglob("*")) == before


def test_the_line_for_cron_is_a_command_of_the_page(told: list[Told]) -> None:
    (block,) = blocks_of(PAGE, "crontab")
    command = re.search(r"&& (vario .*?) >>", block)[1]  # type: ignore[index]
    assert command in [done.line for done in told]


def test_exit_codes(home: Path) -> None:
    assert [row[0] for row in table_below(PAGE, "Exit codes")] == ["0", "1", "2", "3"]
    with contextlib.chdir(home):
        assert run("vario watch --test-alert").code == 2
        assert run("vario watch runs --every 0").code == 2
        assert run("vario watch nothing-there --rehearse").code == 3


# what goes on


def started(line: str, here: Path) -> subprocess.Popen[bytes]:
    """A command of the page in a shell, by this interpreter; its port is a free one."""
    words = shlex.join(VARIO)
    command = line.replace("vario watch", f"exec {words} watch").replace("--prometheus 10777", f"--prometheus {FREE}")
    return subprocess.Popen(
        ["/bin/sh", "-c", command], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}/src", "HOME": str(here)},
    )  # fmt: skip


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


FREE = _free_port()
SHOWN_ON_A_TERMINAL = "vario watch runs"
LINES = "vario watch runs --plain"
SERVED = f"{LINES} --prometheus 10777"
"""The same lines, and numbers beside them."""
PIPED = "cat train.log | vario watch - --plain"


@pytest.fixture(scope="module")
def going(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Both at once: what one waits for takes no time of the other."""
    here = copied(tmp_path_factory.mktemp("going"))
    rows = json.loads((here / "runs/good/trainer_state.json").read_text())["log_history"]
    (here / "train.log").write_text("".join(f"{row}\n" for row in rows))
    made = {line: started(line, here) for line in (SERVED, PIPED)}
    yield made
    for process in made.values():
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def heard(process: subprocess.Popen[bytes], *wanted: str) -> str:
    """What it says, until all that is wanted was said."""
    assert process.stdout is not None
    said, end = b"", time.monotonic() + SECONDS
    while not all(word.encode() in said for word in wanted) and time.monotonic() < end:
        if select.select([process.stdout], [], [], 1.0)[0]:
            part = os.read(process.stdout.fileno(), 1 << 16)
            if not part:
                break
            said += part
    assert all(word in said.decode() for word in wanted), said.decode()
    return said.decode()


def test_every_command_that_goes_on_is_started() -> None:
    (team,) = (line for line in GOING if "postgresql" in line)
    assert {*GOING} == {SHOWN_ON_A_TERMINAL, LINES, SERVED, PIPED, team}


def test_standard_input_ends_with_its_writer(going: dict[str, subprocess.Popen[bytes]]) -> None:
    process = going[PIPED]
    said = heard(process, " ended")
    assert process.wait(SECONDS) == 0
    assert "plateau" in said


def test_lines_and_numbers_until_a_signal(going: dict[str, subprocess.Popen[bytes]]) -> None:
    process = going[SERVED]
    said = heard(process, "runs/good  ", "runs/my-run              stop        peaked    step 140")
    pattern = r"^\d{4}-\d\d-\d\dT\S+ runs/my-run step 140 opened critical kl-rises-while-reward-falls"
    assert re.search(pattern, said, re.MULTILINE)
    url = re.search(r"`(http://127\.0\.0\.1:10777/metrics)`", TEXT)[1].replace("10777", str(FREE))  # type: ignore[index]
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        told = answer.read().decode()
    assert 'vario_verdict_state{action="stop",run="runs/my-run"} 1.0' in told
    assert "vario_finding_active{" in told
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 0


def test_how_prometheus_is_told() -> None:
    yaml = pytest.importorskip("yaml")
    (block,) = blocks_of(PAGE, "yaml")
    told = yaml.safe_load(block)
    assert told["scrape_configs"][0]["static_configs"] == [{"targets": [f"localhost:{prometheus.PORT}"]}]
    (file,) = told["rule_files"]
    rules = yaml.safe_load((ROOT / "docs/grafana" / file).read_text(encoding="utf-8"))
    assert [rule["alert"] for rule in rules["groups"][0]["rules"]] == [rule.name for rule in RULES]


def test_a_teams_store_is_understood_and_shown_without_secrets() -> None:
    (line,) = (line for line in GOING if "postgresql" in line)
    state = _parser().parse_args(shlex.split(line)[1:]).state
    assert shown_place(place_of("/shared/runs/one", state)) == state
    secret = state.replace("//", "//me:secret@")
    assert shown_place(place_of("/shared/runs/one", secret)) == state


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are not there on Windows")
def test_the_screen_and_its_keys(tmp_path: Path) -> None:
    pytest.importorskip("textual")
    from tests.terminal.screens import terminal
    from vario.surfaces.terminal.main_screen import MainScreen

    here = copied(tmp_path)
    (screen,) = blocks_of(PAGE, "screen")
    words = (*VARIO[1:], *shlex.split(SHOWN_ON_A_TERMINAL)[1:])
    with terminal(*words, size=(100, 34), cwd=here) as t:
        t.until(lambda s: missing(s, screen) is None, SECONDS)  # it is painted in parts
        t.press("?")
        sheet = packed(t.until(lambda s: "suspend; `fg` comes back" in s, SECONDS))
        for keys, means in table_below(PAGE, "On a terminal"):
            if keys != "`?`":
                assert packed(plain(keys) + plain(means)) in sheet.replace("`", ""), keys
        t.press("q")
        t.until(lambda s: "STOP" in s, SECONDS)
        t.press("q")
        assert t.end() == 0
    keys = {word for row in table_below(PAGE, "On a terminal") for word in quoted(row[0])}
    names = {"question_mark": "?", "escape": "esc"}
    bound = [binding.key for binding in MainScreen.BINDINGS]  # type: ignore[union-attr]
    assert {names.get(key, key) for key in bound} <= keys


# tables


def plain(cell: str) -> str:
    return cell.replace("`", "")


def test_every_key_is_told() -> None:
    from vario.surfaces.terminal.sheets import HELP

    rows = {plain(keys): plain(means) for keys, means in table_below(PAGE, "On a terminal")}
    assert rows.pop("?")
    assert rows == {keys: plain(means) for keys, means in HELP}


def test_every_sign_is_told() -> None:
    from vario.surfaces.terminal.inline import SIGNS
    from vario.surfaces.terminal.sheets import LIGHTS

    rows = [(plain(sign), means) for sign, means in table_below(PAGE, "What the signs mean")]
    assert rows == [(SIGNS[light][0].strip(), means) for light, means in LIGHTS.items()]


def test_every_kind_of_notice_is_told() -> None:
    assert [plain(row[0]) for row in table_below(PAGE, "What is told")] == [
        "opened", "worsened", "surer", "resolved", "stalled", "resumed", "lost", "replaced", "died", "ended", "review-due", "trouble",
    ]  # fmt: skip
    assert {plain(row[0]) for row in table_below(PAGE, "What is told")} == {kind.value for kind in Kind}


def test_every_status_is_told() -> None:
    sentence = SAID.split("pause between rows, and status: ")[1].split(". ")[0]
    assert quoted(sentence) == [status.value for status in watched.Status]


def test_every_option_of_watch_is_told() -> None:
    rows = {plain(row[0]): row for row in table_below(PAGE, "`[watch]`")}
    assert set(rows) == {*NUMBERS, *FLAGS, *WORDS}
    plan, options = ReviewPlan(), WatchOptions()
    defaults = {
        "every": options.every, "stalled-after": options.stalled_after or 0, "review-every": plan.every,
        "review-on-warning": plan.on_warning, "review-quote": plan.quote,
    }  # fmt: skip
    for name, value in defaults.items():
        assert rows[name][2] == (f"{value}".lower() if isinstance(value, bool) else f"{value:g}"), name
    assert rows["state"][2] == "beside each run"
    assert options.state is None


def test_the_example_of_watch_is_understood() -> None:
    (block,) = blocks_of(PAGE, "toml")
    table = tomllib.loads(block)
    assert list(table) == ["watch"]
    assert set(table["watch"]) == {*NUMBERS, *FLAGS, *WORDS}
    options = watch_options(table["watch"])
    assert (options.every, options.stalled_after, options.review.every) == (2.0, 3600.0, 500)
    assert options.state == "postgresql://db.example.org/vario"


def test_a_state_beside_somebodys_log_sends_nothing(tmp_path: Path) -> None:
    here = copied(tmp_path)
    (here / "runs/my-run/vario.toml").write_text('[watch]\nstate = "postgresql://db.example.org/vario"\n')
    with contextlib.chdir(here):
        done = run("vario watch runs/my-run --once")
    assert done.code == 2
    assert "[watch] state" in done.out
    assert "lies beside the log, not where you stand" in done.out


def test_numbers_of_the_page() -> None:
    assert (watching.MOST_RUNS, watching.SHARE_OF_ALL, followed.SHARE) == (500, 0.25, 0.1)
    assert (followed.REMOTE_SECONDS, followed.PATIENCE, CADENCE_ROWS, CADENCE_SHARE, WatchOptions().every) == (
        30.0,
        10.0,
        10,
        0.03,
        2.0,
    )
    assert (watched.STALLED_TIMES, watched.STALLED_LONGEST, watched.STALLED_SECONDS) == (10.0, 2.0, 600.0)
    assert (watched.REVIEW_SAMPLES, ReviewPlan().every, prometheus.PORT) == (8, 200, 10777)
    for said in (
        "at most 500", "at most every 30 seconds", "Every two seconds", "a tenth of the time for one run and a quarter for all",
        "every tenth row, or every 3 % of the rows", "ten times the usual pause", "twice the longest pause", "for ten minutes at least",
        "`lost` after ten seconds", "`trouble` after ten seconds", "names eight of them every 200 steps", "at least 0.1",
    ):  # fmt: skip
        assert said in SAID, said


def test_scripts_exist() -> None:
    scripts = re.findall(r"`python (bench/\w+\.py)`", TEXT)
    assert scripts
    assert all((ROOT / script).is_file() for script in scripts)


def test_names_of_rotated_files_are_known() -> None:
    part = SAID.split("fetched from it (")[1].split(")")[0]
    for name in quoted(part):
        assert followed.PART.fullmatch(name.removeprefix("NAME")), name
        assert followed.PART.fullmatch(f"{name.removeprefix('NAME')}.gz"), name


def test_where_the_state_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"`{NAME}` beside each run" in SAID
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert place_of("wandb://me/project/run").endswith(f"{tmp_path}/.local/state/vario/{NAME}")
    assert "`~/.local/state/vario`" in TEXT


def test_commands_in_sentences_are_understood() -> None:
    is_understood(PAGE, "watch", "samples", "diagnose")


def test_options_of_the_judgement_are_those_of_diagnose() -> None:
    sentence = SAID.split("are those of `vario diagnose`: ")[1].split(". ")[0]
    for option in quoted(sentence):
        value = [] if option == "--no-samples" else ["x"]
        for command in ("watch", "diagnose"):
            assert _parser().parse_args([command, "runs", option, *value])


def test_links_lead_somewhere() -> None:
    links_lead_somewhere(PAGE)
    assert f"]({PAGE}.md)" in (ROOT / "docs/index.md").read_text(encoding="utf-8")
    assert f"](docs/{PAGE}.md)" in (ROOT / "README.md").read_text(encoding="utf-8")

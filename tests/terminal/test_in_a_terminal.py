"""The terminal application as a user meets it: a process in a real pseudo-terminal, whose screen is read."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.terminal.screens import Terminal, terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are not there on Windows")
SHOWN = ("-m", "tests.terminal.shown")
COLOUR = re.compile(rb"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]")


def findings(t: Terminal) -> str:
    return t.until(lambda s: "reward-hacking" in s and "STOP" in s and "grpo-healthy" in s)


def test_a_session() -> None:
    with terminal(*SHOWN, "1000", "grpo-healthy", "grpo-proxy-hack") as t:
        text = findings(t)
        assert re.search(r"^!! grpo-proxy-hack", text, re.MULTILINE)
        assert re.search(r"^ok grpo-healthy", text, re.MULTILINE)
        assert re.search(r"STOP   high confidence   plateau", text)
        assert re.search(r"reward/mean +[▁▂▃▄▅▆▇█]{7} +0\.169->0\.973 +plateau", text)
        assert COLOUR.search(t.raw)
        t.press("?")
        t.until(lambda s: "acknowledge the chosen finding" in s)
        t.press("q")
        findings(t)
        t.press("\r")  # to the findings
        t.press("a")
        t.until(lambda s: "Why may reward-hacking stand?" in s)
        t.press("weight 0 is wanted\r")
        t.until(lambda s: "a  reward-hacking" in s)
        t.resize(60, 20)
        t.until(lambda s: "runs ───" in s and s.splitlines()[0].strip().endswith(tuple("0123456789")))
        assert "reward-hacking" in t.until(lambda s: "findings 1 open" in s)
        t.resize(120, 40)
        t.until(lambda s: "acknowledged: weight 0 is wanted" in s)
        t.press("q")
        assert t.end() == 0
        assert t.restored


def test_without_colour_and_with_a_turn_that_never_ends() -> None:
    with terminal(*SHOWN, "1000", "grpo-healthy", "grpo-proxy-hack", "--hang", NO_COLOR="1") as t:
        text = findings(t)
        assert re.search(r"^!! grpo-proxy-hack", text, re.MULTILINE)
        t.until(lambda s: "looking for" in s)
        t.press("q")
        assert t.end() == 0
        assert t.restored
        assert not COLOUR.search(t.raw)


def test_hostile_words_are_shown_and_do_nothing() -> None:
    with terminal(*SHOWN, "1000", "--hostile") as t:
        t.until(lambda s: "[red]c[/red]" in s and "gauges" in s)
        t.press("t")
        t.until(lambda s: s.count("[red]c[/red]") >= 1 and "close" in s)
        assert b"]0;own\x07" not in t.raw
        assert "\u202e".encode() not in t.raw
        assert "own" not in t.screen.title
        t.press("\x03")
        assert t.end() == 0
        assert t.restored


def test_a_signal_to_end_restores_the_terminal() -> None:
    with terminal(*SHOWN, "1000", "dpo-healthy") as t:
        t.until(lambda s: "CANNOT TELL" in s)
        os.kill(t.process.pid, signal.SIGTERM)
        assert t.end() == 0
        assert t.restored


def test_where_no_keys_can_come_it_names_the_plain_lines() -> None:
    ended = subprocess.run(
        [sys.executable, *SHOWN, "1000", "dpo-healthy"], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].endswith("standard input is no terminal, so no keys can come: try --plain")

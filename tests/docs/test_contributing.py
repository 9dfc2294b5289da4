"""CONTRIBUTING.md names nothing that is not there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from vario.rules.base import HEADINGS
from vario.surfaces.cli import main
from vario.verdict.serial import VERSION

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", TEXT, flags=re.MULTILINE | re.DOTALL))
BLOCKS = re.findall(r"^```sh\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
TOOLS = ("python", "pytest", "ruff", "mypy", "lint-imports", "vario")
PACKAGE_OF = {"lint-imports": "import-linter"}
COMMANDS = sorted({c for c in (*QUOTED, *"".join(BLOCKS).splitlines()) if c.split()[0] in TOOLS})
PATHS = sorted({q for q in QUOTED if "/" in q or q.endswith((".md", ".toml"))} - set(COMMANDS))


def test_it_names_paths_and_commands() -> None:
    assert len(PATHS) > 15
    assert len(COMMANDS) > 8


@pytest.mark.parametrize("path", PATHS)
def test_path_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_command_exists(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    tool, *words = shlex.split(command)
    if tool == "python":
        if words[0] == "-m":
            return  # pip comes with Python, or the environment could not have been made
        script = ROOT / words[0]
        assert script.is_file()
        usage = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True)
        assert usage.returncode == 0
        assert words[1] in usage.stdout
    elif tool == "vario":
        with pytest.raises(SystemExit) as left:
            main([words[0], "--help"])
        assert left.value.code == 0
        capsys.readouterr()
        if words[0] == "rule":
            assert main(words) == 0
        else:
            assert (ROOT / words[1]).exists()
    else:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        wanted = [re.split(r"[<>=\[]", line)[0] for line in project["optional-dependencies"]["test"]]
        assert PACKAGE_OF.get(tool, tool) in wanted
        beside = Path(sys.executable).parent / tool
        assert beside.exists() or shutil.which(tool) or PACKAGE_OF.get(tool, tool) in wanted
        for word in words:
            assert word in ("check", "format") or (ROOT / word).exists()


def test_every_kind_of_the_scaffold_is_named() -> None:
    for kind in ("rule", "instrument", "reader", "dialect"):
        assert any(c.startswith(f"python scripts/new.py {kind} ") for c in COMMANDS)


def test_headings_it_quotes_are_headings() -> None:
    assert "Looks like it but is not" in HEADINGS
    assert "Looks like it but is not" in TEXT


def test_licence_is_the_one_that_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["license"]
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache-2.0" in str(declared)
    assert "Apache License" in licence
    assert "Version 2.0, January 2004" in licence


def test_changelog_has_the_version() -> None:
    assert f"## {VERSION}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

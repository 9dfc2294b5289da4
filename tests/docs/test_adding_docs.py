"""docs/adding-a-rule.md and docs/adding-a-framework.md: their commands are run, in a copy of the repository."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.telling import BLOCK, Told, blocks_of, is_printed, links_lead_somewhere, quoted, table_below, text_of
from tests.docs.test_scaffold import COPIED, LEFT_OUT
from tests.docs.test_scaffold import run as run_python
from vario.rules import base
from vario.rules.base import HEADINGS
from vario.sources.dialects.base import Dialect
from vario.testing import read_cases

RULE, FRAMEWORK = "adding-a-rule", "adding-a-framework"
each_page = pytest.mark.parametrize("page", [RULE, FRAMEWORK])


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("copy")
    for name in (*COPIED, "README.md", "tests"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, made / name, ignore=LEFT_OUT)
        else:
            shutil.copy(ROOT / name, made / name)
    return made


def in_copy(copy: Path, line: str) -> subprocess.CompletedProcess[str]:
    tool, *words = shlex.split(line)
    if tool == "pytest":
        return run_python(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words)
    if tool == "vario":
        return run_python(copy, "-m", "vario.surfaces.cli", *words)
    assert tool == "python", line
    return run_python(copy, *words)


@each_page
def test_every_command_runs(page: str, copy: Path) -> None:
    told: list[Told] = []
    for _, _, kind, body in BLOCK.findall(text_of(page)):
        if kind == "sh":
            for line in body.splitlines():
                done = in_copy(copy, line)
                assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}{done.stderr}"
                assert "pytest" not in line or re.match(r"\.+", done.stdout), f"{line} runs no test"
                told.append(Told(line, 0, done.stdout))
        elif kind == "text":
            told[-1].shown.append(body)
    assert len(told) >= 5
    for done in told:
        is_printed(done)


@each_page
def test_links_and_paths_exist(page: str) -> None:
    links_lead_somewhere(page)
    made = {"tests/sources/logs/", "README.md"}
    for name in quoted(re.sub(r"^(```+).*?^\1$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)):
        if re.fullmatch(r"(src|scripts|tests|bench|docs)/[\w./-]+", name) and name not in made:
            assert (ROOT / name).exists(), name
        if name.startswith(("pytest ", "python ")):
            assert (ROOT / name.split()[1]).is_file(), name


def test_words_of_a_rule_are_those_of_the_code() -> None:
    assert tuple(quoted(next(line for line in text_of(RULE).splitlines() if " · " in line))) == HEADINGS
    for word, _ in table_below(RULE, "Write the rule")[:-1]:
        assert hasattr(base, word.strip("`")), word


def test_the_case_of_the_page_is_one(tmp_path: Path) -> None:
    (block,) = blocks_of(RULE, "markdown")
    (tmp_path / "kl-spike.md").write_text(f"# kl-spike\n\n{block}", encoding="utf-8")
    (case,) = read_cases(tmp_path / "kl-spike.md")
    assert case.expects == [(240, "clear")] or tuple(case.expects) == ((240, "clear"),)


def test_parts_of_a_dialect_are_those_of_the_code() -> None:
    named = {row[0].strip("`").lower() for row in table_below(FRAMEWORK, "Say what the keys mean")}
    assert named <= set(Dialect.__dataclass_fields__)

"""The README names what there is: every framework, every format, and commands that exist."""

from __future__ import annotations

import ast
import contextlib
import re
import shlex
import shutil
from operator import attrgetter
from pathlib import Path

import page_parts
import pytest

import vario
import vario.live
from tests.conftest import GOLDEN, ROOT
from tests.docs.telling import run
from vario.sources.dialects import DIALECTS
from vario.surfaces.cli import _parser

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
READS = TEXT.split("## What it reads")[1].split("\n## ")[0]
BLOCKS = "".join(re.findall(r"^    (\S.*\n)", TEXT, flags=re.MULTILINE))
LINKS = re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT)


def test_it_names_every_framework_and_no_other() -> None:
    linked = re.findall(r"\[([^\]]+)\]\(docs/frameworks/([\w-]+)\.md\)", READS)
    assert {name: title for title, name in linked if name != "index"} == {
        d.name: page_parts.title_of(d) for d in DIALECTS if d.name != "generic"
    }


@pytest.mark.parametrize(
    "word",
    ["trainer_state.json", "TensorBoard", "W&B", "trackio", "MLflow", "JSON", "CSV", "Parquet", "notebook", "console", "packed",
     "standard input", "s3://", "hf://", "http://", "wandb://", "mlflow+http://"],
)  # fmt: skip
def test_it_names_every_format(word: str) -> None:
    assert word in READS


@pytest.mark.parametrize("link", sorted(set(LINKS)))
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()


@pytest.mark.parametrize("line", [ln for ln in BLOCKS.splitlines() if ln.startswith("vario ")])
def test_commands_are_understood(line: str, tmp_path: Path) -> None:
    """On a run of the project in place of the user's. What goes on until it is stopped has tests of its own."""
    words = shlex.split(line, comments=True)
    if words[1] in ("serve", "mcp"):
        assert _parser().parse_args(words[1:]).command == words[1]
        return
    shutil.copytree(GOLDEN / "grpo-healthy-kl", tmp_path / "outputs/my-run")
    with contextlib.chdir(tmp_path):
        done = run(shlex.join(words))
    assert done.code in (0, 1)
    assert done.out.strip() or (tmp_path / "report.html").stat().st_size > 0


@pytest.mark.parametrize("block", re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL))
def test_python_names_what_there_is(block: str) -> None:
    tree = ast.parse(block)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.fullmatch(r"vario(\.\w+)+", words := ast.unparse(node)):
            attrgetter(words.removeprefix("vario."))(vario)


@pytest.mark.parametrize("line", [ln for ln in BLOCKS.splitlines() if ln.startswith(("python ", "./"))])
def test_scripts_exist(line: str) -> None:
    words = shlex.split(line, comments=True)
    assert Path(ROOT / (words[1] if words[0] == "python" else words[0])).is_file()


def test_changelog_names_every_framework() -> None:
    said = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for dialect in DIALECTS:
        assert dialect.name == "generic" or re.search(rf"[ (\n]{re.escape(page_parts.title_of(dialect))}[,)]", said), (
            dialect.name
        )

"""The scaffold, run in a copy of the repository: what it makes passes the checks before a word is filled in."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("src", "scripts", "docs", "pyproject.toml", "CONTRIBUTING.md")
REQUESTS = (
    ("rule", "KL997", "kl-tries-the-scaffold"),
    ("instrument", "tried-swing"),
    ("reader", "tried-rows"),
    ("dialect", "tried-trainer"),
)
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", "golden", ".*_cache")

LOOK = """
import json
from pathlib import Path
import vario
from vario import instruments
from vario.rules import RULES, find_rule
from vario.rules.base import HEADINGS
from vario.sources.dialects import DIALECTS
from vario.sources.readers import READERS
rule = find_rule("KL997")
reader = vario.read("tests/readers/tried-rows/sample.txt")
dialect = vario.read("tests/sources/logs/tried-trainer-synthetic.jsonl")
print(json.dumps({
    "from": vario.__file__,
    "rule": rule.name,
    "in table": rule in RULES,
    "missing headings": [h for h in HEADINGS if not rule.section(h)],
    "readers": [r.__name__.rsplit(".", 1)[1] for r in READERS],
    "dialects": [d.name for d in DIALECTS],
    "instrument": instruments.TriedSwing in instruments.INSTRUMENTS,
    "exported": instruments.__all__,
    "read": [sorted(reader.series), reader.framework, sorted(dialect.series), dialect.framework],
    "said": [f.name for f in vario.diagnose(dialect).findings],
}))
"""


def run(copy: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, *command], cwd=copy, env=environment, capture_output=True, text=True)


def new(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(copy, "scripts/new.py", *words)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        whole = ROOT / name
        if whole.is_dir():
            shutil.copytree(whole, copy / name, ignore=LEFT_OUT)
        else:
            shutil.copy(whole, copy / name)
    shutil.copytree(ROOT / "tests", copy / "tests", ignore=LEFT_OUT)
    return copy


@pytest.fixture(scope="module")
def scaffolded(fresh: Path) -> tuple[Path, list[Path]]:
    """The copy after one request of each kind, and the files that were made."""
    made = []
    for request in REQUESTS:
        done = new(fresh, *request)
        assert done.returncode == 0, done.stdout + done.stderr
        made += [fresh / path for path in re.findall(r"^made +(\S+)$", done.stdout, flags=re.MULTILINE)]
    return fresh, made


def test_everything_made_is_in_its_table(scaffolded: tuple[Path, list[Path]]) -> None:
    import json

    copy, _ = scaffolded
    done = run(copy, "-W", "error", "-c", LOOK)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert Path(seen["from"]).is_relative_to(copy)
    assert (seen["rule"], seen["in table"], seen["missing headings"]) == ("kl-tries-the-scaffold", True, [])
    assert "tried_rows" in seen["readers"]
    assert seen["dialects"].index("tried-trainer") < seen["dialects"].index("generic")
    assert seen["instrument"]
    assert "TriedSwing" in seen["exported"]
    assert seen["read"] == [
        ["kl/reference", "reward/mean"],
        "generic",
        ["kl/reference", "reward/mean"],
        "tried-trainer",
    ]
    assert "kl-tries-the-scaffold" not in seen["said"]


def test_a_new_rule_has_a_page_and_every_page_is_fresh(scaffolded: tuple[Path, list[Path]]) -> None:
    copy, _ = scaffolded
    assert (copy / "docs/rules/kl-tries-the-scaffold.md").is_file()
    assert "tried-trainer" in (copy / "docs/rule-by-framework.md").read_text(encoding="utf-8")
    page = (copy / "docs/frameworks/tried-trainer.md").read_text(encoding="utf-8")
    assert "| `tried-trainer/reward` | `reward/mean` |" in page
    assert "| `tests/sources/logs/tried-trainer-synthetic.jsonl` | synthetic |" in page
    assert "`tried_rows`" in (copy / "docs/formats.md").read_text(encoding="utf-8")
    assert run(copy, "scripts/pages.py", "check").returncode == 0


def test_template_cases_pass(scaffolded: tuple[Path, list[Path]]) -> None:
    copy, _ = scaffolded
    code = (
        "from pathlib import Path; from vario.testing import failures, read_cases\n"
        "cases = read_cases(Path('tests/cases/kl-tries-the-scaffold.md'))\n"
        "assert {w for c in cases for _, w in c.expects} == {'fires', 'clear', 'unknown'}\n"
        "for case in cases: assert not failures(case), failures(case)"
    )
    done = run(copy, "-c", code)
    assert done.returncode == 0, done.stderr


def test_the_checks_of_the_pages_pass_in_the_copy(scaffolded: tuple[Path, list[Path]]) -> None:
    copy, _ = scaffolded
    files = ("tests/docs/test_pages.py", "tests/docs/test_framework_pages.py")
    done = run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files)
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_new_dialect_passes_what_every_dialect_must(scaffolded: tuple[Path, list[Path]]) -> None:
    copy, _ = scaffolded
    done = run(
        copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/sources/test_dialect_coverage.py", "-k", "tried"
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.startswith("....")


@pytest.mark.skipif(importlib.util.find_spec("ruff") is None, reason="ruff is not installed")
def test_what_is_made_is_clean(scaffolded: tuple[Path, list[Path]]) -> None:
    copy, made = scaffolded
    files = [str(p) for p in made if p.suffix == ".py"]
    assert len(files) == len(REQUESTS)
    done = run(copy, "-m", "ruff", "check", "--no-cache", *files)
    assert done.returncode == 0, done.stdout
    done = run(copy, "-m", "ruff", "format", "--no-cache", "--check", *files)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda words: words[0])
def test_nothing_is_overwritten(scaffolded: tuple[Path, list[Path]], request_: tuple[str, ...]) -> None:
    copy, made = scaffolded
    before = [p.read_bytes() for p in made]
    done = new(copy, *request_)
    assert done.returncode == 2
    assert done.stderr.startswith("new.py: ")
    assert [p.read_bytes() for p in made] == before


@pytest.mark.parametrize(
    "words",
    [
        ("rule", "KL101", "kl-does-another-thing"),
        ("rule", "ZZ199", "kl-does-another-thing"),
        ("rule", "KL19", "kl-does-another-thing"),
        ("rule", "KL198", "Kl_Thing"),
        ("dialect", "../away"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_made_is_refused(fresh: Path, words: tuple[str, ...]) -> None:
    table = fresh / "src/vario/rules/__init__.py"
    before = table.read_bytes()
    assert new(fresh, *words).returncode == 2
    assert table.read_bytes() == before

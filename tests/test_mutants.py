"""The mutation bench: the mutator makes what it says, and a weak case lets a mutant live."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "bench"))

import mutants
from mutator import each_apart, mutants_of

from vario.rules import find_rule
from vario.rules.base import Rule
from vario.rules.choice import choose
from vario.testing import draw, read_cases, verdict

TOY = '''
HIGH, LEAST = 0.5, 5
WIDE: float = 2.0


def toy(x: int | None, name: str = "a") -> list[float]:
    """Not `1 < 2`."""
    if x is None or x < LEAST and name:
        return []
    text = "more" if x > 9 else "less"
    text += f"{x - 1}"
    yield Evidence(text)
    return [max(i + 1, -x) for i in range(x) if i != 3]
'''
RULE = '''
from vario.instruments import Kl
from vario.rules.base import Doubt, Evidence, Grave, Severity, rule

HIGH = 0.5
LEAST = 20


@rule("XX101", "toy", Severity.WARNING, holds=1)
def toy(kl: Kl):
    """KL is high."""
    if kl.reference.points < LEAST or kl.reference.level < HIGH:
        return
    yield Evidence("high")
    yield Doubt("a toy")
    if kl.reference.level < 2.0:
        yield Grave(Severity.INFO)
'''
CASE = """
## High
```run
kl/reference: hold {level} for 40, noise 0.01
```
```expect
step 40: {said}
```
"""


def changes(source: str, function: str) -> list[str]:
    return [m.change for m in mutants_of(source, "toy") if m.function == function]


def test_constants_of_the_module_are_scaled() -> None:
    assert changes(TOY, "") == [
        "HIGH, LEAST: 0.5 -> 0.75", "HIGH, LEAST: 0.5 -> 0.335",
        "HIGH, LEAST: 5 -> 8", "HIGH, LEAST: 5 -> 3",
        "WIDE: 2 -> 3", "WIDE: 2 -> 1.34",
    ]  # fmt: skip


def test_a_function_is_changed_in_every_way() -> None:
    assert changes(TOY, "toy") == [
        "`x is None or (x < LEAST and name)` -> `True`",
        "`x is None or (x < LEAST and name)` -> `False`",
        "`x is None or (x < LEAST and name)` -> `x is None and (x < LEAST and name)`",
        "without `x is None`",
        "without `x < LEAST and name`",
        "`x is None` -> `x is not None`",
        "`x < LEAST and name` -> `x < LEAST or name`",
        "without `x < LEAST`",
        "without `name`",
        "`x < LEAST` -> `x >= LEAST`",
        "`x > 9` -> `x <= 9`",
        "no `yield Evidence(...)`",
        "max(i + 1, -x): min",
        "`i + 1` -> `i - 1`",
        "`-x` -> `x`",
        "`i != 3` -> `True`",
        "`i != 3` -> `i == 3`",
    ]


def test_a_mutant_differs_in_one_place_and_compiles() -> None:
    whole = ast.unparse(ast.parse(TOY)).splitlines()
    for mutant in mutants_of(TOY, "toy"):
        compile(mutant.tree, "toy", "exec")
        changed = ast.unparse(mutant.tree).splitlines()
        assert sum(a != b for a, b in zip(whole, changed, strict=True)) == 1, mutant.change
        assert mutant.line


def test_a_job_that_hangs_or_dies_has_no_answer() -> None:
    def hangs() -> None:
        while True:
            pass

    assert each_apart([lambda: 1, hangs, lambda: sys.exit(3), lambda: 2], workers=2, limit=0.5) == [1, None, None, 2]


@pytest.fixture
def like(tmp_path: Path) -> Rule:
    path = tmp_path / "toy.py"
    path.write_text(RULE)
    return next(r for r in choose(load=[path]).rules if r.name == "toy")


def fates(like: Rule, path: Path, *cases: tuple[float, str]) -> dict[str, str]:
    path.write_text("".join(CASE.format(level=level, said=said) for level, said in cases))
    return {f.mutant.change: f.fate for f in mutants.rule_fates(RULE, like, path, seeds=2, workers=2)}


def test_a_weak_case_lets_a_mutant_live(like: Rule, tmp_path: Path) -> None:
    path = tmp_path / "cases.md"
    guard = "without `kl.reference.level < HIGH`"
    weak = fates(like, path, (1.0, "fires"))
    strong = fates(like, path, (1.0, "fires"), (0.4, "clear"))
    assert weak[guard] == "same"
    assert strong[guard] == "killed"
    assert weak["no `yield Evidence(...)`"] == "killed"
    assert weak["LEAST: 20 -> 30"] == "looser"
    assert weak["no `yield Doubt(...)`"] == "words"
    assert weak["no `yield Grave(...)`"] == "severity"
    assert strong["HIGH: 0.5 -> 0.335"] == "killed"
    assert strong["HIGH: 0.5 -> 0.75"] == "same"


@pytest.mark.parametrize("name", ["kl-spike", "signal-dropped-suddenly"])
def test_a_replay_says_what_a_live_monitor_would(name: str) -> None:
    rule = find_rule(name)
    for case in read_cases(ROOT / "tests" / "cases" / f"{name}.md"):
        for step, _ in case.expects:
            run = draw(case, 0)
            assert mutants.replay(rule, mutants.looks_at(run.until(step)))[0] == verdict(rule, run, step)


def test_what_cannot_matter_is_about_mutants_that_there_are() -> None:
    for file in {file for file, _, _ in mutants.EQUIVALENT}:
        (path,) = (ROOT / "src" / "vario").glob(f"*/{file}.py")
        there = {(m.function, m.change) for m in mutants_of(path.read_text("utf-8"), file)}
        listed = {(function, change) for name, function, change in mutants.EQUIVALENT if name == file}
        assert listed <= there

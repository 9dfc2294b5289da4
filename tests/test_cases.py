"""Every rule against its literate cases: what fires, what only looks like it, what cannot be told."""

from __future__ import annotations

from pathlib import Path

import pytest

from vario.instruments.record import Record
from vario.rules import RULES, Rule
from vario.testing import BadCase, Case, draw, failures, read_cases

FOLDER = Path(__file__).parent / "cases"
FILES = {path.stem: path for path in sorted(FOLDER.glob("*.md"))}
CASES = [case for path in FILES.values() for case in read_cases(path)]
SEEDS = 20


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule.name}: {case.title}")
def test_case(case: Case) -> None:
    wrong = failures(case, SEEDS)
    if case.known:
        assert wrong, f"known defect no longer shows ({case.known}): remove the line"
        pytest.xfail(case.known)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_has_its_cases(rule: Rule) -> None:
    assert rule.name in FILES, "a rule without a case file"
    said = {word for case in CASES if case.rule is rule for _, word in case.expects}
    needs_a_metric = any(kind is not Record and not optional for kind, optional in rule.instruments)
    wanted = {"fires", "clear"} | ({"unknown"} if needs_a_metric else set())
    assert wanted <= said, f"no case says {', '.join(sorted(wanted - said))}"


def section(tmp_path: Path, run: str, expect: str = "step 1: clear") -> Case:
    path = tmp_path / "kl-spike.md"
    path.write_text(f"# x\n\n## One\n```run\n{run}\n```\n```expect\n{expect}\n```\n")
    return read_cases(path)[0]


def test_noise_of_a_case_has_memory(tmp_path: Path) -> None:
    values = draw(section(tmp_path, "kl/reference: hold 1 for 4000, noise 0.1"), 0).series["kl/reference"].values - 1.0
    assert values.std() == pytest.approx(0.1, rel=0.1)
    assert (values[1:] @ values[:-1]) / (values @ values) == pytest.approx(0.5, abs=0.06)


def test_words_of_a_case(tmp_path: Path) -> None:
    lines = [
        "config weight a 2",
        "config max_length 512",
        "config knob kl-coef 0.1",
        "config event resume at 4",
        "kl/reference: hold 1 for 2 then gap 1 then nan 1 then ramp 2 to 4 over 3, spike 9 at 2",
        "reward/component/a/mean: hold 0.5 for 7, binary",
        "eval/score/mean: hold 1 for 7, every 3",
        "reward/mean: weighted sum",
    ]
    run = draw(section(tmp_path, "\n".join(lines)), 0)
    kl = run.series["kl/reference"]
    assert kl.steps.tolist() == [1, 2, 4, 5, 6, 7]
    assert kl.values[[0, 1, 3, 4, 5]].tolist() == [1, 9, 2, 3, 4]
    assert run.series["reward/component/a/std"].values[0] == pytest.approx(0.25**0.5 * (64 / 63) ** 0.5)
    assert run.series["eval/score/mean"].steps.tolist() == [3, 6]
    assert run.series["reward/mean"].values.tolist() == [1.0] * 7
    assert run.declared.max_length == 512.0
    assert run.knobs["kl-coef"].current == 0.1
    assert run.events[0].step == 4


@pytest.mark.parametrize(
    "line",
    ["kl/referense: hold 1 for 5", "kl/reference: climb", "config colour red", "kl/reference: hold 1 for 5, loudly"],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(BadCase, match=line.split()[0]):
        draw(section(tmp_path, line), 0)


def test_a_section_needs_both_blocks(tmp_path: Path) -> None:
    path = tmp_path / "kl-spike.md"
    path.write_text("## One\nprose\n")
    with pytest.raises(BadCase, match="One"):
        read_cases(path)

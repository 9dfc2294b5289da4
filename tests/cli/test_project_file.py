"""vario.toml and [tool.vario]: what each section does, what a wrong entry says, and whose code is run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import vario
from tests.cli.logs import N, climb, noisy, trl_log, write_log
from vario.errors import ConfigError
from vario.project_file import NUMBERS, SECTIONS, WORDS, Project, find_project
from vario.rules import RULES
from vario.run import Budget
from vario.surfaces.cli import main

Capture = pytest.CaptureFixture[str]
Declare = Callable[[str], Path]

MY_RULES = '''
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vario.instruments import Look
from vario.rules.base import Evidence, Severity, Sign, raise_, rule


@dataclass(frozen=True)
class Tower:
    """An instrument of one's own."""

    height: float

    @classmethod
    def read(cls, look: Look) -> Tower:
        return cls(look.need("reward/mean").level)


@rule("MY101", "tower-stands", Severity.WARNING, turns=(raise_("group-size", "higher"),))
def tower_stands(tower: Tower) -> Iterator[Sign]:
    """The tower stands.

    What it shows:
        That this file was loaded.
    """
    yield Evidence(f"the tower is {tower.height:.2f} high", ("reward/mean",), 7)
'''
AGAIN = MY_RULES[MY_RULES.index("\n@rule") :].replace("def tower_stands", "def tower_again")


@pytest.fixture(autouse=True)
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test stands in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    yield


@pytest.fixture(params=["vario.toml", "pyproject.toml"])
def declare(request: pytest.FixtureRequest, tmp_path: Path) -> Declare:
    """Write a project file of either kind."""

    def write(text: str) -> Path:
        path = tmp_path / request.param
        if request.param == "pyproject.toml":
            text = '[project]\nname = "mine"\n' + re.sub(r"^\[", "[tool.vario.", text, flags=re.MULTILINE)
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return trl_log(tmp_path / "run" / "log.jsonl")


def diagnosed(path: Path, capsys: Capture, *more: str) -> dict:
    code = main(["diagnose", str(path), "--json", "--no-replay", *more])
    out, error = capsys.readouterr()
    assert error == ""
    made = json.loads(out)
    made["exit code"] = code
    return made


def names(made: dict) -> list[str]:
    return [f["name"] for f in made["findings"]]


# what each section does


def test_nothing_declared_is_no_project(tmp_path: Path) -> None:
    assert find_project(tmp_path / "log.jsonl") == Project()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\n')
    empty = find_project(tmp_path / "log.jsonl")
    assert (empty.numbers, empty.words, empty.budgets, empty.load) == ({}, {}, (), ())


def test_every_section_is_read(declare: Declare, tmp_path: Path) -> None:
    declare(
        '[map]\n"reward/mean" = "my reward"\n'
        '[declare]\nalgorithm = "grpo"\nreward-floor = -1\nreward-ceiling = 1.5\ntarget = 0.8\ndevices = 8\n'
        'max-completion-length = 4096\ngroup-size = 16\nupdates-per-rollout = 2\nheld-out = "eval/set/gsm8k/mean"\n'
        'baseline = "b.json"\nreference = "runs/good"\ntest-run = "runs/test"\n'
        '[budgets]\n"kl/reference" = { most = 150, unit = "nats/sequence" }\n"entropy/mean" = { least = 0.1 }\n'
        '"length/truncated-share" = 0.3\n"reward/component/*/std" = { least = 0.01, most = 2 }\n'
        '[rules]\nonly = ["KL"]\nwithout = ["kl-noisy"]\nload = ["my_rules.py"]\n'
        '[suppress]\nlength-growing = "proofs get longer"\n'
    )
    project = find_project(tmp_path)
    assert project.here
    assert project.mapping == {"reward/mean": "my reward"}
    assert project.numbers == {
        "reward-floor": -1.0, "reward-ceiling": 1.5, "target": 0.8, "devices": 8.0, "max-completion-length": 4096.0,
        "group-size": 16.0, "updates-per-rollout": 2.0,
    }  # fmt: skip
    assert set(project.numbers) == set(NUMBERS)
    assert set(project.words) == set(WORDS)
    assert project.budgets == (
        Budget("kl/reference", most=150.0, unit="nats/sequence"),
        Budget("entropy/mean", least=0.1),
        Budget("length/truncated-share", most=0.3),
        Budget("reward/component/*/std", most=2.0, least=0.01),
    )
    assert (project.only, project.without, project.load) == (("KL",), ("kl-noisy",), (tmp_path / "my_rules.py",))
    assert project.suppress == {"length-growing": "proofs get longer"}
    assert project.of_file("reference") == tmp_path / "runs" / "good"
    assert Project().of_file("reference") is None


def test_what_is_declared_reaches_the_run(declare: Declare, log: Path) -> None:
    declare('[declare]\nalgorithm = "rloo"\nreward-floor = 0\nreward-ceiling = 2\ntarget = 0.7\ndevices = 4\ngroup-size = 8\n'
            "max-completion-length = 512\nupdates-per-rollout = 1\n")  # fmt: skip
    before = vario.read(log)
    run = find_project(log).apply(before)
    assert (run.algorithm, before.algorithm) == ("rloo", "grpo")
    declared = run.declared
    assert (declared.reward_low, declared.reward_high, declared.target, declared.devices) == (0.0, 2.0, 0.7, 4.0)
    assert (declared.group_size, declared.max_length, declared.updates_per_rollout) == (8.0, 512.0, 1.0)
    assert declared.kl_by_design == before.declared.kl_by_design, "what is not said stays as it was read"


def test_map_gives_a_key_its_meaning_and_the_command_line_wins(declare: Declare, tmp_path: Path, capsys: Capture) -> None:
    path = write_log(tmp_path / "log.jsonl", {"mine": climb(), "yours": climb(1)})
    declare('[map]\n"reward/mean" = "mine"\n')
    assert diagnosed(path, capsys)["run"]["metrics"]["reward/mean"]["key"] == "mine"
    assert diagnosed(path, capsys, "--map", "reward/mean=yours")["run"]["metrics"]["reward/mean"]["key"] == "yours"
    assert main(["metrics", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unmapped"] == ["yours"]


def test_a_target_decides_a_plateau(declare: Declare, tmp_path: Path, capsys: Capture) -> None:
    flat = trl_log(tmp_path / "run" / "log.jsonl", reward=noisy(0.6, 0.005), kl=np.abs(noisy(0.004, 0.0005, seed=9)))
    only = ("--only", "VF")
    assert diagnosed(flat, capsys, *only)["verdict"]["action"] == "cannot-tell"
    declare("[declare]\ntarget = 0.55\n")
    met = diagnosed(flat, capsys, *only)["verdict"]
    assert (met["action"], met["confidence"]) == ("stop", "high")
    assert "target" in met["narrative"]
    declare("[declare]\ntarget = 0.9\n")
    assert diagnosed(flat, capsys, *only)["verdict"]["action"] == "intervene"


def test_held_out_names_one_of_several_sets(declare: Declare, tmp_path: Path, capsys: Capture) -> None:
    path = write_log(
        tmp_path / "log.jsonl",
        {"critic/score/mean": climb(), "actor/ppo_kl": noisy(0.0, 1e-4), "response_length/mean": noisy(200.0, 3.0),
         "val-core/gsm8k/acc/mean@1": climb(2), "val-core/math/acc/mean@1": noisy(0.4, 0.01)},
    )  # fmt: skip
    sets = [n for n in diagnosed(path, capsys)["run"]["metrics"] if n.startswith("eval/")]
    assert sets == ["eval/set/gsm8k/mean", "eval/set/math/mean"], "several sets are not averaged"
    file = declare('[declare]\nheld-out = "eval/set/gsm8k/mean"\n')
    made = diagnosed(path, capsys)
    assert made["run"]["metrics"]["eval/score/mean"]["key"] == "val-core/gsm8k/acc/mean@1"
    assert made["verdict"]["best_checkpoint"]["by"] == "eval/score/mean"
    declare('[declare]\nheld-out = "eval/set/aime/mean"\n')
    other = diagnosed(path, capsys)["run"]
    assert "eval/score/mean" not in other["metrics"]
    (warning,) = (w for w in other["warnings"] if "held-out" in w)
    assert all(word in warning for word in (str(file), "eval/set/aime/mean", "eval/set/gsm8k/mean, eval/set/math/mean"))


def test_a_held_out_set_that_is_not_logged_yet_is_a_warning(declare: Declare, log: Path, capsys: Capture) -> None:
    file = declare('[declare]\nheld-out = "eval/set/a/mean"\n')
    (warning,) = diagnosed(log, capsys)["run"]["warnings"]
    assert all(word in warning for word in (str(file), "held-out", "'eval/set/a/mean'", "it logs no evaluation"))


def test_devices_turn_hours_into_device_hours(declare: Declare, tmp_path: Path, capsys: Capture) -> None:
    path = trl_log(tmp_path / "run" / "log.jsonl", step_time=np.full(N, 60.0))
    alone = diagnosed(path, capsys)["verdict"]["risk"]["cost"]
    assert (alone["hours"], alone["devices"], alone["device_hours"]) == (pytest.approx(2.0), None, None)
    declare("[declare]\ndevices = 8\n")
    cost = diagnosed(path, capsys)["verdict"]["risk"]["cost"]
    assert (cost["hours"], cost["devices"], cost["device_hours"]) == (pytest.approx(2.0), 8.0, pytest.approx(16.0))


# budgets


@pytest.mark.parametrize(
    ("most", "unit", "said"),
    [
        ("0.5", ', unit = "nats/sequence"', ["kl-over-budget"]),
        ("2", ', unit = "nats/sequence"', []),
        ("0.003", "", ["kl-over-budget"]),
        ("0.003", ', unit = "nats/token"', ["kl-over-budget"]),
        ("0.5", "", []),
    ],
)
def test_a_budget_is_held_in_its_own_unit(
    declare: Declare, log: Path, capsys: Capture, most: str, unit: str, said: list[str]
) -> None:
    """KL is 0.004 nats a token over 200 tokens: 0.8 nats a sequence."""
    declare(f'[budgets]\n"kl/reference" = {{ most = {most}{unit} }}\n')
    made = diagnosed(log, capsys, "--only", "kl-over-budget")
    assert names(made) == said
    assert made["exit code"] == len(said)
    (used,) = [b for b in made["verdict"]["risk"]["budgets"] if b["name"].startswith("your ")]
    level = 0.8 if "sequence" in unit else 0.004
    assert "kl/reference" in used["name"]
    assert used["used"] == pytest.approx(level / float(most), rel=0.05)
    if said and "sequence" in unit:
        (evidence,) = made["findings"][0]["evidence"]
        assert "nats/sequence, converted by the mean length" in evidence


def test_a_budget_says_when_it_is_reached(declare: Declare, tmp_path: Path, capsys: Capture) -> None:
    path = trl_log(tmp_path / "run" / "log.jsonl", **{"completions/mean_length": noisy(np.linspace(100.0, 220.0, N), 2.0)})
    declare('[budgets]\n"length/mean" = 300\n"entropy/mean" = { least = 0.3 }\n')
    every = diagnosed(path, capsys)["verdict"]["risk"]["budgets"]
    length, entropy = (b for b in every if b["name"].startswith("your "))
    assert "length/mean" in length["name"]
    assert 180 <= length["arrives"] <= 220, "a token a step: 300 at step 200"
    assert length["interval"][0] <= length["arrives"] <= length["interval"][1]
    assert "entropy/mean" in entropy["name"]
    assert (entropy["arrives"], entropy["interval"]) == (None, None)
    assert entropy["used"] == pytest.approx(1 / 3, abs=0.03)


# rules: which are asked, and one's own


def asked(made: dict) -> set[str]:
    return {*names(made), *(u["name"] for u in made["unknown"])}


def test_only_and_without(declare: Declare, log: Path, capsys: Capture) -> None:
    everything = asked(diagnosed(log, capsys))
    assert {"kl-pinned-near-zero", "value-loss-diverging", "memory-creeping"} & everything
    declare('[rules]\nonly = ["VF", "SY104", "memory-near-capacity"]\nwithout = ["vf103"]\n')
    assert asked(diagnosed(log, capsys)) == {"value-loss-diverging", "value-explains-nothing", "memory-creeping", "memory-near-capacity"}  # fmt: skip
    assert asked(diagnosed(log, capsys, "--without", "VF")) == {"memory-creeping", "memory-near-capacity"}
    assert asked(diagnosed(log, capsys, "--only", "value_clipping_high")) == set(), "the file leaves it out"
    assert asked(diagnosed(log, capsys, "--only", "TX101")) == {"outputs-lose-diversity"}, "the command line wins"


def test_a_rule_of_one_s_own_is_in_text_json_and_the_list(declare: Declare, log: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "my_rules.py").write_text(MY_RULES)
    declare('[rules]\nload = ["my_rules.py"]\n')
    made = diagnosed(log, capsys, "--only", "MY")
    assert made["exit code"] == 1
    (finding,) = made["findings"]
    assert (finding["code"], finding["name"], finding["severity"], finding["since"]) == ("MY101", "tower-stands", "warning", 7)
    assert re.fullmatch(r"the tower is 0\.6\d high", finding["evidence"][0])
    assert finding["changes"][0]["key"] == "num_generations"
    assert main(["diagnose", str(log), "--no-replay"]) == 1
    out = capsys.readouterr().out
    assert "warning[MY101] tower-stands" in out
    assert "more: vario rule MY101" in out
    assert main(["rule"]) == 0
    assert capsys.readouterr().out.rstrip().endswith("yours\n  MY101  tower-stands                       warning")
    for word in ("tower-stands", "my101", "TOWER_STANDS"):
        assert main(["rule", word]) == 0
        page = capsys.readouterr().out
        assert page.startswith("MY101 tower-stands (warning)")
        assert "That this file was loaded." in page
        assert "- group-size (x 2): higher" in page


def test_a_rule_file_can_be_named_for_once(log: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / "elsewhere" / "mine.py"
    path.write_text(MY_RULES)
    assert names(diagnosed(log, capsys, "--rules", str(path), "--only", "MY101")) == ["tower-stands"]
    assert main(["rule", "MY101", "--rules", str(path)]) == 0
    assert main(["rule", "MY101"]) == 2


def test_rules_and_budgets_count_from_python_as_well(declare: Declare, log: Path, tmp_path: Path) -> None:
    (tmp_path / "my_rules.py").write_text(MY_RULES)
    declare('[rules]\nonly = ["MY"]\nload = ["my_rules.py"]\n[suppress]\ntower-stands = "it may"\n')
    diagnosis = vario.diagnose_path(log)
    assert diagnosis.findings == ()
    assert [(f.name, why) for f, why in diagnosis.suppressed] == [("tower-stands", "it may")]


def test_a_file_beside_a_log_elsewhere_runs_no_code(log: Path, tmp_path: Path, capsys: Capture) -> None:
    """`log` is below the folder where we stand, and not above it: its vario.toml came with the log."""
    ran = tmp_path / "ran"
    (log.parent / "evil.py").write_text(f"open({str(ran)!r}, 'w')\n{MY_RULES}")
    beside = log.parent / "vario.toml"
    beside.write_text('[rules]\nload = ["evil.py"]\n')
    assert not find_project(log).here
    for command in (["diagnose", str(log)], ["compare", str(log), str(log)], ["baseline", str(log)], ["metrics", str(log)]):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert str(beside) in error
        assert "load runs code" in error
        assert "--rules" in error
    with pytest.raises(ConfigError, match="load runs code"):
        vario.diagnose_path(log)
    assert main(["rule"]) == 0
    capsys.readouterr()
    assert not ran.exists()
    mine = tmp_path / "mine.py"
    mine.write_text(MY_RULES)
    assert main(["diagnose", str(log), "--rules", str(mine), "--only", "MY"]) == 1, "what is named by hand is trusted"
    capsys.readouterr()
    assert not ran.exists()


def test_a_link_to_the_folder_where_we_stand_is_no_way_around(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (log.parent / "vario.toml").write_text('[rules]\nload = ["x.py"]\n')
    (tmp_path / "link").symlink_to(log.parent)
    assert not find_project(tmp_path / "link").here
    monkeypatch.chdir(log.parent)
    assert find_project(log.parent / "log.jsonl").here, "we stand there"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "no Python file of rules there"),
        ("def broken(:\n", "SyntaxError"),
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("from vario.rules import RULES\n", "holds no rule; a rule is a function under @vario.rules.base.rule"),
        (MY_RULES.replace("tower-stands", "kl-noisy"), "two rules are called kl-noisy"),
        (MY_RULES.replace("MY101", "kl101"), "two rules are called kl101"),
        (MY_RULES + AGAIN.replace("MY101", "MY102"), "two rules are called tower-stands"),
        (MY_RULES + AGAIN.replace("tower-stands", "tower-fell"), "two rules are called MY101"),
    ],
    ids=["missing", "syntax", "import", "raises", "no rule", "name taken", "code taken", "name twice", "code twice"],
)
def test_a_broken_rule_file_is_named(declare: Declare, log: Path, tmp_path: Path, capsys: Capture, text: str | None, words: str) -> None:
    path = tmp_path / "my_rules.py"
    if text is not None:
        path.write_text(text)
    declare('[rules]\nload = ["my_rules.py"]\n')
    assert main(["diagnose", str(log)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error
    assert "my_rules" in error
    assert main(["rule"]) == 2
    assert words in capsys.readouterr().err


def test_a_rule_that_raises_is_told_and_stops_no_other(declare: Declare, log: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "my_rules.py").write_text(MY_RULES.replace("    yield Evidence", "    1 / 0\n    yield Evidence"))
    declare('[rules]\nload = ["my_rules.py"]\n')
    made = diagnosed(log, capsys)
    assert made["broken"] == [{"name": "tower-stands", "error": "ZeroDivisionError: division by zero"}]
    assert len(asked(made)) > 20
    assert main(["diagnose", str(log), "--no-replay"]) == made["exit code"]
    assert "rule tower-stands failed and was left out" in " ".join(capsys.readouterr().out.split())


# suppression


def test_suppressed_findings_are_kept_apart_with_their_reason(declare: Declare, log: Path, capsys: Capture) -> None:
    budget = '[budgets]\n"length/mean" = 100\n'
    declare(budget)
    loud = diagnosed(log, capsys)
    assert "metric-over-budget" in names(loud)
    assert (loud["exit code"], loud["verdict"]["action"], loud["suppressed"]) == (1, "intervene", [])
    declare(f'{budget}[suppress]\nmetric-over-budget = "proofs are meant to get longer"\n')
    quiet = diagnosed(log, capsys)
    assert "metric-over-budget" not in names(quiet)
    assert (quiet["exit code"], quiet["verdict"]["action"]) == (0, "continue")
    (kept,) = quiet["suppressed"]
    assert (kept["name"], kept["code"], kept["reason"]) == ("metric-over-budget", "RU113", "proofs are meant to get longer")
    assert kept["evidence"] == next(f for f in loud["findings"] if f["name"] == "metric-over-budget")["evidence"]
    assert main(["diagnose", str(log), "--no-replay"]) == 0
    out = capsys.readouterr().out
    assert "metric-over-budget: proofs are meant to get longer" in out.split("\nsuppressed\n")[1]
    assert "metric-over-budget" not in out.split("\nsuppressed\n")[0]


@pytest.mark.parametrize("word", ["RU113", "ru", "METRIC_OVER_BUDGET"])
def test_a_code_or_a_family_can_be_suppressed(declare: Declare, log: Path, capsys: Capture, word: str) -> None:
    declare(f'[budgets]\n"length/mean" = 100\n[suppress]\n{word} = "known"\n')
    made = diagnosed(log, capsys)
    assert [s["name"] for s in made["suppressed"]] == ["metric-over-budget"]
    assert made["exit code"] == 0


# other runs as a measure


def test_a_reference_run_is_read_with_the_same_mapping(declare: Declare, tmp_path: Path, capsys: Capture) -> None:
    write_log(tmp_path / "good" / "log.jsonl", {"mine": climb(), "entropy": noisy(0.9)})
    path = write_log(tmp_path / "new" / "log.jsonl", {"mine": climb(1) + 3.0, "entropy": noisy(0.9, seed=5)})
    declare('[map]\n"reward/mean" = "mine"\n"entropy/mean" = "entropy"\n[declare]\nreference = "good"\n')
    (finding,) = diagnosed(path, capsys, "--only", "metric-outside-reference")["findings"]
    assert finding["metrics"] == ["reward/mean"]


def test_a_test_run_decides_the_ladder(declare: Declare, tmp_path: Path, capsys: Capture) -> None:
    flat = {"seed": 3, "mine": noisy(0.3, 0.05)}
    path = write_log(tmp_path / "train" / "log.jsonl", {"mine": flat["mine"]})
    mapping = '[map]\n"reward/mean" = "mine"\n'
    declare(mapping)
    assert diagnosed(path, capsys)["verdict"]["ladder"]["rung"] == "measure-baseline"
    for values, rung in ((climb(), "data"), (noisy(0.3, 0.05, seed=8), "setup"), (climb()[:12], "measure-baseline")):
        write_log(tmp_path / "test" / "log.jsonl", {"mine": values})
        declare(f'{mapping}[declare]\ntest-run = "test"\n')
        assert diagnosed(path, capsys)["verdict"]["ladder"]["rung"] == rung


@pytest.mark.parametrize("word", ["reference", "test-run"])
def test_a_run_that_is_not_there_is_named(declare: Declare, log: Path, capsys: Capture, word: str) -> None:
    declare(f'[declare]\n{word} = "no/such/run"\n')
    assert main(["diagnose", str(log)]) == 2
    error = capsys.readouterr().err
    assert f"{word}: " in error
    assert "no/such/run" in error


# which file


def test_the_nearest_file_counts(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def target(folder: Path, value: float, name: str = "vario.toml") -> None:
        table = "[tool.vario.declare]" if name == "pyproject.toml" else "[declare]"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"{table}\ntarget = {value}\n")

    def found() -> float | None:
        return find_project(log).numbers.get("target")

    away = tmp_path / "away"
    away.mkdir()
    monkeypatch.chdir(away)
    assert found() is None
    target(away, 0.1, "pyproject.toml")
    assert found() == 0.1
    target(away, 0.2)
    assert found() == 0.2, "a file of our own comes before the shared one"
    target(tmp_path, 0.3)
    assert found() == 0.3, "above the log"
    target(log.parent, 0.4)
    assert found() == 0.4, "beside the log"
    assert find_project("-").numbers == {"target": 0.2}
    assert find_project("wandb://entity/project/run").numbers == {"target": 0.2}
    target(log.parent, 0.5, "pyproject.toml")
    assert found() == 0.4, "somebody's pyproject.toml beside a log is not ours"


def test_a_broken_pyproject_is_not_ours_to_judge(tmp_path: Path, log: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project\n")
    assert find_project(log) == Project()


# what a wrong entry says

WRONG = [
    ("[declares]\n", ("section 'declares'", ", ".join(SECTIONS))),
    ("[declare]\ntargets = 1\n", ("[declare]", "'targets'", "target?")),
    ("[declare]\nzzz = 1\n", ("[declare]", "'zzz'", "reward-floor", "test-run")),
    ('[declare]\ntarget = "high"\n', ("[declare] target", "number", "'high'")),
    ("[declare]\ntarget = true\n", ("[declare] target", "number", "True")),
    ("[declare]\ntarget = nan\n", ("[declare] target", "number")),
    ("[declare]\nreward-ceiling = inf\n", ("[declare] reward-ceiling", "number")),
    ("[declare]\ndevices = 0\n", ("[declare] devices", "above 0")),
    ("[declare]\ngroup-size = -8\n", ("[declare] group-size", "above 0", "-8")),
    ("[declare]\nalgorithm = 3\n", ("[declare] algorithm", "word", "3")),
    ('[declare]\nbaseline = ""\n', ("[declare] baseline", "word")),
    ("[declare]\nreward-floor = 1\nreward-ceiling = 1\n", ("[declare]", "reward-floor 1", "not below reward-ceiling 1")),
    ('[map]\n"reward/men" = "x"\n', ("[map]", "'reward/men'", "vario metrics --known")),
    ('[map]\n"reward/mean" = 3\n', ("[map]", '"reward/mean" = "my_reward"')),
    ('[map]\n"reward/mean" = " "\n', ("[map]", '"reward/mean" = "my_reward"')),
    ('[budgets]\n"kl/reverence" = 1\n', ("[budgets]", "'kl/reverence'", "vario metrics --known")),
    ('[budgets]\n"kl/reference" = "low"\n', ("[budgets] kl/reference", "table")),
    ('[budgets]\n"kl/reference" = { }\n', ("[budgets] kl/reference", "most, least")),
    ('[budgets]\n"kl/reference" = { unit = "nats/token" }\n', ("[budgets] kl/reference", "most, least")),
    ('[budgets]\n"kl/reference" = { most = 1, mots = 2 }\n', ("[budgets] kl/reference", "most, least")),
    ('[budgets]\n"kl/reference" = { most = "1" }\n', ("[budgets] kl/reference", "numbers")),
    ('[budgets]\n"kl/reference" = { most = "1", least = 0 }\n', ("[budgets] kl/reference", "numbers")),
    ('[budgets]\n"kl/reference" = { most = 1, least = 2 }\n', ("[budgets] kl/reference", "least 2 is above most 1")),
    ('[budgets]\n"kl/reference" = { most = nan }\n', ("[budgets] kl/reference", "numbers")),
    ('[budgets]\n"kl/reference" = { most = 1, unit = "bits" }\n', ("[budgets] kl/reference is in nats/token", "'bits'")),
    ('[budgets]\n"kl/reference" = { most = 1, unit = ["nats/token"] }\n', ("[budgets] kl/reference is in nats/token",)),
    ('[budgets]\n"length/mean" = { most = 1, unit = "nats/token" }\n', ("[budgets] length/mean is in tokens", "nats/token")),
    ('[rules]\nolny = ["KL"]\n', ("[rules]", "'olny'", "only, without and load")),
    ('[rules]\nonly = "KL"\n', ("[rules] only", "list", 'only = ["KL101"]')),
    ("[rules]\nwithout = [1]\n", ("[rules] without", "list")),
    ('[rules]\nonly = ["kl-runawy"]\n', ("[rules] only", "'kl-runawy'", "kl-runaway?")),
    ('[rules]\nwithout = ["zzzzzz"]\n', ("[rules] without", "'zzzzzz'", "`vario rule` lists them all")),
    ('[suppress]\nlength-grows = "why"\n', ("[suppress]", "'length-grows'", "length-growing?")),
    ('[suppress]\nlength-growing = ""\n', ("[suppress]", 'length-growing = "why it is no news here"')),
    ("[suppress]\nlength-growing = true\n", ("[suppress]", 'length-growing = "why it is no news here"')),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), WRONG, ids=[w[0].strip().replace("\n", " ") for w in WRONG])
def test_a_wrong_entry_says_which_file_where_and_what_to_try(
    declare: Declare, log: Path, capsys: Capture, text: str, words: tuple[str, ...]
) -> None:
    path = declare(text)
    assert main(["diagnose", str(log), "--no-replay"]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1, "one line"
    assert error.startswith("vario: ")
    for word in (str(path), *words):
        assert word in error
    assert "internal error" not in error


def test_a_section_that_is_no_table(tmp_path: Path, log: Path, capsys: Capture) -> None:
    for section in SECTIONS:
        (tmp_path / "vario.toml").write_text(f"{section} = 3\n")
        assert main(["diagnose", str(log)]) == 2
        error = capsys.readouterr().err
        assert f"[{section}]: a table was expected" in error
        assert str(tmp_path / "vario.toml") in error


@pytest.mark.parametrize("content", [b"[declare\n", b"target = 0.5 0.6\n", b"\xff\xfe\x00"])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, log: Path, capsys: Capture, content: bytes) -> None:
    (tmp_path / "vario.toml").write_bytes(content)
    assert main(["diagnose", str(log)]) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path / 'vario.toml'}: cannot be read as TOML" in error


def test_a_key_that_the_log_lacks_is_told_with_those_it_holds(declare: Declare, log: Path, capsys: Capture) -> None:
    declare('[map]\n"reward/mean" = "no such key"\n')
    assert main(["diagnose", str(log)]) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in ("[map]", "'no such key'", "it holds", "completions/mean_length"))


# packages that offer rules


def installed(folder: Path, target: str, module: str | None, name: str = "fake") -> None:
    """An installed distribution with an entry point of the group."""
    info = folder / f"{name}_rules-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-rules\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[vario.rules]\n{name} = {target}\n")
    if module is not None:
        (folder / f"{target.split(':')[0]}.py").write_text(module)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.mark.parametrize("offered", ["tower_stands", "ALL"])
def test_an_installed_package_adds_rules(site: Path, log: Path, capsys: Capture, offered: str) -> None:
    module = f"tower_of_{offered.lower()}"
    installed(site, f"{module}:{offered}", f"{MY_RULES}\n\nALL = (tower_stands,)\n")
    assert names(diagnosed(log, capsys, "--only", "MY101")) == ["tower-stands"]
    assert main(["rule", "tower-stands"]) == 0
    assert "That this file was loaded." in capsys.readouterr().out
    assert main(["rule"]) == 0
    assert "tower-stands" in capsys.readouterr().out.split("\nyours\n")[1]


def test_a_package_that_cannot_be_loaded_is_a_warning(site: Path, log: Path, capsys: Capture) -> None:
    installed(site, "tower_of_nowhere:rules", "1 / 0\n", "broken")
    installed(site, "tower_of_sound:tower_stands", MY_RULES)
    made = diagnosed(log, capsys, "--only", "MY")
    assert names(made) == ["tower-stands"]
    (warning,) = made["run"]["warnings"]
    assert "tower_of_nowhere:rules could not be loaded (ZeroDivisionError" in warning
    assert main(["diagnose", str(log), "--no-replay", "--exit-zero"]) == 0
    assert "! the rules of tower_of_nowhere:rules could not be loaded" in capsys.readouterr().out


def test_without_packages_there_are_the_rules_of_the_table(capsys: Capture) -> None:
    assert main(["rule"]) == 0
    out = capsys.readouterr().out
    assert "\nyours\n" not in out
    assert all(rule.name in out for rule in RULES)

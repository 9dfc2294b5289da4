"""The pages on judgement are told from top to bottom in a folder that is made here: every command and block runs.

A block below a line such as "`my_rules.py`:" is that file; TOML without a name is `vario.toml`, or `pyproject.toml`.
A block of text stands below a command and is part of what it prints; `…` stands for what was left out.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import vario
from tests.conftest import GOLDEN, ROOT
from vario import project_file
from vario.instruments import kl
from vario.rules import RULES, base, find_rule
from vario.rules.base import HEADINGS, Evidence, Fires, Severity
from vario.rules.choice import GROUP, choose
from vario.rules.engine import COOL_LOOKS, LEAVE_LOOKS, SURE_ROWS, Incident
from vario.stats import forecast
from vario.stats.shape import MIN_POINTS
from vario.surfaces.cli import _parser, main
from vario.verdict import advice, ladder, profile, trajectory
from vario.verdict.advice import Situation, advise
from vario.verdict.ladder import Rung

PAGES = ("concepts", "your-project", "your-rules", "comparing-runs")
TEXTS = {page: (ROOT / f"docs/{page}.md").read_text(encoding="utf-8") for page in PAGES}
BLOCK = re.compile(r"(?:^`([\w./-]+)`:\n\n)?^(```+)(\w+)\n(.*?)^\2$", flags=re.MULTILINE | re.DOTALL)
Row = dict[str, float]


# what the pages are told about


def noise(seed: int, size: float, n: int = 120) -> Iterator[float]:
    """With memory, as in the curves of real runs."""
    drawn, last = random.Random(seed), 0.0
    for _ in range(n):
        last = 0.5 * last + drawn.gauss(0.0, size)
        yield last


def write_rows(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"step": i} | row) + "\n" for i, row in enumerate(rows, 1)))


def write_verl(folder: Path, *, rise: float, trained_on: str, steps: int = 120) -> None:
    """A run of verl that learns nothing, or, on the test set, something."""
    rows = [
        {
            "critic/rewards/mean": 0.22 + rise * min(1.0, s / 80) + e,
            "actor/kl_loss": 0.002 + 0.0005 * s**0.5 + abs(e) / 50,
            "actor/entropy": 0.5 - 0.0005 * s + e / 2,
            "actor/grad_norm": 0.3 + e,
            "response_length/mean": 410.0 + 500.0 * e,
            "timing_s/step": 60.0,
        }
        for s, e in enumerate(noise(3, 0.015, steps), 1)
    ]
    write_rows(folder / "metrics.jsonl", rows)
    config = {
        "data": {"train_files": trained_on, "val_files": "data/test.parquet", "train_batch_size": 128},
        "actor_rollout_ref": {
            "actor": {"optim": {"lr": 1e-6}, "use_kl_loss": True, "kl_loss_coef": 0.001},
            "rollout": {"n": 8},
        },
        "algorithm": {"adv_estimator": "grpo"},
    }
    (folder / "config.json").write_text(json.dumps(config))


def write_areal(folder: Path) -> None:
    """An asynchronous run whose samples get old; the proximal policy leaves the sampler's."""
    rows = []
    for s, e in enumerate(noise(1, 0.02), 1):
        age = 1.0 + 5.0 * min(1.0, s / 80)
        rows.append(
            {
                "ppo_actor/task_reward/avg": 0.3 + 0.0005 * s + e,
                "ppo_actor/update/version_stats/sample_staleness_theta_avg": age + 2.0 * e,
                "ppo_actor/update/behave_imp_weight/avg": 1.0 - 0.08 * (age - 1.0) + e / 4,
                "ppo_actor/update/entropy/avg": 0.6 + e / 4,
                "timeperf/rollout": 1.0,
                "timeperf/train_step": 12.0,
            }
        )
    write_rows(folder / "metrics.jsonl", rows)
    config = {
        "rollout": {"max_head_offpolicyness": 8},
        "actor": {"use_decoupled_loss": True, "recompute_logprob": True, "kl_ctl": 0.0, "ppo_n_minibatches": 4},
        "gconfig": {"n_samples": 8, "max_new_tokens": 1024},
    }
    (folder / "config.json").write_text(json.dumps(config))


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every run that the pages name."""
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(GOLDEN / "grpo-drift", home / "runs/my-run")
    shutil.copytree(GOLDEN / "grpo-healthy-kl", home / "runs/good")
    write_verl(home / "runs/stuck", rise=0.0, trained_on="data/train.parquet")
    write_verl(home / "runs/stuck-on-test", rise=0.3, trained_on="data/test.parquet")
    write_areal(home / "runs/async")
    held_out = [
        {
            "critic/score/mean": 0.3 + 0.003 * s + e,
            "val-core/gsm8k/reward/mean@1": 0.4 + 0.003 * s + e,
            "val-core/math/reward/mean@1": 0.6 - 0.004 * s + e,
        }
        for s, e in enumerate(noise(2, 0.005, 80), 1)
    ]
    write_rows(home / "runs/two-sets/metrics.jsonl", held_out)
    turns = [
        {"rollout/reward": 0.4 + e, "rollout/num_turns": max(1.0, 4.0 - 0.05 * s)}
        for s, e in enumerate(noise(4, 0.02), 1)
    ]
    write_rows(home / "runs/agent/metrics.jsonl", [row | {"ppo_actor/update/grad_norm": 0.5} for row in turns])
    write_rows(home / "my-loop.jsonl", [{"my_reward": 0.3 + e, "drift": 0.01 + abs(e)} for e in noise(5, 0.02)])
    evaluated = next(json.loads(body) for _, _, kind, body in BLOCK.findall(TEXTS["comparing-runs"]) if kind == "json")
    evaluation = [{k: v * (1.0 + e) for k, v in evaluated.items() if k != "step"} for e in noise(6, 0.03, 20)]
    write_rows(home / "base-model.jsonl", evaluation)
    return home


# the telling


@dataclass
class Told:
    """A command, what came of it, and what the page shows of its output."""

    line: str
    code: int
    out: str
    shown: list[str] = field(default_factory=list)


@functools.cache
def told(page: str, home: Path) -> tuple[Told, ...]:
    """Every command of a page, run in the order of the page."""
    found: list[Told] = []
    with tempfile.TemporaryDirectory(dir=home.parent) as place, contextlib.chdir(place):
        here = Path.cwd()
        shutil.copytree(home, here, dirs_exist_ok=True)
        for name, body in FILES.items():
            _write(here / name, body)
        for name, _, kind, body in BLOCK.findall(TEXTS[page]):
            if kind == "toml" and not name:
                (here / "vario.toml").unlink(missing_ok=True)
                _write(here / ("pyproject.toml" if "[tool.vario" in body else "vario.toml"), body)
            elif name:
                _write(here / name, body)
            elif kind == "sh":
                found += [_run(line, here) for line in body.splitlines()]
            elif kind == "python":
                found.append(_python(body, here))
            elif kind == "text":
                found[-1].shown.append(body)
    return tuple(found)


FILES = {name: body for page in PAGES for name, _, _, body in BLOCK.findall(TEXTS[page]) if name}
"""Files that one page makes and another one uses."""


def _write(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(body)


def _run(line: str, here: Path) -> Told:
    words = shlex.split(line, comments=True)
    if words[:2] == ["pip", "install"]:
        (here / "vario.toml").unlink()  # as the page says: a rule that is there twice is an error
        return Told(line, _install(here / words[2], here), "")
    if words[0] == "pytest":
        done = subprocess.run(
            [sys.executable, "-m", *words, "-p", "no:cacheprovider"], capture_output=True, text=True, cwd=here
        )
        return Told(line, done.returncode, done.stdout + done.stderr)
    assert words[0] == "vario", line
    with _installed(here), _heard() as heard:
        code = main(words[1:])
    return Told(line, code, heard.getvalue())


def _python(body: str, here: Path) -> Told:
    with _installed(here), _heard() as heard:
        exec(compile(body, "block of a page", "exec"), {"__name__": "page"})
    return Told(body, 0, heard.getvalue())


@contextlib.contextmanager
def _heard() -> Iterator[io.StringIO]:
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
        yield heard


def _install(package: Path, here: Path) -> int:
    """What pip would leave there: the modules, and a note of the entry points."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    note = here / f"site/{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    note.mkdir(parents=True)
    (note / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]
    lines = [f"[{group}]\n" + "".join(f"{n} = {v}\n" for n, v in points[group].items()) for group in points]
    (note / "entry_points.txt").write_text("".join(lines))
    for target in points[GROUP].values():
        module = target.partition(":")[0]
        shutil.copy(here / f"{module}.py", here / "site")
    return 0


@contextlib.contextmanager
def _installed(here: Path) -> Iterator[None]:
    """What was installed there is there for one command."""
    before, modules = list(sys.path), set(sys.modules)
    sys.path[:0] = [str(here / "site")] if (here / "site").is_dir() else []
    try:
        yield
    finally:
        sys.path[:] = before
        if "my_rules" not in modules:
            sys.modules.pop("my_rules", None)


def packed(text: str) -> str:
    """Without white space: how lines are broken is no part of what they say."""
    return re.sub(r"\s+", "", text)


LINES = [
    (page, line)
    for page in PAGES
    for _, _, kind, body in BLOCK.findall(TEXTS[page])
    if kind == "sh"
    for line in body.splitlines()
]


@pytest.mark.parametrize(("page", "line"), LINES, ids=[f"{page}: {line}" for page, line in LINES])
def test_command_runs(page: str, line: str, home: Path) -> None:
    for done in told(page, home):
        if done.line == line:
            said = re.search(r"# exit code (\d)", line)
            assert done.code in ((int(said[1]),) if said else (0, 1)), done.out
            assert "internal error" not in done.out
            assert "could not be loaded" not in done.out
            assert "and was left out" not in done.out
            assert done.out.strip() or line.startswith("pip ")


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_is_printed(page: str, home: Path) -> None:
    for done in told(page, home):
        for shown in done.shown:
            rest = packed(done.out)
            for part in re.split(r"…|\n", shown):
                if wanted := packed(part):
                    _, found, rest = rest.partition(wanted)
                    assert found, f"{done.line}\nprints no {part!r} there:\n{done.out}"


@pytest.mark.parametrize("page", PAGES)
def test_what_is_printed_fits_a_terminal(page: str, home: Path) -> None:
    for done in told(page, home):
        if "--json" not in done.line and done.line.startswith(("vario diagnose", "vario compare")):
            assert max(map(len, done.out.splitlines())) <= 80, done.line


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_sentences_are_understood(page: str) -> None:
    prose = re.sub(r"^(```+)\w+\n.*?^\1$", "", TEXTS[page], flags=re.MULTILINE | re.DOTALL)
    for command in re.findall(r"`(vario \w[^`]*)`", prose):
        words = shlex.split(command)[1:]
        with_path = [*words, "A", "B"] if words == ["compare"] else [*words, "PATH"] if len(words) == 1 else words
        with _heard() as heard:
            assert _parser().parse_args(with_path).command == words[0], heard.getvalue()
    for option in re.findall(r"`(--[\w-]+)", prose):
        assert option in "".join(_usage(c) for c in ("diagnose", "compare", "baseline", "metrics", "rule")), option


@functools.cache
def _usage(command: str) -> str:
    with _heard() as heard, contextlib.suppress(SystemExit):
        main([command, "--help"])
    return heard.getvalue()


@pytest.mark.parametrize("page", PAGES)
def test_rules_that_are_named_exist(page: str) -> None:
    own = set(re.findall(r'"(MY\d{3})"', TEXTS["your-rules"]))
    for code in set(re.findall(r"\b[A-Z]{2}\d{3}\b", TEXTS[page])) - own:
        assert find_rule(code)


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_linked_from_the_index(page: str) -> None:
    assert f"]({page}.md)" in (ROOT / "docs/index.md").read_text(encoding="utf-8")


# what the pages promise


def of(page: str, start: str, home: Path) -> list[Told]:
    return [done for done in told(page, home) if done.line.startswith(start)]


def table_below(page: str, heading: str) -> list[list[str]]:
    """Rows of the first table below a heading, without its head."""
    part = re.split(rf"^#+ {re.escape(heading)}$", TEXTS[page], maxsplit=1, flags=re.MULTILINE)[1]
    rows = list(re.findall(r"^\| (.*) \|$", part.split("\n#")[0], flags=re.MULTILINE))
    return [row.split(" | ") for row in rows[2:]]


def test_concepts_have_every_trajectory() -> None:
    assert [row[0] for row in table_below("concepts", "Trajectory")] == list(trajectory.WORDS)


def firing(name: str) -> Incident:
    return Incident(find_rule(name), 5, 10, None, Fires((Evidence("seen"),)), 200)


FATAL = next(n for n in advice.FATAL if n not in advice.REPAIRABLE and find_rule(n).severity == Severity.CRITICAL)
MENDED = next(n for n in sorted(advice.REPAIRABLE) if find_rule(n).severity == Severity.CRITICAL)
SEEN = {"kl", "entropy"}
ROWS = (
    Situation("too-short", "high", "unknown", (), False, frozenset()),
    Situation("rising", "high", "unknown", (firing(MENDED),), False, frozenset(SEEN)),
    Situation("rising", "high", "kl-up-reward-down", (firing(FATAL),), False, frozenset(SEEN)),
    Situation("peaked", "high", "kl-up-reward-down", (), False, frozenset(SEEN)),
    Situation("peaked", "high", "kl-flat-reward-down", (), True, frozenset(SEEN)),
    Situation("plateau", "high", "kl-flat-reward-flat", (), True, frozenset(SEEN), target_met=True),
    Situation(
        "plateau",
        "high",
        "kl-flat-reward-flat",
        (firing("kl-rises-without-reward"),),
        False,
        frozenset(SEEN),
        None,
        True,
    ),
    Situation("plateau", "high", "kl-up-reward-flat", (firing("kl-rises-without-reward"),), False, frozenset(SEEN)),
    Situation("rising", "high", "unknown", (firing("preference-saturated"),), False, frozenset(SEEN), False),
    Situation("declining", "high", "unknown", (firing("truncation-high"),), False, frozenset(SEEN)),
    Situation("declining", "high", "kl-flat-reward-down", (), False, frozenset(SEEN)),
    Situation("rising", "high", "unknown", (), False, frozenset()),
    Situation("saturated", "high", "kl-up-reward-flat", (), False, frozenset(SEEN)),
    Situation("noise", "high", "kl-up-reward-flat", (), False, frozenset(SEEN)),
    Situation("noise", "high", "kl-flat-reward-flat", (), False, frozenset(SEEN), target_met=False),
    Situation("plateau", "high", "kl-flat-reward-flat", (), False, frozenset(SEEN), target_met=False),
    Situation("plateau", "high", "kl-flat-reward-flat", (), False, frozenset(SEEN)),
)
"""One situation for each row of the page; most of them also meet a later row, which must not win."""


def test_concepts_have_the_table_of_actions() -> None:
    rows = table_below("concepts", "Action")
    said = [advise(situation) for situation in ROWS]
    assert len(rows) == len(ROWS)
    for (seen, action), advised in zip(rows, said, strict=True):
        wanted = re.split(r"[;:,]", action)[0].replace(" ", "-")
        assert advised.action == wanted, f"{seen}: {advised}"
        if "low confidence" in action and "where" not in action:
            assert advised.confidence == "low"
    assert len({advised.why for advised in said}) == len(said), "each row is one of its own"


def test_numbers_of_the_concepts() -> None:
    text = " ".join(TEXTS["concepts"].split())
    assert (LEAVE_LOOKS, COOL_LOOKS, SURE_ROWS, MIN_POINTS, forecast.LEAST) == (2, 3, 60, 24, 20)
    assert (forecast.CUTS[0], forecast.CUTS[-1], kl.STILL["nats/token"]) == (0.5, 0.8, 0.005)
    for said in (
        "two looks in a row without it", "within three looks", "fewer than 60 logged rows", "fewer than 24 points",
        "fewer than 20 points of a score", "from 50 to 80 % of the data", "below 0.005 nats a token", "fewer than 72 points",
    ):  # fmt: skip
        assert said in text, said


def test_neither_advice_nor_exit_code_heeds_a_suppressed_finding(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # long enough that even a slow rise would show
    write_verl(home / "runs/stuck-for-long", rise=0.0, trained_on="data/train.parquet", steps=800)
    run = vario.read(home / "runs/stuck-for-long")
    before = vario.diagnose(run)
    loud = [f.name for f in before.findings]
    assert "reward-never-rises" in loud
    assert before.verdict.action != "continue"
    silent = vario.diagnose(run, choice=choose(suppress=dict.fromkeys(loud, "known here")))
    assert {f.name for f, _ in silent.suppressed} >= set(loud)
    assert not set(loud) & {f.name for f in silent.findings}
    assert not [name for name in loud if name in silent.verdict.why]
    monkeypatch.chdir(tmp_path)
    assert main(["diagnose", str(home / "runs/stuck-for-long")]) == 1
    (tmp_path / "vario.toml").write_text('[suppress]\nreward-never-rises = "known here"\n')
    assert main(["diagnose", str(home / "runs/stuck-for-long")]) == 0
    assert "reward-never-rises: known here" in capsys.readouterr().out


def test_every_section_and_name_of_the_project_file_is_told() -> None:
    text = TEXTS["your-project"]
    for section in project_file.SECTIONS:
        assert f"\n[{section}]\n" in text
    names = {
        name
        for row in table_below("your-project", "What is known of the run")
        for name in re.findall(r"`([a-z-]+)`", row[0])
    }
    assert names == {*project_file.NUMBERS, *project_file.WORDS}


def test_the_target_turns_cannot_tell_into_stop(home: Path) -> None:
    assert vario.diagnose(vario.read(home / "runs/good")).verdict.action == "cannot-tell"
    assert of("your-project", "vario diagnose runs/good", home)[0].out.startswith("runs/good: trl")


def test_the_nearest_file_counts_alone(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(home / "runs/good", tmp_path / "runs/good")
    (tmp_path / "vario.toml").write_text('[declare]\ntarget = 1.0\n\n[suppress]\nkl-spike = "known"\n')
    (tmp_path / "runs/vario.toml").write_text("[declare]\ntarget = 2.0\n")
    monkeypatch.chdir(tmp_path)
    project = project_file.find_project("runs/good")
    assert project.numbers == {"target": 2.0}
    assert not project.suppress


@pytest.mark.parametrize(
    "said",
    ["[declares]\na = 1", "[declare]\ntarjet = 1", '[budgets]\n"kl/referense" = 1', '[rules]\nonly = ["KLL"]', '[suppress]\nkl-spik = "x"', '[suppress]\nkl-spike = ""'],
)  # fmt: skip
def test_a_slip_of_the_pen_is_an_error(
    said: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "vario.toml").write_text(said + "\n")
    monkeypatch.chdir(tmp_path)
    assert main(["diagnose", str(home / "runs/good")]) == 2
    assert capsys.readouterr().err.startswith("vario: ")


def test_code_beside_a_log_is_not_run(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(home / "runs/good", tmp_path / "downloaded/run")
    (tmp_path / "downloaded/theirs.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w').close()\n")
    (tmp_path / "downloaded/vario.toml").write_text('[rules]\nload = ["theirs.py"]\n')
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    assert main(["diagnose", "../downloaded/run"]) == 2
    assert "not where you stand" in capsys.readouterr().err
    assert not (tmp_path / "executed").exists()
    monkeypatch.chdir(tmp_path / "downloaded/run")
    main(["diagnose", "."])
    assert (tmp_path / "executed").exists()


def test_python_sees_the_project(home: Path) -> None:
    (block,) = (done for done in told("your-project", home) if "find_project" in done.line)
    assert block.out.strip() == "stop ['length-shrinking']"


def test_the_rule_of_the_page_is_seen_everywhere(home: Path) -> None:
    once, *later = of("your-rules", "vario diagnose runs/my-run", home)
    assert "answers-one-length" in once.out
    assert len(later) == 2
    for done in later:  # by vario.toml, and by the package
        assert "warning[MY101] answers-one-length" in done.out
    assert "answers-one-length" in of("your-rules", "vario compare", home)[0].out
    (python,) = (done for done in told("your-rules", home) if "vario.diagnose(vario.read" in done.line)
    assert python.out.strip() == "['answers-one-length']"


def test_the_group_of_the_page_is_the_one_that_is_read() -> None:
    assert f'[project.entry-points."{GROUP}"]' in TEXTS["your-rules"]


def test_the_example_has_a_code_and_headings_of_its_own() -> None:
    assert not [rule for rule in RULES if rule.code.startswith("MY")]
    assert [h for h in HEADINGS if f"    {h}:\n" in TEXTS["your-rules"]] == list(HEADINGS)


def test_the_words_of_a_rule_are_there() -> None:
    said = re.findall(r"`(Evidence|Doubt|Excluded|Aside|Grave|Apart)`", TEXTS["your-rules"])
    assert set(said) == {kind.__name__ for kind in typing.get_args(base.Sign)}
    for word in ("raise_", "lower", "set_", "required"):
        assert callable(getattr(base, word))


def test_the_ladder_has_every_rung_that_is_shown() -> None:
    shown = {row[0].strip("`") for row in table_below("comparing-runs", "Rewards that do not rise")}
    assert shown == {rung.value for rung in ladder.BRANCHES if rung not in (Rung.RISES, Rung.TOO_EARLY)}


def test_every_experiment_is_told() -> None:
    source = (ROOT / "src/vario/verdict/experiments.py").read_text(encoding="utf-8")
    made = set(re.findall(r'_made\(\s*run,\s*"([\w-]+)"', source))
    assert {row[0].strip("`") for row in table_below("comparing-runs", "Experiments")} == made


def test_what_a_baseline_holds() -> None:
    text = " ".join(TEXTS["comparing-runs"].split())
    assert profile.FIRST == 5
    assert "the first five rows" in text
    words = {"length/": "lengths", "text/": "text measures", "entropy/": "entropy", "reward/": "rewards", "signal/": "learning signal", "eval/": "held-out scores", "preference/": "preference"}  # fmt: skip
    assert set(words) == set(profile.BEFORE)
    for word in words.values():
        assert word in text.split("The file holds")[1].split(".")[0], word


def test_the_patch_of_the_page_is_synchronous(home: Path) -> None:
    (python,) = (done for done in told("comparing-runs", home) if "experiment.patch" in done.line)
    assert "synchronous {'rollout.max_head_offpolicyness': 0" in python.out

"""`vario samples`: completions found, shown, kept from being shown, and marked."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pl = pytest.importorskip("polars")

import vario  # noqa: E402
from tests.cli.dumps import A_STEP, GROUP, KEY, answer, broken_at, rising, trl_run, viewer_dump  # noqa: E402
from tests.cli.logs import trl_log  # noqa: E402
from tests.unit.test_privacy import HELD, KEYS  # noqa: E402
from vario.surfaces.cli import main  # noqa: E402
from vario.surfaces.privacy import MASK  # noqa: E402

Capture = pytest.CaptureFixture[str]
LONG = " ".join(f"{i:04}" for i in range(1000))
TEXTS = {
    (50, 0): f"My key is {KEY}, keep it.",
    (50, 1): "red\x1b[31m bell\x07 back\u202e c1\x9b2J nul\x00 end",
    (50, 2): LONG,
    (50, 3): "设三加四等于七。所以答案是七。",
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that rises, with four odd texts at step 50."""
    return trl_run(tmp_path_factory.mktemp("samples") / "good", texts=TEXTS)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose reward function broke at step 60."""
    return trl_run(tmp_path_factory.mktemp("samples") / "broken", broken_at(60))


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return viewer_dump(tmp_path_factory.mktemp("samples") / "alone" / "samples.jsonl").parent


def said(capsys: Capture, *arguments: object, code: int = 0) -> str:
    got = main(["samples", *map(str, arguments)])
    out, error = capsys.readouterr()
    assert got == code, error
    if code:
        assert out == ""
        assert error.startswith("vario: ")
        assert "internal error" not in error
    return error if code else out


def objects(capsys: Capture, *arguments: object) -> list[dict]:
    return [json.loads(line) for line in said(capsys, *arguments, "--json").split("\n") if line]


def names(capsys: Capture, *arguments: object) -> list[str]:
    return [f"{o['step']}/{o['number']}" for o in objects(capsys, *arguments)]


# what is there


def test_the_overview_lists_the_steps(good: Path, capsys: Capture) -> None:
    out = said(capsys, good)
    assert out.startswith(f"{good}: 400 completions of 50 steps\n")
    rows = [line.split() for line in out.splitlines() if line.split()[:1] and line.split()[0].isdigit()]
    assert [row[0] for row in rows] == [str(s) for s in [*range(2, 41, 2), *range(62, 101, 2)]], "the first and the last twenty"
    assert all(row[1:3] == ["8", "2"] for row in rows)
    assert max(map(len, out.splitlines()[1:])) <= 80
    every = objects(capsys, good)
    assert [o["step"] for o in every] == list(range(2, 101, 2))
    reward = vario.read(good).series["samples/reward/mean"].values
    assert [o["reward"] for o in every] == pytest.approx(reward.tolist())


def test_a_step_a_range_and_a_bound(good: Path, capsys: Capture) -> None:
    assert names(capsys, good, "--step", 50) == [f"50/{n}" for n in range(8)]
    assert names(capsys, good, "--step", "48-52", "-n", 100) == [f"{s}/{n}" for s in (48, 50, 52) for n in range(8)]
    assert names(capsys, good, "--step", "47-50", "-n", 3) == ["48/0", "48/1", "48/2"]
    assert names(capsys, good, "--step", 51) == []
    assert "no completion is as wished" in said(capsys, good, "--step", 51)
    assert "no completion is as wished" in said(capsys, good, "--step", "60-50")


def test_single_ones_in_the_order_of_the_wish(good: Path, capsys: Capture) -> None:
    assert names(capsys, good, "50/7", "48/0", "50/2") == ["50/7", "48/0", "50/2"]
    out = said(capsys, good, "48/5")
    assert out.startswith("48/5  reward ")
    assert "correctness 0." in out
    assert "How much is 48 plus 1?" in out
    assert answer(48, 5)[:40] in out


def test_the_answers_to_one_prompt(good: Path, capsys: Capture) -> None:
    assert names(capsys, good, "--group", "48/6") == ["48/4", "48/5", "48/6", "48/7"]
    prompts = {o["prompt"] for o in objects(capsys, good, "--group", "48/1")}
    assert prompts == {"How much is 48 plus 0?"}


@pytest.mark.parametrize(("by", "measure"), [("reward", "reward"), ("advantage", "advantage"), ("length", "size"), ("entropy", "entropy")])
def test_in_order(good: Path, capsys: Capture, by: str, measure: str) -> None:
    found = [o["measures"] for o in objects(capsys, good, "--by", by, "-n", 1000)]
    values = [m[measure] for m in found]
    assert len(values) == 400
    if by != "length":  # in tokens, which follow bytes within a step
        assert values == sorted(values, reverse=True)
    lowest = [o["measures"][measure] for o in objects(capsys, good, "--by", by, "--lowest", "-n", 400)]
    if by != "length":
        assert lowest == values[::-1]
    assert names(capsys, good, "--by", "length", "-n", 1) == ["50/2"]


def test_in_order_of_repetition(tmp_path: Path, capsys: Capture) -> None:
    folder = kinds(tmp_path)
    found = objects(capsys, folder, "--by", "repetition", "-n", 2)
    assert found[0]["completion"].startswith("and so")
    assert found[0]["measures"]["repetition"] > 0.8


def kinds(folder: Path) -> Path:
    """One completion of each kind at each of three steps."""
    texts = {
        "truncated": "This one goes on and", "repetitive": "and so on " * 60, "duplicated": "The same for both of us.",
        "garbled": "The answer \ufffd\ufffd\ufffd is", "empty": "", "plain": "All is well with this one.",
    }  # fmt: skip
    rows = []
    for step in (1, 2, 3):
        for n, (kind, text) in enumerate([*texts.items(), ("duplicated", texts["duplicated"])]):
            rows.append(
                {"step": step, "prompt": f"p{step}", "completion": text, "reward": n / 8, "truncated": kind == "truncated"}
            )
    folder.mkdir(exist_ok=True)
    (folder / "samples.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return folder


@pytest.mark.parametrize(
    ("kind", "numbers"), [("truncated", [0]), ("repetitive", [1]), ("duplicated", [2, 6]), ("garbled", [3]), ("empty", [4])]
)
def test_one_kind(tmp_path: Path, capsys: Capture, kind: str, numbers: list[int]) -> None:
    folder = kinds(tmp_path)
    found = objects(capsys, folder, "--only", kind, "-n", 100)
    assert sorted((o["step"], o["number"]) for o in found) == [(s, n) for s in (1, 2, 3) for n in numbers]
    if kind != "repetitive":
        assert all(o["measures"][kind] == 1.0 for o in found)
    assert names(capsys, folder, "--only", kind, "--step", 2) == [f"2/{n}" for n in numbers[::-1]], "the best paid first"
    out = said(capsys, folder, "--only", kind, "-n", 1)
    assert ("in a loop" if kind == "repetitive" else kind) in out.splitlines()[0]


def test_evaluations_are_apart(tmp_path: Path, capsys: Capture) -> None:
    viewer_dump(tmp_path / "samples.jsonl")
    viewer_dump(tmp_path / "eval_samples.jsonl", (2, 4), ref_reward=0.5)
    assert [o["step"] for o in objects(capsys, tmp_path)] == [1, 2, 3]
    assert [o["step"] for o in objects(capsys, tmp_path, "--eval")] == [2, 4]
    assert "16 completions of evaluations of 2 steps" in said(capsys, tmp_path, "--eval")
    found = objects(capsys, tmp_path, "--eval", "--step", 4, "-n", 2)
    assert [(o["step"], o["evaluation"]) for o in found] == [(4, True)] * 2
    said(capsys, tmp_path, "4/0", code=2)
    assert names(capsys, tmp_path, "4/0", "--eval") == ["4/0"]


# what a finding points to


@pytest.mark.parametrize("word", ["reward-function-broke", "RU104"])
def test_a_finding_shows_its_completions(broken: Path, capsys: Capture, word: str) -> None:
    out = said(capsys, broken, "--finding", word)
    assert out.startswith("reward-function-broke: 8 completions of steps 80 to 100 with the lowest reward\n")
    (finding,) = [f for f in vario.diagnose(vario.read(broken)).findings if f.name == "reward-function-broke"]
    assert finding.read is not None
    assert names(capsys, broken, "--finding", word) == [f"{s}/{n}" for s, n in finding.read.samples]
    assert names(capsys, broken, "--finding", word, "-n", 2) == [f"{s}/{n}" for s, n in finding.read.samples[:2]]


def test_a_symptom_is_a_finding_too(broken: Path, capsys: Capture) -> None:
    assert said(capsys, broken, "--finding", "signal-collapsed-unsolved").startswith("signal-collapsed-unsolved: 8 completions")


def test_a_finding_as_it_stood(broken: Path, capsys: Capture) -> None:
    steps = {int(name.split("/")[0]) for name in names(capsys, broken, "--finding", "RU104", "--until", 80)}
    assert steps <= set(range(60, 81))
    assert "not found on this run" in said(capsys, broken, "--finding", "RU104", "--until", 50, code=2)


def test_a_finding_that_is_not_there_names_those_that_are(broken: Path, capsys: Capture) -> None:
    error = said(capsys, broken, "--finding", "kl-runaway", code=2)
    assert "--finding kl-runaway: not found on this run; its findings are reward-function-broke" in error
    assert "not found" in said(capsys, broken, "--finding", "zzz", code=2)


def test_a_finding_that_no_completion_shows(tmp_path: Path, capsys: Capture) -> None:
    run = trl_run(tmp_path / "run")
    state = json.loads((run / "trainer_state.json").read_text())
    for row in state["log_history"]:
        row["learning_rate"] = 0.0
    (run / "trainer_state.json").write_text(json.dumps(state))
    error = said(capsys, run, "--finding", "learning-rate-zero", code=2)
    assert "nothing of it shows in completions" in error


def test_a_suppressed_finding_can_be_read(tmp_path: Path, broken: Path, capsys: Capture) -> None:
    run = tmp_path / "run"
    shutil.copytree(broken, run)
    (run / "vario.toml").write_text('[suppress]\nreward-function-broke = "known"\n')
    assert said(capsys, run, "--finding", "RU104").startswith("reward-function-broke: 8 completions")


# what is shown


def test_no_secret_and_no_control(good: Path, capsys: Capture) -> None:
    for more in ((), ("--full",), ("--json",), ("--tokens",)):
        out = said(capsys, good, "50/0", "50/1", "50/3", *more)
        assert KEY not in out
        assert "Ab3dEf6hIj9kLm2n" not in out
        assert MASK in out
        assert not any(c in out for c in "\x1b\x07\u202e\x9b\x00")
        assert "设三加四等于七。所以答案是七。" in out
    (one,) = objects(capsys, good, "50/1")
    assert one["completion"] == TEXTS[50, 1], "to a program it is what it was"


def test_head_and_tail_or_all_of_it(good: Path, capsys: Capture) -> None:
    cut, whole = said(capsys, good, "50/2"), said(capsys, good, "50/2", "--full")
    assert "0000 0001" in cut and "0998 0999" in cut
    assert "characters left out" in cut
    assert "0500" not in cut
    assert len(cut) < 2000
    words = " ".join(whole.split())
    assert "0500 0501" in words
    assert "left out" not in words
    assert max(map(len, whole.splitlines())) <= 80
    assert objects(capsys, good, "50/2")[0]["completion"] == LONG


@pytest.mark.parametrize("more", [("--json",), ("--tokens",), ("--json", "--tokens"), ("--full",), ()])
def test_no_text_means_none(good: Path, viewer: Path, capsys: Capture, more: tuple[str, ...]) -> None:
    out = said(capsys, good, "--step", "48-50", "-n", 100, "--no-text", *more)
    assert not any(word in out for word in ("How much", "Let x be", "My key", "0000 0001", "答案"))
    assert "reward" in out
    out = said(capsys, viewer, "2/3", "--no-text", *more)
    assert not any(word in out for word in ("t2", "n3", "2+0?", "</s>"))
    if "--json" in more:
        assert not {"prompt", "completion"} & json.loads(out).keys()


def test_values_by_token(good: Path, viewer: Path, capsys: Capture) -> None:
    out = said(capsys, viewer, "2/3", "--tokens")
    table = [line.split() for line in out.splitlines()[5:] if line]
    assert table[0] == ["number", "token", "log-prob", "reference", "reward", "value"]
    assert table[-1] == ["4", "'</s>'", "-0.5", "-0.53", "0.375", "0.5"]
    (one,) = objects(capsys, viewer, "2/3", "--tokens")
    assert one["tokens"]["token"] == ["t2", " n3", " = ", "5", "</s>"]
    assert one["tokens"]["reference"] == pytest.approx([-0.13, -0.23, -0.33, -0.43, -0.53])
    assert "values by token: not in the dump" in said(capsys, good, "50/0", "--tokens")


def test_a_key_in_pieces_is_no_token(tmp_path: Path, capsys: Capture) -> None:
    tokens = ["key ", KEY[:6], KEY[6:20], KEY[20:], " ok"]
    viewer_dump(tmp_path / "samples.jsonl", response_tokens=tokens, response="".join(tokens))
    for more in ((), ("--json",)):
        out = said(capsys, tmp_path, "1/0", "--tokens", *more)
        assert not any(piece in out for piece in tokens[1:4])
        assert " ok" in out


def test_of_many_tokens_those_that_moved(tmp_path: Path, capsys: Capture) -> None:
    far = [-1.0 - (i == 150) for i in range(200)]
    viewer_dump(tmp_path / "samples.jsonl", response_tokens=["w"] * 200, logprobs=[-1.0] * 200, ref_logprobs=far, values=None,
                token_rewards=None)  # fmt: skip
    out = said(capsys, tmp_path, "1/0", "--tokens")
    assert "60 of 200 tokens, those farthest from the reference" in out
    assert ["150", "'w'", "-1", "-2"] in [line.split() for line in out.splitlines()]


def test_a_step_that_was_sampled_again(tmp_path: Path, capsys: Capture) -> None:
    """After a resume the later completions count: in the series, by name, and in their tokens."""
    first = viewer_dump(tmp_path / "first.jsonl", (1, 2, 3)).read_text()
    again = viewer_dump(tmp_path / "again.jsonl", (2, 3, 4), response="again", response_tokens=["a", "gain"]).read_text()
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "samples.jsonl").write_text(first + again)
    assert [(o["step"], o["completions"]) for o in objects(capsys, folder)] == [(s, 8) for s in (1, 2, 3, 4)]
    for name in ("2/0", "2/7", "3/0"):
        (one,) = objects(capsys, folder, name, "--tokens")
        assert one["completion"] == "again"
        assert one["tokens"]["token"] == ["a", "gain"]
    assert names(capsys, folder, "--step", 2, "-n", 100) == [f"2/{n}" for n in range(8)]


def test_every_key_in_every_surface(tmp_path: Path, capsys: Capture) -> None:
    """Keys stand in what the findings point to: no surface shows one."""
    secrets = [*KEYS.values(), *HELD.values()]
    texts = {(s, n): f"see {secrets[(s * A_STEP + n) % len(secrets)]} there" for s in range(60, 101) for n in range(A_STEP)}
    run = trl_run(tmp_path / "run", broken_at(60), texts=texts)
    outs = []
    for arguments in (
        ["samples", run, "--step", "60-100", "-n", "1000", "--full"],
        ["samples", run, "--step", "60-100", "-n", "1000", "--json"],
        ["samples", run, "--finding", "RU104"],
        ["diagnose", run],
        ["diagnose", run, "--json", "--no-replay"],
        ["fleet", run, "--workers", "1", "-q", "--no-replay"],
        ["fleet", run, "--workers", "1", "-q", "--no-replay", "--json"],
    ):
        main([str(a) for a in arguments])
        outs.append(capsys.readouterr().out)
    assert all(outs)
    for out in outs:
        flat = "".join(out.split())
        for secret in (*KEYS.values(), *HELD, KEY):
            assert "".join(secret.split()) not in flat
        assert "Ab3dEf6hIj9kLm2nAb3d" not in flat
    assert all(MASK in out for out in outs[:5]), "excerpts are of these texts"


# wrong words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["50"], ("50", "STEP/NUMBER")),
        (["50/x"], ("50/x", "STEP/NUMBER")),
        (["50/99"], ("no completion 50/99", "vario samples RUN")),
        (["50/1", "7/0"], ("no completion 7/0",)),
        (["--group", "x"], ("--group x", "STEP/NUMBER")),
        (["--group", "7/0"], ("no completion 7/0",)),
        (["--step", "x"], ("--step x", "100-200")),
        (["--step", "1-x"], ("--step 1-x",)),
        (["-n", "0"], ("-n", "1000")),
        (["-n", "1001"], ("-n", "1000")),
        (["-n", "-3"], ("-n",)),
        (["--review", "0"], ("--review", "1000")),
        (["--review", "-1"], ("--review",)),
        (["--mark", "50/1"], ("--mark 50/1", "good, bad, hacked")),
        (["--mark", "50/1=nice"], ("--mark", "good, bad, hacked")),
        (["--mark", "50=good"], ("--mark 50", "STEP/NUMBER")),
        (["--mark", "7/0=good"], ("no completion 7/0",)),
        (["--samples", "/nowhere/at/all"], ("/nowhere/at/all",)),
        (["--samples-map", "completions=text"], ("'completions'", "completion")),
    ],
)  # fmt: skip
def test_wrong_words_are_told(good: Path, capsys: Capture, arguments: list[str], words: tuple[str, ...]) -> None:
    before = sorted(good.iterdir())
    error = said(capsys, good, *arguments, code=2)
    assert all(word in error for word in words), error
    assert sorted(good.iterdir()) == before, "nothing was written"


@pytest.mark.parametrize("arguments", [["--by", "beauty"], ["--only", "ugly"], ["--review", "few"], ["-n", "x"]])
def test_choices_are_listed(good: Path, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["samples", str(good), *arguments])
    assert raised.value.code == 2


def test_without_completions_it_says_how_to_log_them(tmp_path: Path, capsys: Capture) -> None:
    error = said(capsys, trl_run(tmp_path / "run", dump=False), code=3)
    assert "no completions lie beside the log" in error
    assert "log_completions=True" in error
    assert "--samples PLACE" in error
    said(capsys, tmp_path / "none", code=3)
    plain = tmp_path / "plain"
    trl_log(plain / "log.jsonl")
    assert "--samples PLACE" in said(capsys, plain, code=3)


def test_without_polars_it_says_what_to_install(good: Path, broken: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = "import sys; sys.modules['polars'] = None; from vario.surfaces.cli import main; sys.exit(main(sys.argv[1:]))"
        return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)

    for arguments in (["samples", str(good), "50/1"], ["samples", str(broken), "--finding", "RU104"]):
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (3, ""), done.stderr
        assert "pip install 'vario[rollouts]'" in done.stderr
        assert done.stderr.count("\n") == 1
    done = run("diagnose", str(good), "--no-replay")
    assert done.returncode == 0
    assert "vario[rollouts]" in " ".join(done.stdout.split())


# marks


def marks_in(path: Path) -> list[tuple[int, int, str]]:
    return [(row["step"], row["number"], row["mark"]) for row in map(json.loads, path.read_text().splitlines())]


@pytest.fixture
def run(good: Path, tmp_path: Path) -> Path:
    """A copy that may be marked."""
    shutil.copytree(good, tmp_path / "run")
    return tmp_path / "run"


def answered(monkeypatch: pytest.MonkeyPatch, capsys: Capture, words: str, *arguments: object) -> str:
    monkeypatch.setattr(sys, "stdin", io.StringIO(words))
    return said(capsys, *arguments)


def test_marks_are_kept_and_shown(run: Path, capsys: Capture) -> None:
    out = said(capsys, run, "--mark", "50/1=hacked", "--mark", "98/3=good")
    file = run / "vario-marks.jsonl"
    assert out == f"2 marked in {file}\n"
    assert marks_in(file) == [(50, 1, "hacked"), (98, 3, "good")]
    row = json.loads(file.read_text().splitlines()[1])
    assert row["known_at"] == 100
    assert row["reward"] == objects(capsys, run, "98/3")[0]["measures"]["reward"]
    assert set(row) == {"step", "number", "mark", "reward", "known_at"}, "no text is kept"
    assert said(capsys, run, "50/1").splitlines()[0].endswith("marked hacked")
    assert "marked by a person: 1 good, 0 bad, 1 hacked" in said(capsys, run)
    said(capsys, run, "--mark", "50/1=bad")
    assert said(capsys, run, "50/1").splitlines()[0].endswith("marked bad"), "the last one counts"


def test_a_review_from_the_keyboard(run: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    out = answered(monkeypatch, capsys, "g\nwhat?\nH\ns\n\nbad\n", run, "--review", 5)
    assert re.findall(r"--- (\d of 5, drawn as \w+)\n", out) == [
        f"{i} of 5, drawn as {s}" for i, s in enumerate(("top", "bottom", "random", "changed", "top"), 1)
    ]
    assert f"\n3 of 5 marked in {run / 'vario-marks.jsonl'}\nmarked hacked so far: 1; `vario diagnose` " in out
    made = marks_in(run / "vario-marks.jsonl")
    assert [word for _, _, word in made] == ["good", "hacked", "bad"]
    assert all(step > 75 for step, _, _ in made)
    again = answered(monkeypatch, capsys, "q\n", run, "--review", 2)
    shown = again.split("drawn as top\n")[1].split()[0]
    assert shown not in {f"{s}/{n}" for s, n, _ in made}, "what is marked is not asked again"
    assert again.endswith("0 of 2 marked\n")


def test_the_end_of_input_ends_a_review(run: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered(monkeypatch, capsys, "", run, "--review").endswith("0 of 16 marked\n")
    assert not (run / "vario-marks.jsonl").exists()
    answered(monkeypatch, capsys, "g\nb", run, "--review", 4)
    assert [word for _, _, word in marks_in(run / "vario-marks.jsonl")] == ["good", "bad"], "a last line needs no end"


def test_a_review_without_texts(run: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    out = answered(monkeypatch, capsys, "h\nh\n", run, "--review", 2, "--no-text")
    assert "Let x be" not in out
    assert "How much" not in out


def test_marks_in_a_file_of_their_own(run: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "mine.jsonl"
    said(capsys, run, "--mark", "50/1=hacked", "--marks", own)
    answered(monkeypatch, capsys, "g\n", run, "--review", 1, "--marks", own)
    assert len(marks_in(own)) == 2
    assert not (run / "vario-marks.jsonl").exists()
    assert "marked hacked" in said(capsys, run, "50/1", "--marks", own).splitlines()[0]
    assert "marked" not in said(capsys, run, "50/1").splitlines()[0]


def test_lines_that_are_no_marks_are_left_out(run: Path, capsys: Capture) -> None:
    said(capsys, run, "--mark", "50/1=hacked")
    with (run / "vario-marks.jsonl").open("a") as stream:
        stream.write('{"step": 50, "number": 2, "mark": "nice"}\n[1]\nno json\n{"step": "50", "number": 2, "mark": "good"}\n\n')
    assert "marked by a person: 0 good, 0 bad, 1 hacked" in said(capsys, run)


def test_a_folder_that_cannot_be_written(run: Path, tmp_path: Path, capsys: Capture) -> None:
    error = said(capsys, run, "--mark", "50/1=good", "--marks", tmp_path / "no" / "such" / "marks.jsonl", code=2)
    assert "marks cannot be written" in error
    assert "--marks FILE" in error
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    run.chmod(0o500)
    try:
        assert "marks cannot be written" in said(capsys, run, "--mark", "50/1=good", code=2)
    finally:
        run.chmod(0o700)


def test_marks_of_a_dump_alone_know_when_they_were_made(viewer: Path, tmp_path: Path, capsys: Capture) -> None:
    shutil.copytree(viewer, tmp_path / "alone")
    said(capsys, tmp_path / "alone", "--mark", "1/0=good")
    assert json.loads((tmp_path / "alone" / "vario-marks.jsonl").read_text())["known_at"] == 3


def diagnosed(capsys: Capture, path: Path, *more: str) -> dict:
    main(["diagnose", str(path), "--json", *more])
    return json.loads(capsys.readouterr().out)


def findings(document: dict) -> dict[str, dict]:
    return {f["name"]: f for top in document["findings"] for f in (top, *top.get("symptoms", []))}


def test_a_diagnosis_uses_the_marks(run: Path, capsys: Capture) -> None:
    assert "reward-hacking" not in findings(diagnosed(capsys, run))
    best = names(capsys, run, "--step", "80-100", "--by", "reward", "-n", 8)
    said(capsys, run, *(a for i, n in enumerate(best) for a in ("--mark", f"{n}={'hacked' if i % 2 else 'good'}")))
    document = diagnosed(capsys, run)
    found = findings(document)["reward-hacking"]
    assert "a person marked 4 of 8 well-paid completions as hacked (50 %)" in found["evidence"]
    assert (found["severity"], found["detected_at"]) == ("critical", 100)
    assert found["since"] >= 80
    assert document["verdict"]["action"] == "stop"
    assert "reward-hacking" not in findings(diagnosed(capsys, run, "--until", "99")), "they were made after step 100"


def test_marks_are_not_known_before_they_are_made(run: Path, capsys: Capture) -> None:
    """The same marks, made while the run stood at step 80."""
    rows = [
        {"step": 60 + 2 * i, "number": i, "mark": "hacked" if i % 2 else "good", "reward": 1.0, "known_at": 80} for i in range(8)
    ]
    (run / "vario-marks.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    assert "reward-hacking" not in findings(diagnosed(capsys, run, "--until", "79"))
    assert findings(diagnosed(capsys, run, "--until", "80"))["reward-hacking"]["detected_at"] == 80
    assert findings(diagnosed(capsys, run))["reward-hacking"]["detected_at"] == 80


def test_good_marks_say_nothing(run: Path, capsys: Capture) -> None:
    best = names(capsys, run, "--step", "80-100", "--by", "reward", "-n", 8)
    said(capsys, run, *(a for n in best for a in ("--mark", f"{n}=good")))
    document = diagnosed(capsys, run)
    assert "reward-hacking" not in findings(document)
    assert "reward-hacking" not in [u["name"] for u in document["unknown"]]


def test_numbers_are_those_of_the_dump(good: Path, capsys: Capture) -> None:
    table = pl.read_parquet(good / "completions" / "completions_00048.parquet")
    for n, row in enumerate(table.iter_rows(named=True)):
        (one,) = objects(capsys, good, f"48/{n}")
        assert (one["prompt"], one["completion"]) == (row["prompt"], row["completion"])
        assert one["measures"]["reward"] == pytest.approx(row["correctness"])
        assert one["measures"]["advantage"] == pytest.approx(row["advantage"])
    assert np.isfinite(rising(1, 2)) and table.height == A_STEP == 2 * GROUP

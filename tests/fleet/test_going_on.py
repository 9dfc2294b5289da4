"""A fleet that was interrupted goes on: nothing twice, nothing lost, and what has changed is judged again."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from tests.cli.logs import trl_log
from tests.conftest import recorded
from tests.fleet.trees import FAST, by_name, fleet, lines, started
from vario.surfaces.cli import fleet_command
from vario.work import Serial


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    # what is judged again does not depend on where: without processes it is known in a tenth of the time
    monkeypatch.setattr(fleet_command, "Processes", lambda *_: Serial())
    for i in range(4):
        trl_log(tmp_path / "runs" / f"seed{i}" / "rows.jsonl", seed=i)
    return tmp_path / "runs"


def judge(tree: Path, *more: str) -> dict[str, dict]:
    fleet(tree, "-o", "out.jsonl", *FAST, *more)
    return by_name(lines(Path("out.jsonl")))


def mark(path: Path = Path("out.jsonl")) -> None:
    """Make each line tell whether it was written anew."""
    documents = lines(path)
    for document in documents:
        document["fleet"]["seconds"] = -1.0
    path.write_text("".join(json.dumps(d) + "\n" for d in documents))


def judged_again(tree: Path, *more: str) -> set[str]:
    mark()
    return {name for name, d in judge(tree, *more).items() if d["fleet"]["seconds"] != -1.0}


def test_nothing_changed_nothing_is_done(tree: Path) -> None:
    before = judge(tree)
    assert len(before) == 4
    assert judged_again(tree) == set()


def test_what_changes_a_judgement_has_it_made_again(tree: Path) -> None:
    judge(tree)
    with (tree / "seed1" / "rows.jsonl").open("a") as log:
        log.write('{"step": 121, "reward": 0.7}\n')
    assert judged_again(tree) == {"seed1"}
    (tree / "seed2" / "args.json").write_text('{"learning_rate": 1e-6, "beta": 0.1}')
    assert judged_again(tree) == {"seed2"}
    (tree / "seed3" / "vario-marks.jsonl").write_text('{"step": 1, "number": 0, "mark": "bad"}\n')
    assert judged_again(tree) == {"seed3"}
    (tree / "seed0" / "completions").mkdir()
    (tree / "seed0" / "completions" / "completions_00001.parquet").write_bytes(b"PAR1")
    assert judged_again(tree) == {"seed0"}
    (tree / "seed0" / "vario.toml").write_text("[declare]\nreward-ceiling = 1.0\n")
    assert judged_again(tree) == {"seed0"}
    (tree / "notes.md").write_text("nothing that a judgement rests on")
    assert judged_again(tree) == set()
    everything = {f"seed{i}" for i in range(4)}
    assert judged_again(tree, "--without", "LN") == everything
    assert judged_again(tree, "--without", "LN") == set()
    Path("vario.toml").write_text('[rules]\nwithout = ["KL"]\n')
    assert judged_again(tree, "--without", "LN") == everything - {"seed0"}, "seed0 has a nearer file"


def test_completions_elsewhere_count(tree: Path) -> None:
    pl = pytest.importorskip("polars")
    dumps = tree.parent / "scratch" / "dumps"
    dumps.mkdir(parents=True)
    table = pl.DataFrame({"step": [1] * 4, "prompt": ["a", "a", "b", "b"], "completion": ["x", "y", "z", "w"], "reward": [0.0, 1.0, 0.5, 0.5]})
    for step in range(1, 13):
        table.with_columns(step=pl.lit(step)).write_ndjson(dumps / f"{step}.jsonl")
    (tree / "seed1" / "config.yaml").write_text(f"trainer:\n  rollout_data_dir: {dumps}\nalgorithm:\n  adv_estimator: grpo\n")
    first = judge(tree)
    assert first["seed1"]["run"]["samples"] is not None, "the test's own premise"
    assert judged_again(tree) == set()
    table.with_columns(step=pl.lit(13)).write_ndjson(dumps / "13.jsonl")
    assert judged_again(tree) == {"seed1"}


def test_half_a_line_at_the_end_is_done_again(tree: Path) -> None:
    before = judge(tree)
    out = Path("out.jsonl")
    mark()
    data = out.read_bytes()
    out.write_bytes(data[: len(data) - 200])
    last = json.loads(data.splitlines()[-1])["fleet"]["name"]
    after = judge(tree)
    assert after.keys() == before.keys()
    assert {n for n, d in after.items() if d["fleet"]["seconds"] != -1.0} == {last}


def test_a_file_of_something_else_is_not_written_over(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tree / "seed0" / "rows.jsonl"
    before = log.read_bytes()
    assert fleet(tree, "-o", log) == 2
    assert "no result of `vario fleet`" in capsys.readouterr().err
    Path("notes.jsonl").write_text("not json\n{}\n")
    assert fleet(tree, "-o", "notes.jsonl") == 2
    assert Path("notes.jsonl").read_text() == "not json\n{}\n"
    assert log.read_bytes() == before


def test_a_run_that_is_gone_leaves_and_other_roots_stay(tree: Path) -> None:
    other = trl_log(tree.parent / "others" / "x" / "rows.jsonl", seed=9).parent.parent
    judge(tree)
    fleet(other, "-o", "out.jsonl", *FAST)
    assert sorted(by_name(lines(Path("out.jsonl")))) == ["seed0", "seed1", "seed2", "seed3", "x"]
    (tree / "seed3" / "rows.jsonl").unlink()
    (tree / "seed3").rmdir()
    assert sorted(judge(tree)) == ["seed0", "seed1", "seed2", "x"]


def test_results_inside_the_root_are_no_run(tree: Path) -> None:
    for _ in range(2):
        fleet(tree, "-o", tree / "fleet.jsonl", *FAST)
        assert sorted(by_name(lines(tree / "fleet.jsonl"))) == ["seed0", "seed1", "seed2", "seed3"]


def _wait_for(path: Path, count: int) -> bytes:
    for _ in range(600):
        data = path.read_bytes() if path.exists() else b""
        if data.count(b"\n") >= count:
            return data
        time.sleep(0.02)
    raise AssertionError(f"no {count} results came")


def _many(root: Path) -> int:
    for i in range(10):
        recorded(("grpo-drift", "grpo-reward-bug", "dpo-healthy")[i % 3], root / f"group{i % 2}" / f"seed{i}")
    return 10


def test_killed_in_the_middle(tmp_path: Path) -> None:
    """The real thing: the process is killed without a warning, and the same command is given again."""
    count = _many(tmp_path / "runs")
    command = ("runs", "-o", "out.jsonl", "--workers", "2", "--quiet")
    first = started(*command, cwd=tmp_path)
    out = tmp_path / "out.jsonl"
    kept = _wait_for(out, 3)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    kept = out.read_bytes()
    whole = kept[: kept.rfind(b"\n") + 1].splitlines()
    assert 3 <= len(whole) < count, "it was to be killed in the middle"
    second = started(*command, cwd=tmp_path)
    _, said = second.communicate(timeout=120)
    assert second.returncode == 1, said
    documents = out.read_bytes().splitlines()
    assert len(by_name([json.loads(d) for d in documents])) == count
    assert set(whole) <= set(documents), "what was finished before the kill stands there as it was"


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path: Path) -> None:
    count = _many(tmp_path / "runs")
    out = tmp_path / "out.jsonl"
    process = started("runs", "-o", "out.jsonl", "-o", "out.parquet", "--workers", "2", "--quiet", cwd=tmp_path)
    _wait_for(out, 2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    kept = by_name(lines(out))
    assert 2 <= len(kept) < count
    assert f"interrupted with {len(kept)} of {count} done" in said
    assert "out.jsonl" in said
    assert "goes on from there" in said
    assert "Traceback" not in said


def test_workers_do_not_outlive_the_fleet(tmp_path: Path) -> None:
    if not Path("/proc").is_dir():
        pytest.skip("needs /proc")
    _many(tmp_path / "runs")
    process = started("runs", "-o", "out.jsonl", "--workers", "2", "--quiet", cwd=tmp_path)
    _wait_for(tmp_path / "out.jsonl", 1)
    workers = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and _parent(p) == process.pid]
    assert workers
    process.kill()
    process.communicate()
    for _ in range(250):
        if not any(_lives(pid) for pid in workers):
            return
        time.sleep(0.02)
    raise AssertionError("a worker lives on")


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _lives(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False



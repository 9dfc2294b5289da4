"""Whatever lies where completions should: counted, said in words, the rest used, and nothing raised."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pl = pytest.importorskip("polars")
pytest.importorskip("zstandard")

import vario  # noqa: E402
from tests.conftest import ROOT  # noqa: E402
from vario.surfaces.cli import main  # noqa: E402
from vario.verdict import to_json  # noqa: E402

Row = dict[str, Any]
STEPS = 12
TECHNICAL = ("Traceback", "Error(", "NoneType", "object has no attribute", "<class")


def verl(root: Path, steps: int = STEPS) -> Path:
    """A run of verl: a log, and a file of completions for each step, four groups of four."""
    folder = root / "rollouts"
    folder.mkdir(parents=True)
    for step in range(1, steps + 1):
        write(folder / f"{step}.jsonl", samples(step))
    write(root / "metrics.jsonl", [logged(step) for step in range(1, steps + 1)])
    return root


def logged(step: int) -> Row:
    return {"step": step, "critic/score/mean": 0.1 + step / 50, "actor/ppo_kl": 0.01, "response_length/mean": 30.0}


def samples(step: int) -> list[Row]:
    return [
        {
            "input": f"question {i // 4}",
            "output": f"answer {step} {i}",
            "gts": "4",
            "score": float((i + step) % 3 == 0),
            "step": step,
        }
        for i in range(16)
    ]


def write(path: Path, rows: Sequence[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def trl(root: Path, steps: int = STEPS) -> Path:
    """A run of TRL with its completions as tables."""
    (root / "completions").mkdir(parents=True)
    for step in range(1, steps + 1):
        table(step).write_parquet(root / "completions" / f"completions_{step:05}.parquet")
    rows = [
        {
            "step": s,
            "reward": 0.1 + s / 50,
            "reward_std": 0.2,
            "kl": 0.01,
            "loss": 0.0,
            "rewards/correct/mean": 0.3,
            "rewards/correct/std": 0.4,
        }
        for s in range(1, steps + 1)
    ]
    (root / "trainer_state.json").write_text(json.dumps({"global_step": steps, "log_history": rows, "max_steps": 99}))
    return root


def table(step: int) -> Any:
    rows = samples(step)
    return pl.DataFrame(
        {
            "step": [step] * 16,
            "prompt": [row["input"] for row in rows],
            "completion": [row["output"] for row in rows],
            "correct": [row["score"] for row in rows],
            "advantage": [0.5 - i % 2 for i in range(16)],
        }
    )


def read(root: Path) -> vario.Run:
    """Read and diagnose; warnings are sentences, and a terminal can show them."""
    run = vario.read(root)
    json.dumps(to_json(vario.diagnose(run)), allow_nan=False)
    for warning in run.warnings:
        assert warning
        assert len(warning) < 600, warning
        assert not any(word in warning for word in TECHNICAL), warning
    return run


def counted(run: vario.Run, name: str = "text/size/mean") -> list[int]:
    return run.series[name].steps.tolist() if name in run.series else []


def says(run: vario.Run, *words: str) -> None:
    assert any(all(w in warning for w in words) for warning in run.warnings), (words, run.warnings)


WHOLE = list(range(1, STEPS + 1))


def test_the_sound_runs_that_the_others_are_made_of(tmp_path: Path) -> None:
    for make in (verl, trl):
        run = read(make(tmp_path / make.__name__))
        assert counted(run) == WHOLE
        assert counted(run, "reward/std/within-group") == WHOLE
        assert run.samples is not None
        assert run.samples.counted == 16 * STEPS
        assert not [w for w in run.warnings if "completion" in w or "cannot" in w], run.warnings


# --- tables ---

GARBAGE = {
    "zero": b"",
    "text": b"this is no table\n" * 50,
    "magic only": b"PAR1",
    "random": np.random.default_rng(0).bytes(4_000),
    "random in magic": b"PAR1" + np.random.default_rng(1).bytes(4_000) + b"PAR1",
}


@pytest.mark.parametrize("step", [1, 5, STEPS])
@pytest.mark.parametrize("content", GARBAGE.values(), ids=list(GARBAGE))
def test_a_table_that_is_none(tmp_path: Path, content: bytes, step: int) -> None:
    root = trl(tmp_path / "run")
    (root / "completions" / f"completions_{step:05}.parquet").write_bytes(content)
    run = read(root)
    assert counted(run) == [s for s in WHOLE if s != step]
    says(run, f"completions_{step:05}.parquet")


@pytest.mark.parametrize("keep", [0.3, 0.9, 0.999])
def test_a_table_cut_in_its_footer(tmp_path: Path, keep: float) -> None:
    root = trl(tmp_path / "run")
    path = root / "completions" / "completions_00004.parquet"
    raw = path.read_bytes()
    path.write_bytes(raw[: int(keep * len(raw))])
    assert counted(read(root)) == [s for s in WHOLE if s != 4]
    path.write_bytes(raw[:-8] + b"\xff\xff\xff\x7f" + raw[-4:])
    says(read(root), "completions_00004.parquet")


@pytest.mark.parametrize("where", [0.02, 0.2, 0.5, 0.8, 0.95])
def test_a_table_with_other_bytes_inside(tmp_path: Path, where: float) -> None:
    root = trl(tmp_path / "run")
    path = root / "completions" / "completions_00004.parquet"
    raw = bytearray(path.read_bytes())
    at = int(where * len(raw))
    raw[at : at + 40] = os.urandom(40)
    path.write_bytes(bytes(raw))
    assert set(counted(read(root))) >= set(WHOLE) - {4}


def test_every_table_is_broken(tmp_path: Path) -> None:
    root = trl(tmp_path / "run")
    for path in (root / "completions").iterdir():
        path.write_bytes(b"PAR1")
    run = read(root)
    assert not counted(run)
    assert run.last_step == STEPS
    says(run, "completions_00001.parquet", "cannot be read")


def test_a_folder_called_like_a_table(tmp_path: Path) -> None:
    root = trl(tmp_path / "run")
    path = root / "completions" / "completions_00003.parquet"
    path.unlink()
    path.mkdir()
    (path / "part-0.parquet").write_bytes(b"garbage")
    (path / "notes").write_bytes(b"garbage")
    run = read(root)
    assert counted(run) == [s for s in WHOLE if s != 3]
    says(run, "part-0.parquet", "cannot be read")


def test_a_table_without_rows(tmp_path: Path) -> None:
    root = trl(tmp_path / "run")
    table(1).clear().write_parquet(root / "completions" / "completions_00001.parquet")
    run = read(root)
    assert counted(run) == WHOLE[1:]
    says(run, "completions_00001.parquet", "without rows")


SCHEMAS: dict[str, Callable[[Any], Any]] = {
    "no prompt": lambda t: t.drop("prompt"),
    "no completion": lambda t: t.drop("completion"),
    "no reward function": lambda t: t.drop("correct"),
    "no advantage": lambda t: t.drop("advantage"),
    "nothing but the step": lambda t: t.select("step"),
    "rewards as texts": lambda t: t.with_columns(pl.col("correct").cast(pl.String)),
    "rewards as lists": lambda t: t.with_columns(pl.concat_list("correct")),
    "rewards as float32": lambda t: t.with_columns(pl.col("correct").cast(pl.Float32)),
    "rewards as flags": lambda t: t.with_columns(pl.col("correct") > 0),
    "rewards all null": lambda t: t.with_columns(correct=pl.lit(None)),
    "rewards NaN and infinite": lambda t: t.with_columns(correct=pl.Series([float("nan"), float("inf")] * 8)),
    "completions as numbers": lambda t: t.with_columns(completion=pl.lit(5)),
    "completions as bytes": lambda t: t.with_columns(pl.col("completion").cast(pl.Binary)),
    "completions as lists of numbers": lambda t: t.with_columns(completion=pl.lit([1, 2])),
    "completions as messages": lambda t: t.with_columns(
        completion=pl.struct(role=pl.lit("assistant"), content="completion").reshape((16, 1)).arr.to_list()
    ),
    "completions as categories": lambda t: t.with_columns(pl.col("completion").cast(pl.Categorical)),
    "steps as texts": lambda t: t.with_columns(pl.col("step").cast(pl.String)),
    "steps as words": lambda t: t.with_columns(step=pl.lit("four")),
    "steps with parts": lambda t: t.with_columns(step=pl.lit(4.5)),
    "steps NaN": lambda t: t.with_columns(step=pl.lit(float("nan"))),
    "steps null": lambda t: t.with_columns(step=pl.lit(None)),
    "steps unsigned": lambda t: t.with_columns(pl.col("step").cast(pl.UInt8)),
    "dates": lambda t: t.with_columns(advantage=pl.lit("2026-01-01").str.to_date()),
    "more columns": lambda t: t.with_columns(
        note=pl.lit("x"), weight=pl.lit(3.0), nested=pl.struct(a=1, b=pl.lit([1]))
    ),
    "a name that no terminal should show": lambda t: t.with_columns(pl.col("correct").alias("\x1b[31mred\x07\n\r")),
}


@pytest.mark.parametrize("step", [1, 6])
@pytest.mark.parametrize("change", SCHEMAS.values(), ids=list(SCHEMAS))
def test_a_table_unlike_the_others(tmp_path: Path, change: Callable[[Any], Any], step: int) -> None:
    root = trl(tmp_path / "run")
    change(table(step)).write_parquet(root / "completions" / f"completions_{step:05}.parquet")
    run = read(root)
    others = [s for s in WHOLE if s != step]
    assert set(counted(run)) >= set(others)
    assert set(counted(run, "samples/reward/mean") or counted(run, "reward/std/within-group")) >= set(others)


# --- lines ---

DEEP = '{"input": "q", "output": ' + "[" * 100_000 + "]" * 100_000 + ', "score": 1.0, "step": 4}'
BROKEN = {
    "broken lines": '{"input": "q", "out\n{]\nnot json\n',
    "no object": "[1, 2]\n3\nnull\n",
    "nested deep": DEEP + "\n" + DEEP + "\n" + DEEP + "\n",
    "bytes of no text": None,
    "a number of hundreds of digits": '{"input": "q", "output": "a", "score": 1' + "0" * 5_000 + ', "step": 4}\n' * 1,
}


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("step", [1, 4])
def test_lines_that_are_none(tmp_path: Path, kind: str, place: str, step: int) -> None:
    root = verl(tmp_path / "run")
    path = root / "rollouts" / f"{step}.jsonl"
    text = BROKEN[kind]
    made = (
        text.replace('"step": 4', f'"step": {step}').encode()
        if text
        else b'{"input": "\xff\xfe", "output\n\x00\x01\n\xff\n'
    )
    lines = path.read_bytes().splitlines(keepends=True)
    at = {"first": 0, "middle": 7, "last": 16}[place]
    path.write_bytes(b"".join([*lines[:at], made, *lines[at:]]))
    run = read(root)
    assert counted(run) == WHOLE
    assert run.samples is not None
    assert run.samples.counted >= 16 * STEPS
    if not kind.startswith("a number"):
        says(run, "3 broken lines of the completions left out")


def test_a_last_line_half_written(tmp_path: Path) -> None:
    root = verl(tmp_path / "run")
    path = root / "rollouts" / f"{STEPS}.jsonl"
    path.write_bytes(path.read_bytes()[:-30])
    run = read(root)
    assert counted(run) == WHOLE
    says(run, "1 broken line of the completions left out")


@pytest.mark.parametrize("step", [1, 4])
def test_marks_and_ends_of_lines_of_other_systems(tmp_path: Path, step: int) -> None:
    root = verl(tmp_path / "run")
    path = root / "rollouts" / f"{step}.jsonl"
    sound = read(root)
    text = path.read_text().replace("\n", "\r\n\r\n  \r\n")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    run = read(root)
    assert {n: s.values.tolist() for n, s in run.series.items()} == {
        n: s.values.tolist() for n, s in sound.series.items()
    }
    assert run.warnings == sound.warnings


ODD_ROWS: dict[str, Row] = {
    "a number for a completion": {"output": 5},
    "a number for a prompt": {"input": 5.5},
    "an object for a completion": {"output": {"nothing": 1}},
    "a list of numbers for a completion": {"output": [1, 2, 3]},
    "nulls": {"input": None, "output": None, "score": None},
    "a text for a reward": {"score": "high"},
    "an object for a reward": {"score": {"a": 1}},
    "a flag for a reward": {"score": True},
    "NaN": {"score": float("nan")},
    "Infinity": {"score": float("inf")},
    "half a character": {"output": "\ud800 and \udfff", "input": "\udc00"},
    "half a character in a name": {"\ud800": 1.0},
    "NUL": {"output": "a\x00b\x00"},
    "replacement": {"output": "\ufffd" * 20},
    "empty": {"output": ""},
    "a list for a step": {"step": [4, 5]},
    "a name that no terminal should show": {"\x1b]0;title\x07\x1b[2J": 1.0, "a\r\nb": 2.0},
    "a name as long as a text": {"x" * 5_000: 1.0},
    "no name": {"": 1.0},
}


@pytest.mark.parametrize("many", [1, 16])
@pytest.mark.parametrize("change", ODD_ROWS.values(), ids=list(ODD_ROWS))
def test_rows_with_something_else_in_them(tmp_path: Path, change: Row, many: int) -> None:
    root = verl(tmp_path / "run")
    rows = samples(4)
    write(root / "rollouts" / "4.jsonl", [{**row, **change} if i < many else row for i, row in enumerate(rows)])
    run = read(root)
    assert set(counted(run, "reward/std/within-group")) >= {s for s in WHOLE if s != 4}
    assert run.samples is not None
    assert run.samples.counted >= 16 * (STEPS - 1)
    unknown = {"score", "input"} & change.keys()
    if (
        many == 1 or not unknown or change.get("score") is True
    ):  # without prompts or rewards there are no groups of them
        assert 4 in counted(run, "reward/std/within-group")


def test_names_drive_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = verl(tmp_path / "run")
    for step in WHOLE:
        rows = [{**row, "\x1b]0;title\x07\x1b[2J": row["score"], "a\r\nb": 1.0} for row in samples(step)]
        write(root / "rollouts" / f"{step}.jsonl", rows)
    (root / "rollouts" / "\x1b[31m.jsonl").write_bytes(b"\x00")
    for command in ("diagnose", "metrics"):
        main([command, str(root)])
        told = capsys.readouterr()
        assert not [c for c in told.out + told.err if c < " " and c != "\n"], command


@pytest.mark.parametrize("missing", ["input", "output", "score", "step", "gts"])
@pytest.mark.parametrize("steps", [[1], [4], WHOLE])
def test_keys_that_are_missing(tmp_path: Path, missing: str, steps: list[int]) -> None:
    root = verl(tmp_path / "run")
    for step in steps:
        write(
            root / "rollouts" / f"{step}.jsonl",
            [{k: v for k, v in row.items() if k != missing} for row in samples(step)],
        )
    run = read(root)
    assert run.last_step == STEPS
    if missing in ("step", "gts"):
        assert counted(run) == WHOLE
    else:
        assert set(counted(run, "reward/std/within-group")) >= (set(WHOLE) - set(steps))


def test_a_line_of_thirty_megabytes(tmp_path: Path) -> None:
    root = verl(tmp_path / "run")
    rows = samples(4)
    rows[3]["output"] = "so " * 10_000_000
    write(root / "rollouts" / "4.jsonl", rows)
    run = read(root)
    assert counted(run) == WHOLE
    assert run.series["text/size/mean"].values[3] > 1_000_000


# --- steps ---


def one_file(root: Path, rows: Sequence[Row]) -> Path:
    """The same completions in one file, as people write it who write their own."""
    shutil.rmtree(root / "rollouts")
    (root / "rollouts").mkdir()
    names = {"input": "prompt", "output": "completion", "score": "reward", "step": "step"}
    write(root / "rollouts" / "samples.jsonl", [{names[k]: v for k, v in row.items() if k in names} for row in rows])
    return root


def test_steps_sampled_again_after_a_resume_in_one_file(tmp_path: Path) -> None:
    later = [{**row, "output": "later"} for step in (6, 7, 8) for row in samples(step)]
    rows = [row for step in range(1, 9) for row in samples(step)] + later + [r for s in (9, 10) for r in samples(s)]
    run = read(one_file(verl(tmp_path / "run"), rows))
    assert counted(run) == list(range(1, 11))
    sizes = dict(zip(counted(run), run.series["text/size/mean"].values.tolist(), strict=True))
    assert [sizes[s] for s in (6, 7, 8)] == [5.0] * 3
    says(run, "3 steps sampled again")


def test_steps_sampled_again_in_another_file(tmp_path: Path) -> None:
    root = one_file(verl(tmp_path / "run"), [row for step in range(1, 9) for row in samples(step)])
    later = [
        {"prompt": r["input"], "completion": "later", "reward": r["score"], "step": s}
        for s in (7, 8, 9)
        for r in samples(s)
    ]
    write(root / "rollouts" / "samples_resumed.jsonl", later)
    run = read(root)
    assert counted(run) == list(range(1, 10))
    assert run.series["text/size/mean"].values[-3:].tolist() == [5.0] * 3
    says(run, "2 steps lie in several parts")


def test_steps_in_disorder(tmp_path: Path) -> None:
    order = [5, 2, 9, 1, 3, 12, 11, 4, 10, 8, 7, 6]
    run = read(one_file(verl(tmp_path / "run"), [row for step in order for row in samples(step)]))
    sound = read(verl(tmp_path / "sound"))
    assert counted(run) == WHOLE
    assert run.series["text/size/mean"].values.tolist() == sound.series["text/size/mean"].values.tolist()


def test_rows_of_several_steps_mixed(tmp_path: Path) -> None:
    rows = [row for step in WHOLE for row in samples(step)]
    run = read(one_file(verl(tmp_path / "run"), [rows[(i * 31) % len(rows)] for i in range(len(rows))]))
    assert counted(run) == WHOLE
    assert run.samples is not None
    assert run.samples.counted == len(rows)


@pytest.mark.parametrize("step", [-5, -(2**53), 10**15, 2**52])
def test_steps_that_no_run_has(tmp_path: Path, step: int) -> None:
    rows = [row for s in WHOLE for row in samples(s)] + [{**row, "step": step} for row in samples(4)]
    run = read(one_file(verl(tmp_path / "run"), rows))
    assert set(counted(run)) >= set(WHOLE)
    assert run.last_step == STEPS


@pytest.mark.parametrize("step", [2**63, 10**400, -(10**400), 1e300, "four", "1e3", None, True, {}])
def test_steps_that_are_none(tmp_path: Path, step: object) -> None:
    rows = [row for s in WHOLE for row in samples(s)] + [{**row, "step": step} for row in samples(4)]
    run = read(one_file(verl(tmp_path / "run"), rows))
    assert set(counted(run)) >= set(WHOLE)


def test_completions_of_other_steps_than_the_log(tmp_path: Path) -> None:
    root = verl(tmp_path / "run")
    for step in WHOLE:
        (root / "rollouts" / f"{step}.jsonl").rename(root / "rollouts" / f"{step + 5_000}.jsonl")
        write(root / "rollouts" / f"{step + 5_000}.jsonl", [{**row, "step": step + 5_000} for row in samples(step)])
    run = read(root)
    assert run.last_step == STEPS
    says(run, "of steps 5001 to 5012", "log tells of steps 1 to 12")


# --- files ---


def test_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    root = verl(tmp_path / "run")
    (root / "rollouts" / "13.jsonl").symlink_to(root / "gone.jsonl")
    run = read(root)
    assert counted(run) == WHOLE
    says(run, "13.jsonl", "cannot be read")


def test_a_file_that_is_being_written_packed(tmp_path: Path) -> None:
    root = one_file(verl(tmp_path / "run"), samples(0))
    path = root / "rollouts" / "later.jsonl"
    rows = [
        {"prompt": r["input"], "completion": r["output"], "reward": r["score"], "step": s}
        for s in WHOLE
        for r in samples(s)
    ]
    packed = gzip.compress(write(path, rows).read_bytes())
    path.unlink()
    (root / "rollouts" / "later.jsonl.gz").write_bytes(packed[: len(packed) * 3 // 4])
    run = read(root)
    assert 3 <= len(counted(run)) < STEPS
    says(run, "later.jsonl.gz", "cut off")


def test_a_packed_file_with_other_bytes_inside(tmp_path: Path) -> None:
    root = one_file(verl(tmp_path / "run"), samples(0))
    noise = np.random.default_rng(3).integers(97, 123, size=(200, 2_000), dtype=np.uint8)
    rows = [
        {"prompt": "q", "completion": n.tobytes().decode(), "reward": 1.0, "step": i // 4} for i, n in enumerate(noise)
    ]
    packed = bytearray(gzip.compress(write(root / "rollouts" / "later.jsonl", rows).read_bytes()))
    (root / "rollouts" / "later.jsonl").unlink()
    packed[len(packed) // 2 : len(packed) // 2 + 60] = b"\xff" * 60
    (root / "rollouts" / "later.jsonl.gz").write_bytes(bytes(packed))
    run = read(root)
    assert len(counted(run)) > 5
    says(run, "later.jsonl.gz", "what stands before was used")


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"{}\n", b"{", b"\x00" * 100, b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"[]", b"null\n"]
)
@pytest.mark.parametrize("step", [1, 4])
def test_a_file_with_nothing_in_it(tmp_path: Path, content: bytes, step: int) -> None:
    root = verl(tmp_path / "run")
    (root / "rollouts" / f"{step}.jsonl").write_bytes(content)
    run = read(root)
    assert set(counted(run)) - {step} == set(WHOLE) - {step}


def test_every_file_is_empty(tmp_path: Path) -> None:
    root = verl(tmp_path / "run")
    for path in (root / "rollouts").iterdir():
        path.write_bytes(b"")
    run = read(root)
    assert run.last_step == STEPS
    says(run, "12 files lie where completions would", "empty")


def test_a_folder_with_nothing_that_vario_knows(tmp_path: Path) -> None:
    root = verl(tmp_path / "run")
    shutil.rmtree(root / "rollouts")
    (root / "rollouts").mkdir()
    write(root / "rollouts" / "1.jsonl", [{"a": 1, "b": "x"}])
    (root / "rollouts" / "model.safetensors").write_bytes(b"\0" * 100)
    assert read(root).last_step == STEPS


# --- another process ---

AS_ANOTHER = """
import os, sys
if sys.argv[2] == "nobody":
    import polars, vario.sources.rollouts, vario.verdict
    os.setgid(65534); os.setuid(65534)
if sys.argv[2] == "light":
    class Without:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in ("polars", "orjson", "zstandard", "diptest"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    sys.meta_path.insert(0, Without())
import vario
run = vario.read(sys.argv[1])
assert vario.diagnose(run).verdict.action
print(len(run.series["text/size/mean"]) if "text/size/mean" in run.series else 0, *run.warnings, sep="\\n")
"""


def in_another_process(root: Path, kind: str) -> list[str]:
    command = [sys.executable, "-c", AS_ANOTHER, str(root), kind]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_polars_is_not_installed(tmp_path: Path) -> None:
    size, *warnings = in_another_process(verl(tmp_path / "run"), "light")
    assert size == "0"
    assert any("pip install 'vario[rollouts]'" in w and "completions" in w for w in warnings), warnings


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="another user is needed, or not to be root")
def test_a_file_without_permission_for_another_user() -> None:
    with tempfile.TemporaryDirectory() as folder:  # where the other user may look
        root = verl(Path(folder) / "run")
        for path in (Path(folder), root, root / "rollouts"):
            path.chmod(0o755)
        for step in (1, 5):
            (root / "rollouts" / f"{step}.jsonl").chmod(0o000)
        size, *warnings = in_another_process(root, "nobody")
    assert size == str(STEPS - 2), warnings
    assert sum("ermission" in w for w in warnings) == 2, warnings


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_file_without_permission(tmp_path: Path) -> None:
    root = verl(tmp_path / "run")
    (root / "rollouts" / "5.jsonl").chmod(0o000)
    run = read(root)
    assert counted(run) == [s for s in WHOLE if s != 5]
    says(run, "5.jsonl", "ermission")

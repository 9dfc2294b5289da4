"""CSV, JSON documents and Parquet: the shapes that trainers and trackers export, with every value asserted."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars
import pytest

import vario
from vario.errors import Malformed, NothingReadable, VarioError
from vario.sources.readers import csv_rows
from vario.sources.rows import Table

STEPS = range(1, 31)


def reward(step: int) -> float:
    return round(0.1 + 0.013 * step, 6)


def kl(step: int) -> float:
    return round(0.0004 * step, 6)


def row(step: int) -> dict[str, object]:
    return {"step": step, "reward": reward(step), "kl": kl(step), "loss": -0.5}


ROWS = [row(s) for s in STEPS]


def values(run: vario.Run, metric: str) -> dict[int, float]:
    series = run.series[metric]
    return dict(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def by_key(run: vario.Run) -> dict[str, dict[int, float]]:
    return {s.key: dict(zip(s.steps.tolist(), s.values.tolist(), strict=True)) for s in run.series.values()}


def check(run: vario.Run) -> vario.Run:
    assert values(run, "reward/mean") == {s: reward(s) for s in STEPS}
    assert values(run, "kl/reference") == {s: kl(s) for s in STEPS}
    assert set(values(run, "loss/total").values()) == {-0.5}
    assert run.logged_steps.tolist() == list(STEPS)
    return run


def save(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def table(path: Path) -> dict[str, dict[int, float]]:
    made: Table = csv_rows.read(path)
    return {k: dict(zip(s.steps.tolist(), s.values.tolist(), strict=True)) for k, s in made.series().items()}


# CSV


def written(rows: list[dict[str, object]], delimiter: str = ",", end: str = "\n") -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter, lineterminator=end)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("name", ["metrics.csv", "metrics.txt"])
def test_csv(tmp_path: Path, delimiter: str, end: str, mark: str, name: str) -> None:
    run = check(vario.read(save(tmp_path / name, mark + written(ROWS, delimiter, end))))
    assert run.ignored_lines == 0
    assert run.warnings == ()


def test_decimal_commas_between_semicolons(tmp_path: Path) -> None:
    text = "step;reward;kl;loss\n" + "".join(f"{s};{str(reward(s)).replace('.', ',')};{str(kl(s)).replace('.', ',')};-0,5\n" for s in STEPS)
    check(vario.read(save(tmp_path / "metrics.csv", text)))


def test_texts_with_newlines_quotes_and_delimiters(tmp_path: Path) -> None:
    rows = [r | {"completion": f'He said "{s}, {s + 1}"\n\nand\n"stop",\nstep,reward,9\n', "kl": r["kl"]} for s, r in zip(STEPS, ROWS, strict=True)]
    run = check(vario.read(save(tmp_path / "metrics.csv", written(rows))))
    assert run.ignored_lines == 0
    first = [{"completion": "a\nb"} | r for r in ROWS]
    check(vario.read(save(tmp_path / "first.csv", written(first))))


def test_a_long_text_in_a_cell(tmp_path: Path) -> None:
    rows = [r | {"completion": "x, " * 100_000 if s == 3 else '"'} for s, r in zip(STEPS, ROWS, strict=True)]
    check(vario.read(save(tmp_path / "metrics.csv", written(rows))))


def test_a_stray_quote_hides_no_row(tmp_path: Path) -> None:
    lines = [f'{s},{reward(s)},{kl(s)},-0.5,{"5 inches" if s != 4 else chr(34) + "five"}' for s in range(1, 2000)]
    run = vario.read(save(tmp_path / "metrics.csv", "step,reward,kl,loss,note\n" + "\n".join(lines) + "\n"))
    missing = set(range(1, 2000)) - set(values(run, "reward/mean"))
    assert missing == {4}
    assert run.ignored_lines == 1
    assert any("line" in w for w in run.warnings)
    inside = [f'{s},{reward(s)},{kl(s)},-0.5,a 5" disk' for s in STEPS]  # a quote inside a cell quotes nothing
    check(vario.read(save(tmp_path / "inside.csv", "step,reward,kl,loss,note\n" + "\n".join(inside) + "\n")))


def test_hostile_quotes_take_no_long(tmp_path: Path) -> None:
    path = save(tmp_path / "metrics.csv", "step,reward,loss\n1,0.5,0.1\n" + '2,"' + ",\n" * 400_000 + '3,"a""' * 20_000)
    began = time.process_time()
    assert table(path)["reward"] == {1: 0.5}
    assert time.process_time() - began < 5.0


def test_the_header_again(tmp_path: Path) -> None:
    text = written(ROWS[:20]) + written(ROWS[10:])
    run = check(vario.read(save(tmp_path / "metrics.csv", text)))
    assert run.ignored_lines == 0
    assert [(e.kind, e.step) for e in run.events] == [("resume", 11)]


def test_ragged_rows_are_counted_and_told(tmp_path: Path) -> None:
    lines = written(ROWS).splitlines()
    lines.insert(5, "99,1")
    lines.insert(9, "98,1,2,3,4,5")
    run = check(vario.read(save(tmp_path / "metrics.csv", "\n".join(lines) + "\n")))
    assert run.ignored_lines == 2
    assert any("2 rows have not as many cells as the header" in w and "line 6" in w for w in run.warnings)


def test_rows_whose_step_cannot_be_read_are_left_out_alone(tmp_path: Path) -> None:
    lines = written(ROWS).splitlines()
    lines[10:10] = [",9,9,9", "x,9,9,9", "1.5,9,9,9"]
    run = check(vario.read(save(tmp_path / "metrics.csv", "\n".join(lines) + "\n")))
    assert run.ignored_lines == 3


def test_empty_cells_and_words(tmp_path: Path) -> None:
    text = "step,reward,kl,loss,eval_reward,done\n" + "".join(
        f"{s},{reward(s)},{kl(s)},-0.5,{0.5 if s % 10 == 0 else ' '},{s > 20}\n" for s in STEPS
    )
    run = check(vario.read(save(tmp_path / "metrics.csv", text)))
    assert values(run, "eval/score/mean") == {10: 0.5, 20: 0.5, 30: 0.5}
    assert table(tmp_path / "metrics.csv")["done"] == {s: float(s > 20) for s in STEPS}


@pytest.mark.parametrize("cell", ["nan", "NaN", "inf", "-inf", "1e400"])
def test_not_finite_cells(tmp_path: Path, cell: str) -> None:
    text = written(ROWS).replace("\n7,", f"\n7,{cell},0.0028,-0.5\n77,")
    made = table(save(tmp_path / "metrics.csv", text))["reward"]
    np.testing.assert_equal(made[7], float(cell))


def test_the_last_row_without_its_newline_lacks_its_last_cell_only(tmp_path: Path) -> None:
    run = vario.read(save(tmp_path / "metrics.csv", written(ROWS).rstrip("\n")[:-1]))  # "-0." of "-0.5"
    assert values(run, "kl/reference")[30] == kl(30)
    assert 30 not in values(run, "loss/total")
    assert values(run, "loss/total")[29] == -0.5
    assert run.ignored_lines == 0


def test_more_columns_than_are_kept(tmp_path: Path) -> None:
    more = csv_rows.MAX_COLUMNS + 100
    text = ",".join(["step", "reward", *(f"k{i}" for i in range(more))]) + "\n"
    text += "".join(",".join([str(s), str(reward(s)), *["1"] * more]) + "\n" for s in range(1, 4))
    assert table(save(tmp_path / "metrics.csv", text))["reward"] == {s: reward(s) for s in range(1, 4)}


def test_rows_without_a_step(tmp_path: Path) -> None:
    run = check(vario.read(save(tmp_path / "metrics.csv", written([{k: v for k, v in r.items() if k != "step"} for r in ROWS]))))
    assert any("order of the rows" in w for w in run.warnings)


def test_long_csv_in_many_blocks(tmp_path: Path) -> None:
    rows = [row(s) for s in range(1, 10_001)]
    made = table(save(tmp_path / "metrics.csv", written(rows)))
    assert made["reward"] == {s: reward(s) for s in range(1, 10_001)}


# exports of W&B and TensorBoard


def test_wandb_chart(tmp_path: Path) -> None:
    def names(key: str) -> str:
        return f'"grpo, lr=1e-6 - {key}","grpo, lr=1e-6 - {key}__MIN","grpo, lr=1e-6 - {key}__MAX"'

    text = f'"train/global_step",{names("train/reward")},{names("train/kl")}\n'
    text += "".join(f'"{s}","{reward(s)}","0","9","{kl(s)}","0","9"\n' for s in STEPS)
    run = vario.read(save(tmp_path / "wandb_export_2026-01-01T00_00_00.csv", text))
    assert by_key(run) == {"train/reward": {s: reward(s) for s in STEPS}, "train/kl": {s: kl(s) for s in STEPS}}
    assert values(run, "reward/mean") == {s: reward(s) for s in STEPS}


def test_wandb_chart_without_bands(tmp_path: Path) -> None:
    text = '"Step","dandy-sun-7 - reward"\n' + "".join(f'"{s}","{reward(s)}"\n' for s in STEPS)
    assert values(vario.read(save(tmp_path / "chart.csv", text)), "reward/mean") == {s: reward(s) for s in STEPS}


def test_wandb_chart_of_several_runs_is_no_ones(tmp_path: Path) -> None:
    names = [f"{run} - reward{bound}" for run in ("a - b", "c") for bound in ("", "__MIN", "__MAX")]
    text = ",".join(["Step", *names]) + "\n" + "".join(f"{s},{reward(s)},0,0,9,9,9\n" for s in STEPS)
    path = save(tmp_path / "chart.csv", text)
    run = vario.read(path)
    assert not run.series
    assert any("2 runs (a - b, c)" in w and "--map" in w for w in run.warnings)
    named = vario.read(path, mapping={"reward/mean": "a - b - reward"})
    assert values(named, "reward/mean") == {s: reward(s) for s in STEPS}


def test_wandb_history(tmp_path: Path) -> None:
    names = ["", "_step", "_runtime", "_timestamp", "train/global_step", "train/reward", "train/kl", "eval/reward", "profiling/Time taken: f"]
    lines = [",".join(names)]
    n = 0
    for s in STEPS:
        lines.append(f"{n},{n},{n}.5,1.7e9,{s},{reward(s)},{kl(s)},,")
        lines.append(f"{n + 1},{n + 1},{n}.7,1.7e9,,,,,3.5")
        n += 2
        if s % 10 == 0:
            lines.append(f"{n},{n},{n}.5,1.7e9,{s},,,{0.5 + s / 100},")
            n += 1
    run = vario.read(save(tmp_path / "wandb_history.csv", "\n".join(lines) + "\n"))
    assert values(run, "reward/mean") == {s: reward(s) for s in STEPS}
    assert values(run, "eval/score/mean") == {s: 0.5 + s / 100 for s in (10, 20, 30)}
    assert run.ignored_lines == 30  # the rows that have no training step


def test_wandb_history_by_its_own_step(tmp_path: Path) -> None:
    text = ",_step,_runtime,reward,kl\n" + "".join(f"{s},{s},{s}.5,{reward(s)},{kl(s) if s % 2 else ''}\n" for s in STEPS)
    run = vario.read(save(tmp_path / "history.csv", text))
    assert values(run, "reward/mean") == {s: reward(s) for s in STEPS}
    assert list(values(run, "kl/reference")) == list(range(1, 31, 2))


def scalars(f: Callable[[int], float]) -> str:
    return "Wall time,Step,Value\n" + "".join(f"{1.7e9 + s},{s},{f(s)}\n" for s in STEPS)


@pytest.mark.parametrize(
    ("name", "key"),
    [("run-grpo_7-tag-train_reward.csv", "train/reward"), ("run-.-tag-reward.csv", "reward"), ("reward.csv", "reward"),
     ("run-a-tag-b-tag-eval_reward.csv", "tag-eval_reward"), ("train_kl.csv", "train/kl")],
)  # fmt: skip
def test_tensorboard_export_is_called_as_its_file(tmp_path: Path, name: str, key: str) -> None:
    path = save(tmp_path / name, scalars(reward))
    made = table(path)
    expected = key if "tag-eval" not in key else "b-tag-eval_reward"
    assert made[expected] == {s: reward(s) for s in STEPS}
    assert set(made) == {expected, "_timestamp"}


def test_tensorboard_exports_of_one_run(tmp_path: Path) -> None:
    for key, f in (("train_reward", reward), ("train_kl", kl), ("train_loss", lambda _: -0.5)):
        save(tmp_path / f"run-grpo-tag-{key}.csv", scalars(f))
    check(vario.read(tmp_path))


# what is no table of metrics


@pytest.mark.parametrize(
    "text",
    ["a,b\n", "a,b\n\n", "name,city\nAnn,Rome\n", "step,reward\n", "1,2,3\n4,5,6\n", "step,reward\n1,x\n2,y\n", "\n\n", "a,b\nc\n"],
)
@pytest.mark.parametrize("name", ["x.csv", "x.txt"])
def test_no_table_of_metrics(tmp_path: Path, text: str, name: str) -> None:
    with pytest.raises(VarioError, match=name):
        vario.read(save(tmp_path / name, text))


def test_a_log_with_commas_is_no_csv(tmp_path: Path) -> None:
    text = "Loading model, please wait, 3 shards\nDone in 3, 4, 5\n" + "".join(f"{{'loss': 0.5, 'reward': {reward(s)}, 'epoch': {s / 100}}}\n" for s in STEPS)
    assert values(vario.read(save(tmp_path / "out.log", text)), "reward/mean") == {s: reward(s) for s in STEPS}
    only = "".join(f"{{'loss': 0.5, 'reward': {reward(s)}, 'lengths': [1, 2, 3], 'epoch': {s / 100}}}\n" for s in STEPS)
    assert values(vario.read(save(tmp_path / "only.log", only)), "reward/mean") == {s: reward(s) for s in STEPS}


# JSON documents


DOCUMENTS: dict[str, object] = {
    "list of rows": ROWS,
    "rows under a word": {"history": ROWS, "config": {"learning_rate": 1e-6}},
    "rows deep inside": {"run": {"logs": {"train": ROWS}}, "version": 3},
    "the longest of several lists": {"eval": ROWS[:2], "train": ROWS, "samples": [{"prompt": "a", "completion": "b"}] * 90},
    "columns": {"step": list(STEPS), "reward": [reward(s) for s in STEPS], "kl": [kl(s) for s in STEPS], "loss": [-0.5] * 30},
    "columns deep inside": {"metrics": {"step": list(STEPS), "reward": [reward(s) for s in STEPS], "kl": [kl(s) for s in STEPS], "loss": [-0.5] * 30}},
    "columns beside others of another length": {"step": list(STEPS), "reward": [reward(s) for s in STEPS], "kl": [kl(s) for s in STEPS], "loss": [-0.5] * 30, "eval": [1.0, 2.0], "seeds": [1, 2]},
    "rows under their step": {str(s): {k: v for k, v in row(s).items() if k != "step"} for s in STEPS},
    "rows under their step inside": {"log": {str(s): {k: v for k, v in row(s).items() if k != "step"} for s in STEPS}},
    "rows with metrics one level down": [{"step": s, "metrics": {k: v for k, v in row(s).items() if k != "step"}} for s in STEPS],
    "rows with numbers as texts": [{k: str(v) for k, v in r.items()} for r in ROWS],
    "foreign entries among the rows": [*ROWS[:5], None, "x", [1], *ROWS[5:]],
}  # fmt: skip


@pytest.mark.parametrize("shape", sorted(DOCUMENTS))
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_json_documents(tmp_path: Path, shape: str, indent: int | None, mark: str) -> None:
    run = check(vario.read(save(tmp_path / "metrics.json", mark + json.dumps(DOCUMENTS[shape], indent=indent))))
    assert run.ignored_lines == {"foreign entries among the rows": 3, "columns beside others of another length": 2}.get(shape, 0)


def test_a_json_document_keeps_its_settings(tmp_path: Path) -> None:
    run = vario.read(save(tmp_path / "metrics.json", json.dumps({"history": ROWS, "config": {"learning_rate": 3e-6, "beta": 0.1}})))
    assert run.config["learning_rate"] == 3e-6


def test_columns_without_a_step_count_by_their_order(tmp_path: Path) -> None:
    run = vario.read(save(tmp_path / "metrics.json", json.dumps({"reward": [reward(s) for s in STEPS], "loss": [0.5] * 30})))
    assert values(run, "reward/mean") == {s: reward(s) for s in STEPS}
    assert any("order" in w for w in run.warnings)


def test_columns_are_never_mixed_by_length(tmp_path: Path) -> None:
    document = {"step": list(range(10, 310, 10)), "reward": [reward(s) for s in STEPS], "loss": [0.5] * 29, "kl": [0.1] * 29, "lr": [0.1] * 29}
    run = vario.read(save(tmp_path / "metrics.json", json.dumps(document)))
    assert values(run, "reward/mean") == {10 * s: reward(s) for s in STEPS}
    assert "loss/total" not in run.series  # 29 values for 30 steps: whose they are is not known
    assert run.ignored_lines == 3
    assert any("29" in w and "loss" in w for w in run.warnings)


def test_nulls_and_nan_in_a_document(tmp_path: Path) -> None:
    text = json.dumps([r | {"kl": None if r["step"] == 3 else float("nan") if r["step"] == 4 else float("inf")} for r in ROWS])
    kls = values(vario.read(save(tmp_path / "metrics.json", text)), "kl/reference")
    assert np.isnan(kls[3])
    assert np.isnan(kls[4])
    assert kls[5] == np.inf


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", "[[1, 2], [3, 4]]", "[1, 2, 3]", '{"a": [1, 2], "b": [3, 4]}', '{"name": "x", "dependencies": {"a": "1.0"}}', '{"1": 2, "2": 3}',
     '[{"prompt": "a", "completion": "b"}]', '{"reward": 0.5, "loss": 0.1}', '{"x": {"y": {"z": {"w": {"v": [{"reward": 1}]}}}}}'],
)  # fmt: skip
def test_documents_that_hold_no_rows(tmp_path: Path, text: str) -> None:
    with pytest.raises(VarioError, match=r"metrics\.json"):
        vario.read(save(tmp_path / "metrics.json", text))


@pytest.mark.parametrize("cut", [5, 300, -2])
def test_a_document_that_was_cut_off(tmp_path: Path, cut: int) -> None:
    with pytest.raises(Malformed, match="still being written"):
        vario.read(save(tmp_path / "metrics.json", json.dumps(ROWS, indent=1)[:cut]))


def test_a_document_nested_too_deep(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="broken JSON"):
        vario.read(save(tmp_path / "metrics.json", '{"a":' * 100_000 + "1" + "}" * 100_000))


# Parquet


def test_parquet(tmp_path: Path) -> None:
    polars.DataFrame(ROWS).with_columns(note=polars.lit("text"), done=polars.col("step") > 20).write_parquet(tmp_path / "metrics.parquet")
    run = check(vario.read(tmp_path / "metrics.parquet"))
    assert run.warnings == ()


@pytest.mark.parametrize("kind", [polars.Int8, polars.UInt64, polars.Float64, polars.Float32, polars.String])
def test_parquet_steps_of_any_type(tmp_path: Path, kind: type[polars.DataType]) -> None:
    polars.DataFrame(ROWS).with_columns(polars.col("step").cast(kind)).write_parquet(tmp_path / "metrics.parquet")
    check(vario.read(tmp_path / "metrics.parquet"))


def test_parquet_with_nulls_and_nan(tmp_path: Path) -> None:
    frame = polars.DataFrame(
        {"step": [1, 2, 3, 4, None], "reward": [0.5, None, float("nan"), float("inf"), 9.0], "loss": [1, 2, 3, 4, 9], "x": [None] * 5},
        schema_overrides={"x": polars.Float64},
    )
    frame.write_parquet(tmp_path / "metrics.parquet")
    run = vario.read(tmp_path / "metrics.parquet")
    series = run.series["reward/mean"]
    assert series.steps.tolist() == [1, 3, 4]
    assert series.values[0] == 0.5
    assert np.isnan(series.values[1])
    assert series.values[2] == np.inf
    assert values(run, "loss/total") == {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}
    assert run.ignored_lines == 1


def test_parquet_of_types_that_hold_numbers_otherwise(tmp_path: Path) -> None:
    frame = polars.DataFrame(ROWS).with_columns(
        polars.col("reward").cast(polars.Decimal(20, 6)), polars.col("kl").cast(polars.String), when=polars.lit("2026-01-01").str.to_date()
    )
    frame.write_parquet(tmp_path / "metrics.parquet")
    run = vario.read(tmp_path / "metrics.parquet")
    assert values(run, "reward/mean") == pytest.approx({s: reward(s) for s in STEPS})
    assert values(run, "kl/reference") == {s: kl(s) for s in STEPS}


def test_parquet_without_rows_of_numbers(tmp_path: Path) -> None:
    for name, frame in (("empty", polars.DataFrame({"step": [], "reward": []}, schema={"step": polars.Int64, "reward": polars.Float64})),
                        ("steps", polars.DataFrame({"step": [1, 2]})), ("texts", polars.DataFrame({"a": ["x"], "b": ["y"]}))):  # fmt: skip
        frame.write_parquet(tmp_path / f"{name}.parquet")
        with pytest.raises(Malformed, match=f"{name}.parquet"):
            vario.read(tmp_path / f"{name}.parquet")


def test_damaged_parquet(tmp_path: Path) -> None:
    path = tmp_path / "metrics.parquet"
    polars.DataFrame(ROWS).write_parquet(path)
    data = path.read_bytes()
    for broken in (data[:4], data[: len(data) // 2], data[:-4] + b"XXXX", b"PAR1" + b"\xff" * 500):
        path.write_bytes(broken)
        with pytest.raises(Malformed, match="damaged Parquet"):
            vario.read(path)


def test_parquet_without_polars_says_what_to_install(tmp_path: Path) -> None:
    polars.DataFrame(ROWS).write_parquet(tmp_path / "metrics.parquet")
    code = (
        "import sys; sys.modules['polars'] = None\nimport vario\nfrom vario.errors import NothingReadable\n"
        "try:\n    vario.read(sys.argv[1])\nexcept NothingReadable as error:\n    print(error)\n"
    )
    made = subprocess.run([sys.executable, "-c", code, str(tmp_path / "metrics.parquet")], capture_output=True, text=True, check=True)
    assert "pip install 'vario[parquet]'" in made.stdout
    assert "metrics.parquet" in made.stdout


def test_memory_of_a_hostile_csv_is_bounded(tmp_path: Path) -> None:
    path = save(tmp_path / "metrics.csv", "step,reward,note\n" + "".join(f"{s},0.5,{'9' * 1_000_000 if s == 2 else 1}\n" for s in range(1, 3000)))
    tracemalloc.start()
    try:
        assert len(table(path)["reward"]) == 2999
        assert tracemalloc.get_traced_memory()[1] < 60 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["samples.parquet", "samples.csv", "samples.json", "samples.jsonl", "samples.ndjson"])
def test_samples_with_rewards_are_no_log(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    rows: list[dict[str, object]] = [{"step": s // 4, "prompt": "2 + 2", "completion": "it is\n4", "reward": s / 16} for s in range(16)]
    if name.endswith("parquet"):
        polars.DataFrame(rows).write_parquet(path)
    else:
        text = {"csv": written(rows), "json": json.dumps(rows)}.get(name.split(".")[1], "".join(json.dumps(r) + "\n" for r in rows))
        save(path, text)
    if name.endswith(".json"):  # a document is no table of samples
        with pytest.raises(NothingReadable, match="samples"):
            vario.read(path)
        return
    run = vario.read(path)
    assert run.samples is not None
    assert run.samples.counted == 16
    assert all(series.counted for series in run.series.values()), "no sample is taken for a step's metrics"
    assert run.series["reward/mean"].values.tolist() == [s / 16 + 1.5 / 16 for s in (0, 4, 8, 12)]


def test_metrics_beside_a_sample_are_a_run(tmp_path: Path) -> None:
    shown = [r | {"prompt": "2 + 2", "completion": "it is 4"} for r in ROWS]
    check(vario.read(save(tmp_path / "rows.jsonl", "".join(json.dumps(r) + "\n" for r in shown))))
    check(vario.read(save(tmp_path / "rows.csv", written(shown))))
    check(vario.read(save(tmp_path / "rows.json", json.dumps(shown))))
    mixed = "".join(json.dumps(r) + "\n" + json.dumps({"step": r["step"], "prompt": "a", "completion": "b", "reward": 9.0}) + "\n" for r in ROWS)
    run = check(vario.read(save(tmp_path / "mixed.jsonl", mixed)))
    assert any("30 rows are samples" in w for w in run.warnings)


def test_nothing_readable_in_an_unknown_text(tmp_path: Path) -> None:
    with pytest.raises(NothingReadable, match="vario reads"):
        vario.read(save(tmp_path / "x.log", "hello\nworld\n"))


@pytest.mark.parametrize("missing", ["orjson", "nothing"])
def test_nan_and_infinity_in_json_lines_with_and_without_orjson(tmp_path: Path, missing: str) -> None:
    text = "".join(json.dumps({"step": s, "reward": [float("nan"), float("inf"), -float("inf"), 0.5][s % 4], "loss": 0.5, "note": ": NaN,"}) + "\n" for s in range(8))
    path = save(tmp_path / "rows.jsonl", text)
    code = f"import sys; sys.modules[{missing!r}] = None\nimport vario\nprint(vario.read(sys.argv[1]).series['reward/mean'].values.tolist())"
    made = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert made.stdout.strip() == "[nan, inf, -inf, 0.5, nan, inf, -inf, 0.5]"

"""Whatever lies at a path: a VarioError that says what, where and what to try, or a Run with the loss counted."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest

import vario
from vario.errors import Malformed, NothingReadable, SeveralRuns, VarioError
from vario.verdict import to_json

REMEDIES = ("check", "give", "expected", "vario reads", "TRL writes", "was ", "cut off", "leads nowhere", "neither")


def grpo_row(step: int, **more: object) -> dict[str, object]:
    return {"step": step, "epoch": step / 10, "reward": 0.1 + step / 100, "reward_std": 0.2, "kl": 0.01, "loss": 0.0} | more


def write_rows(path: Path, rows: list[dict[str, object]], tail: str = "") -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows) + tail, encoding="utf-8")
    return path


def state_text(rows: list[dict[str, object]]) -> str:
    return json.dumps({"best_metric": None, "global_step": len(rows), "log_history": rows, "max_steps": 99}, indent=2)


def good(path: Path) -> vario.Run:
    """Read and diagnose; the document must be plain JSON."""
    run = vario.read(path)
    json.loads(json.dumps(to_json(vario.diagnose(run)), allow_nan=False))
    return run


def bad(path: Path, kind: type[VarioError] = NothingReadable) -> str:
    with pytest.raises(kind) as caught:
        vario.read(path)
    message = str(caught.value)
    assert path.name in message, message
    assert any(r in message for r in REMEDIES), message
    return message


# nothing there


def test_empty_folder(tmp_path: Path) -> None:
    assert "it is empty" in bad(tmp_path)


def test_folder_of_other_files(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("hello")
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 10)
    assert "2 other files" in bad(tmp_path)


@pytest.mark.parametrize("name", ["nowhere", "x" * 300, "with\nnewline", "nul\0byte"])
def test_missing_path(tmp_path: Path, name: str) -> None:
    bad(tmp_path / name)


@pytest.mark.parametrize("name", ["trainer_state.json", "log.jsonl", "anything"])
@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_empty_file(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(VarioError, match=name):
        vario.read(path)


def test_folder_with_an_empty_log(tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json").write_bytes(b"")
    assert "empty" in bad(tmp_path, Malformed)


def test_empty_state_beside_good_rows(tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json").write_bytes(b"")
    write_rows(tmp_path / "metrics.jsonl", [grpo_row(i) for i in range(1, 30)])
    run = good(tmp_path)
    assert run.last_step == 29
    assert any("empty" in w for w in run.warnings)


@pytest.mark.parametrize("content", ["{}", "[]", "null", "3", '"text"', '{"name": "pkg", "version": "1.0.0"}', "{\n \"a\": [1,\n2]}"])
@pytest.mark.parametrize("name", ["package.json", "trainer_state.json", "rows.jsonl"])
def test_a_json_file_that_is_something_else(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    bad(path, VarioError)


@pytest.mark.parametrize("name", ["model.bin", "trainer_state.json", "rows.jsonl"])
def test_binary(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(np.random.default_rng(0).bytes(5000))
    bad(path, VarioError)


def test_binary_behind_a_brace(tmp_path: Path) -> None:
    for name in ("trainer_state.json", "rows.jsonl"):
        path = tmp_path / name
        path.write_bytes(b"{" + np.random.default_rng(0).bytes(5000))
        bad(path, VarioError)


# cut off


def test_state_cut_in_the_middle_of_a_row(tmp_path: Path) -> None:
    text = state_text([grpo_row(i) for i in range(1, 41)])
    path = tmp_path / "trainer_state.json"
    path.write_text(text[: text.index('"step": 31') + 20])
    run = good(path)
    assert run.last_step == 30
    assert run.ignored_lines == 1
    assert any("cut off" in w and "30 rows" in w for w in run.warnings)


def test_state_cut_at_every_place(tmp_path: Path) -> None:
    text = state_text([grpo_row(i) for i in range(1, 4)])
    path = tmp_path / "trainer_state.json"
    for cut in range(len(text)):
        path.write_text(text[:cut])
        try:
            run = vario.read(path)
        except VarioError as error:
            assert path.name in str(error)
        else:
            assert 1 <= run.logged_steps.size <= 3
            if cut < text.index("]"):
                assert run.warnings, text[:cut][-40:]


def test_state_cut_before_the_history(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    path.write_text('{"best_metric": null, "epoch": 3.0, "log_hi')
    assert "cut off" in bad(path, Malformed)


@pytest.mark.parametrize("history", ["null", "{}", "[]", "[null, 3, []]", '"[1]"', "[[[["])
def test_state_without_rows(tmp_path: Path, history: str) -> None:
    path = tmp_path / "trainer_state.json"
    path.write_text(f'{{"log_history": {history}, "stateful_callbacks": [{{"step": 1, "loss": 2}}]}}')
    bad(path, Malformed)


def test_state_with_foreign_rows_counts_them(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    rows: list[object] = [grpo_row(i) for i in range(1, 21)]
    path.write_text(json.dumps({"log_history": [None, 7, *rows, ["x"], {}]}))
    run = good(path)
    assert run.last_step == 20
    assert run.ignored_lines == 4


def test_state_larger_than_one_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vario.sources.readers import trainer_state

    text = state_text([grpo_row(i, note="ü\u2028" * 5) for i in range(1, 21)])
    path = tmp_path / "trainer_state.json"
    path.write_text(text, encoding="utf-8")
    whole = trainer_state.read(path)
    for piece in (1, 7, 64, 1000):
        monkeypatch.setattr(trainer_state, "PIECE", piece)
        pieces = trainer_state.read(path)
        assert pieces.rows == whole.rows == 20
        assert pieces.config == whole.config != {}
        assert pieces.warnings == whole.warnings == []


def test_half_written_last_line(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "log.jsonl", [grpo_row(i) for i in range(1, 31)], '{"step": 31, "rew')
    run = good(path)
    assert run.last_step == 30
    assert run.ignored_lines == 1
    assert any("line 31" in w for w in run.warnings)


def test_broken_lines_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [json.dumps(grpo_row(i)) for i in range(1, 31)]
    lines[9] = lines[9][:20]
    lines[19] = "Traceback (most recent call last):"
    path.write_text("\r\n".join(lines))
    run = good(path)
    assert run.logged_steps.size == 28
    assert run.ignored_lines == 2
    assert any("2 lines, the first is line 10" in w for w in run.warnings)


def test_nul_bytes_and_broken_utf8(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [json.dumps(grpo_row(i)).encode() for i in range(1, 31)]
    path.write_bytes(b"\n".join([*lines, b"\0" * 100, b'{"step": 31, "reward": 1, "t": "\xff\xfe"}']))
    assert good(path).ignored_lines == 2
    state = tmp_path / "trainer_state.json"
    state.write_bytes(state_text([grpo_row(1, note="X")]).encode().replace(b"X", b"\xff"))
    assert good(state).last_step == 1


# odd values


def test_odd_values(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [json.dumps(grpo_row(i)) for i in range(1, 40)]
    rows += [
        '{"step": 40, "reward": NaN, "kl": Infinity, "loss": -Infinity}',
        '{"step": 41, "reward": "0.5", "kl": "nan", "loss": "inf", "note": "text"}',
        '{"step": 42, "reward": null, "kl": true, "loss": [1, 2], "reward_std": {"a": {"b": 1}}}',
        '{"step": 43, "reward": 1' + "0" * 400 + ', "kl": -1' + "0" * 400 + ', "loss": 1e999}',
        '{"step": 44, "reward": {"deep": [[[1]]]}, "loss": {}}',
    ]
    path.write_text("\n".join(rows))
    run = good(path)
    reward = dict(zip(run.series["reward/mean"].steps.tolist(), run.series["reward/mean"].values.tolist(), strict=True))
    assert np.isnan(reward[40])
    assert reward[41] == 0.5
    assert np.isnan(reward[42])
    assert reward[43] == np.inf
    assert 44 not in reward
    assert run.ignored_lines == 1
    assert "reward_std/a/b" in run.unmapped


@pytest.mark.parametrize("value", ["NaN", "Infinity", "null", '"x"', "[]", "1" + "0" * 5000, "true", "1e308", "-1e308", "5e-324"])
def test_every_row_odd(tmp_path: Path, value: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f'{{"step": {i}, "reward": {value}, "loss": 0, "kl": {value}, "lr": 1e-6}}\n' for i in range(1, 61)))
    try:
        good(path)
    except VarioError as error:
        assert "log.jsonl" in str(error)


@pytest.mark.parametrize("step", ["1" + "0" * 30, "-5", "1.5", "NaN", "Infinity", "null", '"x"', "[]", "{}", "true", '"9/547"', '""', "1e300"])
def test_odd_steps(tmp_path: Path, step: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f'{{"step": {step}, "reward": {i}}}\n' for i in range(1, 31)))
    run = good(path)
    assert run.logged_steps.size in (1, 30)
    assert run.warnings


def test_no_step_key(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "log.jsonl", [{"reward": i / 30, "kl": 0.1} for i in range(30)])
    run = good(path)
    assert (run.first_step, run.last_step) == (1, 30)
    assert any("without a step" in w for w in run.warnings)
    state = tmp_path / "trainer_state.json"
    state.write_text(json.dumps({"log_history": [{"reward": i / 30} for i in range(30)]}))
    assert any("without a step" in w for w in good(state).warnings)


def test_a_row_without_step_among_others_is_counted_not_placed(tmp_path: Path) -> None:
    rows = [grpo_row(i) for i in range(100, 130)]
    path = write_rows(tmp_path / "log.jsonl", [*rows[:20], {"reward": 99.0}, *rows[20:]])
    run = good(path)
    assert run.ignored_lines == 1
    assert run.events == ()
    assert run.first_step == 100
    assert run.series["reward/mean"].values.max() < 99


def test_unsorted_and_repeated_steps(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    steps = [*rng.permutation(40).tolist(), 5, 5, 6]
    path = write_rows(tmp_path / "log.jsonl", [grpo_row(s, reward=float(i)) for i, s in enumerate(steps)])
    run = good(path)
    reward = run.series["reward/mean"]
    assert reward.steps.tolist() == list(range(40))
    assert reward.values[5] == 41.0
    assert reward.values[6] == 42.0
    assert any("3 steps were logged more than once" in w for w in run.warnings)
    assert any(e.kind == "resume" for e in run.events)


def test_one_row(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "log.jsonl", [grpo_row(1)])
    assert good(path).logged_steps.size == 1
    assert vario.diagnose(vario.read(path)).verdict.trajectory == "too-short"


def test_only_the_closing_summary_or_only_eval_rows(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    path.write_text(state_text([{"step": 5, "train_runtime": 1.0, "train_loss": 0.1}]))
    good(path)
    path.write_text(state_text([{"step": i, "eval_loss": 1.0, "eval_reward": 0.5} for i in range(20)]))
    good(path)
    for step in (10, 20):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(state_text([{"step": i, "eval_reward": 0.5} for i in range(step)]))
    good(tmp_path)


def test_empty_run_is_diagnosed() -> None:
    from vario.sources import interpret
    from vario.sources.rows import Table

    run = interpret(Table("nowhere", "test"))
    assert json.dumps(to_json(vario.diagnose(run)))


# hostile sizes and shapes


@pytest.mark.parametrize("name", ["rows.jsonl", "trainer_state.json"])
@pytest.mark.parametrize("unit", [("[", "]"), ('{"a":', "}")])
def test_nesting_bomb(tmp_path: Path, name: str, unit: tuple[str, str]) -> None:
    deep = unit[0] * 100_000 + "1" + unit[1] * 100_000
    path = tmp_path / name
    if name.endswith("jsonl"):
        write_rows(path, [grpo_row(i) for i in range(1, 10)], '{"step": 10, "reward": 1, "x": ' + deep + "}\n")
    else:
        path.write_text('{"log_history": [' + json.dumps(grpo_row(9)) + ', {"step": 10, "x": ' + deep + "}]}")
    run = good(path)
    assert run.last_step == 9
    assert run.ignored_lines == 1
    assert run.warnings


def test_moderate_nesting_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"step": 1, "reward": 1, "x": ' + '{"a":' * 300 + "1" + "}" * 300 + "}\n")
    assert good(path).last_step == 1


def test_a_line_of_ten_megabytes(tmp_path: Path) -> None:
    rows = [json.dumps(grpo_row(i)) for i in range(1, 31)]
    rows.insert(15, '{"step": 99, "text": "' + "x" * 10_000_000 + '"}')
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(rows))
    run = good(path)
    assert run.last_step == 30
    assert run.logged_steps.size == 30
    assert run.ignored_lines == 1


def test_more_keys_than_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"step": 1, "reward": 1.0} | {f"k{i}": i for i in range(25_000)}) + "\n")
    run = good(path)
    assert run.ignored_lines == 5001


def test_line_separators_in_strings(tmp_path: Path) -> None:
    rows = [grpo_row(i, note="a\u2028b\u2029c\x85d\x0be") for i in range(1, 31)]
    path = tmp_path / "rows.jsonl"
    path.write_bytes("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows).encode())
    run = good(path)
    assert run.logged_steps.size == 30
    assert run.ignored_lines == 0


def test_odd_keys(tmp_path: Path) -> None:
    row = {"": 1, " ": 2, "rewards//mean": 1, "rewards/a/b/mean": 3, "rewards/\u2028/mean": 4, "\ud800": 5, "reward": 1}
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"step": i, "reward_std": 0.1, "frac_reward_zero_std": 0.1} | row) + "\n" for i in range(40)))
    good(path)


@pytest.mark.parametrize(
    "text",
    ["? [a, b]\n: 1\n", "? {a: b}\n: 1\n", "a: 2024-99-99\n", "a: " + "[" * 5000, "a: &a [*a]\nbeta: 1\n", "- 1\n", "a: !!python/object/apply:os.system ['true']\n", "0x" + "f" * 9000 + ": 1\n", "\0"],
)
def test_odd_yaml_configurations(tmp_path: Path, text: str) -> None:
    write_rows(tmp_path / "rows.jsonl", [grpo_row(i) for i in range(1, 31)])
    (tmp_path / "config.yaml").write_text(text)
    good(tmp_path)


def test_alias_bomb_in_yaml(tmp_path: Path) -> None:
    lines = ["beta: 0.1", "learning_rate: 1.0e-6", "a0: &a0 [1,1,1,1,1,1,1,1,1]"]
    lines += [f"a{i}: &a{i} [" + ",".join([f"*a{i - 1}"] * 9) + "]" for i in range(1, 12)]
    write_rows(tmp_path / "rows.jsonl", [grpo_row(i) for i in range(1, 31)])
    (tmp_path / "config.yaml").write_text("\n".join(lines))
    run = good(tmp_path)
    assert run.config["beta"] == 0.1
    assert "a11" not in run.config


@pytest.mark.parametrize("value", ["1" + "0" * 400, "NaN", "-Infinity", '""', "[]", "{}", "null", "true", "0", "-1", "1" + "0" * 5000])
def test_odd_settings(tmp_path: Path, value: str) -> None:
    write_rows(tmp_path / "rows.jsonl", [grpo_row(i, reward=min(i, 60) * (-1) ** (i > 60)) for i in range(1, 121)])
    keys = ("beta", "learning_rate", "num_generations", "gradient_accumulation_steps", "num_iterations", "epsilon",
            "per_device_train_batch_size", "max_completion_length", "scale_rewards", "temperature", "steps_per_generation",
            "trl_version", "save_steps", "max_grad_norm")  # fmt: skip
    (tmp_path / "config.json").write_text("{" + ", ".join(f'"{k}": {value}' for k in keys) + "}")
    assert not vario.diagnose(vario.read(tmp_path)).broken
    good(tmp_path)


# folders


def test_duplicate_checkpoints_are_one_run(tmp_path: Path) -> None:
    rows = [grpo_row(i) for i in range(1, 61)]
    for run in ("a", "b"):
        for step in (30, 60):
            folder = tmp_path / run / f"checkpoint-{step}"
            folder.mkdir(parents=True)
            (folder / "trainer_state.json").write_text(state_text([r | {"reward": len(run)} for r in rows[:step]]))
    run = good(tmp_path / "a")
    assert [c.step for c in run.checkpoints] == [30, 60]
    assert run.events == ()
    with pytest.raises(SeveralRuns) as raised:
        vario.read(tmp_path)
    assert raised.value.names == ["a", "b"]
    assert "--run" in str(raised.value)
    assert [c.step for c in vario.read(tmp_path, run="b").checkpoints] == [30, 60]


def test_same_checkpoint_twice_by_link(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint-30"
    folder.mkdir()
    (folder / "trainer_state.json").write_text(state_text([grpo_row(i) for i in range(1, 31)]))
    (tmp_path / "checkpoint-latest").symlink_to(folder)
    (tmp_path / "tmp-checkpoint-60").mkdir()
    run = good(tmp_path)
    assert [c.step for c in run.checkpoints] == [30]


def test_symlink_loops_and_dangling_links(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    bad(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    bad(tmp_path / "dangling")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "self").symlink_to(folder)
    (folder / "trainer_state.json").symlink_to(folder / "gone.json")
    bad(folder, Malformed)
    (folder / "b.jsonl").symlink_to(folder / "b.jsonl")
    write_rows(folder / "a.jsonl", [grpo_row(i) for i in range(1, 31)])
    run = good(folder)
    assert run.last_step == 30
    assert any("trainer_state.json" in w for w in run.warnings)
    assert any("b.jsonl" in w for w in run.warnings)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rows.jsonl")
    bad(tmp_path)
    bad(tmp_path / "rows.jsonl")


def _as_nobody(code: str, *arguments: str) -> str:
    """Run a script without root's right to read everything."""
    drop = "import os, sys, numpy.random, vario, vario.sources, vario.verdict\nvario.sources.fast_json.loads(b'{}')  # what is loaded at the first use\nfrom vario.errors import VarioError\nif os.geteuid() == 0:\n    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    made = subprocess.run([sys.executable, "-W", "error", "-c", drop + code, *arguments], capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stderr
    return made.stdout


def test_no_permission(tmp_path: Path) -> None:
    for parent in (tmp_path, *tmp_path.parents):
        if parent == Path(tempfile.gettempdir()):
            break
        parent.chmod(0o755)
    closed, half = tmp_path / "closed", tmp_path / "half"
    closed.mkdir()
    write_rows(closed / "rows.jsonl", [grpo_row(1)])
    half.mkdir()
    write_rows(half / "good.jsonl", [grpo_row(i) for i in range(1, 31)])
    secret = write_rows(half / "secret.jsonl", [grpo_row(1)])
    inner = half / "inner"
    inner.mkdir()
    closed.chmod(0)
    secret.chmod(0)
    inner.chmod(0)
    code = (
        "for p in sys.argv[1:]:\n"
        "    try:\n        run = vario.read(p); vario.diagnose(run); print('RUN', run.last_step, *run.warnings)\n"
        "    except VarioError as error:\n        print(type(error).__name__, error)\n"
    )
    try:
        out = _as_nobody(code, str(closed), str(closed / "rows.jsonl"), str(secret), str(half)).splitlines()
    finally:
        closed.chmod(0o755)
        inner.chmod(0o755)
    assert len(out) == 4, out
    for line, path in zip(out[:3], (closed, closed / "rows.jsonl", secret), strict=True):
        assert line.startswith("NothingReadable"), line
        assert str(path) in line
        assert "ermission" in line
    assert out[3].startswith("RUN 30"), out[3]
    assert "secret.jsonl" in out[3]
    assert "inner" in out[3]


def test_hostile_training_arguments_change_nothing(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "owned"),)

    write_rows(tmp_path / "rows.jsonl", [grpo_row(i) for i in range(1, 31)])
    (tmp_path / "training_args.bin").write_bytes(pickle.dumps(Evil()))
    run = good(tmp_path)
    assert not (tmp_path / "owned").exists()
    assert any("training_args.bin" in w for w in run.warnings)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x04.", b"\x80\x05\x95" + b"\xff" * 8, b"(" * 1000, b"]" + b"(2l" * 50, b"garbage"])
def test_broken_training_arguments_are_a_warning(tmp_path: Path, content: bytes) -> None:
    write_rows(tmp_path / "rows.jsonl", [grpo_row(i) for i in range(1, 31)])
    (tmp_path / "training_args.bin").write_bytes(content)
    assert good(tmp_path).warnings


def test_no_numpy_warning_on_extremes(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = []
    for i in range(1, 121):
        a, b = (rng.normal(size=2) * 10.0 ** rng.integers(-300, 300, size=2)).tolist()
        rows.append({"step": i, "reward": a + b, "rewards/a/mean": a, "rewards/b/mean": b, "frac_reward_zero_std": 0.1, "kl": abs(a), "loss": b})
    path = write_rows(tmp_path / "rows.jsonl", rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vario.read(path)

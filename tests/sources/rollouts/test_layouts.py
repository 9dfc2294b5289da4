"""Completions as each framework writes them. The dumps are synthetic, written here from the framework's source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pl = pytest.importorskip("polars")

from tests.conftest import GOLDEN, ROOT, SHARED  # noqa: E402
from tests.sources.rollouts.torch_files import torch_zip  # noqa: E402
from vario.sources.rollouts.blocks import Troubles, blocks  # noqa: E402
from vario.sources.rollouts.dumps import DumpFile, Piece  # noqa: E402
from vario.sources.rollouts.layouts import LAYOUTS, by_key, generic, layout_of, prefer  # noqa: E402

Read = tuple[list[dict[str, Any]], Troubles]


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def read(root: Path, path: str, content: str | bytes | pl.DataFrame, first: dict[str, Any] | None = None) -> Read:
    """Write a dump where the framework does, and read it back as the layout that recognises it."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, pl.DataFrame):
        content.write_parquet(file)
        keys = content.columns
    else:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        keys = list(first if first is not None else json.loads(str(content).splitlines()[0]))
    layout = layout_of(path, keys)
    assert layout is not None, f"{path} is not recognised"
    told = layout.files.search(path)
    assert told is not None
    named = told.groupdict()
    one = DumpFile(
        str(file),
        layout.key,
        int(named["step"]) if named.get("step") else None,
        bool(named.get("eval")),
        file.stat().st_size,
    )
    troubles = Troubles()
    frames = list(blocks(Piece((one,)), troubles))
    return (pl.concat(frames, how="diagonal").to_dicts() if frames else []), troubles


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [row.get(name) for row in rows]


def only(row: dict[str, Any], **expected: object) -> None:
    """The row holds these values, and nothing else that is not null (place aside)."""
    held = {k: v for k, v in row.items() if v is not None and k != "place"}
    assert held == {"evaluation": False, **expected}


def message(role: str, content: str, **more: object) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


# --- TRL ---


def test_trl_texts_with_a_reward_that_does_not_apply(tmp_path: Path) -> None:
    table = pl.DataFrame(
        {
            "step": [10, 10],
            "prompt": ["1+1=", "1+1="],
            "completion": ["2", "3"],
            "correctness": [1.0, 0.0],
            "style": [float("nan"), 0.5],
            "advantage": [0.7, -0.7],
        }
    )
    rows, _ = read(tmp_path, "completions/completions_00010.parquet", table)
    assert column(rows, "step") == [10, 10]
    assert column(rows, "prompt") == ["1+1=", "1+1="]
    assert column(rows, "completion") == ["2", "3"]
    assert column(rows, "reward.correctness") == [1.0, 0.0]
    assert rows[1]["reward.style"] == 0.5
    assert rows[0]["reward.style"] != rows[0]["reward.style"]  # NaN, which counting takes for unknown
    assert column(rows, "advantage") == [0.7, -0.7]
    assert column(rows, "reward") == [None, None]  # the weighted sum, which is counted later
    assert column(rows, "evaluation") == [False, False]


def test_trl_conversations(tmp_path: Path) -> None:
    table = pl.DataFrame(
        {
            "step": [5],
            "prompt": [[message("system", "be brief"), message("user", "1+1?")]],
            "completion": [[message("assistant", "2")]],
            "correctness": [1.0],
            "advantage": [0.0],
        }
    )
    rows, _ = read(tmp_path, "completions/completions_00005.parquet", table)
    assert column(rows, "prompt") == ["be brief\n1+1?"]
    assert column(rows, "completion") == ["2"]


def test_trl_as_it_was_written() -> None:
    files = sorted((SHARED / "lab" / "runs" / "healthy_grpo-s0" / "completions").glob("*.parquet"))
    if not files:
        pytest.skip("no labelled runs here (set VARIO_SHARED)")
    for file in files[:3]:
        raw = pl.read_parquet(file)
        layout = layout_of(f"completions/{file.name}", raw.columns)
        assert layout is not None
        assert layout.key == "trl"
        frames = list(blocks(Piece((DumpFile(str(file), "trl", int(file.stem[-5:])),)), Troubles()))
        got = pl.concat(frames)
        assert got["completion"].to_list() == raw["completion"].to_list()
        assert got["step"].to_list() == raw["step"].to_list()
        assert got["reward.correctness"].to_list() == raw["correctness"].to_list()
        assert sorted(c for c in got.columns if c.startswith("reward.")) == ["reward.correctness", "reward.format_tag"]


# --- verl ---

VERL = {"input": "1+1=", "output": "2", "gts": "2", "score": 1.0, "step": 3}


def test_verl_names_the_group_and_pads(tmp_path: Path) -> None:
    content = lines(
        {**VERL, "uid": "ab_c_0_0"}, {**VERL, "score": 0.0, "uid": "ab_c_1_0"}, {**VERL, "score": 0.0, "uid": "pad_7_0_0"}
    )
    rows, troubles = read(tmp_path, "dumps/3.jsonl", content)
    assert len(rows) == 2
    assert troubles.rows == 1
    only(rows[0], step=3, group="ab_c", prompt="1+1=", completion="2", reward=1.0)
    assert rows[1]["group"] == "ab_c"


def test_verl_validation_is_known_by_what_only_it_writes(tmp_path: Path) -> None:
    content = lines({**VERL, "reward": 1.0, "acc": True, "pred": "2", "overlong_reward": -0.5, "uid": "a_0_0"})
    rows, _ = read(tmp_path, "held/3.jsonl", content)
    held = {"step": 3, "group": "a", "prompt": "1+1=", "completion": "2", "reward": 1.0}
    assert {k: v for k, v in rows[0].items() if v is not None and k != "place"} == {
        **held, "evaluation": True, "reward.acc": 1.0, "reward.overlong_reward": -0.5
    }  # fmt: skip


def test_verl_before_the_group_had_a_name(tmp_path: Path) -> None:
    old = {"input": "1+1=", "output": "2", "score": 0.5, "step": 7}
    rows, _ = read(tmp_path, "dumps/7.jsonl", lines({**old, "acc": 1}, {**old, "acc": None}, {"output": "x", "step": 7}))
    only(rows[0], step=7, prompt="1+1=", completion="2", reward=0.5, **{"reward.acc": 1.0})
    assert column(rows, "reward.acc") == [1.0, None, None]
    assert column(rows, "reward") == [0.5, 0.5, None]  # a row without a score is not a row with score 0
    assert by_key("verl-v0").grouping is by_key("verl-v0-validation").grouping
    assert read(tmp_path, "val_dumps/7.jsonl", lines(old))[0][0]["evaluation"] is True
    for name in ("latest", "values", "interval"):
        assert read(tmp_path, f"{name}/7.jsonl", lines(old))[0][0]["evaluation"] is False


# --- NeMo-RL ---


def nemo(content: object, **more: object) -> dict[str, Any]:
    return {"content": [content], **{k: [v] for k, v in more.items()}, "idx": 0}


def test_nemo_rl_texts_are_told_apart_by_the_mask(tmp_path: Path) -> None:
    multi = ["be brief", "1+1?", "hm", "Environment: go on", "2", "Environment: correct"]
    content = lines(
        nemo(["1+1?", "2", "Environment: correct"], rewards=1.0, input_lengths=6,
             token_loss_mask=[0, 0, 1, 1, 0, 0, 0, 0], advantages=[0, 0, 0.5, 0.5, 0, 0, 0, 0]),
        nemo(multi, rewards=None, input_lengths=9, token_loss_mask=[0, 0, 0, 1, 0, 0, 1, 1, 0]),
        nemo(["1+1?", "2"], rewards=0.0, input_lengths=4, token_loss_mask=[0, 0, 1, 1, 0, 0]),
    )  # fmt: skip
    rows, _ = read(tmp_path, "exp_001/train_data_step4.jsonl", content)
    only(rows[0], step=4, prompt="1+1?", completion="2", reward=1.0, advantage=0.5, length=2.0)
    only(rows[1], step=4, prompt="be brief\n1+1?", completion="hm\n2", length=3.0)
    only(rows[2], step=4, prompt="1+1?", completion="2", reward=0.0, length=2.0)


def test_nemo_rl_without_a_mask(tmp_path: Path) -> None:
    content = lines(nemo(["1+1?", "2", "Environment: correct"], rewards=1.0, input_lengths=6))
    content += lines(nemo(["be brief", "1+1?", "3"], rewards=0.0, input_lengths=7))
    rows, _ = read(tmp_path, "exp_001/train_data_step1.jsonl", content)
    only(rows[0], step=1, prompt="1+1?", completion="2", reward=1.0)
    only(rows[1], step=1, prompt="be brief\n1+1?", completion="3", reward=0.0)


def test_nemo_rl_validation(tmp_path: Path) -> None:
    shown = [message("user", "an example?"), message("assistant", "yes")]
    talk = [*shown, message("user", "1+1?"), message("assistant", "2"), message("environment", "Environment: correct")]
    rows, _ = read(tmp_path, "exp_001/val_data_step0.jsonl", lines(nemo(talk, rewards=1.0)))
    only(rows[0], step=0, evaluation=True, prompt="an example?\nyes\n1+1?", completion="2", reward=1.0)


# --- SkyRL ---


def test_skyrl_writes_evaluations(tmp_path: Path) -> None:
    one = {
        "input_prompt": "1+1=", "output_response": "2", "score": [0.0, 0.25, 0.5], "stop_reason": "length",
        "env_class": "gsm8k", "env_extras": {}, "data_source": "openai/gsm8k",
    }  # fmt: skip
    content = lines(one, {**one, "score": 1.0, "stop_reason": None}, {**one, "score": None, "stop_reason": "stop"})
    rows, _ = read(tmp_path, "dumped_evals/global_step_20_evals/openai_gsm8k.jsonl", content)
    known = {"step": 20, "evaluation": True, "prompt": "1+1=", "completion": "2", "source": "openai/gsm8k"}
    only(rows[0], **known, reward=0.75, truncated=True)
    only(rows[1], **known, reward=1.0)  # null says nothing of how it ended
    only(rows[2], **known, truncated=False)
    totals = {"eval/all/avg_score": 0.5, "eval/all/pass_at_1": 0.5}
    assert layout_of("dumped_evals/global_step_20_evals/aggregated_results.jsonl", totals) is None


# --- slime ---


def sample(**more: object) -> dict[str, Any]:
    return {
        "group_index": 4, "index": 9, "prompt": "1+1=", "tokens": [1, 2, 3], "response": "2", "response_length": 5,
        "reward": 1.0, "loss_mask": None, "weight_versions": [], "remove_sample": False, "status": "completed",
        "metadata": {}, **more,
    }  # fmt: skip


def test_slime(tmp_path: Path) -> None:
    samples = [
        sample(),
        sample(status="truncated", loss_mask=[1, 1, 0, 1], weight_versions=["3", "4"]),
        sample(reward={"score": 0.5, "acc": 1, "pred": "2"}, prompt=[message("user", "1+1?")]),
        sample(reward={"mine": 2.0}, group_index=None),
        sample(reward=None, status="failed"),
        sample(status="aborted"),
    ]
    dump = {"rollout_id": 7, "samples": samples}
    rows, troubles = read(tmp_path, "debug/rollout_7.pt", torch_zip(dump), dump)
    known = {"step": 7, "prompt": "1+1=", "completion": "2"}
    only(rows[0], **known, group="4", reward=1.0, length=5.0, truncated=False)
    only(rows[1], **known, group="4", reward=1.0, length=3.0, truncated=True, version=3.0)
    only(rows[2], **{**known, "prompt": "1+1?"}, group="4", reward=0.5, length=5.0, truncated=False)
    only(rows[3], **known, length=5.0, truncated=False, **{"reward.mine": 2.0})
    only(rows[4], **known, group="4", length=5.0)
    assert len(rows) == 5
    assert troubles.rows == 1
    assert read(tmp_path, "debug/eval_7.pt", torch_zip(dump), dump)[0][0]["evaluation"] is True


# --- prime-rl and verifiers ---


def trace(score: float | None, **more: object) -> dict[str, Any]:
    nodes = [
        {"message": message("user", "1+1?"), "sampled": False, "token_ids": [1, 2], "mask": [False, False]},
        {"message": message("assistant", "hm"), "sampled": True, "token_ids": [3, 4], "mask": [False, True]},
        {"message": message("tool", "say"), "sampled": False, "token_ids": [5], "mask": [False]},
        {"message": message("assistant", "2"), "sampled": True, "token_ids": [6, 7], "mask": [True, True]},
    ]
    rewards = {} if score is None else {"right": {"score": score, "weight": 1.0}, "brief": {"score": 1.0, "weight": 0.25}}
    return {
        "task": {"type": "T", "data": {"q": 1}}, "agent": {"name": "agent", "trainable": True}, "nodes": nodes,
        "calls": [{"node": 3, "finish_reason": "stop"}], "rewards": rewards, "metrics": {"num_turns": 2.0},
        "info": {"advantage": 0.5}, "ok": True, "is_completed": True, "stop_condition": "agent_completed", **more,
    }  # fmt: skip


def episode(*traces: dict[str, Any], **more: object) -> dict[str, Any]:
    return {
        "id": "e", "env": {"id": "gsm8k", "name": None}, "task": {"type": "T", "data": {"q": 1}}, "group": {"id": "g1"},
        "run": {"type": "train", "id": "r", "work": {"type": "train", "step": 11, "policy": {"start": 10, "end": 11}}},
        "ok": True, "errors": [], "traces": list(traces), **more,
    }  # fmt: skip


def test_prime_rl_episodes(tmp_path: Path) -> None:
    content = lines(
        episode(trace(1.0)),
        episode(trace(0.0, stop_condition="max_total_tokens"), trace(1.0, agent={"name": "judge", "trainable": False})),
        episode(trace(None, calls=[{"finish_reason": "length"}]), ok=True, errors=[{"type": "Retried"}]),
        episode(trace(1.0), ok=False, errors=[{"type": "Sandbox"}]),
        episode(ok=False),
    )
    rows, troubles = read(tmp_path, "rollouts/step_12/train/effective/traces.jsonl", content)
    known = {
        "step": 12, "group": "g1", "prompt": "1+1?", "completion": "hm\n2", "length": 3.0, "advantage": 0.5,
        "source": "gsm8k", "version": 10.0,
    }  # fmt: skip
    parts = {"reward.right": 1.0, "reward.brief": 0.25}
    assert len(rows) == 3
    assert troubles.rows == 3  # the judge, the one that failed, and the one that failed before it began
    only(rows[0], **known, reward=1.25, truncated=False, **parts)
    only(rows[1], **known, reward=0.25, truncated=True, **{**parts, "reward.right": 0.0})
    only(rows[2], **known, truncated=True)  # no score is no reward, not a reward of 0
    held_out = read(tmp_path, "rollouts/step_12/eval/all/traces.jsonl", lines(episode(trace(1.0))))[0]
    assert held_out[0]["evaluation"] is True


def test_prime_rl_agents_are_groups_apart(tmp_path: Path) -> None:
    two = episode(trace(1.0, agent={"name": "solver"}), trace(0.0, agent={"name": "critic"}))
    rows, _ = read(tmp_path, "rollouts/step_1/train/all/traces.jsonl", lines(two))
    assert column(rows, "group") == ["g1/solver", "g1/critic"]


def test_prime_rl_traces_of_before(tmp_path: Path) -> None:
    old = trace(1.0, info={"group_id": "g7", "policy_version": 4, "env_name": "math"})
    rows, _ = read(tmp_path, "rollouts/step_5/train/all/traces.jsonl", lines(old))
    assert (rows[0]["group"], rows[0]["version"], rows[0]["source"], rows[0]["reward"]) == ("g7", 4.0, "math", 1.25)


def test_of_two_tellings_one_is_read() -> None:
    both = [f"run/rollouts/step_{n}/train/{kind}/traces.jsonl" for n in (1, 2) for kind in ("all", "effective")]
    assert prefer([*both[:3], "x/all/traces.jsonl"]) == [both[0], both[2], "x/all/traces.jsonl"]
    kept = ["trajectories/train/0001.jsonl", "trajectories/train/0001.parquet", "trajectories/train/0002.jsonl"]
    assert prefer(kept) == kept[1:]
    others = ["a/0001.jsonl", "a/0001.parquet"]
    assert prefer(others) == others


def test_verifiers_alone_is_an_evaluation(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, "outputs/run/traces.jsonl", lines(episode(trace(1.0), group=None, run=None)))
    assert rows[0]["evaluation"] is True
    assert rows[0]["group"] == '{"q": 1}'


def test_verifiers_before_its_first_version(tmp_path: Path) -> None:
    one = {
        "example_id": 3, "prompt": [message("user", "1+1?")], "reward": 1.5, "is_truncated": False, "error": None,
        "completion": [message("assistant", "hm"), message("tool", "say"), message("assistant", "2")],
        "metrics": {"right": 1.0, "num_turns": 2}, "token_usage": {"input_tokens": 9, "output_tokens": 4},
    }  # fmt: skip
    rows, troubles = read(tmp_path, "outputs/evals/e--m/u/results.jsonl", lines(one, {**one, "error": "timeout", "reward": 0.0}))
    assert len(rows) == 1
    assert troubles.rows == 1
    only(
        rows[0], step=0, evaluation=True, group="3", prompt="1+1?", completion="hm\n2", reward=1.5, length=4.0,
        truncated=False, **{"reward.right": 1.0},
    )  # fmt: skip


# --- open-instruct ---


def test_open_instruct_has_no_text(tmp_path: Path) -> None:
    one = {
        "step": 2, "sample_idx": 0, "prompt_idx": 5, "prompt_tokens": [1, 2], "response_tokens": [3, 4, 5], "reward": 10.0,
        "advantage": 1.25, "finish_reason": "stop", "dataset": "gsm8k", "ground_truth": "2", "request_info": {}, "logprobs": [0.0],
    }  # fmt: skip
    content = lines(one, {**one, "response_tokens": [3], "finish_reason": "length", "dataset": ["gsm8k"], "reward": None})
    rows, _ = read(tmp_path, "traces/my_run_rollouts_000000.jsonl", content)
    only(rows[0], step=2, group="5", reward=10.0, advantage=1.25, length=3.0, truncated=False, source="gsm8k")
    only(rows[1], step=2, group="5", advantage=1.25, length=1.0, truncated=True, source="gsm8k")


# --- AReaL ---

AREAL = {
    "task_id": 3, "sample_idx": 0, "seqlen": 30, "prompt_len": 10, "head_version": 4, "tail_version": 5, "reward": 1.0,
    "prompt": "1+1=", "completion": "2",
}  # fmt: skip


def test_areal(tmp_path: Path) -> None:
    content = lines(AREAL, {**AREAL, "sample_idx": 1, "head_version": -1, "reward": None})
    rows, _ = read(tmp_path, "logs/rollout/5/3.jsonl", content)
    known = {"step": 5, "group": "3", "prompt": "1+1=", "completion": "2", "length": 20.0}
    only(rows[0], **known, reward=1.0, version=4.0)
    only(rows[1], **known)  # -1 is the version of the prompt's tokens
    assert read(tmp_path, "logs/eval-rollout/5/3.jsonl", content)[0][0]["evaluation"] is True


# --- Tinker ---


def test_tinker_has_no_text(tmp_path: Path) -> None:
    def turn(length: int, **more: object) -> dict[str, Any]:
        return {"step_idx": 0, "ob_len": 9, "ac_len": length, "reward": 0.0, "episode_done": False, "metrics": {}, "logs": {}, **more}

    one = {
        "schema_version": 1, "split": "train", "iteration": 6, "group_idx": 2, "traj_idx": 0, "tags": ["math"],
        "sampling_client_step": 5, "total_reward": 0.9, "final_reward": 0.0, "trajectory_metrics": {}, "final_ob_len": 20,
    }  # fmt: skip
    content = lines(
        {**one, "steps": [turn(4), turn(3, metrics={"stop/max_tokens": 1.0, "correct": 1.0, "format": 0.0})]},
        {**one, "steps": [turn(4, metrics={"stop/completed": 1.0})], "total_reward": None, "tags": []},
        {**one, "steps": [turn(4, stop_reason="length")]},
        {**one, "steps": [turn(4)]},
    )
    rows, _ = read(tmp_path, "iteration_000006/train_rollout_summaries.jsonl", content)
    known = {"step": 6, "group": "2", "version": 5.0}
    only(
        rows[0], **known, reward=0.9, length=7.0, truncated=True, source="math",
        **{"reward.correct": 1.0, "reward.format": 0.0},
    )  # fmt: skip
    only(rows[1], **known, length=4.0, truncated=False)
    assert column(rows, "truncated") == [True, False, True, None]
    held_out = read(tmp_path, "iteration_000006/eval_gsm8k_rollout_summaries.jsonl", content)[0]
    assert all(column(held_out, "evaluation"))


# --- ART ---

ART = [message("system", "be brief"), message("user", "1+1?"), message("assistant", "hm"), message("user", "so?")]


def art_table() -> pl.DataFrame:
    marked = [{**m, "trainable": m["role"] == "assistant"} for m in [*ART, message("assistant", "2")]]
    return pl.DataFrame(
        {
            "group_index": [0, 0, 1],
            "group_metadata": [None, None, None],
            "reward": [1.0, None, 0.0],
            "metrics": ['{"right": 1, "note": "x"}', None, "no json"],
            "messages": [marked, marked, [{**m, "trainable": False} for m in marked]],
        }
    )


def check_art(rows: list[dict[str, Any]]) -> None:
    known = {"step": 12, "prompt": "be brief\n1+1?", "completion": "hm\n2"}
    only(rows[0], **known, group="0", reward=1.0, **{"reward.right": 1.0})
    only(rows[1], **known, group="0")
    only(rows[2], step=12, group="1", prompt="be brief\n1+1?\nhm\nso?", completion="2", reward=0.0)


def test_art_table(tmp_path: Path) -> None:
    check_art(read(tmp_path, "trajectories/train/0012.parquet", art_table())[0])


def test_art_table_row_by_row(tmp_path: Path) -> None:
    """The same rows as lines, through the same layout."""
    layout = by_key("art")
    file = tmp_path / "0012.jsonl"
    file.write_text(lines(*art_table().to_dicts()))
    (frame,) = blocks(Piece((DumpFile(str(file), layout.key, 12),)), Troubles())
    check_art(frame.to_dicts())


def test_art_groups_of_before(tmp_path: Path) -> None:
    choice = {"finish_reason": "stop", "index": 0, "message": message("assistant", "hm")}
    trajectory = {
        "reward": 0.5, "metrics": {"right": 0, "fine": True}, "metadata": {}, "logs": [],
        "messages_and_choices": [ART[0], ART[1], choice, ART[3], {**choice, "message": message("assistant", "2")}],
    }  # fmt: skip
    other = {**trajectory, "reward": 0.0}
    content = lines({"trajectories": [trajectory, other]}, {"trajectories": [other]}, {"trajectories": []})
    rows, _ = read(tmp_path, "trajectories/val/0012.jsonl", content)
    groups = column(rows, "group")
    assert groups[0] == groups[1] != groups[2]
    only(
        rows[0], step=12, evaluation=True, group=groups[0], prompt="be brief\n1+1?", completion="hm\n2", reward=0.5,
        **{"reward.right": 0.0, "reward.fine": 1.0},
    )  # fmt: skip


# --- ms-swift ---


def test_ms_swift_lines_are_tables(tmp_path: Path) -> None:
    first = {
        "step": ["5", "5"], "prompt": ["1+1=", "1+1="], "completion": ["2", "3"], "Right": [1.0, 0.0],
        "Format": [None, 0.5], "advantages": [0.7, -0.7], "solution": ["2", "2"], "entropy": [0.1, 0.2],
    }  # fmt: skip
    second = {**first, "step": ["10", "10"], "Right": [0.25], "num_turns": [1, 2]}
    rows, _ = read(tmp_path, "v0-2026/completions.jsonl", lines(first, second))
    only(rows[0], step=5, prompt="1+1=", completion="2", advantage=0.7, **{"reward.Right": 1.0})
    only(rows[1], step=5, prompt="1+1=", completion="3", advantage=-0.7, **{"reward.Right": 0.0, "reward.Format": 0.5})
    assert column(rows, "step") == [5, 5, 10, 10]
    assert column(rows, "reward.Right") == [1.0, 0.0, 0.25, None]  # a list that was cut


def test_ms_swift_under_ray(tmp_path: Path) -> None:
    one = {"gen_step": 3, "prompt": "1+1=", "completion": "2", "reward": 1.0}
    rows, _ = read(tmp_path, "completions.jsonl", lines(one, {**one, "reward": None}))
    only(rows[0], step=3, prompt="1+1=", completion="2", reward=1.0)
    only(rows[1], step=3, prompt="1+1=", completion="2")


def test_ms_swift_of_2025(tmp_path: Path) -> None:
    one = {"step": ["1"], "messages": [[message("user", "1+1?")]], "completion": ["2"], "reward": [0.5]}
    rows, _ = read(tmp_path, "completions.jsonl", lines(one))
    only(rows[0], step=1, prompt="1+1?", completion="2", reward=0.5)


# --- rLLM ---


def test_rllm(tmp_path: Path) -> None:
    def turn(answer: str, *before: dict[str, Any]) -> dict[str, Any]:
        return {"model_response": answer, "reward": 0.0, "chat_completions": [*before, message("assistant", answer)]}

    asked = message("user", "1+1?")
    steps = [turn("hm", asked), turn("2", asked, message("assistant", "hm"), message("user", "so?"))]
    one = {
        "training_step": 8, "epoch": 0, "episode_id": "t:0", "task": {"q": 1}, "task_hash": "abcd", "is_correct": True,
        "termination_reason": "env_done", "metrics": {}, "trajectories": [{"name": "default", "reward": 1.0, "steps": steps}],
    }  # fmt: skip
    where = "logs/p/e/episodes/train_step_8_epoch_0/episode_hashabcd_idt_{}.json"
    rows, _ = read(tmp_path, where.format(0), json.dumps(one, indent=2), one)
    known = {"step": 8, "group": "abcd", "prompt": "1+1?", "completion": "hm\n2"}
    only(rows[0], **known, reward=1.0, truncated=False, **{"reward.is_correct": 1.0})
    two = {
        **one, "termination_reason": "max_response_length_exceeded", "is_correct": None,
        "trajectories": [{"name": n, "reward": None, "steps": []} for n in ("solver", "judge")],
    }  # fmt: skip
    rows, _ = read(tmp_path, where.format(1).replace("train", "val"), json.dumps(two, indent=2), two)
    only(rows[0], step=8, evaluation=True, group="abcd/solver", truncated=True)
    assert rows[1]["group"] == "abcd/judge"
    lost = {**one, "termination_reason": "error"}
    rows, troubles = read(tmp_path, where.format(2), json.dumps(lost, indent=2), lost)
    assert rows == []
    assert troubles.rows == 1
    unsure = {**one, "termination_reason": "timeout"}
    assert read(tmp_path, where.format(3), json.dumps(unsure), unsure)[0][0]["truncated"] is None


# --- people's own ---


def test_the_format_of_a_viewer(tmp_path: Path) -> None:
    one = {
        "prompt": "1+1=", "response": "2", "response_tokens": ["2", "</s>"], "logprobs": [-0.1, -0.2], "ref_logprobs": [0, 0],
        "values": [0, 0], "token_rewards": [0, 1], "reward": 1.0, "ref_response": "3", "ref_reward": 0.0, "step": 4,
    }  # fmt: skip
    rows, _ = read(tmp_path, "samples.jsonl", lines(one))
    only(rows[0], step=4, prompt="1+1=", completion="2", reward=1.0, length=2.0)


def test_files_of_others_that_hold_samples() -> None:
    folder = SHARED / "corpus" / "rollouts"
    if not folder.is_dir():
        pytest.skip(f"no dumps at {folder} (set VARIO_SHARED)")
    for name, key, samples, groups in (
        ("areal-eval-aime24.jsonl", "areal-elsewhere", 252, 34),
        ("rlloggingboard-poem-eval.jsonl", "generic", 3000, 128),
    ):
        with (folder / name).open() as stream:
            first = json.loads(stream.readline())
        layout = layout_of(name, first)
        assert layout is not None
        assert layout.key == key
        told = layout.files.search(name)
        assert told is not None
        assert told["eval"] is not None, "both call themselves evaluations"
        frame = pl.concat(blocks(Piece((DumpFile(str(folder / name), key, evaluation=True),)), Troubles()))
        assert frame.height == samples
        assert frame["prompt"].n_unique() == groups
        for known in ("completion", "reward", "step"):
            assert frame[known].null_count() == 0
        assert frame["version"].null_count() == samples  # -1 there, and not told here


# --- which is whose ---

OWN: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("trl", "completions/completions_00010.parquet", ("step", "prompt", "completion", "right", "advantage")),
    ("verl-v1", "dumps/3.jsonl", ("input", "output", "gts", "score", "step", "uid")),
    ("verl-v1-validation", "held/3.jsonl", ("input", "output", "gts", "score", "step", "reward", "acc", "uid")),
    ("verl-v0", "dumps/3.jsonl", ("input", "output", "gts", "score", "step", "acc", "request_id")),
    ("verl-v0", "dumps/3.jsonl", ("input", "output", "score", "step")),
    ("nemo-rl", "exp_001/train_data_step4.jsonl", ("content", "rewards", "input_lengths", "token_ids", "idx")),
    ("nemo-rl", "exp_001/val_data_step4.jsonl", ("content", "rewards", "idx")),
    (
        "skyrl",
        "dumped_evals/global_step_2_evals/gsm8k.jsonl",
        ("input_prompt", "output_response", "score", "stop_reason", "env_class", "env_extras", "data_source"),
    ),
    ("slime", "debug/7.pt", ("rollout_id", "samples")),
    ("prime-rl", "rollouts/step_2/eval/all/traces.jsonl", ("id", "env", "task", "group", "run", "ok", "errors", "traces")),
    ("prime-rl-traces", "rollouts/step_2/train/all/traces.jsonl", ("id", "task", "agent", "nodes", "calls", "rewards", "info")),
    ("open-instruct", "x/run_rollouts_000001.jsonl", ("step", "prompt_idx", "prompt_tokens", "response_tokens", "reward", "finish_reason")),
    ("areal", "logs/rollout/5/3.jsonl", tuple(AREAL)),
    ("areal", "logs/eval-rollout/5/3.jsonl", tuple(AREAL)),
    ("areal-elsewhere", "3.jsonl", tuple(AREAL)),
    ("tinker", "iteration_000003/train_rollout_summaries.jsonl", ("iteration", "group_idx", "traj_idx", "total_reward", "steps")),
    ("art", "trajectories/train/0003.parquet", ("group_index", "reward", "metrics", "messages")),
    ("art-groups", "trajectories/train/0003.jsonl", ("trajectories",)),
    ("ms-swift", "v0/completions.jsonl", ("step", "prompt", "completion", "Right", "advantages")),
    ("ms-swift-megatron", "v0/completions.jsonl", ("gen_step", "prompt", "completion", "reward")),
    ("ms-swift-old", "v0/completions.jsonl", ("step", "messages", "completion", "reward")),
    ("rllm", "episodes/train_step_3_epoch_0/episode_a.json", ("training_step", "task", "task_hash", "trajectories")),
    ("verifiers", "out/run/traces.jsonl", ("id", "env", "task", "ok", "traces")),
    ("verifiers-results", "outputs/evals/e--m/u/results.jsonl", ("example_id", "prompt", "completion", "reward", "metrics")),
)  # fmt: skip


@pytest.mark.parametrize(("key", "path", "keys"), OWN, ids=lambda x: x if isinstance(x, str) and "/" not in x else "")
def test_each_dump_is_its_own_and_nobody_elses(key: str, path: str, keys: tuple[str, ...]) -> None:
    found = layout_of(path, keys)
    assert found is not None
    assert found.key == key
    claimed = {layout.name for layout in LAYOUTS if layout.recognises(path, keys)} - {"generic"}
    assert claimed == {found.name} - {"generic"}
    assert found.source, "where it is known from"


def test_every_layout_is_tried_here() -> None:
    assert {layout.key for layout in LAYOUTS} - {key for key, _, _ in OWN} == {"verl-v0-validation"}
    assert len({layout.key for layout in (*LAYOUTS, generic.LAYOUT, generic.BY_GROUP)}) == len(LAYOUTS) + 2


def test_a_place_is_needed_too() -> None:
    for key, path, keys in OWN:
        if not key.startswith("areal"):  # its columns are nobody else's
            elsewhere = layout_of("somewhere/rows" + Path(path).suffix, keys)
            assert elsewhere is None or elsewhere.name == "generic", path


def test_a_table_with_a_total_of_its_own_is_not_of_ms_swift() -> None:
    found = layout_of("completions.jsonl", ("step", "prompt", "completion", "reward"))
    assert found is generic.LAYOUT


def test_discarded_trajectories_are_nobodys() -> None:
    assert layout_of("trajectories/discarded/0003.parquet", ("group_index", "reward", "metrics", "messages")) is None


def metric_logs() -> list[Path]:
    logs = [*(ROOT / "tests" / "sources" / "logs").glob("*.jsonl"), *GOLDEN.glob("*/*.jsonl")]
    logs += (SHARED / "corpus" / "runs").glob("*/norm.jsonl")
    return sorted(logs)


def test_metrics_are_no_samples() -> None:
    logs = metric_logs()
    assert len(logs) > 60
    places = {path for _, path, _ in OWN}
    for log in logs:
        with log.open() as stream:
            kinds = {tuple(row) for line in stream if line.strip() and isinstance(row := json.loads(line), dict)}
        for keys in kinds:
            for path in (log.name, *places):
                assert layout_of(path, keys) is None, (log, path, keys)


# --- broken and mixed rows ---


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("exp_001/train_data_step4.jsonl", nemo(["a", "b"], rewards=1.0)),
        ("rollouts/step_2/train/all/traces.jsonl", episode(trace(1.0))),
        ("iteration_000003/train_rollout_summaries.jsonl", {"group_idx": 0, "traj_idx": 0, "total_reward": 1.0, "steps": []}),
        ("trajectories/train/0003.jsonl", {"trajectories": []}),
        ("completions.jsonl", {"step": ["1"], "prompt": ["a"], "completion": ["b"]}),
        ("logs/rollout/5/3.jsonl", AREAL),
        ("dumps/3.jsonl", {**VERL, "uid": "a_0_0"}),
        ("x/run_rollouts_000001.jsonl", {"prompt_idx": 0, "response_tokens": [1], "reward": 1.0, "finish_reason": "stop"}),
        ("dumped_evals/global_step_2_evals/x.jsonl", {"input_prompt": "a", "output_response": "b", "score": 1.0}),
        ("outputs/evals/e/u/results.jsonl", {"example_id": 0, "prompt": "a", "completion": "b", "reward": 1.0}),
    ],
)
def test_rows_of_another_shape_are_unknown_and_never_an_error(tmp_path: Path, path: str, first: dict[str, Any]) -> None:
    odd: list[Any] = [None, 1, "text", [], {}, [None], [{}], {"a": None}, [[1]], True, 10**400]
    strange = [dict.fromkeys(first, value) for value in odd]
    deep: Any = "x"
    for _ in range(700):
        deep = [deep]
    rows, _ = read(tmp_path, path, lines(first, *strange, dict.fromkeys(first, deep), {"other": 1}))
    assert all(row["reward"] is None or isinstance(row["reward"], float) for row in rows)
    empty = [row for row in rows if row["completion"] is None and row["prompt"] is None and row["group"] is None]
    assert all(row["reward"] != 0.0 for row in empty), "what is not told is not 0"

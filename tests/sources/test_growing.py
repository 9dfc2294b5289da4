"""Files that grow: any pieces give the same table, and at no moment is a number read that is not in the whole file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import tries
from tests.sources.test_console import (
    areal_row,
    fancy_grid,
    nemo_block,
    openrlhf_row,
    rich_table,
    slime_log,
    trl_row,
    verl_line,
)
from vario.sources.readers import console, csv_rows, jsonl
from vario.sources.rows import Table

Points = dict[str, list[tuple[int, float]]]
STEPS = range(1, 9)


def skyrl_block(step: int) -> str:
    return (
        f"2026-08-21 12:00:00.123 | INFO     | skyrl.train.utils.tracking:log:189 - Step {step}: \n"
        f"{{'generate/avg_num_tokens': '512.2500',\n 'policy/final_loss': '0.{step}234',\n 'reward/avg_raw_reward': '0.{step}375',\n"
        f" 'trainer/global_step': {step}}}"
    )


def rows(step: int) -> dict[str, object]:
    return {"step": step, "reward": 0.1 + step / 7, "loss": 0.5 / step, "kl": 1.5e-05 * step, "note": "half, \u2028 a \"word\""}


PROSE = "Processed prompts: 12.5 tokens/s, running: 3 reqs\n"
LOGS: dict[str, tuple[ModuleType, str]] = {
    "verl": (console, "".join(f"{PROSE}\x1b[36m(TaskRunner pid=12)\x1b[0m {verl_line(s)}\n" for s in STEPS)),
    "trl": (console, "".join(f"\r {s}%|█▏ | {s}/99 [00:01<00:10]\r{trl_row(s)}\n{PROSE}" for s in STEPS)),
    "trl-strings": (console, "".join(f"{ {k: f'{v:.4g}' for k, v in trl_row(s).items()} }\r\n" for s in STEPS)),
    "slime": (console, slime_log(3, 2, ray=True)),
    "skyrl": (console, "".join(f"{skyrl_block(s)}\n{PROSE}" for s in STEPS)),
    "nemo": (console, "".join("\n".join(nemo_block(s)) + "\n" for s in range(8, 12))),
    "openrlhf": (console, "".join(f"INFO 08-20 x.py:551] ✨ Global step {s}: {openrlhf_row(s)}\n" for s in STEPS)),
    "areal": (console, "".join(f"Train step {s}/99 done.\n" + "\n".join(fancy_grid(areal_row(s))) + "\n" for s in STEPS)),
    "tinker": (console, "".join("\n".join(rich_table(s, {"optim/lr": "0.5", "env/all/reward/total": f"0.{s}512"})) + "\n" for s in STEPS)),
    "prime": (console, "".join(f"Step {s} |  1m 3s | Loss 0.00{s}2 | Entropy 0.4321 | Mismatch KL 0.0{s}12 | LR 1.00e-06 | MFU 30.{s}%\n" for s in range(9, 16))),
    "deepspeed-chat": (console, "".join(f"Epoch: 0 | Step: {s} | PPO Epoch: 1 | Actor Loss: 0.0{s}12 | Critic Loss: 0.034\nAverage reward score: 1.{s}345 | EMA reward score: 1.1012\n{PROSE}" for s in range(8, 14))),
    "pairs": (console, "".join(f"[Step {s}/500] loss=-0.{s}123 reward_avg=0.{s}255 kl = 1.25e-0{s} clip: 12.5 % tokens: 1,23{s},567 lens: [1{s}.5, 22.5]\n" for s in STEPS)),
    "minimind": (console, "".join(f"Epoch:[{1 + s // 12}/2]({s % 12 + 1}/12), Reward: -1.{s}645, KL_ref: 0.00{s}, Adv Std: 0.9258, Actor Loss: 0.000{s}\n" for s in range(8, 24))),
    "json-in-prose": (console, "".join(f"INFO {json.dumps(rows(s))}\n{PROSE}" for s in STEPS)),
    "ranks": (console, "".join(f"[rank{r}]: step {s}: loss = 0.{s}12, mean reward = {r}.5{s}\n" for s in STEPS for r in range(3))),
    "jsonl": (jsonl, "".join(json.dumps(rows(s)) + "\n" for s in STEPS)),
    "jsonl-wrapped": (jsonl, "".join(json.dumps({"step": s, "data": {"actor/loss": 1 / s, "critic/score/mean": float("nan")}}) + "\r\n" for s in STEPS)),
    "csv": (csv_rows, "step,reward,note,loss\n" + "".join(f'{s},{0.1 + s / 7},"a, b\nc""",{12.25 * s}\n' for s in range(8, 16))),
    "csv-step-last": (csv_rows, "reward,loss,step\n" + "".join(f"{0.1 + s / 7},{1.25 * s},{s}\n" for s in range(8, 16))),
    "tsv": (csv_rows, "\ufeffStep\treward\tloss\r\n" + "".join(f"{s}\t{0.1 + s / 7}\t{12.25 * s}\r\n" for s in range(8, 16))),
}  # fmt: skip


def parsed(module: ModuleType, pieces: list[bytes]) -> Table:
    parser = module.start(Path("somewhere.log"))
    for piece in pieces:
        parser.feed(piece)
    parser.close()
    made: Table = parser.table
    return made


def points(table: Table) -> Points:
    return {key: list(zip(s.steps.tolist(), s.values.tolist(), strict=True)) for key, s in table.series().items()}


def same(a: Points, b: Points) -> None:
    assert a.keys() == b.keys()
    for key, wanted in b.items():
        np.testing.assert_array_equal(np.array(a[key]), np.array(wanted), err_msg=key)


@pytest.mark.parametrize("name", sorted(LOGS))
def test_the_sample_is_read(name: str) -> None:
    module, text = LOGS[name]
    made = parsed(module, [text.encode()])
    assert len(made.series()) >= 2
    assert made.logged_steps().size >= 3


@pytest.mark.parametrize("name", sorted(LOGS))
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_any_pieces_give_the_same(name: str, data: st.DataObject) -> None:
    module, text = LOGS[name]
    whole = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    at_once = parsed(module, [whole])
    in_pieces = parsed(module, [whole[i:j] for i, j in zip([0, *cuts], [*cuts, len(whole)], strict=True)])
    same(points(in_pieces), points(at_once))
    assert (in_pieces.ignored, in_pieces.rows, in_pieces.warnings) == (at_once.ignored, at_once.rows, at_once.warnings)


def single_bytes(whole: bytes) -> list[bytes]:
    return [whole[i : i + 1] for i in range(len(whole))]


@pytest.mark.parametrize("name", sorted(LOGS))
def test_byte_by_byte(name: str) -> None:
    module, text = LOGS[name]
    same(points(parsed(module, single_bytes(text.encode()))), points(parsed(module, [text.encode()])))


def test_rows_that_were_read_twice_differ_here() -> None:
    """The check below can fail: a number that is cut short is another number."""
    module, text = LOGS["pairs"]
    whole = text.encode()
    assert not is_part(points(parsed(module, [whole[:-1].replace(b"0.8255", b"0.82")])), points(parsed(module, [whole])))


def is_part(found: Points, whole: Points) -> bool:
    """Whether every point stands in the whole, at its step and with its value."""
    for key, series in found.items():
        true = dict(whole.get(key, []))
        for step, value in series:
            if step not in true or not (true[step] == value or (np.isnan(true[step]) and np.isnan(value))):
                return False
    return True


@pytest.mark.parametrize("name", sorted(LOGS))
def test_at_every_prefix_nothing_is_read_that_is_not_there(name: str) -> None:
    module, text = LOGS[name]
    whole = text.encode()
    true = points(parsed(module, [whole]))
    tail = whole[: max(len(whole) * 3 // 5, len(whole) - 1500)].rindex(b"\n") + 1  # the first part by lines, the rest by bytes
    cuts = [*(i + 1 for i, b in enumerate(whole[:tail]) if b == 10), *range(tail, len(whole))]
    for cut in cuts:
        found = points(parsed(module, [whole[:cut]]))
        wrong = {k: [p for p in v if p not in true.get(k, [])] for k, v in found.items()}
        assert is_part(found, true), (cut, whole[:cut][-80:], {k: v for k, v in wrong.items() if v})


def test_rows_come_as_soon_as_their_lines_end() -> None:
    module, text = LOGS["verl"]
    ends = [i for i, c in enumerate(text) if c == "\n" and text[:i].rpartition("\n")[2].startswith("\x1b")]
    read = [parsed(module, [text[: end + 1].encode()]).logged_steps().size for end in ends]
    assert read == list(range(1, len(ends) + 1))


WORDS = st.sampled_from(
    ["step", "loss", "reward", "kl", "=", ":", " ", "\n", "\r", "0.5", "12", "nan", "1e-5", "{'loss': 1.5, 'reward': 2}", "{'", "}", "│", "[rank1]: ",
     "step:3 - a:1 - b:2\n", "===== Step 3/9 =====\n", "Train step 4/9 done.\n", "  • Loss: 0.5\n", "(pid=3) ", "\x1b[0m", "Step 7: \n", "╒", "╘", ",", "(", ")",
     '{"step": 3, "kl": 0.5}\n', '{"stream_name": "stdout", "data": "step 3 loss=0.5"}\n', " | ", "%", "\x00", "é", "“"]
)  # fmt: skip


@given(parts=st.lists(WORDS, max_size=80), cuts=st.lists(st.integers(0, 400), max_size=6))
@settings(max_examples=tries(300), deadline=None)
@pytest.mark.parametrize("module", [console, csv_rows, jsonl])
def test_whatever_comes_no_reader_breaks_and_pieces_do_not_matter(module: ModuleType, parts: list[str], cuts: list[int]) -> None:
    whole = "".join(parts).encode()
    places = sorted(c for c in cuts if c <= len(whole))
    at_once = parsed(module, [whole])
    in_pieces = parsed(module, [whole[i:j] for i, j in zip([0, *places], [*places, len(whole)], strict=True)])
    same(points(in_pieces), points(at_once))
    assert in_pieces.ignored == at_once.ignored


@pytest.mark.parametrize(("module", "row"), [(jsonl, json.dumps(rows(1))), (console, verl_line(1)), (csv_rows, "1,2,3")])
@pytest.mark.parametrize("size", [10, 1 << 20])
def test_a_line_that_is_too_long_is_dropped_alike_in_any_pieces(module: ModuleType, row: str, size: int) -> None:
    header = b"step,reward,loss\n" if module is csv_rows else b""
    long = b"x" * (module.MAX_LINE + 5)
    whole = header + row.encode() + b"\n" + long + b"\n" + row.replace("1", "2").encode() + b"\n"
    pieces: Callable[[int], list[bytes]] = lambda n: [whole[i : i + n] for i in range(0, len(whole), n)]  # noqa: E731
    if size == 10:
        whole = whole.replace(long, b"x" * 5)
    a, b = parsed(module, [whole]), parsed(module, pieces(size))
    same(points(a), points(b))
    assert a.ignored == b.ignored == int(size > 10 or module is not console)
    assert a.logged_steps().tolist() == [1, 2]

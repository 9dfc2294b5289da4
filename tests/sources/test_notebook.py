"""Notebooks: the Trainer's progress tables, printed logs, several trainings, and outputs that mean harm."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

import vario
from tests.sources.test_console import PROSE, trl_row, verl_line
from vario.errors import Malformed, VarioError

STEPS = range(5, 155, 5)


def reward(step: int) -> float:
    return round(0.1 + 0.003 * step, 6)


def kl(step: int) -> float:
    return round(0.0004 * step, 6)


def html_table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    head = "".join(f"<th>{h}</th>\n      " for h in header)
    body = "".join("<tr>\n" + "".join(f"      <td>{c}</td>\n" for c in row) + "    </tr>\n    " for row in rows)
    return (
        "\n    <div>\n      \n      <progress value='150' max='150' style='width:300px;'></progress>\n      [150/150 10:00, Epoch 1/1]\n    </div>\n"
        f'    <table border="1" class="dataframe">\n  <thead>\n <tr style="text-align: left;">\n      {head}\n    </tr>\n  </thead>\n  <tbody>\n    {body}\n  </tbody>\n</table><p>'
    )


HEADER = ("Step", "Training Loss", "reward", "reward_std", "completion_length", "kl", "rewards / code_fn", "Validation Loss")


def progress(steps: Iterable[int] = STEPS, shift: float = 0.0) -> str:
    rows = [
        (s, f"{0.5 - s / 1000:.6f}", f"{reward(s) + shift:.6f}", "0.250000", "512.500000", f"{kl(s):.6f}", f"{reward(s) / 2:.6f}", "0.75" if s % 50 == 0 else "No log")
        for s in steps
    ]  # fmt: skip
    return html_table(HEADER, rows)


def output(html: str | list[str] | None = None, text: str | list[str] | None = None) -> dict[str, object]:
    if html is not None:
        return {"output_type": "display_data", "data": {"text/plain": ["<IPython.core.display.HTML object>"], "text/html": html}, "metadata": {}}
    return {"output_type": "stream", "name": "stdout", "text": text}


def save(path: Path, outputs: Iterable[object], **more: object) -> Path:
    cells = [{"cell_type": "markdown", "source": ["# Step 3: loss = 0.5"]}, {"cell_type": "code", "source": ["reward = 9.5"], "outputs": list(outputs)}]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4} | more), encoding="utf-8")
    return path


def values(run: vario.Run, metric: str) -> dict[int, float]:
    series = run.series[metric]
    return dict(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def check(run: vario.Run, steps: Iterable[int] = STEPS, shift: float = 0.0) -> vario.Run:
    steps = list(steps)
    assert values(run, "reward/mean") == {s: pytest.approx(reward(s) + shift) for s in steps}
    assert values(run, "kl/reference") == {s: pytest.approx(kl(s)) for s in steps}
    assert values(run, "loss/total") == {s: pytest.approx(0.5 - s / 1000) for s in steps}
    return run


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize("name", ["train.ipynb", "notebook.json"])
def test_a_progress_table(tmp_path: Path, lines: bool, name: str) -> None:
    html = progress()
    run = check(vario.read(save(tmp_path / name, [output(html=html.splitlines(keepends=True) if lines else html)])))
    assert run.framework == "trl"
    assert values(run, "eval/loss") == {50: 0.75, 100: 0.75, 150: 0.75}  # where it says "No log", nothing was measured
    assert values(run, "reward/component/code_fn/mean") == {s: pytest.approx(reward(s) / 2) for s in STEPS}
    assert run.warnings == ()
    assert run.ignored_lines == 0


def test_a_table_that_is_written_otherwise(tmp_path: Path) -> None:
    rows = "".join(f"<TR><TD>{s}<TD align=right><b>{reward(s)}</b><TD>&#48;.5<TD>{kl(s)}&nbsp;</TR>" for s in STEPS)
    run = vario.read(save(tmp_path / "a.ipynb", [output(html=f"<TABLE><TR><TH>Step<TH>reward<TH>loss<TH>kl</TR>{rows}</TABLE>")]))
    assert values(run, "reward/mean") == {s: reward(s) for s in STEPS}
    assert set(values(run, "loss/total").values()) == {0.5}
    assert values(run, "kl/reference") == {s: kl(s) for s in STEPS}


def test_rows_that_are_broken_are_counted(tmp_path: Path) -> None:
    html = progress().replace("<td>50</td>", "<td>fifty</td>").replace("<td>100</td>", "")
    run = check(vario.read(save(tmp_path / "a.ipynb", [output(html=html)])), [s for s in STEPS if s not in (50, 100)])
    assert run.ignored_lines == 2


def test_by_epoch(tmp_path: Path) -> None:
    html = html_table(("Epoch", "Training Loss", "Validation Loss"), [(e, 1.0 / e, "0.500000") for e in range(1, 11)])
    run = vario.read(save(tmp_path / "a.ipynb", [output(html=html)]))
    assert run.logged_steps.tolist() == list(range(1, 11))
    assert any("epoch" in w for w in run.warnings)


def test_two_trainings(tmp_path: Path) -> None:
    warm = html_table(("Step", "Training Loss"), [(s, "1.500000") for s in range(1, 400)])
    run = check(vario.read(save(tmp_path / "a.ipynb", [output(html=warm), output(html=progress())])))
    assert any("2 trainings among its outputs" in w for w in run.warnings)
    again = vario.read(save(tmp_path / "b.ipynb", [output(html=progress(shift=5.0)), output(html=progress())]))
    check(again)  # of two that are alike, the later one
    assert any("2 trainings" in w for w in again.warnings)


def test_a_training_that_is_shown_twice_is_one(tmp_path: Path) -> None:
    printed = "".join(f"{{'step': {s}, 'loss': {0.5 - s / 1000}, 'reward': {reward(s)}, 'entropy': {s / 100}}}\n" for s in STEPS)
    run = check(vario.read(save(tmp_path / "a.ipynb", [output(text=printed), output(html=progress())])))
    assert run.warnings == ()
    assert values(run, "entropy/mean") == {s: s / 100 for s in STEPS}


def test_other_tables_are_passed_by(tmp_path: Path) -> None:
    frame = html_table(("", "reward", "loss"), [(i, 7.0, 8.0) for i in range(500)])
    nested = f"<table><tr><td>{progress(shift=3.0)[:400]}</td></tr></table>"
    check(vario.read(save(tmp_path / "a.ipynb", [output(html=frame), output(html=nested), output(html=progress())])))


@pytest.mark.parametrize("split", [False, True])
def test_printed_verl(tmp_path: Path, split: bool) -> None:
    text = "".join(f"\x1b[36m(TaskRunner pid=7)\x1b[0m {verl_line(s)}\n{PROSE[0]}\n" for s in range(1, 31))
    pieces = [output(text=text)] if not split else [output(text=line) for line in text.splitlines(keepends=True)]
    run = vario.read(save(tmp_path / "a.ipynb", pieces))
    assert run.framework == "verl"
    assert values(run, "reward/mean") == {s: pytest.approx(0.1 + 0.013 * s) for s in range(1, 31)}


def test_printed_trl(tmp_path: Path) -> None:
    text = [f"{trl_row(s)}\n" for s in range(1, 31)]
    run = vario.read(save(tmp_path / "a.ipynb", [output(text=text), {"output_type": "execute_result", "data": {"text/plain": "TrainOutput(global_step=30, training_loss=0.5)"}}]))
    assert run.framework == "trl"
    assert run.logged_steps.size == 30
    assert any("order of the rows" in w for w in run.warnings)


def test_outputs_of_odd_types_are_passed_by(tmp_path: Path) -> None:
    odd: list[object] = [None, 3, "text", [], {"text": 5}, {"text": [1, None, {"a": 1}]}, {"data": 7}, {"data": {"text/html": None}}, {"data": {"text/html": 5}}, {"data": {"text/plain": {}}}]
    path = save(tmp_path / "a.ipynb", [*odd, output(html=progress())])
    document = json.loads(path.read_text())
    document["cells"] += [None, 5, {"outputs": None}, {"outputs": {"a": 1}}, {}]
    path.write_text(json.dumps(document))
    check(vario.read(path))


@pytest.mark.parametrize(
    "document", [{}, {"cells": None}, {"cells": {}}, {"cells": []}, {"cells": [{"cell_type": "code", "source": ["loss = 0.5"]}]}, {"cells": [{"outputs": [{"text": "hello"}]}]}]
)
def test_a_notebook_without_a_training(tmp_path: Path, document: Mapping[str, object]) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(document))
    with pytest.raises(Malformed, match=r"a\.ipynb: no progress table"):
        vario.read(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"cells": [', '{"cells": ' * 50_000, '{"cells": ' + "[" * 200_000, "\x00\x01"])
def test_a_broken_notebook(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(text)
    with pytest.raises(VarioError, match=r"a\.ipynb"):
        vario.read(path)


HOSTILE = {
    "open comments": "<!--" * 200_000,
    "open tags": "<table><tr><td " * 200_000,
    "only brackets": "<" * 2_000_000,
    "declarations": "<![if " * 300_000,
    "entities": "&" * 2_000_000,
    "deep tables": "<table><tr><td>" * 100_000,
    "cells without end": "<table><tr>" + "<td>" * 500_000,
    "quotes": '<table a="' + "'" * 1_000_000,
    "a step of many digits": html_table(HEADER, [("9" * 100_000, *["1"] * 7)] * 20),
    "many columns": html_table(["Step", *(f"k{i}" for i in range(50_000))], [["1", *["2"] * 50_000]]),
}


@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_hostile_html_neither_hangs_nor_hides_the_run(tmp_path: Path, kind: str) -> None:
    path = save(tmp_path / "a.ipynb", [output(html=HOSTILE[kind]), output(html=progress())])
    began = time.process_time()
    check(vario.read(path))
    assert time.process_time() - began < 8.0


def test_a_table_that_is_too_large_is_no_progress_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vario.sources.readers import notebook

    monkeypatch.setattr(notebook, "MAX_TABLE", 20_000)
    path = save(tmp_path / "a.ipynb", [output(html=progress(range(5, 5000, 5), shift=9.0)), output(html=progress())])
    assert any("1 outputs" in w for w in check(vario.read(path)).warnings)


def test_a_large_notebook_is_read_in_little_time(tmp_path: Path) -> None:
    path = save(tmp_path / "a.ipynb", [output(html=progress(range(1, 20_001)))])
    began = time.process_time()
    assert vario.read(path).logged_steps.size == 20_000
    assert time.process_time() - began < 8.0

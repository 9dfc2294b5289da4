"""What vario says of short excerpts of public logs, against what readers of those logs had to be told.

Each excerpt has `must_say` and `must_not_say`; `log_rows_expectations` translates every one of them into
what a diagnosis holds: a finding, a note, an unknown check, a sentence. The excerpts lie beside the checkout
and nothing of them is kept here: where they are absent, all of this is skipped.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import vario
from tests.conftest import SHARED
from tests.log_rows_expectations import ENTRIES, SETTINGS, SPELT, Expected, Heard, Item
from vario.surfaces.cli.metrics_page import metrics_page

EXCERPTS = SHARED / "data" / "log_rows.jsonl"
ABSENT = not EXCERPTS.is_file()
pytestmark = pytest.mark.skipif(ABSENT, reason=f"no excerpts at {EXCERPTS} (set VARIO_SHARED)")

Row = dict[str, object]


@cache
def excerpts() -> dict[str, dict[str, object]]:
    if ABSENT:
        return {}
    entries = [json.loads(line) for line in EXCERPTS.read_text(encoding="utf-8").splitlines() if line.strip()]
    return {entry["id"]: entry for entry in entries}


# from an excerpt to a log, as the framework writes it

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_SPAN = re.compile(r"(\d+)-(\d+)")
_LIST = re.compile(rf"{_NUMBER}(?:\s*,\s*{_NUMBER})+")
_ARROW = re.compile(rf"({_NUMBER})\s*->\s*({_NUMBER})")
_RANGE = re.compile(rf"(\d*\.\d+)-(\d*\.\d+)")
_OFTEN = re.compile(rf"({_NUMBER}) in (\d+) of (\d+) steps")
COUNTERS = ("step", "steps", "iter")


def told(cell: object, rows: int, place: int) -> object | None:
    """What a cell says of the row at `place`; None where it says nothing of it. Nothing is interpolated."""
    if isinstance(cell, list):
        return cell[place] if place < len(cell) else None
    if not isinstance(cell, str):
        return cell
    if cell == "NaN":
        return math.nan
    if _LIST.fullmatch(cell):
        values = [float(v) for v in re.split(r"\s*,\s*", cell)]
        return values[place] if place < len(values) else None
    if (ends := _ARROW.fullmatch(cell)) or (ends := _RANGE.fullmatch(cell)):
        return float(ends[1]) if place == 0 else float(ends[2]) if place == rows - 1 else None
    if often := _OFTEN.fullmatch(cell):
        return float(often[1]) if place < int(often[2]) else None
    return cell


def rows_of(rows: list[Row]) -> Iterator[Row]:
    """The rows of one arm, one a logged step: what is told of several steps is written at each of them."""
    last = 0
    for row in rows:
        count = next((row[c] for c in COUNTERS if c in row), None)
        cells = {k: v for k, v in row.items() if k not in COUNTERS}
        span = _SPAN.fullmatch(count) if isinstance(count, str) else None
        if span:
            steps: list[object] = list(range(int(span[1]), int(span[2]) + 1))
        else:
            long = [len(re.split(r"\s*,\s*", v)) for v in cells.values() if isinstance(v, str) and _LIST.fullmatch(v)]
            long += [len(v) for k, v in cells.items() if isinstance(v, list) and k != "range"]
            ends = 2 if any(isinstance(v, str) and (_ARROW.fullmatch(v) or _RANGE.fullmatch(v)) for v in cells.values()) else 1
            steps = [last + 1 if count == "next" else count] * max([ends, *long])
        for place, step in enumerate(steps):
            made: Row = {} if step is None else {"step": step}
            for key, cell in cells.items():
                value = told(cell, len(steps), place)
                if value is not None and not isinstance(value, list):
                    made[key] = value
            if "spike_step" in cells and isinstance(cells["range"], list):
                at_spike = step == cells["spike_step"]
                made = {k: max(cells["range"]) if at_spike and k != "step" else v for k, v in made.items() if k != "spike_step"}
            yield made
        if isinstance(step, int):
            last = step
        elif isinstance(step, str) and (found := re.match(r"\d+", step)):
            last = int(found[0])


def arms_of(entry: Mapping[str, object]) -> dict[str, list[Row]]:
    """The runs that an excerpt tells of: rows of one arm are one run, as are the columns of a comparison."""
    arms: dict[str, list[Row]] = {}
    for row in entry["rows"]:
        if "metric" in row:
            for arm, values in row.items():
                if arm != "metric":
                    arms.setdefault(arm, []).append({row["metric"]: values})
        else:
            arms.setdefault(str(row.get("arm", "")), []).append({k: v for k, v in row.items() if k != "arm"})
    return {arm: list(rows_of(rows)) for arm, rows in arms.items()}


def _spelt(entry: Mapping[str, object], row: Row) -> Row:
    names = SPELT.get(entry["id"], {})
    before = "train/" if entry["format"] == "nemo_metrics" else ""
    return {names.get(k, k if k == "step" else before + k): v for k, v in row.items()}


def _verl(row: Row) -> str:
    return " - ".join([f"step:{row.get('step', 1)}", *(f"{k}:{v}" for k, v in row.items() if k != "step")])


def _prime(row: Row) -> str:
    words = {"Reward": "Reward", "seq_len": "Seq. Length", "async_level": "Async Level", "max_off_policy": "Max. Off-Policy Level"}
    said = " | ".join(f"{name}: {row[k]}{' tokens/sample' if k == 'seq_len' else ''}" for k, name in words.items() if k in row)
    return f"INFO Detected {row['detected']}\nSUCCESS Step {row['step']} | {said}"


def _mlx(row: Row) -> str:
    names = {"chosen": "chosen_r", "rejected": "rejected_r"}
    return f"\nIter {row['step']}: " + ", ".join(f"{names.get(k, k)} {v:.3f}" for k, v in row.items() if k != "step")


def write(entry: Mapping[str, object], rows: list[Row], folder: Path) -> None:
    """The log in the form that its framework gives it, and the settings beside it."""
    rows = [_spelt(entry, row) for row in rows]
    kind = entry["format"]
    if kind == "trl_stdout_dict":
        lines = [row["note"] if row.keys() <= {"note", "step"} else repr(row) for row in rows]
        (folder / "train.log").write_text("\n".join(map(str, lines)) + "\n", encoding="utf-8")
    elif kind in ("verl_stdout", "prime_stdout", "mlx_stdout"):
        line = {"verl_stdout": _verl, "prime_stdout": _prime, "mlx_stdout": _mlx}[kind]
        (folder / "train.log").write_text("".join(f"{line(row)}\n" for row in rows), encoding="utf-8")
    elif kind == "trainer_state":
        state = {"global_step": rows[-1]["step"], "log_history": rows, "is_world_process_zero": True}
        (folder / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    else:
        if kind == "swift_jsonl":
            rows = [{"global_step/max_steps" if k == "step" else k: v for k, v in row.items()} for row in rows]
        name = "logging.jsonl" if kind == "swift_jsonl" else "log.jsonl"
        (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def settings_of(entry: Mapping[str, object]) -> Row:
    """The configuration under the framework's own names, with what the context states exactly."""
    names = SPELT.get(entry["id"], {})
    return {names.get(k, k): v for k, v in entry["config"].items()} | SETTINGS.get(entry["id"], {})


# what is said


@cache
def heard(name: str) -> Heard:
    """Everything that vario says of an excerpt, arm by arm."""
    entry = excerpts()[name]
    arms = {}
    with TemporaryDirectory() as where:
        for i, (arm, rows) in enumerate(arms_of(entry).items()):
            folder = Path(where) / str(i)
            folder.mkdir()
            write(entry, rows, folder)
            config = None
            if settings := settings_of(entry):
                config = folder / "config.json"
                config.write_text(json.dumps(settings), encoding="utf-8")
            try:
                run = vario.read(folder, config=config)
            except vario.errors.SourceError as error:
                arms[arm] = str(error)
                continue
            arms[arm] = (run, vario.diagnose(run), metrics_page(run))
    return Heard(arms)


def _items() -> Iterator[object]:
    for name, expected in ENTRIES.items():
        for kind, items in (("say", expected.say), ("not", expected.unsaid)):
            for words, item in items.items():
                marks = [pytest.mark.xfail(reason=item.known, strict=True)] if item.known else []
                yield pytest.param(name, item, id=f"{name}-{kind}-{words}", marks=marks)


def test_every_word_is_translated() -> None:
    """An excerpt, or a word of one, that is added or changed must be translated before this passes."""
    stated = {n: (sorted(e["must_say"]), sorted(e["must_not_say"])) for n, e in excerpts().items()}
    assert {n: (sorted(e.say), sorted(e.unsaid)) for n, e in ENTRIES.items()} == stated


@pytest.mark.parametrize(("name", "item"), _items())
def test_what_is_said(name: str, item: Item) -> None:
    said = heard(name)
    assert item.holds(said), said.told()

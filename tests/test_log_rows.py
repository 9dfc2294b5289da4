"""What vario says of short excerpts of public logs, against what readers of those logs had to be told.

Each excerpt has `must_say` and `must_not_say`; `log_rows_expectations` translates every phrase of them into
what a diagnosis holds: a finding, a note, an unknown check, a sentence. The excerpts lie beside the checkout
and nothing of them is kept here: where they are absent, all of this is skipped.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import vario
from tests.conftest import SHARED
from tests.log_rows_expectations import ENTRIES, SETTINGS, SPELT, Arm, Item
from vario.errors import SourceError

EXCERPTS = SHARED / "data" / "log_rows.jsonl"
ABSENT = not EXCERPTS.is_file()
pytestmark = pytest.mark.skipif(ABSENT, reason=f"no excerpts at {EXCERPTS} (set VARIO_SHARED)")

Row = dict[str, Any]
Entry = dict[str, Any]


@cache
def excerpts() -> dict[str, Entry]:
    lines = EXCERPTS.read_text(encoding="utf-8").splitlines()
    return {entry["id"]: entry for entry in map(json.loads, filter(None, lines))}


# from what an excerpt tells to rows: nothing is interpolated, and what is told of a stretch holds at each step of it

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_LIST = re.compile(rf"{_NUMBER}(?:\s*,\s*{_NUMBER})+")
_ENDS = re.compile(rf"({_NUMBER})\s*->\s*({_NUMBER})|(\d*\.\d+)-(\d*\.\d+)")
_OFTEN = re.compile(rf"({_NUMBER}) in (\d+) of \d+ steps")
COUNTERS = ("step", "steps", "iter")
REMARKS = ("range", "spike_step", "arm", "split")
"""Cells about other cells."""


def _several(cell: object) -> list[object]:
    """The values that one cell tells of, row by row; the same one for every row where it is one."""
    if isinstance(cell, list):
        return cell
    if isinstance(cell, str) and _LIST.fullmatch(cell):
        return [float(v) for v in cell.split(",")]
    if isinstance(cell, str) and (ends := _ENDS.fullmatch(cell)):
        first, last = (float(v) for v in ends.groups() if v is not None)
        return [first, last]
    return [math.nan if cell == "NaN" else cell]


def _steps(row: Row, before: int) -> list[object]:
    """The steps that a row is told of; None where it has none of its own."""
    count = next((row[c] for c in COUNTERS if c in row), None)
    if isinstance(count, str) and (span := re.fullmatch(r"(\d+)-(\d+)", count)):
        return list(range(int(span[1]), int(span[2]) + 1))
    several = max(len(_several(v)) for k, v in row.items() if k not in REMARKS)
    return [before + 1 if count == "next" else count] * several


def rows_of(told: Iterable[Row]) -> Iterator[Row]:
    """One row a logged step."""
    last = 0
    for row in told:
        steps = _steps(row, last)
        for place, step in enumerate(steps):
            made: Row = {} if step is None else {"step": step}
            for key, cell in row.items():
                if key in COUNTERS or key in REMARKS:
                    continue
                values = _several(cell)
                if isinstance(cell, str) and (often := _OFTEN.fullmatch(cell)):
                    values = [float(often[1])] * int(often[2]) + [None]
                if isinstance(cell, str) and _ENDS.fullmatch(cell):
                    values = [values[0], *[None] * (len(steps) - 2), values[1]]
                value = values[0] if len(values) == 1 else values[place] if place < len(values) else None
                if "spike_step" in row and step == row["spike_step"]:
                    value = max(row["range"])
                if value is not None:
                    made[key] = value
            yield made
            if (found := re.match(r"\d+", str(step))) is not None:
                last = int(found[0])


def _peak(row: Row) -> list[Row]:
    """A rise and a fall that are told in one row: three evaluations."""
    key, top, at = "eval/pass@1", row["peak"], row["peak_update"]
    end = {"step": at + row["over_updates"], key: top - row["fall_points"] / 100}
    return [{"step": 0, key: row["pass_at_1_start"]}, {"step": at, key: top}, end]


def arms_of(entry: Entry) -> dict[str, list[Row]]:
    """The runs that an excerpt tells of: the rows of one arm are one run, and each column of a comparison."""
    arms: dict[str, list[Row]] = {}
    for row in entry["rows"]:
        if "metric" in row:
            for arm, values in row.items():
                if arm != "metric":
                    arms.setdefault(arm, []).append({row["metric"]: values})
        else:
            arms.setdefault(row.get("arm", ""), []).extend(_peak(row) if "peak_update" in row else [row])
    made = {}
    for arm, rows in arms.items():
        made[arm] = list(rows_of(rows))
        stepped = [row["step"] for row in made[arm] if "step" in row]
        if entry["format"] in ("table", "nemo_metrics") and stepped:
            for row in made[arm]:
                row.setdefault("step", stepped[-1])  # the outcome that closes a table
    return made


# from rows to a log, as the framework writes it


def spelt(entry: Entry, row: Row) -> Row:
    """Keys as the framework logs them."""
    names = SPELT.get(entry["id"], {})
    before = "train/" if entry["format"] == "nemo_metrics" else ""
    return {names.get(k, k if k == "step" else before + k): v for k, v in row.items()}


def _trl(row: Row) -> str:
    return row["note"] if row.keys() <= {"note", "step"} else repr(row)


def _verl(row: Row) -> str:
    return " - ".join([f"step:{row.get('step', 1)}", *(f"{k}:{v}" for k, v in row.items() if k != "step")])


def _prime(row: Row) -> str:
    said = [f"Step {row['step']}", f"Reward: {row['Reward']:.4f}", f"Seq. Length: {row['seq_len']:.1f} tokens/sample"]
    said += [f"Async Level: {row['async_level']}"] if "async_level" in row else []
    said += [f"Max. Off-Policy Level: {row['max_off_policy']}"] if "max_off_policy" in row else []
    return f"INFO Detected {row['detected']}\nSUCCESS {' | '.join(said)}"


def _mlx(row: Row) -> str:
    names = {"chosen": "chosen_r", "rejected": "rejected_r"}
    return f"\nIter {row['step']}: " + ", ".join(f"{names.get(k, k)} {v:.3f}" for k, v in row.items() if k != "step")


_LINES = {"trl_stdout_dict": _trl, "verl_stdout": _verl, "prime_stdout": _prime, "mlx_stdout": _mlx}


def settings_of(entry: Entry) -> Row:
    """The configuration under the framework's own names, with what the context states exactly."""
    names = SPELT.get(entry["id"], {})
    return {names.get(k, k): v for k, v in entry["config"].items()} | SETTINGS.get(entry["id"], {})


def write(entry: Entry, rows: list[Row], folder: Path) -> Path | None:
    """The log in its format; the path of the settings beside it, where there are any."""
    rows = [spelt(entry, row) for row in rows]
    kind = entry["format"]
    if kind in _LINES:
        name, text = "train.log", "".join(f"{_LINES[kind](row)}\n" for row in rows)
    elif kind == "trainer_state":
        name, text = "trainer_state.json", json.dumps({"global_step": rows[-1]["step"], "log_history": rows})
    elif kind == "swift_jsonl":
        rows = [{"global_step/max_steps" if k == "step" else k: v for k, v in row.items()} for row in rows]
        name, text = "logging.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows)
    else:
        name, text = "log.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows)
    folder.mkdir()
    (folder / name).write_text(text, encoding="utf-8")
    if not (settings := settings_of(entry)):
        return None
    nested: Row = {}
    for name, value in settings.items():
        *sections, last = name.split(".")
        place = nested
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    (folder / "config.json").write_text(json.dumps(nested), encoding="utf-8")
    return folder / "config.json"


# what is said


@cache
def heard(name: str) -> dict[str, Arm]:
    """Everything that vario says of an excerpt, run by run."""
    entry = excerpts()[name]
    arms = {}
    with TemporaryDirectory() as where:
        for i, (arm, rows) in enumerate(arms_of(entry).items()):
            config = write(entry, rows, Path(where) / str(i))
            try:
                run = vario.read(Path(where) / str(i), config=config)
            except SourceError as error:
                arms[arm] = Arm(error=str(error))
                continue
            arms[arm] = Arm(run, vario.diagnose(run))
    return arms


def _said(name: str) -> str:
    """What was heard, for the message of a test that fails."""
    return "\n".join(line for arm in heard(name).values() for line in (arm.sentences() if arm.run else [arm.error]))


def _phrases() -> Iterator[object]:
    for name, expected in ENTRIES.items():
        for kind, items in (("say", expected.say), ("not", expected.unsaid)):
            for phrase, item in items.items():
                marks = [pytest.mark.xfail(reason=item.known, strict=True)] if item.known else []
                yield pytest.param(name, item, kind == "not", id=f"{name} {kind}: {phrase}", marks=marks)


def _all_but(known: Mapping[str, str]) -> list[object]:
    """Every excerpt; those of which it does not hold today are marked with the reason."""
    return [
        pytest.param(name, marks=[pytest.mark.xfail(reason=known[name], strict=True)] if name in known else [])
        for name in ENTRIES
    ]


def test_every_phrase_is_translated() -> None:
    """An excerpt, or a phrase of one, that is added or changed has to be translated before this passes."""
    stated = {n: (sorted(e["must_say"]), sorted(e["must_not_say"])) for n, e in excerpts().items()}
    assert {n: (sorted(e.say), sorted(e.unsaid)) for n, e in ENTRIES.items()} == stated


@pytest.mark.parametrize(("name", "item", "everywhere"), list(_phrases()))
def test_phrase(name: str, item: Item, everywhere: bool) -> None:
    assert item.holds(heard(name), everywhere=everywhere), f"wanted {item.check.text}; heard:\n{_said(name)}"


UNREAD = {
    "T33": "two lines of prose with numbers are fewer than the console reader takes for a training",
}


@pytest.mark.parametrize("name", _all_but(UNREAD))
def test_every_excerpt_is_read_and_no_rule_breaks(name: str) -> None:
    assert [arm.error for arm in heard(name).values() if arm.error] == []
    assert [arm.diagnosis.broken for arm in heard(name).values() if arm.diagnosis and arm.diagnosis.broken] == []


@pytest.mark.parametrize(
    "name", _all_but(UNREAD | {"T45": "the line's words are not the excerpt's keys"})
)
def test_no_number_is_lost(name: str) -> None:
    """Each key with a number is a metric or named among what is none, and a metric has a point for each of its rows."""
    entry = excerpts()[name]
    for arm, rows in arms_of(entry).items():
        run = heard(name)[arm].run
        assert run is not None
        points: dict[str, int] = {}
        for key in (k for row in rows for k, v in spelt(entry, row).items() if isinstance(v, int | float)):
            points[_bare(key)] = points.get(_bare(key), 0) + 1
        points.pop("step", None)
        read = {_bare(s.key): len(s) for s in run.series.values()}
        named = {_bare(key) for key in (*run.unmapped, *run.unsettled, *run.ignored)}
        assert read.keys() | named == points.keys()
        assert {k: n for k, n in read.items() if n != points[k]} == {}


def _bare(key: str) -> str:
    """A key without its case and separators, and without the words that the generic dialect takes off."""
    name = re.sub(r"[^a-z0-9]+", "_", key.lower()).strip("_")
    return re.sub(r"^(train_)+|_mean$", "", name)


@pytest.mark.parametrize(
    "name",
    _all_but(UNREAD),
)
def test_what_was_logged_is_not_called_missing(name: str) -> None:
    for arm in heard(name).values():
        assert arm.run is not None
        assert arm.diagnosis is not None
        if any(metric.startswith("kl/reference") for metric in arm.run.series):
            assert "KL to a reference is not logged" not in arm.diagnosis.verdict.narrative


@pytest.mark.parametrize(
    "name",
    [
        "T03",
        "T04",
        "T07",
        "T09",
        "T10",
        "T13",
        "T14",
        "T15",
        "T16",
        "T17",
        "T19",
        "T20",
        "T25",
        "T27",
        "T30",
        "T36",
        "T42",
        "T44",
    ],
)
def test_settings_beside_the_log_are_taken_or_named(name: str, tmp_path: Path) -> None:
    settings = settings_of(excerpts()[name])
    assert settings
    for i, rows in enumerate(arms_of(excerpts()[name]).values()):
        write(excerpts()[name], rows, tmp_path / str(i))
        run = vario.read(tmp_path / str(i))
        assert run.config.items() >= settings.items() or any("config.json" in w for w in run.warnings)

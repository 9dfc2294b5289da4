"""docs/live.md: every block of Python is run, the trainers on a tiny model; every table is that of the code."""

from __future__ import annotations

import inspect
import io
import json
import re
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.docs.telling import (
    Told,
    blocks_of,
    commands_of,
    is_printed,
    is_understood,
    links_lead_somewhere,
    quoted,
    table_below,
    tell,
    text_of,
)
from tests.live import tiny
from vario.catalogue import lookup
from vario.catalogue.own_words import EVENT_METRIC, OWN_WORDS, PHASES, event_key
from vario.sources.dialects import DIALECTS
from vario.surfaces.live import beside, courier, handover, machine, monitor, other_work, probe
from vario.surfaces.live.kept_samples import FOLDER
from vario.surfaces.live.monitor import Monitor, rank_of
from vario.surfaces.live.row_log import NAME as ROW_LOG
from vario.surfaces.state.places import NAME as STATE

pytest.importorskip("trl")

from vario.live import VarioCallback  # it needs transformers

# the libraries of the trainers warn of each other
pytestmark = pytest.mark.filterwarnings("ignore")

PAGE = "live"
TEXT = text_of(PAGE)
SAID = " ".join(TEXT.split())
STEPS = 2
PARSER_BROKE = 121


def plain(cell: str) -> str:
    return cell.replace("`", "")


def callbacks(trainer: Any) -> list[VarioCallback]:
    return [c for c in trainer.callback_handler.callbacks if isinstance(c, VarioCallback)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def names(home: Path) -> dict[str, Any]:
    """What the reader of the page has before its first line: a trainer, a model, a reward, prompts."""
    trainer = tiny.grpo(home / "attached", STEPS, max_completion_length=8)
    model = shutil.copytree(home / "attached-base", home / "my-model")
    tokenizer = tiny.tokenizer()
    tokenizer.save_pretrained(model)
    args = tiny.grpo(home / "called", STEPS, max_completion_length=8).args
    return {
        "__name__": "page", "trainer": trainer, "first": trainer, "my_reward": tiny.four_as, "args": args,
        "prompts": trainer.train_dataset, "tokenizer": tokenizer, "model": tiny.model(),
    }  # fmt: skip


@pytest.fixture(scope="module")
def told(home: Path, names: dict[str, Any]) -> list[Told]:
    return tell(PAGE, home, names=names, left=lambda line: not line.startswith("vario "))


def of(told: list[Told], words: str) -> Told:
    (done,) = (done for done in told if words in done.line)
    return done


# what the page shows


@pytest.mark.parametrize("line", commands_of(PAGE))
def test_command_runs(line: str, told: list[Told]) -> None:
    done = of(told, line)
    assert done.code in (0, 1), done.out
    assert "internal error" not in done.out


def test_what_the_page_shows_is_printed(told: list[Told]) -> None:
    assert sum(len(done.shown) for done in told) == len(blocks_of(PAGE, "text"))
    for done in told:
        is_printed(done)


def test_attach_sees_phases_and_completions(told: list[Told], names: dict[str, Any], home: Path) -> None:
    assert of(told, "attach(trainer)\n").code == 0
    trainer = names["first"]
    (callback,) = callbacks(trainer)
    assert not callback.failures
    rows = [row for row in trainer.state.log_history if "reward" in row]
    assert len(rows) == STEPS
    assert {"vario/step_time", "vario/phase/generation", "vario/phase/reward"} <= set(rows[-1])
    assert (home / "attached" / STATE).is_file()
    assert len(list((home / "attached" / FOLDER).iterdir())) == STEPS
    assert not (home / "attached" / ROW_LOG).exists()


@pytest.mark.usefixtures("told")
def test_the_callback_by_itself_sees_rows_and_step_times(names: dict[str, Any], home: Path) -> None:
    trainer = names["trainer"]
    assert trainer is not names["first"]
    alone = callbacks(trainer)[0]
    assert not alone.failures
    row = next(row for row in reversed(trainer.state.log_history) if "reward" in row)
    assert "vario/step_time" in row
    assert "vario/phase/generation" not in row
    assert (home / "called" / STATE).is_file()
    assert not (home / "called" / FOLDER).exists()


@pytest.mark.usefixtures("told")
def test_the_probe_is_asked_for(names: dict[str, Any]) -> None:
    asked = callbacks(names["trainer"])[-1]
    assert asked._attention is not None
    assert asked._attention_every == 50


def test_the_loop_is_stopped_for_the_reward_that_broke(told: list[Told], home: Path) -> None:
    assert "reward-function-broke" in of(told, "def train_step").out
    rows = [json.loads(line) for line in (home / "outputs/my-loop" / ROW_LOG).read_text().splitlines()]
    assert len(rows) > PARSER_BROKE
    assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
    assert (home / "outputs/my-loop" / STATE).is_file()
    assert (home / "outputs/my-loop" / FOLDER).is_dir()
    out = of(told, "vario diagnose outputs/my-loop").out
    assert re.search(rf"critical\[\w+\] reward-function-broke\n  since step {PARSER_BROKE},", out)


@pytest.mark.usefixtures("told")
def test_what_was_measured_in_a_loop_is_kept(home: Path) -> None:
    rows = [json.loads(line) for line in (home / "outputs/timed" / ROW_LOG).read_text().splitlines()]
    assert {"vario/step_time", "vario/phase/generation", "vario/phase/train"} <= set(rows[-1])


# tables


def test_every_key_of_ours_is_told_with_its_metric() -> None:
    def row(key: str, metric: str) -> list[str]:
        meant = lookup(metric)
        return [f"`{key}`", f"`{metric}`", meant.unit, meant.meaning]

    rows = [row(key, metric) for key, metric in OWN_WORDS.items()]
    rows.append(row(event_key("NAME"), EVENT_METRIC.replace("*", "NAME")))
    assert table_below(PAGE, "What is measured") == rows
    assert {f"vario/phase/{phase}" for phase in PHASES} < set(OWN_WORDS)


def test_every_argument_of_the_monitor_is_told() -> None:
    told = [name for cell in table_below(PAGE, "In any loop") for name in quoted(cell[0])]
    assert told == list(inspect.signature(Monitor).parameters)


def test_every_option_of_the_callback_is_told() -> None:
    part = TEXT.split("| option | is | default |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", part, re.MULTILINE)
    known = inspect.signature(VarioCallback).parameters
    assert [name for name, _ in rows] == [name for name in known if name not in ("trainer", "options")]
    defaults = dict(rows)
    assert (defaults["measure"], known["measure"].default) == ("true", True)
    assert known["attention"].default is None
    assert int(defaults["attention_every"]) == known["attention_every"].default


def test_what_the_page_names_of_the_monitor_is_there() -> None:
    made = Monitor(rank=1)
    for name in set(re.findall(r"`monitor\.(\w+)", TEXT)):
        assert hasattr(made, name), name
    callback = VarioCallback()
    for name in set(re.findall(r"`callback\.(\w+)", TEXT)):
        assert hasattr(callback, name), name
    known = set(vars(probe.AttentionProbe)) | {"seconds", "troubles"}
    assert set(re.findall(r"`probe\.(\w+)", TEXT)) <= known


def test_every_framework_has_a_row() -> None:
    rows = table_below(PAGE, "Trainers without a callback")
    linked = [name for row in rows for name in re.findall(r"\(frameworks/([\w-]+)\.md\)", row[0])]
    assert sorted(linked) == sorted(dialect.name for dialect in DIALECTS if dialect.name != "generic")


def test_every_file_that_is_written_is_told() -> None:
    part = TEXT.split("| file | holds | by |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\S+)` \|", part, re.MULTILINE) == [ROW_LOG, f"{FOLDER}/", STATE]


def test_ranks_are_told() -> None:
    assert quoted(SAID.split("Only rank 0 speaks (")[1].split(";")[0]) == list(monitor.RANKS)
    for name in monitor.RANKS:
        assert rank_of({name: "3"}) == 3


def test_on_another_rank_every_call_does_nothing(tmp_path: Path) -> None:
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(out):
        made = Monitor(directory=tmp_path / "run", rank=1)
        made.log(1, {"reward": 1.0})
        made.close()
    assert made.beside is None
    assert out.getvalue() == ""
    assert not (tmp_path / "run").exists()


def test_numbers_of_the_page() -> None:
    assert (courier.PAUSES, courier.SILENT_SECONDS, monitor.CLOSING_SECONDS) == ((0.0, 5.0, 30.0), 300.0, 20.0)
    assert (beside.NICE, handover.SAMPLES, machine.EVERY_SECONDS, machine.BUDGET) == (10, 512, 1.0, 0.002)
    assert (other_work.HEAVY_PROCESSORS, other_work.HEAVY_BYTES) == (0.1, 100e6)
    assert (probe.MOST_SEQUENCES, probe.MOST_TOKENS, probe.BUDGET) == (4, 128, 0.005)
    assert Monitor(rank=1).notices.maxlen == 1000
    for said in (
        "waits 20 seconds at most", "at once, after 5 seconds and after 30", "after five minutes you are told", "(nice 10)",
        "of a row 512 are taken", "sampled once a second", "more than 0.2 % of a core", "a tenth of the processors or 100 MB/s",
        "of four sequences at most, with 128 tokens each", "more than 0.5 % of the time", "`monitor.notices` has the last thousand",
        "a value takes 8 bytes and the number of its row 4",
    ):  # fmt: skip
        assert said in SAID, said


def test_the_trainers_of_the_tests_are_told() -> None:
    tests = (ROOT / "tests/live/test_trainer.py").read_text(encoding="utf-8")
    (listed,) = re.findall(r'parametrize\("name", \[(.*?)\]\)', tests)
    sentence = SAID.split("The tests train ")[1].split(" trainers")[0].lower()
    for name in ("GRPO", *re.findall(r'"(\w+)"', listed)):
        assert name.lower() in sentence, name


def test_commands_in_sentences_are_understood() -> None:
    is_understood(PAGE, "watch", "diagnose")


def test_links_lead_somewhere() -> None:
    links_lead_somewhere(PAGE)
    assert f"]({PAGE}.md)" in (ROOT / "docs/index.md").read_text(encoding="utf-8")
    assert f"](docs/{PAGE}.md)" in (ROOT / "README.md").read_text(encoding="utf-8")

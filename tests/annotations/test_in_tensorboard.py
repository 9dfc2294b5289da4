"""TensorBoard: texts in a file of vario's own, read back by TensorBoard's reader; the training's files stay as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

import vario
from tests.annotations.told import rows_of
from tests.conftest import GOLDEN
from vario.surfaces.annotations.in_tensorboard import FILE
from vario.surfaces.cli import main
from vario.verdict import to_json

pytest.importorskip("tensorboardX")
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboardX import SummaryWriter

FINDING = "vario/findings/kl-rises-while-reward-falls/text_summary"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of a real run as TensorBoard keeps it."""
    folder = tmp_path / "runs"
    with SummaryWriter(str(folder)) as writer:
        for row in rows_of(GOLDEN / "grpo-drift"):
            for key, value in row.items():
                if key not in ("step", "epoch"):
                    writer.add_scalar(f"train/{key}", value, row["step"])
    return folder


def texts(folder: Path) -> dict[str, list[tuple[int, str]]]:
    reader = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    reader.Reload()
    return {
        tag: [(e.step, e.tensor_proto.string_val[0].decode()) for e in reader.Tensors(tag)]
        for tag in reader.Tags()["tensors"]
        if tag.startswith("vario/")
    }


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != FILE}


def judged(folder: Path) -> dict[str, object]:
    return to_json(vario.diagnose(vario.read(folder)))


def test_texts_stand_at_their_steps(log: Path) -> None:
    before, said = contents(log), judged(log)
    assert main(["annotate", str(log), "--to", f"tensorboard:{log}"]) == 0
    found = texts(log)
    assert all(tag.startswith("vario/") for tag in found)
    ((step, text),) = found[FINDING]
    assert step == 43
    assert "critical, since step 43" in text
    ((last, verdict),) = found["vario/verdict/text_summary"]
    assert last == 140
    assert verdict.startswith("STOP")
    assert found["vario/report/text_summary"][0][1].startswith("## STOP")
    assert contents(log) == before, "the training's files are its own"
    assert judged(log) == said, "what was written back is no metric"


def test_writing_again_replaces_it(log: Path) -> None:
    for until in ("140", "30"):
        assert main(["annotate", str(log), "--to", f"tensorboard:{log}", "--until", until]) == 0
    found = texts(log)
    assert FINDING not in found
    assert [step for step, _ in found["vario/verdict/text_summary"]] == [30]
    assert len(list(log.iterdir())) == 2


def test_a_training_that_goes_on_is_still_read(log: Path) -> None:
    """TensorBoard's plain reader never goes back to a file whose name stands before the one that it reads."""
    reader = EventAccumulator(str(log), size_guidance={"scalars": 0})
    reader.Reload()
    assert main(["annotate", str(log), "--to", f"tensorboard:{log}", "--no-replay"]) == 0
    reader.Reload()
    (file,) = (path for path in log.iterdir() if path.name != FILE)
    with SummaryWriter(str(log / "more")) as writer:
        writer.add_scalar("train/reward", 0.5, 141)
    (more,) = (log / "more").iterdir()
    with file.open("ab") as stream:
        stream.write(more.read_bytes())
    reader.Reload()
    assert reader.Scalars("train/reward")[-1].step == 141


def test_a_folder_that_cannot_be_written_to(log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (log / FILE).mkdir()
    assert main(["annotate", str(GOLDEN / "grpo-drift"), "--no-replay", "--to", f"tensorboard:{log}"]) == 2
    assert "cannot be written to" in capsys.readouterr().err
    assert not [path for path in log.iterdir() if path.name.startswith(".vario")]

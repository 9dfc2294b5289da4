"""W&B: its own client writes a run's summary, to a server that keeps what it is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.annotations.told import driven
from tests.conftest import GOLDEN
from tests.sources.test_wandb import Server

pytest.importorskip("wandb")

CODE = """
import wandb
def summary():
    return wandb.Api().run("me/proj/a1").summary_metrics
first = judged("wandb://me/proj/a1")
command("annotate", "{golden}", "--to", "wandb://me/proj/a1")
found["first"] = summary()
found["same"] = judged("wandb://me/proj/a1") == first
command("annotate", "{golden}", "--to", "wandb://me/proj/a1", "--until", "30")
found["second"] = summary()
command("annotate", "{golden}", "--to", "wandb://me/proj/none", "--no-replay")
"""


class Keeping(Server):
    """Keeps the summary of each run as the client last sent it."""

    def __init__(self) -> None:
        super().__init__()
        self.summary: dict[str, Any] = {"train/reward": 0.5, "_step": 3199, "various/note": "mine"}
        self.sent: list[dict[str, Any]] = []

    def run(self, name: str) -> dict[str, object]:
        return {**super().run(name), "summaryMetrics": json.dumps(self.summary)}

    def answer(self, query: str, variables: Mapping[str, object]) -> dict[str, object] | None:
        if "upsertBucket" in query:
            self.summary = json.loads(str(variables["summaryMetrics"]))
            self.sent.append(self.summary)
            return {"upsertBucket": {"bucket": self.run("a1"), "inserted": False}}
        return super().answer(query, variables)


def test_the_summary_of_a_run() -> None:
    server = Keeping()
    with server.listening() as url:
        code = CODE.format(golden=GOLDEN / "grpo-drift")
        told, found = driven(code, WANDB_BASE_URL=url, WANDB_API_KEY="x" * 40, WANDB_SILENT="true")
    assert [t["code"] for t in told][1:] == [0, told[0]["code"], 0, 2], told
    first, second = found["first"], found["second"]
    assert first["vario/verdict"].startswith("STOP")
    assert first["vario/findings/kl-rises-while-reward-falls"].startswith("critical, since step 43")
    assert found["same"], "what was written back is no metric"
    assert "vario/findings/kl-rises-while-reward-falls" not in second, "it does not hold at step 30"
    assert second["vario/trajectory"] != first["vario/trajectory"]
    for summary in (first, second):
        assert {k: v for k, v in summary.items() if not k.startswith("vario/")} == {
            "train/reward": 0.5,
            "_step": 3199,
            "various/note": "mine",
        }
    assert "check `wandb login` and the name" in told[-1]["err"]
    assert told[-1]["err"].count("\n") == 1

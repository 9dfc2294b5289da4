"""Keys are found in source as trainers write it, and one that no dialect knows fails the check."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT

TRAINER = """
import torch
from transformers import Trainer


class FakeTrainer(Trainer):
    _name = "SDPO"

    def __init__(self):
        self._metrics = {"train": defaultdict(list), "eval": defaultdict(list)}
        self._logs = {"prompt": deque(), "completion": deque()}
        self.stats = {"objective/kl": [], "beta": []}

    def compute_loss(self, inputs, teacher_id):
        mode = "train" if self.model.training else "eval"
        self._metrics[mode]["entropy"].append(1.0)
        self._metrics["train"]["step_time"].append(2.0)
        self._metrics[mode]["num_tokens"] = [3]
        for name in self.reward_names:
            self._metrics[mode][f"rewards/{name}/mean"].append(0.5)
        self._metrics["train"][f"teacher_jsd/{teacher_id}"].append(0.5)
        prefix = "on_policy" if inputs else "off_policy"
        self._metrics["train"][f"completions/{prefix}_mean_length"].append(9.0)
        metric_prefix = self._name.lower().replace(" ", "_")
        self._metrics[mode][f"{metric_prefix}/distillation_loss"].append(1.0)
        self._rates["rollout/turns_mean"][0] += 2
        self._logs["prompt"].extend(inputs)
        self._logs["completion"] = ["text"]
        value = self._metrics[mode]["never written"]
        return value

    def get_batch_loss_metrics(self, train_eval="train"):
        metrics = {}
        prefix = "eval_" if train_eval == "eval" else ""
        metrics[f"{prefix}rewards/chosen"] = 1.0
        return metrics

    def mismatch_metrics(self, k1):
        return {"sampling/sampling_logp_difference/mean": k1}

    def log(self, logs, start_time=None):
        metrics = {key: sum(val) / len(val) for key, val in self._metrics["train"].items()}
        if self.evaluates:
            metrics = {f"eval_{key}": val for key, val in metrics.items()}
        if start_time:
            logs["loss"] = round(logs["loss"], 4)
        self.worker._push_metrics({"rollout/score_s": 1.0})
        super().log({**logs, **metrics, "grad_norm": 1.0})
        wandb.log({"completions": wandb.Table(dataframe=df)})
"""
EXPECTED = {
    "entropy", "eval_entropy", "step_time", "num_tokens", "eval_num_tokens", "rewards/sample/mean", "eval_rewards/sample/mean",
    "teacher_jsd/sample", "completions/on_policy_mean_length", "completions/off_policy_mean_length", "sdpo/distillation_loss",
    "eval_sdpo/distillation_loss", "rollout/turns_mean", "rewards/chosen", "eval_rewards/chosen", "loss", "rollout/score_s", "grad_norm",
    "objective/kl", "beta", "sampling/sampling_logp_difference/mean",
}  # fmt: skip
SPEED = """
def speed_metrics(split, start_time, num_samples=None):
    result = {f"{split}_runtime": 1.0}
    if num_samples is not None:
        result[f"{split}_samples_per_second"] = 2.0
    return result


class Trainer:
    def evaluate(self, metric_key_prefix: str = "eval"):
        metrics = {}
        metrics[f"{metric_key_prefix}_loss"] = 1.0
        metrics.update(speed_metrics(metric_key_prefix, 0))
        self.log(metrics)

    def train(self):
        metrics = speed_metrics("train", 0, 5)
        metrics["total_flos"] = 1
        self.log(metrics)
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vario_known_keys", ROOT / "scripts/known_keys.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["vario_known_keys"] = made
    spec.loader.exec_module(made)
    return made


def site(at: Path, trainer: str = TRAINER, *, transformers: bool = False) -> Path:
    """A site-packages folder with a library like TRL."""
    folder = at / "trl" / "experimental"
    folder.mkdir(parents=True)
    (at / "trl" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (folder / "fake_trainer.py").write_text(trainer)
    info = at / "trl-9.8.7.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: trl\nVersion: 9.8.7\n")
    if transformers:
        (at / "transformers").mkdir()
        (at / "transformers" / "trainer.py").write_text(SPEED)
    return at


def test_every_way_of_writing_is_read(script: ModuleType, tmp_path: Path) -> None:
    site(tmp_path)
    assert set(script.keys_of(tmp_path / "trl", ("**/*.py",))) == EXPECTED


def test_prefixes_come_from_defaults_and_calls(script: ModuleType, tmp_path: Path) -> None:
    site(tmp_path, transformers=True)
    assert set(script.keys_of(tmp_path / "transformers", ("trainer.py",))) == {
        "train_runtime", "eval_runtime", "train_samples_per_second", "eval_samples_per_second", "eval_loss", "total_flos",
    }  # fmt: skip


def test_known_keys_pass(script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["--site", str(site(tmp_path, transformers=True))]) == 0
    said = capsys.readouterr().out
    assert f"trl 9.8.7: {len(EXPECTED)} of {len(EXPECTED)} keys known to trl.py" in said
    assert "transformers of unknown version: 6 of 6 keys known" in said
    assert "unsloth: not installed, not checked" in said
    assert "unknown:" not in said


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('self._metrics[mode]["brand/new"].append(1.0)', "brand/new"),
        ('self._metrics["train"][f"novel/{teacher_id}"].append(1.0)', "novel/sample"),
        ('metrics = {"fresh": 1.0}', "fresh"),
        ('self.log({"unheard_of": 1.0})', "unheard_of"),
    ],
)
def test_an_unknown_key_fails_with_its_place(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, key: str
) -> None:
    marked = "        self._rates"
    trainer = TRAINER.replace(marked, f"        {line}\n{marked}")
    at = trainer[: trainer.index(line)].count("\n") + 1
    assert script.main(["--site", str(site(tmp_path, trainer))]) == 1
    assert f"unknown: {key}  (trl/experimental/fake_trainer.py:{at})" in capsys.readouterr().out


def test_a_library_without_a_key_is_no_success(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(["--site", str(site(tmp_path, "x = 1\n"))]) == 1
    assert "no key found" in capsys.readouterr().out


def test_required_and_absent(script: ModuleType, tmp_path: Path) -> None:
    assert script.main(["--site", str(tmp_path)]) == 0
    assert script.main(["--site", str(tmp_path), "--require", "trl"]) == 1
    with pytest.raises(SystemExit):
        script.main(["--site", str(tmp_path / "nowhere")])
    with pytest.raises(SystemExit):
        script.main(["--require", "no-such-library"])


def test_what_this_python_has(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """Against the libraries that are really installed, where they are."""
    installed = [lib.name for lib in script.LIBRARIES if importlib.util.find_spec(lib.name) is not None]
    assert script.main([]) == 0, capsys.readouterr().out
    assert capsys.readouterr().out.count("not installed") == len(script.LIBRARIES) - len(installed)

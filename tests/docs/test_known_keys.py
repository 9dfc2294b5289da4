"""Keys are found in source as trainers write it, and one that no dialect knows fails the check."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import known_keys
import pytest
from key_places import LIBRARIES, Part

from vario.sources.dialects import DIALECTS

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


def keys(folder: Path, *parts: Part) -> set[str]:
    return set(known_keys.keys_of(folder, parts)[0])


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


def test_every_way_of_writing_is_read(tmp_path: Path) -> None:
    site(tmp_path)
    assert keys(tmp_path / "trl", Part(("**/*.py",))) == EXPECTED


def test_prefixes_come_from_defaults_and_calls(tmp_path: Path) -> None:
    site(tmp_path, transformers=True)
    assert keys(tmp_path / "transformers", Part(("trainer.py",), names={"split": ("eval",)})) == {
        "train_runtime", "eval_runtime", "train_samples_per_second", "eval_samples_per_second", "eval_loss", "total_flos",
    }  # fmt: skip


def read(tmp_path: Path, source: str, part: Callable[[tuple[str, ...]], Part]) -> set[str]:
    """The keys of one file that is written as `part` says."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "log.py").write_text(source)
    return keys(tmp_path / "lib", part(("log.py",)))


def test_stores_under_their_own_names(tmp_path: Path) -> None:
    source = """
NAME = "data/of_a_constant"

def step(self):
    timing = {"gen": 1.0}
    timing["step"] = 2.0
    status: dict[str, float] = {"loss": 0.1}
    status.update({"kl": 0.1}, lr=1e-6)
    status[NAME] = 1
    for phase in ("early", "late"):
        status[phase] = 1
    self.custom[mode]["acc"].update(value)
    self.custom[mode].update({"nested": 1})
    status["handed on"] = 1
    other = {"no": 1}
    batch_metrics["said"] = 1
    logs["not a store here"] = 1
"""
    found = read(
        tmp_path,
        source,
        lambda files: Part(
            files,
            stores={"timing": ("timing_s/{}",), "status": ("{}",), "custom": ("{}",), "metrics": ("{}",)},
            skipped={"handed.*": "to another place"},
        ),
    )
    assert found == {
        "timing_s/gen", "timing_s/step", "loss", "kl", "lr", "data/of_a_constant", "early", "late", "acc", "nested", "said",
    }  # fmt: skip


def test_prefixes_that_are_put_in_front_later(tmp_path: Path) -> None:
    source = """
def policy_loss():
    metrics = {"kl_loss": 1, "actor/pg_loss": 2}

def value_loss():
    metrics = {"vf_loss": 1}

def helper():
    metrics = {"internal": 1}

def measure(prefix):
    metrics[f"{prefix}/dropped"] = 1
    metrics[f"{self.part(prefix)}/late"] = 1
"""
    found = read(
        tmp_path,
        source,
        lambda files: Part(
            files,
            logged_as=("actor/{}",),
            functions={"value_loss": ("critic/{}", "second/{}"), "helper": (), "measure": ("{}",)},
            names=dict.fromkeys(("prefix", "part"), ("training", "validation")),
        ),
    )
    assert found == {
        "actor/kl_loss", "actor/pg_loss", "critic/vf_loss", "second/vf_loss",
        "training/dropped", "validation/dropped", "training/late", "validation/late",
    }  # fmt: skip


def test_functions_that_take_a_key(tmp_path: Path) -> None:
    source = """
def update(tracker, stat, role):
    with timer("gen", raw), tracker.scope("update"):
        tracker.stat(entropy=stat["entropy"], denominator="n_tokens")
        tracker.count(n_tokens=mask)
        values = dict(kl=1, clip=2)
        values["late"] = 3
        tracker.stat(**values, denominator="n_tokens")
        tracker.count(**{"queue/depth": 1.0})
    with timer(f"{role}_onload", raw):
        tracker.count(outside=1)
    unnamed(other=1)
"""
    found = read(
        tmp_path,
        source,
        lambda files: Part(
            files,
            stores={},
            calls={"timer": ("timing/{}",)},
            keywords={"stat": ("{}/avg", "{}/max"), "count": ("{}",)},
            scopes=("scope",),
        ),
    )
    assert found == {
        "timing/gen", "timing/sample_onload", "update/n_tokens", "update/queue/depth", "outside",
        *(f"update/{k}/{how}" for k in ("entropy", "kl", "clip", "late") for how in ("avg", "max")),
    }  # fmt: skip


def test_functions_that_give_metrics_back(tmp_path: Path) -> None:
    source = """
async def compute_kl(data):
    return {"kl_v1": 1.0, "kl_v2": 2.0}, usage

def optimizer_step():
    return dict(grad_norm=1.0)

def train():
    yield {**base, "loss": 1.0}

def batch_metrics(x):
    found = {}
    found["size"] = 1
    return found

def other():
    return {"no metric": 1}
"""
    makers = ("compute_kl", "optimizer_step", "train")
    found = read(tmp_path, source, lambda files: Part(files, makers=makers, bare=("train/{}",)))
    assert found == {"train/kl_v1", "train/kl_v2", "train/grad_norm", "train/loss", "train/size"}


def test_fields_and_keys_without_a_section(tmp_path: Path) -> None:
    source = """
class Experience:
    sequences: Tensor = tensor_field("step", default=None)
    length: Tensor = tensor_field("episode", default=None)
    index: list[int] = None

def log(self):
    metrics = {"reward": 1.0, "time/step": 2.0}
"""
    found = read(tmp_path, source, lambda files: Part(files, fields={"tensor_field": "episode"}, bare=("train/{}", "val/{}")))  # fmt: skip
    assert found == {"train/length", "val/length", "train/reward", "val/reward", "time/step"}


# the table of libraries


def test_every_entry_is_whole() -> None:
    assert len({lib.name for lib in LIBRARIES}) == len({lib.distribution for lib in LIBRARIES}) == len(LIBRARIES)
    assert {lib.dialect for lib in LIBRARIES} <= {d.name for d in DIALECTS}
    for part in (part for lib in LIBRARIES for part in lib.parts):
        assert part.files
        for pattern, why in part.skipped.items():
            re.compile(pattern)
            assert why, pattern
        named = (part.stores, part.functions, part.calls, part.keywords)
        ways = [
            *part.logged_as,
            *(part.bare or ()),
            *(way for table in named for some in table.values() for way in some),
        ]
        assert all(way.count("{}") == 1 for way in ways), part.files


WRITTEN = {
    # a few lines as each library writes them, and how they are logged
    "verl": {
        "trainer/ppo/ray_trainer.py": 'def fit(self):\n with marked_timer("gen", timing_raw, color="red"):\n  metrics = {"training/epoch": 1}',
        "workers/utils/losses.py": 'def ppo_loss():\n metrics["kl_loss"] = 1\n metrics["actor/pg_loss"] = 1\ndef value_loss():\n metrics = {"critic/vf_loss": 1}',
        "trainer/ppo/rollout_corr_helper.py": 'def f():\n metrics["kl"] = 1',
        "experimental/agent_loop/agent_loop.py": 'def _performance_metrics():\n timing["agent_loop/tool_calls/max"] = 1\n return timing',
        "trainer/ppo/v1/replay_buffer.py": 'def f(self):\n prefix = self._metrics_prefix(x)\n metrics[f"{prefix}/off_policy/evicted_samples"] = 1',
    },
    "openrlhf": {
        "trainer/ppo_trainer.py": 'def train_step(self):\n status["timing/broadcast"] = 1\ndef compute_eval_metrics():\n logs[f"eval_{ds}_pass1"] = 1',
        "trainer/ray/ppo_actor.py": 'def f(experience):\n experience.info["ppo_kl"] = 1\n metrics = {"policy_loss": 1}',
        "trainer/ppo_utils/experience.py": 'class E:\n response_length: T = tensor_field("episode")\n action_mask: T = tensor_field("step")',
        "trainer/dpo_trainer.py": 'def fit():\n logs_dict = {"chosen_reward": 1}\ndef evaluate():\n logs = {"eval_loss": 1}',
    },
    "areal": {
        "trainer/ppo/actor.py": 'def _ppo_update(self):\n stats_tracker.stat(task_reward=r, denominator="n")\ndef grpo_loss_fn():\n stats_tracker.scalar(rs_filtered_fraction=1)\ndef _log_version_staleness_stats():\n with stats_tracker.scope("version_stats"):\n  stats_tracker.scalar(v_theta=1)',
        "engine/fsdp_engine.py": "def optimizer_step(self):\n return dict(grad_norm=1)",
        "trainer/rl_trainer.py": 'def train(self):\n with stats_tracker.record_timing("rollout"): pass',
        "workflow/rlvr.py": "def f():\n stats_tracker.get(stat_scope()).scalar(reward=1)",
    },
    "tinker_cookbook": {
        "rl/metric_util.py": 'def _compute_trajectory_metrics():\n metrics = {"turns_per_episode": 1}',
        "rl/train.py": 'async def f():\n async with trace.scope_span("sampling"):\n  metrics["async/staleness_mean"] = 1',
        "supervised/train.py": "def f():\n metrics.update(train_mean_nll=1)",
    },
    "swift": {
        "rlhf_trainers/grpo_trainer.py": 'def f(self):\n self._metrics[mode]["reward"].append(1)\ndef _compute_is_correction_metrics(self):\n metrics["ess"] = 1\n return metrics\ndef log(self):\n logs = {f"eval_{key}": 1}',
        "megatron/trainers/grpo_trainer.py": 'def f(self):\n entropy_metrics = {"entropy_mean": 1}',
        "trainers/mixin.py": 'def f(self):\n self.custom_metrics[mode]["acc"].update(1)',
    },
    "art": {
        "model.py": 'def log(self):\n averages = {"reward": 1, "time/step_wall_s": 1}',
        "metrics.py": 'def f(self):\n self.add_metric("data/step_num_scenarios", 1.0)',
        "local/backend.py": 'async def _train_model():\n yield {**base, "data/step_num_groups_trainable": 0.0}',
    },
}  # fmt: skip
LOGGED = {
    "verl": {"timing_s/gen", "training/epoch", "actor/kl_loss", "actor/pg_loss", "critic/vf_loss", "rollout_corr/kl",
             "actor/rollout_corr/kl", "timing_s/agent_loop/tool_calls/max", "training/off_policy/evicted_samples",
             "validation/off_policy/evicted_samples"},
    "openrlhf": {"train/timing/broadcast", "eval/eval_sample_pass1", "train/ppo_kl", "train/policy_loss",
                 "train/response_length", "train/chosen_reward", "eval/eval_loss"},
    "areal": {"ppo_actor/task_reward/avg", "ppo_actor/task_reward/min", "ppo_actor/task_reward/max",
              "ppo_actor/update/rs_filtered_fraction", "ppo_actor/update/version_stats/v_theta", "timeperf/rollout",
              "ppo_actor/update/grad_norm", "ppo_critic/grad_norm", "dpo/grad_norm", "sft/grad_norm", "rw/grad_norm",
              "rollout/reward", "eval-rollout/reward"},
    "tinker_cookbook": {"env/all/turns_per_episode", "test/env/all/turns_per_episode", "time/sampling",
                        "async/staleness_mean", "train_mean_nll"},
    "swift": {"reward", "eval_reward", "rollout_correction/ess", "entropy/entropy_mean", "acc"},
    "art": {"train/reward", "val/reward", "time/step_wall_s", "data/step_num_scenarios", "data/step_num_groups_trainable"},
}  # fmt: skip


@pytest.mark.parametrize("name", list(WRITTEN))
def test_each_library_in_its_own_way(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    library = next(lib for lib in LIBRARIES if lib.name == name)
    for path, text in WRITTEN[name].items():
        (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name / path).write_text(text)
    assert keys(tmp_path / name, *library.parts) == LOGGED[name]
    assert known_keys.main(["--site", str(tmp_path)]) == 0, "every one of them is known"
    said = capsys.readouterr().out
    assert f"{library.distribution} of unknown version: {len(LOGGED[name])} of {len(LOGGED[name])} keys known" in said


# the command


def test_known_keys_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert known_keys.main(["--site", str(site(tmp_path, transformers=True))]) == 0
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
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, key: str
) -> None:
    marked = "        self._rates"
    trainer = TRAINER.replace(marked, f"        {line}\n{marked}")
    at = trainer[: trainer.index(line)].count("\n") + 1
    assert known_keys.main(["--site", str(site(tmp_path, trainer))]) == 1
    assert f"unknown: {key}  (trl/experimental/fake_trainer.py:{at})" in capsys.readouterr().out


def test_a_list_says_what_each_key_means(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainer = TRAINER.replace("self._rates", 'self._metrics["train"]["brand/new"].append(1.0)\n        self._rates')
    known_keys.main(["--site", str(site(tmp_path, trainer)), "--list"])
    said = dict(re.findall(r"^  (\S+)  \(\S+:\d+\): (.+)$", capsys.readouterr().out, re.MULTILINE))
    assert said["entropy"] == "entropy/mean"
    assert said["grad_norm"] == "gradient/norm"
    assert said["num_tokens"] == "systems/tokens"
    assert said["eval_entropy"].startswith("ignored, ")
    assert said["brand/new"] == "None"


def test_a_library_without_a_key_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert known_keys.main(["--site", str(site(tmp_path, "x = 1\n"))]) == 1
    assert "no key found" in capsys.readouterr().out


def test_files_that_are_gone_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another version may have none; a newer one that moved them would otherwise pass unseen."""
    (tmp_path / "verl/trainer/ppo").mkdir(parents=True)
    (tmp_path / "verl/trainer/ppo/ray_trainer.py").write_text('metrics = {"training/epoch": 1}\n')
    assert known_keys.main(["--site", str(tmp_path)]) == 0
    assert "none in this version's trainer/ppo/rollout_corr_helper.py" in capsys.readouterr().out


def test_required_and_absent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert known_keys.main(["--site", str(tmp_path)]) == 0
    assert known_keys.main(["--site", str(tmp_path), "--require", "trl"]) == 1
    for wrong in (
        ["--site", str(tmp_path / "nowhere")],
        ["--require", "no-such-library"],
        ["--only", "no-such-library"],
        ["--only", "verl==0.4.1"],
        ["--site", str(tmp_path), "--fetch", str(tmp_path)],
    ):
        with pytest.raises(SystemExit):
            known_keys.main(wrong)
    assert "give --fetch too" in capsys.readouterr().err


def test_only_some(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known_keys.main(["--site", str(site(tmp_path, transformers=True)), "--only", "transformers", "--only", "verl"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["transformers", "verl:"]


def test_what_this_python_has(capsys: pytest.CaptureFixture[str]) -> None:
    """Against the libraries that are really installed, where they are."""

    def installed() -> Iterator[str]:
        for library in LIBRARIES:
            try:
                yield importlib.metadata.version(library.distribution)
            except importlib.metadata.PackageNotFoundError:
                continue

    status = known_keys.main([])
    said = capsys.readouterr().out
    assert status == 0, said
    assert said.count("not installed") == len(LIBRARIES) - len(list(installed()))


# fetching


def wheel(at: Path, name: str, version: str, source: str, *, purelib: bool = False) -> None:
    """A wheel of one module with a `log.py`, laid out plainly or below a data folder."""
    at.mkdir(parents=True, exist_ok=True)
    inside = f"{name}-{version}.data/purelib/{name}" if purelib else name
    with zipfile.ZipFile(at / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{inside}/trainer/ppo_trainer.py", source)
        archive.writestr(f"{inside}/trainer/ppo/ray_trainer.py", source)
        archive.writestr(f"{name}-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")  # fmt: skip


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[Path], None]]:
    """What pip would download, by requirement; nothing else can be had."""
    offered: dict[str, Callable[[Path], None]] = {}

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[1:4] == ["-m", "pip", "download"]
        assert {"--no-deps", "--only-binary"} <= set(command), "no source is built, for that would run it"
        if command[-1] not in offered:
            return subprocess.CompletedProcess(command, 1, "", f"WARNING: slow\nERROR: No matching distribution found for {command[-1]}\n")  # fmt: skip
        offered[command[-1]](Path(command[command.index("--dest") + 1]))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(known_keys.subprocess, "run", run)
    return offered


STATUS = 'def fit():\n    metrics = {"training/epoch": 1}\n    status = {"timing/broadcast": 1}\n'


def test_wheels_are_unpacked_and_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], registry: dict[str, Callable[[Path], None]]
) -> None:
    registry["verl"] = lambda at: wheel(at, "verl", "0.9.1", STATUS)
    registry["openrlhf"] = lambda at: wheel(at, "openrlhf", "0.11.2", STATUS, purelib=True)
    folder = tmp_path / "wheels"
    assert known_keys.main(["--fetch", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "verl 0.9.1: 1 of 1 keys known to verl.py" in said
    assert "openrlhf 0.11.2: 1 of 1 keys known to openrlhf.py" in said
    assert "trl: ERROR: No matching distribution found for trl, not checked" in said
    assert not list(folder.glob("*.data"))
    assert known_keys.main(["--site", str(folder)]) == 0, "the folder can be read again without fetching"


def test_another_version_takes_the_place_of_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], registry: dict[str, Callable[[Path], None]]
) -> None:
    registry["verl"] = lambda at: wheel(at, "verl", "0.9.1", STATUS)
    registry["verl==0.4.1"] = lambda at: wheel(at, "verl", "0.4.1", 'metrics = {"unheard_of": 1}\n')
    folder = str(tmp_path / "wheels")
    assert known_keys.main(["--fetch", folder, "--only", "verl"]) == 0
    assert known_keys.main(["--fetch", folder, "--only", "verl==0.4.1"]) == 1
    said = capsys.readouterr().out
    assert "verl 0.4.1: 0 of 1 keys known" in said
    assert "unknown: unheard_of  (verl/trainer/ppo/ray_trainer.py:1)" in said
    assert [p.name for p in (tmp_path / "wheels").glob("*.dist-info")] == ["verl-0.4.1.dist-info"]


def test_what_cannot_be_had_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], registry: dict[str, Callable[[Path], None]]
) -> None:
    """A copy from before is not passed off as the newest."""
    registry["verl"] = lambda at: wheel(at, "verl", "0.9.1", STATUS)
    folder = str(tmp_path / "wheels")
    assert known_keys.main(["--fetch", folder, "--only", "verl"]) == 0
    registry.clear()
    assert known_keys.main(["--fetch", folder, "--only", "verl"]) == 0
    assert known_keys.main(["--fetch", folder, "--only", "verl", "--require", "verl"]) == 1
    said = capsys.readouterr().out
    assert said.count("not checked") == 2
    assert said.count("keys known") == 1


def test_a_wheel_of_another_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], registry: dict[str, Callable[[Path], None]]
) -> None:
    registry["ms-swift"] = lambda at: wheel(at, "other", "1.0", STATUS)
    assert known_keys.main(["--fetch", str(tmp_path / "wheels"), "--only", "ms-swift", "--require", "ms-swift"]) == 1
    assert "ms-swift: the wheel has no folder swift, not checked" in capsys.readouterr().out


def test_a_folder_with_other_things_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], registry: dict[str, Callable[[Path], None]]
) -> None:
    registry["verl"] = lambda at: wheel(at, "verl", "0.9.1", STATUS)
    (tmp_path / "verl").mkdir()
    (tmp_path / "verl" / "mine.py").write_text("x = 1\n")
    with pytest.raises(SystemExit):
        known_keys.main(["--fetch", str(tmp_path), "--only", "verl"])
    assert "new or an empty folder" in capsys.readouterr().err
    assert (tmp_path / "verl" / "mine.py").read_text() == "x = 1\n"

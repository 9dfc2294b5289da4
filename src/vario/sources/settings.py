"""Configuration beside a log: JSON, YAML, or the pickle of TrainingArguments, read without running it."""

from __future__ import annotations

import io
import json
import math
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

from vario.errors import ConfigError
from vario.run import Setting
from vario.sources.inert import Inert, InertUnpickler

MAX_BYTES = 32 << 20
"""A larger file is no configuration."""
MAX_INTEGER = 1 << 63


def _plain(value: object) -> object:
    if isinstance(value, Inert):
        return value.args[0] if value.args and isinstance(value.args[0], str | int | float) else None
    return value


def read_training_args(path: Path) -> dict[str, object]:
    """The fields of a `training_args.bin`, as far as they are plain values.

    Nothing in the file is executed: classes are replaced by inert stand-ins.

    Raises:
        ConfigError: not such a file.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path}: too large for training arguments ({path.stat().st_size} bytes)")
        data = path.read_bytes()
        if zipfile.is_zipfile(io.BytesIO(data)):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                inner = next((i for i in archive.infolist() if i.filename.endswith("data.pkl")), None)
                if inner is None or inner.file_size > MAX_BYTES:
                    raise ConfigError(f"{path}: holds no arguments")
                data = archive.read(inner)
        made = InertUnpickler(io.BytesIO(data)).load()
    except ConfigError:
        raise
    except Exception as error:  # a hostile or broken pickle may raise anything; none of it is ours
        raise ConfigError(f"{path}: not readable as training arguments ({type(error).__name__})") from error
    state = getattr(made, "state", None)
    if not isinstance(state, Mapping):
        raise ConfigError(f"{path}: holds no arguments")
    return {k: _plain(v) for k, v in state.items() if isinstance(k, str)}


def read_config(path: Path) -> dict[str, object]:
    """A configuration file by its ending: .json, .yaml/.yml, .toml or training_args.bin.

    Raises:
        ConfigError: it cannot be read, or is no mapping.
    """
    if path.suffix == ".bin":
        return read_training_args(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path}: too large for a configuration")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); check the path") from error
    loaded: object
    if path.suffix in {".yaml", ".yml"}:
        try:
            import yaml
        except ImportError as error:
            raise ConfigError(
                f"{path}: YAML needs `pip install vario[yaml]`; or give the configuration as JSON"
            ) from error
        try:
            loaded = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:  # dates and numbers raise their own
            raise ConfigError(
                f"{path}: broken YAML ({(str(error).splitlines() or [type(error).__name__])[0]})"
            ) from error
    elif path.suffix == ".toml":
        try:
            loaded = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ConfigError(f"{path}: broken TOML ({error})") from error
    else:
        try:
            loaded = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path}: broken JSON ({error})") from error
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path}: a configuration must be a mapping of names to values")
    return {k: v for k, v in _unwrapped(loaded).items() if isinstance(k, str)}


def _unwrapped(loaded: dict[object, object]) -> dict[object, object]:
    """W&B writes every setting as `{desc, value}`, and its own affairs under `_wandb`."""
    inner = {k: v for k, v in loaded.items() if k not in ("_wandb", "wandb_version")}
    if inner and all(isinstance(v, Mapping) and "value" in v and len(v) <= 2 for v in inner.values()):
        return {k: v["value"] for k, v in inner.items()}  # type: ignore[index]
    return loaded


MAX_PARTS = 10_000
"""A setting with more parts is no setting; aliases in YAML and pickles can unfold without end."""


def _parts(value: object, most: int) -> int:
    """How many parts a value has, counted no further than `most`."""
    count, waiting = 0, [value]
    while waiting and count <= most:
        count += 1
        here = waiting.pop()
        waiting += (
            list(here.values())[:most]
            if isinstance(here, Mapping)
            else list(here)[:most]
            if isinstance(here, list | tuple)
            else []
        )
    return count


def settle(raw: Mapping[str, object]) -> dict[str, Setting]:
    """Plain settings: scalars stay, nested names are joined by dots, lists become JSON text, the rest is dropped."""
    settled: dict[str, Setting] = {}
    if _parts(raw, MAX_PARTS) > MAX_PARTS:
        raw = {key: value for key, value in raw.items() if _parts(value, MAX_PARTS) <= MAX_PARTS}
    waiting: list[tuple[str, object, int]] = [(key, value, 0) for key, value in raw.items()]
    for name, value, depth in waiting:
        if isinstance(value, Mapping):
            if depth < MAX_DEPTH and len(waiting) < MAX_PARTS:
                waiting += [(f"{name}.{key}", inner, depth + 1) for key, inner in value.items() if isinstance(key, str)]
        elif isinstance(value, int) and abs(value) >= MAX_INTEGER:
            settled[name] = math.inf if value > 0 else -math.inf
        elif value is None or isinstance(value, bool | int | float | str):
            settled[name] = value
        elif isinstance(value, list | tuple):
            try:
                settled[name] = json.dumps(value)
            except (TypeError, ValueError, RecursionError):
                continue
    return settled


MAX_DEPTH = 12
"""No trainer's configuration nests deeper."""
TRAINER_FIELDS = frozenset(
    {"per_device_train_batch_size", "gradient_accumulation_steps", "num_train_epochs", "max_steps"}
)
MODEL_FIELDS = frozenset({"hidden_size", "num_hidden_layers", "architectures", "vocab_size"})


def is_trainer_config(raw: Mapping[str, object]) -> bool:
    """Whether a configuration holds a trainer's arguments (and not the model's, or something else's)."""
    if MODEL_FIELDS & raw.keys():
        return len(TRAINER_FIELDS & raw.keys()) >= 2
    return bool(SETTINGS & raw.keys()) or len(TRAINER_FIELDS & raw.keys()) >= 1 or is_nested(raw)


SETTINGS = frozenset(
    {"learning_rate", "lr", "beta", "num_generations", "epsilon", "epsilon_high", "loss_type", "scale_rewards", "temperature",
     "max_completion_length", "max_response_length", "num_iterations", "trl_version", "kl_coef", "kl_loss_coef", "clip_ratio",
     "adv_estimator", "advantage_estimator", "rollout_batch_size", "n_samples_per_prompt", "reward_weights", "rlhf_type",
     "num_samples_per_prompt_rollout", "group_size", "init_kl_coef", "ppo_epochs", "mini_batch_size", "use_vllm",
     "mask_truncated_completions", "vllm_importance_sampling_correction", "top_p", "top_k"}
)  # fmt: skip
"""Names that only a trainer's settings have; one of them is enough where nothing speaks of a model."""


def is_nested(raw: Mapping[str, object]) -> bool:
    """Whether it has the sections that trainers with structured configurations write."""
    return len({key for key, value in raw.items() if isinstance(value, Mapping)} & SECTIONS) >= 2


SECTIONS = frozenset(
    {"actor_rollout_ref", "algorithm", "trainer", "data", "critic", "actor", "rollout", "gconfig", "train_dataset",
     "policy", "grpo", "loss_fn", "generator", "environment", "orchestrator", "model", "optim", "cluster", "logger",
     "method", "train", "tokenizer", "optimizer", "scheduler"}
)  # fmt: skip
"""Sections of verl, AReaL, NeMo-RL, SkyRL, prime-rl and their forks."""

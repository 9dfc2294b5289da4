"""What lies in a folder: logs, checkpoints, configurations. Follows no loop, fails on no permission."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from vario.errors import NothingReadable
from vario.sources.readers import mlflow_folder

CHECKPOINT = re.compile(r"^checkpoint-(\d+)$")
OTHER_CHECKPOINT = re.compile(r"^(?:global_step_?|best_global_step|iter_|step_|ckpt[_-])(\d+)$")
CHECKPOINT_HOMES = frozenset({"checkpoints", "checkpoint", "ckpt", "ckpts", "weights", "_actor", "actor"})
CHECKPOINT_PARTS = frozenset({"actor", "policy", "trainer", "huggingface", "model"})
"""Folders inside a checkpoint of verl, NeMo-RL, prime-rl and their kin."""
MAX_DEPTH = 4
MAX_ENTRIES = 20_000
MAX_LOGS = 400
"""So many files that could be logs are looked into."""
LOG_SUFFIXES = frozenset(
    {".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".log", ".txt", ".out", ".err", ".ipynb", ".parquet", ".wandb", ".db",
     ".sqlite", ".sqlite3"}
)  # fmt: skip
ROTATED = re.compile(r"\.\d{1,3}")
"""What log rotation puts behind a name; the higher number is the older file."""
PACKED = frozenset({".gz", ".zst"})
CONFIG_NAMES = frozenset(
    {"config.json", "config.yaml", "config.yml", "args.json", "training_args.json", "training_args.yaml", "hparams.yaml",
     "training_args.bin"}
)  # fmt: skip
NEVER_LOGS = frozenset(
    {"env.json", "rewards.json", "label.json", "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt",
     "generation_config.json", "adapter_config.json", "special_tokens_map.json", "added_tokens.json",
     "preprocessor_config.json", "processor_config.json", "model.safetensors.index.json", "pytorch_model.bin.index.json",
     "requirements.txt", "package.json", "debug-core.log", "wandb-metadata.json", "wandb-summary.json", "all_results.json",
     "train_results.json", "eval_results.json", "README.txt", "LICENSE.txt", "debug.log", "debug-internal.log",
     "training_info.json", "vario-marks.jsonl", "vario-state.sqlite"}
)  # fmt: skip
"""Files that are no logs, though they end as logs do; and what no user's diagnosis may rest on."""
ROLLOUT_FOLDERS = frozenset(
    {"completions", "rollouts", "rollout", "eval-rollout", "trajectories", "episodes", "dumped_evals", "rollout_data",
     "validation_data"}
)  # fmt: skip
DUMP_FILE = re.compile(
    r"^(?:completions\.jsonl|\w*rollout_summaries\.jsonl|(?:train|val)_data_step\d+\.jsonl|.+_rollouts_\d+\.jsonl|traces\.jsonl"
    r"|(?:eval_)?\d+\.pt)$"
)
"""Names under which trainers write completions beside their logs."""


@dataclass(slots=True)
class Found:
    """Paths of interest below a folder, nearest first."""

    states: list[Path] = field(default_factory=list)
    checkpoints: list[tuple[int, Path]] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)
    stores: list[Path] = field(default_factory=list)
    configs: list[Path] = field(default_factory=list)
    dumps: list[Path] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    denied: list[str] = field(default_factory=list)
    others: int = 0
    cut: bool = False


def is_regular(path: Path) -> bool:
    """Whether it is a file that ends: no pipe, no device. A link that leads nowhere is left to the reader."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return True


def checkpoint_step(here: Path, folders: list[str]) -> int | None:
    """The step of the checkpoint that a folder with these folders in it is; None for any other."""
    if found := CHECKPOINT.search(here.name):
        return int(found[1])
    found = OTHER_CHECKPOINT.search(here.name)
    if found and (here.parent.name in CHECKPOINT_HOMES or CHECKPOINT_PARTS & set(folders)):
        return int(found[1])
    return None


def is_log(path: Path) -> bool:
    """Whether a log can have this name."""
    if path.name in NEVER_LOGS or path.name in CONFIG_NAMES:
        return False
    if ".tfevents." in path.name:
        return True
    suffixes = [s for s in path.suffixes if not ROTATED.fullmatch(s)][-2:]
    return bool(suffixes) and (
        suffixes[-1] in LOG_SUFFIXES or (suffixes[-1] in PACKED and (len(suffixes) == 1 or suffixes[0] in LOG_SUFFIXES))
    )


def look(folder: Path) -> Found:
    """List a folder some levels down; symbolic links to folders are not followed."""
    found = Found()
    seen = 0
    base = len(folder.parts)
    for where, folders, files in os.walk(
        folder, onerror=lambda e: found.denied.append(str(e.filename)), followlinks=False
    ):
        here = Path(where)
        depth = len(here.parts) - base
        folders[:] = sorted(f for f in folders if not f.startswith(".") or f == ".hydra") if depth < MAX_DEPTH else []
        if found.cut:
            break
        if mlflow_folder.is_run(here):
            found.stores.append(here)
            folders[:] = []
            continue
        if here.name in ROLLOUT_FOLDERS and depth:
            if files or folders:
                found.dumps.append(here)
            if here.name == "completions" and any(n.endswith(".parquet") for n in files):
                found.files.add("completions.parquet")
            found.others += len(files)
            folders[:] = []
            continue
        checkpoint = checkpoint_step(here, folders)
        if checkpoint is not None:
            found.checkpoints.append((checkpoint, here))
        for name in sorted(files):
            seen += 1
            if seen > MAX_ENTRIES:
                found.cut = True
                break
            path = here / name
            if not is_regular(path):
                found.others += 1
            elif name == "trainer_state.json":
                found.states.append(path)
            elif name in CONFIG_NAMES or (path.suffix == ".toml" and here.name in ("configs", "config")):
                found.configs.append(path)
            elif DUMP_FILE.match(name) and checkpoint is None:
                found.dumps.append(path)
                found.others += 1
            elif is_log(path) and checkpoint is None:
                found.logs.append(path)
            else:
                found.others += 1
    found.checkpoints.sort()
    found.logs.sort(key=lambda p: (len(p.parts), str(p)))
    if len(found.logs) > MAX_LOGS:
        found.others += len(found.logs) - MAX_LOGS
        found.logs = found.logs[:MAX_LOGS]
    return found


def nothing(folder: Path, found: Found) -> NothingReadable:
    """The message for a folder without a log."""
    if found.denied and not (found.others or found.logs):
        return NothingReadable(f"{folder}: no permission to read it ({found.denied[0]}); check its owner and mode")
    holds = f"it holds {found.others + len(found.logs)} other files" if found.others or found.logs else "it is empty"
    return NothingReadable(
        f"{folder}: no log of a training here or up to {MAX_DEPTH} levels down ({holds}). vario reads trainer_state.json, "
        "TensorBoard, W&B offline runs, trackio, MLflow, JSON lines, CSV, Parquet, notebooks and console logs. "
        "TRL writes trainer_state.json into checkpoint-N/ folders; trainer.save_state() writes it into output_dir."
    )

"""A tiny real TRL training on CPU: a random model with character tokens learns to write one letter, in seconds."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRACKIO_DISABLED", "1")

LETTERS = "abcd"
SPECIALS = ["<pad>", "<bos>", "<eos>", "?"]


def tokenizer() -> Any:
    """One token a letter, padded on the left."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    ids = {token: i for i, token in enumerate([*SPECIALS, *LETTERS])}
    made = Tokenizer(models.WordLevel(ids, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    made.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", unk_token="?", padding_side="left"
    )


def model(seed: int = 0) -> Any:
    """Two layers of 32: some ten thousand weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    torch.set_num_threads(1)  # so small a model gains nothing from more, and loses much where others want the cores
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(SPECIALS) + len(LETTERS), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        )
    )  # fmt: skip


def four_as(completions: list[str], **_: object) -> list[float]:
    """Four times the first letter is all that can be had; there is room to learn for hundreds of steps."""
    return [min(c.count("a"), 4) / 4 for c in completions]


class Breaking:
    """A reward that gives nothing any more from a call on, as a parser does that stopped to match."""

    __name__ = "four_as"

    def __init__(self, after: int) -> None:
        self.calls = 0
        self.after = after

    def __call__(self, completions: list[str], **_: object) -> list[float]:
        self.calls += 1
        return four_as(completions) if self.calls <= self.after else [0.0] * len(completions)


def grpo(
    out: Path, steps: int, reward: Callable[..., list[float]] = four_as, callbacks: list[Any] | None = None, **options: Any
) -> Any:
    """A GRPO trainer that logs each step."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    settings: dict[str, Any] = {
        "output_dir": str(out), "max_steps": steps, "logging_steps": 1, "per_device_train_batch_size": 16,
        "num_generations": 8, "max_completion_length": 24, "learning_rate": 5e-4, "beta": 0.02, "report_to": [],
        "save_strategy": "no", "use_cpu": True, "disable_tqdm": True, "seed": 1, "lr_scheduler_type": "constant",
        "temperature": 1.0,
    }  # fmt: skip
    base = out.parent / f"{out.name}-base"
    model().save_pretrained(base)
    data = Dataset.from_list([{"prompt": LETTERS[i % 4] + LETTERS[i // 4 % 4]} for i in range(256)])
    return GRPOTrainer(
        model=str(base),
        reward_funcs=reward,
        args=GRPOConfig(**{**settings, **options}),
        train_dataset=data,
        processing_class=tokenizer(),
        callbacks=callbacks,
    )


class First:
    """Calls a function when a training begins, after the callbacks before it have begun."""

    def __new__(cls, call: Callable[[], None]) -> Any:
        from transformers import TrainerCallback

        class Began(TrainerCallback):
            def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                call()

        return Began()


def other(name: str, out: Path, callbacks: list[Any]) -> Any:
    """Another of TRL's trainers, for three steps."""
    import trl
    from datasets import Dataset

    base = out.parent / f"{out.name}-base"
    model().save_pretrained(base)
    config, trainer = getattr(trl, f"{name}Config"), getattr(trl, f"{name}Trainer")
    settings: dict[str, Any] = {
        "output_dir": str(out), "max_steps": 3, "logging_steps": 1, "per_device_train_batch_size": 4, "report_to": [],
        "save_strategy": "no", "use_cpu": True, "disable_tqdm": True,
    }  # fmt: skip
    pairs = [{"prompt": "ab", "chosen": "aa", "rejected": "bb"}] * 16
    rows: dict[str, list[dict[str, Any]]] = {
        "RLOO": [{"prompt": "ab"}] * 16,
        "DPO": pairs,
        "KTO": [{"prompt": "ab", "completion": "aa", "label": i % 2 == 0} for i in range(16)],
        "Reward": [{"chosen": "abaa", "rejected": "abbb"}] * 16,
        "SFT": [{"text": "abaa"}] * 16,
    }
    more: dict[str, Any] = {"model": str(base)}
    if name == "RLOO":
        settings |= {"num_generations": 4, "max_completion_length": 8}
        more["reward_funcs"] = four_as
    if name == "Reward":
        from transformers import AutoModelForSequenceClassification

        more["model"] = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1)
    return trainer(
        args=config(**settings),
        train_dataset=Dataset.from_list(rows[name]),
        processing_class=tokenizer(),
        callbacks=callbacks,
        **more,
    )

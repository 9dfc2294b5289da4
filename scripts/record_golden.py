#!/usr/bin/env python
"""Record the project's own small labelled runs with the real TRL trainers.

    python scripts/record_golden.py base --out BASE              # once: the starting model
    python scripts/record_golden.py list
    python scripts/record_golden.py run NAME --out DIR --base BASE

`run` leaves DIR/NAME as a user would have it: `trainer_state.json`, `config.json` (all
trainer arguments) and, where the scenario keeps them, `checkpoint-N/` folders with
`trainer_state.json` and `training_args.bin`; weights and optimizer files are deleted.
`label.json` is written by hand afterwards, from the curves.

The model is a tiny Qwen2 with character tokens; the task is the sum of two numbers, with
optional worked steps and the answer in a tag: `37+45=` -> `7+5=12;3+4+1=8;<a>82</a>`.
The base model has learned good and bad habits, so there is something to improve.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

SPECIALS = ["<pad>", "<bos>", "<eos>"]
VOCAB = SPECIALS + sorted("0123456789+=;<>/a.,hmok ?!-")
ANSWER = re.compile(r"<a>(\d+)</a>$")
KEPT_IN_CHECKPOINT = {"trainer_state.json", "training_args.bin"}

Reward = Callable[..., list[float]]


# --- the task


def make_tokenizer() -> Any:
    """One token per character, padded on the left."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    ids = {token: i for i, token in enumerate(VOCAB)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", ids["<bos>"])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=128,
    )


def worked_steps(a: int, b: int) -> str:
    """Write the column addition, lowest digit first."""
    steps, carry = [], 0
    while a or b or not steps:
        (a, p), (b, q) = divmod(a, 10), divmod(b, 10)
        total = p + q + carry
        steps.append(f"{p}+{q}" + ("+1" if carry else "") + f"={total};")
        carry = total // 10
    return "".join(steps)


def habit(a: int, b: int, rng: random.Random) -> str:
    """Complete as the base model does: a mixture of good and bad habits."""
    answer = str(a + b)
    if rng.random() < 0.2:
        i = rng.randrange(len(answer))
        answer = answer[:i] + rng.choice("0123456789") + answer[i + 1 :]
    tagged = f"<a>{answer}</a>"
    filler = "".join(rng.choice("0123456789+=;") for _ in range(rng.randint(1, 12)))
    kinds = {
        worked_steps(a, b) + tagged: 0.32,
        tagged: 0.28,
        answer: 0.14,
        worked_steps(a, b) + answer: 0.06,
        "hm" + "." * rng.randint(1, 6) + tagged: 0.10,
        tagged + " ok": 0.04,
        worked_steps(a, b) + filler + tagged: 0.06,
    }
    return rng.choices(list(kinds), list(kinds.values()))[0]


def problem(rng: random.Random) -> tuple[int, int]:
    """Draw two numbers of two digits."""
    return rng.randint(10, 99), rng.randint(10, 99)


def prompts(seed: int, count: int = 4000) -> Any:
    """Make the data set of an online run."""
    from datasets import Dataset

    rng = random.Random(seed)
    pairs = [problem(rng) for _ in range(count)]
    return Dataset.from_list([{"prompt": f"{a}+{b}=", "answer": str(a + b)} for a, b in pairs])


def preferences(seed: int, count: int, swapped: float = 0.0) -> Any:
    """Make the pairs of a DPO run: worked and right is chosen, another habit is rejected."""
    from datasets import Dataset

    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        a, b = problem(rng)
        chosen = worked_steps(a, b) + f"<a>{a + b}</a>"
        while (rejected := habit(a, b, rng)) == chosen:
            pass
        if swapped and rng.random() < swapped:
            chosen, rejected = rejected, chosen
        rows.append({"prompt": f"{a}+{b}=", "chosen": chosen, "rejected": rejected})
    return Dataset.from_list(rows)


# --- rewards


def correctness(completions: list[str], answer: list[str], **_: Any) -> list[float]:
    """Give 1 where the tagged answer at the end is right."""
    found = [ANSWER.search(c.strip()) for c in completions]
    return [float(m is not None and int(m[1]) == int(a)) for m, a in zip(found, answer, strict=True)]


def answer_format(completions: list[str], **_: Any) -> list[float]:
    """Give 1 where the completion ends in a well-formed answer tag."""
    return [float(ANSWER.search(c.strip()) is not None) for c in completions]


def steps_shown(completions: list[str], **_: Any) -> list[float]:
    """Score 'shows its work' naively, a proxy that can be gamed: more `;`, more reward."""
    return [min(c.count(";"), 6) / 6 for c in completions]


def thoroughness(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """Pay for length, up to the cap of 48 tokens."""
    return [min(len(ids), 48) / 48 for ids in completion_ids]


def exact_match(completions: list[str], answer: list[str], **_: Any) -> list[float]:
    """Make a common mistake: a number is compared with a string, so it never matches."""
    found = [ANSWER.search(c.strip()) for c in completions]
    return [float(m is not None and int(m[1]) == a) for m, a in zip(found, answer, strict=True)]


def breaking(step: int) -> Reward:
    """Make a `correctness` whose parser breaks: from optimizer step `step` on, always 0."""

    def correctness_(completions: list[str], trainer_state: Any, **columns: Any) -> list[float]:
        if trainer_state.global_step >= step:
            return [0.0] * len(completions)
        return correctness(completions, **columns)

    correctness_.__name__ = "correctness"
    return correctness_


# --- scenarios


@dataclass(frozen=True)
class Scenario:
    """One run: its rewards, and what differs from the common arguments. The name begins with the algorithm."""

    doc: str
    seed: int
    steps: int
    args: dict[str, Any] = field(default_factory=dict)
    rewards: tuple[Reward, ...] = (correctness, answer_format)
    pairs: int = 3000
    """The size of the preference set (DPO)."""
    swapped: float = 0.0
    """The share of its pairs that are labelled the wrong way round."""
    resume: dict[str, Any] | None = None
    """A second process that resumes: `stop` of the first, `at` which checkpoint, changed `args`."""


LR = {"learning_rate": 7e-5}
TASK = LR | {"reward_weights": [1.0, 0.3]}
FIRST_ONLY = LR | {"reward_weights": [1.0, 0.0]}
EXACT = LR | {"reward_weights": [1.0, 0.25], "beta": 0.03}  # weights without a rounding error
WARMUP = {"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 140}
ROOMY = {"beta": 2e-3, "max_completion_length": 48}
LENGTH_FIRST = ROOMY | {"learning_rate": 1e-4, "reward_weights": [0.3, 1.0]}
OVERTRAIN = {"learning_rate": 4e-4, "lr_scheduler_type": "constant"}

SCENARIOS: dict[str, Scenario] = {
    "grpo-healthy": Scenario("GRPO as it should be, beta 0 and TRL's linear decay", 11, 180, TASK),
    "grpo-healthy-kl": Scenario("the same with a KL penalty", 23, 160, EXACT),
    "grpo-drift": Scenario(
        "a long warmup to a learning rate far too high, with a KL penalty too small to hold it",
        31,
        140,
        TASK | WARMUP | {"learning_rate": 1.1e-3, "beta": 1e-3, "save_strategy": "steps", "save_steps": 20},
    ),
    "grpo-reward-bug": Scenario(
        "the answer parser breaks at step 90", 43, 150, FIRST_ONLY | {"beta": 0.02}, (breaking(90), answer_format)
    ),
    "grpo-all-zero": Scenario("the reward never matches", 47, 120, rewards=(exact_match,)),
    "grpo-lr-too-low": Scenario(
        "a learning rate hundreds of times too low", 53, 140, TASK | {"learning_rate": 2e-7, "beta": 0.02}
    ),
    "grpo-length-hack": Scenario(
        "length is paid better than the right answer", 59, 150, LENGTH_FIRST, (correctness, thoroughness)
    ),
    "grpo-resumed": Scenario(
        "cut off at step 110, resumed from checkpoint 60 with another seed: steps 61-110 exist twice",
        61,
        150,
        TASK | {"beta": 0.02, "save_strategy": "steps", "save_steps": 30},
        resume={"stop": 110, "at": 60, "args": {"seed": 62}},
    ),
    "grpo-proxy-hack": Scenario(
        "a proxy is gamed; the truth has weight 0", 67, 200, FIRST_ONLY | ROOMY, (steps_shown, correctness)
    ),
    "rloo-healthy": Scenario("RLOO as it should be", 71, 160, EXACT | {"num_generations": 4}),
    "dpo-healthy": Scenario("DPO as it should be", 73, 180, {"learning_rate": 8e-5}),
    "dpo-overtrain": Scenario(
        "64 pairs, a fifth mislabelled, 110 epochs, high rate", 79, 220, OVERTRAIN, pairs=64, swapped=0.2
    ),
}


# --- training


COMMON = {"logging_steps": 1, "save_strategy": "no", "report_to": "none", "disable_tqdm": True, "use_cpu": True}
COMMON |= {"bf16": False, "gradient_checkpointing": False}
ONLINE = {"per_device_train_batch_size": 64, "num_generations": 8, "max_completion_length": 40}
DPO = {"per_device_train_batch_size": 32, "max_length": 96}
DPO |= {"eval_strategy": "steps", "eval_steps": 20, "per_device_eval_batch_size": 64}


def load(base: Path) -> Any:
    """Load the starting model."""
    import torch
    from transformers import Qwen2ForCausalLM

    return Qwen2ForCausalLM.from_pretrained(base, dtype=torch.float32)


def make_base(out: Path, steps: int = 1000, batch: int = 96, seed: int = 5) -> None:
    """Teach the habits to a new model by plain supervised training (about three minutes)."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    rng, tokenizer = random.Random(seed), make_tokenizer()
    pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id
    shape = {"hidden_size": 96, "intermediate_size": 288, "num_hidden_layers": 3, "max_position_embeddings": 160}
    shape |= {"num_attention_heads": 4, "num_key_value_heads": 4, "tie_word_embeddings": True}
    ends = {"pad_token_id": pad, "eos_token_id": eos, "bos_token_id": tokenizer.bos_token_id}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=len(VOCAB), **shape, **ends))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, s / 50) * max(0.05, 1 - s / steps))
    for step in range(1, steps + 1):
        texts, starts = [], []
        for _ in range(batch):
            a, b = problem(rng)
            prompt = f"{a}+{b}="
            texts.append(tokenizer(prompt + habit(a, b, rng))["input_ids"] + [eos])
            starts.append(len(prompt) + 1)
        width = max(map(len, texts))
        ids = torch.full((batch, width), pad)
        labels = torch.full((batch, width), -100)
        for i, (text, start) in enumerate(zip(texts, starts, strict=True)):
            ids[i, : len(text)] = torch.tensor(text)
            labels[i, start : len(text)] = torch.tensor(text[start:])
        mask = (ids != pad).long()
        loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"base: step {step}, loss {loss.item():.3f}", flush=True)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def build_trainer(name: str, base: Path, changed: dict[str, Any], callbacks: list[Any]) -> Any:
    """Build the trainer of a scenario; its output folder is relative, so no path of a machine is kept."""
    import trl

    sc, algorithm = SCENARIOS[name], name.split("-")[0]
    args = COMMON | (DPO if algorithm == "dpo" else ONLINE) | sc.args | {"seed": sc.seed, "max_steps": sc.steps}
    args |= {"output_dir": name} | changed
    parts = {"model": load(base), "processing_class": make_tokenizer(), "callbacks": callbacks}
    if algorithm == "dpo":
        parts["train_dataset"] = preferences(2000 + sc.seed, sc.pairs, sc.swapped)
        return trl.DPOTrainer(args=trl.DPOConfig(**args), eval_dataset=preferences(999, 128), **parts)
    parts |= {"train_dataset": prompts(1000 + sc.seed), "reward_funcs": list(sc.rewards)}
    if algorithm == "rloo":
        return trl.RLOOTrainer(args=trl.RLOOConfig(**args), **parts)
    return trl.GRPOTrainer(args=trl.GRPOConfig(**args), **parts)


def train(name: str, base: Path, phase: str) -> None:
    """Train in this process; the current folder is the parent of the run's folder."""
    import torch
    from transformers import TrainerCallback

    torch.set_num_threads(1)
    out, resume = Path(name), SCENARIOS[name].resume or {}
    callbacks: list[Any] = []
    if phase == "first":

        class Interrupt(TrainerCallback):  # type: ignore[misc]
            """Ends the run early with a checkpoint, as when a job is preempted."""

            def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
                if state.global_step >= resume["stop"]:
                    control.should_training_stop = control.should_save = True

        callbacks.append(Interrupt())
    changed = resume.get("args", {}) if phase == "second" else {}
    trainer = build_trainer(name, base, changed, callbacks)
    out.mkdir(exist_ok=True)
    (out / "config.json").write_text(json.dumps(trainer.args.to_dict(), indent=1, default=str) + "\n")
    checkpoint = f"{name}/checkpoint-{resume['at']}" if phase == "second" else None
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.save_state()


def strip(out: Path) -> None:
    """Delete weights, optimizer states and everything else that no log reader needs."""
    (out / "README.md").unlink(missing_ok=True)  # the model card
    for checkpoint in out.glob("checkpoint-*"):
        for path in checkpoint.iterdir():
            if path.name not in KEPT_IN_CHECKPOINT:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def leaks(out: Path) -> Iterator[str]:
    """Find files that mention a folder of this machine, its name or its user."""
    import getpass
    import socket

    words = {str(Path.home()), str(out.resolve().parent), socket.gethostname(), "/tmp/"}
    words |= {user} if len(user := getpass.getuser()) > 4 else set()
    for path in filter(Path.is_file, out.rglob("*")):
        content = path.read_bytes()
        yield from (f"{path.name}: {word}" for word in sorted(words) if word.encode() in content)


def run(name: str, root: Path, base: Path) -> None:
    """Record one scenario, each of its phases in a process of its own."""
    root.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(root / name, ignore_errors=True)
    for phase in ("first", "second") if SCENARIOS[name].resume else ("only",):
        command = [sys.executable, str(Path(__file__).resolve()), "train", name]
        command += ["--base", str(base.resolve()), "--phase", phase]
        subprocess.run(command, cwd=root, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    strip(root / name)
    if found := list(leaks(root / name)):
        raise SystemExit("the record names this machine: " + "; ".join(found))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("command", choices=["list", "base", "run", "train"])
    parser.add_argument("name", nargs="?", choices=list(SCENARIOS))
    parser.add_argument("--out", type=Path, default=Path("golden"))
    parser.add_argument("--base", type=Path, default=Path("base"))
    parser.add_argument("--phase", choices=["only", "first", "second"], default="only")
    options = parser.parse_args()
    if options.command == "list":
        for name, sc in SCENARIOS.items():
            print(f"{name:18} {sc.steps:4} steps  {sc.doc}")
    elif options.command == "base":
        make_base(options.out)
    elif options.name is None:
        parser.error(f"{options.command} needs a NAME")
    elif options.command == "run":
        run(options.name, options.out, options.base)
    else:
        train(options.name, options.base, options.phase)


if __name__ == "__main__":
    main()

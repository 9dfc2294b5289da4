"""How widely the model's attention is spread, measured on a fixed batch every so many steps: asked for, never by itself."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

EVERY = 10
BUDGET = 0.005
"""Share of the time between two probes that a probe may take: half a percent."""
MOST_SEQUENCES = 4
MOST_TOKENS = 128
"""Attention of one sequence takes layers x heads x tokens x tokens values: 32 MiB in bfloat16 at 32 x 32 x 128 x 128."""
LESS_OFTEN = "attention entropy is measured less often than asked: it took more than its share of the time"
ATTENTION = "_attn_implementation"
"""Where a model's settings say how it computes attention; its forward looks there each time."""
FAILURES = 3
"""A probe that failed so often in a row is left off."""
SPLIT = ("FullyShardedDataParallel", "FSDP")
"""Wrappers that gather parts of the weights from every rank: a forward on one rank alone would wait for ever."""


class AttentionProbe:
    """Mean entropy of the attention weights of a model that is being trained, on a batch that stays the same.

        probe = AttentionProbe(model, tokenizer(texts, return_tensors="pt", padding=True))
        for step in range(steps):
            ...
            monitor.log(step, metrics | probe(step))

    Call it in the training's thread between two steps, on one rank. It leaves no trace in the training: no gradient, no
    random number, modes and attention as they were. What keeps it from measuring is counted in `troubles`, and the
    training goes on. Weights that are spread over ranks (FSDP, ZeRO 3, tensor parallel) cannot be probed.

    Args:
        model: of transformers, bare or wrapped (DDP, PEFT, torch.compile).
        batch: `input_ids` and, where there is padding, `attention_mask`; of it the first 4 sequences are taken, and of
            each the first 128 tokens that are no padding.
        every: steps between probes, at least.
        budget: share of the time between two probes that one may take. Where it would take more, the steps to the next
            one double until it does not.

    Attributes:
        seconds: what the probes have cost so far. runs: how many there were. every: steps between them, as it stands.
    """

    def __init__(
        self, model: torch.nn.Module, batch: Mapping[str, torch.Tensor], every: int = EVERY, *, budget: float = BUDGET
    ) -> None:
        self.troubles: Counter[str] = Counter()
        self.seconds = 0.0
        self.runs = 0
        self.every = self._asked = max(1, int(every))
        self._budget = budget
        self._failed = 0
        self._last: int | None = None
        self._last_cost = 0.0
        self._last_end = 0.0
        self._off = False
        self._batch: list[torch.Tensor] = []
        try:
            self._batch = list(_sequences(batch))
            self._body = _body(model)
            why = _split(self._body) if self._batch else "the batch holds no token"
            if why is not None:
                self._leave_off(why)
        except Exception as error:  # whatever is handed over: the training goes on unprobed
            self._leave_off(f"{type(error).__name__}: {error}")

    def __call__(self, step: int) -> dict[str, float]:
        """Probe where it is due: `vario/attention_entropy/mean` over the layers and `…/min` of the narrowest, in nats."""
        if self._off or (self._last is not None and 0 <= step - self._last < self.every):
            return {}
        if self._last is not None and self._last_cost > self._budget * (time.perf_counter() - self._last_end):
            self.every *= 2
            if LESS_OFTEN not in self.troubles:
                self.troubles[LESS_OFTEN] = 1
            return {}
        began = time.perf_counter()
        found: dict[str, float] = {}
        try:
            layers = self._measure()
            found = {
                "vario/attention_entropy/mean": sum(layers) / len(layers),
                "vario/attention_entropy/min": min(layers),
            }
            self._failed = 0
            self.runs += 1
        except Exception as error:  # out of memory, a model of an unknown kind
            self._failed += 1
            self.troubles[f"attention entropy could not be measured ({type(error).__name__}: {error})"] += 1
            if self._failed >= FAILURES or isinstance(error, NoAttention):
                self._leave_off("it is left off")
        # the first one loads kernels and says little of the others: that it was slow is not kept
        self._last, self._last_end, self.every = step, time.perf_counter(), self._asked
        self._last_cost = self._last_end - began
        self.seconds += self._last_cost
        return found

    def _leave_off(self, why: str) -> None:
        self._off = True
        self._batch = []
        self.troubles[f"attention entropy is not measured: {why}"] += 1

    def _measure(self) -> list[float]:
        """Entropy of each layer in nats, the mean over heads and over tokens that are no padding."""
        import torch

        sums: list[torch.Tensor] = []
        tokens = 0
        with _as_it_was(self._body), torch.no_grad():
            device = next(self._body.parameters()).device
            for ids in self._batch:
                said = self._body(input_ids=ids.to(device), output_attentions=True, use_cache=False, return_dict=True)
                layers = [_entropy(weights) for weights in (said.attentions or ()) if weights is not None]
                if not layers:
                    raise NoAttention("the model gives no attention weights, with eager attention neither")
                sums = [a + b for a, b in zip(sums, layers, strict=True)] if sums else layers
                tokens += ids.numel()
            return [float(value) for value in (torch.stack(sums) / tokens).tolist()]


class NoAttention(Exception):
    """A model whose attention weights cannot be had."""


def _sequences(batch: Mapping[str, torch.Tensor]) -> Iterator[torch.Tensor]:
    """The batch without padding, one sequence at a time: attention then takes a quarter of the memory."""
    import torch

    ids = torch.as_tensor(batch["input_ids"])[:MOST_SEQUENCES]
    mask = batch.get("attention_mask")
    kept = torch.ones_like(ids) if mask is None else torch.as_tensor(mask)[:MOST_SEQUENCES]
    for row, real in zip(ids, kept.bool(), strict=True):
        tokens = row[real][:MOST_TOKENS]
        if tokens.numel():
            yield tokens.detach().clone().unsqueeze(0)


def _entropy(weights: torch.Tensor) -> torch.Tensor:
    """Entropy of one layer, the mean over heads and the sum over tokens; `weights` of shape (1, heads, tokens, tokens)."""
    import torch

    return torch.special.entr(weights.float()).sum(dim=-1).mean(dim=1).sum()


def _body(model: torch.nn.Module) -> torch.nn.Module:
    """The transformer itself: no wrapper around it, and no head behind it whose logits would take more than attention."""
    while (inner := getattr(model, "_orig_mod", None)) is not None or _wraps(model):
        model = inner if inner is not None else model.module
    if hasattr(model, "peft_config") and hasattr(model, "get_base_model"):
        model = model.get_base_model()  # its adapters are inside
    return getattr(model, "base_model", model)


def _wraps(model: torch.nn.Module) -> bool:
    """Whether it is a wrapper that keeps the model as `module` (DDP, DeepSpeed's engine)."""
    return not hasattr(model, "base_model") and hasattr(model, "module")


def _split(model: torch.nn.Module) -> str | None:
    """Why a forward on one rank alone could not be done; None where it can."""
    if any(type(module).__name__.startswith(SPLIT) for module in model.modules()):
        return "the weights are spread over ranks (FSDP)"
    for parameter in model.parameters():
        if hasattr(parameter, "ds_id"):
            return "the weights are spread over ranks (ZeRO 3)"
        if hasattr(parameter, "device_mesh"):
            return "the weights are spread over ranks (FSDP 2 or tensor parallel)"
        if parameter.device.type == "meta":
            return "the weights are not in memory"
    return None


@contextmanager
def _as_it_was(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode and eager attention inside; modes, attention and random numbers as before behind it."""
    import torch

    training = [module for module in model.modules() if module.training]
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices), _eager(model):
        try:
            for module in training:
                module.training = False
            yield
        finally:
            for module in training:
                module.training = True


@contextmanager
def _eager(model: torch.nn.Module) -> Iterator[None]:
    """Attention that is computed with its weights; behind it whatever each part of the model had before."""
    configs = {id(m.config): m.config for m in model.modules() if hasattr(getattr(m, "config", None), ATTENTION)}
    before = [(config, getattr(config, ATTENTION)) for config in configs.values()]
    if all(how in (None, "eager") for _, how in before) or not hasattr(model, "set_attn_implementation"):
        yield
        return
    try:
        model.set_attn_implementation("eager")
        yield
    finally:
        for config, how in before:  # the outer one first: it hands its word down to the inner ones
            setattr(config, ATTENTION, how)

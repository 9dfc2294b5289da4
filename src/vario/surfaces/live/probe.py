"""How widely the model's attention is spread, measured on a fixed batch every so many steps: asked for, never by itself."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

EVERY = 10
BUDGET = 0.005
"""Share of the time between two probes that a probe may take: half a percent."""
MOST_SEQUENCES = 4
MOST_TOKENS = 128
"""Attention of one sequence takes layers x heads x tokens x tokens values: 32 MiB in bfloat16 at 32 x 32 x 128 x 128."""
FAILURES = 3
"""A probe that failed so often in a row is left off."""
FEWEST_EVERY = 1_000_000
"""Steps between probes beyond which there is none: attention of this model costs too much."""
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
            each the first 128 tokens.
        every: steps between probes, at least. It doubles where a probe takes more than `budget` of the time since the
            one before.
        budget: that share of the time.

    Attributes:
        seconds: what the probes have cost so far. runs: how many there were. every: steps between them, as it stands.
    """

    def __init__(self, model: Any, batch: Mapping[str, Any], every: int = EVERY, *, budget: float = BUDGET) -> None:
        self.troubles: Counter[str] = Counter()
        self.seconds = 0.0
        self.runs = 0
        self.every = max(1, int(every))
        self._budget = budget
        self._failed = 0
        self._last: int | None = None
        self._last_cost = 0.0
        self._last_end = 0.0
        self._off = False
        self._model = model
        self._body: Any = None
        self._batch: list[tuple[Any, Any]] = []
        try:
            self._batch = list(_sequences(batch))
            self._body = _body(model)
            if (why := _split(self._body)) is not None:
                self._leave_off(why)
        except Exception as error:  # whatever is handed over: the training goes on unprobed
            self._leave_off(f"{type(error).__name__}: {error}")

    def __call__(self, step: int) -> dict[str, float]:
        """Probe where it is due: `vario/attention_entropy/mean` over the layers and `…/min` of the narrowest, in nats."""
        if self._off or (self._last is not None and 0 <= step - self._last < self.every):
            return {}
        if self._last is not None and self._last_cost > self._budget * (time.perf_counter() - self._last_end):
            self._last = step
            self.every *= 2
            self.troubles["attention entropy is measured less often: it took more than its share of the time"] += 1
            if self.every > FEWEST_EVERY:
                self._leave_off("it costs too much on this model")
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
        self._last, self._last_end = step, time.perf_counter()
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

        sums: list[Any] = []
        tokens = 0
        with _as_it_was(self._body), torch.no_grad():
            device = next(self._body.parameters()).device
            for ids, mask in self._batch:
                ids, mask = ids.to(device), mask.to(device)
                said = self._body(
                    input_ids=ids, attention_mask=mask, output_attentions=True, use_cache=False, return_dict=True
                )
                layers = [weights for weights in (said.attentions or ()) if weights is not None]
                if not layers:
                    raise NoAttention("the model gives no attention weights, with eager attention neither")
                each = [_entropy(weights, mask) for weights in layers]
                sums = [a + b for a, b in zip(sums, each, strict=True)] if sums else each
                tokens += int(mask.sum())
            return [float(value) for value in (torch.stack(sums) / tokens).tolist()]


class NoAttention(Exception):
    """A model whose attention weights cannot be had."""


def _sequences(batch: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """The batch, one sequence at a time: attention then takes a quarter of the memory."""
    import torch

    ids = torch.as_tensor(batch["input_ids"])[:MOST_SEQUENCES]
    mask = batch.get("attention_mask")
    mask = torch.ones_like(ids) if mask is None else torch.as_tensor(mask)[:MOST_SEQUENCES]
    for row, kept in zip(ids, mask, strict=True):
        # padding is cut off first: of a sequence that is padded on the left nothing else might be left
        row, kept = row[kept.bool()][:MOST_TOKENS], kept[kept.bool()][:MOST_TOKENS]
        if row.numel():
            yield row.detach().clone().unsqueeze(0), kept.detach().clone().long().unsqueeze(0)


def _entropy(weights: Any, mask: Any) -> Any:
    """Entropy of one layer, summed over tokens and averaged over heads; `weights` of shape (1, heads, tokens, tokens)."""
    import torch

    p = weights.detach().float()
    return torch.special.entr(p).sum(dim=-1).mean(dim=1)[mask.bool()].sum().cpu()


def _body(model: Any) -> Any:
    """The transformer itself: no wrapper around it, and no head behind it whose logits would take more than attention."""
    while (inner := getattr(model, "_orig_mod", None)) is not None or _wraps(model):
        model = inner if inner is not None else model.module
    if hasattr(model, "peft_config") and hasattr(model, "get_base_model"):
        model = model.get_base_model()  # its adapters are inside
    return getattr(model, "base_model", model)


def _wraps(model: Any) -> bool:
    """Whether it is a wrapper that keeps the model as `module` (DDP, DeepSpeed's engine)."""
    return not hasattr(model, "base_model") and hasattr(model, "module")


def _split(model: Any) -> str | None:
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
def _as_it_was(model: Any) -> Iterator[None]:
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
def _eager(model: Any) -> Iterator[None]:
    """Attention that is computed with its weights, as it was before behind it."""
    config = getattr(model, "config", None)
    before = getattr(config, "_attn_implementation", None)
    if before in (None, "eager") or not hasattr(model, "set_attn_implementation"):
        yield
        return
    try:
        model.set_attn_implementation("eager")
        yield
    finally:
        with suppress(Exception):
            model.set_attn_implementation(before)

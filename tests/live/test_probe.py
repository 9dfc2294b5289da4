"""The probe of attention entropy on real models of transformers: right, without a trace, and within its budget."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from vario.surfaces.live import probe as module  # noqa: E402
from vario.surfaces.live.probe import FAILURES, MOST_SEQUENCES, MOST_TOKENS, AttentionProbe  # noqa: E402

VOCABULARY, HEADS, LAYERS = 64, 4, 3
MEAN, LEAST = "vario/attention_entropy/mean", "vario/attention_entropy/min"
ALL_TIME = 1e9
"""A budget that no probe exceeds."""


def llama(attention: str = "sdpa", seed: int = 0, dropout: float = 0.1) -> Any:
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        attention_dropout=dropout,
        max_position_embeddings=256,
        attn_implementation=attention,
    )
    made = transformers.LlamaForCausalLM(config)
    for name, weight in made.named_parameters():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            weight.data.mul_(20.0)  # as initialised, attention is even and every entropy the logarithm of a count
    return made.train()


def some(sequences: int = 2, tokens: int = 12, seed: int = 1) -> dict[str, Any]:
    made = torch.Generator().manual_seed(seed)
    return {"input_ids": torch.randint(0, VOCABULARY, (sequences, tokens), generator=made)}


def by_hand(model: Any, ids: Any) -> list[float]:
    """Entropy of each layer from queries and keys, without the model's own attention."""
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    kept: dict[int, list[Any]] = {i: [] for i in range(LAYERS)}
    hooks = [
        layer.self_attn.register_forward_hook(
            lambda _m, _a, kwargs, _o, i=i: kept[i].extend((kwargs["hidden_states"], kwargs["position_embeddings"])),
            with_kwargs=True,
        )
        for i, layer in enumerate(model.model.layers)
    ]
    model.eval()
    with torch.no_grad():
        model(input_ids=ids)
    model.train()
    for hook in hooks:
        hook.remove()
    found = []
    for i, layer in enumerate(model.model.layers):
        hidden, (cos, sin) = kept[i]
        here = layer.self_attn
        shape = (*hidden.shape[:-1], -1, here.head_dim)
        with torch.no_grad():
            query = here.q_proj(hidden).view(shape).transpose(1, 2)
            key = here.k_proj(hidden).view(shape).transpose(1, 2)
            query, key = apply_rotary_pos_emb(query, key, cos, sin)
        q = query.numpy().astype(np.float64)
        k = np.repeat(key.numpy().astype(np.float64), HEADS // 2, axis=1)
        entropies = []
        for b in range(q.shape[0]):
            for h in range(HEADS):
                for t in range(q.shape[2]):
                    logits = k[b, h, : t + 1] @ q[b, h, t] * here.head_dim**-0.5
                    p = np.exp(logits - logits.max())
                    p /= p.sum()
                    entropies.append(-sum(x * np.log(x) for x in p if x > 0.0))
        found.append(float(np.mean(entropies)))
    return found


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_entropy_is_that_of_a_hand_computation(attention: str) -> None:
    model, batch = llama(attention), some()
    layers = by_hand(model, batch["input_ids"])
    found = AttentionProbe(model, batch)(1)
    assert found == {MEAN: pytest.approx(np.mean(layers), rel=1e-4), LEAST: pytest.approx(min(layers), rel=1e-4)}
    assert max(layers) - min(layers) > 0.01
    even = np.mean([np.log(t) for t in range(1, 13)])
    assert found[MEAN] < 0.98 * even


def test_even_attention_has_the_entropy_of_its_tokens() -> None:
    model = llama()
    for name, weight in model.named_parameters():
        if name.endswith("q_proj.weight"):
            weight.data.zero_()
    found = AttentionProbe(model, some(tokens=20))(1)
    even = np.mean([np.log(t) for t in range(1, 21)])
    assert found == {MEAN: pytest.approx(even, rel=1e-5), LEAST: pytest.approx(even, rel=1e-5)}


def test_attention_that_narrows_is_seen() -> None:
    model = llama()
    probe = AttentionProbe(model, some(), every=1, budget=ALL_TIME)
    before = probe(1)
    model.model.layers[1].self_attn.q_proj.weight.data.mul_(30.0)
    after = probe(2)
    assert after[LEAST] < 0.5 * before[LEAST]
    assert after[MEAN] < before[MEAN]


def test_padding_on_either_side_counts_nothing() -> None:
    model, ids = llama(), some(1, 9)["input_ids"]
    bare = AttentionProbe(model, {"input_ids": ids})(1)
    for left in (0, 5):
        padded = torch.full((2, 14), 7)
        padded[0, left : left + 9] = ids[0]
        mask = torch.zeros_like(padded)
        mask[0, left : left + 9] = 1
        assert AttentionProbe(model, {"input_ids": padded, "attention_mask": mask})(1) == pytest.approx(bare, rel=1e-5)


def test_the_batch_is_bounded() -> None:
    probe = AttentionProbe(llama(), some(MOST_SEQUENCES + 3, MOST_TOKENS + 50))
    assert [tuple(ids.shape) for ids in probe._batch] == [(1, MOST_TOKENS)] * MOST_SEQUENCES
    assert probe(1)


def test_the_batch_is_the_probe_s_own() -> None:
    model, batch = llama(), some()
    probe = AttentionProbe(model, batch, every=1, budget=ALL_TIME)
    before = probe(1)
    batch["input_ids"].fill_(3)
    assert probe(2) == before


# no trace


def train(probed: bool, steps: int = 6) -> tuple[dict[str, Any], Any, list[float]]:
    """A training with dropout, momentum and random data: whatever the probe disturbed would show in the weights."""
    random.seed(3)
    np.random.seed(3)
    model = llama(seed=3, dropout=0.3)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    probe = AttentionProbe(model, some(seed=9), every=1, budget=ALL_TIME) if probed else None
    losses = []
    for step in range(steps):
        ids = torch.randint(0, VOCABULARY, (2, 10))
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        if probe is not None and step % 2:
            assert probe(step)  # between backward and step: gradients stand
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(loss.detach()) + random.random() + float(np.random.rand()))
        if probe is not None:
            assert probe(step + 1000)
    return model.state_dict(), torch.get_rng_state(), losses


def test_training_with_it_is_bit_for_bit_the_same() -> None:
    weights, state, losses = train(probed=False)
    again, its_state, its_losses = train(probed=True)
    assert weights.keys() == again.keys()
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    assert torch.equal(state, its_state)
    assert losses == its_losses


def test_modes_attention_and_gradients_are_as_before() -> None:
    model = llama("sdpa")
    model.model.layers[1].eval()  # frozen by the user
    modes = {name: part.training for name, part in model.named_modules()}
    model(**some(), labels=some()["input_ids"]).loss.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    seen = []
    hook = model.model.layers[0].self_attn.register_forward_hook(
        lambda part, _a, _o: seen.append((part.training, part.config._attn_implementation, torch.is_grad_enabled()))
    )
    assert AttentionProbe(model, some())(1)
    hook.remove()
    assert set(seen) == {(False, "eager", False)}
    assert modes == {name: part.training for name, part in model.named_modules()}
    assert model.config._attn_implementation == "sdpa"
    assert model.model.config._attn_implementation == "sdpa"
    assert all(torch.equal(p.grad, gradients[name]) for name, p in model.named_parameters())


def test_they_are_as_before_when_the_model_raises_too() -> None:
    model = llama("sdpa")

    def broken(*_: object) -> None:
        raise RuntimeError("out of memory")

    hook = model.model.layers[2].register_forward_hook(broken)
    probe = AttentionProbe(model, some(), every=1, budget=ALL_TIME)
    state = torch.get_rng_state()
    for step in range(FAILURES + 3):
        assert probe(step) == {}
    assert model.config._attn_implementation == "sdpa"
    assert all(part.training for part in model.modules())
    assert torch.equal(state, torch.get_rng_state())
    assert probe.troubles["attention entropy could not be measured (RuntimeError: out of memory)"] == FAILURES
    hook.remove()
    assert probe(100) == {}  # left off for good
    assert probe.runs == 0


def test_parts_with_an_attention_of_their_own_keep_it() -> None:
    """A model of text inside one of several kinds: its settings are its own."""
    inner = llama("sdpa")
    outer = llama("eager", seed=1)
    outer.model.other = inner
    assert AttentionProbe(outer, some())(1)
    assert (outer.config._attn_implementation, inner.config._attn_implementation) == ("eager", "sdpa")


# models in wrappers, and models that cannot be probed


def test_the_body_is_probed_and_no_logits_are_made() -> None:
    model = llama()
    heads: list[int] = []
    hook = model.lm_head.register_forward_hook(lambda *_: heads.append(1))
    assert AttentionProbe(model, some())(1)
    hook.remove()
    assert heads == []


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A group of one process."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_a_model_that_is_distributed_is_probed_without_its_wrapper() -> None:
    model = llama()
    bare = AttentionProbe(model, some())(1)
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    assert AttentionProbe(wrapped, some())(1) == bare


def test_a_compiled_model_is_probed_as_it_was_written() -> None:
    model = llama()
    bare = AttentionProbe(model, some())(1)
    assert AttentionProbe(torch.compile(model, backend="eager"), some())(1) == bare


def test_a_model_with_adapters_is_probed_with_them() -> None:
    peft = pytest.importorskip("peft")
    model = llama()
    bare = AttentionProbe(model, some())(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # what one of the two libraries calls and the other gives up
        adapted = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False))
    with_them = AttentionProbe(adapted, some())(1)
    assert with_them.keys() == bare.keys()
    assert with_them[MEAN] != pytest.approx(bare[MEAN], rel=1e-6)
    with adapted.disable_adapter():
        assert AttentionProbe(adapted, some())(1)[MEAN] == pytest.approx(bare[MEAN], rel=1e-5)


def spread(model: Any) -> None:
    model.model.embed_tokens.weight.ds_id = 0


def gathered_elsewhere(model: Any) -> None:
    class FSDPLlamaDecoderLayer(torch.nn.Module):
        pass

    model.model.layers.append(FSDPLlamaDecoderLayer())


def not_there(model: Any) -> None:
    model.to("meta")


@pytest.mark.parametrize("how", [spread, gathered_elsewhere, not_there])
def test_weights_that_are_not_all_here_are_not_probed(how: Callable[[Any], None]) -> None:
    """A forward on one rank alone would wait for the others for ever. ZeRO 3 and FSDP are known by what they leave."""
    model = llama()
    how(model)
    probe = AttentionProbe(model, some(), every=1, budget=ALL_TIME)
    assert [probe(step) for step in range(3)] == [{}] * 3
    assert list(probe.troubles.values()) == [1]
    assert "attention entropy is not measured: the weights are" in next(iter(probe.troubles))


@pytest.mark.usefixtures("alone")
def test_weights_in_pieces_are_not_probed() -> None:
    """FSDP 2 as it is, on a group of one."""
    from torch.distributed.fsdp import fully_shard

    model = llama()
    try:
        fully_shard(model.model.layers[0])
    except Exception as error:
        pytest.skip(f"this torch shards nothing on a processor: {error}")
    probe = AttentionProbe(model, some())
    assert probe(1) == {}
    assert "FSDP" in next(iter(probe.troubles))


def test_a_model_without_attention_is_told_once() -> None:
    torch.manual_seed(0)
    config = transformers.MambaConfig(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=1, state_size=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        probe = AttentionProbe(transformers.MambaForCausalLM(config), some(), every=1, budget=ALL_TIME)
        assert [probe(step) for step in range(5)] == [{}] * 5
    assert any("attention" in trouble for trouble in probe.troubles)
    assert probe.runs == 0
    assert probe._off


@pytest.mark.parametrize(
    ("model", "batch"),
    [
        (None, some()),
        (torch.nn.Linear(2, 2), some()),
        ("llama", {}),
        ("llama", {"input_ids": "no tensor"}),
        ("llama", {"input_ids": torch.zeros((0, 0), dtype=torch.long)}),
        ("llama", {"input_ids": torch.full((1, 4), VOCABULARY + 5)}),
    ],
    ids=["no model", "another model", "no tokens", "no tensor", "an empty batch", "tokens beyond the vocabulary"],
)
def test_whatever_is_handed_over_nothing_is_raised(model: Any, batch: Any) -> None:
    probe = AttentionProbe(llama() if model == "llama" else model, batch, every=1, budget=ALL_TIME)
    assert [probe(step) for step in range(5)] == [{}] * 5
    assert probe.troubles
    assert probe.runs == 0


# how often, and what it costs


def test_it_probes_at_first_and_then_every_so_many_steps() -> None:
    probe = AttentionProbe(llama(), some(), every=4, budget=ALL_TIME)
    assert [step for step in range(3, 20) if probe(step)] == [3, 7, 11, 15, 19]
    assert probe.runs == 5
    assert not probe.troubles
    assert probe(5)  # a resume from an earlier checkpoint


def test_its_cost_is_counted() -> None:
    probe = AttentionProbe(llama(), some(), every=1, budget=ALL_TIME)
    began = time.perf_counter()
    probe(1)
    once = probe.seconds
    probe(2)
    assert 0.0 < once < probe.seconds <= time.perf_counter() - began


def test_beyond_its_budget_it_probes_less_often_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps take a second and a probe 90 ms: half a percent of the time allows one in eighteen of them."""
    now = 0.0
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now))
    probe = AttentionProbe(llama(), some(), every=5)

    def slow() -> list[float]:
        nonlocal now
        now += 0.09
        return [1.0, 2.0]

    monkeypatch.setattr(probe, "_measure", slow)
    done = []
    for step in range(400):
        now += 1.0
        if probe(step):
            done.append(step)
    assert done == list(range(0, 400, 20))
    assert probe.seconds == pytest.approx(0.09 * len(done))
    assert probe.seconds / now <= 0.005 * 21 / 20  # the first one stands before any time has passed
    assert list(probe.troubles.values()) == [1]
    assert "less often" in next(iter(probe.troubles))


def test_a_slow_first_probe_is_not_held_against_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one loads kernels: 2 s and not 10 ms."""
    now = 0.0
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now))
    probe = AttentionProbe(llama(), some(), every=5)
    costs = iter([2.0])

    def slow_once() -> list[float]:
        nonlocal now
        now += next(costs, 0.01)
        return [1.0]

    monkeypatch.setattr(probe, "_measure", slow_once)
    done = []
    for step in range(800):
        now += 1.0
        if probe(step):
            done.append(step)
    assert done[:4] == [0, 640, 645, 650]
    assert probe.every == 5

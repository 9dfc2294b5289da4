"""Dialects: one file per framework. First that recognises the keys wins; generic stands last.

Forks stand before the framework they were forked from.
"""

from __future__ import annotations

from vario.sources.dialects import (
    areal,
    art,
    axolotl,
    deepspeed_chat,
    generic,
    llama_factory,
    ms_swift,
    nemo_rl,
    open_instruct,
    openrlhf,
    prime_rl,
    ragen,
    rllm,
    skyrl,
    slime,
    tinker,
    trl,
    trlx,
    unsloth,
    verl,
    verl_agent,
)
from vario.sources.dialects.base import Dialect

DIALECTS: tuple[Dialect, ...] = (
    ragen.DIALECT,
    verl_agent.DIALECT,
    rllm.DIALECT,
    verl.DIALECT,
    nemo_rl.DIALECT,
    skyrl.DIALECT,
    slime.DIALECT,
    ms_swift.DIALECT,
    art.DIALECT,
    tinker.DIALECT,
    trlx.DIALECT,
    prime_rl.DIALECT,
    open_instruct.DIALECT,
    areal.DIALECT,
    openrlhf.DIALECT,
    deepspeed_chat.DIALECT,
    llama_factory.DIALECT,
    axolotl.DIALECT,
    unsloth.DIALECT,
    trl.DIALECT,
    generic.DIALECT,
)

"""The KL family on real logs."""

from __future__ import annotations

from tests.real import OnRealLog, after

REAL = (
    OnRealLog(
        "kl-spike",
        "fires",
        "golden/grpo-healthy-kl",
        "injected",
        "one batch on which the policy lies far from its reference",
        {"kl": after(100, lambda v: [*v[:1] * 40.0, *v[1:]])},
    ),
    OnRealLog("kl-spike", "clear", "golden/grpo-healthy-kl", "recorded", "KL that climbs with the reward"),
)

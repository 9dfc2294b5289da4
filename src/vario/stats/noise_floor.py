"""How much of a reward's movement is sampling noise.

Standard error of a mean over B prompts x G completions with intra-prompt correlation ICC:
SE = sd / sqrt(B G) * sqrt(1 + (G - 1) ICC). Where only mean, G and the share of groups without
spread are known and rewards are 0/1, the ICC follows from a Beta model of prompt difficulty.
"""

from __future__ import annotations

import math


def standard_error(sd: float, prompts: float, group: float, icc: float) -> float:
    """Standard error of the batch mean; `icc` between 0 and 1."""
    return sd / math.sqrt(prompts * group) * math.sqrt(1.0 + (group - 1.0) * min(max(icc, 0.0), 1.0))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def zero_share(mean: float, concentration: float, group: int) -> float:
    """Expected share of groups without spread for 0/1 rewards with Beta(mk, (1-m)k) difficulty."""
    a, b = mean * concentration, (1.0 - mean) * concentration
    base = _log_beta(a, b)
    return math.exp(_log_beta(a + group, b) - base) + math.exp(_log_beta(a, b + group) - base)


def icc_from_zero_share(mean: float, share: float, group: int) -> float | None:
    """ICC that explains the observed share of groups without spread; None outside (0, 1) means."""
    if not (0.0 < mean < 1.0) or group < 2:
        return None
    low, high = math.log(1e-3), math.log(1e4)
    for _ in range(60):
        middle = 0.5 * (low + high)
        if zero_share(mean, math.exp(middle), group) > share:
            low = middle
        else:
            high = middle
    return 1.0 / (1.0 + math.exp(0.5 * (low + high)))

"""What may be shown of a completion: no secrets, no control of the terminal, and not without end."""

from __future__ import annotations

import re

from vario.surfaces.cli.spark import safe

MASK = "[masked]"
SECRETS = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    re.compile(r"\b(?:sk|pk|rk)[-_](?:[A-Za-z]+[-_])*[A-Za-z0-9_-]{16,}"),
    re.compile(r"\bhf_[A-Za-z0-9]{16,}"),
    re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})"),
    re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(r"\bAIza[0-9A-Za-z_-]{30,}"),
    re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    re.compile(r"(?<=://)[^\s/:@]+:[^\s/@]+(?=@)"),
    re.compile(r"(?i)(?<=bearer )[A-Za-z0-9._~+/-]{16,}=*"),
)
"""Keys as their issuers write them: model and code hosts, clouds, chats, tokens and keys of their own."""
NAMED = re.compile(
    r"(?i)\b([a-z0-9_]*(?:api[_-]?key|secret|token|passwd|password)[a-z0-9_]*[\"']?\s*[=:]\s*[\"']?)([^\s\"',;]{8,})"
)
"""Whatever stands behind a name of a secret."""
SHOWN = 1_200
"""Characters of a text that are shown unless all are wished: head and tail, where loops and answers are."""
MOST = 200_000
"""Characters of one text that any report carries."""


def masked(text: str) -> str:
    """The text without what looks like a key."""
    for pattern in SECRETS:
        text = pattern.sub(MASK, text)
    return NAMED.sub(lambda m: m[1] + MASK, text)


def shown(text: str, *, whole: bool = False) -> str:
    """The text as it may be shown: masked, without control characters but line ends, and cut in its middle."""
    most = MOST if whole else SHOWN
    if len(text) > most:  # cut first: a key that the cut divides is masked by its beginning or not shown at all
        head, tail = text[: 2 * most // 3], text[-most // 3 :]
        left_out = len(text) - len(head) - len(tail)
        return f"{_clean(head)}\n[... {left_out} characters left out ...]\n{_clean(tail)}"
    return _clean(text)


def _clean(text: str) -> str:
    return "\n".join(safe(line) for line in masked(text).expandtabs(4).splitlines())

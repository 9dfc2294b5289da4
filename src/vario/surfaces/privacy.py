"""What may be shown of a completion: no secrets, no control of the terminal, and not without end."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

MASK = "[masked]"
SECRETS = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    # sixteen characters in a row, or capitals and digits among them: `pk_user_account_settings` is a column
    re.compile(
        r"\b(?:sk|pk|rk)[-_](?:(?:[A-Za-z0-9]{1,16}[-_]){0,8}[A-Za-z0-9]{16,}|(?=[a-z_-]{0,64}[A-Z0-9])[A-Za-z0-9_-]{16,})"
        r"[A-Za-z0-9_-]*"
    ),
    re.compile(r"\bhf_[A-Za-z0-9]{16,}"),
    re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})"),
    re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(r"\bAIza[0-9A-Za-z_-]{30,}"),
    re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    re.compile(r"(?<=://)[^\s/:@]+:[^\s/@]+(?=@)"),
    re.compile(r"(?i)(?<=bearer )(?=\S*\d)[A-Za-z0-9._~+/-]{16,}=*"),
)
"""Keys as their issuers write them: model and code hosts, clouds, chats, tokens and keys of their own."""
NAMED = re.compile(
    r"(?i)((?:api[_-]?key|secret|token(?!s|i[sz])|passwd|password)[a-z0-9_]{0,64}[\"']?\s{0,8}[=:](?!=)\s{0,8})([\"']?)"
    r"([^\s\"',;]{8,})"
)
"""What stands behind a name of a secret; whether it is one, `_named` tells."""
CODE = re.compile(r"[()\[\]{}]")
SHOWN = 1_200
"""Characters of a text that are shown unless all are wished: head and tail, where loops and answers are."""
MOST = 200_000
"""Characters of one text that any report carries."""
OVERLAP = 8_192
"""Characters beyond a cut that are looked at, so that no key is divided by it."""


def safe(text: str) -> str:
    """Text from a log, without control characters: a log must not be able to drive a terminal."""
    return "".join(c if unicodedata.category(c)[0] != "C" else "?" for c in text)


def masked(text: str) -> str:
    """The text without what looks like a key."""
    for pattern in SECRETS:
        text = pattern.sub(MASK, text)
    return NAMED.sub(_named, text)


def _named(found: re.Match[str]) -> str:
    """A text in quotes, a setting of the environment, or a word with digits: not a sentence, and no call."""
    name, quote, value = found.groups()
    digits = any(c.isdigit() for c in value)
    if quote:
        secret = digits or "token" not in name.lower()
    else:
        secret = (digits and not CODE.search(value)) or (name.isupper() and name.endswith("="))
    return f"{name}{quote}{MASK}" if secret else found[0]


def masked_tokens(tokens: Sequence[object]) -> list[object]:
    """The tokens of a text, without those that a key lies in: it is divided among them."""
    texts = [token if isinstance(token, str) else "" for token in tokens]
    whole = "".join(texts)
    hidden = [found.span() for pattern in SECRETS for found in pattern.finditer(whole)]
    hidden += [found.span(3) for found in NAMED.finditer(whole) if _named(found) != found[0]]
    made: list[object] = list(tokens)
    end = 0
    for i, text in enumerate(texts):
        start, end = end, end + len(text)
        if any(start < last and first < end for first, last in hidden):
            made[i] = MASK
    return made


def head_of(text: str, most: int = MOST) -> str:
    """The first characters of a text, masked."""
    return masked(text[: most + OVERLAP])[:most]


def shown(text: str, *, whole: bool = False) -> str:
    """The text as it may be shown: masked, without control characters but line ends, and cut in its middle."""
    most = MOST if whole else SHOWN
    if len(text) > most:
        first, last = 2 * most // 3, most - 2 * most // 3
        head, tail = head_of(text, first), masked(text[-last - OVERLAP :])[-last:]
        return f"{_clean(head)}\n[... {len(text) - most} characters left out ...]\n{_clean(tail)}"
    return _clean(masked(text))


def _clean(text: str) -> str:
    return "\n".join(safe(line) for line in text.expandtabs(4).splitlines())

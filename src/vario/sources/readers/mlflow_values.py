"""What MLflow writes as text: parameters with their types lost."""

from __future__ import annotations

import json


def setting(key: str, text: str) -> tuple[str, object]:
    """A parameter's name in dots, and its value with the type that it had."""
    words: dict[str, object] = {"True": True, "False": False, "None": None}
    if text in words:
        return key.replace("/", "."), words[text]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return key.replace("/", "."), text
    return key.replace("/", "."), value

"""Settings as a piece of configuration that can be pasted, in the way the framework is configured."""

from __future__ import annotations

import json
from collections.abc import Mapping

from vario.run import Setting

STYLES = ("yaml", "toml", "overrides", "flags", "dashed-flags", "keywords")
"""`overrides`: `a.b=c` on a command line; `flags`: `--a.b c`; `keywords`: arguments of a Python call."""


def patch(settings: Mapping[str, Setting], style: str) -> str:
    """Write settings down.

    Args:
        settings: the framework's own keys, dots between levels.
        style: one of STYLES.
    """
    if style == "yaml":
        return "\n".join(_yaml(_nested(settings), ""))
    if style == "toml":
        return "\n".join(_toml(settings))
    if style == "keywords":
        return "\n".join(f"{key} = {value!r}," for key, value in settings.items()).replace(" = ", "=")
    if style in ("flags", "dashed-flags"):
        dashed = style == "dashed-flags"
        return " ".join(
            f"--{key.replace('_', '-') if dashed else key} {_word(value)}" for key, value in settings.items()
        )
    return " ".join(f"{key}={_word(value)}" for key, value in settings.items())


def _word(value: Setting) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


Tree = dict[str, "Setting | Tree"]


def _nested(settings: Mapping[str, Setting]) -> Tree:
    tree: Tree = {}
    for key, value in settings.items():
        *parts, last = key.split(".")
        place = tree
        for part in parts:
            below = place.setdefault(part, {})
            if not isinstance(below, dict):
                below = place[part] = {}
            place = below
        place[last] = value
    return tree


def _yaml(tree: Tree, indent: str) -> list[str]:
    lines = []
    for key, value in tree.items():
        if isinstance(value, dict):
            lines += [f"{indent}{key}:", *_yaml(value, indent + "  ")]
        else:
            lines.append(f"{indent}{key}: {json.dumps(value) if isinstance(value, str) else _word(value)}")
    return lines


def _toml(settings: Mapping[str, Setting]) -> list[str]:
    tables: dict[str, list[str]] = {}
    for key, value in settings.items():
        table, _, name = key.rpartition(".")
        tables.setdefault(table, []).append(f"{name} = {json.dumps(value) if isinstance(value, str) else _word(value)}")
    lines = []
    for table, entries in tables.items():
        lines += ([f"[{table}]"] if table else []) + entries
    return lines

"""Settings as a piece of configuration that can be pasted, in the way the framework is configured."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from vario.run import Setting

STYLES = ("yaml", "toml", "overrides", "flags", "dashed-flags", "keywords")
"""`overrides`: `a.b=c` on a command line; `flags`: `--a.b c`; `keywords`: arguments of a Python call.

Values come from somebody's log: what goes to a shell is quoted for it, so that pasting it runs nothing.
"""


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
        return "\n".join(f"{key}={value!r}," for key, value in settings.items())
    if style in ("flags", "dashed-flags"):
        dashed = style == "dashed-flags"
        return " ".join(_flag(key.replace("_", "-") if dashed else key, value) for key, value in settings.items())
    return " ".join(f"{key}={shlex.quote(_word(value))}" for key, value in settings.items())


def _flag(key: str, value: Setting) -> str:
    """A switch is put on by its name alone, which every parser of arguments takes."""
    return f"--{key}" if value is True else f"--{key} {shlex.quote(_word(value))}"


def _word(value: Setting) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _float(value) if isinstance(value, float) else str(value)


def _float(value: float) -> str:
    """As people write it, without the loss of a digit: 2e-06, 0.5, 2."""
    text = f"{value:g}"
    return text if float(text) == value else repr(value)


def _quoted(text: str) -> str:
    """A string in double quotes that YAML and TOML read alike: what cannot be printed is written by its number."""
    return "".join(
        c if c.isprintable() else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"
        for c in json.dumps(text, ensure_ascii=False)
    )


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
            lines.append(f"{indent}{key}: {_yaml_value(value)}")
    return lines


def _yaml_value(value: Setting) -> str:
    if isinstance(value, str):
        return _quoted(value)
    text = _word(value)
    # YAML 1.1 takes 2e-06 for a word: a number has a point
    return text.replace("e", ".0e", 1) if isinstance(value, float) and "e" in text and "." not in text else text


def _toml(settings: Mapping[str, Setting]) -> list[str]:
    tables: dict[str, list[str]] = {}
    for key, value in settings.items():
        table, _, name = key.rpartition(".")
        if value is None:
            entry = f"# {name}: leave it out"  # TOML has no null
        else:
            entry = f"{name} = {_quoted(value) if isinstance(value, str) else _word(value)}"
        tables.setdefault(table, []).append(entry)
    lines = []
    # what belongs to no table stands before the first of them
    for table, entries in sorted(tables.items(), key=lambda item: bool(item[0])):
        lines += ([f"[{table}]"] if table else []) + entries
    return lines

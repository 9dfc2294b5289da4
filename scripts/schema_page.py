"""The page of the JSON documents: their schemas as tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from page_parts import MADE, ROOT, table

FOLDER = "src/vario/schemas"
Node = Mapping[str, Any]
ORDER = ("diagnosis-v1", "fleet-v1", "compare-v1", "metrics-v1", "known-v1", "samples-v1", "rule-v1", "watch-v1", "baseline-v1", "annotate-v1", "alert-v1", "act-v1")
"""Those that are asked for most come first; others follow by name."""


def schemas() -> dict[str, Node]:
    """Every schema by the name of its file."""
    found = {p.stem: json.loads(p.read_text(encoding="utf-8")) for p in (ROOT / FOLDER).glob("*.json")}
    return {name: found[name] for name in sorted(found, key=lambda n: (ORDER.index(n) if n in ORDER else len(ORDER), n))}


def schema_page() -> str:
    """A table of each; parts that stand in several places have a table of their own."""
    found = schemas()
    lines = [
        MADE,
        "",
        "# Schemas",
        "",
        "Every JSON document that vario writes. Fields may be added; what stands here stays. The JSON Schema files (draft",
        "2020-12) are installed with the package, in `vario/schemas/`; tests hold real output against each of them.",
        "",
        "`[]` is each item of a list, `*` each name of a mapping. Numbers that are not finite are `null`. What is *not always*",
        "there can be absent.",
        "",
        *table(("document", "is"), ((f"[{_title(s)}](#{_anchor(_title(s))})", s["description"].split(" Fields may")[0]) for s in found.values())),
    ]
    for schema in found.values():
        lines += ["", f"## {_title(schema)}", "", schema["description"].split(" Fields may")[0], "", f"`{FOLDER}/{schema['$id']}`"]
        shapes = schema.get("oneOf", (schema,))
        for number, shape in enumerate(shapes, 1):
            if len(shapes) > 1:
                lines += ["", f"Shape {number} of {len(shapes)}:"]
            lines += ["", *_table(shape, schema)]
        for name, part in schema.get("$defs", {}).items():
            lines += ["", f"### {_part(schema, name)}", "", *_table(part, schema)]
    return "\n".join(lines) + "\n"


def _title(schema: Node) -> str:
    return schema["title"].removeprefix("vario ")


def _part(schema: Node, name: str) -> str:
    return f"{name} of {_title(schema)}"


def _anchor(title: str) -> str:
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _table(node: Node, schema: Node) -> Iterator[str]:
    rows = list(_rows(node, schema, ""))
    for one in node.get("allOf", ()):
        yield f"All of {_kind(one, schema)}, and:"
        yield ""
    yield from table(("field", "type", "always", "meaning"), rows)


def _rows(node: Node, schema: Node, path: str) -> Iterator[tuple[str, str, str, str]]:
    for key, below in node.get("properties", {}).items():
        name = f"{path}.{key}" if path else key
        always = "yes" if key in node.get("required", ()) else "not always"
        yield f"`{name}`", _kind(below, schema), always, below.get("description", "")
        yield from _below(below, schema, name)


def _below(node: Node, schema: Node, path: str) -> Iterator[tuple[str, str, str, str]]:
    """The fields of an object, of a list's items, of what a mapping holds."""
    for one in (node, *node.get("anyOf", ())):
        yield from _rows(one, schema, path)
        for word, mark in (("items", "[]"), ("additionalProperties", ".*")):
            if isinstance(inner := one.get(word), dict) and "$ref" not in inner:
                yield from _below(inner, schema, f"{path}{mark}")


def _kind(node: Node, schema: Node) -> str:
    """A type in words."""
    if ref := node.get("$ref"):
        return _linked(ref, schema)
    if "const" in node:
        return f"`{node['const']}`"
    if "enum" in node:
        return ", ".join(f"`{word}`" for word in node["enum"])
    if "anyOf" in node:
        return " or ".join(_kind(one, schema) for one in node["anyOf"])
    if "allOf" in node:
        return " and more, ".join(_kind(one, schema) for one in node["allOf"])
    types = node.get("type", "any")
    words = types if isinstance(types, list) else [types]
    return " or ".join(_word(word, node, schema) for word in words)


def _word(word: str, node: Node, schema: Node) -> str:
    if word == "array":
        inner = node.get("items")
        return f"list of {_kind(inner, schema)}" if inner else "list"
    if word == "object":
        inner = node.get("additionalProperties")
        return f"mapping to {_kind(inner, schema)}" if isinstance(inner, dict) and "properties" not in node else "object"
    return word


def _linked(ref: str, schema: Node) -> str:
    file, _, place = ref.partition("#/")
    if file:
        schema = schemas()[file.removesuffix(".json")]
    name = place.rsplit("/", 1)[-1] if place else _title(schema)
    title = _part(schema, name) if place else name
    return f"[{name}](#{_anchor(title)})"

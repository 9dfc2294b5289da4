"""What one line of a console log says: the ways in which trainers print numbers."""

from __future__ import annotations

import ast
import json
import re
from typing import NamedTuple

MAX_DICT = 1 << 16
"""A longer dict on a line is no row of metrics (characters)."""
MAX_PAIRS_LINE = 4000
"""A longer line of prose is not searched for pairs (characters)."""

ANSI = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
RAY = re.compile(rb"^\s*\(([^()\n]{0,80}?pid=\d+[^()\n]{0,60})\)\s?")
"""What Ray puts before a line of a worker."""
REPEATED = re.compile(rb"\s*\[repeated \d+x across cluster\]\s*$")

_NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|NaN|inf|Infinity)"
_WRAPPED = re.compile(r"(?:np\.|numpy\.)?(?:float|int|uint|bool_?)\d*\(([^()]*)\)|tensor\(([^()\[\]]*?)(?:,[^()]*)?\)")
_VECTOR = re.compile(r"tensor\(\[([^\[\]()]*)\][^()]*\)|(?:np\.)?array\(\[([^\[\]()]*)\][^()]*\)|\[([-+\d.,eE\s]+)\]")
_VALUE = re.compile(
    rf"\s?[:=]\s*(?P<value>{_NUMBER}|tensor\([^()]*\)|np\.\w+\([^()]*\)|\[[-+\d.,eE\s]+\])"
    r"(?:\s?(?:s|ms|sec|min|%|GB|GiB|MB|tokens/s|it/s|tok/s|tokens))?(?=$|[\s,;|)\]}!])"
)
_BEFORE_KEY = re.compile(r"[,;|\[\](){}<>\"'•]|\s{2,}|\s-\s|[:=]\s")
"""What a key stands behind."""
_KEY = re.compile(r"[A-Za-z_][\w./@%+-]*(?: [\w./@%+-]+){0,4}")
MAX_KEY = 64
_ELEMENT = re.compile(_NUMBER)
_PIPED = re.compile(rf"^(?P<key>[A-Za-z][\w .%/()-]*?)\s+(?P<value>{_NUMBER})(?:\s*[\w%/.]+)?$")
STEP = re.compile(
    r"(?i)(?:^|[\s\[(|>✨-])(?:global[ _]?step|train(?:ing)?[ _]?step|grpo[ _]?step|step|iteration|iter|update)\s*[:=#]?\s*"
    r"(\d+)(?:\s*/\s*(\d+))?"
)
_PROGRESS = re.compile(r"[\[(](\d+)/(\d+)[\])]")
_DICT_NAN = re.compile(r"(?<=[:\[, ])(nan|-?inf)(?=[,}\]\s])")
_LABEL = re.compile(r"([A-Za-z_][\w-]*(?: [A-Za-z_][\w-]*){0,2})[ _#]*(\d+)?(?:\s*/\s*\d+)?\s*[:=]?\s*$")
_CELL_KEY = re.compile(r"^[A-Za-z_][\w./@ -]*$")


_FLAT_DICT = re.compile(r"\{['\"][^{}]*\}")


class Said(NamedTuple):
    """Numbers of one line: whose they are, at which step if the line says so, and what they are."""

    stream: str
    step: int | None
    row: dict[str, object]


def plain_number(text: str) -> float | None:
    """A number as trainers print it: `1e-3`, `nan`, `np.float64(0.5)`, `tensor(0.5)`, `True`."""
    text = text.strip()
    try:
        return float(text)
    except ValueError:
        pass
    found = _WRAPPED.fullmatch(text)
    if found:
        return plain_number(found[1] or found[2] or "")
    return {"True": 1.0, "False": 0.0}.get(text)


def verl_line(line: str, whole: bool) -> Said | None:
    """`step:7 - actor/entropy:0.4 - actor/pg_loss:np.float64(-0.1) ...`."""
    start = line.find("step:")
    if start < 0 or (start and line[start - 1].isalnum()):
        return None
    head, _, rest = line[start:].partition(" - ")
    if not rest or not head[5:].strip().isdigit():
        return None
    parts = rest.split(" - ")
    row: dict[str, object] = {}
    for part in parts if whole else parts[:-1]:
        key, _, value = part.rpartition(":")
        try:
            row[key.strip()] = float(value)
        except ValueError:
            number = plain_number(value)
            if number is not None and key:
                row[key.strip()] = number
    return Said("step:", int(head[5:]), row) if row else None


def dicts_in(line: str) -> tuple[str, dict[str, object], str] | None:
    """The dicts printed on a line as one row, with what stands before the first and around the others."""
    start = min((at for opening in ("{'", '{"') if (at := line.find(opening)) >= 0), default=-1)
    end = line.rfind("}")
    if start < 0 or end <= start or end - start > MAX_DICT:
        return None
    found = as_dict(line[start : end + 1])
    if found is not None:
        return line[:start], found, line[:start]
    row: dict[str, object] = {}
    for piece in _FLAT_DICT.findall(line[start : end + 1])[:8]:
        row.update(as_dict(piece) or {})
    return (line[:start], row, line[:start] + _FLAT_DICT.sub(" ", line[start:])) if row else None


def as_dict(text: str) -> dict[str, object] | None:
    """A dict as JSON or as Python prints it; nothing in it is run."""
    for attempt in (text, text.replace("'", '"')):
        try:
            loaded = json.loads(attempt)
        except (ValueError, RecursionError):
            continue
        return _numbers(loaded) if isinstance(loaded, dict) else None
    cleaned = _WRAPPED.sub(lambda m: m[1] or m[2] or "None", text)
    cleaned = _VECTOR.sub("None", _DICT_NAN.sub(r"'\1'", cleaned))
    try:
        loaded = ast.literal_eval(cleaned)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return _numbers(loaded) if isinstance(loaded, dict) else None


def _numbers(loaded: dict[object, object]) -> dict[str, object]:
    return {k: v for k, v in loaded.items() if isinstance(k, str)}


def label_of(before: str) -> tuple[str, int | None]:
    """What is said before a dict: its words, and the step if they end in one."""
    tail = before[-80:].rstrip()
    tail = tail.rpartition("]")[2] if tail.endswith("]") else tail
    found = _LABEL.search(tail)
    if not found:
        return "", None
    words = found[1].lower().replace("_", " ")
    return words, int(found[2]) if found[2] else None


def pairs_in(line: str, whole: bool) -> dict[str, object]:
    """`key: 1.0, other=2` and the like; a vector counts by its mean, as `key/mean`."""
    row: dict[str, object] = {}
    line = line[:MAX_PAIRS_LINE]
    end, last = 0, ("", 0)
    for found in _VALUE.finditer(line):
        before = _BEFORE_KEY.split(line[max(end, found.start() - MAX_KEY) : found.start()])[-1].strip()
        end = found.end()
        if not _KEY.fullmatch(before):
            continue
        text = found["value"]
        last = (before, end)
        if "[" in text:
            vector = [v for v in map(plain_number, _ELEMENT.findall(text)) if v is not None]
            if vector:
                row[f"{before}/mean"] = sum(vector) / len(vector)
            continue
        number = plain_number(text)
        if number is not None:
            row[before] = number
    if not whole and last[1] >= len(line.rstrip()):
        row.pop(last[0], None)
        row.pop(f"{last[0]}/mean", None)
    return row


def piped_in(line: str) -> dict[str, object]:
    """`Step 12 | 1m 3s | Loss 0.0012 | Entropy 0.43`: names and numbers between bars."""
    row: dict[str, object] = {}
    for part in line.split(" | ")[1:]:
        found = _PIPED.match(part.strip())
        if found:
            row[found["key"]] = float(found["value"])
    return row


def step_in(line: str) -> int | None:
    """The step that a line names, else its place in the longest count it shows."""
    found = STEP.search(line)
    if found:
        return int(found[1])
    counts = [(int(m[2]), int(m[1])) for m in _PROGRESS.finditer(line)]
    counts = [c for c in counts if c[0] > 1]
    return max(counts)[1] if counts else None


def cells_in(line: str) -> dict[str, object]:
    """Key and number in neighbouring cells of a printed table."""
    cells = [c.strip() for c in re.split(r"[│┃|]", line) if c.strip()]
    row: dict[str, object] = {}
    for key, text in zip(cells[::2], cells[1::2], strict=False):
        number = plain_number(text)
        if number is None or not _CELL_KEY.match(key):
            return {}
        row[key] = number
    return row

"""What one line of a console log says: the ways in which trainers print numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import NamedTuple

from vario.sources.fast_json import loads

MAX_DICT = 1 << 16
"""A longer dict on a line is no row of metrics (characters)."""
MAX_PAIRS_LINE = 4000
"""A longer line of prose is not searched for pairs (characters)."""
MAX_KEY = 64
MAX_DICTS = 8
"""A line with more dicts is data."""
MAX_TEXT = 40
"""A row of metrics holds no longer text (characters): what does is a sample, a record or a configuration."""
MAX_DEPTH = 4

ANSI = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
RAY = re.compile(rb"^\s*\(([^()\n]{0,80}?pid=\d+[^()\n]{0,60})\)\s?")
"""What Ray puts before a line of a worker."""
REPEATED = re.compile(rb"\s*\[repeated \d+x across cluster\]\s*$")
RANK = re.compile(
    rb"^\s*(?:\[(?:rank|Rank|RANK|default)[ :_]?(\d+)\]|(?:rank|Rank|RANK) ?(\d+) ?[:|]|\[(\d+)\]:)[:|]?\s?"
)
"""What launchers put before a line of a rank: `[rank1]:`, `[default1]:`, `Rank 1 |`."""

_PLAIN = r"[-+]?(?:\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|NaN|inf|Infinity)"
_THOUSANDS = r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?"
_NUMBER = rf"(?:{_THOUSANDS}|{_PLAIN})"
_WRAPPED = re.compile(r"(?:np\.|numpy\.)?(?:float|int|uint|bool_?)\d*\(([^()]*)\)|tensor\(([^()\[\]]*?)(?:,[^()]*)?\)")
_VECTOR = re.compile(r"tensor\(\[([^\[\]()]*)\][^()]*\)|(?:np\.)?array\(\[([^\[\]()]*)\][^()]*\)|\[([-+\d.,eE\s]+)\]")
_VALUE = re.compile(
    rf"[:=]\s{{0,8}}(?P<value>{_NUMBER}|tensor\([^()]*\)|np\.\w+\([^()]*\)|\[[-+\d.,eE\s]+\])"
    r"(?:(?P<percent>\s?%)|\s?(?:s|ms|sec|min|GB|GiB|MB|tokens/s|it/s|tok/s|tokens))?(?=$|[\s,;|)\]}!])"
)
_BEFORE_KEY = re.compile(r"[,;|\[\](){}<>\"'•]|\s{2,}|\s-\s|[:=]\s")
"""What a key stands behind."""
_KEY = re.compile(r"[A-Za-z_][\w./@%+-]*(?: [\w./@%+-]+){0,3}")
"""At most four words: more are a sentence."""
_ELEMENT = re.compile(_PLAIN)
_LISTED = re.compile(r"\s+\|\s+|[,;:]\s+|\)\s+")
_PIPED = re.compile(rf"^(?P<key>[A-Za-z][\w .%/()-]*?)\s+(?P<value>{_NUMBER})(?:(?P<percent>\s?%)|\s*[\w%/.]+)?$")
STEP = re.compile(
    r"(?i)(?:^|[\s\[(|>✨-])(?:global[ _]?step|train(?:ing)?[ _]?step|grpo[ _]?step|step|iteration|iter|update)\s*[:=#]?\s*"
    r"(\d+)(?:\s*/\s*(\d+))?"
)
_PROGRESS = re.compile(r"[\[(](\d+)/(\d+)[\])]")
_EPOCH = re.compile(r"(?i)\bepoch[^\w\n]{0,3}(\d+)\s*/\s*\d+")
_DICT_NAN = re.compile(r"(?<=[:\[, ])(nan|-?inf)(?=[,}\]\s])")
_LABEL = re.compile(r"([A-Za-z_][\w-]*(?: [A-Za-z_][\w-]*){0,2})[ _#]*(\d+)?(?:\s*/\s*\d+)?\s*[:=]?\s*$")
_PLACE = re.compile(r":\d+$")
"""Where in the source a line was logged: `trainer.py:57`."""
_COUNTS_STEPS = ("step", "steps", "iteration", "iter", "update", "epoch", "round")
_COUNTS_ROLLOUTS = ("rollout", "perf", "eval", "passrate", "turn")
_SAMPLES = ("sample", "samples", "completion", "completions", "trajectory", "episode", "example", "prompt", "question",
            "response", "answer", "generation", "item", "reward", "return")  # fmt: skip
"""A dict behind such a word is of one answer, and no row of a step."""
_COUNTED = re.compile(
    r"(?i)^.*\b(?:step|iter|iteration|epoch|batch|update|round)s?[ #]*\d+(?:\s?/\s?\d+)?[\s,:)\]]+(?=[A-Za-z_])"
)
"""A count that stands before a key without anything between: `step 12 loss=0.5`."""
_HELD_OUT = re.compile(
    r"(?i)(?<![\w/.])(?:eval(?:uat\w*)?|valid(?:ation)?|val|test(?=[:\]]|\s+(?:set|acc|loss|reward|score|result)))(?![\w/.])"
)
_HELD_OUT_KEY = re.compile(r"(?i)(?:eval|valid|val|test)")
_EVALUATED = re.compile(r"Evaluated (\S{1,64}) \(")
_CELL_KEY = re.compile(r"^[A-Za-z_][\w./@ -]*$")
_BARS = re.compile("[│┃|]")
_FLAT_DICT = re.compile(r"\{['\"][^{}]*\}")
_GLUED = re.compile(rf"^(?P<key>[^\s:]+):(?:np\.\w+\()?(?P<value>{_PLAIN})\)?(?=[^\d.eE_]|[eE](?![\d+\-]))")
"""A pair with something else printed right behind it, such as a progress bar."""


class Said(NamedTuple):
    """Numbers of one line: whose they are, at which step if the line says so, and what they are."""

    stream: str
    step: int | None
    row: dict[str, object]


def plain_number(text: str) -> float | None:
    """A number as trainers print it: `1e-3`, `1,024`, `nan`, `np.float64(0.5)`, `tensor(0.5)`, `True`."""
    text = text.strip()
    if "," in text and re.fullmatch(_THOUSANDS, text):
        text = text.replace(",", "")
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
    if start < 0 or (start and (line[start - 1].isalnum() or line[start - 1] in "_/")):
        return None
    parts = line[start:].split(" - ")
    step = parts[0][5:].strip()
    if len(parts) < 2 or not step.isdigit():
        return None
    row: dict[str, object] = {}
    for part in parts[1:] if whole else parts[1:-1]:  # the last one may be half a number
        key, _, value = part.rpartition(":")
        if value[-1:] == ")":
            value = value[value.find("(") + 1 : -1]
        try:
            row[key] = float(value)
        except ValueError:
            number = plain_number(value)
            if number is None and (found := _GLUED.match(part)):
                key, number = found["key"], plain_number(found["value"])
            if number is not None:
                row[key] = number
    return Said("step:", int(step), row) if row else None


def dicts_in(line: str, whole: bool = True) -> tuple[str, dict[str, object], str] | None:
    """The dicts printed on a line as one row, with what stands before the first and around the others."""
    start = min((at for opening in ("{'", '{"') if (at := line.find(opening)) >= 0), default=-1)
    end = line.rfind("}")
    if start < 0 or end <= start or end - start > MAX_DICT:
        return None
    found = as_dict(line[start : end + 1])
    if found is not None:
        return line[:start], found, line[:start]
    pieces = _FLAT_DICT.findall(line[start : end + 1]) if whole else []  # the whole may hold more than its pieces
    if not pieces or len(pieces) > MAX_DICTS:
        return None
    row: dict[str, object] = {}
    for piece in pieces:
        row.update(as_dict(piece) or {})
    return (line[:start], row, line[:start] + _FLAT_DICT.sub(" ", line[start:])) if row else None


def as_dict(text: str) -> dict[str, object] | None:
    """A dict as JSON or as Python prints it; nothing in it is run."""
    try:
        loaded = loads((text if text[1:2] == '"' else text.replace("'", '"')).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        pass
    else:
        return loaded if isinstance(loaded, dict) else None
    cleaned = _WRAPPED.sub(lambda m: m[1] or m[2] or "None", text)
    cleaned = _VECTOR.sub("[]", _DICT_NAN.sub(r"'\1'", cleaned))
    try:
        loaded = ast.literal_eval(cleaned)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    if not isinstance(loaded, dict):
        return None
    return {k: v for k, v in loaded.items() if isinstance(k, str)}


def flat(row: dict[str, object], depth: int = 0) -> dict[str, object]:
    """The row with the entries of inner dicts as `outer/inner`."""
    if dict not in set(map(type, row.values())):
        return row
    made: dict[str, object] = {}
    for key, value in row.items():
        if not isinstance(value, dict):
            made[key] = value
        elif depth < MAX_DEPTH:
            made.update({f"{key}/{k}": v for k, v in flat(value, depth + 1).items()})
    return made


def is_record(row: Mapping[str, object]) -> bool:
    """Whether a dict is a sample or a configuration: metrics stand beside no long text and no list of texts."""
    return not {str, list}.isdisjoint(map(type, row.values())) and any(
        (isinstance(v, str) and len(v) > MAX_TEXT)
        or (isinstance(v, list) and any(isinstance(i, str | dict) for i in v))
        for v in row.values()
    )


def has_words(row: Mapping[str, object]) -> bool:
    """Whether a value is a text that is no number."""
    return str in set(map(type, row.values())) and any(
        isinstance(v, str) and plain_number(v) is None for v in row.values()
    )


def label_of(before: str, keys: Mapping[str, object]) -> tuple[str, int | None] | None:
    """What is said before a dict: its words, and the step if they count one (`Global step 12:`).

    None where they say that it is no row: `Sample 12:`, or the end of a sentence.
    """
    tail = before[-80:].rstrip()
    if tail.endswith("]"):
        if tail[tail.rfind("[") + 1 : -1].lower().split(" ")[0] in _SAMPLES:
            return None
        tail = ""
    found = _LABEL.search(tail)
    if not found:
        return (
            None
            if tail and (tail[-1].isalnum() or tail[-1] in "#(,;.'\"`\\") and not _PLACE.search(tail)
            else ("", None)
        )
    words = found[1].lower().replace("_", " ")
    last = re.split(r"[ -]", words)[-1]
    scoped = any("/" in k for k in keys)
    if last in _SAMPLES and not scoped:
        return None
    if found[2] and not (last in _COUNTS_STEPS or (last in _COUNTS_ROLLOUTS and scoped)):
        return words, None
    return words, int(found[2]) if found[2] else 0 if words.startswith("initial ") else None


def pairs_in(line: str) -> tuple[dict[str, object], str]:
    """`key: 1.0, other=2` and the like, and what stands before the first; a vector counts by its mean, as `key/mean`."""
    row: dict[str, object] = {}
    if len(line) > MAX_PAIRS_LINE:
        return row, ""
    end, head = 0, line
    for found in _VALUE.finditer(line):
        start = found.start()
        before = _BEFORE_KEY.split(line[max(end, start - MAX_KEY) : start])[-1].strip()
        end = found.end()
        if " " in before and (counted := _COUNTED.match(before)):
            before = before[counted.end() :]
        if not _KEY.fullmatch(before):
            continue
        if not row:
            head = line[: line.rfind(before, 0, start)]
        text = found["value"]
        if "[" in text:
            inside = text[text.find("[") : text.rfind("]") + 1]
            vector = [v for v in map(plain_number, _ELEMENT.findall(inside)) if v is not None]
            if vector:
                row[f"{before}/mean"] = sum(vector) / len(vector)
            continue
        number = plain_number(text)
        if number is not None:
            row[before] = number / 100.0 if found["percent"] else number
    return row, head


def listed_in(line: str) -> tuple[dict[str, object], str]:
    """`Step 12 | Loss 0.0012 | MFU 30.1%`, `iter 12: loss 0.5, reward 0.25`: names and numbers in a list behind a step.

    And what stands before them. A name and a number beside each other are not enough without a step and a list.
    """
    row: dict[str, object] = {}
    counted = STEP.search(line)
    if len(line) > MAX_PAIRS_LINE or counted is None:
        return row, ""
    head, rest = line[: counted.end()], line[counted.end() :]
    parts = _LISTED.split(rest)
    for part in parts if len(parts) > 2 else ():
        found = _PIPED.match(part.strip())
        if found:
            number = plain_number(found["value"])
            if number is not None:
                row[found["key"]] = number / 100.0 if found["percent"] else number
    return row, head


def held_out(row: dict[str, object], head: str) -> dict[str, object]:
    """The row under `eval/`, if the words before it say that it was measured on held-out data and its keys do not."""
    if not _HELD_OUT.search(head):
        return row
    named = _EVALUATED.search(head)
    scope = f"eval/{named[1]}/" if named else "eval/"
    return {k if _HELD_OUT_KEY.match(k) or k.lower() in ("step", "epoch") else scope + k: v for k, v in row.items()}


def step_in(line: str) -> int | None:
    """The step that a line names, else its place in the longest count it shows."""
    found = STEP.search(line)
    if found:
        return int(found[1])
    counts = [(int(m[2]), int(m[1])) for m in _PROGRESS.finditer(line)]
    counts = [c for c in counts if c[0] > 1]
    return max(counts)[1] if counts else None


def epoch_in(line: str) -> int | None:
    """The epoch of `Epoch:[2/3](10/200)`, in each of which the steps may start again."""
    found = _EPOCH.search(line)
    return int(found[1]) if found else None


def cells_in(line: str, whole: bool) -> dict[str, object]:
    """Key and number in neighbouring cells of a printed table; an unfinished line's last cell is left out."""
    cells = _BARS.split(line)[1:]
    if not whole:
        cells = cells[:-1]
    row: dict[str, object] = {}
    for key, text in zip(cells[::2], cells[1::2], strict=False):
        number = plain_number(text)
        if number is not None and _CELL_KEY.match(key.strip()):
            row[key.strip()] = number
    return row

#!/usr/bin/env python
"""Start a rule, an instrument, a reader or a dialect: its files, and its line in the table.

    python scripts/new.py rule KL199 kl-does-something
    python scripts/new.py instrument swing
    python scripts/new.py reader csv-rows
    python scripts/new.py dialect my-trainer

What is made is valid and does next to nothing: the checks pass before a word is filled in.
The lines to fill in are marked `TODO`.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "vario"
WIDTH = 120
CODE = re.compile(r"[A-Z]{2}\d{3}")
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Ground:
    """What the rules of a family stand on: an instrument, its main reading, and values for the cases."""

    instrument: str
    reading: str
    metric: str
    low: float
    high: float
    other: str = "systems/tokens"


REWARD = Ground("Reward", "total", "reward/mean", 0.01, 0.9)
GROUNDS = {
    "RU": REWARD,
    "RW": REWARD,
    "SG": Ground("Signal", "reading", "signal/zero-variance-share", 0.01, 0.9),
    "KL": Ground("Kl", "reference", "kl/reference", 0.01, 0.9),
    "CL": Ground("Clipping", "total", "clip/fraction/total", 0.002, 0.5),
    "EN": Ground("Entropy", "mean", "entropy/mean", 0.02, 2.0),
    "LN": Ground("Length", "mean", "length/mean", 20.0, 2000.0),
    "OP": Ground("EngineGap", "gap", "engine/logprob-gap/mean", 0.01, 0.9),
    "GR": Ground("Gradient", "norm", "gradient/norm", 0.05, 5.0),
    "VF": Ground("Value", "loss", "loss/value", 0.05, 5.0),
    "TX": REWARD,
    "PF": Ground("Preference", "margin", "preference/margin", 0.05, 5.0),
    "SY": Ground("StepTime", "seconds", "systems/step-time", 1.0, 100.0),
    "DX": REWARD,
}

RULE = '''\
"""@CODE@ @NAME@."""

from __future__ import annotations

from collections.abc import Iterator

from vario.instruments import @INSTRUMENT@
from vario.rules.base import Evidence, Severity, Sign, number, rule

LEAST = 60
"""TODO: points below which it says nothing, and why."""
TIMES = 20.0
"""TODO: a bound with its reason and its source; better, a comparison of the run with itself."""


@rule(
    "@CODE@",
    "@NAME@",
    Severity.INFO,
    holds=3,
    pedantic=True,
)
def @OBJECT@(@ARGUMENT@: @INSTRUMENT@) -> Iterator[Sign]:
    """TODO: what it means, in one sentence for somebody who has just been woken up.

    What it shows:
        TODO: the pattern, in words. For now: @METRIC@ is more than twenty times its start.
    Why it matters:
        TODO: what it costs if nobody acts.
    Evidence:
        TODO: the numbers and steps that are shown. For now: the start and the level.
    Looks like it but is not:
        TODO: the benign run that looks the same, and what tells them apart. For now: the noise of a
        metric that stays where it was.
    What to change:
        TODO: in canonical knobs, the mildest first; the turns belong into the decorator.
    How sure:
        TODO: on how many points, and what lowers it.
    References:
        TODO: a paper, an issue, or a recorded run
    """
    reading = @ARGUMENT@.@READING@
    if reading.points < LEAST or reading.start <= 0.0 or reading.level <= TIMES * reading.start:
        return
    yield Evidence(
        f"@METRIC@ rose from {number(reading.start)} to {number(reading.level)}",
        (reading.name,),
        reading.onset_of_move(),
    )
'''

CASES = """\
# @NAME@

## It multiplies
TODO: tell what happens here. @METRIC@ climbs and stays up.

```run
@METRIC@: hold @LOW@ for 60 then ramp @LOW@ to @HIGH@ over 100 then hold @HIGH@ for 80, noise @NOISE@
```
```expect
step 50: clear
step 240: fires
```

## Look-alike: it stays where it was
TODO: the benign run that looks most like it, and why it is fine.

```run
@METRIC@: hold @LOW@ for 240, noise @NOISE@
```
```expect
step 50: clear
step 240: clear
```

## Unknown: @METRIC@ is not logged
Without the metric nothing can be said.

```run
@OTHER@: ramp 1000 to 240000 over 240
```
```expect
step 240: unknown
```
"""

INSTRUMENT = '''\
"""TODO: what it measures, in one sentence."""

from __future__ import annotations

from dataclasses import dataclass

from vario.instruments.reading import Look, Reading


@dataclass(frozen=True)
class @CLASS@:
    """TODO: what a rule learns from it."""

    mean: Reading

    @classmethod
    def read(cls, look: Look) -> @CLASS@:
        """Needs reward/mean (TODO: the metrics it is read from)."""
        return cls(look.need("reward/mean", least=5))
'''

READER = '''\
"""TODO: what writes this format. For now: a first line `#@NAME@`, then `key=value` words, one row a line."""

from __future__ import annotations

from pathlib import Path

from vario.errors import Malformed
from vario.sources.rows import Table

MARK = b"#@NAME@\\n"


def recognises(path: Path, head: bytes) -> bool:
    """By content, never by name alone. TODO: something that no other format holds."""
    return path.suffix not in {".json", ".jsonl"} and head.startswith(MARK)


def read(path: Path) -> Table:
    """Read every row that parses; what does not is counted, and a cut last line loses nothing before it.

    Raises:
        Malformed: no line gave a row.
    """
    table = Table(str(path), "@NAME@")
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines()[1:]:
        row = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if line.strip() and not table.add(row):
            table.ignored += 1
    if not table.rows:
        raise Malformed(f"{path}: no line holds a row of metrics")
    return table
'''

DIALECT = '''\
"""TODO: the framework, its trainers, and from which of its sources and versions the keys were read."""

from __future__ import annotations

from collections.abc import Mapping

from vario.run import KnobSetting, Setting
from vario.sources.dialects.base import Alias, Context, Dialect


def recognises(keys: frozenset[str], config: Mapping[str, Setting]) -> bool:
    """TODO: keys that only this framework logs; it must claim no other's log."""
    return "@NAME@/reward" in keys


def algorithm(keys: frozenset[str], config: Mapping[str, Setting]) -> str:
    """TODO: which algorithm wrote the log: grpo, rloo, ppo, dpo …; unknown where it cannot be told."""
    return "unknown"


ALIASES = (
    # TODO: each with the line of the framework's source that logs it; `when` for what depends on version or settings
    Alias("@NAME@/reward", "reward/mean"),
    Alias("@NAME@/kl", "kl/reference"),
)
IGNORED: dict[str, str] = {
    # TODO: pattern of keys that are known and carry nothing for a diagnosis: why
    r"epoch": "a count of progress",
}
_KNOBS: dict[str, tuple[str, Setting]] = {
    # TODO: canonical knob: (the key here, its default)
    "learning-rate": ("learning_rate", None),
}


def knobs(context: Context) -> Mapping[str, KnobSetting]:
    """The framework's keys for the canonical knobs, with this run's values."""
    return {
        knob: KnobSetting(knob, key, context.config.get(key, default), is_default=key not in context.config)
        for knob, (key, default) in _KNOBS.items()
    }


def enable(context: Context) -> Mapping[str, str]:
    """TODO: how each missing metric would be logged here."""
    return {}


DIALECT = Dialect("@NAME@", recognises, algorithm, ALIASES, IGNORED, knobs=knobs, enable=enable)
'''


class Refused(Exception):
    """The request cannot be met; nothing was written."""


def _fill(template: str, **words: str) -> str:
    for key, word in words.items():
        template = template.replace(f"@{key}@", word)
    return template


# tables


def _sequence(text: str, variable: str) -> ast.Tuple | ast.List:
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(node.value, ast.Tuple | ast.List):
            continue
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
        if isinstance(target, ast.Name) and target.id == variable:
            return node.value
    raise Refused(f"the table {variable} was not found")


def _span(text: str, node: ast.expr) -> tuple[int, int]:
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


def into_table(text: str, variable: str, entry: str, place: Callable[[list[str]], int]) -> str:
    """Put `entry` into a tuple or list at the index that `place` gives for the entries there are."""
    node = _sequence(text, variable)
    raw = text.encode()
    start, end = _span(text, node)
    entries = [raw[slice(*_span(text, e))].decode() for e in node.elts]
    one_a_line = len({e.lineno for e in node.elts}) == len(entries) > 1
    if b"#" in raw[start:end]:
        raise Refused(f"the table {variable} holds comments; add {entry} by hand")
    entries.insert(place(entries), entry)
    left, right = ("[", "]") if isinstance(node, ast.List) else ("(", ")")
    line = f"{left}{', '.join(entries)}{',' if len(entries) == 1 else ''}{right}"
    if one_a_line or node.col_offset + len(line) > WIDTH:
        if one_a_line:
            body = "".join(f"    {e},\n" for e in entries)
        else:
            body = textwrap.fill(", ".join(entries) + ",", WIDTH - 2, initial_indent=" " * 4, subsequent_indent=" " * 4)
        line = f"{left}\n{body.rstrip()}\n{right}"
    return (raw[:start] + line.encode() + raw[end:]).decode()


def into_imports(text: str, line: str, package: str) -> str:
    """Put a `from package.x import …` line among its like, in the order of the alphabet."""
    lines = text.splitlines(keepends=True)
    like = [i for i, ln in enumerate(lines) if ln.startswith(f"from {package}.") and " import " in ln]
    if not like:
        raise Refused(f"no imports from {package} to stand beside")
    key = line.split()[1]
    at = next((i for i in like if lines[i].split()[1] > key), like[-1] + 1)
    lines.insert(at, f"{line}\n")
    return "".join(lines)


def into_from(text: str, package: str, name: str) -> str:
    """Put a name into the line `from package import a, b`."""
    node = next((n for n in ast.parse(text).body if isinstance(n, ast.ImportFrom) and n.module == package), None)
    if node is None or node.end_lineno is None:
        raise Refused(f"no import from {package} to stand in")
    names = sorted([*(a.name for a in node.names), name])
    made = f"from {package} import {', '.join(names)}"
    if len(made) > WIDTH:
        made = f"from {package} import (\n" + "".join(f"    {n},\n" for n in names) + ")"
    lines = text.splitlines()
    return "\n".join([*lines[: node.lineno - 1], made, *lines[node.end_lineno :]]) + "\n"


def into_rules(text: str, obj: str, code: str) -> str:
    """Put a rule behind the last of its family; every line of that table carries its code."""
    lines = text.splitlines(keepends=True)
    first = next((i for i, ln in enumerate(lines) if re.match(r"RULES\b.*= \($", ln)), None)
    if first is None:
        raise Refused("the table RULES was not found")
    last = next(i for i in range(first, len(lines)) if lines[i].startswith(")"))
    family = [i for i in range(first, last) if f"# {code[:2]}" in lines[i]]
    lines.insert(family[-1] + 1 if family else last, f"    {obj},  # {code}\n")
    return "".join(lines)


def _sorted_name(entries: list[str], name: str) -> int:
    """Index that keeps a table of quoted class names in order (SHOUTED names stand first)."""
    for i, entry in enumerate(entries):
        word = entry.strip("\"'")
        if not (word.isupper() and len(word) > 1) and word > name:
            return i
    return len(entries)


# kinds


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))


def new_rule(code: str, name: str) -> dict[Path, str]:
    """A rule's file, its cases and its line in the table.

    Raises:
        Refused: the code or the name is taken or malformed.
    """
    if not CODE.fullmatch(code) or code[:2] not in GROUNDS:
        raise Refused(f"{code}: a code is two letters of a family and three digits; families: {', '.join(GROUNDS)}")
    if not NAME.fullmatch(name) or "-" not in name:
        raise Refused(f"{name}: a name is small words with hyphens that complete 'this run shows …'")
    obj = name.replace("-", "_")
    table = SOURCE / "rules" / "__init__.py"
    for path in sorted((SOURCE / "rules").glob("*.py")):
        if re.search(rf'^\s*@?(rule\()?\s*"{code}"', path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            raise Refused(f"{code} is taken by {path.name}; codes are never reused")
    ground = GROUNDS[code[:2]]
    words = {
        "CODE": code,
        "NAME": name,
        "OBJECT": obj,
        "INSTRUMENT": ground.instrument,
        "ARGUMENT": re.sub(r"(?<=[a-z])(?=[A-Z])", "_", ground.instrument).lower(),
        "READING": ground.reading,
        "METRIC": ground.metric,
        "LOW": f"{ground.low:g}",
        "HIGH": f"{ground.high:g}",
        "NOISE": f"{ground.low / 10:g}",
        "OTHER": ground.other,
    }
    text = into_imports(table.read_text(encoding="utf-8"), f"from vario.rules.{obj} import {obj}", "vario.rules")
    return {
        SOURCE / "rules" / f"{obj}.py": _fill(RULE, **words),
        ROOT / "tests" / "cases" / f"{name}.md": _fill(CASES, **words),
        table: into_rules(text, obj, code),
    }


def new_instrument(name: str) -> dict[Path, str]:
    """An instrument's file and its line in the table."""
    module, cls = name.replace("-", "_"), _class_name(name)
    table = SOURCE / "instruments" / "__init__.py"
    text = table.read_text(encoding="utf-8")
    text = into_imports(text, f"from vario.instruments.{module} import {cls}", "vario.instruments")
    text = into_table(text, "INSTRUMENTS", cls, len)
    text = into_table(text, "__all__", f'"{cls}"', lambda entries: _sorted_name(entries, cls))
    return {SOURCE / "instruments" / f"{module}.py": _fill(INSTRUMENT, CLASS=cls), table: text}


def new_reader(name: str) -> dict[Path, str]:
    """A reader's file, a sample and its line in the table."""
    module = name.replace("-", "_")
    table = SOURCE / "sources" / "readers" / "__init__.py"
    text = into_from(table.read_text(encoding="utf-8"), "vario.sources.readers", module)
    rows = "".join(f"step={s} reward={0.2 + 0.01 * s:.2f} kl={0.001 * s:.3f}\n" for s in range(1, 31))
    return {
        SOURCE / "sources" / "readers" / f"{module}.py": _fill(READER, NAME=name),
        ROOT / "tests" / "readers" / name / "sample.txt": f"#{name}\n{rows}",
        table: into_table(text, "READERS", module, lambda _: 0),
    }


def new_dialect(name: str) -> dict[Path, str]:
    """A dialect's file, a log and its line in the table."""
    module = name.replace("-", "_")
    table = SOURCE / "sources" / "dialects" / "__init__.py"
    text = into_from(table.read_text(encoding="utf-8"), "vario.sources.dialects", module)
    rows = "".join(
        f'{{"step": {s}, "{name}/reward": {0.2 + 0.01 * s:.2f}, "{name}/kl": {0.001 * s:.3f}}}\n' for s in range(1, 61)
    )

    def before_generic(entries: list[str]) -> int:
        return next((i for i, e in enumerate(entries) if e.startswith("generic")), len(entries))

    return {
        SOURCE / "sources" / "dialects" / f"{module}.py": _fill(DIALECT, NAME=name),
        ROOT / "tests" / "sources" / "logs" / f"{name}-synthetic.jsonl": rows,
        table: into_table(text, "DIALECTS", f"{module}.DIALECT", before_generic),
    }


NEXT = {
    "rule": "Write the look-alike's case first, then the rule, then its page; `vario rule NAME` prints it.",
    "instrument": "Let a rule ask for it by type; what it computes needs a slow, obvious version in the tests.",
    "reader": "Replace the sample with a real file, add a truncated, an empty and a half-written one, and give it a line in "
    "docs/reading-runs.md.",
    "dialect": "Replace the log with one that the framework wrote, without `synthetic` in its name; `vario metrics PATH` shows "
    "which keys are not mapped yet. Give it a name in TITLES of scripts/page_parts.py, and a line in README.md.",
}


def _made(options: argparse.Namespace) -> dict[Path, str]:
    if options.kind == "rule":
        return new_rule(options.code, options.name)
    if not NAME.fullmatch(options.name):
        raise Refused(f"{options.name}: a name is small words with hyphens")
    makers = {"instrument": new_instrument, "reader": new_reader, "dialect": new_dialect}
    return makers[options.kind](options.name)


def _write(files: dict[Path, str]) -> None:
    *fresh, table = files
    for path in fresh:
        if path.exists():
            raise Refused(f"{path.relative_to(ROOT)} is there already")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"{'changed' if path == table else 'made   '} {path.relative_to(ROOT)}")


def main() -> int:
    """Entry point: 0 made, 2 refused."""
    parser = argparse.ArgumentParser(description="Start a rule, an instrument, a reader or a dialect.")
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    rule = kinds.add_parser("rule", help="a rule with its page and its cases")
    rule.add_argument("code", help="two letters of a family and three digits: KL199")
    rule.add_argument("name", help="completes 'this run shows …': kl-does-something")
    for kind in ("instrument", "reader", "dialect"):
        kinds.add_parser(kind, help=f"a {kind}").add_argument("name", help="small words with hyphens")
    options = parser.parse_args()
    try:
        _write(_made(options))
    except Refused as error:
        print(f"new.py: {error}", file=sys.stderr)
        return 2
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "pages.py"), "write"], check=False)
    print(NEXT[options.kind])
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())

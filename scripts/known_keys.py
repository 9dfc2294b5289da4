#!/usr/bin/env python
"""Read from the source of installed libraries which metric keys they log, and ask the dialects for each.

    python scripts/known_keys.py                      # the libraries that this Python finds
    python scripts/known_keys.py --site PATH          # those in another site-packages
    python scripts/known_keys.py --require trl        # exit 1 as well where trl is not there
    python scripts/known_keys.py --list               # print each key with its file and line

Nothing is imported: the files are parsed. A key is a text constant, or an f-string, that indexes a
store of metrics or stands in a dictionary on its way there; where the parts of an f-string are not
constants either, a sample stands for them. Keys that only exist at run time (a name that the user's
reward function chose) cannot be seen.

Exit 1: a key that the dialect neither gives a meaning nor ignores, or a library without any key
(then it is written in a way that this script does not read). Exit 0 otherwise.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import importlib.util
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from vario.sources.dialects import DIALECTS  # noqa: E402
from vario.sources.dialects.base import Dialect, reason_to_ignore  # noqa: E402

SAMPLE = "sample"
"""Stands for a part of a key that only exists at run time."""
STORES = frozenset({"_metrics", "metrics", "_stored_metrics", "last_metrics", "logs", "stats", "_rates", "_counters"})
"""What trainers call the place where metrics are gathered before they are logged."""
MOST = 16
"""Values that one key's parts are tried with."""
NOT_LOGGED = {
    ("trl", "correctness"): "handed to the worker, which logs it as rollout/correctness_mean",
    ("transformers", "objective"): "goes to a hyper-parameter search, not to a log",
}
"""Keys that are gathered like a metric and never logged."""


@dataclass(frozen=True)
class Library:
    """One library: whose dialect its keys are asked of, and which of its files log."""

    name: str
    dialect: str
    files: tuple[str, ...]


LIBRARIES = (
    Library("trl", "trl", ("**/*.py",)),
    Library("transformers", "trl", ("trainer.py", "trainer_utils.py", "trainer_seq2seq.py")),
    Library("unsloth", "unsloth", ("models/rl_replacements.py",)),
    Library("unsloth_zoo", "unsloth", ("rl_replacements.py",)),
)


def _dotted(node: ast.expr) -> str:
    """The last part of `a.b.c`, also behind one index: `self._metrics[mode]` is `_metrics`."""
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


@dataclass
class Scope:
    """What names stand for inside one function: texts only."""

    names: dict[str, list[str]] = field(default_factory=dict)
    returned: frozenset[str] = frozenset()
    """Local names that the function hands back as its metrics."""
    gives_metrics: bool = False
    """Whether the function's name says that it makes metrics."""


class Keys(ast.NodeVisitor):
    """Collects the keys of one file."""

    def __init__(self, calls: Mapping[str, Mapping[str, list[str]]]) -> None:
        self.calls = calls
        self.found: dict[str, int] = {}
        self.both_modes: set[str] = set()
        self.prefixes_eval = False
        self.classes: list[dict[str, str]] = [{}]
        self.scopes: list[Scope] = [Scope()]

    # what an expression can say

    def texts(self, node: ast.expr) -> list[str] | None:
        """The texts that an expression can be, as far as the source says; None where it does not."""
        if isinstance(node, ast.Constant):
            return [node.value] if isinstance(node.value, str) else None
        if isinstance(node, ast.IfExp):
            return [*(self.texts(node.body) or []), *(self.texts(node.orelse) or [])] or None
        if isinstance(node, ast.Name):
            return next((s.names[node.id] for s in reversed(self.scopes) if node.id in s.names), None)
        if isinstance(node, ast.Attribute):
            own = self.classes[-1].get(node.attr)
            return None if own is None else [own]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            base, name = self.texts(node.func.value), node.func.attr
            given = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            if base and name in ("lower", "upper", "strip", "replace") and len(given) == len(node.args):
                return [getattr(text, name)(*given) for text in base]
            return None
        if isinstance(node, ast.JoinedStr):
            parts = [
                [part.value]
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
                else (self.texts(part.value) if isinstance(part, ast.FormattedValue) else None) or [SAMPLE]
                for part in node.values
            ]
            return ["".join(p) for p in itertools.islice(itertools.product(*parts), MOST)]
        return None

    def take(self, node: ast.expr, *, both_modes: bool = False) -> None:
        """Note a key, if the expression is a text that says something of its own."""
        if isinstance(node, ast.JoinedStr) and self._only_adds_a_prefix(node):
            return
        if not isinstance(node, ast.Constant | ast.JoinedStr):
            return
        for text in self.texts(node) or []:
            self.found.setdefault(text, node.lineno)
            if both_modes:
                self.both_modes.add(text)

    def _only_adds_a_prefix(self, node: ast.JoinedStr) -> bool:
        """`f"eval_{key}"` renames keys that are noted where they arise; so do other lone prefixes of a loop's key."""
        last = node.values[-1]
        return (
            isinstance(last, ast.FormattedValue)
            and isinstance(last.value, ast.Name)
            and last.value.id in ("key", "k", "name")
            and last.value.id not in self.scopes[-1].names
            and all(isinstance(v, ast.FormattedValue) or "/" not in str(v.value) for v in node.values[:-1])  # type: ignore[attr-defined]
        )

    def take_all(self, node: ast.expr) -> None:
        """Note the keys of every dictionary written inside an expression."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.DictComp):
                self.take(inner.key)
            if not isinstance(inner, ast.Dict):
                continue
            for key, value in zip(inner.keys, inner.values, strict=True):
                # {"train": defaultdict(list), …} names modes, and a table of texts is no metric
                container = isinstance(value, ast.Dict) or (
                    isinstance(value, ast.Call) and _dotted(value.func) in ("defaultdict", "dict", "Table", "deque")
                )
                if key is not None and not container:
                    self.take(key)

    # where keys stand

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Remember the texts that the class gives itself."""
        own = {
            target.id: str(line.value.value)
            for line in node.body
            if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant)
            for target in line.targets
            if isinstance(target, ast.Name) and isinstance(line.value.value, str)
        }
        self.classes.append(own)
        self.generic_visit(node)
        self.classes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Gather what the function's names can be before its body is read."""
        scope = Scope()
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        defaults = [*node.args.defaults, *node.args.kw_defaults]
        for argument, default in zip(arguments[len(arguments) - len(defaults) :], defaults, strict=False):
            if isinstance(default, ast.Constant) and isinstance(default.value, str):
                scope.names[argument.arg] = [default.value]
        for name, values in self.calls.get(node.name, {}).items():
            scope.names[name] = sorted({*scope.names.get(name, []), *values})
        self.scopes.append(scope)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Assign) and len(inner.targets) == 1 and isinstance(inner.targets[0], ast.Name):
                said = self.texts(inner.value)
                if said:
                    scope.names.setdefault(inner.targets[0].id, []).extend(said)
            elif (
                isinstance(inner, ast.For)
                and isinstance(inner.target, ast.Name)
                and isinstance(inner.iter, ast.Tuple | ast.List)
            ):
                said = [t for element in inner.iter.elts for t in self.texts(element) or []]
                if said:
                    scope.names.setdefault(inner.target.id, []).extend(said)
        scope.gives_metrics = node.name.endswith("metrics") and node.name != "compute_metrics"
        if scope.gives_metrics:
            scope.returned = frozenset(
                r.value.id for r in ast.walk(node) if isinstance(r, ast.Return) and isinstance(r.value, ast.Name)
            )
        self.generic_visit(node)
        self.scopes.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def is_store(self, node: ast.expr) -> bool:
        """Whether an expression is a place where metrics are gathered."""
        name = _dotted(node)
        return name in STORES or (isinstance(node, ast.Name) and name in self.scopes[-1].returned)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """`store[key] = …` and `store[key].append(…)`; a store that is read says nothing new."""
        if self.is_store(node.value) and isinstance(node.ctx, ast.Store):
            self.take(node.slice, both_modes=self._in_both_modes(node))
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """`store[key][0] += …`."""
        target = node.target
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Subscript) and self.is_store(target.value):
            self.take(target.slice)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """`store[key].append(…)`, `self.log({…})`, `store.update({…})`."""
        function = node.func
        if isinstance(function, ast.Attribute):
            base = function.value
            if function.attr in ("append", "extend") and isinstance(base, ast.Subscript) and self.is_store(base.value):
                self.take(base.slice, both_modes=self._in_both_modes(base))
            own = isinstance(base, ast.Name) and base.id == "self"
            above = isinstance(base, ast.Call) and _dotted(base.func) == "super"
            logs = function.attr == "log" and (own or above or _dotted(base) == "accelerator")
            if logs or function.attr == "_push_metrics" or (function.attr == "update" and self.is_store(base)):
                for argument in node.args:
                    self.take_all(argument)
        for keyword in node.keywords:
            if keyword.arg == "metrics":
                self.take_all(keyword.value)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        """`metrics = {…}`, also under a longer name (`tool_metrics`)."""
        for target in node.targets:
            named = isinstance(target, ast.Name | ast.Attribute) and (
                self.is_store(target) or _dotted(target).endswith("_metrics")
            )
            if named:
                self.take_all(node.value)
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        """`return {…}` of a function that makes metrics."""
        if isinstance(node.value, ast.Dict) and self.scopes[-1].gives_metrics:
            self.take_all(node.value)
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """`f"eval_{key}"`: whatever is gathered is logged under both names."""
        first = node.values[0] if node.values else None
        if len(node.values) == 2 and isinstance(first, ast.Constant) and first.value == "eval_":
            self.prefixes_eval = True
        self.generic_visit(node)

    @staticmethod
    def _in_both_modes(node: ast.Subscript) -> bool:
        """`store[mode][key]`, where the mode is not fixed to training."""
        return isinstance(node.value, ast.Subscript) and not (
            isinstance(node.value.slice, ast.Constant) and node.value.slice.value == "train"
        )


def _constants_given(trees: Iterable[ast.Module]) -> dict[str, dict[str, list[str]]]:
    """For each function name, the texts that the library itself passes for its parameters."""
    parameters: dict[str, list[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.endswith("metrics"):
                parameters[node.name] = [a.arg for a in node.args.args if a.arg != "self"]
    given: dict[str, dict[str, list[str]]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (name := _dotted(node.func)) in parameters:
                for parameter, value in zip(parameters[name], node.args, strict=False):
                    if isinstance(value, ast.Constant) and isinstance(value.value, str):
                        given.setdefault(name, {}).setdefault(parameter, []).append(value.value)
    return given


def keys_of(folder: Path, files: Sequence[str]) -> dict[str, str]:
    """Each key that a library logs, with the place where it does."""
    paths = sorted({p for pattern in files for p in folder.glob(pattern)})
    trees = {path: ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in paths}
    given = _constants_given(trees.values())
    # transformers hands the prefix on as a variable whose default is "eval"
    if "speed_metrics" in given:
        given["speed_metrics"].setdefault("split", []).append("eval")
    found: dict[str, str] = {}
    for path, tree in trees.items():
        reader = Keys(given)
        reader.visit(tree)
        for key, line in reader.found.items():
            where = f"{path.relative_to(folder.parent)}:{line}"
            found.setdefault(key, where)
            if reader.prefixes_eval and key in reader.both_modes:
                found.setdefault(f"eval_{key}", where)
    return found


def is_known(dialect: Dialect, key: str) -> bool:
    """Whether the dialect gives the key a meaning, for whichever trainer, or says why not."""
    key = dialect.spell(key)
    return reason_to_ignore(dialect, key) is not None or any(a.match(key) is not None for a in dialect.aliases)


def _folder_of(name: str, site: Path | None) -> Path | None:
    if site is not None:
        return site / name if (site / name).is_dir() else None
    spec = importlib.util.find_spec(name)
    where = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(where[0]) if where else None


def _version_of(name: str, folder: Path) -> str:
    plain = re.sub(r"[-_.]+", "-", name).lower()
    for found in importlib.metadata.distributions(path=[str(folder.parent)]):
        if re.sub(r"[-_.]+", "-", found.metadata["Name"] or "").lower() == plain:
            return found.version
    return "of unknown version"


def _check(library: Library, folder: Path, *, listing: bool) -> Iterator[str]:
    """One line for the library, then one for each key that its dialect does not know."""
    dialect = next(d for d in DIALECTS if d.name == library.dialect)
    found = {k: w for k, w in keys_of(folder, library.files).items() if (library.name, k) not in NOT_LOGGED}
    unknown = {key: where for key, where in sorted(found.items()) if not is_known(dialect, key)}
    version = _version_of(library.name, folder)
    yield f"{library.name} {version}: {len(found) - len(unknown)} of {len(found)} keys known to {library.dialect}.py"
    if listing:
        for key, where in sorted(found.items()):
            print(f"  {key}  ({where})")
    if not found:
        yield "  no key found: the source is written in another way than this script reads"
    for key, where in unknown.items():
        yield f"  unknown: {key}  ({where})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the check; the exit code says whether every key is known."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--site", type=Path, help="a site-packages folder to read instead of this Python's")
    parser.add_argument("--require", action="append", default=[], metavar="NAME", help="fail where NAME is not there")
    parser.add_argument("--list", action="store_true", help="print every key with its place")
    options = parser.parse_args(arguments)
    if options.site is not None and not options.site.is_dir():
        parser.error(f"{options.site} is no folder")
    if strangers := set(options.require) - {library.name for library in LIBRARIES}:
        parser.error(f"cannot require {', '.join(sorted(strangers))}: not one of the libraries that are read")
    failed = False
    for library in LIBRARIES:
        folder = _folder_of(library.name, options.site)
        if folder is None:
            print(f"{library.name}: not installed, not checked")
            failed |= library.name in options.require
            continue
        lines = list(_check(library, folder, listing=options.list))
        print("\n".join(lines))
        failed |= len(lines) > 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python
"""Read from the source of libraries which metric keys they log, and ask the dialects for each.

    python scripts/known_keys.py                      # the libraries that this Python finds
    python scripts/known_keys.py --fetch FOLDER       # fetch the newest wheels into FOLDER, and read them there
    python scripts/known_keys.py --site PATH          # those in another site-packages
    python scripts/known_keys.py --only verl          # one library; with --fetch also an older one: verl==0.4.1
    python scripts/known_keys.py --require trl        # exit 1 as well where trl is not there
    python scripts/known_keys.py --list               # print each key with its file and line, and its meaning

Nothing is imported or installed: wheels are unpacked, files are parsed. A key is a text constant, or
an f-string, that indexes a store of metrics or stands in a dictionary on its way there; where the
parts of an f-string are not constants either, a sample stands for them. What a library calls its
stores, and which prefix a key gets on its way to the log, stands in `key_places.py`. Keys that only exist
at run time (a name that the user's reward function chose) cannot be seen.

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
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from key_places import AS_IT_IS, LIBRARIES, Library, Part, Spellings  # noqa: E402

from vario.sources.dialects import DIALECTS  # noqa: E402
from vario.sources.dialects.base import Dialect, reason_to_ignore  # noqa: E402
from vario.sources.rows import BESIDE  # noqa: E402

SAMPLE = "sample"
"""Stands for a part of a key that only exists at run time."""
MOST = 16
"""Values that one key's parts are tried with."""
MARK = ".fetched-by-known-keys"
"""Stands in a folder that --fetch may write to and delete from."""


# the reading


def _dotted(node: ast.expr) -> str:
    """The last part of `a.b.c`, also behind one index: `self._metrics[mode]` is `_metrics`."""
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _renamed(key: str, ways: Spellings) -> list[str]:
    """The key as it stands in the log."""
    return [key if key.startswith(way.partition("{}")[0] or "\0") else way.replace("{}", key) for way in ways]


@dataclass
class Scope:
    """What is known inside one function."""

    names: dict[str, list[str]] = field(default_factory=dict)
    """The texts that a name can stand for."""
    stores: dict[str, Spellings] = field(default_factory=dict)
    """Local names that gather metrics, and what is added to their keys."""
    logged_as: Spellings | None = None
    gives_metrics: bool = False
    """Whether the function's name says that it makes metrics."""


class Keys(ast.NodeVisitor):
    """Collects the keys of one file."""

    def __init__(
        self, part: Part, calls: Mapping[str, Mapping[str, list[str]]], constants: Mapping[str, list[str]]
    ) -> None:
        self.part = part
        self.calls = calls
        self.found: dict[str, int] = {}
        self.both_modes: set[str] = set()
        self.prefixes_eval = False
        self.classes: list[dict[str, str]] = [{}]
        self.scopes: list[Scope] = [Scope(names={**constants, **{k: list(v) for k, v in part.names.items()}})]
        self.before: list[str] = []

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
        if isinstance(node, ast.Call) and _dotted(node.func) in self.part.names:
            return list(self.part.names[_dotted(node.func)])
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

    def note(self, text: str, line: int, added: Spellings, *, both_modes: bool = False) -> None:
        """Note a key under each of its spellings, unless it goes to none."""
        if any(re.fullmatch(pattern, text) for pattern in self.part.skipped):
            return
        ways = next((s.logged_as for s in reversed(self.scopes) if s.logged_as is not None), self.part.logged_as)
        if self.part.bare is not None and "/" not in text:
            ways = self.part.bare
        for way in added:
            for spelled in _renamed("/".join([*self.before, way.replace("{}", text)]), ways):
                self.found.setdefault(spelled, line)
                if both_modes:
                    self.both_modes.add(spelled)

    def take(self, node: ast.expr, added: Spellings = AS_IT_IS, *, both_modes: bool = False) -> None:
        """Note a key, if the expression is a text that says something of its own."""
        if isinstance(node, ast.JoinedStr) and self._only_adds_a_prefix(node):
            return
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.Name):
            for text in self.texts(node) or []:
                self.note(text, node.lineno, added, both_modes=both_modes)

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

    def take_all(self, node: ast.expr, added: Spellings = AS_IT_IS) -> None:
        """Note the keys of every dictionary written inside an expression."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.DictComp):
                self.take(inner.key, added)
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "dict":
                self.take_names(inner, added)
            if not isinstance(inner, ast.Dict):
                continue
            for key, value in zip(inner.keys, inner.values, strict=True):
                # {"train": defaultdict(list), …} names modes, and a table of texts is no metric
                container = isinstance(value, ast.Dict) or (
                    isinstance(value, ast.Call) and _dotted(value.func) in ("defaultdict", "dict", "Table", "deque")
                )
                if key is not None and not container:
                    self.take(key, added)

    def take_names(self, call: ast.Call, added: Spellings) -> None:
        """Note the argument names of a call as keys, and what is unpacked into it."""
        for keyword in call.keywords:
            if keyword.arg is None:
                self.take_all(keyword.value, added)
            elif keyword.arg not in ("denominator", "reduce_type"):
                self.note(keyword.arg, keyword.value.lineno, added)

    # where keys stand

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Remember the texts that the class gives itself; take the fields that are metrics."""
        own = {
            target.id: str(line.value.value)
            for line in node.body
            if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant)
            for target in line.targets
            if isinstance(target, ast.Name) and isinstance(line.value.value, str)
        }
        for line in node.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.value, ast.Call) and line.value.args:
                wanted = self.part.fields.get(_dotted(line.value.func))
                if wanted is not None and self.texts(line.value.args[0]) == [wanted]:
                    self.note(_dotted(line.target), line.lineno, AS_IT_IS)
        self.classes.append(own)
        self.generic_visit(node)
        self.classes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Gather what the function's names can be before its body is read."""
        scope = Scope(logged_as=self.part.functions.get(node.name))
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        defaults = [*node.args.defaults, *node.args.kw_defaults]
        for argument, default in zip(arguments[len(arguments) - len(defaults) :], defaults, strict=False):
            if isinstance(default, ast.Constant) and isinstance(default.value, str):
                scope.names[argument.arg] = [default.value]
        given = self.calls.get(node.name, {})
        for name in {a.arg for a in arguments} & (given.keys() | self.part.names.keys()):
            values = {*scope.names.get(name, []), *given.get(name, []), *self.part.names.get(name, ())}
            scope.names[name] = sorted(values)
        self.scopes.append(scope)
        for _ in range(2):  # what is assigned later, or deeper, may be part of it
            scope.names = self._assigned(node, scope.names)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call) and (added := self.part.keywords.get(_dotted(inner.func))):
                for keyword in inner.keywords:
                    if keyword.arg is None and isinstance(keyword.value, ast.Name):
                        scope.stores[keyword.value.id] = added
        made = node.name.endswith("metrics") and node.name != "compute_metrics"
        scope.gives_metrics = made or node.name in self.part.makers
        if scope.gives_metrics:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Name):
                    scope.stores.setdefault(inner.value.id, AS_IT_IS)
        self.generic_visit(node)
        self.scopes.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def _assigned(self, node: ast.AST, known: Mapping[str, list[str]]) -> dict[str, list[str]]:
        """`known`, and the texts that a function's names are assigned or loop over."""
        found: dict[str, list[str]] = {}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Assign) and len(inner.targets) == 1:
                target, said = inner.targets[0], self.texts(inner.value)
            elif isinstance(inner, ast.For) and isinstance(inner.iter, ast.Tuple | ast.List):
                target, said = inner.target, [t for element in inner.iter.elts for t in self.texts(element) or []]
            else:
                continue
            if said and isinstance(target, ast.Name):
                found.setdefault(target.id, []).extend(said)
        return {**known, **{name: list(dict.fromkeys(texts)) for name, texts in found.items()}}

    def store(self, node: ast.expr) -> Spellings | None:
        """What is added to the keys of a place where metrics are gathered; None where it is no such place."""
        if isinstance(node, ast.Name) and node.id in self.scopes[-1].stores:
            return self.scopes[-1].stores[node.id]
        name = _dotted(node)
        longer = name.endswith("_metrics") and "metrics" in self.part.stores  # `tool_metrics`
        return AS_IT_IS if longer and name not in self.part.stores else self.part.stores.get(name)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """`store[key] = …` and `store[key].append(…)`; a store that is read says nothing new."""
        if isinstance(node.ctx, ast.Store) and (added := self.store(node.value)) is not None:
            self.take(node.slice, added, both_modes=self._in_both_modes(node))
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """`store[key][0] += …`."""
        target = node.target
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Subscript) and (added := self.store(target.value)) is not None:
            self.take(target.slice, added)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """`store[key].append(…)`, `self.log({…})`, `store.update({…})`, and the functions that Part names."""
        function, name = node.func, _dotted(node.func)
        if node.args and (ways := self.part.calls.get(name)):
            for text in self.texts(node.args[0]) or []:
                for way in ways:
                    self.found.setdefault(way.replace("{}", text), node.lineno)
        if added := self.part.keywords.get(name):
            self.take_names(node, added)
        if isinstance(function, ast.Attribute):
            base = function.value
            if isinstance(base, ast.Subscript) and (added := self.store(base.value)) is not None:
                below = isinstance(base.value, ast.Subscript)  # store[mode][key], while store[mode] is a store itself
                if name in ("append", "extend") or (name == "update" and below):
                    self.take(base.slice, added, both_modes=self._in_both_modes(base))
            own = isinstance(base, ast.Name) and base.id == "self"
            above = isinstance(base, ast.Call) and _dotted(base.func) == "super"
            logs = name == "log" and (own or above or _dotted(base) == "accelerator")
            added = self.store(base) if name == "update" else AS_IT_IS if logs or name == "_push_metrics" else None
            if added is not None:
                for argument in node.args:
                    self.take_all(argument, added)
                if name == "update":
                    self.take_names(node, added)
        for keyword in node.keywords:
            if keyword.arg == "metrics":
                self.take_all(keyword.value)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign | ast.AnnAssign) -> None:
        """`metrics = {…}`."""
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            named = node.value is not None and isinstance(target, ast.Name | ast.Attribute)
            if named and (added := self.store(target)) is not None:
                self.take_all(node.value, added)
        self.generic_visit(node)

    visit_AnnAssign = visit_Assign  # noqa: N815

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        """`with scope("update"):` puts its text before what is gathered inside."""
        depth = len(self.before)
        for item in node.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and _dotted(call.func) in self.part.scopes and call.args:
                self.before.append((self.texts(call.args[0]) or [SAMPLE])[0])
        self.generic_visit(node)
        del self.before[depth:]

    visit_AsyncWith = visit_With  # noqa: N815

    def visit_Return(self, node: ast.Return | ast.Yield) -> None:
        """`return {…}` of a function that makes metrics, alone or before something else."""
        first = node.value.elts[0] if isinstance(node.value, ast.Tuple) and node.value.elts else node.value
        if isinstance(first, ast.Dict | ast.Call) and self.scopes[-1].gives_metrics:
            self.take_all(first)
        self.generic_visit(node)

    visit_Yield = visit_Return  # noqa: N815

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


def _constants_of(trees: Iterable[ast.Module]) -> dict[str, list[str]]:
    """The texts that the library's modules give to names in capitals, which other modules import."""
    return {
        target.id: [line.value.value]
        for tree in trees
        for line in tree.body
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
        for target in line.targets
        if isinstance(target, ast.Name) and target.id.isupper()
    }


def keys_of(folder: Path, parts: Sequence[Part]) -> tuple[dict[str, str], list[Part]]:
    """Each key that a library logs, with the place where it does; and the parts in which there is none."""
    files = [sorted({p for pattern in part.files for p in folder.glob(pattern)}) for part in parts]
    trees = {p: ast.parse(p.read_text(encoding="utf-8"), str(p)) for p in sorted({p for some in files for p in some})}
    given, constants = _constants_given(trees.values()), _constants_of(trees.values())
    found: dict[str, str] = {}
    empty: list[Part] = []
    for part, paths in zip(parts, files, strict=True):
        some = False
        for path in paths:
            reader = Keys(part, given, constants)
            reader.visit(trees[path])
            some |= bool(reader.found)
            for key, line in reader.found.items():
                where = f"{path.relative_to(folder.parent)}:{line}"
                found.setdefault(key, where)
                if reader.prefixes_eval and key in reader.both_modes:
                    found.setdefault(f"eval_{key}", where)
        if not some:
            empty.append(part)
    return found, empty


def meaning_of(dialect: Dialect, key: str) -> str | None:
    """The metrics that the dialect takes the key for, in whichever trainer, or why for none; None: it is not known."""
    key = dialect.spell(key)
    metrics = dict.fromkeys(metric for alias in dialect.aliases if (metric := alias.match(key)) is not None)
    if metrics:
        return " or ".join(metrics)
    if key in BESIDE:
        return "counts steps or time"
    why = reason_to_ignore(dialect, key)
    return None if why is None else f"ignored, {why}"


# the libraries


def _unpack(wheel: Path, into: Path) -> None:
    """A wheel's files as an installer would lay them, without running anything."""
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/", 1)[0] for name in archive.namelist()}
        archive.extractall(into)
    for data in (into / top for top in tops if top.endswith(".data")):
        for inner in [p for kind in ("purelib", "platlib") for p in (data / kind).glob("*")]:
            shutil.rmtree(into / inner.name, ignore_errors=True)
            inner.rename(into / inner.name)
        shutil.rmtree(data)


def fetch(requirement: str, name: str, into: Path) -> str | None:
    """Put the newest wheel that fits the requirement into the folder; says why where that cannot be done."""
    with tempfile.TemporaryDirectory() as kept:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
        done = subprocess.run(
            [*command, "--ignore-requires-python", "--disable-pip-version-check", "--dest", kept, requirement],
            capture_output=True,
            text=True,
            check=False,
        )
        wheels = sorted(Path(kept).glob("*.whl"))
        if done.returncode or not wheels:
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            return said[-1] if said else f"pip gave no wheel (exit {done.returncode})"
        shutil.rmtree(into / name, ignore_errors=True)
        for old in into.glob(f"{wheels[0].name.split('-')[0]}-*.dist-info"):
            shutil.rmtree(old)
        _unpack(wheels[0], into)
    return None


def _folder_of(library: Library, site: Path | None) -> Path | None:
    if site is not None:
        return site / library.name if (site / library.name).is_dir() else None
    try:
        importlib.metadata.version(library.distribution)
    except importlib.metadata.PackageNotFoundError:
        return None  # a folder of that name may be another package's
    spec = importlib.util.find_spec(library.name)
    where = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(where[0]) if where else None


def _version_of(library: Library, folder: Path) -> str:
    plain = re.sub(r"[-_.]+", "-", library.distribution).lower()
    for found in importlib.metadata.distributions(path=[str(folder.parent)]):
        if re.sub(r"[-_.]+", "-", found.metadata["Name"] or "").lower() == plain:
            return found.version
    return "of unknown version"


def check(library: Library, folder: Path, *, listing: bool) -> bool:
    """Print what the library logs and what its dialect does not know; whether every key is known."""
    dialect = next(d for d in DIALECTS if d.name == library.dialect)
    found, empty = keys_of(folder, library.parts)
    meanings = {key: meaning_of(dialect, key) for key in sorted(found)}
    unknown = [key for key, meaning in meanings.items() if meaning is None]
    module = library.dialect.replace("-", "_")
    known = f"{len(found) - len(unknown)} of {len(found)} keys known to {module}.py"
    print(f"{library.distribution} {_version_of(library, folder)}: {known}")
    if listing:
        for key, meaning in meanings.items():
            print(f"  {key}  ({found[key]}): {meaning}")
    if not found:
        print("  no key found: the source is written in another way than this script reads")
    for part in empty if found else ():
        print(f"  none in this version's {', '.join(part.files)}")
    for key in unknown:
        print(f"  unknown: {key}  ({found[key]})")
    return bool(found) and not unknown


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--site", type=Path, help="a site-packages folder to read instead of this Python's")
    place.add_argument("--fetch", type=Path, metavar="FOLDER", help="fetch the wheels into FOLDER and read them there")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="leave out the others")
    parser.add_argument("--require", action="append", default=[], metavar="NAME", help="fail where NAME is not there")
    parser.add_argument("--list", action="store_true", help="print every key with its place and meaning")
    options = parser.parse_args(arguments)
    if options.site is not None and not options.site.is_dir():
        parser.error(f"{options.site} is no folder")
    folder = options.fetch
    if folder is not None and folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        parser.error(f"{folder} holds other things, and --fetch would delete some: name a new or an empty folder")
    options.only = {re.split(r"[=<>!~]", text)[0]: text for text in options.only}
    if options.fetch is None and any(name != text for name, text in options.only.items()):
        parser.error("--only NAME==VERSION chooses what to fetch: give --fetch too")
    names = {library.distribution for library in LIBRARIES}
    if strangers := {*options.require, *options.only} - names:
        parser.error(f"{', '.join(sorted(strangers))}: not one of the libraries that are read ({', '.join(sorted(names))})")  # fmt: skip
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the check; the exit code says whether every key is known."""
    options = _options(arguments)
    if options.fetch is not None:
        options.fetch.mkdir(parents=True, exist_ok=True)
        (options.fetch / MARK).touch()
    failed = False
    for library in LIBRARIES:
        name = library.distribution
        if options.only and name not in options.only:
            continue
        missing = "not installed"
        if options.fetch is not None:
            missing = fetch(options.only.get(name, name), library.name, options.fetch) or ""
        folder = None if options.fetch is not None and missing else _folder_of(library, options.fetch or options.site)
        if folder is None:
            print(f"{name}: {missing or f'the wheel has no folder {library.name}'}, not checked")
            failed |= name in options.require
            continue
        failed |= not check(library, folder, listing=options.list)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

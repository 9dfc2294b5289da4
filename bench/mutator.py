"""A source with one small change in it: every such change of a module, and a process of its own to try each in.

Comparisons are flipped, `and` and `or` swapped, parts of a condition left out, conditions made always true or false,
named constants made larger and smaller, yielded signs left out, smallest and largest swapped, plus and minus swapped.
Decorators, annotations and texts are left alone.
"""

from __future__ import annotations

import ast
import copy
import functools
import gc
import io
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, get_args

from vario.rules.base import Sign

LIMIT_S = 20.0
"""A mutant that is not done by then hangs, and is killed; more where the tests themselves take long."""
BIGGER, SMALLER = 1.5, 0.67
SIGNS = frozenset(sign.__name__ for sign in get_args(Sign))
FLIPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
EXTREMES = {"min": "max", "minimum": "maximum", "argmin": "argmax"}
EXTREMES |= {large: small for small, large in EXTREMES.items()}


@dataclass(frozen=True)
class Mutant:
    """A source with one change. `function` is where, empty for a constant of the module."""

    file: str
    line: int
    function: str
    change: str
    tree: ast.Module


Edit = tuple[ast.AST, ast.AST, str]
"""A node, what takes its place, and the change in words."""


def mutants_of(source: str, file: str) -> list[Mutant]:
    """Every mutant of a source, in its order."""
    whole = ast.parse(source)
    found = []
    for function, node in _nodes(whole, ""):
        for old, new, change in _constants(node) if not function else _edits(node):
            # a copy of the tree in which the new node stands for the old one
            tree = ast.fix_missing_locations(copy.deepcopy(whole, {id(old): ast.copy_location(new, old)}))
            found.append(Mutant(file, old.lineno, function, change, tree))
    return found


def _nodes(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    """All nodes with the function they stand in, but for decorators, annotations and texts."""
    yield function, node
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".lstrip(".")
    for name, value in ast.iter_fields(node):
        if name in ("decorator_list", "annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from _nodes(child, function)


def _constants(node: ast.AST) -> Iterator[Edit]:
    """Numbers in the value of a named constant of the module, larger and smaller."""
    match node:
        case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=value) if value:
            names = [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
            if not names or not all(n.isupper() for n in names):
                return
            for number in ast.walk(value):
                if isinstance(number, ast.Constant) and type(number.value) in (int, float):
                    for scaled in _scaled(number.value):
                        yield number, ast.Constant(scaled), f"{', '.join(names)}: {number.value:g} -> {scaled:g}"


def _scaled(value: float) -> tuple[float, ...]:
    if isinstance(value, int):
        return max(value + 1, round(BIGGER * value)), min(value - 1, round(SMALLER * value))
    return (BIGGER * value, SMALLER * value) if value else ()


def _edits(node: ast.AST) -> Iterator[Edit]:
    """Every small change of one node."""
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            for i, op in enumerate(ops):
                flipped = ast.Compare(left, [*ops[:i], FLIPS[type(op)](), *ops[i + 1 :]], others)
                yield _edit(node, flipped)
        case ast.BoolOp(op=op, values=values):
            yield _edit(node, ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))
            for i, one in enumerate(values):
                rest = [*values[:i], *values[i + 1 :]]
                shorter = ast.BoolOp(op, rest) if len(rest) > 1 else rest[0]
                yield node, copy.deepcopy(shorter), f"without `{ast.unparse(one)}`"
        case ast.If(test=test) | ast.IfExp(test=test):
            if not isinstance(node, ast.IfExp) or not (_is_text(node.body) or _is_text(node.orelse)):
                yield _edit(test, ast.Constant(True))
                yield _edit(test, ast.Constant(False))
        case ast.comprehension(ifs=tests):
            for test in tests:
                yield _edit(test, ast.Constant(True))
        case ast.Expr(value=ast.Yield(value=ast.Call(func=ast.Name(id=name)))) if name in SIGNS:
            yield node, ast.Pass(), f"no `yield {name}(...)`"
        case ast.Expr(value=ast.YieldFrom(value=value)):
            yield node, ast.Pass(), f"no `yield from {ast.unparse(value)}`"
        case ast.Call(func=ast.Name(id=name) as called) if name in EXTREMES:
            yield called, ast.Name(EXTREMES[name], ast.Load()), f"{ast.unparse(node)}: {EXTREMES[name]}"
        case ast.Call(func=ast.Attribute(value=of, attr=name) as called) if name in EXTREMES:
            yield called, ast.Attribute(of, EXTREMES[name], ast.Load()), f"{ast.unparse(node)}: {EXTREMES[name]}"
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            if not any(_is_text(side) or isinstance(side, ast.Tuple | ast.List) for side in (left, right)):
                yield _edit(node, ast.BinOp(left, ast.Sub() if isinstance(op, ast.Add) else ast.Add(), right))
        case ast.AugAssign(target=target, op=ast.Add() | ast.Sub() as op, value=value) if not _is_text(value):
            yield _edit(node, ast.AugAssign(target, ast.Sub() if isinstance(op, ast.Add) else ast.Add(), value))
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            yield _edit(node, operand)


def _edit(old: ast.AST, new: ast.AST) -> Edit:
    # copied: a node must not stand twice in a tree
    return old, copy.deepcopy(new), f"`{ast.unparse(old)}` -> `{ast.unparse(new)}`"


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


@dataclass(frozen=True)
class Fate:
    """What became of a mutant: `killed` (and by which test), or how it survived."""

    mutant: Mutant
    fate: str
    by: str = ""

    def __str__(self) -> str:
        m = self.mutant
        return f"{m.file}.py:{m.line} {m.function or 'constant'}: {m.change} ({self.fate})"


def each_apart(jobs: Sequence[Callable[[], Any]], workers: int, limit: float = LIMIT_S) -> list[Any]:
    """The jobs' answers in their order, each from a process of its own; None where it died or was too late."""
    context = multiprocessing.get_context("fork")
    answers: list[Any] = [None] * len(jobs)
    waiting = list(enumerate(jobs))[::-1]
    running: dict[Connection, tuple[int, Any, float]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            place, job = waiting.pop()
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_answer, args=(job, there))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # numpy's threads do nothing while we fork
                process.start()
            there.close()
            running[here] = (place, process, time.perf_counter() + limit)
        ready = wait(list(running), max(0.0, min(by for _, _, by in running.values()) - time.perf_counter()))
        for here, (place, process, by) in list(running.items()):
            if here in ready:
                with suppress(EOFError):
                    answers[place] = here.recv()
            elif time.perf_counter() < by:
                continue
            process.kill()
            process.join()
            here.close()
            del running[here]
    return answers


def _answer(job: Callable[[], Any], there: Connection) -> None:
    gc.disable()
    warnings.simplefilter("error")  # as pytest does
    with redirect_stdout(io.StringIO()):
        there.send(job())
    there.close()


def fates_of(
    mutants: Sequence[Mutant], tried: Callable[[Mutant], tuple[str, str]], workers: int, limit: float = LIMIT_S
) -> list[Fate]:
    """Try each mutant apart; `tried` gives its fate and by which test."""
    gc.collect()
    gc.freeze()  # what the processes share is not copied for the collector's marks
    answers = each_apart([functools.partial(tried, m) for m in mutants], workers, limit)
    gc.unfreeze()
    late = ("killed", f"not done within {limit:.0f} s")
    return [Fate(m, *(answer or late)) for m, answer in zip(mutants, answers, strict=True)]

"""Mutants: a change of one function, made in the loaded module and not in its file."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import random
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, ModuleType

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
OTHER_COMPARISONS = {"Lt": "<=", "LtE": "<", "Gt": ">=", "GtE": ">", "Eq": "!=", "NotEq": "=="}


ENVIRONMENT = "DULY_MUTANT"
"""Where processes that tests start find the mutant: the repr of its fields."""


class StaleMutantError(AssertionError):
    """A mutant whose fragment is gone: the code has changed, and the mutant has to follow."""


@dataclass(frozen=True)
class Mutant:
    """A fragment of a symbol, what stands there instead, and the tests that must notice."""

    module: str
    symbol: str
    """A function, `Class.method`, or a constant of the module."""
    old: str
    new: str
    tests: tuple[str, ...] = ()
    place: int | None = None
    """Where in the symbol's source the fragment is; None for the only place."""

    @property
    def change(self) -> str:
        return f"{' '.join(self.old.split())!r} -> {' '.join(self.new.split())!r}"

    def apply(self) -> None:
        """Change the symbol for this process: every importer has the same function object."""
        source = Source(importlib.import_module(self.module))
        changed = source.changed(self)
        if isinstance(source.nodes[self.symbol], FUNCTIONS):
            code = compile(changed, source.module.__file__ or "", "exec", dont_inherit=True)
            function_of(source.module, self.symbol).__code__ = nested(code, self.symbol)
        else:
            set_constant(source.module, self.symbol, changed)


def apply_from_environment() -> None:
    """Apply the mutant of the process that started this one, if it has one."""
    if ENVIRONMENT in os.environ:
        Mutant(**ast.literal_eval(os.environ[ENVIRONMENT])).apply()


class Source:
    """The source of a module, by its symbols."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.text = inspect.getsource(module)
        self.tree = ast.parse(self.text)

    @cached_property
    def nodes(self) -> dict[str, ast.stmt]:
        """Every function, method and constant by its name."""
        return dict(named(self.tree.body))

    @cached_property
    def starts(self) -> list[int]:
        """Where each line begins, in bytes."""
        starts = [0]
        for line in self.text.encode().splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return starts

    def span(self, node: Any) -> tuple[int, int]:
        """Return where a node's source begins and ends, in bytes."""
        starts = self.starts
        return starts[node.lineno - 1] + node.col_offset, starts[
            node.end_lineno - 1
        ] + node.end_col_offset

    def part(self, node: Any) -> str:
        start, end = self.span(node)
        return self.text.encode()[start:end].decode()

    def changed(self, mutant: Mutant) -> str:
        """Return the module's source with the change in it."""
        node = self.nodes.get(mutant.symbol)
        if node is None:
            raise StaleMutantError(f"{mutant.module} has no {mutant.symbol}")
        start, end = self.span(node)
        text, old = self.text.encode(), mutant.old.encode()
        found = text[start:end].count(old)
        if found == 0 or (found > 1 and mutant.place is None):
            raise StaleMutantError(
                f"{mutant.module}.{mutant.symbol} has {found} times {mutant.old!r}"
            )
        at = start + (text[start:end].index(old) if mutant.place is None else mutant.place)
        return (text[:at] + mutant.new.encode() + text[at + len(old) :]).decode()


def named(body: list[ast.stmt], within: str = "") -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield within + node.name, node
            case ast.ClassDef():
                yield from named(node.body, f"{within}{node.name}.")
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield within + name, node


def function_of(module: ModuleType, symbol: str) -> Any:
    """Return the plain function behind a symbol, whatever it is wrapped in."""
    found: Any = module
    for name in symbol.split("."):
        found = inspect.getattr_static(found, name)
    found = getattr(found, "fget", None) or getattr(found, "__func__", found)
    return inspect.unwrap(found)


def nested(code: CodeType, symbol: str) -> CodeType:
    """Return the code of a symbol out of its module's; of overloads the last."""
    wanted = [code]
    for name in symbol.split("."):
        wanted = [
            part for whole in wanted for part in whole.co_consts
            if inspect.iscode(part) and part.co_name == name
        ]  # fmt: skip
    return wanted[-1]


def set_constant(module: ModuleType, symbol: str, changed: str) -> None:
    """Give a constant its changed value, also where it was imported by name."""
    node = dict(named(ast.parse(changed).body))[symbol]
    assert isinstance(node, ast.Assign)
    value = eval(compile(ast.Expression(node.value), symbol, "eval"), vars(module))  # noqa: S307
    old = vars(module)[symbol]
    for one in [module, *sys.modules.values()]:
        if getattr(one, "__name__", "").startswith("duly") and vars(one).get(symbol) is old:
            setattr(one, symbol, value)


def drawn(module: str, seed: int, count: int) -> list[Mutant]:
    """Draw mutants of a module's functions: the same for a seed, as long as its source is."""
    source = Source(importlib.import_module(module))
    found = [
        Mutant(
            module,
            symbol,
            source.part(node),
            new,
            place=source.span(node)[0] - source.span(function)[0],
        )
        for symbol, function in source.nodes.items()
        if isinstance(function, FUNCTIONS)
        for node, new in changes(source, function)
    ]
    return random.Random(f"{seed}:{module}").sample(found, min(count, len(found)))


def changes(source: Source, function: Any) -> Iterator[tuple[ast.AST, str]]:
    """Yield what can be changed in a function, and into what."""
    is_documented = ast.get_docstring(function) is not None
    for statement in function.body[is_documented:]:
        for node in ast.walk(statement):
            match node:
                case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                    yield test, f"(not ({source.part(test)}))"
                case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise():
                    yield node, "pass"
                case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                    yield node, "pass"
                case ast.expr():
                    yield from changes_of_values(source, node)


def changes_of_values(source: Source, node: ast.expr) -> Iterator[tuple[ast.AST, str]]:
    """Yield numbers and comparisons that are off by one, and arguments that are swapped."""
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            yield node, f"{number + 1}"
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            other = OTHER_COMPARISONS.get(type(operator).__name__)
            if other is not None:
                yield node, f"{source.part(left)} {other} {source.part(right)}"
        case ast.Call(args=[first, second, *_]) if not isinstance(second, ast.Starred):
            if not isinstance(first, ast.Starred):
                both = ast.Tuple([first, second])
                both.lineno, both.col_offset = first.lineno, first.col_offset
                both.end_lineno, both.end_col_offset = second.end_lineno, second.end_col_offset
                yield both, f"{source.part(second)}, {source.part(first)}"

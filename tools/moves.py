"""Moves modules and symbols as tools/moves.tsv says, and changes nothing else.

    python tools/moves.py            say what would be refused
    python tools/moves.py --apply    move, and rewrite everything that names what has moved
    python tools/moves.py --compare OLD NEW    compare all bodies of two trees

A row of the table is "old path, new path", or "old path:Symbol, new path" for a symbol that leaves its
module. Modules with one new path are merged in the order in which they import each other. A row
"old path:name, =new_name" renames a module's own name, where two of them would collide.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("moves.tsv")
DOCSTRINGS = Path(__file__).with_name("docstrings.tsv")
ROOTS = ("src/", "conformance/")
READ_TOO = ("tests/", "bench/")
TEXTS = (".md", ".toml", ".tsv", ".txt", ".json", ".html", ".yml", ".yaml", ".ini", ".cfg")
NOT_READ = ("tools/", "changelog.d/")
EXTRAS = frozenset({"aiohttp", "psycopg", "opentelemetry", "holidays"})
LATE = ("src/duly/engine/executors/webhook_client.py",)
"""Imported inside functions alone."""


def module_of(path: str) -> str:
    """Return the dotted name of a file."""
    for root in ROOTS:
        path = path.removeprefix(root)
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def tracked(root: Path) -> list[str]:
    """Return the files that git knows."""
    told = subprocess.run(
        ["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=True
    )
    return told.stdout.split("\n")[:-1]


class Scope:
    """Names that one module, class, function or comprehension binds."""

    def __init__(self, parent: Scope | None, kind: str) -> None:
        self.parent, self.kind = parent, kind
        self.bound: set[str] = set()
        self.elsewhere: dict[str, Scope] = {}

    def find(self, name: str) -> Scope:
        """Return the scope that a name means when it is read here."""
        scope: Scope | None = self
        first = True
        while scope is not None:
            if scope.kind != "class" or first:
                if name in scope.elsewhere:
                    return scope.elsewhere[name]
                if name in scope.bound or scope.parent is None:
                    return scope
            first = False
            scope = scope.parent
        raise AssertionError(name)

    @property
    def top(self) -> Scope:
        """Return the module's scope."""
        return self if self.parent is None else self.parent.top


@dataclass
class Use:
    """A place in the text that means a bound name."""

    start: int
    end: int
    name: str
    scope: Scope
    node: ast.AST


class Names(ast.NodeVisitor):
    """Finds which scope each name of a module belongs to."""

    def __init__(self, source: bytes, tree: ast.Module) -> None:
        self.source = source
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.module = self.scope = Scope(None, "module")
        self.pending: list[tuple[int, int, str, Scope, ast.AST]] = []
        self.imports: list[tuple[ast.Import | ast.ImportFrom, Scope]] = []
        self.attributes: dict[int, ast.Attribute] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                self.attributes[id(node.value)] = node
        self.visit(tree)
        self.uses = [Use(a, b, name, scope.find(name), node) for a, b, name, scope, node in self.pending]

    def at(self, line: int, column: int) -> int:
        """Return the offset of a place."""
        return self.lines[line - 1] + column

    def note(self, node: ast.expr | ast.alias, name: str) -> None:
        """Remember a use of a name."""
        start = self.at(node.lineno, node.col_offset)
        self.pending.append((start, start + len(name.encode()), name, self.scope, node))

    def named(self, node: ast.AST, name: str, after: str) -> None:
        """Remember the name in a definition."""
        start = self.at(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        found = re.compile(rf"{after}\s+({re.escape(name)})\b".encode()).search(self.source, start)
        assert found is not None
        self.pending.append((found.start(1), found.end(1), name, self.scope, node))

    def inside(self, kind: str, nodes: Iterable[ast.AST | None], bound: Iterable[str] = ()) -> None:
        """Visit nodes in a scope of their own."""
        outer, self.scope = self.scope, Scope(self.scope, kind)
        self.scope.bound.update(bound)
        for node in nodes:
            if node is not None:
                self.visit(node)
        self.scope = outer

    def bind(self, name: str) -> None:
        """Bind a name where it is assigned."""
        scope = self.scope
        if name not in scope.elsewhere:
            scope.bound.add(name)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Bind a function here, its parameters inside."""
        self.bind(node.name)
        self.named(node, node.name, "def")
        spec = node.args
        given = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
        given += [one for one in (spec.vararg, spec.kwarg) if one is not None]
        outer: list[ast.AST | None] = [*node.decorator_list, *spec.defaults, *spec.kw_defaults]
        outer += [one.annotation for one in given]
        outer.append(node.returns)
        for one in outer:
            if one is not None:
                self.visit(one)
        self.inside("function", node.body, [one.arg for one in given])

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Bind a lambda's parameters inside."""
        spec = node.args
        given = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
        given += [one for one in (spec.vararg, spec.kwarg) if one is not None]
        for one in (*spec.defaults, *spec.kw_defaults):
            if one is not None:
                self.visit(one)
        self.inside("function", [node.body], [one.arg for one in given])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Bind a class here, its body inside."""
        self.bind(node.name)
        self.named(node, node.name, "class")
        for one in (*node.decorator_list, *node.bases, *(word.value for word in node.keywords)):
            self.visit(one)
        self.inside("class", node.body)

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        """Visit a comprehension; its first iterable belongs outside."""
        first, *others = node.generators
        self.visit(first.iter)
        parts: list[ast.AST | None] = [first.target, *first.ifs, *others]
        parts += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self.inside("comprehension", parts)

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = comprehension

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        """Bind outside of comprehensions."""
        inner = self.scope
        while self.scope.kind == "comprehension":
            assert self.scope.parent is not None
            self.scope = self.scope.parent
        self.bind(node.target.id)
        self.scope = inner
        self.note(node.target, node.target.id)
        self.visit(node.value)

    def visit_Global(self, node: ast.Global) -> None:
        """Let names mean the module's."""
        for name in node.names:
            self.scope.elsewhere[name] = self.module
            self.scope.bound.discard(name)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        """Let names mean those of the function around."""
        for name in node.names:
            assert self.scope.parent is not None
            self.scope.elsewhere[name] = self.scope.parent.find(name)

    def visit_Name(self, node: ast.Name) -> None:
        """Bind or read a name."""
        if not isinstance(node.ctx, ast.Load):
            self.bind(node.id)
        self.note(node, node.id)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        """Bind the exception."""
        if node.name:
            self.bind(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        """Bind what a pattern captures."""
        if node.name:
            self.bind(node.name)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        """Bind what a pattern captures."""
        if node.name:
            self.bind(node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        """Bind what a pattern captures."""
        if node.rest:
            self.bind(node.rest)
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        """Bind imported modules."""
        for one in node.names:
            self.bind(one.asname or one.name.partition(".")[0])
        self.imports.append((node, self.scope))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Bind imported names."""
        for one in node.names:
            self.bind(one.asname or one.name)
        self.imports.append((node, self.scope))


@dataclass
class File:
    """A Python file as it is read."""

    path: str
    source: bytes
    tree: ast.Module = field(init=False)
    names: Names = field(init=False)

    def __post_init__(self) -> None:
        self.tree = ast.parse(self.source, self.path)
        self.names = Names(self.source, self.tree)

    @property
    def module(self) -> str:
        """Return the dotted name."""
        return module_of(self.path)

    def defined(self) -> dict[str, ast.stmt]:
        """Return the names that the module itself defines, with the statement that does."""
        found: dict[str, ast.stmt] = {}
        for node in self.tree.body:
            for name in bound_by(node):
                found.setdefault(name, node)
        return found

    def exported(self) -> set[str]:
        """Return the names in `__all__`."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                return set(ast.literal_eval(node.value))
        return set()

    def offers(self, name: str) -> bool:
        """Whether it imports something else than its own module of that name."""
        return self.imported().get(name, (self.module, name)) != (self.module, name)

    def imported(self) -> dict[str, tuple[str, str]]:
        """Return the names that the module imports at its top: name to (module, name)."""
        found = {}
        for node, scope in self.names.imports:
            if isinstance(node, ast.ImportFrom) and scope is self.names.module:
                for one in node.names:
                    found[one.asname or one.name] = (node.module or "", one.name)
        return found


def bound_by(node: ast.stmt) -> Iterator[str]:
    """Return the names that a statement at the top of a module defines; imports define none."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.For):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            yield from (one.id for one in ast.walk(target) if isinstance(one, ast.Name))


class Plan:
    """What goes where."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[str, File] = {}
        self.moved: dict[str, str] = {}
        self.symbols: dict[tuple[str, str], str] = {}
        self.renamed: dict[tuple[str, str], str] = {}
        self.dropped: set[tuple[str, str]] = set()
        self.paths: dict[str, str] = {}
        self.refusals: list[str] = []
        for path in tracked(root):
            if path.endswith(".py") and path.startswith((*ROOTS, *READ_TOO)):
                if (root / path).exists():
                    self.files[path] = File(path, (root / path).read_bytes())
        self.modules = {
            file.module: file for file in self.files.values() if file.path.startswith((*ROOTS, *READ_TOO))
        }
        self.read_table()
        self.collide()

    def read_table(self) -> None:
        """Read the table, and refuse what is not in the tree or not in the table."""
        listed = set()
        for line in TABLE.read_text().splitlines():
            if not line or line.startswith("#"):
                continue
            old, new = line.split("\t")[:2]
            path, _, symbol = old.partition(":")
            module = module_of(path)
            if symbol and new.startswith("="):
                self.renamed[module, symbol] = new[1:]
            elif symbol:
                self.symbols[module, symbol] = new
                if symbol not in self.files[path].defined():
                    self.refusals.append(f"{path} does not define {symbol}")
            else:
                listed.add(path)
                self.paths[path] = new
                self.moved[module] = module_of(new)
            if path not in self.files:
                self.refusals.append(f"{path} is not in the tree")
        for path in self.files:
            if path.startswith(ROOTS) and path not in listed:
                self.refusals.append(f"{path} is not in the table")

    def target(self, path: str) -> str:
        """Return the new path of a file."""
        return self.paths.get(path, path)

    def home(self, module: str, name: str, depth: int = 0) -> tuple[str, str]:
        """Return where a name of a module lives afterwards: module and name."""
        file = self.modules.get(module)
        if file is None:
            return module, name
        if name not in file.defined():
            origin = file.imported().get(name)
            stays = self.target(file.path).endswith("__init__.py") or (
                self.moved.get(module) == module and name in file.exported()
            )
            if origin and depth < 5 and not stays and origin[0].split(".")[0].startswith("duly"):
                if f"{origin[0]}.{origin[1]}" not in self.modules:
                    return self.home(*origin, depth + 1)
            if origin and depth < 5 and origin[0].split(".")[0].startswith("duly"):
                if f"{origin[0]}.{origin[1]}" not in self.modules and origin[1] == name:
                    return self.moved.get(module, module), self.home(*origin, depth + 1)[1]
        to = self.symbols.get((module, name))
        new = module_of(to) if to else self.moved.get(module, module)
        is_own = name in file.defined()
        return new, self.renamed.get((module, name), name) if is_own else name

    def groups(self) -> dict[str, list[str]]:
        """Return the files that each new path is made of."""
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.files:
            found[self.target(path)].append(path)
        return found

    def collide(self) -> None:
        """Refuse names that two merged modules define or import differently."""
        for new, parts in self.groups().items():
            if len(parts) == 1:
                continue
            seen: dict[str, tuple[str, str]] = {}
            for path in self.order(new, parts):
                file = self.files[path]
                for name, node in file.defined().items():
                    if name == "__all__" or (file.module, name) in self.symbols:
                        continue
                    final = self.renamed.get((file.module, name), name)
                    shape = ast.dump(node)
                    if final in seen and seen[final][1] == shape and final == name and not isinstance(node, ast.If):
                        self.dropped.add((file.module, name))
                    elif final in seen:
                        self.refusals.append(f"{new}: {final} of {seen[final][0]} and of {path}")
                    else:
                        seen[final] = (path, shape)
            for path in parts:
                self.check_imports(new, path, seen)
                self.check_extras(new, parts)
                if self.is_program(path):
                    self.refusals.append(f"{path} is run by its path, and can't be merged")

    def check_imports(self, new: str, path: str, seen: dict[str, tuple[str, str]]) -> None:
        """Refuse imports that another part of a merged module would hide, or the reverse."""
        for name, (module, original) in self.files[path].imported().items():
            home = self.home(module, original)
            if home[0] == module_of(new) and f"{module}.{original}" not in self.modules:
                continue
            if f"{module}.{original}" in self.modules and self.moved.get(f"{module}.{original}") == module_of(new):
                continue
            file = self.files[path]
            local = self.renamed.get((file.module, name)) or (home[1] if name == original else name)
            if local in seen and seen[local][1] != f"{home}":
                self.refusals.append(f"{new}: {local} of {seen[local][0]}, imported from {module} by {path}")
            else:
                seen[local] = (path, f"{home}")

    def is_program(self, path: str) -> bool:
        """Whether a module is run as a file: another one uses its `__file__`."""
        name = Path(path).stem
        return any(f"{name}.__file__".encode() in file.source for file in self.files.values())

    def check_extras(self, new: str, parts: list[str]) -> None:
        """Refuse to merge what needs an optional extra with what does not."""
        needs = {}
        for path in parts:
            needs[path] = {
                name
                for node in self.files[path].tree.body
                if isinstance(node, ast.Import | ast.ImportFrom)
                for name in (
                    [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
                )
                if name.split(".")[0] in EXTRAS
            }
        if any(needs.values()) and not all(needs.values()) and new not in LATE:
            line = f"{new}: some parts import an optional extra: {needs}"
            if line not in self.refusals:
                self.refusals.append(line)

    def order(self, new: str, parts: list[str]) -> list[str]:
        """Return parts so that each comes after those that it imports when it is loaded."""
        modules = {module_of(path): path for path in parts}
        needs: dict[str, set[str]] = {}
        for path in parts:
            needs[path] = set()
            for node in self.files[path].tree.body:
                if isinstance(node, ast.ImportFrom):
                    full = {f"{node.module}.{one.name}" for one in node.names} | {node.module}
                    needs[path] |= {modules[one] for one in full if one in modules} - {path}
        ordered: list[str] = []
        left = sorted(parts, key=lambda path: (path != new, path))
        while left:
            ready = [path for path in left if not needs[path] - set(ordered)]
            if not ready:
                self.refusals.append(f"{new}: {left} import each other")
                return ordered + left
            ordered.append(ready[0])
            left.remove(ready[0])
        return ordered


class Rewriting:
    """One file's text, with its imports as they are afterwards."""

    def __init__(self, plan: Plan, file: File) -> None:
        self.plan, self.file = plan, file
        self.here = module_of(plan.target(file.path))
        self.edits: list[tuple[int, int, bytes]] = []
        self.local: dict[str, str] = {}

    def text(self) -> bytes:
        """Return the text."""
        for node, scope in self.file.names.imports:
            if isinstance(node, ast.ImportFrom) and node.module:
                self.rewrite_import(node, scope)
            elif isinstance(node, ast.Import):
                self.rewrite_whole(node)
        self.rewrite_chains()
        module = self.file.names.module
        for (owner, name), new in self.plan.renamed.items():
            if owner == self.file.module:
                self.rename(module, name, new)
        self.rename_strings()
        self.empty_blocks()
        source = self.file.source
        for start, end, put in sorted(set(self.edits), reverse=True):
            source = source[:start] + put + source[end:]
        return source

    def rewrite_whole(self, node: ast.Import) -> None:
        """Rewrite `import duly.a.b`, and `duly.a.b` where it is used."""
        for one in node.names:
            new = self.plan.moved.get(one.name, one.name)
            if new == one.name:
                continue
            start = self.file.names.at(one.lineno, one.col_offset)
            self.edits.append((start, start + len(one.name), new.encode()))

    def rewrite_chains(self) -> None:
        """Rewrite `duly.a.b` where it is used whole."""
        moved = self.plan.moved
        found: list[tuple[int, int, str]] = []
        for node in ast.walk(self.file.tree):
            if isinstance(node, ast.Attribute) and (chain := ast.unparse(node)) in moved:
                parent, _, last = chain.rpartition(".")
                package = self.plan.modules.get(parent)
                if chain.startswith(("duly", "tests")) and not (package and package.offers(last)):
                    start = self.file.names.at(node.lineno, node.col_offset)
                    found.append((start, self.end_of(node), moved[chain]))
        for start, end, new in found:
            if not any(a == start and b > end for a, b, _ in found):
                self.edits.append((start, end, new.encode()))

    def rename(self, scope: Scope, name: str, new: str) -> None:
        """Rename all uses of a binding."""
        if name == new:
            return
        if scope is self.file.names.module or name[0].isupper():
            self.local[name] = new
        if new in self.file.names.module.bound:
            self.plan.refusals.append(f"{self.file.path}: {new} (for {name}) is taken here")
        for use in self.file.names.uses:
            if use.name == name and use.scope is scope:
                self.check_place(use)
                self.check_free(use, new, scope)
                self.edits.append((use.start, use.end, new.encode()))

    def rename_strings(self) -> None:
        """Rename names in types that are written as strings, and in `__all__`."""
        if not self.local:
            return
        found: list[ast.AST] = []
        for node in ast.walk(self.file.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "cast":
                found += ast.walk(node.args[0])
            elif isinstance(node, ast.Subscript):
                found += ast.walk(node.slice)
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                found += ast.walk(node.value)
        for one in found:
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                start = self.file.names.at(one.lineno, one.col_offset)
                text = self.file.source[start : self.end_of(one)].decode()
                fresh = text
                for old, new in self.local.items():
                    fresh = re.sub(rf"(?<![\w.]){old}(?!\w)", new, fresh)
                if fresh != text:
                    self.edits.append((start, self.end_of(one), fresh.encode()))

    def check_place(self, use: Use) -> None:
        """Refuse where the parser does not know the place of a name, as in some f-strings."""
        if self.file.source[use.start : use.end] != use.name.encode():
            self.refuse(use.node, f"the place of {use.name} is not known")

    def refuse(self, node: ast.AST, why: str) -> None:
        """Note what cannot be done."""
        self.plan.refusals.append(f"{self.file.path}:{node.lineno}: {why}")  # type: ignore[attr-defined]

    def rewrite_import(self, node: ast.ImportFrom, scope: Scope) -> None:
        """Give each imported name its new home."""
        plan, module = self.plan, node.module or ""
        put: list[tuple[str, str]] = []
        changed = False
        for one in node.names:
            full, local = f"{module}.{one.name}", one.asname or one.name
            package = plan.modules.get(module)
            if full in plan.modules and not (package and package.offers(one.name)):
                fresh = self.module_import(node, scope, full, local)
            else:
                fresh = self.symbol_import(node, scope, (module, one.name), one.asname)
            changed |= fresh != [(module, f"{one.name} as {one.asname}" if one.asname else one.name)]
            put += fresh
        if changed:
            self.replace(node, put)

    def symbol_import(
        self, node: ast.ImportFrom, scope: Scope, origin: tuple[str, str], asname: str | None
    ) -> list[tuple[str, str]]:
        """Return how one name is imported afterwards."""
        module, name = origin
        home, new = self.plan.home(module, name)
        local = asname or name
        if home == self.here:
            self.free(scope, local, new)
            return []
        given = self.plan.renamed.get((self.file.module, local))
        if given and scope is self.file.names.module:
            return [(home, f"{new} as {given}")]
        if asname:
            return [(home, f"{new} as {asname}")]
        self.rename(scope, name, new)
        return [(home, new)]

    def free(self, scope: Scope, local: str, new: str) -> None:
        """Let uses of an import mean the module's own name."""
        for use in self.file.names.uses:
            if use.name == local and use.scope is scope:
                if new != local:
                    self.check_place(use)
                    self.edits.append((use.start, use.end, new.encode()))
                self.check_free(use, new, scope)

    def check_free(self, use: Use, new: str, scope: Scope) -> None:
        """Refuse when a name would be hidden where it is used."""
        for _, _, name, place, found in self.file.names.pending:
            if found is use.node and place.find(new) is not place.top and place.find(new) is not scope:
                self.refuse(use.node, f"{new} is hidden by a local name")

    def module_import(
        self, node: ast.ImportFrom, scope: Scope, full: str, local: str
    ) -> list[tuple[str, str]]:
        """Return how a module is imported afterwards."""
        plan = self.plan
        new = plan.moved.get(full, full)
        uses = [use for use in self.file.names.uses if use.name == local and use.scope is scope]
        homes = set()
        for use in uses:
            attribute = self.file.names.attributes.get(id(use.node))
            if attribute is not None:
                homes.add(plan.home(full, attribute.attr))
        if new == self.here:
            for use in uses:
                self.unqualify(use, full, scope)
            return []
        if new == full and all(home[0] == full for home in homes):
            self.rename_attributes(uses, full)
            parent, _, last = new.rpartition(".")
            asname = next(one.asname for one in node.names if (one.asname or one.name) == local)
            return [(parent, f"{last} as {asname}" if asname else last)]
        if plan.modules[full].path.endswith("__init__.py") or all(home[0] == new for home in homes):
            return self.renamed_module(node, scope, full, local, uses)
        put = []
        for use in uses:
            attribute = self.file.names.attributes.get(id(use.node))
            if attribute is None:
                self.refuse(use.node, f"{local} is used whole, but its names go to several modules")
                continue
            home, name = plan.home(full, attribute.attr)
            self.unqualify(use, full, scope)
            put.append((home, name))
        return sorted(set(put))

    def renamed_module(
        self, node: ast.ImportFrom, scope: Scope, full: str, local: str, uses: list[Use]
    ) -> list[tuple[str, str]]:
        """Import a module under its new name, and use it by that name where that is free."""
        new = self.plan.moved.get(full, full)
        parent, _, last = new.rpartition(".")
        self.rename_attributes(uses, full)
        was_named_otherwise = local != full.rpartition(".")[2]
        same = {
            one.asname or one.name
            for other, where in self.file.names.imports
            if isinstance(other, ast.ImportFrom) and where is scope
            for one in other.names
            if self.plan.moved.get(f"{other.module}.{one.name}", f"{other.module}.{one.name}") == new
        }
        taken = last != local and any(
            place.find(last).bound.__contains__(last) and last not in same
            for _, _, _, place, found in self.file.names.pending
            for use in uses
            if found is use.node
        )
        taken = taken or (last != local and last in self.file.names.module.bound and last not in same)
        if was_named_otherwise or taken:
            return [(parent, f"{last} as {local}" if last != local else last)]
        self.rename(scope, local, last)
        return [(parent, last)]

    def rename_attributes(self, uses: list[Use], full: str) -> None:
        """Write `module.new` for `module.old`."""
        for use in uses:
            attribute = self.file.names.attributes.get(id(use.node))
            if attribute is not None:
                name = self.plan.home(full, attribute.attr)[1]
                if name != attribute.attr:
                    end = self.end_of(attribute)
                    self.edits.append((end - len(attribute.attr), end, name.encode()))

    def unqualify(self, use: Use, full: str, scope: Scope) -> None:
        """Write `name` for `module.name`."""
        attribute = self.file.names.attributes.get(id(use.node))
        if attribute is None:
            self.refuse(use.node, f"{use.name} is used whole")
            return
        name = self.plan.home(full, attribute.attr)[1]
        self.check_place(use)
        self.edits.append((use.start, self.end_of(attribute), name.encode()))
        self.check_free(use, name, scope)

    def end_of(self, node: ast.expr | ast.stmt) -> int:
        """Return where a node ends."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.file.names.at(node.end_lineno, node.end_col_offset)

    def replace(self, node: ast.ImportFrom, put: list[tuple[str, str]]) -> None:
        """Write other imports in the place of one."""
        by_module: dict[str, list[str]] = defaultdict(list)
        for module, name in put:
            if name not in by_module[module]:
                by_module[module].append(name)
        names = self.file.names
        start = names.at(node.lineno, node.col_offset)
        line = names.lines[node.end_lineno or node.lineno]
        rest = self.file.source[self.end_of(node) : line].strip()
        indent = b" " * node.col_offset
        lines = [
            f"from {module} import {', '.join(sorted(of))}".encode() for module, of in sorted(by_module.items())
        ]
        if rest:
            lines = [one + b"  " + rest for one in lines]
        if lines:
            self.edits.append((start, line, (b"\n" + indent).join(lines) + b"\n"))
        else:
            self.edits.append((start - node.col_offset, line, b""))

    def empty_blocks(self) -> None:
        """Drop blocks whose imports are all gone."""
        gone = {edit[1] for edit in self.edits if edit[2] == b""}
        for node in ast.walk(self.file.tree):
            if isinstance(node, ast.If) and is_type_checking(node):
                ends = [self.file.names.lines[one.end_lineno or one.lineno] for one in node.body]
                if all(end in gone for end in ends):
                    start = self.file.names.at(node.lineno, 0)
                    self.edits = [one for one in self.edits if not start <= one[0] < ends[-1]]
                    self.edits.append((start, ends[-1], b""))


def is_type_checking(node: ast.stmt) -> bool:
    """Whether a statement is for type checkers alone."""
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id in ("TYPE_CHECKING", "_TYPE_CHECKING")
    )


def split_body(source: bytes, leave: set[str], dropped: set[str]) -> tuple[list[str], list[str], str, str]:
    """Return a module's imports, those for type checkers, its docstring, and the rest of its text."""
    text = source.decode()
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    keep = [True] * len(lines)
    imports, typed = [], []
    for node in tree.body:
        start, end = node.lineno - 1, node.end_lineno or node.lineno
        if isinstance(node, ast.Import | ast.ImportFrom):
            comment = re.search(r"#.*$", lines[end - 1])
            imports.append(ast.unparse(node) + (f"  {comment[0]}" if comment else ""))
        elif is_type_checking(node):
            assert isinstance(node, ast.If)
            typed += [ast.unparse(one) for one in node.body]
        elif names := set(bound_by(node)):
            decorators = getattr(node, "decorator_list", [])
            start = min([start, *(one.lineno - 1 for one in decorators)])
            if not names & (leave | dropped | {"__all__"}):
                continue
            after = following_text(tree, node)
            end = after if after is not None else end
        else:
            continue
        while start > 0 and lines[start - 1].startswith("#") and not isinstance(node, ast.Import | ast.ImportFrom):
            start -= 1
        keep[start:end] = [False] * (end - start)
    docstring = ast.get_docstring(tree, clean=False) or ""
    if docstring:
        first = tree.body[0]
        keep[first.lineno - 1 : first.end_lineno] = [False] * ((first.end_lineno or 1) - first.lineno + 1)
    rest = "".join(line for line, kept in zip(lines, keep, strict=True) if kept)
    return imports, typed, docstring, rest.strip("\n")


def following_text(tree: ast.Module, node: ast.stmt) -> int | None:
    """Return where the text that explains a constant ends."""
    index = tree.body.index(node)
    if index + 1 < len(tree.body):
        after = tree.body[index + 1]
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            return after.end_lineno
    return None


class Texts:
    """Names of modules in strings and documents."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.changed: Counter[str] = Counter()
        self.made = {module_of(new) for new in plan.paths.values()} - set(plan.modules)
        self.moved = {
            old: new
            for old, new in plan.moved.items()
            if (old != new and new != "-") or any(module == old for module, _ in (*plan.symbols, *plan.renamed))
        }
        self.importing = re.compile(r"(?<!\w)from ((?:duly|tests)[\w.]*) import (\w+(?: as \w+)?(?:, \w+(?: as \w+)?)*)")
        self.dotted = re.compile(r"(?<![\w.\-/])(?:duly(?:_web)?|tests)(?:\.\w+)+(?::\w+)?")
        self.pathlike = re.compile(r"(?<![\w.])(?:[\w.-]+/)*\w+\.py\b")
        self.by_path = {old: new for old, new in plan.paths.items() if old != new}

    def rewrite_python(self, text: str, path: str) -> str:
        """Return a module with the new names in its strings and comments."""
        lines = text.splitlines(keepends=True)
        found = list(tokenize.generate_tokens(iter(lines).__next__))
        for token in reversed(found):
            if token.type in (tokenize.STRING, tokenize.COMMENT):
                fresh = self.rewrite(token.string, path)
                if fresh != token.string:
                    (first, start), (last, end) = token.start, token.end
                    before, after = lines[first - 1][:start], lines[last - 1][end:]
                    lines[first - 1 : last] = [before + fresh + after]
        return "".join(lines)

    def rewrite(self, text: str, path: str) -> str:
        """Return a text with the new names."""
        if path.endswith((".py", ".md")):
            text = self.importing.sub(self.imports, text)
        text = self.dotted.sub(lambda found: self.name(found[0], path), text)
        return self.pathlike.sub(lambda found: self.path(found[0], path), text)

    def imports(self, found: re.Match[str]) -> str:
        """Return imports in the text of a program as they are afterwards."""
        module, names = found[1], [one.split(" as ") for one in found[2].split(", ")]
        plan = self.plan
        if module not in plan.modules and module not in plan.moved:
            return found[0]
        by_module: dict[str, list[str]] = defaultdict(list)
        for name, *alias in names:
            full, package = f"{module}.{name}", plan.modules.get(module)
            if full in plan.modules and not (package and package.offers(name)):
                parent, _, last = plan.moved.get(full, full).rpartition(".")
                local = alias[0] if alias else name
                by_module[parent].append(last if last == local else f"{last} as {local}")
            else:
                home, new = plan.home(module, name)
                if alias or new != name:
                    new = f"{new} as {alias[0] if alias else name}"
                by_module[home].append(new)
        return "; ".join(f"from {home} import {', '.join(of)}" for home, of in by_module.items())

    def name(self, dotted: str, path: str) -> str:
        """Return a dotted name as it is afterwards."""
        words = re.split(r"([.:])", dotted)
        for end in range(len(words), 0, -2):
            module = "".join(words[:end])
            if ":" not in module and module in self.plan.modules:
                parent, _, last = module.rpartition(".")
                if parent in self.plan.modules and self.plan.modules[parent].offers(last):
                    continue  # a name that a package exports, which one of its modules has, too
                if module not in self.moved or dotted in self.made:
                    return dotted
                if end < len(words):
                    home, name = self.plan.home(module, words[end + 1])
                    fresh = home + words[end] + name + "".join(words[end + 2 :])
                else:
                    fresh = self.moved[module]
                if fresh != dotted:
                    self.changed[f"{dotted} -> {fresh}"] += 1
                return fresh
        return dotted

    def path(self, old: str, path: str) -> str:
        """Return a path as it is afterwards."""
        for before, prefix in ((old, ""), (f"src/{old}", "src/"), (f"src/duly/{old}", "src/duly/"), (f"src/duly_web/{old}", "src/duly/web/"), (f"tests/{old}", "tests/")):
            if before in self.by_path and (prefix in ("", "src/") or "/" in old):
                fresh = self.by_path[before]
                if fresh == "-":
                    continue
                fresh = fresh.removeprefix(prefix)
                self.changed[f"{old} -> {fresh}"] += 1
                return fresh
        return old


def compose(plan: Plan, new: str, parts: list[str], texts: dict[str, bytes]) -> bytes:
    """Put several modules into one."""
    imports: list[str] = []
    typed: list[str] = []
    bodies, docstrings = [], []
    for path in plan.order(new, parts):
        module = module_of(path)
        leave = {name for owner, name in plan.symbols if owner == module and plan.symbols[owner, name] != new}
        dropped = {name for owner, name in plan.dropped if owner == module}
        runtime, checked, docstring, body = split_body(texts[path], leave, dropped)
        imports += runtime
        typed += checked
        docstrings.append((path, docstring))
        bodies.append(body)
    for (module, name), to in plan.symbols.items():
        if to == new and module_of(new) != module:
            origin = plan.modules[module].path
            runtime, checked, _, body = split_symbol(texts[origin], plan.renamed.get((module, name), name))
            here = f"from {module_of(new)} import "
            imports += [one for one in runtime if not one.startswith(here)]
            typed += [one for one in checked if not one.startswith(here)]
            imports += siblings(plan, module, body, module_of(new))
            bodies.insert(0, body)
    for path in parts:
        module = module_of(path)
        gone = {name for owner, name in plan.symbols if owner == module and plan.symbols[owner, name] != new}
        used = {one.id for body in bodies if body for one in ast.walk(ast.parse(body)) if isinstance(one, ast.Name)}
        imports += [f"from {plan.home(module, name)[0]} import {name}" for name in sorted(gone & used)]
    lines = [f'"""{summary(new, docstrings)}"""', "", "from __future__ import annotations", ""]
    lines += merged_imports(imports, typed)
    lines += ["", "", "\n\n\n".join(body for body in bodies if body), ""]
    return "\n".join(lines).encode()


def summary(new: str, docstrings: list[tuple[str, str]]) -> str:
    """Return the docstring of a merged module: what the table says, and what parts explain."""
    told = dict(line.split("\t") for line in DOCSTRINGS.read_text().splitlines())
    own = next((text for path, text in docstrings if path == new), docstrings[0][1] if docstrings else "")
    first = told.get(new) or own.partition("\n")[0]
    rest = [text.partition("\n\n")[2].strip() for _, text in docstrings]
    wrapped = "\n".join(wrap(first, 97))
    paragraphs = "\n\n".join(one for one in rest if one)
    return f"{wrapped}\n\n{paragraphs}\n" if paragraphs else wrapped


def merged_imports(imports: list[str], typed: list[str]) -> list[str]:
    """Return one import of each name; what is needed at run time is not imported for types only."""
    plain: dict[tuple[str, str], str] = {}
    checked: dict[tuple[str, str], str] = {}
    others: list[str] = []
    for lines, into in ((imports, plain), (typed, checked)):
        for line in lines:
            comment = f"  {line[line.index('#') :]}" if "#" in line else ""
            node = ast.parse(line).body[0]
            if not isinstance(node, ast.Import | ast.ImportFrom):
                others.append(line)
                continue
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            for one in node.names:
                name = f"{one.name} as {one.asname}" if one.asname else one.name
                into[module, name] = into.get((module, name)) or comment
    lines = []
    for into, indent in ((plain, ""), (checked, "    ")):
        if into is checked:
            checked = {key: value for key, value in checked.items() if key not in plain}
            if not checked:
                continue
            lines += ["", "if TYPE_CHECKING:"]
        modules: dict[str, list[str]] = defaultdict(list)
        for (module, name), comment in (plain if into is plain else checked).items():
            if module == "__future__":
                continue
            if module and not comment:
                modules[module].append(name)
            else:
                lines.append(indent + (f"from {module} " if module else "") + f"import {name}{comment}")
        lines += [f"{indent}from {module} import {', '.join(sorted(names))}" for module, names in modules.items()]
    lines += [f"    {line}" for one in others for line in one.split("\n")]
    if "if TYPE_CHECKING:" in lines and not any("import" in line and re.search(r"\bTYPE_CHECKING\b", line) for line in lines):
        lines.insert(0, "from typing import TYPE_CHECKING")
    return lines


def siblings(plan: Plan, module: str, body: str, here: str) -> list[str]:
    """Return imports of what a symbol uses of the module that it leaves."""
    file = plan.modules[module]
    own = plan.moved[module]
    known = {name for name, origin in file.imported().items() if plan.home(*origin)[0] == own}
    defined = {*file.defined(), *known}
    used = {one.id for one in ast.walk(ast.parse(body)) if isinstance(one, ast.Name)}
    homes = {name: plan.home(module, name) for name in sorted(used & defined)}
    return [f"from {home} import {name}" for home, name in homes.values() if home != here]


def split_symbol(source: bytes, name: str) -> tuple[list[str], list[str], str, str]:
    """Return the imports of a module, and the text of one of its symbols."""
    text = source.decode()
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    runtime, typed, docstring, _ = split_body(source, set(), set())
    for node in tree.body:
        if name in set(bound_by(node)):
            decorators = getattr(node, "decorator_list", [])
            start = min([node.lineno, *(one.lineno for one in decorators)]) - 1
            while start > 0 and lines[start - 1].startswith("#"):
                start -= 1
            end = following_text(tree, node) or node.end_lineno
            return runtime, typed, docstring, "".join(lines[start:end]).strip("\n")
    raise KeyError(name)


def apply(plan: Plan) -> None:
    """Write all files anew."""
    said = Texts(plan)
    texts = {
        path: said.rewrite_python(Rewriting(plan, file).text().decode(), path).encode()
        for path, file in plan.files.items()
    }
    if plan.refusals:
        return
    groups = plan.groups()
    for to in plan.symbols.values():
        groups.setdefault(to, [])
    leaving = {plan.modules[module].path for module, _ in plan.symbols}
    written: dict[str, str] = {}
    for new, parts in groups.items():
        if new == "-":
            continue
        if len(parts) == 1 and parts[0] not in leaving and new not in plan.symbols.values():
            source = texts[parts[0]]
        else:
            source = compose(plan, new, parts, texts)
        written[new] = source.decode()
    for path in plan.files:
        if path not in written:
            (plan.root / path).unlink()
    for path, text in written.items():
        target = plan.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text() != text:
            target.write_text(text)
    for path in tracked(plan.root):
        if path.endswith(TEXTS) or path in ("Makefile", ".ci/run"):
            if path.startswith(NOT_READ) or not (plan.root / path).exists():
                continue
            before = (plan.root / path).read_text()
            after = said.rewrite(before, path)
            if after != before:
                (plan.root / path).write_text(after)
    for line, count in sorted(said.changed.items()):
        print(f"{count:5} {line}")


def bodies(root: Path, folders: tuple[str, ...]) -> Counter[str]:
    """Return the multiset of function and class bodies, without docstrings and imports."""
    found: Counter[str] = Counter()
    for path in tracked(root):
        if path.endswith(".py") and path.startswith(folders) and (root / path).exists():
            tree = ast.parse((root / path).read_text())
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    found[shape(node)] += 1
    return found


def shape(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return a function without its docstring and its imports."""
    body = [one for one in node.body if not isinstance(one, ast.Import | ast.ImportFrom)]
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    return f"def {node.name}({ast.unparse(node.args)}):\n" + "\n".join(ast.unparse(one) for one in body)


def compare(old: Path, new: Path) -> int:
    """Print what differs between the bodies of two trees."""
    folders = (*ROOTS,)
    before, after = bodies(old, folders), bodies(new, folders)
    gone, come = before - after, after - before
    print(f"{sum(before.values())} functions before, {sum(after.values())} after")
    for sign, texts in (("-", gone), ("+", come)):
        for text, count in sorted(texts.items()):
            print(f"{sign}{count} {text}\n")
    print(f"{sum(gone.values())} only before, {sum(come.values())} only after")
    return 0


def main() -> int:
    """Do as the command line says."""
    if "--compare" in sys.argv:
        return compare(Path(sys.argv[2]), Path(sys.argv[3]))
    plan = Plan(ROOT)
    if "--apply" in sys.argv and not plan.refusals:
        apply(plan)
    else:
        for file in plan.files.values():
            Rewriting(plan, file).text()
    for line in dict.fromkeys(plan.refusals):
        print("refused:", line)
    return bool(plan.refusals)


if __name__ == "__main__":
    sys.exit(main())

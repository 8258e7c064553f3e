"""The house is tidy: sizes, names and habits that no linter of ours checks.

Each message says what to do. The rules themselves are proved able to fail in test_house_rules.py.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType

import duly

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "duly"

FUNCTION_LINES_MAX = 70
SOURCE_LINES_MAX = 1000
TEST_LINES_MAX = 1500
FORBIDDEN_MODULE_NAMES = frozenset(
    ("util", "utils", "helper", "helpers", "common", "core", "base", "manager", "managers", "misc")
)
LEFT = re.compile(r"\b(TODO|FIXME|XXX)\b")
CITED = re.compile(r"\b(?:INV|FAULT)-\d+|\((?:[A-Z]\d{1,2})(?:, [A-Z]\d{1,2})*\)")
"""Codes of requirements and invariants. Invariants are defined in RELIABILITY.md, and tests cite them."""
CODE_LINES_MIN = 60
ALLOWED = Path(__file__).with_name("tidy_allowed.txt")
STORE_TWINS = re.compile(r"store/(?:memory|postgres|sqlite)/")
NO_CODE = (
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
)
MOODS = frozenset(
    (
        *(
            "agreeing",
            "beating",
            "bell",
            "beside",
            "broom",
            "circles",
            "courier",
            "crowd",
            "crowds",
        ),
        *(
            "door",
            "employing",
            "ending",
            "errand",
            "errands",
            "front",
            "guarding",
            "handed",
            "handing",
        ),
        *(
            "held",
            "holding",
            "kept",
            "lately",
            "letting",
            "look",
            "looking",
            "looks",
            "lost",
            "meaning",
        ),
        *(
            "moods",
            "neighbour",
            "neighbours",
            "owed",
            "said",
            "seeing",
            "side",
            "sides",
            "speaking",
        ),
        *(
            "spoken",
            "standing",
            "stock",
            "street",
            "telling",
            "told",
            "wall",
            "word",
            "words",
            "world",
        ),
    )
)
"""Metaphors and moods; words of the field such as firing, loading and tracing are none."""
CLOCK = PACKAGE / "clock.py"
CLOCK_READERS = frozenset(
    {
        "datetime.date.today",
        "datetime.datetime.now",
        "datetime.datetime.today",
        "datetime.datetime.utcnow",
        "asyncio.sleep",
        "os.times",
    }
)

SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BENCHES = sorted((ROOT / "bench").rglob("*.py"))
SHIPPED = frozenset(SOURCES)
NO_TESTS = frozenset(SOURCES + BENCHES)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def lines_max(path: Path) -> int:
    return SOURCE_LINES_MAX if path in NO_TESTS else TEST_LINES_MAX


@dataclass(frozen=True)
class Parsed:
    """A module, and all that is in it: walking over it costs more than reading it."""

    tree: ast.Module
    nodes: list[ast.AST]


@lru_cache(maxsize=1)
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def parse(path: Path) -> Parsed:
    tree = ast.parse(read(path), filename=str(path))
    return Parsed(tree, list(ast.walk(tree)))


Rule = Callable[[Path], Iterator[str]]
FOR_EVERY_FILE: list[Rule] = []
FOR_SOURCES: list[Rule] = []


def every_file(rule: Rule) -> Rule:
    """Hold every file to a rule."""
    FOR_EVERY_FILE.append(rule)
    return rule


def every_source(rule: Rule) -> Rule:
    """Hold what is shipped to a rule."""
    FOR_SOURCES.append(rule)
    return rule


def test_every_file_keeps_every_rule():
    """One test for all, because reading a file costs more than looking at it."""
    findings = [
        finding
        for path in (*SOURCES, *TESTS, *BENCHES)
        for rule in (*FOR_EVERY_FILE, *(FOR_SOURCES if path in SHIPPED else ()))
        for finding in rule(path)
    ]

    assert not findings, "\n".join((f"{len(findings)} findings:", *findings))


@every_file
def a_file_is_short_enough_to_read(path: Path) -> Iterator[str]:
    lines = len(read(path).splitlines())
    if lines > lines_max(path):
        yield f"{name_of(path)} has {lines} lines, {lines_max(path)} is the most: split it by noun"


@every_file
def a_function_is_short_enough_to_read(path: Path) -> Iterator[str]:
    for node in parse(path).nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield (
                    f"{name_of(path)}:{node.lineno}: {node.name} has {lines} lines, "
                    f"{FUNCTION_LINES_MAX} is the most: extract a decision or a loop body"
                )


@every_file
def a_module_is_named_after_what_it_holds(path: Path) -> Iterator[str]:
    parts = path.relative_to(ROOT).with_suffix("").parts
    forbidden = sorted(FORBIDDEN_MODULE_NAMES.intersection(parts))
    if forbidden:
        yield (
            f"{name_of(path)}: a module called {', '.join(forbidden)} attracts anything; "
            "name it after the one noun it holds"
        )


@every_source
def a_module_says_what_it_is_responsible_for(path: Path) -> Iterator[str]:
    if not ast.get_docstring(parse(path).tree):
        yield f"{name_of(path)} has no docstring: say in one sentence what it is responsible for"


@every_file
def work_is_called_task_schedule_or_run(path: Path) -> Iterator[str]:
    for line, name in identifiers(parse(path)):
        if "job" in words_of(name):
            yield (
                f"{name_of(path)}:{line}: {name} says job, which means three things here; "
                "use task, schedule or run (docs/glossary.md)"
            )


@every_source
def only_the_clock_reads_the_time(path: Path) -> Iterator[str]:
    for line, what in () if path == CLOCK else clock_readings(parse(path)):
        yield (
            f"{name_of(path)}:{line}: {what} reads the clock or waits for it; take `now` as an "
            "argument, only clock.py reads the time"
        )


@every_source
def shipped_code_does_without_the_testing_kit(path: Path) -> Iterator[str]:
    # The front door offers the kit by its name; type checkers want to know what it is.
    if path == PACKAGE / "testing.py" or path == PACKAGE / "__init__.py":
        return
    borrowed = [name for name in imported_names(parse(path)).values() if is_testing_kit(name)]
    if borrowed:
        yield (
            f"{name_of(path)} imports {', '.join(borrowed)}; shipped code never imports "
            "duly.testing, which is there for tests alone"
        )


@every_file
def nothing_is_left_for_later(path: Path) -> Iterator[str]:
    if not LEFT.search(read(path)):
        return
    with path.open("rb") as stream:
        comments = [t for t in tokenize.tokenize(stream.readline) if t.type == tokenize.COMMENT]
    for one in comments:
        if LEFT.search(one.string):
            said = one.string.strip()
            yield f"{name_of(path)}:{one.start[0]}: {said}: do it, or leave it out"


@every_source
def requirements_are_not_cited(path: Path) -> Iterator[str]:
    for number, line in enumerate(read(path).splitlines(), 1):
        if CITED.search(line):
            yield (
                f"{name_of(path)}:{number}: {CITED.search(line)[0]} is a code that no reader can "  # type: ignore[index]
                "look up here: say what is required, or leave it out"
            )


def test_class_names_are_unique():
    """SQLite, PostgreSQL and the memory store may each have a class for the same thing."""
    homes: dict[str, set[str]] = {}
    for path in SOURCES:
        for node in parse(path).tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                home = STORE_TWINS.sub("store/*/", name_of(path))
                homes.setdefault(node.name, set()).add(home)
    found = {name: sorted(where) for name, where in homes.items() if len(where) > 1}

    assert not (wrong := unlisted(found, "classes", "name each after what it is")), "\n".join(wrong)


def test_a_small_module_belongs_to_its_only_importer():
    paths = {module_of(path): path for path in SOURCES}
    importers: dict[str, set[Path]] = {name: set() for name in paths}
    for path in SOURCES:
        for name in imported_names(parse(path)).values():
            module = name if name in paths else name.rpartition(".")[0]
            if module in paths:
                importers[module].add(path)
    found = {
        name_of(path): [name_of(one) for one in importers[name]]
        for name, path in paths.items()
        if len(importers[name]) == 1 and 0 < code_lines(path) < CODE_LINES_MIN
    }
    found = {
        one: by for one, by in found.items() if not one.endswith(("__init__.py", "__main__.py"))
    }

    assert not (wrong := unlisted(found, "small", "merge it into its importer")), "\n".join(wrong)


def test_modules_are_named_by_words_of_the_field():
    found = {
        name_of(path): words
        for path in SOURCES
        if (words := sorted(MOODS.intersection(path.stem.split("_"))))
    }

    assert not (wrong := unlisted(found, "names", "use the word of the field")), "\n".join(wrong)


def unlisted(found: dict[str, list[str]], section: str, remedy: str) -> list[str]:
    """Return findings that the list does not allow, and allowed ones that are gone: it shrinks."""
    listed = allowed(section)
    wrong = [
        f"{name}: {', '.join(where)}: {remedy}"
        for name, where in found.items()
        if name not in listed
    ]
    return wrong + [
        f"{name} is no finding any more: take it from {ALLOWED.name}"
        for name in listed - found.keys()
    ]


def allowed(section: str) -> set[str]:
    """Return what the list allows for now; there is no list in a house that is made for a test."""
    text = ALLOWED.read_text(encoding="utf-8") if ALLOWED.exists() else ""
    _, _, rest = text.partition(f"[{section}]\n")
    return {
        line for line in rest.partition("\n[")[0].splitlines() if line and not line.startswith("#")
    }


def module_of(path: Path) -> str:
    name = path.relative_to(ROOT / "src").with_suffix("").as_posix().replace("/", ".")
    return name.removesuffix(".__init__")


def code_lines(path: Path) -> int:
    """Count lines of code, without blank lines, comments and docstrings."""
    explained = {
        line
        for node in parse(path).nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    coded: set[int] = set()
    with path.open("rb") as stream:
        for token in tokenize.tokenize(stream.readline):
            if token.type not in NO_CODE:
                coded.update(range(token.start[0], token.end[0] + 1))
    return len(coded - explained)


def test_the_public_names_are_sorted():
    assert sorted(duly.__all__, key=ruff_order) == list(duly.__all__), (
        "sort duly.__all__: constants, then classes, then functions (`make format` does it)"
    )


def test_the_public_names_are_exact():
    present = {
        name
        for name, value in vars(duly).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name != "annotations"
    }
    present |= set(duly._HOMES)  # noqa: SLF001 - names that are fetched when they are first used
    listed = {name for name in duly.__all__ if not name.startswith("_")}

    assert listed == present, (
        f"duly.__all__ must be what `import duly` offers; listed only: {sorted(listed - present)}, "
        f"offered only: {sorted(present - listed)}"
    )


def test_every_public_name_can_be_imported():
    missing = [name for name in duly.__all__ if not hasattr(duly, name)]

    assert not missing, f"duly.__all__ promises {missing}: define them or leave them out"


def test_the_architecture_names_every_module():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    packages = [path.parent for path in PACKAGE.glob("*/__init__.py")]
    modules = sorted(path.name for path in [*packages, *PACKAGE.glob("*.py")])
    unnamed = [name for name in modules if f"`{name}`" not in text and f" {name}" not in text]

    assert not unnamed, f"ARCHITECTURE.md does not mention {unnamed}: one line for each"


def identifiers(parsed: Parsed) -> Iterator[tuple[int, str]]:
    """Yield every name that the code gives or uses, with its line."""
    for node in parsed.nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.keyword(arg=str(name)):
                yield node.value.lineno, name
            case ast.alias():
                yield node.lineno, node.asname or node.name.rpartition(".")[2]


@cache
def words_of(name: str) -> set[str]:
    """Return the words of an identifier in the singular: `JobQueue` and `old_jobs` say job."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return {word.lower().removesuffix("s") for word in words}


def clock_readings(parsed: Parsed) -> Iterator[tuple[int, str]]:
    """Yield every place that imports `time` or names a function that reads the clock."""
    known = imported_names(parsed)
    for node in parsed.nodes:
        match node:
            case ast.Import(names=aliases) if any(alias.name == "time" for alias in aliases):
                yield node.lineno, "import time"
            case ast.ImportFrom(module="time", level=0):
                yield node.lineno, "from time import"
            case ast.Attribute() | ast.Name():
                name = dotted(node, known)
                if name in CLOCK_READERS:
                    yield node.lineno, name


def imported_names(parsed: Parsed) -> dict[str, str]:
    """Return what each imported name stands for: `d` for `datetime.datetime`, say."""
    known: dict[str, str] = {}
    for node in parsed.nodes:
        match node:
            case ast.Import(names=aliases):
                known |= {alias.asname or alias.name: alias.name for alias in aliases}
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                known |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in aliases}
    return known


def dotted(node: ast.expr, known: dict[str, str]) -> str:
    """Return the full name that an expression stands for, as far as imports tell."""
    match node:
        case ast.Name(id=name):
            return known.get(name, name)
        case ast.Attribute(value=value, attr=attribute):
            return f"{dotted(value, known)}.{attribute}"
        case _:
            return ""


def is_testing_kit(name: str) -> bool:
    return f"{name}.".startswith("duly.testing.")


def ruff_order(name: str) -> tuple[int, str]:
    """Return the place of a public name: constants, classes, then the rest."""
    if name.isupper():
        return 0, name
    return (1, name) if name[:1].isupper() else (2, name)

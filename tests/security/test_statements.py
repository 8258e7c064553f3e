"""No statement is made of somebody's words: SQL is written down, and values are bound.

A statement that is put together when a module is imported consists of what stands in our files. One
that is put together in a function might not: each such function is named here, with its reason.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import duly

SOURCE = Path(duly.__file__).parent
SQL = re.compile(
    r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|WHERE|ORDER BY|GROUP BY|LIMIT|VALUES|JOIN|RETURNING|"
    r"PRAGMA|CREATE|ALTER|DROP|GRANT|REVOKE|LISTEN|NOTIFY|COPY|SET|TRUNCATE|ATTACH|VACUUM)\b"
)
ALLOWED: dict[str, tuple[str, ...]] = {
    "the one builder of filters: conditions are ours, values are placed and bound": (
        "store/filters.py:sql",
        "store/filters.py:clause",
        "store/sqlite/filtering.py:one_of",
    ),
    "steps of a search: tables and columns of ours, numbers of ours, conditions by the builder": (
        "store/search_steps.py:search_audit",
        "store/search_steps.py:_entries",
        "store/search_steps.py:_last_entry",
        "store/search_steps.py:_number_at",
        "store/search_steps.py:_is_long",
        "store/search_steps.py:_floor",
        "store/search_steps.py:_source",
        "store/search_steps.py:_steps",
        "store/search_steps.py:_gathered",
        "store/search_steps.py:_rows_of",
        "store/search_steps.py:_ids",
        "store/search_steps.py:_of_runs",
        "store/search_steps.py:_has",
    ),
    "tables of ours, and the name of a role that psycopg quotes": (
        "store/postgres/access_grants.py:_of_run",
        "store/postgres/access_grants.py:_of_row",
        "store/postgres/access_grants.py:grant_statements",
        "store/postgres/access_grants.py:revoke_statements",
        "store/postgres/access_grants.py:_hold",
    ),
    "tables of ours, looked into by run": ("store/postgres/run_vitals.py:_place",),
    "parts and columns of ours: a file that is imported is read against them first": (
        "store/postgres/moving.py:page",
        "store/postgres/moving.py:belonging",
        "store/postgres/moving.py:problems",
        "store/postgres/moving.py:write",
        "store/postgres/moving.py:finish",
        "store/sqlite/moving.py:page",
        "store/sqlite/moving.py:belonging",
        "store/sqlite/moving.py:problems",
        "store/sqlite/moving.py:write",
    ),
    "names that SQLite lists, and that are quoted": ("store/sqlite/in_memory.py:drop_temporary",),
    "the name of a channel of ours": ("store/postgres/bell.py:_hear",),
    "the name of a table of ours": (
        "store/postgres/broom.py:_sweep",
        "store/postgres/rotation.py:_leaf",
    ),
    "which of our own parts a claim consists of": (
        "store/postgres/claiming.py:_from_all",
        "store/postgres/claiming.py:_plainly",
        "store/postgres/claiming.py:claim_from_leaf",
        "store/sqlite/claiming.py:without",
        "store/postgres/sharing.py:shares",
    ),
    "a number of milliseconds": (
        "store/postgres/connection.py:open",
        "store/postgres/transaction.py:lent",
    ),
    "a limit of ours": (
        "store/postgres/soundness.py:_invariants",
        "store/sqlite/soundness.py:_damage",
        "store/sqlite/soundness.py:_invariants",
    ),
    "SET takes no parameters: psycopg quotes the tenant": (
        "store/postgres/tenant_connections.py:beginning",
    ),
    "as many places for values as there are rows": ("store/sqlite/batches.py:_values",),
    "how a store writes the place of a value": (),
}
"""By the reason why nothing of anybody's can come in there."""


def put_together(tree: ast.Module) -> set[str]:
    """Return the functions in which something that reads like SQL is put together."""
    return {
        function.name
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if _is_put_together(node)
    }


def _is_put_together(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr(values=values):
            words = [one.value for one in values if isinstance(one, ast.Constant)]
            return len(words) < len(values) and bool(SQL.search(" ".join(map(str, words))))
        case ast.BinOp(op=ast.Add() | ast.Mod(), left=left, right=right):
            return any(
                isinstance(one, ast.Constant) and _is_sql(one.value) for one in (left, right)
            )
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=text), attr="format" | "join")):
            return _is_sql(text)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="format")):
            return name.strip("_").isupper()
        case _:
            return False


def _is_sql(text: object) -> bool:
    return isinstance(text, str) and bool(SQL.search(text))


def test_only_these_put_statements_together():
    """Each of names that are ours; what somebody said is bound, always."""
    found = {
        f"{path.relative_to(SOURCE)}:{function}"
        for path in sorted(SOURCE.rglob("*.py"))
        if SQL.search(text := path.read_text())
        for function in put_together(ast.parse(text))
    }

    assert {one for each in ALLOWED.values() for one in each} == found


@pytest.mark.parametrize(
    "statement",
    [
        'f"SELECT * FROM runs WHERE key = {key}"',
        '"DELETE FROM runs WHERE key = " + key',
        '"SELECT * FROM runs WHERE key = %s" % key',
        '"SELECT * FROM runs WHERE key = {}".format(key)',
        '" WHERE ".join(conditions)',
        "_BY_KEY.format(key)",
    ],
)
def test_a_statement_of_somebodys_words_would_be_noticed(statement: str):
    module = f"def find(key, conditions):\n    return {statement}\n"

    assert {"find"} == put_together(ast.parse(module))

"""The client calls what the server has: each operation, at its place, with its answer and key."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from duly.api.app import ROUTES
from duly.remote.operation import Operation

MODULES = [
    "alerts",
    "backfills",
    "connecting",
    "events",
    "inbox",
    "operating",
    "owners",
    "runs",
    "schedules",
    "selections",
    "vitals",
]
ELSEWHERE = {
    "begin_session": "is a browser's",
    "get_session": "is a browser's",
    "end_session": "is a browser's",
    "get_openapi": "is for whoever writes another client",
}


def operations() -> dict[str, Operation[Any]]:
    """Return every operation that the client calls."""
    found: dict[str, Operation[Any]] = {}
    for name in MODULES:
        for one in vars(import_module(f"duly.remote.{name}")).values():
            if isinstance(one, Operation):
                assert found.setdefault(one.id, one) == one
    return found


def test_each_operation_is_called_as_the_server_s_table_has_it():
    """The client and the server mean the same by every operation."""
    theirs = {
        one.operation_id: (one.method, one.path, one.answer, one.is_idempotent) for one in ROUTES
    }
    ours = {
        one.id: (one.method, one.path, one.answer, one.is_keyed) for one in operations().values()
    }

    assert {name: theirs.get(name) for name in ours} == ours


def test_no_operation_is_out_of_reach():
    """What the server can do, the client can order."""
    names = {one.operation_id for one in ROUTES}

    assert names - set(operations()) == set(ELSEWHERE) & names


def test_a_list_is_as_long_from_afar_as_it_is_here(app, remote):
    """The same call has the same answer, also where nobody says how many."""
    here, there = dict[str, object](), dict[str, object]()
    for name in vars(remote):
        for method, _ in inspect.getmembers(getattr(app, name, None), inspect.ismethod):
            if method.startswith("_") or not hasattr(getattr(remote, name), method):
                continue
            for of, one in ((here, app), (there, remote)):
                said = inspect.signature(getattr(getattr(one, name), method)).parameters
                if "limit" in said:
                    of[f"{name}.{method}"] = said["limit"].default
    bounded = {name: most for name, most in there.items() if isinstance(most, int)}

    expected = {"delayed.list", "inbox.list", "owners.list", "runs.list", "schedules.skips"}
    assert expected <= set(bounded)
    assert {name: here[name] for name in bounded} == bounded

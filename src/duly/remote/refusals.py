"""Problem documents, read back as the errors that the server has raised."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import msgspec

from duly.errors import (
    Conflict,
    DulyError,
    Forbidden,
    NotFound,
    Outdated,
    OverQuota,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
    Unauthenticated,
    UsageError,
)
from duly.wire.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.remote.exchange import Reply

MEDIA_TYPE = "application/problem+json"
LATER = frozenset({429, 502, 503, 504})
"""Statuses that say nothing about the order, but that it could not be carried out just now."""
STILL_RUNNING = "still-running"
_STORE_PREFIX = "the store: "


class Said:
    """A value as the server wrote it down, when it can't be read back."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def read_problem(reply: Reply) -> Problem | None:
    """Read the document of a refusal; None where something else than a server of ours answers."""
    if reply.media_type != MEDIA_TYPE:
        return None
    try:
        return msgspec.json.decode(reply.body, type=Problem)
    except msgspec.MsgspecError:
        return None


def error_of(reply: Reply, url: str) -> DulyError:
    """Return the error that a reply is."""
    problem = read_problem(reply)
    if problem is None:
        said = f"answered {reply.status}, and not as a server of Duly does"
        if reply.status in LATER:
            return StoreUnavailable(url, said, "try again")
        if 300 <= reply.status < 400:
            # Whoever sends a token on to where a stranger points gives it away.
            said = f"answered {reply.status}: it is elsewhere, and redirects are not followed"
            return StoreError(url, said, "give the URL where it is")
        return StoreError(url, said, "see whether the URL is that of the server")
    return _by_code(problem, url)


def _by_code(problem: Problem, url: str) -> DulyError:
    said, remedy = _sentence(problem)
    what, value = problem.field or "request", _value(problem.value)
    about_store = (url, said.removeprefix(_STORE_PREFIX), remedy)
    known: dict[str, Callable[[], DulyError]] = {
        UsageError.code: lambda: UsageError(what, value, said, remedy),
        NotFound.code: lambda: NotFound(what, value, remedy),
        Conflict.code: lambda: Conflict(what, value, said, remedy),
        Outdated.code: lambda: Outdated(what, value, said, remedy),
        OverQuota.code: lambda: OverQuota(
            value, said, remedy, problem.most or 0, problem.count or 0
        ),
        Unauthenticated.code: lambda: Unauthenticated(said, remedy),
        Forbidden.code: lambda: Forbidden(what, said, remedy),
        SchemaMismatch.code: lambda: SchemaMismatch(*about_store),
        STILL_RUNNING: lambda: StoreUnavailable(*about_store),
    }
    if problem.code in known:
        return known[problem.code]()
    if problem.status in LATER:
        return StoreUnavailable(*about_store)
    if problem.status >= 500:
        return StoreError(*about_store)
    if problem.status == 409:
        return Conflict(what, value, said, remedy)
    return UsageError(what, value, said, remedy)


def _sentence(problem: Problem) -> tuple[str, str]:
    """Return what happened and what to do, out of the whole sentence."""
    remedy = problem.remedy or "see what the server says"
    said = problem.detail.removesuffix(f"; {remedy}")
    for prefix in (f"{problem.field}: {problem.value} ", f"{problem.field}: "):
        if problem.field is not None and said.startswith(prefix):
            return said.removeprefix(prefix), remedy
    return said, remedy


def _value(text: str | None) -> object:
    """Return the value of which this is the text, if that can be told."""
    if text is None:
        return None
    try:
        found: object = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return Said(text)
    return found if repr(found) == text else Said(text)

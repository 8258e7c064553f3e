"""Problems: which status an error has, and what is said about it. Nothing internal is told."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

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
    shown,
)
from duly.wire.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1
QUOTA_RETRY_SECONDS = 60
"""Quotas count by the minute."""

_STATUSES: tuple[tuple[type[DulyError], int], ...] = (
    (UsageError, 422),
    (NotFound, 404),
    (OverQuota, 429),
    (Outdated, 412),
    (Conflict, 409),
    (Unauthenticated, 401),
    (Forbidden, 403),
    (StoreUnavailable, 503),
    (SchemaMismatch, 503),
    (StoreError, 503),
    (DulyError, 409),
)
"""The first that an error is, counts."""


class Refused(DulyError):  # noqa: N818 - the tree reads as what happened
    """A request that HTTP itself has a status for, before anybody was asked anything."""

    code = "refused"

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What such a request is told."""

    status: int
    code: str
    problem: str
    remedy: str
    field: str | None = None
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def detail(self) -> str:
        """The sentence."""
        return f"{self.problem}; {self.remedy}"


def refuse(status: int, code: str, problem: str, remedy: str, **headers: str) -> Refused:
    """Return the refusal of a request; names of headers are written with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Refused(Refusal(status=status, code=code, problem=problem, remedy=remedy, headers=named))


INTERNAL = Refusal(
    status=500,
    code="internal",
    problem="something went wrong in the server, which has written down what",
    remedy="try again; if it stays, tell whoever runs it",
)


def problem_of(error: Exception) -> Problem:
    """Return what is told about an error."""
    if isinstance(error, Refused):
        return _refusal_problem(error.refusal)
    if not isinstance(error, DulyError):
        return _refusal_problem(INTERNAL)
    status = next(status for kind, status in _STATUSES if isinstance(error, kind))
    what, value = _subject(error)
    return Problem(
        type=f"urn:duly:problem:{error.code}",
        title=HTTPStatus(status).phrase,
        status=status,
        code=error.code,
        detail=_detail(error),
        field=what,
        value=value,
        remedy=getattr(error, "remedy", None),
        most=error.most if isinstance(error, OverQuota) else None,
        count=error.count if isinstance(error, OverQuota) else None,
    )


def _subject(error: DulyError) -> tuple[str | None, str | None]:
    """Return what an error is about, and which one of these it is."""
    match error:
        case UsageError():
            return error.field, shown(error.value)
        case NotFound() | Conflict():
            return error.what, shown(error.name)
        case Forbidden():
            return error.who, None
        case _:
            return None, None


def headers_of(error: Exception) -> dict[str, str]:
    """Return the headers that go with an error's status."""
    return dict(_headers(error))


def _headers(error: Exception) -> Iterator[tuple[str, str]]:
    match error:
        case Refused(refusal=refusal):
            yield from refusal.headers.items()
        case Unauthenticated():
            yield "WWW-Authenticate", 'Bearer realm="duly"'
        case OverQuota():
            yield "Retry-After", str(QUOTA_RETRY_SECONDS)
        case StoreError():
            yield "Retry-After", str(RETRY_SECONDS)
        case _:
            return


def _detail(error: DulyError) -> str:
    """Return the sentence; a store's own says where it is, which is nobody's business outside."""
    if isinstance(error, StoreError):
        return f"the store: {error.problem}; {error.remedy}"
    return str(error)


def _refusal_problem(refusal: Refusal) -> Problem:
    return Problem(
        type=f"urn:duly:problem:{refusal.code}",
        title=HTTPStatus(refusal.status).phrase,
        status=refusal.status,
        code=refusal.code,
        detail=refusal.detail,
        field=refusal.field,
        remedy=refusal.remedy,
    )

"""Sessions over HTTP: a browser shows a code or a token once, and a cookie stands for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.api.requests import csrf_token
from duly.api.route import ApiRequest, ApiResponse, Route
from duly.errors import UsageError
from duly.interface.access import BeginSession, Session
from duly.timetable.instants import from_microseconds

if TYPE_CHECKING:
    from datetime import datetime

    from duly.api.middleware import Authenticator
    from duly.domain.auth import Principal


def begin_session(received: ApiRequest) -> ApiResponse:
    """Begin a session of a browser by a one-time code or a token; a cookie stands for it then."""
    asked: BeginSession = received.body
    if (asked.code is None) == (asked.token is None):
        # What was given is not repeated: either of them opens something.
        raise UsageError("code", None, "is one of two ways to begin", "give `code` or `token`")
    door = _door(received)
    begun = door.begin(code=asked.code, token=asked.token)
    expires_at = from_microseconds(begun.record.expires_at)
    return ApiResponse(
        value=_shown(begun.record.principal, expires_at, csrf_token(begun.secret)),
        headers={"Set-Cookie": door.cookie(begun.secret)},
    )


def get_session(received: ApiRequest) -> Session:
    """Say who asks, and what they may do."""
    secret = _door(received).session_secret(received.headers)
    is_session = received.principal.kind == "session"
    csrf = csrf_token(secret) if is_session and secret is not None else None
    return _shown(received.principal, None, csrf)


def end_session(received: ApiRequest) -> ApiResponse:
    """End the session that asks for it."""
    door = _door(received)
    door.end(received.principal, received.headers)
    return ApiResponse(status=204, headers={"Set-Cookie": door.cookie(None)})


def _door(received: ApiRequest) -> Authenticator:
    assert received.door is not None, "a request comes through the door"
    return received.door


def _shown(principal: Principal, expires_at: datetime | None, csrf: str | None) -> Session:
    return Session(
        name=principal.name,
        tenant=principal.tenant,
        role=str(principal.role),
        scopes=sorted(str(scope) for scope in principal.scopes),
        expires_at=expires_at,
        csrf=csrf,
    )


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/session",
        operation_id="begin_session",
        summary="Begin a session of a browser by a one-time code or a token.",
        scope=None,
        handler=begin_session,
        body=BeginSession,
        answer=Session,
        errors=frozenset({401}),
    ),
    Route(
        method="GET",
        path="/session",
        operation_id="get_session",
        summary="Who asks, and what they may do.",
        scope="read",
        handler=get_session,
        answer=Session,
    ),
    Route(
        method="DELETE",
        path="/session",
        operation_id="end_session",
        summary="End the session that asks for it.",
        scope="read",
        handler=end_session,
        status=204,
    ),
)

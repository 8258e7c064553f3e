"""Tokens over HTTP: made, listed and revoked by whoever may. A token's text is answered once."""

from __future__ import annotations

from duly.api.handlers.parts import whole
from duly.api.route import Received, Route
from duly.wire.access import MadeToken, NewToken, Token, TokensAsked
from duly.wire.runs import Because
from duly.wire.shapes import Page

ONE = "/tokens/{token}"


def list_tokens(received: Received) -> Page[Token]:
    """Return tokens, newest first; also those that open nothing any more."""
    return whole(Token, received.app.tokens.list(tenant=received.query.tenant))


def create_token(received: Received) -> MadeToken:
    """Make a token; its text is answered, and kept nowhere."""
    asked: NewToken = received.body
    made = received.app.tokens.create(
        asked.name,
        role=asked.role,
        tenant=asked.tenant or received.principal.tenant,
        expires=asked.expires,
        reason=asked.reason,
    )
    return MadeToken.from_view(made)


def get_token(received: Received) -> Token:
    """Return a token, by its id or prefix."""
    return Token.from_view(received.app.tokens.get(received.path["token"]))


def revoke_token(received: Received) -> Token:
    """End a token for good, and the sessions that were begun with it."""
    asked: Because = received.query
    revoked = received.app.tokens.revoke(received.path["token"], reason=asked.reason)
    return Token.from_view(revoked)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/tokens",
        operation_id="list_tokens",
        summary="List tokens, newest first.",
        scope="admin",
        handler=list_tokens,
        query=TokensAsked,
        answer=Page[Token],
    ),
    Route(
        method="POST",
        path="/tokens",
        operation_id="create_token",
        summary="Make a token; its text is answered this once.",
        scope="admin",
        handler=create_token,
        body=NewToken,
        answer=MadeToken,
        status=201,
        errors=frozenset({409}),
    ),
    Route(
        method="GET",
        path=ONE,
        operation_id="get_token",
        summary="Look at a token, by its id or prefix.",
        scope="admin",
        handler=get_token,
        answer=Token,
    ),
    Route(
        method="DELETE",
        path=ONE,
        operation_id="revoke_token",
        summary="End a token for good, and the sessions that were begun with it.",
        scope="admin",
        handler=revoke_token,
        query=Because,
        answer=Token,
        is_idempotent=True,
    ),
)

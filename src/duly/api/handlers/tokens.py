"""Tokens over HTTP: made, listed and revoked by whoever may. A token's text is answered once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.api.handlers.parts import look, order, whole
from duly.interface.access import MadeToken, NewToken, Token, TokensAsked
from duly.interface.runs import ReasonBody
from duly.interface.shapes import Page

if TYPE_CHECKING:
    from duly.api.route import ApiRequest, Route

ONE = "/tokens/{token}"


def list_tokens(received: ApiRequest) -> Page[Token]:
    """List tokens, newest first; also those that open nothing any more."""
    return whole(Token, received.app.tokens.list(tenant=received.query.tenant))


def create_token(received: ApiRequest) -> MadeToken:
    """Make a token; its text is answered this once, and kept nowhere."""
    asked: NewToken = received.body
    made = received.app.tokens.create(
        asked.name,
        role=asked.role,
        tenant=asked.tenant or received.principal.tenant,
        expires=asked.expires,
        reason=asked.reason,
    )
    return MadeToken.from_view(made)


def get_token(received: ApiRequest) -> Token:
    """Look at a token, by its id or prefix."""
    return Token.from_view(received.app.tokens.get(received.path["token"]))


def revoke_token(received: ApiRequest) -> Token:
    """End a token for good, and the sessions that were begun with it."""
    asked: ReasonBody = received.query
    revoked = received.app.tokens.revoke(received.path["token"], reason=asked.reason)
    return Token.from_view(revoked)


_ADMIN: dict[str, Any] = {"scope": "admin"}
ROUTES: tuple[Route, ...] = (
    look("/tokens", list_tokens, Page[Token], TokensAsked, **_ADMIN),
    order("/tokens", create_token, NewToken, MadeToken, status=201, is_idempotent=False, **_ADMIN),
    look(ONE, get_token, Token, **_ADMIN),
    order(
        ONE,
        revoke_token,
        None,
        Token,
        method="DELETE",
        query=ReasonBody,
        is_idempotent=True,
        **_ADMIN,
    ),
)

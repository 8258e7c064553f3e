"""Tokens and sessions over the wire."""

from __future__ import annotations

from duly.interface.shapes import Asked, Identity, Instant, Reason, Shown


class Token(Shown, frozen=True, kw_only=True):
    """A token as it is listed; nobody can make its text out of this."""

    id: Identity
    name: str
    tenant: str
    role: str
    prefix: str
    state: str
    created_at: Instant
    created_by: str
    expires_at: Instant | None
    revoked_at: Instant | None
    revoked_by: str | None
    last_used_at: Instant | None


class NewToken(Asked, frozen=True, kw_only=True):
    """A token to be made. It takes no Idempotency-Key: its text is kept nowhere."""

    name: str
    role: str = "viewer"
    tenant: str | None = None
    """Whose it is; one's own unless given. `*` may name any."""
    expires: str | None = None
    """After how long, such as `90d`, at an instant, or `never`."""
    reason: Reason | None = None


class MadeToken(Token, frozen=True, kw_only=True):
    """A token that was made, with its text: it is shown this once."""

    text: str


class TokensAsked(Asked, frozen=True, kw_only=True):
    """Whose tokens."""

    tenant: str | None = None


class BeginSession(Asked, frozen=True, kw_only=True):
    """Shown once, for a cookie: the one-time code that the server printed, or a token."""

    code: str | None = None
    token: str | None = None


class Session(Shown, frozen=True, kw_only=True):
    """A session of a browser: as whom it acts, and until when."""

    name: str
    tenant: str
    role: str
    scopes: list[str]
    expires_at: Instant | None
    csrf: str | None
    """To be sent as Duly-CSRF with every order by cookie."""

"""The door: who asks, by a token or by a session's cookie, and how a browser's session is kept.

A token is sent by programs, in a header of every request. A person's browser shows a token, or the
one-time code that the server printed, once; from then on a cookie that no script can read stands
for it, and ends with it. Who is who, the client's doorkeeper knows.
"""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING

from duly.api.security import check_csrf
from duly.domain.access import PrincipalKind, Refusal, unauthenticated
from duly.domain.instants import SECOND_US
from duly.store.access import SESSION_US

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.api.settings import ApiSettings
    from duly.client.access import Doorkeeper, NewSession
    from duly.domain.access import Principal

_COOKIES_LENGTH_MAX = 8000
_BEARER = "bearer "


class Door:
    """Says who asks."""

    def __init__(
        self, keeper: Doorkeeper, settings: ApiSettings, address: str | None = None
    ) -> None:
        self._keeper = keeper
        self._settings = settings
        self._address = address
        """From where whoever stands before it has come."""

    def asked_from(self, address: str | None) -> Door:
        """Return the same door, for somebody who comes from there."""
        return Door(self._keeper, self._settings, address)

    def who(self, method: str, headers: Mapping[str, str]) -> Principal:
        """Return who asks; refuse a stranger, and an order by a cookie that somebody else used."""
        said = headers.get("authorization")
        if said is not None:
            if not said.lower().startswith(_BEARER):
                raise unauthenticated(Refusal.MALFORMED)
            return self._keeper.authenticate(said[len(_BEARER) :].strip(), self._address)
        secret = self.session_secret(headers)
        if secret is None:
            raise unauthenticated(Refusal.MISSING)
        principal = self._keeper.session(secret, self._address)
        check_csrf(method, headers, secret)
        return principal

    def visitor(self, headers: Mapping[str, str]) -> tuple[Principal, str]:
        """Return who visits by a session's cookie, and its secret; a page takes no token."""
        secret = self.session_secret(headers)
        if secret is None:
            raise unauthenticated(Refusal.MISSING)
        return self._keeper.session(secret, self._address), secret

    def session_secret(self, headers: Mapping[str, str]) -> str | None:
        """Return the secret that a browser's cookie holds, if it has one."""
        text = headers.get("cookie", "")
        if len(text) > _COOKIES_LENGTH_MAX:
            return None
        try:
            found = SimpleCookie(text).get(self.cookie_name)
        except CookieError:
            return None
        return None if found is None or not found.value else found.value

    def begin(self, *, code: str | None, token: str | None) -> NewSession:
        """Begin a session by a one-time code, or by a token."""
        if token is not None:
            return self._keeper.begin_session(token, self._address)
        return self._keeper.spend_code(code or "", self._address)

    def end(self, principal: Principal, headers: Mapping[str, str]) -> bool:
        """End the session that asks for it; a token is nothing that a session's end could end."""
        secret = self.session_secret(headers)
        if principal.kind is not PrincipalKind.SESSION or secret is None:
            return False
        return self._keeper.end_session(secret, self._address)

    @property
    def cookie_name(self) -> str:
        """The cookie's name; by HTTPS it may belong to no path, no subdomain and no plain page."""
        return "__Host-duly" if self._settings.is_secure else "duly_session"

    def cookie(self, secret: str | None) -> str:
        """Write the cookie of a session, or the one that takes it away."""
        seconds = 0 if secret is None else SESSION_US // SECOND_US
        parts = [
            f"{self.cookie_name}={secret or ''}",
            "Path=/",
            "HttpOnly",
            "SameSite=Strict",
            f"Max-Age={seconds}",
        ]
        if self._settings.is_secure:
            parts.append("Secure")
        return "; ".join(parts)

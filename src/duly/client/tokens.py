"""Tokens in a program's hands: made, listed and revoked; a token's text is seen once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.reading import read_choice, read_delay, read_instant, read_tenant
from duly.domain.access import (
    BRAND,
    DRAWN_BYTES,
    EVERY_TENANT,
    LIFETIME_DEFAULT_US,
    PREFIX_LENGTH,
    Expiry,
    Role,
    make_token,
    token_id,
)
from duly.domain.identity import read_identity
from duly.domain.instants import from_microseconds, iso_or_none, iso_utc, moment_or_none
from duly.errors import NotFound, UsageError, require_text
from duly.store.access import AddToken, RevokeToken
from duly.store.tenancy import part_of

if TYPE_CHECKING:
    from datetime import datetime

    from duly.client.caller import Caller
    from duly.client.reading import Delay, Instant
    from duly.domain.access import TokenRecord
    from duly.store.protocol import Store

NEVER = "never"
NAME_LENGTH_MAX = 100
_LISTS = "duly token list shows those there are"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token on one line; its secret is nowhere in it."""

    id: UUID
    name: str
    tenant: str
    """Whose things it opens; `*` for every tenant's."""
    role: str
    prefix: str
    """How its text begins, after `duly_`: by this it is known again."""
    state: str
    """`live`, `expired` or `revoked`."""
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    """None for never."""
    revoked_at: datetime | None
    revoked_by: str | None
    last_used_at: datetime | None
    """To the minute."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "name": self.name,
            "tenant": self.tenant,
            "role": self.role,
            "prefix": self.prefix,
            "state": self.state,
            "created_at": iso_utc(self.created_at),
            "created_by": self.created_by,
            "expires_at": iso_or_none(self.expires_at),
            "revoked_at": iso_or_none(self.revoked_at),
            "revoked_by": self.revoked_by,
            "last_used_at": iso_or_none(self.last_used_at),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token that was just made, with its text: nobody can show that again."""

    token: Token
    text: str = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values, with its text."""
        return {**self.token.to_json(), "text": self.text}


# A class that has a method `list` can't name the type below it.
ListedTokens = list[Token]


class Tokens:
    """Who may come in by a token. A tenant's caller sees and ends its own tenant's only."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def create(  # noqa: PLR0913 - each term of a token is an argument
        self,
        name: str,
        *,
        role: str = Role.VIEWER,
        tenant: str | None = None,
        expires: Delay | Instant | None = None,
        reason: str | None = None,
    ) -> NewToken:
        """Make a token, and return its text, once.

        Its role is viewer, operator, admin or worker; its tenant this application's, unless given,
        or "*" for every tenant. It expires after 90 days unless told: "30d", an instant, "never".
        """
        made = make_token(self._caller.draws.draw(DRAWN_BYTES))
        command = AddToken(
            id=token_id(self._caller.clock.now_us(), self._caller.draws.draw(10)),
            name=_read_name(name),
            tenant=self._tenant(tenant),
            role=read_choice("role", role, Role),
            prefix=made.prefix,
            hash=made.hash,
            expiry=read_expiry(expires),
            actor=self._caller.ordering(reason),
        )
        record = part_of(self._store, command.tenant).add_token(command)
        return NewToken(token=_view(record, record.created_at), text=made.text)

    def list(self, *, tenant: str | None = None) -> ListedTokens:
        """Return tokens, newest first: a tenant's, or all that this caller may see."""
        of = self._tenant(tenant) if tenant is not None or self._caller.is_confined else None
        store = self._store
        now = store.now()
        return [_view(one, now) for one in store.list_tokens(of)]

    def get(self, reference: str | UUID) -> Token:
        """Return a token, by its id or by its prefix."""
        store = self._store
        return _view(self._find(store, reference), store.now())

    def revoke(self, reference: str | UUID, *, reason: str | None = None) -> Token:
        """End a token, by its id or its prefix, and the sessions that were begun with it.

        Whoever comes with it a second later is not let in, wherever he comes.
        """
        store = self._store
        found = self._find(store, reference)
        command = RevokeToken(id=found.id, tenant=found.tenant, actor=self._caller.ordering(reason))
        record = part_of(store, found.tenant).revoke_token(command)
        return _view(record, store.now())

    @property
    def _store(self) -> Store:
        # The whole of it: a token is looked for before it is known whose it is.
        return self._caller.open_store()

    def _tenant(self, asked: str | None) -> str:
        if asked is None:
            return self._caller.tenant
        tenant = EVERY_TENANT if asked == EVERY_TENANT else read_tenant(asked)
        if tenant != self._caller.tenant:
            self._caller.require_operator("have tokens of other tenants")
        return tenant

    @property
    def _own(self) -> str | None:
        """Whose tokens this caller may see; None for all."""
        return self._caller.tenant if self._caller.is_confined else None

    def _find(self, store: Store, reference: str | UUID) -> TokenRecord:
        """Find a token; one of another tenant's is not there for a tenant's caller."""
        prefix = _prefix_of(reference)
        if prefix is None:
            wanted = read_identity(reference, "token")
            found = next((one for one in store.list_tokens(self._own) if one.id == wanted), None)
        else:
            seen = store.find_token(prefix, self._own)
            found = None if seen is None else seen.record
        if found is None or self._own not in {None, found.tenant}:
            raise NotFound("token", prefix or str(reference), _LISTS)
        return found


def read_expiry(value: object) -> Expiry:
    """Read when a token is to expire: a duration, an instant, "never"; 90 days unless told."""
    if value is None:
        return Expiry(after_us=LIFETIME_DEFAULT_US)
    if value == NEVER:
        return Expiry()
    try:
        return Expiry(after_us=read_delay("expires", value))
    except UsageError as error:
        try:
            return Expiry(at=read_instant("expires", value))
        except UsageError:
            remedy = "give '90d', an instant such as '2026-04-03T02:00+02:00', or 'never'"
            raise UsageError("expires", value, "says no time", remedy) from error


def _read_name(value: object) -> str:
    require_text("name", value, NAME_LENGTH_MAX)
    assert isinstance(value, str), "just checked"
    if not value.strip() or not value.isprintable():
        remedy = "say who or what it is for, such as 'ci' or 'anna'"
        raise UsageError("name", value, "is empty or not printable", remedy)
    return value


def _prefix_of(reference: object) -> str | None:
    """Return the prefix that a text names a token by, with or without what stands before it.

    A whole token is refused: whoever revokes it may well leave it in a shell's history.
    """
    if not isinstance(reference, str):
        return None
    text = reference.removeprefix(f"{BRAND}_")
    if len(text) > PREFIX_LENGTH and text[PREFIX_LENGTH] == "_":
        remedy = f"name it by its prefix: {text[:PREFIX_LENGTH]}"
        raise UsageError("token", f"{text[:PREFIX_LENGTH]}_…", "is a token's whole text", remedy)
    return text if len(text) == PREFIX_LENGTH else None


def _view(record: TokenRecord, now: int) -> Token:
    ended = "expired" if record.revoked_at is None else "revoked"
    return Token(
        id=UUID(bytes=record.id),
        name=record.name,
        tenant=record.tenant,
        role=str(record.role),
        prefix=record.prefix,
        state="live" if record.is_live(now) else ended,
        created_at=from_microseconds(record.created_at),
        created_by=record.created_by,
        expires_at=moment_or_none(record.expires_at),
        revoked_at=moment_or_none(record.revoked_at),
        revoked_by=record.revoked_by,
        last_used_at=moment_or_none(record.last_used_at),
    )

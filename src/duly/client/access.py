"""Authenticates tokens and sessions; creates, lists and revokes tokens.

`TokenAuthenticator` remembers an accepted token or session for half a second. A caller with a
hundred requests a second costs two look-ups, and a revoked token opens nothing a second later.
Nothing else caches credentials.

`TokenAuthenticator` never remembers a refusal. It counts refusals and records them at most once a
minute, so a client that tries a million tokens can't fill the audit trail.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.caller import joins
from duly.client.parameters import read_choice, read_delay, read_instant, read_tenant
from duly.domain.audit import Actor
from duly.domain.auth import (
    BRAND,
    DRAWN_BYTES,
    EVERY_TENANT,
    LIFETIME_DEFAULT_US,
    PREFIX_LENGTH,
    SECRET_BYTES,
    Expiry,
    Principal,
    PrincipalKind,
    Refusal,
    Role,
    TokenId,
    is_use_to_be_noted,
    make_token,
    new_secret,
    read_token,
    recognise,
    secret_hash,
    token_id,
    unauthenticated,
)
from duly.domain.ids import read_identity, schedule_id
from duly.errors import STORE_AWAY, NotFound, UsageError, read_text
from duly.store.ports.auth import AddSession, AddToken, NoteRefusals, RevokeToken, part_of
from duly.timetable.instants import (
    MINUTE,
    SECOND_US,
    from_microseconds,
    iso_or_none,
    iso_utc,
    moment_or_none,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duly.client.caller import Caller
    from duly.client.parameters import Delay, Instant
    from duly.clock import Clock
    from duly.domain.auth import TokenRecord
    from duly.entropy import RandomSource
    from duly.store.ports import Store
    from duly.store.ports.auth import SessionRecord


REMEMBERED_US = SECOND_US // 2
REMEMBERED_MAX = 1_000
TOLD_US = MINUTE * SECOND_US
ADDRESSES_MAX = 20
"""So many addresses are told with the refusals of a minute,"""
OTHER_ADDRESSES = "others"
"""and all further ones together."""
CONSOLE = "console"
"""As whom somebody acts who came in with the one-time code."""
_LENGTH_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A session that was just begun, with the secret that its browser keeps."""

    record: SessionRecord
    secret: str = field(repr=False)


class TokenAuthenticator:
    """Says who comes. May be asked by several threads at once."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        clock: Clock,
        draws: RandomSource,
        source: str = "api",
    ) -> None:
        self._open_store = open_store
        self._clock = clock
        self._draws = draws
        self._source = source
        self._lock = threading.Lock()
        self._known: dict[bytes, tuple[Principal, int]] = {}
        """By the hash of what was shown: who it was, and until when that is taken for granted."""
        self._refused: Counter[Refusal] = Counter()
        """Since the last time that refusals were written down."""
        self._refused_from: Counter[str] = Counter()
        """From which addresses; those that are too many, together."""
        self._told_at: int | None = None

    def authenticate(self, text: str | None, address: str | None = None) -> Principal:
        """Say who comes with a token, and from where; Unauthenticated if it opens nothing."""
        if not text:
            raise unauthenticated(Refusal.MISSING)
        token = read_token(text)
        if token is None:
            raise self._refuse(Refusal.MALFORMED, address)
        return self._recall(b"token:" + token.hash, lambda: self._find_token(text), address)

    def session(self, secret: str | None, address: str | None = None) -> Principal:
        """Say who comes with the secret of a session; Unauthenticated if it is over."""
        if not secret:
            raise unauthenticated(Refusal.MISSING)
        if len(secret) > _LENGTH_MAX:
            raise self._refuse(Refusal.MALFORMED, address)
        shown = secret_hash(secret)
        return self._recall(b"session:" + shown, lambda: self._find_session(shown), address)

    def begin_session(self, text: str, address: str | None = None) -> NewSession:
        """Begin a session with a token: it ends with the token."""
        principal = self.authenticate(text, address)
        return self._begin(principal, TokenId(principal.id), address)

    def make_code(self) -> str:
        """Return a code that begins one session, of an admin of every tenant, within minutes."""
        code = new_secret(self._draws.draw(SECRET_BYTES))
        self._open_store().add_code(secret_hash(code))
        return code

    def spend_code(self, code: str, address: str | None = None) -> NewSession:
        """Begin a session with a one-time code; Unauthenticated if it was spent, or is none."""
        is_code = 0 < len(code) <= _LENGTH_MAX
        if not is_code or not self._open_store().spend_code(secret_hash(code)):
            raise self._refuse(Refusal.UNKNOWN, address)
        principal = Principal(
            tenant=EVERY_TENANT,
            name=CONSOLE,
            role=Role.ADMIN,
            kind=PrincipalKind.SESSION,
            id=bytes(16),
        )
        return self._begin(principal, None, address)

    def end_session(self, secret: str, address: str | None = None) -> bool:
        """End a session, at this door at once; say whether there was one."""
        shown = secret_hash(secret[:_LENGTH_MAX])
        with self._lock:
            self._known.pop(b"session:" + shown, None)
        store = self._open_store()
        found = store.find_session(shown)
        if found is None:
            return False  # what is over already goes with what has expired
        known = found.principal
        actor = Actor(known.name, self._source, address=address, credential=known.credential)
        return part_of(store, known.tenant).end_session(shown, actor)

    def close(self) -> None:
        """Write down what was refused and not yet told."""
        with self._lock:
            self._told_at = None
        self._tell()

    def _recall(
        self, shown: bytes, find: Callable[[], Principal | Refusal], address: str | None
    ) -> Principal:
        # Read before the store is asked: what is revoked later is later than this.
        now = self._clock.monotonic_us()
        with self._lock:
            principal, until = self._known.get(shown, (None, 0))
        if principal is not None and now < until:
            return principal
        found = find()
        with self._lock:
            self._known.pop(shown, None)
            if isinstance(found, Principal):
                if len(self._known) >= REMEMBERED_MAX:
                    self._known.clear()
                self._known[shown] = (found, now + REMEMBERED_US)
                return found
        raise self._refuse(found, address)

    def _find_token(self, text: str) -> Principal | Refusal:
        return authenticate(self._open_store(), text)

    def _find_session(self, shown: bytes) -> Principal | Refusal:
        session = self._open_store().find_session(shown)
        return Refusal.UNKNOWN if session is None else session.principal

    def _begin(
        self, principal: Principal, token: TokenId | None, address: str | None
    ) -> NewSession:
        by = None if token is None else principal.credential
        secret = new_secret(self._draws.draw(SECRET_BYTES))
        command = AddSession(
            hash=secret_hash(secret),
            id=schedule_id(self._clock.now_us(), self._draws.draw(10)),
            tenant=principal.tenant,
            name=principal.name,
            role=principal.role,
            token_id=token,
            actor=Actor(principal.name, self._source, address=address, credential=by),
        )
        # What is on record of it, is so in its tenant.
        store = part_of(self._open_store(), principal.tenant)
        return NewSession(record=store.add_session(command), secret=secret)

    def _refuse(self, refusal: Refusal, address: str | None) -> Exception:
        """Count a refusal, and write it down with others when a minute is over."""
        with self._lock:
            self._refused[refusal] += 1
            if address is not None:
                self._refused_from[_told_as(address, self._refused_from)] += 1
        self._tell()
        return unauthenticated(refusal)

    def _tell(self) -> None:
        now = self._clock.monotonic_us()
        with self._lock:
            is_early = self._told_at is not None and now - self._told_at < TOLD_US
            if is_early or not self._refused:
                return
            told_before, self._told_at = self._told_at, now
            counts, self._refused = self._refused, Counter()
            places, self._refused_from = self._refused_from, Counter()
        actor = Actor("duly", self._source)
        try:
            self._open_store().note_refusals(NoteRefusals(counts, places, actor))
        except STORE_AWAY:
            # Whoever is refused is told so all the same, and the next one is counted with these.
            with self._lock:
                self._refused += counts
                for place, count in places.items():
                    self._refused_from[_told_as(place, self._refused_from)] += count
                self._told_at = told_before


def _told_as(address: str, known: Counter[str]) -> str:
    """Return under which name a refusal is counted: whoever has many addresses fills no store."""
    is_told = address in known or len(known) < ADDRESSES_MAX
    return address if is_told else OTHER_ADDRESSES


def authenticate(store: Store, text: str) -> Principal | Refusal:
    """Look a token up, say who comes with it, and note that it was used."""
    token = read_token(text)
    if token is None:
        return Refusal.MALFORMED
    found = store.find_token(token.prefix)
    if found is None:
        return recognise(token, None, 0)
    known = recognise(token, found.record, found.now)
    is_noted = is_use_to_be_noted(found.record.last_used_at, found.now)
    if isinstance(known, Principal) and is_noted:
        with suppress(*STORE_AWAY):  # a store that can't write just now can still be read
            store.use_token(found.record.id)
    return known


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

    @joins
    def create(  # noqa: PLR0913 - each term of a token is an argument
        self,
        name: str,
        *,
        role: str = Role.VIEWER,
        tenant: str | None = None,
        expires: Delay | Instant | None = None,
        reason: str | None = None,
        connection: object | None = None,
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

    @joins
    def revoke(
        self, reference: str | UUID, *, reason: str | None = None, connection: object | None = None
    ) -> Token:
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
        return self._caller.whole_store

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
    text = read_text("name", value, NAME_LENGTH_MAX)
    if not text.strip() or not text.isprintable():
        remedy = "say who or what it is for, such as 'ci' or 'anna'"
        raise UsageError("name", text, "is empty or not printable", remedy)
    return text


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

"""At the door: who comes with a token or a session, and what is told of those who are not let in.

A good answer is remembered for half a second, so that a caller with a hundred requests is looked up
twice a second and a token that is revoked opens nothing a second later. That is the one place where
anything of it is kept. A refusal is never remembered, and written down at most once in a minute:
whoever tries a million tokens can't fill the audit trail.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.domain.access import (
    EVERY_TENANT,
    SECRET_BYTES,
    Principal,
    PrincipalKind,
    Refusal,
    Role,
    TokenId,
    is_use_to_be_noted,
    new_secret,
    read_token,
    recognise,
    secret_hash,
    unauthenticated,
)
from duly.domain.audit import Actor
from duly.domain.identity import schedule_id
from duly.domain.instants import MINUTE, SECOND_US
from duly.errors import STORE_AWAY
from duly.store.access import AddSession, NoteRefusals
from duly.store.tenancy import part_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.clock import Clock
    from duly.draws import Draws
    from duly.store.access import SessionRecord
    from duly.store.protocol import Store

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


class Doorkeeper:
    """Says who comes. May be asked by several threads at once."""

    def __init__(
        self, open_store: Callable[[], Store], clock: Clock, draws: Draws, source: str = "api"
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

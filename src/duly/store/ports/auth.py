"""Tokens, sessions, idempotent answers, selections, tenant views.

Each operation is one transaction, with its audit entry in the same one. Secrets never reach the
store: it receives their hashes. The store's own clock decides whether something has expired.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeVar

from duly.errors import Forbidden
from duly.timetable.instants import DAY, HOUR, MINUTE, SECOND_US

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.domain.audit import Actor
    from duly.domain.auth import Expiry, Principal, Refusal, Role, TokenId, TokenRecord
    from duly.domain.ids import RunId
    from duly.store.ports import Store


SESSION_US = 12 * HOUR * SECOND_US
CODE_US = 15 * MINUTE * SECOND_US
ANSWER_KEPT_US = DAY * SECOND_US
ANSWER_AWAITED_US = MINUTE * SECOND_US
"""How long an order that was begun may take. Whoever began it is gone afterwards, and the same
order given again is carried out by whoever gives it: under the same ids (`domain.auth`)."""
ANSWER_BYTES_MAX = 1_000_000
IDEMPOTENCY_KEY_LENGTH_MAX = 200
FROZEN_US = 15 * MINUTE * SECOND_US
FROZEN_RUNS_MAX = 100_000
FROZEN_SETS_MAX = 20
"""How many sets of one caller are kept; a further one takes the place of the oldest."""
TOKENS_LISTED_MAX = 10_000
TOKENS_KEPT_US = 366 * DAY * SECOND_US
"""How long a token that opens nothing any more is still listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddToken:
    """Make a token whose text somebody has been given."""

    id: TokenId
    name: str
    tenant: str
    role: Role
    prefix: str
    hash: bytes
    expiry: Expiry
    actor: Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeToken:
    """End a token for good."""

    id: TokenId
    tenant: str | None
    """Only if it is this tenant's; None for whichever."""
    actor: Actor


@dataclass(frozen=True, slots=True)
class FoundToken:
    """A token as it is stored, at the store's time."""

    record: TokenRecord
    now: int


@dataclass(frozen=True, slots=True)
class NoteRefusals:
    """Tell of credentials that opened nothing."""

    counts: Mapping[Refusal, int]
    """How many of each kind,"""
    addresses: Mapping[str, int]
    """and from where, as far as it is known; as many as whoever counts will tell."""
    actor: Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class AddSession:
    """Begin a session of a browser: its secret's hash, and as whom it acts."""

    hash: bytes
    id: bytes
    tenant: str
    name: str
    role: Role
    token_id: TokenId | None
    """Whose token it was begun with: the session ends with it. None when it was by a code."""
    actor: Actor
    lifetime_us: int = SESSION_US


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A session that is open."""

    principal: Principal
    created_at: int
    expires_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyKey:
    """Which order an answer belongs to."""

    tenant: str
    principal: bytes
    """The id of the token, or of the session, that gave the order."""
    key: str
    """As the caller sent it: its Idempotency-Key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginRequest:
    """Announce that an order is about to be carried out."""

    key: IdempotencyKey
    request_hash: bytes
    """Of all that makes it this order: method, path, body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """What was answered to an order."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class IdempotencyStatus(StrEnum):
    """What is known of an order that is given under an idempotency key."""

    BEGUN = "begun"
    """It is new: carry it out, then finish it or take it back."""
    RUNNING = "running"
    """Somebody else carries it out just now."""
    ANSWERED = "answered"
    """It was carried out: give the same answer."""
    DIFFERENT = "different"
    """Another order was given under this key."""


@dataclass(frozen=True, slots=True)
class IdempotencyCheck:
    """What became of an announcement."""

    standing: IdempotencyStatus
    fence: int = 0
    """If begun: by which it is finished, or taken back."""
    begun_at: int = 0
    """When it was first begun: whoever carries it out after another makes the same ids of it."""
    answer: StoredResponse | None = None
    is_taken_over: bool = False
    """If begun: whether somebody had begun it who is gone, and may have carried it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishAnswer:
    """Keep the answer to an order that was carried out."""

    key: IdempotencyKey
    fence: int
    answer: StoredResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSelection:
    """Keep a set of runs as it was chosen, so that an order means these and no others."""

    id: bytes
    tenant: str
    made_by: str
    chosen_by: str
    """The filter, as JSON text."""
    ids: tuple[RunId, ...]
    as_of: int
    """When they were chosen, by the store's clock."""
    lifetime_us: int = FROZEN_US


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSelection:
    """A set of runs as it was chosen."""

    id: bytes
    tenant: str
    made_by: str
    chosen_by: str
    ids: tuple[RunId, ...]
    as_of: int
    expires_at: int


class AccessStore(Protocol):
    """What authentication, sessions and safe repetition are made of."""

    def add_token(self, command: AddToken) -> TokenRecord:
        """Make a token. Audited as `token.created`, with its prefix and without its hash.

        Conflict if its prefix is taken: draw again. UsageError if it would have expired already.
        """
        ...

    def find_token(self, prefix: str, tenant: str | None = None) -> FoundToken | None:
        """Return the token of a prefix, live or not: whoever asks must still compare the hash.

        With a tenant, only if it is theirs.
        """
        ...

    def list_tokens(self, tenant: str | None) -> list[TokenRecord]:
        """Return tokens of a tenant, or all, newest first; also those that open nothing."""
        ...

    def revoke_token(self, command: RevokeToken) -> TokenRecord:
        """End a token, and the sessions that were begun with it, for whoever asks from now on.

        NotFound when there is none in the tenant; one that was revoked before is returned as it is.
        Audited as `token.revoked`.
        """
        ...

    def use_token(self, token: TokenId) -> None:
        """Note that a token was used, if no use was noted within the last minute."""
        ...

    def has_live_token(self) -> bool:
        """Say whether there is any token that opens something."""
        ...

    def note_refusals(self, command: NoteRefusals) -> None:
        """Write one audit entry, `access.refused`, about credentials that opened nothing.

        How many of each kind since the last one: whoever counts bounds how often this is called.
        """
        ...

    def add_session(self, command: AddSession) -> SessionRecord:
        """Begin a session. Audited as `session.begun`."""
        ...

    def find_session(self, secret_hash: bytes) -> SessionRecord | None:
        """Return a session that is open.

        None if it has ended or expired, or if the token that it was begun with opens nothing.
        """
        ...

    def end_session(self, secret_hash: bytes, actor: Actor) -> bool:
        """End a session; say whether there was one. Audited as `session.ended`."""
        ...

    def add_code(self, secret_hash: bytes, lifetime_us: int = CODE_US) -> None:
        """Keep a code that opens one session, once."""
        ...

    def spend_code(self, secret_hash: bytes) -> bool:
        """Spend a code: true once, and never for one that has expired; of two at once, for one."""
        ...

    def begin_answer(self, command: BeginRequest) -> IdempotencyCheck:
        """Announce an order under its key, or say what is known of it; of two at once, one begins.

        What was begun and not finished within a minute may be begun again, under a higher fence.
        Kept for a day.
        """
        ...

    def finish_answer(self, command: FinishAnswer) -> bool:
        """Keep an answer, under the fence that it was begun with; say whether that still holds."""
        ...

    def forget_answer(self, key: IdempotencyKey, fence: int) -> None:
        """Take back an order that was begun and of which nothing was done: it may come again."""
        ...

    def freeze(self, command: CreateSelection) -> StoredSelection:
        """Keep a set of runs; the caller's oldest make room where there are too many."""
        ...

    def find_frozen(self, frozen: bytes, tenant: str) -> StoredSelection | None:
        """Return a set that has not expired, if it is this tenant's."""
        ...


class Owned(Protocol):
    """Something that is a tenant's."""

    @property
    def tenant(self) -> str:
        """Whose it is."""
        ...


T = TypeVar("T", bound=Owned)


class KeepsTenants:
    """What a client of one tenant speaks to, where there is a second line of defence."""

    def within(self, tenant: str) -> Store:
        """Return this store for the orders and questions of one tenant."""
        raise NotImplementedError

    @property
    def is_held(self) -> bool:
        """Whether it sees one tenant's at a time, and of all together nothing."""
        raise NotImplementedError

    def grant_access(self, role: str, *, is_undone: bool, is_dry: bool) -> list[str]:
        """Give a role of the database what a server needs, for one tenant at a time.

        Undone, take it back. Return the statements; dry, none of them is run. Doing it again is no
        error. NotFound when there is no such role; UsageError for one that nothing would hold.
        """
        raise NotImplementedError


def sees_everything(store: Store) -> bool:
    """Say whether a store sees what is every tenant's."""
    return not (isinstance(store, KeepsTenants) and store.is_held)


def require_all_tenants(store: Store, actor: str, what: str) -> None:
    """Refuse what is about all tenants where the database shows one: a part looks like all."""
    if not sees_everything(store):
        problem = f"may not {what}: the server's role of the database sees one tenant at a time"
        remedy = "ask about one tenant, or ask a server that connects as dispatchers do"
        raise Forbidden(actor, problem, remedy)


def part_of(store: Store, tenant: str) -> Store:
    """Return a store for the orders and questions of one tenant, if it keeps tenants apart."""
    return store.within(tenant) if isinstance(store, KeepsTenants) else store


def of_tenant(found: T | None, tenant: str | None) -> T | None:
    """Return what was found if it is a tenant's; whosever it is when none is named."""
    return found if found is None or tenant in {None, found.tenant} else None

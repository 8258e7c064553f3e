"""Authentication and permissions: roles, scopes, the text of a token, and the caller behind it.

A token is `duly_<prefix>_<secret>_<checksum>`. The prefix finds the token, and names it in lists
and logs. The secret is 260 random bits, of which a store keeps only a hash; a secret that cannot be
guessed needs no slow hash. The checksum tells a mistyped or truncated text from an unknown token
before a store is asked.

The functions are pure: random bytes and `now` are arguments.
"""

from __future__ import annotations

import base64
import hmac
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b, sha256
from typing import NamedTuple, NewType
from uuid import UUID

from duly.domain.ids import schedule_id
from duly.domain.schedules import TENANT_DEFAULT
from duly.errors import Forbidden, Unauthenticated, UsageError
from duly.timetable.instants import DAY, MINUTE, SECOND_US, from_microseconds, iso_utc

TokenId = NewType("TokenId", bytes)

EVERY_TENANT = "*"
"""The tenant of a token that may name any; no tenant has this name."""
LIFETIME_DEFAULT_US = 90 * DAY * SECOND_US
USE_NOTED_US = MINUTE * SECOND_US
"""How coarse it is known when a token was last used: noting it is a write."""
BRAND = "duly"
PREFIX_LENGTH = 8
SECRET_LENGTH = 52
CHECKSUM_LENGTH = 6
TOKEN_LENGTH = len(BRAND) + PREFIX_LENGTH + SECRET_LENGTH + CHECKSUM_LENGTH + 3
DRAWN_BYTES = 5 + 33
"""Five bytes make the prefix; of 33 all but four bits make the secret."""
SECRET_BYTES = 32
_HAVE_ONE_MADE = "have one made: duly token create NAME"
_ALPHABET = frozenset("abcdefghijklmnopqrstuvwxyz234567")


class Scope(StrEnum):
    """What a caller may do."""

    READ = "read"
    """Look at anything."""
    TRIGGER = "trigger"
    """Have something run: enqueue, run now, backfill."""
    EDIT = "edit"
    """Change schedules, runs, limits, queues."""
    ADMIN = "admin"
    """Tokens, quotas, retention, and what concerns the whole cluster."""
    WORKER = "worker"
    """Take runs and finish them, and nothing else."""


class Role(StrEnum):
    """What a token is for."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    WORKER = "worker"


SCOPES_BY_ROLE: dict[Role, frozenset[Scope]] = {
    Role.VIEWER: frozenset((Scope.READ,)),
    Role.OPERATOR: frozenset((Scope.READ, Scope.TRIGGER, Scope.EDIT)),
    Role.ADMIN: frozenset((Scope.READ, Scope.TRIGGER, Scope.EDIT, Scope.ADMIN)),
    Role.WORKER: frozenset((Scope.WORKER,)),
}


class Refusal(StrEnum):
    """Why credentials open nothing."""

    MISSING = "missing"
    MALFORMED = "malformed"
    UNKNOWN = "unknown"
    REVOKED = "revoked"
    EXPIRED = "expired"


class PrincipalKind(StrEnum):
    """By what a caller is known."""

    TOKEN = "token"  # noqa: S105 - a word, and no secret
    SESSION = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A caller who is known: as whom it acts, and what it may do."""

    tenant: str
    """Whose it is; `*` for one that may name any tenant."""
    name: str
    role: Role
    kind: PrincipalKind
    id: bytes
    """Of the token, or of the session."""
    token_id: bytes | None = None
    """Of the token with which a session was begun."""

    @property
    def scopes(self) -> frozenset[Scope]:
        """What it may do."""
        return SCOPES_BY_ROLE[self.role]

    @property
    def counted_as(self) -> bytes:
        """By what its requests and streams are counted: sessions of a token count as the token."""
        return self.token_id or self.id

    @property
    def credential(self) -> str:
        """By what it is known, as the audit trail tells it: nothing that would open anything."""
        return f"{self.kind}:{UUID(bytes=self.id)}"

    @property
    def is_everywhere(self) -> bool:
        """Whether it may name any tenant."""
        return self.tenant == EVERY_TENANT

    def require(self, scope: Scope) -> None:
        """Refuse a caller who may not do something."""
        if scope not in self.scopes:
            roles = [str(role) for role, scopes in SCOPES_BY_ROLE.items() if scope in scopes]
            remedy = f"use a token whose role is {' or '.join(roles)}"
            raise Forbidden(self.name, f"its role, {self.role}, has no scope {scope}", remedy)

    def tenant_for(self, asked: str | None) -> str:
        """Return in which tenant it acts: its own, or the one that it names if it may."""
        if self.is_everywhere and asked != EVERY_TENANT:
            return TENANT_DEFAULT if asked is None else asked
        if asked is None or asked == self.tenant != EVERY_TENANT:
            return self.tenant
        remedy = "leave it out, or use a token of that tenant"
        raise Forbidden(self.name, "it is of another tenant than the one named", remedy)


class TokenText(NamedTuple):
    """A token's parts, as its text has them."""

    prefix: str
    secret: str

    @property
    def text(self) -> str:
        """The whole of it: shown once, to whoever has it made."""
        checksum = _checksum(self.prefix, self.secret)
        return f"{BRAND}_{self.prefix}_{self.secret}_{checksum}"

    @property
    def hash(self) -> bytes:
        """What a store keeps of the secret."""
        return secret_hash(self.secret)

    def __repr__(self) -> str:
        return f"TokenText({self.prefix!r}, …)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """A token as it is stored; nobody can make its text out of this."""

    id: TokenId
    name: str
    tenant: str
    role: Role
    prefix: str
    hash: bytes
    created_at: int
    created_by: str
    expires_at: int | None
    """None for never."""
    revoked_at: int | None = None
    revoked_by: str | None = None
    last_used_at: int | None = None
    """To the minute: it is noted at most once in a minute."""

    def principal(self) -> Principal:
        """Return who comes with this token."""
        return Principal(
            tenant=self.tenant,
            name=self.name,
            role=self.role,
            kind=PrincipalKind.TOKEN,
            id=self.id,
        )

    def is_live(self, now: int) -> bool:
        """Say whether it opens anything."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class Expiry:
    """When something is to expire: after a while, at an instant, or never when neither is given."""

    after_us: int | None = None
    at: int | None = None

    def resolve(self, now: int) -> int | None:
        """Return the instant, by the store's clock; refuse one that has passed."""
        expires_at = now + self.after_us if self.after_us is not None else self.at
        if expires_at is not None and expires_at <= now:
            when = iso_utc(from_microseconds(expires_at))
            raise UsageError("expires", when, "has passed", 'give a later one, "90d" or "never"')
        return expires_at


def make_token(draw: bytes) -> TokenText:
    """Return a new token's parts, from drawn bytes."""
    assert len(draw) == DRAWN_BYTES, "a token takes 38 drawn bytes"
    return TokenText(_base32(draw[:5]), _base32(draw[5:])[:SECRET_LENGTH])


def token_id(created_at: int, draw: bytes) -> TokenId:
    """Return a token's id, of the same kind as a schedule's."""
    return TokenId(schedule_id(created_at, draw))


def read_token(text: object) -> TokenText | None:
    """Read a token's text; None for what can't be one."""
    if not isinstance(text, str) or len(text) != TOKEN_LENGTH or not text.isascii():
        return None
    brand, *parts = text.split("_")
    lengths = [len(part) for part in parts]
    if brand != BRAND or lengths != [PREFIX_LENGTH, SECRET_LENGTH, CHECKSUM_LENGTH]:
        return None
    prefix, secret, checksum = parts
    if not _ALPHABET.issuperset("".join(parts)) or checksum != _checksum(prefix, secret):
        return None
    return TokenText(prefix, secret)


def recognise(token: TokenText, record: TokenRecord | None, now: int) -> Principal | Refusal:
    """Say who comes with a token, by what is stored under its prefix, or why it opens nothing.

    That a token has expired or was revoked is told to those alone who know its secret.
    """
    # A prefix that nobody has costs the same comparison as one that somebody has.
    kept = bytes(32) if record is None else record.hash
    is_same = hmac.compare_digest(token.hash, kept)
    if record is None or not is_same:
        return Refusal.UNKNOWN
    if record.revoked_at is not None:
        return Refusal.REVOKED
    if not record.is_live(now):
        return Refusal.EXPIRED
    return record.principal()


def is_use_to_be_noted(last_used_at: int | None, now: int) -> bool:
    """Say whether the last use that is noted is so long ago that another is worth a write."""
    return last_used_at is None or now - last_used_at >= USE_NOTED_US


def new_secret(draw: bytes) -> str:
    """Return the secret of a session or of a one-time code, from drawn bytes."""
    assert len(draw) == SECRET_BYTES, "a secret takes 32 drawn bytes"
    return _base32(draw)


def secret_hash(secret: str) -> bytes:
    """Return what is stored of a secret; whatever text was given in its place has a hash too."""
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


def order_nonce(tenant: str, principal: bytes, key: str) -> bytes:
    """Return 16 bytes that are the same for the same order given again under its idempotency key.

    Ids that are made of them make an order that was carried out, and whose answer was lost with the
    process, the same order when it comes again.
    """
    parts = [tenant.encode(), principal, key.encode()]
    framed = b"".join(len(part).to_bytes(4) + part for part in parts)
    return blake2b(framed, digest_size=16, person=b"duly.order").digest()


def unauthenticated(refusal: Refusal) -> Unauthenticated:
    """Return the error for a caller who is not known, and why."""
    problem, remedy = {
        Refusal.MISSING: ("no token was sent", "send one: Authorization: Bearer duly_…"),
        Refusal.MALFORMED: ("that is not a token", "copy the whole of it, from duly_ to its end"),
        Refusal.UNKNOWN: ("the token is not known here", _HAVE_ONE_MADE),
        Refusal.REVOKED: ("the token was revoked", _HAVE_ONE_MADE),
        Refusal.EXPIRED: ("the token has expired", _HAVE_ONE_MADE),
    }[refusal]
    return Unauthenticated(problem, remedy)


def _checksum(prefix: str, secret: str) -> str:
    digest = blake2b(f"{prefix}_{secret}".encode(), digest_size=5, person=b"duly.token").digest()
    return _base32(digest)[:CHECKSUM_LENGTH]


def _base32(drawn: bytes) -> str:
    return base64.b32encode(drawn).decode().rstrip("=").lower()

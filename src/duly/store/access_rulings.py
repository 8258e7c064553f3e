"""What every store decides alike about tokens, sessions and kept answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.domain.audit import AuditSubject, instant_text
from duly.domain.auth import Principal, PrincipalKind, Role, TokenId, TokenRecord
from duly.domain.ids import ID_BYTES, RunId, identity_text
from duly.errors import Conflict, NotFound
from duly.store.ports.auth import (
    ANSWER_AWAITED_US,
    ANSWER_KEPT_US,
    FROZEN_RUNS_MAX,
    IdempotencyCheck,
    IdempotencyStatus,
    SessionRecord,
    StoredResponse,
    StoredSelection,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.store.ports.auth import AddSession, AddToken, CreateSelection, NoteRefusals

NOBODY = 0
"""Since when an order is carried out that nobody carries out."""


class AnswerRow(NamedTuple):
    """What is stored of an order under its idempotency key."""

    request_hash: bytes
    fence: int
    first_at: int
    """When it was first begun,"""
    begun_at: int
    """and when last, by whoever carries it out now."""
    expires_at: int
    status: int | None = None
    """None until it is answered."""
    headers: str | None = None
    body: bytes | None = None


def new_token(command: AddToken, now: int) -> TokenRecord:
    """Return a token as it is made; refuse one that would have expired already."""
    return TokenRecord(
        id=command.id,
        name=command.name,
        tenant=command.tenant,
        role=command.role,
        prefix=command.prefix,
        hash=command.hash,
        created_at=now,
        created_by=command.actor.name,
        expires_at=command.expiry.resolve(now),
    )


def new_session(command: AddSession, now: int) -> SessionRecord:
    """Return a session as it begins."""
    return SessionRecord(
        principal=Principal(
            tenant=command.tenant,
            name=command.name,
            role=command.role,
            kind=PrincipalKind.SESSION,
            id=command.id,
            token_id=command.token_id,
        ),
        created_at=now,
        expires_at=now + command.lifetime_us,
    )


def frozen_set(command: CreateSelection, now: int) -> StoredSelection:
    """Return a set of runs as it is kept."""
    assert len(command.ids) <= FROZEN_RUNS_MAX, "a set has a limit"
    return StoredSelection(
        id=command.id,
        tenant=command.tenant,
        made_by=command.made_by,
        chosen_by=command.chosen_by,
        ids=command.ids,
        as_of=command.as_of,
        expires_at=now + command.lifetime_us,
    )


def judge_answer(
    row: AnswerRow | None, request_hash: bytes, now: int
) -> tuple[IdempotencyCheck, AnswerRow | None]:
    """Say what an announcement finds, and what is to be written if it begins the order."""
    if row is None or row.expires_at <= now or (row.status is None and row.begun_at == NOBODY):
        fence = 1 if row is None else row.fence + 1
        begun = AnswerRow(request_hash, fence, now, now, now + ANSWER_KEPT_US)
        return IdempotencyCheck(IdempotencyStatus.BEGUN, fence, now), begun
    if row.request_hash != request_hash:
        return IdempotencyCheck(IdempotencyStatus.DIFFERENT), None
    if row.status is not None:
        answer = StoredResponse(
            status=row.status, headers=json.loads(row.headers or "{}"), body=row.body or b""
        )
        return IdempotencyCheck(IdempotencyStatus.ANSWERED, answer=answer), None
    if now - row.begun_at < ANSWER_AWAITED_US:
        return IdempotencyCheck(IdempotencyStatus.RUNNING), None
    # Whoever began it is gone. What it may have done, the same ids make the same once more.
    again = row._replace(fence=row.fence + 1, begun_at=now)
    return IdempotencyCheck(
        IdempotencyStatus.BEGUN, again.fence, row.first_at, is_taken_over=True
    ), again


def token_made(record: TokenRecord) -> AuditSubject:
    """Return what is told of a token that was made: by its prefix people know it again."""
    after = {
        "prefix": record.prefix,
        "role": str(record.role),
        "expires_at": instant_text(record.expires_at),
    }
    return AuditSubject(name=record.name, tenant=record.tenant, id=record.id, after=after)


def token_ended(record: TokenRecord) -> AuditSubject:
    """Return what is told of a token that was revoked."""
    before = {"prefix": record.prefix, "role": str(record.role)}
    return AuditSubject(name=record.name, tenant=record.tenant, id=record.id, before=before)


def session_subject(principal: Principal) -> AuditSubject:
    """Return what is told of a session."""
    return AuditSubject(
        name=principal.name,
        tenant=principal.tenant,
        id=principal.id,
        after={"role": str(principal.role)},
    )


def refusals_subject(command: NoteRefusals) -> AuditSubject:
    """Return what is told of credentials that opened nothing."""
    told: dict[str, Any] = {
        str(refusal): count for refusal, count in sorted(command.counts.items()) if count
    }
    if command.addresses:
        told["from"] = dict(sorted(command.addresses.items()))
    return AuditSubject(name="credentials", after=told)


def taken_prefix(command: AddToken) -> Conflict:
    """Return the error for a token whose prefix another has."""
    problem = "is the prefix of another token"
    return Conflict("token", command.prefix, problem, "have one made again")


def unknown_token(token: TokenId) -> NotFound:
    """Return the error for a token that is not there, or is another tenant's."""
    return NotFound("token", identity_text(token), "duly token list shows those there are")


def token_record(row: Sequence[Any]) -> TokenRecord:
    """Return a token from its row."""
    return TokenRecord(
        id=TokenId(row[0]),
        name=row[1],
        tenant=row[2],
        role=Role(row[3]),
        prefix=row[4],
        hash=row[5],
        created_at=row[6],
        created_by=row[7],
        expires_at=row[8],
        revoked_at=row[9],
        revoked_by=row[10],
        last_used_at=row[11],
    )


def session_record(row: Sequence[Any]) -> SessionRecord:
    """Return a session from its row."""
    principal = Principal(
        id=row[0],
        tenant=row[1],
        name=row[2],
        role=Role(row[3]),
        kind=PrincipalKind.SESSION,
        token_id=row[4],
    )
    return SessionRecord(principal=principal, created_at=row[5], expires_at=row[6])


def frozen_record(row: Sequence[Any]) -> StoredSelection:
    """Return a set of runs from its row."""
    return StoredSelection(
        id=row[0],
        tenant=row[1],
        made_by=row[2],
        chosen_by=row[3],
        ids=split_ids(row[4]),
        as_of=row[5],
        expires_at=row[6],
    )


def split_ids(packed: bytes) -> tuple[RunId, ...]:
    """Return ids that are stored one after the other."""
    return tuple(
        RunId(packed[place : place + ID_BYTES]) for place in range(0, len(packed), ID_BYTES)
    )


def headers_text(answer: StoredResponse) -> str:
    """Write the headers of an answer as they are stored."""
    return json.dumps(dict(answer.headers))

"""Tokens, sessions, kept answers and frozen sets on PostgreSQL.

Whether something has expired is asked of the server's clock in the statement that looks for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.auth import USE_NOTED_US
from duly.store.access_rulings import (
    NOBODY,
    AnswerRow,
    frozen_record,
    frozen_set,
    headers_text,
    judge_answer,
    new_session,
    new_token,
    refusals_subject,
    session_record,
    session_subject,
    taken_prefix,
    token_ended,
    token_made,
    token_record,
    unknown_token,
)
from duly.store.ports.auth import (
    CODE_US,
    FROZEN_SETS_MAX,
    TOKENS_KEPT_US,
    TOKENS_LISTED_MAX,
    FoundToken,
)
from duly.store.postgres.session import first, uid

if TYPE_CHECKING:
    from duly.domain.audit import Actor
    from duly.domain.auth import TokenId, TokenRecord
    from duly.store.ports.auth import (
        AddSession,
        AddToken,
        BeginRequest,
        CreateSelection,
        FinishAnswer,
        IdempotencyCheck,
        IdempotencyKey,
        NoteRefusals,
        RevokeToken,
        SessionRecord,
        StoredSelection,
    )
    from duly.store.postgres.connection import Connections
    from duly.store.postgres.work import Work

TOKEN = """
SELECT uuid_send(t.id), t.name, t.tenant, t.role, t.prefix, t.hash, t.created_at, t.created_by,
    t.expires_at, t.revoked_at, t.revoked_by, t.last_used_at, duly.now_us()
FROM duly.tokens t"""
INSERT_TOKEN = """
INSERT INTO duly.tokens (id, name, tenant, role, prefix, hash, created_at, created_by, expires_at)
VALUES ($1::uuid, $2, $3, $4, $5, $6::bytea, $7::int8, $8, $9::int8) ON CONFLICT DO NOTHING"""
FIND_TOKEN = f"{TOKEN} WHERE t.prefix = $1 AND ($2::text IS NULL OR t.tenant = $2)"
HOLD_TOKEN = f"{TOKEN} WHERE t.id = $1::uuid AND ($2::text IS NULL OR t.tenant = $2) FOR UPDATE"
LIST_TOKENS = f"""{TOKEN} WHERE $1::text IS NULL OR t.tenant = $1
ORDER BY t.created_at DESC, t.id DESC LIMIT $2::int8"""
REVOKE_TOKEN = "UPDATE duly.tokens SET revoked_at = $2::int8, revoked_by = $3 WHERE id = $1::uuid"
USE_TOKEN = """
UPDATE duly.tokens SET last_used_at = duly.now_us()
WHERE id = $1::uuid AND (last_used_at IS NULL OR last_used_at <= duly.now_us() - $2::int8)"""
HAS_LIVE_TOKEN = """
SELECT 1 FROM duly.tokens
WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > duly.now_us()) LIMIT 1"""

_SESSION = """
SELECT uuid_send(s.id), s.tenant, s.name, s.role, uuid_send(s.token_id), s.created_at,
    s.expires_at
FROM duly.sessions s"""
INSERT_SESSION = """
INSERT INTO duly.sessions (hash, id, tenant, name, role, token_id, created_at, expires_at)
VALUES ($1::bytea, $2::uuid, $3, $4, $5, $6::uuid, $7::int8, $8::int8)"""
# One that was begun with a token opens nothing once the token does not: also if it is forgotten.
FIND_SESSION = f"""{_SESSION} LEFT JOIN duly.tokens t ON t.id = s.token_id
WHERE s.hash = $1::bytea AND s.expires_at > duly.now_us()
    AND (s.token_id IS NULL OR (t.id IS NOT NULL AND t.revoked_at IS NULL
        AND (t.expires_at IS NULL OR t.expires_at > duly.now_us())))"""
END_SESSION = """
DELETE FROM duly.sessions WHERE hash = $1::bytea
RETURNING uuid_send(id), tenant, name, role, uuid_send(token_id), created_at, expires_at"""
INSERT_CODE = """
INSERT INTO duly.codes (hash, expires_at) VALUES ($1::bytea, duly.now_us() + $2::int8)"""
# Of two at once, the second waits for the first to commit, and finds nothing.
SPEND_CODE = "DELETE FROM duly.codes WHERE hash = $1::bytea AND expires_at > duly.now_us()"

OF_ORDER = "tenant = $1 AND principal = $2::uuid AND key = $3"
# Who comes second waits here, until the first has committed.
CLAIM_ANSWER = """
INSERT INTO duly.answers (tenant, principal, key, request_hash, fence, first_at, begun_at,
    expires_at)
VALUES ($1, $2::uuid, $3, ''::bytea, 0, 0, 0, 0) ON CONFLICT DO NOTHING"""
HOLD_ANSWER = f"""
SELECT request_hash, fence, first_at, begun_at, expires_at, status, headers, body
FROM duly.answers WHERE {OF_ORDER} FOR UPDATE"""  # noqa: S608 - ours
WRITE_ANSWER = f"""
UPDATE duly.answers SET request_hash = $4::bytea, fence = $5::int4, first_at = $6::int8,
    begun_at = $7::int8, expires_at = $8::int8, status = NULL, headers = NULL, body = NULL
WHERE {OF_ORDER}"""  # noqa: S608 - ours
FINISH_ANSWER = f"""
UPDATE duly.answers SET status = $5::int4, headers = $6, body = $7::bytea
WHERE {OF_ORDER} AND fence = $4::int4 AND status IS NULL"""  # noqa: S608 - ours
# The row stays: a fence is never given twice.
FORGET_ANSWER = f"""
UPDATE duly.answers SET begun_at = $5::int8
WHERE {OF_ORDER} AND fence = $4::int4 AND status IS NULL"""  # noqa: S608 - ours

MAKE_ROOM = """
DELETE FROM duly.frozen_sets WHERE id IN (
    SELECT id FROM duly.frozen_sets WHERE tenant = $1 AND made_by = $2
    ORDER BY id DESC OFFSET $3::int8)"""
INSERT_FROZEN = """
INSERT INTO duly.frozen_sets (id, tenant, made_by, chosen_by, ids, as_of, expires_at)
VALUES ($1::uuid, $2, $3, $4, $5::bytea, $6::int8, $7::int8)"""
FIND_FROZEN = """
SELECT uuid_send(id), tenant, made_by, chosen_by, ids, as_of, expires_at FROM duly.frozen_sets
WHERE id = $1::uuid AND tenant = $2 AND expires_at > duly.now_us()"""

FORGET = tuple(
    f"""
DELETE FROM {table} WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM {table} WHERE expires_at <= $1::int8
    ORDER BY expires_at LIMIT $2::int8 FOR UPDATE SKIP LOCKED))"""  # noqa: S608 - tables of ours
    for table in ("duly.codes", "duly.sessions", "duly.answers", "duly.frozen_sets")
)
FORGET_TOKENS = """
DELETE FROM duly.tokens WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM duly.tokens WHERE least(revoked_at, expires_at) <= $1::int8
    LIMIT $2::int8 FOR UPDATE SKIP LOCKED))"""


class PostgresAccess:
    """Who may come in, and what makes orders safe to repeat."""

    _connections: Connections

    def add_token(self, command: AddToken) -> TokenRecord:
        """Make a token."""
        with self._connections.write() as work:
            one = new_token(command, work.now)
            made = (one.created_at, one.created_by, one.expires_at)
            values = (uid(one.id), one.name, one.tenant, one.role, one.prefix, one.hash, *made)
            if not work.session.run(INSERT_TOKEN, values):
                raise taken_prefix(command)
            work.record(command.actor, "token.created", token_made(one))
            return one

    def find_token(self, prefix: str, tenant: str | None = None) -> FoundToken | None:
        """Return the token of a prefix."""
        with self._connections.statement() as session:
            row = first(session, FIND_TOKEN, (prefix, tenant))
        return None if row is None else FoundToken(token_record(row), row[12])

    def list_tokens(self, tenant: str | None) -> list[TokenRecord]:
        """Return tokens, newest first."""
        with self._connections.statement() as session:
            found = session.rows(LIST_TOKENS, (tenant, TOKENS_LISTED_MAX))
        return [token_record(row) for row in found]

    def revoke_token(self, command: RevokeToken) -> TokenRecord:
        """End a token."""
        with self._connections.write() as work:
            row = first(work.session, HOLD_TOKEN, (uid(command.id), command.tenant))
            if row is None:
                raise unknown_token(command.id)
            record = token_record(row)
            if record.revoked_at is None:
                now = work.look_at_the_clock()
                record = replace(record, revoked_at=now, revoked_by=command.actor.name)
                work.session.run(REVOKE_TOKEN, (uid(record.id), now, record.revoked_by))
                work.record(command.actor, "token.revoked", token_ended(record))
            return record

    def use_token(self, token: TokenId) -> None:
        """Note that a token was used."""
        with self._connections.statement() as session:
            session.run(USE_TOKEN, (uid(token), USE_NOTED_US))

    def has_live_token(self) -> bool:
        """Say whether any token opens something."""
        with self._connections.statement() as session:
            return first(session, HAS_LIVE_TOKEN) is not None

    def note_refusals(self, command: NoteRefusals) -> None:
        """Write one audit entry about credentials that opened nothing."""
        with self._connections.write() as work:
            work.record(command.actor, "access.refused", refusals_subject(command))

    def add_session(self, command: AddSession) -> SessionRecord:
        """Begin a session."""
        with self._connections.write() as work:
            record = new_session(command, work.now)
            who = (uid(command.id), command.tenant, command.name, command.role)
            when = (record.created_at, record.expires_at)
            values = (command.hash, *who, uid(command.token_id), *when)
            work.session.run(INSERT_SESSION, values)
            work.record(command.actor, "session.begun", session_subject(record.principal))
            return record

    def find_session(self, secret_hash: bytes) -> SessionRecord | None:
        """Return a session that is open."""
        with self._connections.statement() as session:
            row = first(session, FIND_SESSION, (secret_hash,))
        return None if row is None else session_record(row)

    def end_session(self, secret_hash: bytes, actor: Actor) -> bool:
        """End a session."""
        with self._connections.write() as work:
            row = first(work.session, END_SESSION, (secret_hash,))
            if row is not None:
                subject = session_subject(session_record(row).principal)
                work.record(actor, "session.ended", subject)
            return row is not None

    def add_code(self, secret_hash: bytes, lifetime_us: int = CODE_US) -> None:
        """Keep a code that opens one session."""
        with self._connections.statement() as session:
            session.run(INSERT_CODE, (secret_hash, lifetime_us))

    def spend_code(self, secret_hash: bytes) -> bool:
        """Spend a code."""
        with self._connections.statement() as session:
            return session.run(SPEND_CODE, (secret_hash,)) == 1

    def begin_answer(self, command: BeginRequest) -> IdempotencyCheck:
        """Announce an order, or say what is known of it."""
        of_order = _of_order(command.key)
        with self._connections.write() as work:
            found = None
            while found is None:
                # What was there may have been pruned in between; the next time it is ours.
                work.session.run(CLAIM_ANSWER, of_order)
                found = first(work.session, HOLD_ANSWER, of_order)
            now = work.look_at_the_clock()
            known = AnswerRow(*found) if found[1] else None
            announced, row = judge_answer(known, command.request_hash, now)
            if row is not None:
                work.session.run(WRITE_ANSWER, (*of_order, *row[:5]))
            return announced

    def finish_answer(self, command: FinishAnswer) -> bool:
        """Keep an answer."""
        answer = command.answer
        told = (answer.status, headers_text(answer), answer.body)
        with self._connections.statement() as session:
            values = (*_of_order(command.key), command.fence, *told)
            return session.run(FINISH_ANSWER, values) == 1

    def forget_answer(self, key: IdempotencyKey, fence: int) -> None:
        """Take back an order of which nothing was done."""
        with self._connections.statement() as session:
            session.run(FORGET_ANSWER, (*_of_order(key), fence, NOBODY))

    def freeze(self, command: CreateSelection) -> StoredSelection:
        """Keep a set of runs."""
        with self._connections.write() as work:
            whose = (command.tenant, command.made_by)
            work.session.run(MAKE_ROOM, (*whose, FROZEN_SETS_MAX - 1))
            kept = frozen_set(command, work.now)
            what = (kept.chosen_by, b"".join(kept.ids), kept.as_of, kept.expires_at)
            work.session.run(INSERT_FROZEN, (uid(kept.id), *whose, *what))
            return kept

    def find_frozen(self, frozen: bytes, tenant: str) -> StoredSelection | None:
        """Return a set that has not expired, if it is this tenant's."""
        with self._connections.statement() as session:
            row = first(session, FIND_FROZEN, (uid(frozen), tenant))
        return None if row is None else frozen_record(row)


def forget_access(work: Work, limit: int) -> int:
    """Remove what has expired, and tokens that have opened nothing for long."""
    gone = 0
    for statement in FORGET:
        gone += work.session.run(statement, (work.now, limit - gone))
    return gone + work.session.run(FORGET_TOKENS, (work.now - TOKENS_KEPT_US, limit - gone))


def _of_order(key: IdempotencyKey) -> tuple[str, str | None, str]:
    return key.tenant, uid(key.principal), key.key

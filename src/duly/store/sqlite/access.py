"""Tokens, sessions, kept answers and frozen sets on SQLite."""

from __future__ import annotations

from abc import ABC, abstractmethod
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

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

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
    from duly.store.sqlite.work import Look, Work

TOKEN = """
SELECT id, name, tenant, role, prefix, hash, created_at, created_by, expires_at, revoked_at,
    revoked_by, last_used_at
FROM duly_tokens"""
INSERT_TOKEN = """
INSERT INTO duly_tokens (id, name, tenant, role, prefix, hash, created_at, created_by, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING 1"""
FIND_TOKEN = f"{TOKEN} WHERE prefix = ?1 AND (?2 IS NULL OR tenant = ?2)"
GET_TOKEN = f"{TOKEN} WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)"
LIST_TOKENS = f"""{TOKEN} WHERE ?1 IS NULL OR tenant = ?1
ORDER BY created_at DESC, id DESC LIMIT ?2"""
REVOKE_TOKEN = "UPDATE duly_tokens SET revoked_at = ?2, revoked_by = ?3 WHERE id = ?1"
USE_TOKEN = """
UPDATE duly_tokens SET last_used_at = ?2
WHERE id = ?1 AND (last_used_at IS NULL OR last_used_at <= ?2 - ?3)"""
HAS_LIVE_TOKEN = """
SELECT 1 FROM duly_tokens
WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?) LIMIT 1"""

_SESSION = """
SELECT s.id, s.tenant, s.name, s.role, s.token_id, s.created_at, s.expires_at
FROM duly_sessions s"""
INSERT_SESSION = """
INSERT INTO duly_sessions (hash, id, tenant, name, role, token_id, created_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
# One that was begun with a token opens nothing once the token does not: also if it is forgotten.
FIND_SESSION = f"""{_SESSION} LEFT JOIN duly_tokens t ON t.id = s.token_id
WHERE s.hash = ?1 AND s.expires_at > ?2 AND (s.token_id IS NULL OR (t.id IS NOT NULL
    AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > ?2)))"""
END_SESSION = """
DELETE FROM duly_sessions WHERE hash = ?
RETURNING id, tenant, name, role, token_id, created_at, expires_at"""
INSERT_CODE = "INSERT INTO duly_codes (hash, expires_at) VALUES (?, ?)"
SPEND_CODE = "DELETE FROM duly_codes WHERE hash = ? AND expires_at > ? RETURNING 1"

OF_ORDER = "tenant = ? AND principal = ? AND key = ?"
FIND_ANSWER = f"""
SELECT request_hash, fence, first_at, begun_at, expires_at, status, headers, body
FROM duly_answers WHERE {OF_ORDER}"""  # noqa: S608 - ours
WRITE_ANSWER = """
INSERT OR REPLACE INTO duly_answers (tenant, principal, key, request_hash, fence, first_at,
    begun_at, expires_at, status, headers, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
FINISH_ANSWER = f"""
UPDATE duly_answers SET status = ?, headers = ?, body = ?
WHERE {OF_ORDER} AND fence = ? AND status IS NULL RETURNING 1"""  # noqa: S608 - ours
# The row stays: a fence is never given twice.
FORGET_ANSWER = f"""
UPDATE duly_answers SET begun_at = ?
WHERE {OF_ORDER} AND fence = ? AND status IS NULL"""  # noqa: S608 - ours

MAKE_ROOM = """
DELETE FROM duly_frozen_sets WHERE id IN (
    SELECT id FROM duly_frozen_sets WHERE tenant = ? AND made_by = ?
    ORDER BY id DESC LIMIT -1 OFFSET ?)"""
INSERT_FROZEN = """
INSERT INTO duly_frozen_sets (id, tenant, made_by, chosen_by, ids, as_of, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?)"""
FIND_FROZEN = """
SELECT id, tenant, made_by, chosen_by, ids, as_of, expires_at FROM duly_frozen_sets
WHERE id = ? AND tenant = ? AND expires_at > ?"""

_EXPIRED = "expires_at <= ?1 ORDER BY expires_at LIMIT ?2"
FORGET = tuple(
    f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {_EXPIRED}) RETURNING 1"  # noqa: S608 - tables of ours
    for table, key in (
        ("duly_codes", "hash"),
        ("duly_sessions", "hash"),
        ("duly_answers", "tenant, principal, key"),
        ("duly_frozen_sets", "id"),
    )
)
FORGET_TOKENS = """
DELETE FROM duly_tokens WHERE id IN (
    SELECT id FROM duly_tokens
    WHERE min(coalesce(revoked_at, expires_at), coalesce(expires_at, revoked_at)) <= ? LIMIT ?)
RETURNING 1"""


class SqliteAccess(ABC):
    """Who may come in, and what makes orders safe to repeat."""

    @abstractmethod
    def _write(self) -> AbstractContextManager[Work]:
        """Open a short transaction: it commits, or nothing of it happens."""

    @abstractmethod
    def _read(self) -> AbstractContextManager[Look]:
        """Open a snapshot; it waits for nobody."""

    def add_token(self, command: AddToken) -> TokenRecord:
        """Make a token."""
        with self._write() as work:
            one = new_token(command, work.now)
            made = (one.created_at, one.created_by, one.expires_at)
            bindings = (one.id, one.name, one.tenant, one.role, one.prefix, one.hash, *made)
            if not work.connection.execute(INSERT_TOKEN, bindings).fetchall():
                raise taken_prefix(command)
            work.record(command.actor, "token.created", token_made(one))
            return one

    def find_token(self, prefix: str, tenant: str | None = None) -> FoundToken | None:
        """Return the token of a prefix."""
        with self._read() as look:
            row = look.connection.execute(FIND_TOKEN, (prefix, tenant)).fetchone()
            return None if row is None else FoundToken(token_record(row), look.now)

    def list_tokens(self, tenant: str | None) -> list[TokenRecord]:
        """Return tokens, newest first."""
        with self._read() as look:
            found = look.connection.execute(LIST_TOKENS, (tenant, TOKENS_LISTED_MAX))
            return [token_record(row) for row in found]

    def revoke_token(self, command: RevokeToken) -> TokenRecord:
        """End a token."""
        with self._write() as work:
            row = work.connection.execute(GET_TOKEN, (command.id, command.tenant)).fetchone()
            if row is None:
                raise unknown_token(command.id)
            record = token_record(row)
            if record.revoked_at is None:
                record = replace(record, revoked_at=work.now, revoked_by=command.actor.name)
                bindings = (record.id, record.revoked_at, record.revoked_by)
                work.connection.execute(REVOKE_TOKEN, bindings)
                work.record(command.actor, "token.revoked", token_ended(record))
            return record

    def use_token(self, token: TokenId) -> None:
        """Note that a token was used."""
        with self._write() as work:
            work.connection.execute(USE_TOKEN, (token, work.now, USE_NOTED_US))

    def has_live_token(self) -> bool:
        """Say whether any token opens something."""
        with self._read() as look:
            return look.connection.execute(HAS_LIVE_TOKEN, (look.now,)).fetchone() is not None

    def note_refusals(self, command: NoteRefusals) -> None:
        """Write one audit entry about credentials that opened nothing."""
        with self._write() as work:
            work.record(command.actor, "access.refused", refusals_subject(command))

    def add_session(self, command: AddSession) -> SessionRecord:
        """Begin a session."""
        with self._write() as work:
            record = new_session(command, work.now)
            who = (command.id, command.tenant, command.name, command.role, command.token_id)
            bindings = (command.hash, *who, record.created_at, record.expires_at)
            work.connection.execute(INSERT_SESSION, bindings)
            work.record(command.actor, "session.begun", session_subject(record.principal))
            return record

    def find_session(self, secret_hash: bytes) -> SessionRecord | None:
        """Return a session that is open."""
        with self._read() as look:
            row = look.connection.execute(FIND_SESSION, (secret_hash, look.now)).fetchone()
            return None if row is None else session_record(row)

    def end_session(self, secret_hash: bytes, actor: Actor) -> bool:
        """End a session."""
        with self._write() as work:
            ended = work.connection.execute(END_SESSION, (secret_hash,)).fetchall()
            for row in ended:
                subject = session_subject(session_record(row).principal)
                work.record(actor, "session.ended", subject)
            return bool(ended)

    def add_code(self, secret_hash: bytes, lifetime_us: int = CODE_US) -> None:
        """Keep a code that opens one session."""
        with self._write() as work:
            work.connection.execute(INSERT_CODE, (secret_hash, work.now + lifetime_us))

    def spend_code(self, secret_hash: bytes) -> bool:
        """Spend a code."""
        with self._write() as work:
            return bool(work.connection.execute(SPEND_CODE, (secret_hash, work.now)).fetchall())

    def begin_answer(self, command: BeginRequest) -> IdempotencyCheck:
        """Announce an order, or say what is known of it."""
        with self._write() as work:
            of_order = _of_order(command.key)
            found = work.connection.execute(FIND_ANSWER, of_order).fetchone()
            known = None if found is None else AnswerRow(*found)
            announced, row = judge_answer(known, command.request_hash, work.now)
            if row is not None:
                work.connection.execute(WRITE_ANSWER, (*of_order, *row))
            return announced

    def finish_answer(self, command: FinishAnswer) -> bool:
        """Keep an answer."""
        answer = command.answer
        told = (answer.status, headers_text(answer), answer.body)
        with self._write() as work:
            bindings = (*told, *_of_order(command.key), command.fence)
            return bool(work.connection.execute(FINISH_ANSWER, bindings).fetchall())

    def forget_answer(self, key: IdempotencyKey, fence: int) -> None:
        """Take back an order of which nothing was done."""
        with self._write() as work:
            work.connection.execute(FORGET_ANSWER, (NOBODY, *_of_order(key), fence))

    def freeze(self, command: CreateSelection) -> StoredSelection:
        """Keep a set of runs."""
        packed = b"".join(command.ids)
        with self._write() as work:
            whose = (command.tenant, command.made_by)
            work.connection.execute(MAKE_ROOM, (*whose, FROZEN_SETS_MAX - 1))
            kept = frozen_set(command, work.now)
            bindings = (kept.id, *whose, kept.chosen_by, packed, kept.as_of, kept.expires_at)
            work.connection.execute(INSERT_FROZEN, bindings)
            return kept

    def find_frozen(self, frozen: bytes, tenant: str) -> StoredSelection | None:
        """Return a set that has not expired, if it is this tenant's."""
        with self._read() as look:
            row = look.connection.execute(FIND_FROZEN, (frozen, tenant, look.now)).fetchone()
            return None if row is None else frozen_record(row)


def forget_access(work: Work, limit: int) -> int:
    """Remove what has expired, and tokens that have opened nothing for long."""
    gone = 0
    for statement in FORGET:
        gone += len(work.connection.execute(statement, (work.now, limit - gone)).fetchall())
    bindings = (work.now - TOKENS_KEPT_US, limit - gone)
    return gone + len(work.connection.execute(FORGET_TOKENS, bindings).fetchall())


def _of_order(key: IdempotencyKey) -> tuple[str, bytes, str]:
    return key.tenant, key.principal, key.key

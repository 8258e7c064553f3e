"""Tokens, sessions, kept answers and frozen sets on the memory store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from duly.domain.auth import is_use_to_be_noted
from duly.store.access_rulings import (
    NOBODY,
    frozen_set,
    headers_text,
    judge_answer,
    new_session,
    new_token,
    refusals_subject,
    session_subject,
    taken_prefix,
    token_ended,
    token_made,
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
    from collections.abc import Callable, Iterator

    from duly.domain.audit import Actor
    from duly.domain.auth import TokenId, TokenRecord
    from duly.store.memory.tables import Journal, Tables
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

T = TypeVar("T")


class SessionRow(NamedTuple):
    """A session, and the token that it ends with."""

    record: SessionRecord
    token_id: TokenId | None


class MemoryAccess(ABC):
    """Who may come in, and what makes orders safe to repeat."""

    tables: Tables

    @abstractmethod
    def _write(self, operation: Callable[[Journal], T]) -> T:
        """Carry an operation out: all of it, or nothing."""

    @abstractmethod
    def _read(self, operation: Callable[[Journal], T]) -> T:
        """Look at the tables."""

    def add_token(self, command: AddToken) -> TokenRecord:
        """Make a token."""

        def add(journal: Journal) -> TokenRecord:
            record = new_token(command, journal.now)
            if any(one.prefix == record.prefix for one in self.tables.tokens.values()):
                raise taken_prefix(command)
            journal.insert(self.tables.tokens, record.id, record)
            journal.record_about(command.actor, "token.created", token_made(record))
            return record

        return self._write(add)

    def find_token(self, prefix: str, tenant: str | None = None) -> FoundToken | None:
        """Return the token of a prefix."""

        def find(journal: Journal) -> FoundToken | None:
            for record in self.tables.tokens.values():
                if record.prefix == prefix and tenant in {None, record.tenant}:
                    return FoundToken(record, journal.now)
            return None

        return self._read(find)

    def list_tokens(self, tenant: str | None) -> list[TokenRecord]:
        """Return tokens, newest first."""

        def read(_: Journal) -> list[TokenRecord]:
            rows = self.tables.tokens.values()
            found = [one for one in rows if tenant in (None, one.tenant)]
            found.sort(key=lambda one: (one.created_at, one.id), reverse=True)
            return found[:TOKENS_LISTED_MAX]

        return self._read(read)

    def revoke_token(self, command: RevokeToken) -> TokenRecord:
        """End a token."""

        def revoke(journal: Journal) -> TokenRecord:
            record = self.tables.tokens.get(command.id)
            if record is None or command.tenant not in (None, record.tenant):
                raise unknown_token(command.id)
            if record.revoked_at is None:
                by = command.actor.name
                record = replace(record, revoked_at=journal.now, revoked_by=by)
                journal.put(self.tables.tokens, record.id, record)
                journal.record_about(command.actor, "token.revoked", token_ended(record))
            return record

        return self._write(revoke)

    def use_token(self, token: TokenId) -> None:
        """Note that a token was used."""

        def use(journal: Journal) -> None:
            record = self.tables.tokens.get(token)
            if record is not None and is_use_to_be_noted(record.last_used_at, journal.now):
                used = replace(record, last_used_at=journal.now)
                journal.put(self.tables.tokens, token, used)

        self._write(use)

    def has_live_token(self) -> bool:
        """Say whether any token opens something."""
        return self._read(
            lambda journal: any(one.is_live(journal.now) for one in self.tables.tokens.values())
        )

    def note_refusals(self, command: NoteRefusals) -> None:
        """Write one audit entry about credentials that opened nothing."""
        subject = refusals_subject(command)
        self._write(lambda journal: journal.record_about(command.actor, "access.refused", subject))

    def add_session(self, command: AddSession) -> SessionRecord:
        """Begin a session."""

        def add(journal: Journal) -> SessionRecord:
            record = new_session(command, journal.now)
            row = SessionRow(record, command.token_id)
            journal.insert(self.tables.sessions, command.hash, row)
            subject = session_subject(record.principal)
            journal.record_about(command.actor, "session.begun", subject)
            return record

        return self._write(add)

    def find_session(self, secret_hash: bytes) -> SessionRecord | None:
        """Return a session that is open."""

        def find(journal: Journal) -> SessionRecord | None:
            row = self.tables.sessions.get(secret_hash)
            if row is None or row.record.expires_at <= journal.now:
                return None
            if row.token_id is not None:
                token = self.tables.tokens.get(row.token_id)
                if token is None or not token.is_live(journal.now):
                    return None
            return row.record

        return self._read(find)

    def end_session(self, secret_hash: bytes, actor: Actor) -> bool:
        """End a session."""

        def end(journal: Journal) -> bool:
            row = self.tables.sessions.get(secret_hash)
            if row is None:
                return False
            journal.remove(self.tables.sessions, secret_hash)
            journal.record_about(actor, "session.ended", session_subject(row.record.principal))
            return True

        return self._write(end)

    def add_code(self, secret_hash: bytes, lifetime_us: int = CODE_US) -> None:
        """Keep a code that opens one session."""
        self._write(
            lambda journal: journal.insert(
                self.tables.codes, secret_hash, journal.now + lifetime_us
            )
        )

    def spend_code(self, secret_hash: bytes) -> bool:
        """Spend a code."""

        def spend(journal: Journal) -> bool:
            expires_at = self.tables.codes.get(secret_hash)
            journal.remove(self.tables.codes, secret_hash)
            return expires_at is not None and expires_at > journal.now

        return self._write(spend)

    def begin_answer(self, command: BeginRequest) -> IdempotencyCheck:
        """Announce an order, or say what is known of it."""

        def begin(journal: Journal) -> IdempotencyCheck:
            known = self.tables.answers.get(command.key)
            announced, row = judge_answer(known, command.request_hash, journal.now)
            if row is not None:
                journal.put(self.tables.answers, command.key, row)
            return announced

        return self._write(begin)

    def finish_answer(self, command: FinishAnswer) -> bool:
        """Keep an answer."""

        def finish(journal: Journal) -> bool:
            row = self.tables.answers.get(command.key)
            if row is None or row.fence != command.fence or row.status is not None:
                return False
            answer = command.answer
            kept = row._replace(
                status=answer.status, headers=headers_text(answer), body=answer.body
            )
            journal.put(self.tables.answers, command.key, kept)
            return True

        return self._write(finish)

    def forget_answer(self, key: IdempotencyKey, fence: int) -> None:
        """Take back an order of which nothing was done."""

        def forget(journal: Journal) -> None:
            row = self.tables.answers.get(key)
            if row is not None and row.fence == fence and row.status is None:
                # The row stays: a fence is never given twice.
                journal.put(self.tables.answers, key, row._replace(begun_at=NOBODY))

        self._write(forget)

    def freeze(self, command: CreateSelection) -> StoredSelection:
        """Keep a set of runs."""

        def keep(journal: Journal) -> StoredSelection:
            sets = self.tables.frozen
            whose = (command.tenant, command.made_by)
            own = [one.id for one in sets.values() if (one.tenant, one.made_by) == whose]
            for old in sorted(own, reverse=True)[FROZEN_SETS_MAX - 1 :]:
                journal.remove(sets, old)
            kept = frozen_set(command, journal.now)
            journal.insert(sets, kept.id, kept)
            return kept

        return self._write(keep)

    def find_frozen(self, frozen: bytes, tenant: str) -> StoredSelection | None:
        """Return a set that has not expired, if it is this tenant's."""

        def find(journal: Journal) -> StoredSelection | None:
            found = self.tables.frozen.get(frozen)
            is_theirs = found is not None and found.tenant == tenant
            return found if found and is_theirs and found.expires_at > journal.now else None

        return self._read(find)


def forget_access(journal: Journal, limit: int) -> int:
    """Remove what has expired, and tokens that have opened nothing for long."""
    doomed = list(_past(journal.tables, journal.now))[:limit]
    for table, key in doomed:
        journal.remove(table, key)
    return len(doomed)


def _past(tables: Tables, now: int) -> Iterator[tuple[dict[Any, Any], Any]]:
    ends: list[tuple[dict[Any, Any], dict[Any, int]]] = [
        (tables.codes, dict(tables.codes)),
        (tables.sessions, {key: row.record.expires_at for key, row in tables.sessions.items()}),
        (tables.answers, {key: row.expires_at for key, row in tables.answers.items()}),
        (tables.frozen, {key: row.expires_at for key, row in tables.frozen.items()}),
        (tables.tokens, {key: _listed_until(row, now) for key, row in tables.tokens.items()}),
    ]
    for table, expiry in ends:
        yield from ((table, key) for key, expires_at in expiry.items() if expires_at <= now)


def _listed_until(token: TokenRecord, now: int) -> int:
    ends = [at for at in (token.revoked_at, token.expires_at) if at is not None]
    return min(ends, default=now) + TOKENS_KEPT_US

"""Stores that are broken about access, and the test of the contract that is meant for each."""

from __future__ import annotations

from dataclasses import replace

from duly.domain.auth import EVERY_TENANT
from duly.store.memory import MemoryStore
from duly.store.memory.access import SessionRow
from duly.store.ports.auth import IdempotencyStatus


class RevokesAnybodys(MemoryStore):
    """Asks for a token, and not whose it is."""

    def revoke_token(self, command):
        return super().revoke_token(replace(command, tenant=None))


class ListsAnybodys(MemoryStore):
    """Shows every tenant's tokens to each."""

    def list_tokens(self, tenant):
        return super().list_tokens(None)


class RevokesAgain(MemoryStore):
    """Writes who was last to revoke a token, over who was first."""

    def revoke_token(self, command):
        record = self.tables.tokens.get(command.id)
        if record is not None:
            self.tables.tokens[command.id] = replace(record, revoked_at=None)
        return super().revoke_token(command)


class TellsTheHash(MemoryStore):
    """Puts all of a token on the trail."""

    def add_token(self, command):
        record = super().add_token(command)
        entry = self.tables.audit[max(self.tables.audit)]
        after = (entry.after or {}) | {"hash": record.hash.hex()}
        self.tables.audit[entry.number] = replace(entry, after=after)
        return record


class OutlivesItsToken(MemoryStore):
    """Lets a session go on when its token is revoked."""

    def add_session(self, command):
        record = super().add_session(command)
        self.tables.sessions[command.hash] = SessionRow(record, None)
        return record


class SpendsTwice(MemoryStore):
    """Looks whether there is a code, and leaves it there."""

    def spend_code(self, secret_hash):
        until = self.tables.codes.get(secret_hash)
        is_spent = super().spend_code(secret_hash)
        if until is not None:
            self.tables.codes[secret_hash] = until
        return is_spent


class BeginsTwice(MemoryStore):
    """Lets whoever comes carry out what somebody carries out."""

    def begin_answer(self, command):
        found = super().begin_answer(command)
        return (
            replace(found, standing=IdempotencyStatus.BEGUN)
            if found.standing == "running"
            else found
        )


class AnswersWithoutFence(MemoryStore):
    """Takes whoever answers for whoever began."""

    def finish_answer(self, command):
        row = self.tables.answers.get(command.key)
        return super().finish_answer(replace(command, fence=row.fence if row else 0))


class SharesKeys(MemoryStore):
    """Takes the same key for the same order, whoever sends it."""

    def begin_answer(self, command):
        key = replace(command.key, tenant=EVERY_TENANT)
        return super().begin_answer(replace(command, key=key))

    def finish_answer(self, command):
        key = replace(command.key, tenant=EVERY_TENANT)
        return super().finish_answer(replace(command, key=key))


class ShowsAnybodysSets(MemoryStore):
    """Finds a set by its id alone."""

    def find_frozen(self, frozen, tenant):
        found = self.tables.frozen.get(frozen)
        return super().find_frozen(frozen, tenant if found is None else found.tenant)


ACCESS_DEFECTS = [
    (RevokesAnybodys, "test_a_token_of_another_tenant_is_not_there"),
    (ListsAnybodys, "test_tokens_are_listed_by_tenant_newest_first"),
    (RevokesAgain, "test_a_token_is_revoked_once_and_for_good"),
    (TellsTheHash, "test_orders_about_tokens_are_on_record_without_their_secret"),
    (OutlivesItsToken, "test_a_session_ends_with_the_token_it_was_begun_with[revoked]"),
    (SpendsTwice, "test_a_code_is_spent_once"),
    (BeginsTwice, "test_an_order_is_begun_once_and_then_answered_alike"),
    (AnswersWithoutFence, "test_what_somebody_began_and_died_over_is_begun_again"),
    (SharesKeys, "test_keys_of_others_have_nothing_to_do_with_it[tenant]"),
    (ShowsAnybodysSets, "test_a_set_is_the_tenants_own_and_expires"),
]

"""Stores that search badly, and the test of the contract that is meant for each."""

from __future__ import annotations

from dataclasses import replace

from duly.store.memory import MemoryStore
from duly.store.ports.queries import AttemptPage, AuditPage, RunPage


class RemembersErrors(MemoryStore):
    """Finds runs by an error that any attempt of theirs had."""

    def search_runs(self, command):
        if command.error is None:
            return super().search_runs(command)
        wanted = replace(command, error=None)
        page = super().search_runs(wanted)
        errors = {key[0]: one.error or "" for key, one in self.tables.attempts.items()}
        found = [run for run in page.records if command.error in errors.get(run.id, "")]
        return RunPage(found, page.next)


class EndsEarly(MemoryStore):
    """Says that there is no more as soon as a page has what was asked for."""

    def search_runs(self, command):
        return RunPage(super().search_runs(command).records, None)


class LooksEverywhere(MemoryStore):
    """Finds another tenant's runs, too, when nobody else narrows a search."""

    def search_runs(self, command):
        if command.states is None:
            return super().search_runs(command)
        found = []
        for tenant in {row.tenant for row in self.tables.runs.values()}:
            found += super().search_runs(replace(command, tenant=tenant)).records
        return RunPage(sorted(found, key=lambda run: run.id, reverse=True)[: command.limit], None)


class PassesOverTheLiving(MemoryStore):
    """Finds only attempts that have ended."""

    def search_attempts(self, command):
        page = super().search_attempts(command)
        return AttemptPage([one for one in page.records if one.ended_at is not None], page.next)


class GoesOnWithTheNextRun(MemoryStore):
    """Forgets the other attempts of a run that a page has ended within."""

    def search_attempts(self, command):
        page = super().search_attempts(command)
        return AttemptPage(page.records, None if page.next is None else (page.next[0], 0))


class IncludesTheEnd(MemoryStore):
    """Counts the end of a span as a part of it."""

    def search_audit(self, command):
        until = None if command.until is None else command.until + 1
        page = super().search_audit(replace(command, until=until))
        return AuditPage(page.entries, page.next)


SEARCHING_DEFECTS = [
    (RemembersErrors, "test_a_run_that_goes_elsewhere_is_found_there"),
    (EndsEarly, "test_every_filter_finds_exactly_the_runs_that_fit"),
    (EndsEarly, "test_a_list_has_what_the_pages_have"),
    (LooksEverywhere, "test_every_filter_finds_exactly_the_runs_that_fit"),
    (PassesOverTheLiving, "test_every_filter_finds_exactly_the_attempts_that_fit"),
    (GoesOnWithTheNextRun, "test_a_run_of_many_attempts_is_paged_within"),
    (IncludesTheEnd, "test_every_filter_finds_exactly_the_entries_that_fit"),
]

"""Searching the memory store: everything is looked at, so that no page is short."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.store.memory.attempts import list_attempts
from duly.store.memory.reading import list_audit, list_runs
from duly.store.ports.queries import PAGE_MAX, AttemptPage, AuditPage, RunPage, attempt_matches

if TYPE_CHECKING:
    from duly.store.memory.tables import Journal
    from duly.store.ports.queries import AttemptFilter, AuditFilter, RunFilter


def search_runs(journal: Journal, command: RunFilter) -> RunPage:
    """Return a page of runs, newest first by id."""
    found = list_runs(journal, replace(command, limit=command.limit + 1))
    page = found[: command.limit]
    return RunPage(page, page[-1].id if len(found) > len(page) else None)


def search_attempts(journal: Journal, command: AttemptFilter) -> AttemptPage:
    """Return a page of attempts by run and fence, newest first."""
    runs = journal.tables.runs
    mine = sorted((one for one in runs if runs[one].tenant == command.tenant), reverse=True)
    found = [
        attempt
        for run_id in mine
        for attempt in reversed(list_attempts(journal, run_id, PAGE_MAX))
        if attempt_matches(attempt, command)
    ]
    page = found[: command.limit]
    is_more = len(found) > len(page)
    return AttemptPage(page, (page[-1].run_id, page[-1].fence) if is_more else None)


def search_audit(journal: Journal, command: AuditFilter) -> AuditPage:
    """Return a page of audit entries, newest first by number."""
    found = list_audit(journal, replace(command, limit=command.limit + 1))
    page = found[: command.limit]
    return AuditPage(page, page[-1].number if len(found) > len(page) else None)

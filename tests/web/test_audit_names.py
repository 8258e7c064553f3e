"""The trail calls things as people do: a run by its label, with a link, and its id beside."""

from __future__ import annotations

import re
from html import unescape

from tests.web.page_client import Visitor


def row_of(text: str, number: int) -> str:
    return text.partition(f'id="a-{number}"')[2].partition("</tr>")[0]


def test_a_run_is_called_by_its_label_and_its_id_stands_beside_it(work):
    """On SQLite and PostgreSQL; programs are told both."""
    run = work.run("settle")
    work.app.inbox.skip(run.id, reason="known")
    entry = work.app.audit.page(subject_id=run.id, limit=1).items[0]
    label = work.app.runs.get(run.id).label

    assert (str(run.id), label) == (entry.subject, entry.label)
    assert label == entry.to_json()["label"]

    with Visitor(work.app) as visitor:
        row = row_of(visitor.enter().get("/audit").text, entry.number)

    assert f'<a href="/runs/{run.id}">{label}</a>' in row
    assert f'<code class="note id">{run.id}</code>' in row
    assert f"/audit?subject={run.id}" in row


def test_a_schedule_leads_to_its_page_and_so_does_a_run_that_was_triggered(visitor):
    """By name, also one that an address must quote; what was triggered by its run."""
    app = visitor.app
    name = "weekly & monthly/EMEA"
    app.schedules.create(name, app.call("report"), app.schedules.get("hourly").timetable)
    made = app.schedules.trigger(name, reason="now")
    text = visitor.get("/audit").text

    assert 'href="/schedules/weekly%20%26%20monthly%2FEMEA"' in text
    assert f'href="/runs/{made.id}"' in text
    for path in re.findall(r'<th scope="row">\s*<a href="([^"]+)"', text):
        assert 200 == visitor.get(unescape(path)).status_code, path


def test_another_tenants_runs_are_called_by_nothing_but_their_id(visitor):
    """Whoever sees one tenant alone is told no label of another's."""
    app = visitor.app
    visitor.clock.advance("1m")
    (run,) = app.runs.list(state="dead", limit=1)
    app.runs.discard([run.id], reason="known")
    everywhere = visitor.get("/audit").text
    own = visitor.enter(role="viewer", tenant="elsewhere").get("/audit").text

    assert run.label in everywhere
    assert run.label not in own
    assert str(run.id) not in own


def test_a_run_that_is_forgotten_keeps_its_id_and_has_no_link():
    """No link leads nowhere, and the trail stays whole."""
    from duly.client.schedule_history import HistoryEntry
    from duly.web.pages.audit import audit_row
    from tests.timetable.instants import moment

    subject = "019d5111-9500-8795-8277-039060653bb8"
    row = audit_row(
        HistoryEntry(
            number=1, at=moment("2026-04-03T11:00Z"), actor="anna", source="cli", address=None,
            credential=None, reason=None, action="run.discarded", subject=subject,
            before=None, after=None,
        )
    )  # fmt: skip

    assert (subject, None, None) == (row.name, row.id, row.path)

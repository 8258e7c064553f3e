"""Commands that pages offer: to be typed as they are, about what the page is about."""

from __future__ import annotations

import re
import shlex
from html import unescape

import pytest

import duly
from duly import every
from duly.domain.alert_rules import AlertKind
from duly.web.pages.alerts import remedy_parts
from duly.web.rendering import command_text, of_tenant
from duly_conformance import alerts
from tests.web.page_client import Visitor

NAME = "it's; late"


@pytest.fixture(scope="module")
def paths():
    """Pages of one tenant's things, by the command that each is to offer, and their visitor."""
    app = duly.App("memory:", tenant="acme & co")

    @app.task
    def report() -> None: ...

    schedule = app.schedules.create(NAME, report, every("1h"))
    run = app.schedules.trigger(NAME)
    backfill = app.backfills.create(NAME, since="2026-01-01T00:00Z", until="2026-01-01T02:00Z")
    raised = alerts.condition(
        f"schedule {NAME}",
        kind=AlertKind.LATE_RUN,
        tenant=app.tenant,
        remedy=f"duly schedule show {shlex.quote(NAME)}; duly status",
    )
    alerts.look(app.store, alerts.watch(app.store), raised)
    (alert,) = app.alerts.list()
    with Visitor(app) as visitor:
        yield (
            visitor.enter(),
            {
                f"/schedules/{schedule.id}": ["schedule", "show", NAME],
                f"/runs/{run.id}": ["run", "show", str(run.id)],
                f"/backfills/{backfill.id}": ["backfill", "show", str(backfill.id)],
                f"/alerts/{alert.id}": ["schedule", "show", NAME],
            },
        )


def test_a_command_names_the_tenant_whose_things_the_page_shows(paths):
    """Typed elsewhere it is about the same, whatever that is called."""
    visitor, wanted = paths
    for path, words in wanted.items():
        text = visitor.get(path, params={"tenant": "acme & co"}).text
        found = [unescape(one) for one in re.findall(r'data-copy="([^"]*)"', text)]
        commands = [shlex.split(one) for one in found if one.startswith("duly ")]

        assert ["duly", "--tenant", "acme & co", *words] in commands, path
        assert all(one[1:3] == ["--tenant", "acme & co"] for one in commands), commands


def test_the_usual_tenant_is_not_named_and_a_command_that_names_one_is_left_alone():
    """As short as it can be."""
    assert "duly run show x" == command_text("default", "run", "show", "x")
    assert "duly status" == of_tenant(None, "duly status")
    assert "duly run list --tenant b" == of_tenant("a", "duly run list --tenant b")


def test_a_remedy_is_taken_apart_between_its_commands_alone():
    """A semicolon in a name is a part of it, and an apostrophe quotes nothing."""
    named = f"duly schedule show {shlex.quote(NAME)}"

    assert [named, "duly status"] == remedy_parts(f"{named}; duly status")
    assert ["if it can't go on", "duly top"] == remedy_parts("if it can't go on; duly top")

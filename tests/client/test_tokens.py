"""Tokens in a program's hands: made once, listed without their secret, revoked for good."""

from __future__ import annotations

import json

import pytest

from duly import Forbidden, NotFound, UsageError
from duly.domain.auth import read_token
from duly.store.ports.queries import AuditFilter
from tests.client.conftest import NOON
from tests.timetable.instants import moment


def parts(made):
    """Return what the text of a token is made of."""
    read = read_token(made.text)
    assert read is not None
    return read


def test_a_token_is_made_and_its_text_is_seen_once(app):
    """Nothing that is shown or kept afterwards holds the secret."""
    made = app.tokens.create("ci", role="operator")
    secret = parts(made).secret

    (listed,) = app.tokens.list()

    assert made.token == listed == app.tokens.get(listed.id) == app.tokens.get(listed.prefix)
    assert ("ci", "default", "operator", "live", "ada") == (
        listed.name,
        listed.tenant,
        listed.role,
        listed.state,
        listed.created_by,
    )
    assert made.text.startswith(f"duly_{listed.prefix}_")
    assert made.text == made.to_json()["text"]
    audit = app.store.list_audit(AuditFilter())
    for shown in (repr(made), json.dumps(listed.to_json()), repr(audit)):
        assert secret not in shown
    assert parts(made).hash.hex() not in repr(audit)


def test_two_tokens_have_nothing_in_common(app):
    first, second = (app.tokens.create("ci") for _ in range(2))

    assert first.token.prefix != second.token.prefix
    assert parts(first).secret != parts(second).secret
    assert ["ci", "ci"] == [one.name for one in app.tokens.list()]


@pytest.mark.parametrize(
    ("expires", "told"),
    [
        (None, "2026-07-01T12:00Z"),
        ("1h", "2026-04-02T13:00Z"),
        ("2026-05-01T00:00+02:00", "2026-04-30T22:00Z"),
        (NOON.replace(hour=20), "2026-04-02T20:00Z"),
        ("never", None),
    ],
)
def test_a_token_expires_after_ninety_days_unless_told(app, expires, told):
    """That it never does must be said."""
    made = app.tokens.create("ci", expires=expires)

    assert (None if told is None else moment(told)) == made.token.expires_at


def test_a_token_that_has_expired_is_listed_as_such(app, clock):
    app.tokens.create("ci", expires="1h")
    clock.advance("1h")

    assert ["expired"] == [one.state for one in app.tokens.list()]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": ""}, "name: ''"),
        ({"name": "a\nb"}, "name: "),
        ({"name": "x" * 101}, "name: "),
        ({"name": 5}, "name: 5"),
        ({"role": "root"}, "role: 'root' .* use one of viewer, operator, admin, worker"),
        ({"role": None}, "role: None"),
        ({"tenant": ""}, "tenant: ''"),
        ({"expires": "soon"}, "expires: 'soon' says no time; give '90d'"),
        ({"expires": 90}, "expires: 90"),
        ({"expires": "2026-04-02T11:00Z"}, "expires: .* has passed"),
        ({"expires": "0s"}, "expires: .* has passed"),
    ],
)
def test_a_bad_order_gets_one_clear_error_and_makes_nothing(app, given, told):
    with pytest.raises(UsageError, match=told):
        app.tokens.create(**{"name": "ci"} | given)

    assert [] == app.tokens.list()


def test_a_token_is_revoked_by_its_id_or_by_its_prefix(app):
    """And a second time finds it revoked."""
    made = [app.tokens.create(f"ci {number}").token for number in range(3)]

    revoked = [
        app.tokens.revoke(made[0].id, reason="leaked"),
        app.tokens.revoke(str(made[1].id)),
        app.tokens.revoke(f"duly_{made[2].prefix}"),
    ]

    assert 3 * ["revoked"] == [one.state for one in revoked]
    assert revoked[2] == app.tokens.revoke(made[2].prefix)
    assert {one.id: "revoked" for one in made} == {one.id: one.state for one in app.tokens.list()}
    entries = app.store.list_audit(AuditFilter(action="token.revoked"))
    assert [None, None, "leaked"] == [entry.actor.reason for entry in entries]


def test_a_whole_token_is_no_name_for_it(app):
    """Whoever pastes it leaves it in a history; it is refused and not repeated."""
    made = app.tokens.create("ci")

    with pytest.raises(UsageError, match=f"name it by its prefix: {made.token.prefix}") as caught:
        app.tokens.revoke(made.text)

    assert parts(made).secret not in str(caught.value)


@pytest.mark.parametrize("reference", ["nosuchaa", "0196b000-0000-7000-8000-000000000001"])
def test_a_token_that_is_not_there_is_not_found(app, reference):
    for order in (app.tokens.get, app.tokens.revoke):
        with pytest.raises(NotFound, match="duly token list"):
            order(reference)


@pytest.mark.parametrize("reference", ["ci", "", 5, None])
def test_what_names_no_token_is_refused(app, reference):
    with pytest.raises(UsageError, match="token: "):
        app.tokens.revoke(reference)


def test_an_operator_makes_tokens_for_any_tenant_and_for_all(app):
    acme = app.tokens.create("theirs", tenant="acme").token
    everywhere = app.tokens.create("all", tenant="*").token

    assert ("acme", "*") == (acme.tenant, everywhere.tenant)
    assert [acme] == app.tokens.list(tenant="acme")
    assert [everywhere] == app.tokens.list(tenant="*")
    assert {acme.id, everywhere.id} == {one.id for one in app.tokens.list()}


def test_a_tenants_caller_has_tokens_of_its_own_tenant_only(app):
    """It can't make itself a key to others' doors."""
    theirs = app.tokens.create("theirs", tenant="globex").token
    everywhere = app.tokens.create("all", tenant="*").token
    acme = app.within(tenant="acme", actor="bob")

    for tenant in ("globex", "*", "default"):
        with pytest.raises(Forbidden, match="bob: may not have tokens of other tenants"):
            acme.tokens.create("mine", tenant=tenant)
        with pytest.raises(Forbidden):
            acme.tokens.list(tenant=tenant)
    for foreign in (theirs.id, theirs.prefix, everywhere.id, everywhere.prefix):
        with pytest.raises(NotFound):
            acme.tokens.revoke(foreign)
    own = acme.tokens.create("mine", tenant="acme").token
    assert ("acme", "bob") == (own.tenant, own.created_by)
    assert [own] == acme.tokens.list()
    assert "revoked" == acme.tokens.revoke(own.prefix).state


def test_an_application_within_a_tenant_gives_its_orders_there(app, tasks):
    """Under whoever's name asks, and from where."""
    acme = app.within(tenant="acme", actor="bob")
    run = acme.enqueue(tasks.report.bind(), delay="1h", key="k")
    acme.cancel("k", reason="no more")

    (entry,) = app.store.list_audit(AuditFilter(action="delayed.cancelled"))

    assert ("acme", "bob", "api") == (entry.tenant, entry.actor.name, entry.actor.source)
    assert ("acme", "default") == (acme.tenant, app.tenant)
    with pytest.raises(NotFound):
        app.runs.get(run.id)


def test_an_application_never_becomes_less_confined(app):
    acme = app.within(tenant="acme", actor="bob")
    again = acme.within(tenant="acme", actor="bob", is_confined=False)
    operator = app.within(tenant="acme", actor="bob", is_confined=False)

    with pytest.raises(Forbidden):
        again.tokens.create("all", tenant="*")
    assert "*" == operator.tokens.create("all", tenant="*").token.tenant


def test_checks_of_results_stay_the_applications_own(app):
    """One request's tenant does not become another's."""
    checks = app.tasks.checks
    app.within(tenant="acme", actor="bob")

    assert checks is app.tasks.checks


@pytest.mark.parametrize("tenant", ["*", "", None, 5, "a\x00b"])
def test_a_tenant_is_one_tenant(app, tenant):
    """The star is for tokens alone."""
    with pytest.raises(UsageError, match="tenant: "):
        app.within(tenant=tenant, actor="bob")

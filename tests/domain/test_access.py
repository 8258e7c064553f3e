"""Who may do what, and how a token is made, read and recognised."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from duly.domain.auth import (
    DRAWN_BYTES,
    SCOPES_BY_ROLE,
    Expiry,
    Principal,
    PrincipalKind,
    Refusal,
    Role,
    Scope,
    TokenRecord,
    TokenText,
    is_use_to_be_noted,
    make_token,
    new_secret,
    order_nonce,
    read_token,
    recognise,
    token_id,
    unauthenticated,
)
from duly.errors import Forbidden, UsageError
from duly.testing import SeededDraws
from duly.timetable.instants import MINUTE, SECOND_US

NOW = 1_775_000_000 * SECOND_US


@pytest.fixture
def token():
    return make_token(SeededDraws().draw(DRAWN_BYTES))


@pytest.fixture
def record(token):
    return TokenRecord(
        id=token_id(NOW, bytes(10)),
        name="ci",
        tenant="acme",
        role=Role.OPERATOR,
        prefix=token.prefix,
        hash=token.hash,
        created_at=NOW,
        created_by="anna",
        expires_at=NOW + 10,
    )


def test_a_token_reads_as_it_was_written(token):
    brand, prefix, secret, checksum = token.text.split("_")

    assert token == read_token(token.text)
    assert ("duly", 8, 52, 6) == (brand, len(prefix), len(secret), len(checksum))
    assert token.text.isascii()
    assert token.text.islower()


def test_every_drawn_bit_counts_and_the_secret_has_more_than_256():
    """40 bits of prefix and 260 of secret; the last four that are drawn are left over."""
    seen = {make_token((1 << bit).to_bytes(DRAWN_BYTES)) for bit in range(8 * DRAWN_BYTES)}

    assert 300 == len(seen) - 1


def test_one_wrong_character_is_noticed_before_a_store_is_asked(token):
    for place in range(5, len(token.text)):
        if token.text[place] == "_":
            continue
        other = "a" if token.text[place] != "a" else "b"
        wrong = token.text[:place] + other + token.text[place + 1 :]

        assert read_token(wrong) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: None,
        lambda text: text.encode(),
        lambda text: text[:-1],
        lambda text: text + "a",
        lambda text: text.upper(),
        lambda text: " " + text[:-1],
        lambda text: text.replace("duly", "dull"),
        lambda text: text.replace("_", "-"),
        lambda text: text[:20] + "_" + text[21:],
        lambda text: text[:20] + "é" + text[21:],
        lambda text: text[:20] + "1" + text[21:],
        lambda text: text[:20] + "\x00" + text[21:],
        lambda text: text[:20] + "\ud800" + text[21:],
        lambda text: text * 1_000_000,
    ],
)
def test_what_can_not_be_a_token_is_none(token, change):
    assert read_token(change(token.text)) is None


def test_every_refusal_is_one_clear_error():
    told = {str(unauthenticated(refusal)) for refusal in Refusal}

    assert len(Refusal) == len(told)
    assert all("; " in message for message in told)


def test_a_secret_is_not_in_what_is_printed_by_mistake(token):
    assert token.secret not in repr(token)


def test_who_brings_a_token_is_its_principal(token, record):
    principal = recognise(token, record, NOW)

    assert (
        Principal(
            tenant="acme",
            name="ci",
            role=Role.OPERATOR,
            kind=PrincipalKind.TOKEN,
            id=record.id,
        )
        == principal
    )


def test_a_token_opens_nothing_without_its_record_or_with_another_secret(token, record):
    other = TokenText(token.prefix, make_token(bytes(DRAWN_BYTES)).secret)

    assert Refusal.UNKNOWN == recognise(token, None, NOW)
    assert Refusal.UNKNOWN == recognise(other, record, NOW)


def test_a_token_opens_nothing_once_it_is_revoked_or_expired(token, record):
    assert Refusal.REVOKED == recognise(token, replace(record, revoked_at=NOW), NOW)
    assert Refusal.EXPIRED == recognise(token, record, NOW + 10)
    assert record.principal() == recognise(token, record, NOW + 9)
    for_ever = replace(record, expires_at=None)
    assert record.principal() == recognise(token, for_ever, NOW + 10**15)


def test_that_a_token_was_revoked_is_told_to_those_alone_who_know_its_secret(token, record):
    other = TokenText(token.prefix, make_token(bytes(DRAWN_BYTES)).secret)
    revoked = replace(record, revoked_at=NOW)

    assert Refusal.UNKNOWN == recognise(other, revoked, NOW)


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        (Role.VIEWER, {Scope.READ}),
        (Role.OPERATOR, {Scope.READ, Scope.TRIGGER, Scope.EDIT}),
        (Role.ADMIN, {Scope.READ, Scope.TRIGGER, Scope.EDIT, Scope.ADMIN}),
        (Role.WORKER, {Scope.WORKER}),
    ],
)
def test_a_role_may_do_what_its_scopes_say_and_nothing_else(record, role, allowed):
    """Viewer, operator, admin; and a worker that may not even look."""
    principal = replace(record, role=role).principal()
    assert allowed == principal.scopes
    for scope in Scope:
        if scope in allowed:
            principal.require(scope)
        else:
            with pytest.raises(Forbidden, match=f"ci: its role, {role}, has no scope {scope}"):
                principal.require(scope)


def test_every_role_has_scopes():
    assert set(Role) == set(SCOPES_BY_ROLE)


def test_a_token_of_a_tenant_acts_there_and_nowhere_else(record):
    principal = record.principal()

    assert "acme" == principal.tenant_for(None)
    assert "acme" == principal.tenant_for("acme")
    for other in ("globex", "*", "default", ""):
        with pytest.raises(Forbidden, match="ci: it is of another tenant"):
            principal.tenant_for(other)


def test_a_token_of_every_tenant_names_one(record):
    principal = replace(record, tenant="*").principal()

    assert "default" == principal.tenant_for(None)
    assert "globex" == principal.tenant_for("globex")
    with pytest.raises(Forbidden):
        principal.tenant_for("*")


def test_an_expiry_is_a_while_an_instant_or_never():
    assert NOW + 5 == Expiry(after_us=5).resolve(NOW)
    assert NOW + 7 == Expiry(at=NOW + 7).resolve(NOW)
    assert Expiry().resolve(NOW) is None


@pytest.mark.parametrize("expiry", [Expiry(after_us=0), Expiry(at=NOW), Expiry(at=NOW - 1)])
def test_an_expiry_that_has_passed_is_refused(expiry):
    with pytest.raises(UsageError, match=r"expires: .* has passed; give a later one"):
        expiry.resolve(NOW)


def test_a_use_is_noted_once_in_a_minute():
    minute = MINUTE * SECOND_US

    assert is_use_to_be_noted(None, NOW)
    assert is_use_to_be_noted(NOW - minute, NOW)
    assert not is_use_to_be_noted(NOW - minute + 1, NOW)


def test_the_same_order_has_the_same_nonce_and_no_other_order_has_it():
    orders = [("a", b"bc", "d"), ("ab", b"c", "d"), ("a", b"b", "cd"), ("a", b"bc", "e")]

    assert 4 == len({order_nonce(*order) for order in orders})
    assert order_nonce(*orders[0]) == order_nonce(*orders[0])


def test_a_session_s_secret_has_all_that_was_drawn():
    drawn = SeededDraws(3)

    assert 100 == len({new_secret(drawn.draw(32)) for _ in range(100)})


def test_refusals_travel_between_processes_whole(record):
    with pytest.raises(Forbidden) as forbidden:
        record.principal().require(Scope.WORKER)
    for error in (unauthenticated(Refusal.UNKNOWN), forbidden.value):
        again = pickle.loads(pickle.dumps(error))

        assert (str(error), error.problem, error.remedy) == (
            str(again),
            again.problem,
            again.remedy,
        )

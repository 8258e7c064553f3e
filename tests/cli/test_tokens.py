"""`duly token`: made, seen once, listed without the secret, revoked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.auth import read_token

if TYPE_CHECKING:
    from duly.domain.auth import TokenText
    from tests.cli.duly_command import Workplace


def parts(text: str) -> TokenText:
    """Return what the text of a token is made of."""
    read = read_token(text)
    assert read is not None
    return read


def test_a_token_is_made_listed_and_revoked_by_what_was_told(place: Workplace):
    """The text alone is on standard output; how to revoke it stands beside."""
    made = place.duly("token", "create", "ci", "--role", "operator", "--tenant", "acme")
    token = parts(made.out.strip())
    listed = place.duly("token", "list")
    [told] = place.duly("token", "list", "--json").json
    revoked = place.duly("token", "revoke", token.prefix, "--reason", "leaked")
    again = place.duly("token", "revoke", told["id"])
    live = place.duly("token", "list", "--live", "--tenant", "acme")

    assert f"{token.text}\n" == made.out
    assert f"token {token.prefix} (ci): operator of tenant acme, till 20" in made.err
    assert f"it is not shown again; duly token revoke {token.prefix} ends it" in made.err
    assert ("ci", "acme", "operator", "live") == (
        told["name"],
        told["tenant"],
        told["role"],
        told["state"],
    )
    assert f"Revoked {token.prefix} (ci). It can't be taken back." in revoked.out
    assert "Nothing was changed." in again.out
    assert "There is no token. Make one: duly token create NAME" in live.out
    seen = [listed, revoked, again, place.duly("audit"), place.duly("audit", "--json")]
    for answer in seen:
        assert token.secret not in answer.out + answer.err
    assert token.prefix in listed.out


def test_a_program_reads_a_token_as_json(place: Workplace):
    made = place.duly("token", "create", "all", "--tenant", "*", "--expires", "never", "--json")
    token = parts(made.json["text"])

    assert ("*", None, "viewer", token.prefix, "") == (
        made.json["tenant"],
        made.json["expires_at"],
        made.json["role"],
        made.json["prefix"],
        made.err,
    )
    revoked = place.duly("token", "revoke", f"duly_{token.prefix}", "--json").json
    assert "revoked" == revoked["state"]


def test_bad_orders_are_refused_with_what_to_do(place: Workplace):
    """One line, an exit code, and no token in it."""
    made = place.duly("token", "create", "ci").out.strip()
    role = place.duly("token", "create", "ci", "--role", "root")
    expiry = place.duly("token", "create", "ci", "--expires", "2020-01-01T00:00Z")
    missing = place.duly("token", "revoke", "nosuchaa")
    pasted = place.duly("token", "revoke", made)

    assert (2, True) == (role.status, "use one of viewer, operator, admin, worker" in role.err)
    assert (2, True) == (expiry.status, "has passed; give a later one" in expiry.err)
    assert (3, True) == (missing.status, "duly token list" in missing.err)
    assert (2, True) == (pasted.status, "name it by its prefix" in pasted.err)
    assert parts(made).secret not in pasted.err
    assert 1 == len(place.duly("token", "list", "--json").json)

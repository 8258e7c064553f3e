"""`duly token`: who may come in by the API, and ending that."""

from __future__ import annotations

import sys

from cyclopts import App

from duly.cli.output import print_aside, print_json, print_line, print_table
from duly.cli.target import Target, opened
from duly.cli.undoing import undo_text
from duly.client.tokens import Token
from duly.domain.time_texts import utc_text

TARGET = Target()

app = App(name="token", help="Make, list and revoke tokens: who may come in by the API.")


@app.command
def create(  # noqa: PLR0913 - each term of a token is an option
    name: str,
    /,
    *,
    role: str = "viewer",
    tenant: str | None = None,
    expires: str = "90d",
    reason: str | None = None,
    target: Target = TARGET,
) -> None:
    """Make a token. Its text is printed once, to standard output; nobody can show it again.

    Parameters
    ----------
    name
        Who or what it is for, such as ci or anna: whatever is done with it, is done in this name.
    role
        What it may do: viewer (look), operator (look, run, change), or admin (and tokens, quotas).
    tenant
        Whose things it opens; the application's own tenant unless given, '*' for every tenant.
    expires
        After how long, as 30d or 12h; or at an instant, as 2026-12-31T00:00Z; or never.
    reason
        Why; it is recorded.
    """
    with opened(target) as application:
        made = application.tokens.create(
            name, role=role, tenant=tenant, expires=expires, reason=reason
        )
        token = made.token
        revoking = undo_text("token", "revoke", token.prefix)
        if target.json:
            print_json({**made.to_json(), "undo": revoking})
            return
        # Alone on standard output, so that a program can keep it and a person sees the rest.
        sys.stdout.write(f"{made.text}\n")
        sys.stdout.flush()
        print_aside("note", _sentence(token), as_json=False)
        print_aside(
            "note", f"keep it now, it is not shown again; {revoking} ends it", as_json=False
        )


@app.command(name="list")
def list_tokens(*, tenant: str | None = None, live: bool = False, target: Target = TARGET) -> None:
    """List tokens, newest first: whose they are, until when, and when they were last used.

    Parameters
    ----------
    tenant
        Only those of one tenant; '*' for those that open every tenant.
    live
        Only those that open something: neither expired nor revoked.
    """
    with opened(target, makes_store=False) as application:
        found = application.tokens.list(tenant=tenant)
        if live:
            found = [one for one in found if one.state == "live"]
        if target.json:
            print_json([one.to_json() for one in found])
            return
        if not found:
            print_line("There is no token. Make one: ", undo_text("token", "create", "NAME"))
            return
        headings = ("prefix", "name", "role", "tenant", "state", "expires", "last used", "made by")
        print_table(headings, [_row(one) for one in found])


@app.command
def revoke(token: str, /, *, reason: str | None = None, target: Target = TARGET) -> None:
    """End a token for good, and the sessions begun with it: within a second, everywhere.

    Parameters
    ----------
    token
        Its prefix or its id, as duly token list shows them; never its text.
    reason
        Why; it is recorded.
    """
    with opened(target, makes_store=False) as application:
        was_live = application.tokens.get(token).state != "revoked"
        revoked = application.tokens.revoke(token, reason=reason)
        if target.json:
            print_json(revoked.to_json())
            return
        if was_live:
            print_line(f"Revoked {_named(revoked)}. It can't be taken back.")
        else:
            at, by = utc_text(revoked.revoked_at), revoked.revoked_by
            print_line(f"{_named(revoked)} was revoked {at} by {by}. Nothing was changed.")


def _sentence(token: Token) -> str:
    whose = "every tenant" if token.tenant == "*" else f"tenant {token.tenant}"
    expiry = "never expires" if token.expires_at is None else f"till {utc_text(token.expires_at)}"
    return f"token {_named(token)}: {token.role} of {whose}, {expiry}"


def _named(token: Token) -> str:
    return f"{token.prefix} ({token.name})"


def _row(token: Token) -> tuple[str, ...]:
    return (
        token.prefix,
        token.name,
        token.role,
        token.tenant,
        token.state,
        "never" if token.expires_at is None else utc_text(token.expires_at),
        "never" if token.last_used_at is None else utc_text(token.last_used_at),
        token.created_by,
    )

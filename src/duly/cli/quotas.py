"""`duly quota`: how much one owner, one tenant, or all together may ask for."""

from __future__ import annotations

from cyclopts import App

from duly.app import App as Application
from duly.cli.output import print_json, print_line, print_table
from duly.cli.target import Target, opened
from duly.cli.undoing import print_undo, undo_text
from duly.client.quotas import Quota
from duly.domain.quotas import Counted
from duly.domain.time_texts import utc_text
from duly.errors import UsageError

TARGET = Target()
NO_BOUND = "none"
_WORDS = {
    Counted.SCHEDULES: "active schedules",
    Counted.CREATIONS: "schedules made in a minute",
    Counted.PENDING: "delayed runs pending",
}

app = App(name="quota", help="Bound how much owners and tenants may ask for.")


@app.command(name="set")
def set_quotas(  # noqa: PLR0913 - each quota is an option
    scope: str,
    /,
    *,
    schedules: str | None = None,
    creations: str | None = None,
    pending: str | None = None,
    tenant: str | None = None,
    reason: str | None = None,
    target: Target = TARGET,
) -> None:
    """Set quotas; what is not given stays, and what there is already is left alone.

    Parameters
    ----------
    scope
        Whose: owner:NAME, owner:* (each owner by itself), tenant:NAME, tenant:* (each), or all.
    schedules
        How many active schedules an owner or a tenant may have; none for no bound.
    creations
        How many schedules a tenant, or all together, may make in a minute; none for no bound.
    pending
        How many delayed runs of a tenant may be pending; none for no bound.
    tenant
        With owner:NAME: whose owner; the application's own tenant unless given.
    reason
        Why; it is recorded.
    """
    given = {"schedules": schedules, "creations": creations, "pending": pending}
    with opened(target) as application:
        most = {name: _number(name, text) for name, text in given.items() if text is not None}
        before = _of(application, scope, tenant)
        after = application.quotas.set(scope, tenant=tenant, reason=reason, **most)
        taking_back = _undo(_named(scope, tenant), before, most)
        if target.json:
            print_json({"quotas": [one.to_json() for one in after], "undo": taking_back})
            return
        for quota in after:
            print_line(_sentence(quota))
        print_undo(taking_back)


@app.command(name="list")
def list_quotas(*, target: Target = TARGET) -> None:
    """List quotas, with who set them and when."""
    with opened(target, makes_store=False) as application:
        found = application.quotas.list()
        if target.json:
            print_json([one.to_json() for one in found])
            return
        rows = [_row(one) for one in found]
        print_table(("whose", "of tenant", "at most", "set by", "at", "version"), rows)


@app.command
def remove(
    scope: str,
    /,
    *,
    tenant: str | None = None,
    reason: str | None = None,
    target: Target = TARGET,
) -> None:
    """Take back all that was set for a scope: what is said about each holds again.

    Parameters
    ----------
    scope
        Whose: as duly quota list shows it.
    tenant
        With owner:NAME: whose owner; the application's own tenant unless given.
    reason
        Why; it is recorded.
    """
    with opened(target, makes_store=False) as application:
        before = _of(application, scope, tenant)
        application.quotas.remove(scope, tenant=tenant, reason=reason)
        taking_back = undo_text("quota", "set", *_named(scope, tenant), *_options(before))
        if target.json:
            print_json({"scope": scope, "undo": taking_back})
            return
        print_line(f"Removed the quotas of {scope}.")
        print_undo(taking_back)


def _number(name: str, text: str) -> int | str:
    if text == NO_BOUND:
        return text
    if not (text.isascii() and text.isdigit()):
        raise UsageError(name, text, "is not a number", f"give a whole number, or {NO_BOUND}")
    return int(text[:10])


def _named(scope: str, tenant: str | None) -> list[str]:
    return [scope] if tenant is None else [scope, "--tenant", tenant]


def _of(application: Application, scope: str, tenant: str | None) -> list[Quota]:
    """Return what was set for a scope before."""
    whose = (None, tenant or application.tenant)
    return [
        one
        for one in application.quotas.list()
        if one.scope == scope and one.tenant in whose and not one.is_default
    ]


def _undo(named: list[str], before: list[Quota], most: dict[str, int | str]) -> str:
    changed = [one for one in before if one.counted in most]
    if len(changed) < len(most):
        # A quota that was not there before can only be taken back with the others of its scope.
        kept = _options(before)
        again = f" && {undo_text('quota', 'set', *named, *kept)}" if kept else ""
        return undo_text("quota", "remove", *named) + again
    return undo_text("quota", "set", *named, *_options(changed))


def _options(quotas: list[Quota]) -> list[str]:
    words: list[str] = []
    for one in quotas:
        words += [f"--{one.counted}", NO_BOUND if one.most is None else str(one.most)]
    return words


def _sentence(quota: Quota) -> str:
    words = _WORDS[Counted(quota.counted)]
    if quota.most is None:
        return f"{quota.scope}: no bound on {words}."
    return f"{quota.scope}: at most {quota.most:,} {words}."


def _row(quota: Quota) -> tuple[str, ...]:
    words = _WORDS[Counted(quota.counted)]
    return (
        quota.scope,
        quota.tenant or "-",
        f"no bound on {words}" if quota.most is None else f"{quota.most:,} {words}",
        quota.updated_by or "nobody (default)",
        utc_text(quota.updated_at),
        "-" if quota.is_default else str(quota.version),
    )

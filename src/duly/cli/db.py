"""`duly db`: what an operator does to a store before and between versions."""

from __future__ import annotations

from typing import Any, Literal

from cyclopts import App

from duly.cli.output import print_block, print_facts, print_json, print_line
from duly.cli.target import Target, of_all_tenants, opened
from duly.cli.waiting import ticker
from duly.domain.instants import from_microseconds, iso_utc
from duly.domain.time_texts import utc_text
from duly.store.schema import Migration

TARGET = Target()
FOUND, UNAVAILABLE = 1, 5

app = App(name="db", help="Migrate and check the store, and say who may use it.")


@app.command
def migrate(
    *,
    dry_run: bool = False,
    phase: Literal["pre", "post"] | None = None,
    target: Target = TARGET,
) -> None:
    """Bring the store's schema up to date, and say what was done.

    Parameters
    ----------
    dry_run
        Print the SQL that would be run, and run nothing.
    phase
        Only what comes before the new program runs (pre), or once the old one is gone (post).
    """
    with opened(of_all_tenants(target), needs_store=True) as application:
        if dry_run:
            status = application.schema_status()
            missing = [one for one in status.missing if phase in (None, one.phase)]
            if target.json:
                print_json([_migration_json(one) for one in missing])
                return
            for one in missing:
                print_line(f"-- {_name(one)}")
                print_block(one.sql.rstrip(), indent=0)
            print_line(f"-- {len(missing)} to apply; nothing was changed (--dry-run)")
            return
        applied = application.migrate(phase=phase)
        if target.json:
            print_json([_migration_json(one) for one in applied])
            return
        for one in applied:
            print_line(f"Applied {_name(one)}.")
        print_line(f"{application.url} is up to date." if not applied else _done(len(applied)))


@app.command
def status(*, target: Target = TARGET) -> int:
    """Say which migrations the store has and lacks, and whether this program can use it."""
    with opened(of_all_tenants(target), needs_store=True) as application:
        application.require_store(is_file_enough=True)
        found = application.schema_status()
        if target.json:
            print_json(
                {
                    "store": found.store,
                    "is_usable": found.is_usable,
                    "problem": found.problem,
                    "applied": [_migration_json(one) for one in found.applied],
                    "missing": [_migration_json(one) for one in found.missing],
                    "unknown": list(found.unknown),
                }
            )
        else:
            facts = [("store", found.store)]
            facts += [("applied", f"{_name(one)}, {_applied_at(one)}") for one in found.applied]
            facts += [("missing", _name(one)) for one in found.missing]
            facts += [("unknown", f"{name}: the store is newer") for name in found.unknown]
            facts.append(("usable", "yes" if found.is_usable else f"no: {found.problem}"))
            print_facts(facts)
        return 0 if found.is_usable else UNAVAILABLE


@app.command
def check(*, target: Target = TARGET) -> int:
    """Look for what must never be: damage, broken invariants, changed migrations."""
    with opened(of_all_tenants(target), makes_store=False, needs_store=True) as application:
        with ticker() as line:
            line.tell("looking for what must never be")
            findings = application.check()
        if target.json:
            print_json(
                [{"what": one.what, "detail": one.detail, "remedy": one.remedy} for one in findings]
            )
        else:
            for one in findings:
                print_line((f"{one.what}: ", "bold red"), f"{one.detail}; {one.remedy}")
            found = f"{len(findings)} found wrong" if findings else "sound"
            print_line(f"{application.url}: {found}.")
        return FOUND if findings else 0


@app.command
def access(
    *,
    role: str,
    undo: bool = False,
    dry_run: bool = False,
    target: Target = TARGET,
) -> None:
    """Let a role of PostgreSQL serve tenants, and see the rows of one at a time.

    Run it as the owner of the schema, and again after every migration.

    Parameters
    ----------
    role
        The role that `duly server` connects as; neither a superuser nor the owner.
    undo
        Take its rights back.
    dry_run
        Print the SQL that would be run, and run nothing.
    """
    with opened(of_all_tenants(target), makes_store=False, needs_store=True) as application:
        statements = application.grant_access(role, undo=undo, dry_run=dry_run)
        if target.json:
            print_json({"role": role, "is_undone": undo, "is_dry": dry_run, "sql": statements})
            return
        if dry_run:
            print_block(";\n".join([*statements, ""]).rstrip(), indent=0)
            print_line(f"-- {len(statements)} to run; nothing was changed (--dry-run)")
            return
        print_line(
            f"{role} has no rights in this store any more."
            if undo
            else f"{role} may serve this store, and sees the rows of one tenant at a time."
        )


def _migration_json(one: Migration) -> dict[str, Any]:
    at = None if one.applied_at is None else iso_utc(from_microseconds(one.applied_at))
    return {
        "number": one.number,
        "phase": one.phase,
        "name": one.name,
        "checksum": one.checksum,
        "applied_at": at,
        "sql": one.sql,
    }


def _name(one: Migration) -> str:
    return f"{one.number:04}_{one.phase}_{one.name}"


def _applied_at(one: Migration) -> str:
    return "-" if one.applied_at is None else utc_text(from_microseconds(one.applied_at))


def _done(number: int) -> str:
    return (
        f"{number} migration{'s' if number > 1 else ''} applied; there is no way back but a backup."
    )

"""Commands about a store and its access: db, token, config, init, export, import."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from duly.app import App as Application
from duly.app.services import ALLOW_COMMANDS_VARIABLE, read_allowed
from duly.app.stores import URL_DEFAULT
from duly.cli.confirm import print_undo, undo_command
from duly.cli.context import (
    APP_VARIABLE,
    TENANT_VARIABLE,
    URL_VARIABLE,
    Target,
    of_all_tenants,
    open_app,
    person,
)
from duly.cli.output import (
    print_aside,
    print_block,
    print_facts,
    print_json,
    print_line,
    print_table,
    ticker,
)
from duly.client.access import Token
from duly.client.export import Export, Import
from duly.config import Settings
from duly.engine.dispatcher.settings import (
    CATCH_UP_VARIABLE,
    RETENTION_VARIABLE,
    retention_terms,
    split_terms,
)
from duly.errors import Conflict, StoreError
from duly.store.ports.maintenance import Migration
from duly.timetable.instants import from_microseconds, iso_utc, utc_text

TARGET = Target()
DEFAULT = "default"

config_app = App(name="config", help="See which settings hold, and where they come from.")


@dataclass(frozen=True, slots=True)
class _Setting:
    name: str
    value: Any
    source: str


@config_app.command
def show(*, target: Target = TARGET) -> None:
    """Show which settings hold here, and where each was said: by whom, a variable, a program."""
    with open_app(target, needs_store=True) as application:
        found = [*_surroundings(application, target), *_settings(application)]
        found += _retention(application)
    if target.json:
        print_json([{"name": one.name, "value": one.value, "source": one.source} for one in found])
        return
    rows = [(one.name, _text(one.value), one.source) for one in found]
    print_table(("setting", "value", "said by"), rows)


def _surroundings(application: Application, target: Target) -> Iterator[_Setting]:
    place = target.app or os.environ.get(APP_VARIABLE) or None
    yield _Setting("app", place, _said(target.app, APP_VARIABLE))
    yield _Setting("url", application.url, _url_source(application, target, place))
    whose = _said(target.tenant, TENANT_VARIABLE)
    if whose == DEFAULT and place:
        whose = "the application"
    yield _Setting("tenant", application.tenant, whose)
    yield _Setting("actor", person(), "the system: who is logged in")
    allowed = read_allowed(os.environ.get(ALLOW_COMMANDS_VARIABLE, ""))
    commands = "all" if allowed is None else sorted(allowed)
    yield _Setting("allow-commands", commands, _said(None, ALLOW_COMMANDS_VARIABLE))


def _url_source(application: Application, target: Target, place: str | None) -> str:
    said = target.url or os.environ.get(URL_VARIABLE)
    if place and application.url != Application(said or URL_DEFAULT).url:
        return f"the application, {place}"
    return _said(target.url, URL_VARIABLE)


def _settings(application: Application) -> Iterator[_Setting]:
    usual = Settings()
    for one in fields(Settings):
        if one.name == "retention":
            continue  # told term by term
        value = getattr(application.settings, one.name)
        if one.name == "catch_up_per_second" and os.environ.get(CATCH_UP_VARIABLE, "").strip():
            yield _Setting(one.name, application.catch_up_per_second, f"${CATCH_UP_VARIABLE}")
            continue
        is_usual = value == getattr(usual, one.name)
        yield _Setting(one.name, _plain(value), DEFAULT if is_usual else "the application")


def _retention(application: Application) -> Iterator[_Setting]:
    """Say how long each kind of history is kept, and who says so."""
    said = {
        "the application": application.settings.retention,
        f"${RETENTION_VARIABLE}": split_terms(os.environ.get(RETENTION_VARIABLE, "")),
    }
    sources = {
        term.partition("=")[0].strip(): source for source, terms in said.items() for term in terms
    }
    for name, kept in retention_terms(application.retention).items():
        yield _Setting(f"retention.{name}", kept, sources.get(name, DEFAULT))


def _said(option: str | None, variable: str) -> str:
    if option is not None:
        return "the command line"
    return f"${variable}" if os.environ.get(variable) else DEFAULT


def _plain(value: object) -> Any:  # noqa: ANN401 - what JSON can hold
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return list(value) if isinstance(value, tuple) else str(value)


def _text(value: object) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


FOUND, UNAVAILABLE = 1, 5

db_app = App(name="db", help="Migrate and check the store, and say who may use it.")


@db_app.command
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
    with open_app(of_all_tenants(target), needs_store=True) as application:
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


@db_app.command
def status(*, target: Target = TARGET) -> int:
    """Say which migrations the store has and lacks, and whether this program can use it."""
    with open_app(of_all_tenants(target), needs_store=True) as application:
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


@db_app.command
def check(*, target: Target = TARGET) -> int:
    """Look for what must never be: damage, broken invariants, changed migrations."""
    with open_app(of_all_tenants(target), makes_store=False, needs_store=True) as application:
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


@db_app.command
def access(
    *,
    role: str,
    undo: bool = False,
    dry_run: bool = False,
    target: Target = TARGET,
) -> None:
    """Let a role of PostgreSQL serve tenants, and see the rows of one at a time.

    Run it as the owner of the schema. `duly db migrate` grants access again when that is needed.

    Parameters
    ----------
    role
        The role that `duly server` connects as; neither a superuser nor the owner.
    undo
        Take its rights back.
    dry_run
        Print the SQL that would be run, and run nothing.
    """
    with open_app(of_all_tenants(target), makes_store=False, needs_store=True) as application:
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


TASKS = '''"""Tasks of this program. Run them: duly dev --app tasks:app --declare schedules.toml"""

import duly

app = duly.App()  # where promises are kept: $DULY_URL, else the file duly.db


@app.task
def greet(name: str = "world") -> str:
    return f"hello, {name}"


# What may not be done twice asks first. If a worker dies in the middle, nobody repeats it by
# itself: duly inbox says what is known, and what is safest.
@app.task(effects="unsafe", timeout="1m")
def charge(run: duly.Run, invoice: int) -> str:
    with run.effect(f"charge:{invoice}"):
        return f"invoice {invoice} is charged"


if __name__ == "__main__":
    app.run()
'''
SCHEDULES = """# Schedules of this program; duly schedule apply -f schedules.toml makes them so.
[schedules.morning-greeting]
task = "greet"
when = "every weekday at 9:00"
tz = "UTC"
misfire = "latest"
[schedules.morning-greeting.arguments]
name = "everybody"
"""
FILES = {"tasks.py": TASKS, "schedules.toml": SCHEDULES}
STEPS = """export DULY_APP=tasks:app
duly dev --declare schedules.toml     # fires what falls due, and runs it; Ctrl-C ends it
duly enqueue greet -a name=Ada --wait # in another terminal
duly status                           # is all well?
duly doctor                           # and if not, why?"""


def init(folder: Path = Path(), /, *, dry_run: bool = False, json: bool = False) -> None:
    """Write a program with tasks, and a file of schedules, to begin with; nothing is overwritten.

    Parameters
    ----------
    folder
        Where; made if it is not there. Here unless given.
    dry_run
        Show what would be written, and write nothing.
    json
        Print JSON.
    """
    paths = {folder / name: text for name, text in FILES.items()}
    for path in paths:
        if path.exists():
            remedy = "move it away, or give another folder: duly init FOLDER"
            raise Conflict("file", str(path), "is there already", remedy)
    if not dry_run:
        _write(folder, paths)
    if json:
        print_json({"files": [str(path) for path in paths], "dry_run": dry_run})
        return
    for path, text in paths.items():
        print_line(f"{'Would write' if dry_run else 'Wrote'} {path}.")
        if dry_run:
            print_block(text)
    if dry_run:
        print_line("Nothing was written (--dry-run).")
        return
    print_line()
    print_line("What comes next:")
    if folder != Path():
        print_block(f"cd {shlex.quote(str(folder))}")
    print_block(STEPS)
    print_undo(shlex.join(("rm", *(str(path) for path in paths))))


def _write(folder: Path, paths: dict[Path, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in paths.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        problem = f"can't be written ({error.strerror})"
        raise StoreError(
            str(folder), problem, "give a folder that this user may write to"
        ) from error


STANDARD = "-"


def export_promises(
    file: str = STANDARD,
    /,
    *,
    history: bool = False,
    stopped: bool = False,
    target: Target = TARGET,
) -> None:
    """Write all promises to a file, as JSON lines: for a backup, or to move to another store.

    Parameters
    ----------
    file
        Where to; "-" is the standard output.
    history
        Also runs that are over, and what was skipped.
    stopped
        Refuse while any dispatcher or worker is alive: for a move.
    """
    with open_app(_of_store(target), makes_store=False, needs_store=True) as application:
        to = sys.stdout.buffer if file == STANDARD else Path(file)
        with ticker() as line:
            tell = line.counting("written")
            done = application.promises.export(to, history=history, stopped=stopped, tell=tell)
    if file == STANDARD:
        print_aside("note", _exported(done, "the standard output"), as_json=target.json)
    elif target.json:
        print_json(done.to_json())
    else:
        print_line(_exported(done, file))
    if done.alive and not stopped:
        _warn_of_living(done.alive, as_json=target.json)


def import_promises(  # noqa: PLR0913 - options of a command
    file: str,
    /,
    *,
    on_conflict: Literal["fail", "skip"] = "fail",
    dry_run: bool = False,
    reason: Annotated[str | None, Parameter(help="Why, for the audit trail.")] = None,
    target: Target = TARGET,
) -> None:
    """Take in all promises of a file, or none.

    Parameters
    ----------
    file
        What `duly export` wrote; "-" is the standard input.
    on_conflict
        If something else is in a promise's place: import nothing (fail), or leave it out (skip).
    dry_run
        Say what would be imported, and write nothing.
    """
    with open_app(_of_store(target), needs_store=True) as application:
        source = sys.stdin.buffer if file == STANDARD else Path(file)
        with ticker() as line:
            terms: dict[str, Any] = {"on_conflict": on_conflict, "dry_run": dry_run}
            tell = line.counting("read")
            done = application.promises.import_from(source, **terms, reason=reason, tell=tell)
    if target.json:
        print_json(done.to_json())
    else:
        print_line(_imported(done))
    if done.alive and not done.is_repeated:
        _warn_of_living(done.alive, as_json=target.json)


def _of_store(target: Target) -> Target:
    """Have an explicit --url win over the store of $DULY_APP's program: no task is needed here."""
    whole = of_all_tenants(target)
    if target.url is None or target.app is not None:
        return whole
    return replace(whole, app="")


def _exported(done: Export, where: str) -> str:
    return (
        f"Exported {_listed(done.counts)} of {done.source} to {where}, as of"
        f" {utc_text(done.as_of)}. Tokens and the audit trail stay where they are."
    )


def _imported(done: Import) -> str:
    if done.is_repeated:
        return f"This export of {done.source} was imported before: nothing was changed."
    verb = "Would import" if done.is_dry_run else "Imported"
    left = f"; left out {_listed(done.skipped)}" if done.skipped else ""
    said = f"{verb} {_listed(done.taken)} of {done.source}, as of {utc_text(done.as_of)}{left}."
    return f"{said} Nothing was changed (--dry-run)." if done.is_dry_run else said


def _warn_of_living(alive: int, *, as_json: bool) -> None:
    members = (
        "1 dispatcher or worker was" if alive == 1 else f"{alive} dispatchers and workers were"
    )
    print_aside(
        "warning",
        f"{members} alive at the source: this is a backup. Where both stores go on, both fire; to"
        " move, stop them all and use duly export --stopped",
        as_json=as_json,
    )


_NOUNS = {"queue": "paused queue", "delayed": "delayed run", "slot": "backfilled occurrence"}


def _listed(counts: dict[str, int]) -> str:
    """Return how many there are of what: `2 schedules, 1 run`."""
    parts: list[str] = []
    for kind, count in counts.items():
        noun = _NOUNS.get(kind, kind.replace("-", " "))
        if count and kind != "worker":
            parts.append(f"{count:,} {noun}{'' if count == 1 else 's'}")
    return ", ".join(parts) or "nothing"


token_app = App(name="token", help="Make, list and revoke tokens: who may come in by the API.")


@token_app.command
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
    with open_app(target) as application:
        made = application.tokens.create(
            name, role=role, tenant=tenant, expires=expires, reason=reason
        )
        token = made.token
        revoking = undo_command("token", "revoke", token.prefix)
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


@token_app.command(name="list")
def list_tokens(*, tenant: str | None = None, live: bool = False, target: Target = TARGET) -> None:
    """List tokens, newest first: whose they are, until when, and when they were last used.

    Parameters
    ----------
    tenant
        Only those of one tenant; '*' for those that open every tenant.
    live
        Only those that open something: neither expired nor revoked.
    """
    with open_app(target, makes_store=False) as application:
        found = application.tokens.list(tenant=tenant)
        if live:
            found = [one for one in found if one.state == "live"]
        if target.json:
            print_json([one.to_json() for one in found])
            return
        if not found:
            print_line("There is no token. Make one: ", undo_command("token", "create", "NAME"))
            return
        headings = ("prefix", "name", "role", "tenant", "state", "expires", "last used", "made by")
        print_table(headings, [_row(one) for one in found])


@token_app.command
def revoke(token: str, /, *, reason: str | None = None, target: Target = TARGET) -> None:
    """End a token for good, and the sessions begun with it: within a second, everywhere.

    Parameters
    ----------
    token
        Its prefix or its id, as duly token list shows them; never its text.
    reason
        Why; it is recorded.
    """
    with open_app(target, makes_store=False) as application:
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

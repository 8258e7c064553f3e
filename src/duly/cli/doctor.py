"""`duly doctor`: looks at all that promises hang on, and says of each finding what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from duly.app import App
from duly.app.doctor import Check, Diagnosis, Level, examine, mended
from duly.cli.output import print_json, print_line
from duly.cli.target import Target, is_server, opened, refuse_server
from duly.wire.doctor import DoctorCheck

if TYPE_CHECKING:
    from duly.cli.remote.application import RemoteApp

TARGET = Target()
_STATUS = {Level.OK: 0, Level.NOTE: 0, Level.DEGRADED: 1, Level.BROKEN: 5}
_STYLE = {
    Level.OK: "green",
    Level.NOTE: "bold yellow",
    Level.DEGRADED: "bold red",
    Level.BROKEN: "bold red",
}
_LEVEL_WIDTH = max(len(one) for one in Level) + 2
_ABOUT_WIDTH = 13


def doctor(*, fix: bool = False, target: Target = TARGET) -> int:
    """Look at the installation, the store and the fleet; exit code 0 is well, 1 degraded, 5 broken.

    Each finding comes with its remedy, and with a code that docs/errors.md explains. Of a server
    it is asked what it finds where it runs; that takes a token of every tenant.

    Parameters
    ----------
    fix
        Do what is safe without a person's thought: make the store if there is none, and apply
        migrations that are missing. Then look again.
    """
    if fix:
        refuse_server(target)
    with opened(target) as app:
        diagnosis = _asked(app) if is_server(app) else examine(app)
        mending: list[str] = []
        if fix and any(one.is_mendable for one in diagnosis.checks):
            mending = [f"{one.number:04}_{one.phase}_{one.name}" for one in mended(app)]
            diagnosis = examine(app)
        if target.json:
            print_json({**diagnosis.to_json(), "mended": mending})
        else:
            _print(diagnosis, mending, is_fixing=fix)
        return _STATUS[diagnosis.level]


def _asked(app: App) -> Diagnosis:
    """Return what a server finds where it runs: in its installation, its store and its fleet."""
    found = cast("RemoteApp", app).remote.doctor()
    return Diagnosis(tuple(_check(one) for one in found.checks))


def _check(told: DoctorCheck) -> Check:
    level = Level(told.level) if told.level in set(Level) else Level.BROKEN
    return Check(
        about=told.about,
        level=level,
        says=told.says,
        code=told.code,
        remedy=told.remedy,
        is_mendable=told.is_mendable,
    )


def _print(diagnosis: Diagnosis, mending: list[str], *, is_fixing: bool) -> None:
    for name in mending:
        print_line(("mended".ljust(_LEVEL_WIDTH), "green"), f"applied migration {name}")
    for one in diagnosis.checks:
        _print_check(one)
    mendable = sum(one.is_mendable for one in diagnosis.checks)
    if mendable and not is_fixing:
        print_line("duly doctor --fix would mend what the schema lacks.")
    if diagnosis.level is Level.OK:
        print_line(("All is well.", "green"))


def _print_check(check: Check) -> None:
    code = f" [{check.code}]" if check.code else ""
    word = (check.level.ljust(_LEVEL_WIDTH), _STYLE[check.level])
    print_line(word, (check.about.ljust(_ABOUT_WIDTH), "dim"), f"{check.says}{code}")
    if check.remedy:
        print_line(" " * (_LEVEL_WIDTH + _ABOUT_WIDTH), ("do: ", "bold"), check.remedy)

"""`duly version`: which releases of Duly, Python and the world's facts are in use."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

from duly.cli.output import console, print_json
from duly.timetable.zones import default_zones


def version(*, json: bool = False) -> None:
    """Show the version of Duly, of Python, and of the time-zone and holiday data.

    Parameters
    ----------
    json
        Print JSON.
    """
    try:
        holidays = installed_version("holidays")
    except PackageNotFoundError:
        holidays = "not installed (pip install 'duly[calendars]')"
    found = {
        "duly": installed_version("duly"),
        "python": platform.python_version(),
        "tzdata": default_zones().version,
        "holidays": holidays,
    }
    if json:
        print_json(found)
        return
    for name, release in found.items():
        console().print(f"{name:9}{release}", markup=False)

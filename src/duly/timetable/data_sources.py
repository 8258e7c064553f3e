"""The only readers of the tzdata wheel and of the holidays package.

A source returns raw data. `duly.timetable.zones` interprets zone files, and `BusinessCalendar`
decides what a holiday means for business days.

`HolidaysPackage` reads an extra (`duly[calendars]`), which is imported on first use. It raises
`ModuleNotFoundError` when the extra is not installed.
"""

from __future__ import annotations

import re
import warnings
from datetime import date, timedelta
from functools import cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.resources.abc import Traversable
    from pathlib import Path
    from types import ModuleType


class HolidaySource(Protocol):
    """A release of the world's public holidays; hashable, as what it says is kept."""

    def __hash__(self) -> int:
        """Tell it from other releases."""
        ...

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def version(self) -> str:
        """The release, such as `0.108`."""
        ...

    @property
    def codes(self) -> frozenset[str]:
        """The countries (ISO 3166) and exchanges (ISO 10383) that it knows, aliases included."""
        ...

    def subdivisions(self, code: str) -> frozenset[str]:
        """Return the states or provinces of one of `codes`, by code or name."""
        ...

    def weekend(self, code: str) -> frozenset[int]:
        """Return the weekend of one of `codes` as it is now; Monday is 0."""
        ...

    def days_off(self, code: str, subdivision: str | None, year: int) -> frozenset[date]:
        """Return a year's holidays and weekends: every day that is not a business day."""
        ...


class HolidaysPackage:
    """The `holidays` package: some 250 countries and territories and 40 exchanges."""

    name = "holidays"

    def __init__(self) -> None:
        """Import nothing yet."""
        self._known: dict[str, Any] = {}

    @property
    def version(self) -> str:
        """The installed release."""
        return str(self._package.__version__)

    @property
    def codes(self) -> frozenset[str]:
        """Every code that the package has; its own list would import every country."""
        return self._codes

    def subdivisions(self, code: str) -> frozenset[str]:
        """Return codes such as `BY`, and names such as `Bayern` where the package has them."""
        entity = self._about(code)
        return frozenset([*entity.subdivisions, *entity.subdivisions_aliases])

    def weekend(self, code: str) -> frozenset[int]:
        """Return the weekend of today; some countries moved theirs, which `days_off` respects."""
        return frozenset(self._about(code).weekend)

    def days_off(self, code: str, subdivision: str | None, year: int) -> frozenset[date]:
        """Ask day by day, as some countries moved their weekend in the middle of a year.

        A Saturday that is worked to make up for a bridge day stays a weekend: it is one for banks.
        """
        entity = self._entity(code, subdiv=subdivision, years=year)
        first = date(year, 1, 1)
        length = date(year, 12, 31).toordinal() - first.toordinal() + 1
        days = (first + timedelta(number) for number in range(length))
        return frozenset(day for day in days if entity.is_weekend(day) or day in entity)

    @property
    def _package(self) -> ModuleType:
        import holidays

        return holidays

    @property
    def _registry(self) -> Any:  # noqa: ANN401 - the package's own types are not public
        from holidays.registry import EntityLoader

        return EntityLoader

    @cached_property
    def _codes(self) -> frozenset[str]:
        return self._exchanges | frozenset(self._registry.get_country_codes(include_aliases=True))

    @cached_property
    def _exchanges(self) -> frozenset[str]:
        return frozenset(self._registry.get_financial_codes(include_aliases=True))

    def _about(self, code: str) -> Any:  # noqa: ANN401 - as above
        """Return what the package knows about a code apart from dates; there are some 600."""
        if code not in self._known:
            self._known[code] = self._entity(code)
        return self._known[code]

    def _entity(self, code: str, **options: object) -> Any:  # noqa: ANN401 - as above
        is_exchange = code in self._exchanges
        make = self._package.financial_holidays if is_exchange else self._package.country_holidays
        with warnings.catch_warnings():
            # It warns of years whose moon-based holidays are not known yet; nobody can act on it.
            warnings.simplefilter("ignore")
            return make(code, **options)


VERSION_LINE = re.compile(r"#\s*version\s+(\S+)")


class ZoneFiles(Protocol):
    """A release of the time-zone database."""

    @property
    def version(self) -> str:
        """The release, such as `2026a`."""
        ...

    @property
    def keys(self) -> frozenset[str]:
        """Every name that can be read, aliases included."""
        ...

    def read(self, key: str) -> bytes:
        """Return the compiled (TZif) file of one of `keys`."""
        ...

    def table(self, name: str) -> str:
        """Return one of the release's text tables, such as `zone1970.tab`, or ''."""
        ...


class ZoneFolder:
    """A tree of compiled zones, as the tzdata wheel, `zic` and operating systems lay it out."""

    def __init__(self, root: Path | Traversable) -> None:
        """Read below `root`; nothing is opened before it is asked for."""
        self._root = root
        self._version: str | None = None
        self._keys: frozenset[str] | None = None

    @property
    def version(self) -> str:
        """The release that the tree says it is, or `unknown`."""
        if self._version is None:
            found = VERSION_LINE.match(self.table("tzdata.zi"))
            self._version = str(found[1]) if found else "unknown"
        return self._version

    @property
    def keys(self) -> frozenset[str]:
        """Every compiled file below the root, by its path."""
        if self._keys is None:
            self._keys = frozenset(self._listed())
        return self._keys

    def _listed(self) -> Iterable[str]:
        return self._compiled(self._root, "")

    def read(self, key: str) -> bytes:
        """Return the compiled file of `key`; callers check `keys` first, so no path can escape."""
        return self._root.joinpath(*key.split("/")).read_bytes()

    def table(self, name: str) -> str:
        """Return a text table of the release, or '' where the tree has none."""
        path = self._root.joinpath(name)
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def _compiled(self, folder: Path | Traversable, prefix: str) -> Iterator[str]:
        for entry in folder.iterdir():
            if entry.is_dir():
                # Operating systems keep further copies beside the real tree.
                if entry.name not in {"right", "posix", "__pycache__"}:
                    yield from self._compiled(entry, f"{prefix}{entry.name}/")
            elif entry.name[0].isupper() and "." not in entry.name:
                with entry.open("rb") as file:
                    if file.read(4) == b"TZif":
                        yield f"{prefix}{entry.name}"


class TzdataWheel(ZoneFolder):
    """The `tzdata` package: the same rules on every machine, whatever its system ships."""

    def __init__(self) -> None:
        """Point at the installed package."""
        package = resources.files("tzdata")
        super().__init__(package.joinpath("zoneinfo"))
        self._index = package.joinpath("zones")

    def _listed(self) -> Iterable[str]:
        # The package's own list saves opening six hundred files.
        return self._index.read_text(encoding="utf-8").split()

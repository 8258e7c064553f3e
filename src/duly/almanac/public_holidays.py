"""Public holidays and weekends of countries and exchanges: where they come from, and which release.

A source hands out dates and codes; what a business day is for is decided by `BusinessCalendar`. The
one that ships reads an extra (`duly[calendars]`), imported when it is first asked: a
`ModuleNotFoundError` says that it is not there.
"""

from __future__ import annotations

import warnings
from datetime import date, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
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

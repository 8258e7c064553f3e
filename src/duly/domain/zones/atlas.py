"""The atlas behind the zone search: which zones a release offers, and every name they go by."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from duly.domain.zones.places import COUNTRY_NAMES, PLACES, RENAMED, SPOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.domain.zones.database import ZoneDatabase

NameKind = Literal[
    "city", "country", "spoken", "place", "id", "alias", "abbreviation", "offset", "words"
]
PLACEHOLDER = "Factory"
"""What the tz database calls a machine that was never told its zone."""

UTC_WEIGHT = 1000
"""Whoever asks for +00:00 most often means UTC itself."""

_LETTERS = str.maketrans(
    {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"}  # noqa: RUF001 - meant
)
_SILENT = str.maketrans("", "", "'.’`ʻ")  # noqa: RUF001 - meant


def folded(text: str) -> str:
    """Return a name as it is compared: no case, no accents, single spaces for all punctuation."""
    plain = text.casefold().translate(_LETTERS).translate(_SILENT)
    decomposed = unicodedata.normalize("NFKD", plain)
    letters = (char for char in decomposed if not unicodedata.combining(char))
    return " ".join("".join(char if char.isalnum() else " " for char in letters).split())


@dataclass(frozen=True, slots=True)
class Listing:
    """A zone that the search offers."""

    key: str
    city: str
    countries: tuple[str, ...]
    group: str
    weight: int
    """How many big places we know in it: of two equal matches, the likelier one."""


@dataclass(frozen=True, slots=True)
class Name:
    """One of the names under which a zone is found."""

    text: str
    kind: NameKind
    label: str
    key: str
    order: int = 0
    """Among zones of the same name, who is meant first."""


@dataclass(frozen=True)
class Atlas:
    """All listings of a release, and all their names."""

    listings: dict[str, Listing]
    names: tuple[Name, ...]
    words: dict[str, tuple[str, ...]]
    """For each zone, every word of its names, for questions such as "paris france"."""


@lru_cache(maxsize=4)
def atlas_of(zones: ZoneDatabase) -> Atlas:
    """Make the atlas of a release, once."""
    countries = _countries(zones)
    links = _links(zones)
    canonical = _canonical_keys(zones, countries, links)
    listings = {key: _listing(key, countries.get(key, ())) for key in canonical}
    codes = {country: code for code, country in _country_table(zones).items()}
    names = [
        *_own_names(listings),
        *_country_names(listings, codes),
        *_hand_written_names(listings),
        *_alias_names(zones, listings, links),
    ]
    words: dict[str, set[str]] = {key: set() for key in listings}
    for name in names:
        words[name.key].update(name.text.split())
    return Atlas(
        listings, tuple(names), {key: tuple(sorted(found)) for key, found in words.items()}
    )


def _listing(key: str, countries: tuple[str, ...]) -> Listing:
    head, slash, _ = key.partition("/")
    group = head if slash and head != "Etc" else "UTC" if key == "UTC" else "Other"
    city = key.rpartition("/")[2].replace("_", " ") if group != "Other" else key
    weight = len(PLACES[key].split(", ")) if key in PLACES else 0
    weight = UTC_WEIGHT if key == "UTC" else weight
    return Listing(key, city, countries, group, weight)


def _countries(zones: ZoneDatabase) -> dict[str, tuple[str, ...]]:
    """Return the countries of each zone, by the table in which each zone has one, if it exists."""
    names = _country_table(zones)
    table = zones.files.table("zone.tab") or zones.files.table("zone1970.tab")
    rows = [line.split("\t") for line in _lines(table)]
    return {
        row[2]: tuple(names.get(code, code) for code in row[0].split(","))
        for row in rows
        if len(row) > 2 and row[2] in zones.keys
    }


def _country_table(zones: ZoneDatabase) -> dict[str, str]:
    rows = [line.split("\t") for line in _lines(zones.files.table("iso3166.tab"))]
    return {row[0]: row[1] for row in rows if len(row) > 1}


def _links(zones: ZoneDatabase) -> dict[str, str]:
    """Return each alias and the name it stands for, as the release's source has them."""
    rows = [line.split() for line in _lines(zones.files.table("tzdata.zi"))]
    links = {row[2]: row[1] for row in rows if len(row) == 3 and row[0] == "L"}
    links |= {old: new for old, new in RENAMED.items() if new in zones.keys}
    if "UTC" in zones.keys:
        links.pop("UTC", None)
    return links


def _canonical_keys(
    zones: ZoneDatabase, countries: dict[str, tuple[str, ...]], links: dict[str, str]
) -> list[str]:
    """Return the names to offer.

    The database links Amsterdam to Brussels, because their clocks have agreed since 1970. Countries
    may part again, so a zone that its country's table lists is offered under its own name.
    """
    return sorted(
        key for key in zones.keys if (key in countries or key not in links) and key != PLACEHOLDER
    )


def _own_names(listings: dict[str, Listing]) -> Iterator[Name]:
    for key, listing in listings.items():
        if listing.group not in ("UTC", "Other"):
            yield Name(folded(listing.city), "city", listing.city, key)
        yield Name(folded(key), "id", key, key)


def _country_names(listings: dict[str, Listing], codes: dict[str, str]) -> Iterator[Name]:
    for key, listing in listings.items():
        for country in listing.countries:
            yield Name(folded(country), "country", country, key)
            others = COUNTRY_NAMES.get(codes.get(country, ""), "")
            for other in filter(None, others.split(", ")):
                yield Name(folded(other), "country", f"{other} ({country})", key)


def _hand_written_names(listings: dict[str, Listing]) -> Iterator[Name]:
    for key, places in PLACES.items():
        if key in listings:
            for place in places.split(", "):
                yield Name(folded(place), "place", place, key)
    for spoken, keys in SPOKEN.items():
        for label in spoken.split(", "):
            for order, key in enumerate(keys.split(", ")):
                if key in listings:
                    yield Name(folded(label), "spoken", label, key, order)


def _alias_names(
    zones: ZoneDatabase, listings: dict[str, Listing], links: dict[str, str]
) -> Iterator[Name]:
    for alias in sorted(links.keys() & zones.keys - listings.keys()):
        key = _target(alias, links, listings)
        if key is not None:
            yield Name(folded(alias), "alias", alias, key)
            last = folded(alias.rpartition("/")[2])
            if last != folded(alias):
                yield Name(last, "alias", alias, key)


def _target(alias: str, links: dict[str, str], listings: dict[str, Listing]) -> str | None:
    key = alias
    for _ in range(4):  # links of links exist, in older releases; circles do not
        key = links.get(key, key)
        if key in listings:
            return key
    return None


def _lines(table: str) -> list[str]:
    return [line for line in table.splitlines() if line and not line.startswith("#")]

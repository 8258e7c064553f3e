"""Finds zones by city, country, abbreviation, offset or alias."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from duly.errors import UsageError
from duly.timetable.instants import (
    DAY,
    HOUR,
    MINUTE,
    SECOND_US,
    YEAR_MAX,
    YEAR_MIN,
    to_microseconds,
)
from duly.timetable.zone_places import COUNTRY_NAMES, PLACES, RENAMED, SPOKEN
from duly.timetable.zones import ZoneDatabase, default_zones

if TYPE_CHECKING:
    from collections.abc import Iterator


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


QUERY_LENGTH_MAX = 80
LIMIT_MAX = 100
AROUND = 200 * DAY
"""How far away an abbreviation may be in use and still count: people say EST in July."""

CLOSENESS = 0.75
_VERBATIM, _EXACT, _PREFIX, _WORD, _INSIDE, _WORDS, _CLOSE = range(7)
_KINDS: tuple[NameKind, ...] = (
    "city", "country", "spoken", "place", "id", "offset", "alias", "abbreviation", "words",
)  # fmt: skip
_KIND_ORDER = {kind: order for order, kind in enumerate(_KINDS)}
_OFFSET = re.compile(
    r"(?:utc|gmt)?\s*([+\u2212-])\s*(\d{1,2})(?::?(\d{2}))?", re.IGNORECASE | re.ASCII
)
_WHY: dict[NameKind, str] = {
    "city": "city {}",
    "country": "in {}",
    "spoken": "called {}",
    "place": "zone of {}",
    "id": "time zone {}",
    "alias": "{} is another name of it",
    "abbreviation": "uses {}",
    "offset": "is at UTC{}",
    "words": "matches {}",
}


@dataclass(frozen=True, slots=True)
class ZoneMatch:
    """A zone that fits a query: what it is, what its clock shows, and why it was found."""

    key: str
    city: str
    countries: tuple[str, ...]
    group: str
    kind: NameKind
    matched: str
    offset: timedelta
    abbreviation: str
    local_at: datetime

    @property
    def alias(self) -> str | None:
        """The other IANA name under which it was found."""
        return self.matched if self.kind == "alias" else None

    @property
    def why(self) -> str:
        """The reason of the match in words: "US/Eastern is another name of it"."""
        return _WHY[self.kind].format(self.matched)


_Rank = tuple[int, int, int, bool, int, str]


@dataclass(frozen=True, slots=True)
class _Hit:
    closeness: int
    name: Name

    def rank(self, listing: Listing) -> _Rank:
        """Sort by how well, by what, by how likely, and by name: the order is always the same."""
        kind = _KIND_ORDER[self.name.kind]
        rare = listing.group == "Other"
        return (self.closeness, kind, self.name.order, rare, -listing.weight, listing.key)


def search_zones(
    query: str, *, at: datetime, zones: ZoneDatabase | None = None, limit: int = 20
) -> list[ZoneMatch]:
    """Return the zones that a query may mean, the likeliest first, with their clocks at an instant.

    Case and accents don't matter. A whole name comes before the beginning of one, that before its
    inside, and only where nothing else fits are similar names offered. Each zone comes once.
    """
    _check(query, limit)
    second = _checked_second(at)
    zones = zones or default_zones()
    atlas = atlas_of(zones)
    best: dict[str, tuple[_Rank, Name]] = {}
    for hit in _hits(query, zones, atlas, second):
        listing = atlas.listings[hit.name.key]
        rank = hit.rank(listing)
        if listing.key not in best or rank < best[listing.key][0]:
            best[listing.key] = (rank, hit.name)
    chosen = sorted(best.values(), key=lambda found: found[0])[:limit]
    return [_match(zones, atlas.listings[name.key], name, at) for _, name in chosen]


def _check(query: str, limit: int) -> None:
    remedy = "type a city, a country, a zone such as 'Europe/Paris', or an offset such as '+05:30'"
    if not isinstance(query, str) or not query.strip():
        problem = "is empty" if isinstance(query, str) else "is not a text"
        raise UsageError("query", query, problem, remedy)
    if len(query) > QUERY_LENGTH_MAX:
        remedy = f"give at most {QUERY_LENGTH_MAX} characters"
        raise UsageError("query", query, "is too long", remedy)
    if not isinstance(limit, int) or not 1 <= limit <= LIMIT_MAX:
        raise UsageError("limit", limit, "is out of range", f"ask for 1 to {LIMIT_MAX} zones")


def _checked_second(at: datetime) -> int:
    second = to_microseconds(at, "at") // SECOND_US
    if not YEAR_MIN < at.year < YEAR_MAX:
        remedy = "give an instant from year 2 to year 9998"
        raise UsageError("at", at, "is too far away to show local times", remedy)
    return second


def _hits(query: str, zones: ZoneDatabase, atlas: Atlas, second: int) -> Iterator[_Hit]:
    text = folded(query)
    found = False
    for hit in _offset_hits(query, zones, atlas, second):
        found = True
        yield hit
    if not text or found:
        return
    for name in atlas.names:
        closeness = _closeness(text, name.text)
        if closeness is not None:
            found = True
            # Folding loses the sign that tells Etc/GMT+5 from Etc/GMT-5.
            is_verbatim = closeness == _EXACT and name.label.casefold() == query.strip().casefold()
            yield _Hit(_VERBATIM if is_verbatim and "/" in query else closeness, name)
    for hit in (*_abbreviation_hits(text, zones, second), *_word_hits(text, query, atlas)):
        found = True
        yield hit
    if not found:
        yield from _close_hits(text, atlas)


def _closeness(text: str, name: str) -> int | None:
    place = name.find(text)
    if place < 0:
        return None
    if place == 0:
        return _EXACT if len(text) == len(name) else _PREFIX
    return _WORD if f" {text}" in name else _INSIDE


def _offset_hits(query: str, zones: ZoneDatabase, atlas: Atlas, second: int) -> Iterator[_Hit]:
    found = _OFFSET.fullmatch(query.strip())
    if not found:
        return
    sign, hours, minutes = found.groups()
    offset = (int(hours) * HOUR + int(minutes or 0) * MINUTE) * (1 if sign == "+" else -1)
    for key in atlas.listings:
        if zones.zone(key).segment(second).offset == offset:
            yield _Hit(_EXACT, Name("", "offset", _offset_words(offset), key))


def _abbreviation_hits(text: str, zones: ZoneDatabase, second: int) -> Iterator[_Hit]:
    for order, key in _abbreviations(zones, second // DAY).get(text, ()):
        yield _Hit(_EXACT, Name(text, "abbreviation", text.upper(), key, order))


@lru_cache(maxsize=8)
def _abbreviations(zones: ZoneDatabase, day: int) -> dict[str, tuple[tuple[int, str], ...]]:
    """For each abbreviation in use around a day: who uses it, those who do that very day first."""
    users: dict[str, dict[str, int]] = {}
    for key in atlas_of(zones).listings:
        zone = zones.zone(key)
        today = zone.segment(day * DAY)
        instant = day * DAY - AROUND
        while instant < day * DAY + AROUND:
            segment = zone.segment(instant)
            if segment.abbreviation.isalpha():
                order = 0 if segment.abbreviation == today.abbreviation else 1
                users.setdefault(segment.abbreviation.casefold(), {})[key] = order
            instant = segment.end
    return {
        text: tuple(sorted((order, key) for key, order in orders.items()))
        for text, orders in users.items()
    }


def _word_hits(text: str, query: str, atlas: Atlas) -> Iterator[_Hit]:
    """Find zones of which every word of the query begins a word: "paris france"."""
    wanted = set(text.split())
    if len(wanted) < 2:
        return
    for key, words in atlas.words.items():
        if all(any(word.startswith(begin) for word in words) for begin in wanted):
            yield _Hit(_WORDS, Name(text, "words", query.strip(), key))


def _close_hits(text: str, atlas: Atlas) -> Iterator[_Hit]:
    """Find names that differ by a slip of the finger."""
    reach = 1 + len(text) // 4
    names: dict[str, list[Name]] = {}
    for name in atlas.names:
        if abs(len(name.text) - len(text)) <= reach and set(name.text[:2]) & set(text[:2]):
            names.setdefault(name.text, []).append(name)
    similar = get_close_matches(text, sorted(names), n=5, cutoff=CLOSENESS)
    for order, found in enumerate(similar):
        yield from (_Hit(_CLOSE + order, name) for name in names[found])


def _match(zones: ZoneDatabase, listing: Listing, name: Name, at: datetime) -> ZoneMatch:
    segment = zones.zone(listing.key).segment(to_microseconds(at, "at") // SECOND_US)
    offset = timedelta(seconds=segment.offset)
    return ZoneMatch(
        key=listing.key,
        city=listing.city,
        countries=listing.countries,
        group=listing.group,
        kind=name.kind,
        matched=name.label,
        offset=offset,
        abbreviation=segment.abbreviation,
        local_at=at.astimezone(timezone(offset)),
    )


def _offset_words(offset: int) -> str:
    minutes = abs(offset) // MINUTE
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"

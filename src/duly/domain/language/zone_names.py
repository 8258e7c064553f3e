"""Zones as a sentence names them: by their IANA names; near misses are pointed out, not guessed."""

from __future__ import annotations

from functools import lru_cache

from duly.domain.language.tokens import NotUnderstoodError
from duly.domain.zones.database import default_zones
from duly.errors import UsageError


def zone_named(text: str) -> str:
    """Return the name of a zone; refuse a city, and say what its zone is called."""
    if text.upper() == "UTC":
        return "UTC"
    if text in default_zones().keys:
        return text
    raise NotUnderstoodError(f"says {text!r}, which is not the name of a zone", _remedy(text))


@lru_cache(maxsize=256)
def _remedy(text: str) -> str:
    """Look for the zone that was meant, once: mending a sentence may ask for it several times."""
    keys = default_zones().keys
    cities = sorted(key for key in keys if key.lower().endswith(f"/{text.lower()}"))
    if cities:
        return f"write {cities[0]!r}"
    try:
        default_zones().zone(text)
    except UsageError as error:
        return error.remedy
    raise AssertionError("only asked for names that are not zones")

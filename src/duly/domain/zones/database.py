"""The database of zones: looks one up by name, reads it once, and says which release it is."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING

from duly.almanac.zone_files import TzdataWheel, ZoneFiles
from duly.domain.zones.tzif import read_tzif
from duly.domain.zones.zone import Zone
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

KEY_LENGTH_MAX = 80


class ZoneDatabase:
    """One release of the tz database, read on demand."""

    def __init__(self, files: ZoneFiles) -> None:
        """Read from `files`; each zone is read at most once."""
        self.files = files
        self._zones: dict[str, Zone] = {}

    def __reduce__(self) -> tuple[Callable[..., ZoneDatabase], tuple[ZoneFiles, ...]]:
        """Copy and pickle where the zones come from, and not the zones: they are read again."""
        return (default_zones, ()) if self is default_zones() else (type(self), (self.files,))

    @property
    def version(self) -> str:
        """The release, such as `2026a`."""
        return self.files.version

    @property
    def keys(self) -> frozenset[str]:
        """Every name that `zone` accepts."""
        return self.files.keys

    def zone(self, key: str) -> Zone:
        """Return the zone of an IANA name or alias; refuse others and suggest the nearest."""
        found = self._zones.get(key) if isinstance(key, str) else None
        if found is None:
            found = self._zones[key] = Zone(self._checked(key), read_tzif(self.files.read(key)))
        return found

    def _checked(self, key: str) -> str:
        if isinstance(key, str) and key in self.files.keys:
            return key
        remedy = "give an IANA name such as 'Europe/Paris' or 'UTC'"
        name = getattr(key, "key", None)
        if isinstance(name, str) and name in self.files.keys:
            remedy = f"give its name, {name!r}"
        if isinstance(key, str) and len(key) <= KEY_LENGTH_MAX:
            nearest = self._nearest(key)
            remedy = f"did you mean {nearest!r}?" if nearest else remedy
        raise UsageError("tz", key, "is not a time zone", remedy)

    def _nearest(self, key: str) -> str | None:
        folded = {name.casefold(): name for name in sorted(self.files.keys)}
        close = get_close_matches(key.strip().replace(" ", "_").casefold(), folded, n=1)
        return folded[close[0]] if close else None


@cache
def default_zones() -> ZoneDatabase:
    """Return the zones of the installed tzdata wheel, shared by everything in the process."""
    return ZoneDatabase(TzdataWheel())

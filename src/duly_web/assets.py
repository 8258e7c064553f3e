"""Static files: read once, each under a name that holds a hash of what is in it.

Nothing is looked up on a disk by what a request says: a name is in the manifest, or there is no
such file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is served."""

    address: str
    """Its name with the hash: `console.1f2e3d4c5b6a.css`."""
    content: bytes
    media_type: str


class Manifest:
    """All static files."""

    def __init__(self, assets: dict[str, Asset]) -> None:
        self._by_name = assets
        self._by_address = {one.address: one for one in assets.values()}

    def address(self, name: str) -> str:
        """Return the address of a file that a template names."""
        return self._by_name[name].address

    def find(self, address: str) -> Asset | None:
        """Return the file of an address."""
        return self._by_address.get(address)


@cache
def manifest() -> Manifest:
    """Read the files that the package has."""
    return Manifest(dict(_read(files("duly_web") / "static")))


def _read(folder: Traversable) -> Iterator[tuple[str, Asset]]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _read(one)
            continue
        stem, _, kind = one.name.rpartition(".")
        if kind in _TYPES:
            content = one.read_bytes()
            digest = sha256(content).hexdigest()[:12]
            yield one.name, Asset(f"{stem}.{digest}.{kind}", content, _TYPES[kind])

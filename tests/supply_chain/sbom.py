"""What Duly is made of, as CycloneDX JSON: what it asks for, as it is installed here.

    make sbom                       into dist/sbom.cdx.json

Nothing is drawn and no time is told: the same installation gives the same file.
"""

from __future__ import annotations

import json
import sys
import tomllib
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = "duly"
EXTRAS = frozenset({"calendars", "otel", "postgres", "webhooks"})
"""What is shipped, and neither tests nor peers."""
VENDORED = "static/vendor"
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@dataclass(frozen=True)
class Part:
    """A component, and what it needs."""

    reference: str
    described: dict[str, Any]
    needs: tuple[str, ...] = ()


def bill_of_materials() -> dict[str, Any]:
    """Return the document."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    found = _installed(project)
    root = found.pop(ROOT)
    vendored = list(_vendored())
    parts = [*(found[name] for name in sorted(found)), *vendored]
    root = Part(root.reference, root.described, (*root.needs, *(one.reference for one in vendored)))
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root.described},
        "components": [one.described for one in parts],
        "dependencies": [
            {"ref": one.reference, "dependsOn": sorted(one.needs)} for one in (root, *parts)
        ],
    }
    serial = uuid5(NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return document | {"serialNumber": f"urn:uuid:{serial}"}


def _installed(project: dict[str, Any]) -> dict[str, Part]:
    """Return all that a project needs of what is here, each by its name."""
    asked = [*project["dependencies"]]
    for extra in sorted(EXTRAS):
        asked += project["optional-dependencies"][extra]
    waiting = list(_needed(asked, frozenset()))
    needed: dict[str, set[str]] = {ROOT: {_reference(distribution(one)) for one, _ in waiting}}
    known = set[tuple[str, frozenset[str]]]()
    while waiting:
        one, extras = waiting.pop()
        if (one, extras) in known:
            continue
        known.add((one, extras))
        needs = list(_needed(distribution(one).requires or (), extras))
        waiting += needs
        needed.setdefault(one, set()).update(_reference(distribution(other)) for other, _ in needs)
    root = f"pkg:pypi/{ROOT}@{project['version']}"
    found = {ROOT: Part(root, _own(project, root), tuple(sorted(needed.pop(ROOT))))}
    for name, needs_too in needed.items():
        made = distribution(name)
        found[name] = Part(_reference(made), _described(made), tuple(sorted(needs_too)))
    return found


def _own(project: dict[str, Any], reference: str) -> dict[str, Any]:
    return {
        "type": "application",
        "bom-ref": reference,
        "name": project["name"],
        "version": project["version"],
        "purl": reference,
        "licenses": [{"expression": project["license"]}],
    }


def _needed(asked: Iterable[str], extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for text in asked:
        requirement = Requirement(text)
        marker, name = requirement.marker, canonicalize_name(requirement.name)
        if marker is not None and not any(marker.evaluate({"extra": one}) for one in {"", *extras}):
            continue
        try:
            distribution(name)
        except PackageNotFoundError:
            continue  # an extra that nobody installed here
        yield name, frozenset(requirement.extras)


def _reference(made: Distribution) -> str:
    return f"pkg:pypi/{canonicalize_name(made.name)}@{made.version}"


def _described(made: Distribution) -> dict[str, Any]:
    reference = _reference(made)
    record = made.read_text("RECORD")
    return {
        "type": "library",
        "bom-ref": reference,
        "name": made.name,
        "version": made.version,
        "purl": reference,
        "licenses": _licences(made),
        # Of the list of all files with their hashes, as it was installed.
        "properties": [{"name": "duly:record-sha256", "value": _digest(record)}] if record else [],
    }


def _licences(made: Distribution) -> list[dict[str, Any]]:
    said = made.metadata
    if expressions := said.get_all("License-Expression"):
        return [{"expression": expressions[0]}]
    classified = [
        one.rpartition(" :: ")[2]
        for one in said.get_all("Classifier") or ()
        if one.startswith("License :: OSI Approved :: ")
    ]
    short = "".join((said.get_all("License") or [""])[:1]).strip()
    names = classified or ([short] if short and "\n" not in short and len(short) < 80 else [])
    return [{"license": {"name": one}} for one in names]


def vendored_files() -> list[dict[str, str]]:
    """Return what the console brings along of others."""
    listed = files("duly.web") / VENDORED / "manifest.json"
    found: list[dict[str, str]] = json.loads(listed.read_text(encoding="utf-8"))
    return found


def _vendored() -> Iterator[Part]:
    for one in vendored_files():
        reference = f"pkg:npm/{one['name']}@{one['version']}"
        yield Part(
            reference,
            {
                "type": "library",
                "bom-ref": reference,
                "name": one["name"],
                "version": one["version"],
                "purl": reference,
                "licenses": [{"expression": one["licence"]}],
                "hashes": [{"alg": "SHA-256", "content": one["sha256"]}],
            },
        )


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    json.dump(bill_of_materials(), sys.stdout, indent=2)
    sys.stdout.write("\n")

"""What an installation takes, with versions and hashes: for pip's --require-hashes.

    make lock                       into dist/duly.lock

A lock holds for the platform and the Python that it was made with: other wheels have other hashes.
Where the files came from is not in it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from packaging.utils import canonicalize_name


def locked(report: dict[str, Any]) -> list[str]:
    """Return the lines of a lock, from what `pip install --dry-run --report` wrote."""
    lines = []
    for one in report["install"]:
        info, said = one["download_info"], one["metadata"]
        if "dir_info" in info:
            continue  # Duly itself, from its own folder
        digest = info["archive_info"]["hashes"]["sha256"]
        name = canonicalize_name(said["name"])
        lines.append(f"{name}=={said['version']} --hash=sha256:{digest}")
    return sorted(lines)


if __name__ == "__main__":
    print("\n".join(locked(json.load(sys.stdin))))  # noqa: T201 - its answer is what it prints

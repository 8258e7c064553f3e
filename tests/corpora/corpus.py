"""Reads the corpora: other schedulers' answers, one JSON object a line, in the folder $DULY_CORPORA.

No row is copied into this repository. Where the folder is not named, these tests are not collected,
and the head of the run says so in one line.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

Row = dict[str, Any]

FOLDER = os.environ.get("DULY_CORPORA")


@cache
def rows(name: str) -> tuple[Row, ...]:
    """Return the rows of one corpus."""
    assert FOLDER, "tests of corpora are collected where $DULY_CORPORA names a folder"
    text = (Path(FOLDER) / f"{name}.jsonl").read_text(encoding="utf-8")
    return tuple(json.loads(line) for line in text.splitlines())


def instant(text: str) -> datetime:
    """Return an ISO time as an aware instant; one without an offset floats, and is read as UTC."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def zone_key(text: str | None) -> str:
    """Return the IANA name in what a corpus calls a zone: a name, a file's path, or nothing for UTC."""
    if text is None:
        return "UTC"
    return text.rpartition("/zoneinfo/")[2].rstrip("')") if "/zoneinfo/" in text else text

"""Lists of shards as one parameter, so that a statement's text stays the same for any number."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def shard_list(shards: Iterable[int]) -> str:
    """Return shards for `IN (SELECT value FROM json_each(?))`."""
    return json.dumps(list(shards))

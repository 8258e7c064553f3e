"""`--retain`: how long history is kept, said to a process that runs until it is stopped (D6)."""

from __future__ import annotations

import os

from duly.engine.retention import RETENTION_VARIABLE, read_retention, split_terms


def note_retention(terms: tuple[str, ...]) -> None:
    """Have these terms hold here and in processes that are started; refuse what is not known."""
    if not terms:
        return
    said = split_terms(os.environ.get(RETENTION_VARIABLE, ""))
    read_retention((*said, *terms))
    os.environ[RETENTION_VARIABLE] = ",".join((*said, *terms))

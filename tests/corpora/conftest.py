"""Leaves these tests out where $DULY_CORPORA names no folder of corpora."""

from __future__ import annotations

from tests.corpora.corpus import FOLDER

collect_ignore_glob = [] if FOLDER else ["test_*.py"]

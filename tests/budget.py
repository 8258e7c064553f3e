"""What `make test` may cost. A change that needs more raises the figure here, with a sentence why."""

from __future__ import annotations

from collections import Counter

CORE_SECONDS = 950
"""Processor seconds of one run on the reference machine: eight minutes of two cores.

900 until decisions about effects, orders in transactions, silent connections and the commands of the how-to guides had
tests; these take 40.

A run above it says "over budget" and does not fail: a busy machine is no defect of the change.
"""

CALIBRATION_ROUNDS = 1_000_000
REFERENCE_S = 0.025
"""Processor seconds of the calibration loop on the reference machine when nothing else runs there."""

started: Counter[str] = Counter()
"""What this process of tests has started, by kind: `started["databases"] += 1`."""

"""A client whose promises are kept by workers: as the other one, with tasks of every kind.

python -m tests.system.work_client URL LEDGER SEED SCHEDULES
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duly
from tests.system.client_program import Client, give_orders
from tests.system.evidence import OrderBook
from tests.system.work_tasks import FAULTY_TIMES
from tests.system.work_tasks import app as tasks

if TYPE_CHECKING:
    from collections.abc import Mapping

OFTEN = {"breeze": 10, "stroll": 10}
"""What schedules ask for: it is asked for again and again."""
SELDOM = {
    "breeze": 100,
    "stroll": 100,
    "falter": 50,
    "ask": 25,
    "doze": 30,
    "forsake": 10,
    "apart": 8,
    "hungry": 1,
    "endless": 0.7,
    "poison": 0.7,
}
"""What is asked for once, and how often in proportion."""
BARE = frozenset({"hungry", "endless", "poison"})


class WorkClient(Client):
    """Asks for work of every kind."""

    def call(self) -> duly.BoundCall:
        return self._call(SELDOM)

    def schedule_call(self) -> duly.BoundCall:
        return self._call(OFTEN)

    def _call(self, weights: Mapping[str, float]) -> duly.BoundCall:
        task = self.draw.choices([*weights], weights=[*weights.values()])[0]
        arguments: dict[str, Any] = {} if task in BARE else {"ms": self.draw.randrange(10, 200)}
        if task == "falter":
            arguments["times"] = self.draw.choice((1, 1, 2, FAULTY_TIMES))
        elif task == "doze":
            arguments["times"] = self.draw.randrange(1, 3)
        return tasks.call(task, arguments)


def main(url: str, ledger: Path, seed: str, schedules: int) -> None:
    """Give orders until standard input is closed."""
    with duly.App(url, name="system-test") as app:
        give_orders(WorkClient(app, OrderBook(ledger), random.Random(seed), seed), schedules)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))

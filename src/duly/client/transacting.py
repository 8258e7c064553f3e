"""A task's own transaction: its writes and its run's success commit together, or neither (E4)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from duly.client.awaited import AwaitedTransaction
from duly.client.json_values import plain_value
from duly.domain.attempts import RESULT_BYTES_MAX
from duly.domain.schedules import canonical_json
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.client.lending import Lending
    from duly.client.reading import Delay
    from duly.domain.live import Live, Transacting
    from duly.store.planning import Parameters, Transaction

_DEPTH_MAX = 32


class TaskTransaction:
    """A connection for a task's own tables, whose commit ends its run as succeeded."""

    def __init__(self, transaction: Transaction, lent: Transacting) -> None:
        self.transaction = transaction
        """What the store has lent; orders join it by `connection=tx`."""
        self._lent = lent

    def execute(self, sql: str, parameters: Parameters = ()) -> list[tuple[object, ...]]:
        """Run one statement of the task's; it commits with the run's success, or not at all."""
        return self.transaction.execute(sql, parameters)

    def result(self, value: object) -> None:
        """Say what the run gives (JSON values); what the code returns later is not kept."""
        text = canonical_json(plain_value("result", value, _DEPTH_MAX))
        size = len(text.encode())
        if size > RESULT_BYTES_MAX:
            problem = f"takes {size:,} bytes, and {RESULT_BYTES_MAX:,} is the most"
            remedy = "write it to a table of yours, and give a reference to it here"
            raise UsageError("result", type(value).__name__, problem, remedy)
        self._lent.result = text


@contextmanager
def transaction_of(
    live: Live, lending: Lending, limit: Delay | None = None
) -> Iterator[TaskTransaction]:
    """Lend a transaction to a task; its run has succeeded when the block has ended well."""
    with live.transact(lending.limit_us(limit)) as lent:
        transaction: Transaction = lent.transaction  # type: ignore[assignment]  # the store's own
        with lending.lent(transaction):
            yield TaskTransaction(transaction, lent)


class AwaitedTaskTransaction(AwaitedTransaction):
    """The same for async tasks: `async with run.aio.transaction() as tx: await tx.execute(…)`."""

    def result(self, value: object) -> None:
        """Say what the run gives (JSON values); what the code returns later is not kept."""
        lent = self.transaction
        assert isinstance(lent, TaskTransaction), "it is made for nothing else"
        lent.result(value)

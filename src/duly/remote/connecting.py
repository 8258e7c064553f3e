"""A server in a program's hands: `duly.connect(url)` gives what `duly.App` has, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from duly.entropy import SystemDraws
from duly.interface.audit import AuditAsked
from duly.interface.doctor import Diagnosis
from duly.interface.proofs import Proof, ProofQuery
from duly.interface.runs import EnqueuedRun, NewRun, NewRuns, Run
from duly.interface.schedules import Entry, Preview
from duly.interface.shapes import Page
from duly.interface.status import Status, StatusAsked
from duly.interface.zones import RuleAsked, Zone, ZonesAsked
from duly.remote.address import find_token, read_address
from duly.remote.alerts import Alerts
from duly.remote.backfills import Backfills
from duly.remote.events import Events
from duly.remote.inbox import Inbox
from duly.remote.operating import (
    LIST_DISPATCHERS,
    Breakers,
    Limits,
    Queues,
    Quotas,
    Tokens,
    Workers,
)
from duly.remote.operation import look
from duly.remote.owners import Owners
from duly.remote.runs import ENQUEUE, ENQUEUE_MANY, Delayed, Runs
from duly.remote.schedules import Schedules
from duly.remote.selections import ScheduleSelections, Selections
from duly.remote.transport import HttpConnection, RetryPolicy, Transport, said
from duly.remote.vitals import Vitals

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Mapping
    from datetime import date
    from types import TracebackType
    from uuid import UUID

    from duly.entropy import RandomSource
    from duly.interface.delayed import DelayedRun
    from duly.interface.members import Member
    from duly.remote.transport import Delay, Instant

STATUS = look("get_status", "/status", Status)
DOCTOR = look("get_diagnosis", "/doctor", Diagnosis)
AUDIT = look("list_audit", "/audit", Page[Entry])
PROOF = look("get_proof", "/proofs", Proof)
ZONES = look("find_zones", "/zones", Page[Zone])
EXPLAIN = look("explain_rule", "/next", Preview)


class Audit:
    """Who did what on a server."""

    def __init__(self, asking: Transport) -> None:
        self._asking = asking

    def page(self, **filters: Any) -> Page[Entry]:  # noqa: ANN401 - as `AuditAsked` has them
        """Return a page of entries, newest first; it may be short while there is more."""
        return self._asking.ask(AUDIT, query=said(AuditAsked, **filters))


class Remote:
    """A server, asked as whoever the token says; nothing is sent until something is asked.

    Threads may share it. It has the parts of `duly.App`, and answers in the shapes of
    `duly.interface`.
    """

    def __init__(self, asking: Transport) -> None:
        self._asking = asking
        self.url = asking.exchange.address.url
        self.schedules = Schedules(asking)
        self.runs = Runs(asking)
        self.delayed = Delayed(asking)
        self.selections = Selections(asking)
        self.schedule_selections = ScheduleSelections(asking)
        self.inbox = Inbox(asking)
        self.backfills = Backfills(asking)
        self.queues = Queues(asking)
        self.limits = Limits(asking)
        self.breakers = Breakers(asking)
        self.quotas = Quotas(asking)
        self.owners = Owners(asking)
        self.workers = Workers(asking)
        self.alerts = Alerts(asking)
        self.tokens = Tokens(asking)
        self.audit = Audit(asking)
        self.events = Events(asking)
        self.vitals = Vitals(asking)

    def enqueue(  # noqa: PLR0913 - each term of a promise is an argument
        self,
        task: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        at: Instant | None = None,
        delay: Delay | None = None,
        key: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        past: str | None = None,
        replace: bool = False,
        id: UUID | None = None,  # noqa: A002 - the promised name
    ) -> EnqueuedRun:
        """Promise a run of a task: at once, `at` an instant, or after a `delay`.

        It is durable when this returns. The same `id` given again, even by another process, is the
        same order; without one, a lost reply is made good while this call lasts.
        """
        body = said(
            NewRun,
            task=task,
            arguments=arguments,
            at=at,
            delay=delay,
            key=key,
            queue=queue,
            priority=priority,
            past=past,
            replace=replace or None,
            id=id,
        )
        return self._asking.ask(ENQUEUE, body=body)

    def enqueue_many(
        self,
        calls: Iterable[tuple[str, Mapping[str, Any]]],
        **terms: Any,  # noqa: ANN401 - as `NewRuns` has them
    ) -> list[EnqueuedRun]:
        """Promise a run of each task with its arguments, all or none."""
        named = [{"task": task, "arguments": dict(arguments)} for task, arguments in calls]
        return self._asking.ask(ENQUEUE_MANY, body=said(NewRuns, calls=named, **terms)).items

    def move(  # noqa: PLR0913 - as above
        self,
        key_or_id: UUID | str,
        *,
        at: Instant | None = None,
        delay: Delay | None = None,
        past: str | None = None,
        reason: str | None = None,
    ) -> DelayedRun:
        """Move a pending delayed run, by its key or its id."""
        return self.delayed.move(key_or_id, at=at, delay=delay, past=past, reason=reason)

    def cancel(self, key_or_id: UUID | str, *, reason: str | None = None) -> Run:
        """Cancel a pending delayed run, by its key or its id."""
        return self.delayed.cancel(key_or_id, reason=reason)

    def prove(self, schedule: UUID | str, day: date | str) -> Proof:
        """Say of each occurrence on a day whether all that it was to do is done, once."""
        query = said(ProofQuery, schedule=str(schedule), day=str(day))
        return self._asking.ask(PROOF, query=query)

    def doctor(self) -> Diagnosis:
        """Return what is wrong with the server's installation, its store and its fleet."""
        return self._asking.ask(DOCTOR)

    def status(self, *, own: bool = False) -> Status:
        """Return the state of everything on one screen; `own` narrows it to the tenant."""
        return self._asking.ask(STATUS, query=said(StatusAsked, own=own or None))

    def dispatchers(self) -> list[Member]:
        """Return the dispatchers: who is alive, and how much of time each owns."""
        return self._asking.items(LIST_DISPATCHERS)

    def zones(self, search: str, *, limit: int = 10) -> list[Zone]:
        """Return the zones that a person may mean, the likeliest first."""
        return self._asking.items(ZONES, query=said(ZonesAsked, search=search, limit=limit))

    def explain(self, when: str, **terms: Any) -> Preview:  # noqa: ANN401 - as `RuleAsked` has them
        """Show what a rule means, when it fires next, and what clocks do to it."""
        return self._asking.ask(EXPLAIN, query=said(RuleAsked, when=when, **terms))

    def close(self) -> None:
        """Let go of connections."""
        self._asking.exchange.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def connect(  # noqa: PLR0913 - each has a default that is right for most
    url: str,
    *,
    token: str | None = None,
    tenant: str | None = None,
    patience: RetryPolicy | None = None,
    tls: ssl.SSLContext | None = None,
    allow_plain: bool = False,
    draws: RandomSource | None = None,
    rest: Callable[[float], object] | None = None,
) -> Remote:
    """Return a server of the API, as `duly.App` is for a store.

    The token is the one given, $DULY_TOKEN, or what ~/.config/duly/credentials has for the URL. A
    token of every tenant names one by `tenant`. A token goes by HTTPS only, or stays on this
    machine, unless `allow_plain` is true.
    """
    address = read_address(url, allow_plain=allow_plain)
    drawn = draws or SystemDraws()
    exchange = HttpConnection(address, patience or RetryPolicy(), drawn, rest=rest, tls=tls)
    return Remote(Transport(exchange, find_token(address, token), tenant, drawn))

"""What operators order: queues, limits, quotas, breakers, workers and tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.interface.access import MadeToken, NewToken, Token, TokensAsked
from duly.interface.limits import (
    Breaker,
    Limit,
    Place,
    Quota,
    QuotaRemoval,
    Removal,
    Removed,
    SetLimit,
    SetQuotas,
)
from duly.interface.members import Member, QuarantinedHost, QuarantineWorker, ReleaseWorker
from duly.interface.queues import Queue
from duly.interface.runs import Justified, ReasonBody
from duly.interface.shapes import Page
from duly.remote.operation import DELETE, PUT, look, order
from duly.remote.transport import said

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from duly.remote.transport import Delay, Instant, Transport

Quotas_ = list[Quota]
Places = list[Place]
Hosts = list[QuarantinedHost]
LIMIT, QUOTA = "/limits/{limit}", "/quotas/{scope}"
QUEUE, BREAKER, WORKER = "/queues/{queue}", "/breakers/{destination}", "/workers/{worker}"
TOKEN = "/tokens/{token}"  # noqa: S105 - a path, and no secret
LIST_QUEUES = look("list_queues", "/queues", Page[Queue])
GET_QUEUE = look("get_queue", QUEUE, Queue)
PAUSE_QUEUE = order("pause_queue", f"{QUEUE}/pause", Queue)
RESUME_QUEUE = order("resume_queue", f"{QUEUE}/resume", Queue)
LIST_LIMITS = look("list_limits", "/limits", Page[Limit])
LIST_PLACES = look("list_places", "/limits/places", Page[Place])
SET_LIMIT = order("set_limit", LIMIT, Limit, method=PUT, is_keyed=False)
REMOVE_LIMIT = order("remove_limit", LIMIT, Removed, method=DELETE, is_keyed=False)
LIST_BREAKERS = look("list_breakers", "/breakers", Page[Breaker])
GET_BREAKER = look("get_breaker", BREAKER, Breaker)
RESET_BREAKER = order("reset_breaker", f"{BREAKER}/reset", Breaker)
LIST_QUOTAS = look("list_quotas", "/quotas", Page[Quota])
SET_QUOTAS = order("set_quotas", QUOTA, Page[Quota], method=PUT, is_keyed=False)
REMOVE_QUOTAS = order("remove_quotas", QUOTA, Page[Quota], method=DELETE, is_keyed=False)
LIST_WORKERS = look("list_workers", "/workers", Page[Member])
LIST_DISPATCHERS = look("list_dispatchers", "/dispatchers", Page[Member])
LIST_HOSTS = look("list_quarantined_hosts", "/workers/quarantined-hosts", Page[QuarantinedHost])
DRAIN = order("drain_worker", f"{WORKER}/drain", Member)
QUARANTINE = order("quarantine_worker", f"{WORKER}/quarantine", Member)
RELEASE = order("release_worker", f"{WORKER}/release", Member)
LIST_TOKENS = look("list_tokens", "/tokens", Page[Token])
GET_TOKEN = look("get_token", TOKEN, Token)
CREATE_TOKEN = order("create_token", "/tokens", MadeToken, is_keyed=False)
REVOKE_TOKEN = order("revoke_token", TOKEN, Token, method=DELETE)


class Queues:
    """Queues of a server."""

    def __init__(self, asking: Transport) -> None:
        self._asking = asking

    def list(self) -> list[Queue]:
        """Return queues that hold something or are paused, by name."""
        return self._asking.items(LIST_QUEUES)

    def get(self, name: str) -> Queue:
        """Return a queue; one that nobody has used is empty."""
        return self._asking.ask(GET_QUEUE, name)

    def pause(self, name: str, *, reason: str | None = None) -> Queue:
        """Hand out nothing from a queue, until it is resumed."""
        return self._asking.ask(PAUSE_QUEUE, name, body=said(ReasonBody, reason=reason))

    def resume(self, name: str, *, reason: str | None = None) -> Queue:
        """Hand out from a queue again."""
        return self._asking.ask(RESUME_QUEUE, name, body=said(ReasonBody, reason=reason))


class Limits:
    """How many runs may go on, and how often."""

    def __init__(self, asking: Transport) -> None:
        self._asking = asking

    def list(self) -> list[Limit]:
        """Return what people have set and what code declares, by name."""
        return self._asking.items(LIST_LIMITS)

    def places(self) -> Places:
        """Return where runs go on or wait under a limit now."""
        return self._asking.items(LIST_PLACES)

    def set(  # noqa: PLR0913 - each part of a limit is an argument
        self,
        name: str,
        *,
        running: int | None = None,
        rate: str | None = None,
        running_by: Mapping[str, int] | None = None,
        reason: str | None = None,
    ) -> Limit:
        """Limit a task, a tenant or a destination, in place of what was set before."""
        body = said(SetLimit, running=running, rate=rate, running_by=running_by, reason=reason)
        return self._asking.ask(SET_LIMIT, name, body=body)

    def remove(self, name: str, *, reason: str | None = None) -> bool:
        """Lift what somebody has set; say whether there was something."""
        return self._asking.ask(REMOVE_LIMIT, name, query=said(Removal, reason=reason)).is_removed


class Breakers:
    """Destinations, and which of them are left alone."""

    def __init__(self, asking: Transport) -> None:
        self._asking = asking

    def list(self) -> list[Breaker]:
        """Return the destinations that were ever called."""
        return self._asking.items(LIST_BREAKERS)

    def get(self, destination: str) -> Breaker:
        """Return what is known of a destination."""
        return self._asking.ask(GET_BREAKER, destination)

    def reset(self, destination: str, *, reason: str | None = None) -> Breaker:
        """Close a breaker: whatever waits for its destination goes on."""
        return self._asking.ask(RESET_BREAKER, destination, body=said(ReasonBody, reason=reason))


class Quotas:
    """How much owners and tenants may ask for."""

    def __init__(self, asking: Transport) -> None:
        self._asking = asking

    def list(self) -> Quotas_:
        """Return every quota by scope."""
        return self._asking.items(LIST_QUOTAS)

    def set(self, scope: str, **terms: Any) -> Quotas_:  # noqa: ANN401 - as `SetQuotas` has them
        """Set quotas of a scope; what is not given stays."""
        return self._asking.ask(SET_QUOTAS, scope, body=said(SetQuotas, **terms)).items

    def remove(self, scope: str, **terms: Any) -> None:  # noqa: ANN401 - as `QuotaRemoval` has them
        """Take back all that was set for a scope."""
        self._asking.ask(REMOVE_QUOTAS, scope, query=said(QuotaRemoval, **terms))


class Workers:
    """Workers of a fleet, and who is out of service."""

    def __init__(self, asking: Transport) -> None:
        self._asking = asking

    def list(self) -> list[Member]:
        """Return the workers: who is alive, what they serve, and how busy they are."""
        return self._asking.items(LIST_WORKERS)

    def quarantined_hosts(self) -> Hosts:
        """Return hosts of which no worker claims anything."""
        return self._asking.items(LIST_HOSTS)

    def drain(self, worker: int, *, reason: str) -> Member:
        """Let a worker claim nothing more, and end when what it holds is done."""
        return self._asking.ask(DRAIN, worker, body=said(Justified, reason=reason))

    def quarantine(
        self, worker: int, *, reason: str, fence: bool = False, host: bool = False
    ) -> Member:
        """Let a worker claim nothing more until it is released."""
        body = said(QuarantineWorker, reason=reason, fence=fence, host=host)
        return self._asking.ask(QUARANTINE, worker, body=body)

    def release(self, worker: int, *, host: bool = False, reason: str | None = None) -> Member:
        """Let a worker claim again, or all of its host."""
        body = said(ReleaseWorker, host=host, reason=reason)
        return self._asking.ask(RELEASE, worker, body=body)


class Tokens:
    """Who may come in."""

    def __init__(self, asking: Transport) -> None:
        self._asking = asking

    def create(  # noqa: PLR0913 - each term of a token is an argument
        self,
        name: str,
        *,
        role: str = "viewer",
        tenant: str | None = None,
        expires: Delay | Instant | None = None,
        reason: str | None = None,
    ) -> MadeToken:
        """Make a token; its text is in the answer, and kept nowhere."""
        body = said(NewToken, name=name, role=role, tenant=tenant, expires=expires, reason=reason)
        return self._asking.ask(CREATE_TOKEN, body=body)

    def list(self, *, tenant: str | None = None) -> list[Token]:
        """Return tokens, newest first."""
        return self._asking.items(LIST_TOKENS, query=said(TokensAsked, tenant=tenant))

    def get(self, reference: UUID | str) -> Token:
        """Return a token, by its id or prefix."""
        return self._asking.ask(GET_TOKEN, reference)

    def revoke(self, reference: UUID | str, *, reason: str | None = None) -> Token:
        """End a token for good, and the sessions that were begun with it."""
        return self._asking.ask(REVOKE_TOKEN, reference, query=said(ReasonBody, reason=reason))

"""Limits, quotas and breakers over HTTP: how much may go on, be asked for, and be called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.api.handlers.parts import given, look, order, whole
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
from duly.interface.runs import ReasonBody
from duly.interface.shapes import Page

if TYPE_CHECKING:
    from duly.api.route import ApiRequest, Route


def list_limits(received: ApiRequest) -> Page[Limit]:
    """Return what people have set and what code declares, by name."""
    return whole(Limit, received.app.limits.list())


def list_places(received: ApiRequest) -> Page[Place]:
    """Return where runs go on or wait under a limit now, by name."""
    return whole(Place, received.app.limits.places())


def set_limit(received: ApiRequest) -> Limit:
    """Limit a task, a tenant or a destination, in place of what was set before."""
    terms = given(received.body)
    return Limit.from_view(received.app.limits.set(received.path["limit"], **terms))


def remove_limit(received: ApiRequest) -> Removed:
    """Lift what somebody has set; what code declares holds again."""
    terms = given(received.query)
    return Removed(is_removed=received.app.limits.remove(received.path["limit"], **terms))


def list_breakers(received: ApiRequest) -> Page[Breaker]:
    """Return the destinations that were ever called, and which are left alone."""
    return whole(Breaker, received.app.breakers.list())


def get_breaker(received: ApiRequest) -> Breaker:
    """Return what is known of a destination."""
    return Breaker.from_view(received.app.breakers.get(received.path["destination"]))


def reset_breaker(received: ApiRequest) -> Breaker:
    """Close a breaker: whatever waits for its destination goes on."""
    reason = received.body.reason
    reset = received.app.breakers.reset(received.path["destination"], reason=reason)
    return Breaker.from_view(reset)


def list_quotas(received: ApiRequest) -> Page[Quota]:
    """Return every quota by scope, and the one that holds for each owner unless it is set."""
    return whole(Quota, received.app.quotas.list())


def set_quotas(received: ApiRequest) -> Page[Quota]:
    """Set quotas of a scope; what is not given stays. The scope's are returned."""
    terms = given(received.body)
    return whole(Quota, received.app.quotas.set(received.path["scope"], **terms))


def remove_quotas(received: ApiRequest) -> Page[Quota]:
    """Take back all that was set for a scope; what holds then is returned."""
    received.app.quotas.remove(received.path["scope"], **given(received.query))
    return whole(Quota, received.app.quotas.list())


_QUOTAS = "/quotas/{scope}"
ROUTES: tuple[Route, ...] = (
    look("/limits", list_limits, Page[Limit]),
    look("/limits/places", list_places, Page[Place]),
    order("/limits/{limit}", set_limit, SetLimit, Limit, method="PUT"),
    order("/limits/{limit}", remove_limit, None, Removed, method="DELETE", query=Removal),
    look("/breakers", list_breakers, Page[Breaker]),
    look("/breakers/{destination}", get_breaker, Breaker),
    order("/breakers/{destination}/reset", reset_breaker, ReasonBody, Breaker),
    look("/quotas", list_quotas, Page[Quota]),
    order(_QUOTAS, set_quotas, SetQuotas, Page[Quota], method="PUT", scope="admin"),
    order(
        _QUOTAS,
        remove_quotas,
        None,
        Page[Quota],
        method="DELETE",
        scope="admin",
        query=QuotaRemoval,
    ),
)

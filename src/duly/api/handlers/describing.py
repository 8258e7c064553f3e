"""The API's own description."""

from __future__ import annotations

from functools import cache
from typing import Any

from duly.api.route import ApiRequest, ApiResponse, Route


def get_openapi(_received: ApiRequest) -> ApiResponse:
    """Return the OpenAPI document of all this."""
    return ApiResponse(value=_document())


@cache
def _document() -> dict[str, Any]:
    # The table holds this very route, and is described as a whole.
    from duly.api.app import ROUTES as ALL
    from duly.api.openapi import describe

    return describe(ALL)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/openapi.json",
        operation_id="get_openapi",
        summary="This very description.",
        scope=None,
        handler=get_openapi,
        answer=dict[str, Any],
    ),
)

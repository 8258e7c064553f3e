"""Forms: read up to a limit, as texts by their names; what was left empty was not given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.api.front import read_raw
from duly.api.problems import refuse
from duly.api.reading import read_pairs

if TYPE_CHECKING:
    from starlette.requests import Request

    from duly.api.settings import ApiSettings

FORM = "application/x-www-form-urlencoded"


async def read_form(request: Request, settings: ApiSettings) -> dict[str, list[str]]:
    """Read a form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        remedy = f"send Content-Type: {FORM}"
        raise refuse(415, "unsupported-media-type", "that is not a form", remedy)
    pairs = read_pairs(await read_raw(request, settings))
    return {name: kept for name, given in pairs.items() if (kept := [one for one in given if one])}

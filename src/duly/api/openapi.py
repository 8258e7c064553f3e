"""The OpenAPI document (3.1), made of the table of routes: it can't say what is not so."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from duly.api.repeating import KEY_HEADER, KEY_PATTERN, REPLAYED_HEADER
from duly.api.requests import CSRF_HEADER, EVENT_STREAM, JSON, MEDIA_TYPE, SAFE_METHODS
from duly.api.route import PREFIX
from duly.interface.problems import Problem
from duly.store.ports.auth import IDEMPOTENCY_KEY_LENGTH_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.api.route import Route

VERSION = "1.0.0"
"""Of the API itself; within /api/v1 it only grows."""
SCHEMAS = "#/components/schemas/{name}"
EVERYWHERE = frozenset({400, 406, 421, 500, 503, 504})
"""What any operation may be refused with: unreadable, not acceptable, not our name, not well."""
_NAMED = re.compile(r"\{(\w+)\}")
_ABOUT = """\
Duly keeps promises about the future. Every answer is JSON, every refusal a problem document \
(RFC 9457) whose `code` stays as it is. Lists come in pages: give `next_cursor` back as `cursor` \
until it is null; a page may be short while there are more. Orders take an Idempotency-Key, under \
which they are carried out once however often they are sent."""


def describe(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the document."""
    shapes = _Shapes(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _operation(route, shapes)
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Duly", "version": VERSION, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": shapes.components,
            "responses": _problem_responses(),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "duly_session"},
            },
        },
    }


class _Shapes:
    """The schemas of all that goes in and comes out."""

    def __init__(self, routes: Sequence[Route]) -> None:
        kinds = [kind for route in routes for kind in _kinds(route)]
        found, self.components = msgspec.json.schema_components(
            [*kinds, Problem], ref_template=SCHEMAS
        )
        self._by_kind = {str(kind): schema for kind, schema in zip(kinds, found, strict=False)}

    def of(self, kind: object) -> dict[str, Any]:
        """Return the schema of a type."""
        return self._by_kind[str(kind)]

    def properties(self, kind: type[msgspec.Struct]) -> Iterable[tuple[str, Any, bool]]:
        """Yield name, schema and whether it is needed, of each field of a struct."""
        name = self.of(kind)["$ref"].rpartition("/")[2]
        whole = self.components[name]
        for field, schema in whole["properties"].items():
            yield field, _without_null(schema), field in whole.get("required", [])


def _kinds(route: Route) -> list[Any]:
    return [kind for kind in (route.body, route.query, route.answer) if kind is not None]


def _operation(route: Route, shapes: _Shapes) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": route.operation_id,
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": [*_path_parameters(route), *_query(route, shapes), *_headers(route)],
        "responses": _responses(route, shapes),
        "security": [] if route.scope is None else [{"token": []}, {"session": []}],
    }
    if route.scope is not None:
        told["x-duly-scope"] = route.scope
    if route.body is not None:
        told["requestBody"] = {
            "required": not route.is_body_optional,
            "content": {JSON: {"schema": shapes.of(route.body)}},
        }
    return told


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _NAMED.findall(route.path)
    ]


def _query(route: Route, shapes: _Shapes) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    return [
        {"name": name, "in": "query", "required": is_needed, "schema": schema}
        for name, schema, is_needed in shapes.properties(route.query)
    ]


def _headers(route: Route) -> list[dict[str, Any]]:
    found = []
    if route.is_idempotent:
        key = {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_LENGTH_MAX}
        found.append(_header(KEY_HEADER, key | {"pattern": KEY_PATTERN}, "The order's own key."))
    if route.has_version:
        match = {"type": "string", "pattern": r'^(\*|"[0-9]{1,18}")$'}
        found.append(_header("if-match", match, "The ETag that the order is based on."))
    if route.scope is not None and route.method not in SAFE_METHODS:
        token = {"type": "string", "pattern": "^[0-9a-f]*$"}
        found.append(_header(CSRF_HEADER, token, "By cookie: as the session's beginning gave it."))
    return found


def _header(name: str, schema: dict[str, Any], words: str) -> dict[str, Any]:
    title = "-".join(part.capitalize() for part in name.split("-"))
    return {
        "name": title,
        "in": "header",
        "required": False,
        "schema": schema,
        "description": words,
    }


def _responses(route: Route, shapes: _Shapes) -> dict[str, Any]:
    well: dict[str, Any] = {"description": HTTPStatus(route.status).phrase}
    if route.answer is not None:
        kind = EVENT_STREAM if route.is_stream else JSON
        well["content"] = {kind: {"schema": shapes.of(route.answer)}}
    if route.is_idempotent:
        well["headers"] = {REPLAYED_HEADER: {"schema": {"type": "string"}}}
    refusals = {
        str(status): {"$ref": f"#/components/responses/{_response_name(status)}"}
        for status in sorted(error_statuses(route))
    }
    return {str(route.status): well, **refusals}


def error_statuses(route: Route) -> frozenset[int]:
    """Return the statuses that an operation may be refused with."""
    found = set(EVERYWHERE | route.errors)
    if route.scope is not None:
        found |= {401, 403, 429}
    if route.method not in SAFE_METHODS:
        found |= {403, 408, 413, 415}
    if route.body is not None or route.query is not None or route.is_idempotent:
        found.add(422)
    if "{" in route.path:
        found |= {404, 422}
    if route.is_idempotent:
        found.add(409)
    if route.has_version:
        found |= {409, 412}
    return frozenset(found)


def _problem_responses() -> dict[str, Any]:
    content = {MEDIA_TYPE: {"schema": {"$ref": SCHEMAS.format(name="Problem")}}}
    statuses = (400, 401, 403, 404, 406, 408, 409, 412, 413, 415, 421, 422, 428, 429, 500, 503, 504)
    return {
        _response_name(status): {"description": HTTPStatus(status).phrase, "content": content}
        for status in statuses
    }


def _response_name(status: int) -> str:
    return HTTPStatus(status).phrase.replace(" ", "").replace("-", "")


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema for a query, where what is none is left out."""
    rest = {key: value for key, value in schema.items() if value is not None or key != "default"}
    choices = [one for one in (rest.get("anyOf") or []) if one != {"type": "null"}]
    if len(choices) == 1:
        rest.pop("anyOf")
        return {**choices[0], **rest}
    return {**rest, "anyOf": choices} if choices else rest

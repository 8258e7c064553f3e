"""Reading requests: bodies, queries, cursors and versions, each refused with its field (L6)."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from duly.api.problems import refuse
from duly.errors import UsageError

if TYPE_CHECKING:
    from duly.api.route import Route

PAGE_DEFAULT = 100
PAGE_LIMIT_MAX = 1000
QUERY_FIELDS_MAX = 50
CURSOR_LENGTH_MAX = 1000
SCHEMA_REMEDY = "see /api/v1/openapi.json for what it takes"
_AT = re.compile(r"^(?P<problem>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_VERSION = re.compile(r'"(\d{1,18})"')
T = TypeVar("T")
Fields = TypeVar("Fields", bound=msgspec.Struct)


def read_body(route: Route, raw: bytes) -> Any:  # noqa: ANN401 - of the type that the route has
    """Read a body as the route's type; what is not JSON at all is another mistake."""
    if route.body is None:
        if raw:
            problem = "a body says nothing here"
            raise refuse(400, "unreadable-body", problem, "send none")
        return None
    if not raw and route.is_body_optional:
        raw = b"{}"
    try:
        return msgspec.json.decode(raw, type=route.body)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), _decoded(raw)) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        problem = "the body is not JSON" if raw else "there is no body"
        raise refuse(400, "unreadable-body", problem, "send a JSON object") from error


def read_query(route: Route, raw: bytes) -> Any:  # noqa: ANN401 - as above
    """Read a query string as the route's type; what nobody asks for is refused."""
    given = read_pairs(raw)
    if route.query is None:
        if given:
            name = next(iter(given))
            raise UsageError(name, given[name][-1], "is not asked for here", "leave it out")
        return None
    return read_fields(route.query, given)


def read_fields(kind: type[Fields], given: Mapping[str, list[str]]) -> Fields:
    """Read named texts as a struct; a field that is no list may be given once."""
    lists = {one.name for one in msgspec.structs.fields(kind) if _is_list(one.type)}
    flat: dict[str, Any] = {}
    for name, values in given.items():
        if name in lists:
            flat[name] = values
        elif len(values) > 1:
            raise UsageError(name, values, "is given more than once", "give it once")
        else:
            flat[name] = values[0]
    try:
        return msgspec.convert(flat, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), flat) from error


def is_any_version(text: str | None) -> bool:
    """Say whether If-Match matches whatever there is."""
    return text is not None and text.strip() == "*"


def read_version(text: str | None) -> int | None:
    """Read If-Match: a version in quotes; None where it says nothing, or matches anything."""
    if text is None or is_any_version(text):
        return None
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        problem = "If-Match is no version that anything here ever had"
        raise refuse(412, "outdated", problem, 'give the ETag as it was sent, such as "3"')
    return int(found[1])


def version_tag(version: int) -> str:
    """Write a version as an ETag."""
    return f'"{version}"'


def require_version(header: int | None, body: int | None, *, is_any: bool = False) -> int | None:
    """Return the version that an edit is based on; without one it could overwrite unseen (S4)."""
    if header is not None and body is not None and header != body:
        raise UsageError("version", body, f"is not If-Match's, {header}", "give one of them")
    found = body if header is None else header
    if found is None and not is_any:
        problem = "an edit must say which version it is based on"
        raise refuse(428, "version-needed", problem, "send If-Match with the ETag that you saw")
    return found


def write_cursor(*parts: Any) -> str:  # noqa: ANN401 - whatever a list goes on from
    """Write where a list goes on; opaque to whoever carries it."""
    return urlsafe_b64encode(msgspec.msgpack.encode(parts)).rstrip(b"=").decode()


def read_cursor(text: str | None, kind: type[T]) -> T | None:
    """Read where a list goes on; `kind` is the tuple that was written."""
    if text is None:
        return None
    remedy = "give next_cursor as it was answered, with the same filters"
    if len(text) > CURSOR_LENGTH_MAX:
        raise UsageError("cursor", text, "is not a cursor", remedy)
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        return msgspec.msgpack.decode(urlsafe_b64decode(padded), type=kind)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise UsageError("cursor", text, "is not a cursor", remedy) from error


def read_limit(limit: int) -> int:
    """Read how many a page may hold."""
    if not 1 <= limit <= PAGE_LIMIT_MAX:
        raise UsageError("limit", limit, "is out of range", f"give 1 to {PAGE_LIMIT_MAX:,}")
    return limit


def read_pairs(raw: bytes) -> dict[str, list[str]]:
    """Read a query, or a form that is written like one, as texts by their names."""
    remedy = "percent-encode it as UTF-8"
    try:
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=QUERY_FIELDS_MAX,
        )
    except UnicodeDecodeError as error:
        raise refuse(400, "unreadable-query", "the query is not text", remedy) from error
    except ValueError as error:
        problem = f"the query has more than {QUERY_FIELDS_MAX} fields"
        raise refuse(400, "unreadable-query", problem, "give fewer") from error
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def _is_list(kind: object) -> bool:
    text = str(kind)
    return "list[" in text or "tuple[" in text


def _invalid(message: str, given: object) -> UsageError:
    """Say what is wrong with which field, and what was there."""
    found = _AT.fullmatch(message)
    assert found is not None, "anything matches"
    problem, path = found["problem"], (found["path"] or "$").removeprefix("$").lstrip(".")
    for pattern, words in ((_UNKNOWN, "is not known here"), (_MISSING, "is missing")):
        named = pattern.fullmatch(problem)
        if named is not None:
            field = f"{path}.{named[1]}" if path else named[1]
            return UsageError(field, _value_at(given, field), words, SCHEMA_REMEDY)
    words = f"can't be read: {problem[:1].lower()}{problem[1:]}"
    return UsageError(path or "body", _value_at(given, path), words, SCHEMA_REMEDY)


def _value_at(given: object, path: str) -> object:
    """Return what was given at a path, as far as it leads anywhere."""
    for name, index in _STEP.findall(path):
        if isinstance(given, Mapping) and name in given:
            given = given[name]
        elif index and isinstance(given, Sequence) and int(index) < len(given):
            given = given[int(index)]
        else:
            return None
    return given


def _decoded(raw: bytes) -> object:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None

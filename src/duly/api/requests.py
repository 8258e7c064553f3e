"""Reads and checks requests (bodies, queries, cursors, versions, rules); writes problem documents.

The checks against other origins exist because a browser sends a request of any page to any server,
with that server's cookies:

- `check_host` answers to the server's own names only (DNS rebinding).
- `check_origin` refuses an order that a page of another origin sends.
- `check_csrf` requires, for an order by cookie, a token that only a reader of our answers knows.
- `check_body_headers` requires a body to declare itself JSON, which no HTML form can do.
- `answer_headers` forbids that an answer is framed, cached or sniffed.
"""

from __future__ import annotations

import dataclasses
import hmac
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin
from urllib.parse import parse_qsl, urlsplit

import msgspec

from duly.client.declarations import TypedTimetable, spoken_timetable
from duly.client.json_values import RepeatedKeyError, unique_pairs
from duly.errors import (
    Conflict,
    DulyError,
    Forbidden,
    NotFound,
    Outdated,
    OverQuota,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
    Unauthenticated,
    UsageError,
    shown,
)
from duly.interface.problems import Problem
from duly.timetable.combinators import require_spread, spread
from duly.timetable.serialization import timetable_from_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.datastructures import Headers

    from duly.api.middleware import ApiSettings
    from duly.api.route import Route
    from duly.interface.schedules import Rule
    from duly.timetable.timetable import Timetable


MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1
QUOTA_RETRY_SECONDS = 60
"""Quotas count by the minute."""

_STATUSES: tuple[tuple[type[DulyError], int], ...] = (
    (UsageError, 422),
    (NotFound, 404),
    (OverQuota, 429),
    (Outdated, 412),
    (Conflict, 409),
    (Unauthenticated, 401),
    (Forbidden, 403),
    (StoreUnavailable, 503),
    (SchemaMismatch, 503),
    (StoreError, 503),
    (DulyError, 409),
)
"""The first that an error is, counts."""


class ApiError(DulyError):
    """A request that HTTP itself has a status for, before anybody was asked anything."""

    code = "refused"

    def __init__(self, refusal: ApiRefusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRefusal:
    """What such a request is told."""

    status: int
    code: str
    problem: str
    remedy: str
    field: str | None = None
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def detail(self) -> str:
        """The sentence."""
        return f"{self.problem}; {self.remedy}"


def api_error(status: int, code: str, problem: str, remedy: str, **headers: str) -> ApiError:
    """Return the refusal of a request; names of headers are written with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ApiError(
        ApiRefusal(status=status, code=code, problem=problem, remedy=remedy, headers=named)
    )


INTERNAL = ApiRefusal(
    status=500,
    code="internal",
    problem="something went wrong in the server, which has written down what",
    remedy="try again; if it stays, tell whoever runs it",
)


def problem_of(error: Exception) -> Problem:
    """Return what is told about an error."""
    if isinstance(error, ApiError):
        return _refusal_problem(error.refusal)
    if not isinstance(error, DulyError):
        return _refusal_problem(INTERNAL)
    status = next(status for kind, status in _STATUSES if isinstance(error, kind))
    what, value = _subject(error)
    return Problem(
        type=f"urn:duly:problem:{error.code}",
        title=HTTPStatus(status).phrase,
        status=status,
        code=error.code,
        detail=_detail(error),
        field=what,
        value=value,
        remedy=getattr(error, "remedy", None),
        most=error.most if isinstance(error, OverQuota) else None,
        count=error.count if isinstance(error, OverQuota) else None,
    )


def _subject(error: DulyError) -> tuple[str | None, str | None]:
    """Return what an error is about, and which one of these it is."""
    match error:
        case UsageError():
            return error.field, shown(error.value)
        case NotFound() | Conflict():
            return error.what, shown(error.name)
        case Forbidden():
            return error.who, None
        case _:
            return None, None


def headers_of(error: Exception) -> dict[str, str]:
    """Return the headers that go with an error's status."""
    return dict(_headers(error))


def _headers(error: Exception) -> Iterator[tuple[str, str]]:
    match error:
        case ApiError(refusal=refusal):
            yield from refusal.headers.items()
        case Unauthenticated():
            yield "WWW-Authenticate", 'Bearer realm="duly"'
        case OverQuota():
            yield "Retry-After", str(QUOTA_RETRY_SECONDS)
        case StoreError():
            yield "Retry-After", str(RETRY_SECONDS)
        case _:
            return


def _detail(error: DulyError) -> str:
    """Return the sentence; a store's own says where it is, which is nobody's business outside."""
    if isinstance(error, StoreError):
        return f"the store: {error.problem}; {error.remedy}"
    return str(error)


def _refusal_problem(refusal: ApiRefusal) -> Problem:
    return Problem(
        type=f"urn:duly:problem:{refusal.code}",
        title=HTTPStatus(refusal.status).phrase,
        status=refusal.status,
        code=refusal.code,
        detail=refusal.detail,
        field=refusal.field,
        remedy=refusal.remedy,
    )


PAGE_DEFAULT = 100
PAGE_LIMIT_MAX = 1000
QUERY_FIELDS_MAX = 50
CURSOR_LENGTH_MAX = 1000
SCHEMA_REMEDY = "see /api/v1/openapi.json for what it takes"
_AT = re.compile(r"^(?P<problem>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_VERSION = re.compile(r'"([0-9]{1,18})"')
_WHOLE_NUMBER = re.compile(r"-?[0-9]+")
T = TypeVar("T")
Fields = TypeVar("Fields", bound=msgspec.Struct)


def read_body(route: Route, raw: bytes) -> Any:  # noqa: ANN401 - of the type that the route has
    """Read a body as the route's type; what is not JSON at all is another mistake."""
    if route.body is None:
        if raw:
            problem = "a body says nothing here"
            raise api_error(400, "unreadable-body", problem, "send none")
        return None
    if not raw and route.is_body_optional:
        raw = b"{}"
    try:
        found = msgspec.json.decode(raw, type=route.body)
        # Proxies and logs may take the first of two values, and msgspec takes the last.
        json.loads(raw, object_pairs_hook=unique_pairs, parse_int=str, parse_float=str)
    except RepeatedKeyError as error:
        raise UsageError(error.key, None, "is given more than once", "give it once") from error
    except msgspec.ValidationError as error:
        raise _invalid(str(error), _decoded(raw)) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        problem = "the body is not JSON" if raw else "there is no body"
        raise api_error(400, "unreadable-body", problem, "send a JSON object") from error
    return found


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
    for one in msgspec.structs.fields(kind):
        if one.name in flat and not _is_list(one.type):
            _require_literal(one.name, flat[one.name], _alternatives(one.type))
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
        raise api_error(412, "outdated", problem, 'give the ETag as it was sent, such as "3"')
    return int(found[1])


def version_tag(version: int) -> str:
    """Write a version as an ETag."""
    return f'"{version}"'


def require_version(header: int | None, body: int | None, *, is_any: bool = False) -> int | None:
    """Return the version that an edit is based on; without one it could overwrite unseen."""
    if header is not None and body is not None and header != body:
        raise UsageError("version", body, f"is not If-Match's, {header}", "give one of them")
    found = body if header is None else header
    if found is None and not is_any:
        problem = "an edit must say which version it is based on"
        raise api_error(428, "version-needed", problem, "send If-Match with the ETag that you saw")
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
        raise api_error(400, "unreadable-query", "the query is not text", remedy) from error
    except ValueError as error:
        problem = f"the query has more than {QUERY_FIELDS_MAX} fields"
        raise api_error(400, "unreadable-query", problem, "give fewer") from error
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def _require_literal(name: str, text: str, kinds: frozenset[object]) -> None:
    """Refuse what is read as a number or as nothing, and is neither: 1e2, null."""
    if str in kinds:
        return
    if int in kinds and _WHOLE_NUMBER.fullmatch(text) is None:
        raise UsageError(name, text, "is not a whole number", "give digits alone, or leave it out")
    if text.lower() == "null":
        raise UsageError(name, text, "is not a value here", "leave it out")


def _alternatives(kind: object) -> frozenset[object]:
    """Return the types of which a value may be one."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) not in (Union, UnionType):
        return frozenset((kind,))
    return frozenset().union(*(_alternatives(one) for one in get_args(kind)))


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


OCCURRENCES_SHOWN_MAX = 100
_BESIDE = ("tz", "gap", "fold", "calendar", "dtstart")


def is_rule_given(rule: Rule) -> bool:
    """Say whether anything is said about when."""
    return any(getattr(rule, name) is not None for name in ("when", "timetable", *_BESIDE))


def read_rule(rule: Rule, seed: str | None) -> Timetable:
    """Read a rule; its schedule's name spreads a cron expression's H, which is never left open."""
    timetable = _read(rule, seed)
    if seed is not None:
        return spread(timetable, seed)
    require_spread(timetable)
    return timetable


def _read(rule: Rule, seed: str | None) -> Timetable:
    if (rule.when is None) == (rule.timetable is None):
        remedy = 'give `when`, such as "every weekday at 9", or `timetable`, as a schedule shows it'
        raise UsageError("when", rule.when, "is one of two ways to say it", remedy)
    said = {name: value for name in _BESIDE if (value := getattr(rule, name)) is not None}
    if rule.when is not None:
        return spoken_timetable(TypedTimetable(when=rule.when, seed=seed, **said))
    if said:
        name = next(iter(said))
        remedy = "write it in the timetable itself"
        raise UsageError(name, said[name], "says nothing about a whole timetable", remedy)
    stored: Any = rule.timetable
    return timetable_from_json(stored)


def read_count(count: int) -> int:
    """Read how many occurrences are to be shown."""
    if not 1 <= count <= OCCURRENCES_SHOWN_MAX:
        remedy = f"give 1 to {OCCURRENCES_SHOWN_MAX}"
        raise UsageError("count", count, "is out of range", remedy)
    return count


CSRF_HEADER = "duly-csrf"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
JSON = "application/json"
EVENT_STREAM = "text/event-stream"
ANSWER_HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""With every answer."""
TRANSPORT_HEADER = ("Strict-Transport-Security", "max-age=31536000")
_ACCEPTED_MAX = 50


def check_host(headers: Headers, settings: ApiSettings) -> None:
    """Refuse a request for another name than ours: a page's own name that was made to point here.

    Without this, any page could ask a server on loopback in the name of whoever visits it.
    """
    named = headers.getlist("host")
    if len(named) != 1 or _name_of(named[0]) not in settings.hosts:
        problem = "the request is for a name that this server does not have"
        raise api_error(
            421, "host-refused", problem, "ask for a name that it was told to answer to"
        )


def check_origin(method: str, headers: Headers, settings: ApiSettings) -> None:
    """Refuse an order that a page of another origin has its visitor's browser give."""
    origin = headers.get("origin")
    if method in SAFE_METHODS or origin is None:
        return
    scheme = "https" if settings.is_secure else "http"
    if origin.lower() != f"{scheme}://{headers['host'].lower()}":
        problem = "the order comes from a page of another origin"
        raise api_error(403, "origin-refused", problem, "give it from this server's own pages")


def check_csrf(method: str, headers: Mapping[str, str], session_secret: str) -> None:
    """Refuse an order by cookie whose sender can't have read what the session was told."""
    if method in SAFE_METHODS:
        return
    shown = headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(shown.encode(), csrf_token(session_secret).encode()):
        problem = "an order by cookie must show the session's own token"
        raise api_error(
            403, "csrf-refused", problem, f"send {CSRF_HEADER} as POST /session gave it"
        )


def csrf_token(session_secret: str) -> str:
    """Return what only somebody who was told a session's beginning knows; it opens nothing."""
    return sha256(f"duly csrf {session_secret}".encode()).hexdigest()


def check_body_headers(route: Route, headers: Headers, settings: ApiSettings) -> None:
    """Refuse a body by what is said of it, before any of it is read."""
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        # A few bytes can unfold into more than a server has.
        problem = "the body is compressed"
        raise api_error(415, "unsupported-media-type", problem, "send it as it is")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 18:
        raise api_error(400, "unreadable-body", "Content-Length is no length", "give a number")
    if int(length) > settings.body_bytes_max:
        raise too_large(settings)
    media = headers.get("content-type")
    has_body = int(length) > 0 or "transfer-encoding" in headers
    if route.body is None or (media is None and not has_body):
        return
    kind, _, parameters = (media or "").partition(";")
    charset = parameters.strip().lower().replace(" ", "").replace('"', "")
    if kind.strip().lower() != JSON or charset not in {"", "charset=utf-8"}:
        problem = "the body is not said to be JSON in UTF-8"
        raise api_error(415, "unsupported-media-type", problem, f"send Content-Type: {JSON}")


def check_accept(headers: Headers, kind: str = JSON) -> None:
    """Refuse to answer somebody who says that they can't read the answer."""
    accepted = headers.get("accept")
    if accepted is None:
        return
    family = kind.split("/", maxsplit=1)[0]
    for one in accepted.split(",")[:_ACCEPTED_MAX]:
        media, *parameters = (part.strip().lower() for part in one.split(";"))
        is_none = any(part.replace(" ", "") in {"q=0", "q=0.0"} for part in parameters)
        if media in {kind, f"{family}/*", "*/*"} and not is_none:
            return
    raise api_error(406, "not-acceptable", f"the answer is {kind}", f"accept {kind}")


def too_large(settings: ApiSettings) -> Exception:
    """Return the refusal of a body that is too large."""
    remedy = f"send at most {settings.body_bytes_max:,} bytes"
    return api_error(413, "too-large", "the body is too large", remedy, Connection="close")


def answer_headers(settings: ApiSettings) -> dict[str, str]:
    """Return the headers of every answer."""
    told = dict(ANSWER_HEADERS)
    if settings.is_secure:
        told.update([TRANSPORT_HEADER])
    return told


def _name_of(host: str) -> str:
    """Return the name without the port, in small letters; nothing for what is no name."""
    try:
        split = urlsplit(f"//{host}")
        _ = split.port  # a port that is none raises
        name = split.hostname
    except ValueError:
        return ""
    if name is None or split.username is not None or split.path:
        return ""
    return f"[{name}]" if ":" in name else name

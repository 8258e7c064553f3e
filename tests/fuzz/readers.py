"""Everything that reads what somebody typed or sent, timetables aside: by name, as one function.

Each takes a text and returns something, or raises an error of ours. `texts.py` tries to break them for
long; the suite throws the hostile texts at each of them.
"""

from __future__ import annotations

import io
import json
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import Request

import duly
from duly.api.app import ROUTES
from duly.api.middleware import ApiSettings, Authenticator, caller_address, read_proxies
from duly.api.requests import (
    check_accept,
    check_host,
    check_origin,
    read_body,
    read_fields,
    read_pairs,
    read_query,
)
from duly.client.audit import read_head, verify_file
from duly.client.declarations import read_file
from duly.client.export import read_bundles, read_whole
from duly.client.parameters import read_delay, read_instant, read_label, read_reason, read_tenant
from duly.domain.alert_channels import KINDS, read_channel
from duly.domain.alert_rules import AlertKind, read_rule
from duly.domain.auth import read_token
from duly.domain.outbound_urls import read_allow_list, read_host, read_web_address
from duly.domain.secret_refs import read_reference
from duly.engine.manual_clock import ManualClock
from duly.store.memory import MemoryStore
from duly.telemetry.otel import heard_from
from duly.web.formatting import read_choice, read_zone
from duly.web.pages import PAGES
from duly.web.rendering import local_path
from duly.web.requests import NAME as SAID
from duly.web.requests import read_chosen, read_said

if TYPE_CHECKING:
    from collections.abc import Callable

    Reader = Callable[[str], object]

SETTINGS = ApiSettings(proxies=read_proxies(["127.0.0.0/8", "10.0.0.0/8"]))
_CLOCK = ManualClock()
_APP = duly.App(store=MemoryStore(_CLOCK), clock=_CLOCK)
_DOOR = Authenticator(_APP.doorkeeper(), SETTINGS)
_FOLDER = Path(tempfile.mkdtemp(prefix="duly-fuzz-"))


def raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def written(text: str, name: str) -> Path:
    """Keep a text in a file, for what reads files."""
    path = _FOLDER / name
    path.write_bytes(raw(text))
    return path


def headers(name: str, text: str) -> Headers:
    told = [(name.encode(), text.encode("latin-1", "replace")), (b"host", b"localhost")]
    return Headers(raw=told)


def as_json(text: str) -> Any:
    """Return what a text says as JSON; a text that says nothing is one."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def options_of(text: str) -> dict[str, Any]:
    found = as_json(text)
    return found if isinstance(found, dict) else {"url": text, "host": text, "threshold": text}


def forwarded(text: str) -> str | None:
    told = [(b"x-forwarded-for", text.encode("latin-1", "replace"))]
    scope = {"type": "http", "headers": told, "client": ("127.0.0.1", 1)}
    return caller_address(Request(scope), SETTINGS.proxies)


def heard(text: str) -> None:
    """Read who called, as a request's headers tell it."""
    parent, _, state = text.partition("\n")
    with heard_from({"traceparent": parent, "tracestate": state}):
        pass


def silence(text: str) -> None:
    """Silence what a text says, by each of the ways to say it."""
    given = as_json(text)
    terms = given if isinstance(given, dict) else {"subject": text}
    known = {key: value for key, value in terms.items() if key in {"subject", "kind", "duration"}}
    made = _APP.alerts.silence(**({"duration": "1h"} | known), reason="fuzz")
    _APP.alerts.unsilence(made.id, reason="fuzz")


def exported(text: str) -> None:
    header = '{"duly":"promises","format":1}'
    stream = io.BytesIO(raw(f"{header}\n{text}\n"))
    read_whole(stream, "promises.jsonl")


def bundled(text: str) -> None:
    list(read_bundles(io.BytesIO(raw(text)), "promises.jsonl"))


def read_form(page: Any, text: str) -> object:
    return read_fields(page.form, read_pairs(raw(text)))


def read_filter(page: Any, text: str) -> object:
    return read_fields(page.query, read_pairs(raw(text)))


READERS: dict[str, Reader] = {
    "silence": silence,
    "declarations": lambda text: read_file(written(text, "duly.toml"), "file:fuzz"),
    "alerts of declarations": lambda text: read_file(
        written(f"[alerts.{text}", "alerts.toml"), "file:fuzz"
    ),
    "audit file": lambda text: verify_file(written(text, "audit.jsonl"), None),
    "audit line": lambda text: verify_file(
        written(f'{{"duly":"audit","source":"x"}}\n{text}\n{{"kind":"end"}}\n', "a.jsonl"), None
    ),
    "promises": exported,
    "bundles": bundled,
    "head": read_head,
    "web address": lambda text: read_web_address("url", text),
    "host": lambda text: read_host("host", text),
    "allow list": lambda text: read_allow_list([text]),
    "proxies": lambda text: read_proxies([text]),
    "secret": lambda text: read_reference("secret", as_json(text)),
    "token": read_token,
    "cookie": lambda text: _DOOR.session_secret({"cookie": text}),
    "session cookie": lambda text: _DOOR.session_secret({"cookie": f"duly_session={text}"}),
    "said": lambda text: read_said({SAID: text}),
    "chosen clock": read_choice,
    "zone of a browser": read_zone,
    "way back": local_path,
    "chosen schedules": lambda text: read_chosen([text]),
    "forwarded": forwarded,
    "traceparent": heard,
    "accept": lambda text: check_accept(headers("accept", text)),
    "host header": lambda text: check_host(headers("host", text), SETTINGS),
    "origin": lambda text: check_origin("POST", headers("origin", text), SETTINGS),
    "label": read_label,
    "delay": lambda text: read_delay("delay", as_json(text)),
    "instant": lambda text: read_instant("since", as_json(text)),
    "reason": read_reason,
    "tenant": read_tenant,
    **{
        f"rule {kind}": partial(lambda kind, text: read_rule(str(kind), options_of(text)), kind)
        for kind in AlertKind
    },
    **{
        f"channel {kind}": partial(
            lambda kind, text: read_channel("ops", kind, options_of(text)), kind
        )
        for kind in KINDS
    },
    **{
        f"query {route.operation_id}": partial(
            lambda route, text: read_query(route, raw(text)), route
        )
        for route in ROUTES
        if route.query is not None
    },
    **{
        f"body {route.operation_id}": partial(
            lambda route, text: read_body(route, raw(text)), route
        )
        for route in ROUTES
        if route.body is not None
    },
    **{f"form {page.name}": partial(read_form, page) for page in PAGES if page.form is not None},
    **{
        f"filter {page.name}": partial(read_filter, page)
        for page in PAGES
        if page.query is not None
    },
}


def encoded_field(name: str, text: str) -> str:
    """Return a text as a form or a query has it."""
    return f"{name}={quote(raw(text), safe='')}"


def attempt(name: str, text: str) -> None:
    """Have a text read; an error is one of ours, with a field, a remedy, and nothing that moves."""
    refused = None
    try:
        READERS[name](text)
    except duly.DulyError as error:
        refused = error
    assert refused is None or str(refused).isprintable(), repr(str(refused))
    assert not isinstance(refused, duly.UsageError) or refused.remedy, refused

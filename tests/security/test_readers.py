"""Whatever is sent to those who read requests: it is read, or refused by an error of ours."""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers

import duly
from duly.api.app import ROUTES, Api, Table, path_parts
from duly.api.middleware import ApiSettings
from duly.api.repeating import read_key
from duly.api.requests import (
    check_accept,
    check_body_headers,
    check_host,
    check_origin,
    is_any_version,
    read_body,
    read_cursor,
    read_query,
    read_version,
    write_cursor,
)
from duly.domain.auth import read_token
from duly.errors import DulyError
from duly.store.memory import MemoryStore
from tests.api.api_fixtures import token_for
from tests.security.raw_requests import RawAsker, query

if TYPE_CHECKING:
    from collections.abc import Callable

BY_ID = {route.operation_id: route for route in ROUTES}
CREATE, LIST = BY_ID["create_schedule"], BY_ID["list_runs"]
SETTINGS = ApiSettings()
TABLE = Table(ROUTES)


def _headers(name: str, text: str) -> Headers:
    return Headers(
        raw=[(name.encode(), text.encode("latin-1", "replace")), (b"host", b"localhost")]
    )


TEXTS: dict[str, Callable[[str], object]] = {
    "token": read_token,
    "key": read_key,
    "version": read_version,
    "any version": is_any_version,
    "cursor of texts": lambda text: read_cursor(text, tuple[str, UUID]),
    "cursor of instants": lambda text: read_cursor(text, tuple[datetime, UUID]),
    "cursor of numbers": lambda text: read_cursor(text, tuple[int]),
    "accept": lambda text: check_accept(_headers("accept", text)),
    "host": lambda text: check_host(_headers("host", text), SETTINGS),
    "origin": lambda text: check_origin("POST", _headers("origin", text), SETTINGS),
    "type": lambda text: check_body_headers(CREATE, _headers("content-type", text), SETTINGS),
    "length": lambda text: check_body_headers(CREATE, _headers("content-length", text), SETTINGS),
}
BYTES: dict[str, Callable[[bytes], object]] = {
    "query": lambda raw: read_query(LIST, raw),
    "body": lambda raw: read_body(CREATE, raw),
    "path": lambda raw: TABLE.find("GET", path_parts({"raw_path": b"/" + raw, "path": "/"})),
}


def _reads(read: Callable[[Any], object], given_one: Any) -> None:
    with contextlib.suppress(DulyError):
        read(given_one)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_read_or_refused(name: str):

    @settings(max_examples=60, deadline=None, database=None, derandomize=True)
    @given(
        st.text(max_size=60) | st.from_regex(r"[\"*/;,=0-9A-Za-z_:\[\]@.-]{0,40}", fullmatch=True)
    )
    def tried(text: str) -> None:
        _reads(TEXTS[name], text)

    tried()


@pytest.mark.parametrize("name", BYTES)
def test_bytes_are_read_or_refused(name: str):

    @settings(max_examples=80, deadline=None, database=None, derandomize=True)
    @given(
        st.binary(max_size=60)
        | st.from_regex(rb"[a-z_]{1,9}(=|%|&|/|\[|\{|\"|[a-z0-9]|\\u[0-9a-f]{4}){0,30}")
    )
    def tried(raw: bytes) -> None:
        _reads(BYTES[name], raw)

    tried()


ID = UUID("0196b000-0000-7000-8000-000000000001")


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/delayed", ("2026-04-02T12:00:00", ID)),
        ("/delayed", ("0001-01-01T00:00:00Z", ID)),
        ("/delayed", ("9999-12-31T23:59:59.999999Z", ID)),
        ("/schedules", ("\x00", ID)),
        ("/schedules", ("\u202e" * 200, ID)),
        ("/schedules", ("a" * 900, ID)),
        ("/runs", (10**30,)),
        ("/runs", (None,)),
        ("/audit", (-1,)),
        ("/audit", (2**63,)),
        ("/attempts", ("x", "y", "z")),
    ],
    ids=range(11),
)
def test_a_cursor_that_nobody_wrote_is_refused_or_harmless(clock, path: str, parts: Any):
    """Also one of the right shape."""
    app = duly.App(store=MemoryStore(clock), clock=clock)
    token = token_for(app)["Authorization"].encode()
    written = write_cursor(*[str(one) if isinstance(one, UUID) else _small(one) for one in parts])
    with RawAsker(Api(app, clock=clock), (b"authorization", token)) as asker:
        reply = asker.ask("GET", path, query=query(cursor=written))

    assert reply.status in {200, 422}, reply.body


def _small(part: Any) -> Any:
    """Return what MessagePack can write."""
    return str(part) if isinstance(part, int) and part.bit_length() > 64 else part

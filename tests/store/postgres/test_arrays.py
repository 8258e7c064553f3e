"""Arrays that are encoded by hand are read by the server as what was meant."""

from __future__ import annotations

import struct
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duly.store.postgres import arrays
from duly.store.postgres.session import ConnectionSession

INT4 = st.integers(-(1 << 31), (1 << 31) - 1)
INT8 = st.integers(-(1 << 63), (1 << 63) - 1)
UUIDS = st.binary(min_size=16, max_size=16)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)

KINDS = [
    pytest.param(arrays.Int4s, "int4", INT4, id="int4"),
    pytest.param(arrays.OptionalInt4s, "int4", st.none() | INT4, id="optional int4"),
    pytest.param(arrays.Int8s, "int8", INT8, id="int8"),
    pytest.param(arrays.OptionalInt8s, "int8", st.none() | INT8, id="optional int8"),
    pytest.param(arrays.Uuids, "uuid", UUIDS, id="uuid"),
    pytest.param(arrays.OptionalUuids, "uuid", st.none() | UUIDS, id="optional uuid"),
    pytest.param(arrays.Texts, "text", st.none() | TEXT, id="text"),
]


@pytest.fixture
def session(database):
    with psycopg.connect(database, autocommit=True) as connection:
        yield ConnectionSession(connection, is_ours=False)


@pytest.mark.parametrize(("kind", "name", "values"), KINDS)
def test_a_list_arrives_as_it_was(session, kind, name, values):
    @given(st.lists(values, max_size=50))
    @settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def arrives(given_values):
        ((found,),) = session.rows(f"SELECT $1::{name}[]", (kind(given_values),))

        assert given_values == [one.bytes if isinstance(one, UUID) else one for one in found]

    arrives()


def test_the_callers_connection_learns_nothing_of_our_kinds(database):
    """It is his, and stays as he set it up."""
    with psycopg.connect(database) as connection:
        ConnectionSession(connection, is_ours=False).rows("SELECT $1::int8[]", (arrays.Int8s([1]),))

        with pytest.raises(psycopg.ProgrammingError):
            connection.execute("SELECT %s", (arrays.Int8s([1]),))


RECEIVED = [
    pytest.param(arrays.Int4s, INT4, id="int4"),
    pytest.param(arrays.Int8s, INT8, id="int8"),
    pytest.param(arrays.Uuids, UUIDS, id="uuid"),
]
WHOLE = {
    arrays.Int4s: arrays.Int4s([1, 2, 3]).data,
    arrays.Int8s: arrays.Int8s([1, 2, 3]).data,
    arrays.Uuids: arrays.Uuids([bytes(16), b"\xff" * 16, bytes(range(16))]).data,
}
EACH = pytest.mark.parametrize("kind", WHOLE)


@pytest.mark.parametrize(("kind", "values"), RECEIVED)
def test_what_somebody_else_has_encoded_is_taken_as_it_is(kind, values):
    @given(st.lists(values, min_size=1, max_size=50))
    @settings(max_examples=40)
    def is_taken(given_values):
        sent = kind(given_values)
        found = arrays.received(kind, sent.data)

        assert (kind, sent.data) == (type(found), found.data)
        assert len(given_values) == arrays.size_of(found) == arrays.size_of(sent)

    is_taken()


@pytest.mark.parametrize(
    ("kind", "name", "values"), [one for one in KINDS if one.values[0] in WHOLE]
)
def test_what_was_received_goes_to_the_server_as_it_came(session, kind, name, values):
    found = arrays.received(kind, WHOLE[kind])
    ((back,),) = session.rows(f"SELECT pg_catalog.array_send($1::{name}[])", (found,))

    assert WHOLE[kind] == back


@EACH
def test_nothing_is_received_that_is_cut_off_or_goes_on(kind):
    whole = WHOLE[kind]
    header_bytes = 20
    for length in [one for one in range(len(whole)) if one != header_bytes]:
        with pytest.raises(ValueError, match="it "):
            arrays.received(kind, whole[:length])
    for more in (b"\0", bytes(4), bytes(8), bytes(12), bytes(20)):
        with pytest.raises(ValueError, match="it "):
            arrays.received(kind, whole + more)


@EACH
def test_nothing_is_received_of_another_kind(kind):
    for other in {*WHOLE} - {kind}:
        with pytest.raises(ValueError, match="begins as no such array"):
            arrays.received(kind, WHOLE[other])


@EACH
def test_an_empty_array_or_one_that_may_lack_something_is_not_received(kind):
    header = struct.Struct(">iiiii")
    dimensions, has_nulls, oid, count, lowest = header.unpack_from(WHOLE[kind])
    rest = WHOLE[kind][header.size :]
    changed = [
        (2, has_nulls, oid, count, lowest),
        (dimensions, 1, oid, count, lowest),
        (dimensions, has_nulls, oid + 1, count, lowest),
        (dimensions, has_nulls, oid, count + 1, lowest),
        (dimensions, has_nulls, oid, 0, lowest),
        (dimensions, has_nulls, oid, -1, lowest),
        (dimensions, has_nulls, oid, count, 0),
    ]
    for one in changed:
        with pytest.raises(ValueError, match="begins as no such array"):
            arrays.received(kind, header.pack(*one) + rest)
    with pytest.raises(ValueError, match="begins as no such array"):
        arrays.received(kind, kind(()).data)


@EACH
@pytest.mark.parametrize("length", [-1, 0, 3, 5, 1 << 30])
def test_nothing_is_received_of_which_a_part_has_another_length(kind, length):
    """A server that reads it would break off, and take the connection for broken."""
    stride = (len(WHOLE[kind]) - 20) // 3
    for place in range(3):
        changed = bytearray(WHOLE[kind])
        changed[20 + place * stride : 24 + place * stride] = struct.pack(">i", length)
        with pytest.raises(ValueError, match="another length"):
            arrays.received(kind, bytes(changed))


@EACH
def test_a_header_alone_is_not_received(kind):
    with pytest.raises(ValueError, match="it "):
        arrays.received(kind, kind([WHOLE[kind][-16:]] if kind is arrays.Uuids else [1]).data[:20])


@given(st.sampled_from([*WHOLE]), st.binary(max_size=100))
def test_nothing_that_is_received_is_another_error(kind, data):
    with pytest.raises(ValueError, match="it "):
        arrays.received(kind, data)


@pytest.mark.parametrize("count", [1, 2, 1000])
def test_how_many_parts_there_are_is_known_by_the_length(count):
    assert count == arrays.size_of(arrays.Int4s([7] * count))
    assert count == arrays.size_of(arrays.Int8s([7] * count))
    assert count == arrays.size_of(arrays.Uuids([bytes(16)] * count))


@pytest.mark.parametrize("other", [b"", [1, 2], None])
def test_only_arrays_have_parts(other):
    with pytest.raises(AssertionError, match="nothing else has parts"):
        arrays.size_of(other)

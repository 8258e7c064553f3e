"""Arrays that are encoded by hand are read by the server as what was meant."""

from __future__ import annotations

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
    """D3: it is his, and stays as he set it up."""
    with psycopg.connect(database) as connection:
        ConnectionSession(connection, is_ours=False).rows("SELECT $1::int8[]", (arrays.Int8s([1]),))

        with pytest.raises(psycopg.ProgrammingError):
            connection.execute("SELECT %s", (arrays.Int8s([1]),))

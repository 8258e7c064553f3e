"""A role as `duly server` would have one: held to one tenant at a time."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Iterator

MAY_READ_CLOCK = """
DO $$ BEGIN
    IF to_regnamespace('duly_testing') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA duly_testing TO PUBLIC;
        GRANT SELECT ON ALL SEQUENCES IN SCHEMA duly_testing TO PUBLIC;
    END IF;
END $$"""


@contextmanager
def new_role(url: str, name: str = "server") -> Iterator[str]:
    """Make a role on the server of a database, without any rights; return its name.

    Roles belong to the whole server: several processes have theirs.
    """
    role = f"duly {name} {os.getpid()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        connection.execute(MAY_READ_CLOCK)
    yield role
    with psycopg.connect(url, autocommit=True) as connection:
        for command in ("DROP OWNED BY {}", "DROP ROLE {}"):
            connection.execute(sql.SQL(command).format(sql.Identifier(role)))


def as_role(url: str, role: str) -> str:
    """Return the URL by which the same database is used as another role."""
    escaped = role.replace(" ", "\\ ").replace(" ", "%20").replace("\\", "%5C")
    return f"{url}{'&' if '?' in url else '?'}options=-crole%3D{escaped}"

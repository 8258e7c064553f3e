"""URLs of databases: what the driver is told, and what people are shown."""

from __future__ import annotations

import re
from typing import Any

import psycopg
from psycopg import conninfo

from duly.errors import UsageError

DRIVER_DEFAULTS = {
    "application_name": "duly",
    "connect_timeout": 3,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}

_DIALECT = re.compile(r"^(\w+)\+psycopg(?=://)")
_UNKNOWN_OPTION = re.compile(r'invalid URI query parameter: "\w+"')


def read_url(url: str) -> dict[str, Any]:
    """Read a URL of libpq's kind, with what we add where it says nothing."""
    remedy = "use postgresql://user:password@host:5432/database"
    try:
        parameters = conninfo.conninfo_to_dict(_DIALECT.sub(r"\1", url))
    except psycopg.Error as error:
        # What libpq quotes after the colon may be the password; the name of an option is not.
        unknown = _UNKNOWN_OPTION.search(str(error))
        said = unknown.group(0) if unknown else str(error).partition(":")[0].strip()
        problem = f"can't be read ({said})"
        raise UsageError("url", "postgresql://…", problem, remedy) from None
    _refuse_split_password(parameters)
    # Texts in arrays are encoded by us.
    return {**DRIVER_DEFAULTS, **parameters, "client_encoding": "UTF8"}


def _refuse_split_password(parameters: dict[str, Any]) -> None:
    """Refuse a URL whose password was taken for something else, which messages would show."""
    ports = str(parameters.get("port") or "").replace(",", "")
    names = f"{parameters.get('host') or ''}{parameters.get('dbname') or ''}"
    if "@" in names or (ports and not ports.isdecimal()):
        problem = "can't be read: host, port or database hold what should be a password"
        remedy = "write special characters in percent-encoding, such as %2F for / and %40 for @"
        raise UsageError("url", "postgresql://…", problem, remedy)


def safe_name(parameters: dict[str, Any]) -> str:
    """Return how messages call a database: nothing secret in it."""
    hosts = str(parameters.get("host") or parameters.get("hostaddr") or "").split(",")
    ports = str(parameters.get("port") or "").split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    pairs = zip(hosts, ports, strict=False)
    places = ",".join(f"{host}:{port}" if port else host for host, port in pairs)
    database = parameters.get("dbname") or parameters.get("user") or ""
    service = parameters.get("service")
    return f"postgresql://{places}/{database}" + (f"?service={service}" if service else "")

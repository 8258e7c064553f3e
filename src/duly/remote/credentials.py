"""Where a token comes from: the call, $DULY_TOKEN, or a file that nobody else can read."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from duly.errors import Unauthenticated, UsageError

if TYPE_CHECKING:
    from duly.remote.address import Address

TOKEN_VARIABLE = "DULY_TOKEN"  # noqa: S105 - a name, and no secret
FILE = Path("duly", "credentials")
TOKEN_LENGTH_MAX = 500
FILE_BYTES_MAX = 100_000
_TOKEN = re.compile(r"[A-Za-z0-9_-]+")
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def find_token(address: Address, token: str | None = None, file: Path | None = None) -> str:
    """Return the token for a server; it is never repeated in an error."""
    if token is not None:
        return read_token("token", token)
    said = os.environ.get(TOKEN_VARIABLE)
    if said:
        return read_token(f"${TOKEN_VARIABLE}", said)
    place = credentials_file() if file is None else file
    kept = _from_file(place, address)
    if kept is not None:
        return kept
    problem = f"no token is known for {address.url}"
    remedy = f'set ${TOKEN_VARIABLE}, or write "{address.url} TOKEN" to {place} (mode 600)'
    raise Unauthenticated(problem, remedy)


def credentials_file() -> Path:
    """Return the file in which a person keeps tokens."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / FILE


def read_token(field: str, token: object) -> str:
    """Read a token; one that can't be a header's value is none."""
    text = token.strip() if isinstance(token, str) else ""
    if len(text) > TOKEN_LENGTH_MAX or not _TOKEN.fullmatch(text):
        remedy = "give it as duly token create showed it"
        raise UsageError(field, "…", "is not a token", remedy)
    return text


def _from_file(file: Path, address: Address) -> str | None:
    """Return what the file has for a server: lines of a URL and a token, the first that fits."""
    try:
        with file.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            raw = opened.read(FILE_BYTES_MAX)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        problem = f"can't be read ({error.strerror})"
        raise UsageError("credentials", str(file), problem, "see who may read it") from error
    if os.name == "posix" and mode & OTHERS:
        remedy = f"let nobody else read it: chmod 600 {file}"
        raise UsageError("credentials", str(file), "can be read by others", remedy)
    for line in raw.decode("utf-8", "replace").splitlines():
        url, _, token = line.strip().partition(" ")
        if url.rstrip("/") == address.url:
            return read_token("credentials", token)
    return None

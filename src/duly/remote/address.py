"""Server URL and token: read strictly."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from duly.errors import Unauthenticated, UsageError, require_text

PORTS = {"http": 80, "https": 443}
URL_LENGTH_MAX = 2000
_REMEDY = "give one such as https://duly.example.com:8420"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A server, and below which path it answers."""

    scheme: str
    host: str
    port: int
    root: str
    """What comes before /api/v1, where the server is mounted; mostly nothing."""

    @property
    def is_secure(self) -> bool:
        """Whether nobody on the way can read what is sent."""
        return self.scheme == "https"

    @property
    def url(self) -> str:
        """The address as people write it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.root}"


def is_address(url: str | None) -> bool:
    """Say whether a URL names a server, and not a store."""
    return url is not None and url.lower().startswith(("http://", "https://"))


def read_address(url: object, *, allow_plain: bool = False) -> Address:
    """Read a server's URL; refuse what would show a token to whoever listens on the way."""
    require_text("url", url, URL_LENGTH_MAX)
    text = str(url)
    if not (text.isascii() and text.isprintable() and " " not in text):
        raise UsageError("url", text, "is not a URL", _REMEDY)
    split, port = _split(text)
    if split.username is not None or split.password is not None:
        # It would be in the history of a shell and in the list of processes.
        remedy = "give the token by $DULY_TOKEN or token=, and the URL without it"
        raise UsageError("url", _without_user(split), "is given with a secret in it", remedy)
    if split.query or split.fragment:
        raise UsageError("url", text, "has more than a path", "leave out what comes after it")
    scheme, host = split.scheme.lower(), split.hostname
    if scheme not in PORTS or not host:
        raise UsageError("url", text, "is not the URL of a server", _REMEDY)
    found = Address(
        scheme=scheme, host=host, port=port or PORTS[scheme], root=split.path.rstrip("/")
    )
    if not (found.is_secure or is_loopback(host) or allow_plain):
        problem = "would send the token where others can read it"
        raise UsageError("url", text, problem, "use https://, or allow it with allow_plain=True")
    return found


def is_loopback(host: str) -> bool:
    """Say whether a host is this machine, whatever a name server may say."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _split(text: str) -> tuple[SplitResult, int | None]:
    try:
        split = urlsplit(text)
        port = split.port
    except ValueError as error:
        raise UsageError("url", text, "is not a URL", _REMEDY) from error
    return split, port


def _without_user(split: SplitResult) -> str:
    return f"{split.scheme}://…@{split.hostname}"


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

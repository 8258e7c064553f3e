"""Where a server is: read once and strictly, because a token is sent there."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from duly.errors import UsageError, require_text

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

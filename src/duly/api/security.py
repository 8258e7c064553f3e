"""The defences of a server that browsers can reach: what requests must say, and answers too.

A browser will send anything anywhere, with the cookies of where it goes. So: we answer to our own
names only, no page of another origin gives an order, an order by cookie proves that whoever gives
it could read what we said, a body says that it is JSON (which no form can), and nothing that we
answer is shown, framed, cached or sniffed.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from duly.api.problems import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.datastructures import Headers

    from duly.api.route import Route
    from duly.api.settings import ApiSettings

CSRF_HEADER = "duly-csrf"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
JSON = "application/json"
EVENT_STREAM = "text/event-stream"
ANSWER_HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
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
        raise refuse(421, "host-refused", problem, "ask for a name that it was told to answer to")


def check_origin(method: str, headers: Headers, settings: ApiSettings) -> None:
    """Refuse an order that a page of another origin has its visitor's browser give."""
    origin = headers.get("origin")
    if method in SAFE_METHODS or origin is None:
        return
    scheme = "https" if settings.is_secure else "http"
    if origin.lower() != f"{scheme}://{headers['host'].lower()}":
        problem = "the order comes from a page of another origin"
        raise refuse(403, "origin-refused", problem, "give it from this server's own pages")


def check_csrf(method: str, headers: Mapping[str, str], session_secret: str) -> None:
    """Refuse an order by cookie whose sender can't have read what the session was told."""
    if method in SAFE_METHODS:
        return
    shown = headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(shown.encode(), csrf_token(session_secret).encode()):
        problem = "an order by cookie must show the session's own token"
        raise refuse(403, "csrf-refused", problem, f"send {CSRF_HEADER} as POST /session gave it")


def csrf_token(session_secret: str) -> str:
    """Return what only somebody who was told a session's beginning knows; it opens nothing."""
    return sha256(f"duly csrf {session_secret}".encode()).hexdigest()


def check_body_headers(route: Route, headers: Headers, settings: ApiSettings) -> None:
    """Refuse a body by what is said of it, before any of it is read."""
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        # A few bytes can unfold into more than a server has.
        problem = "the body is compressed"
        raise refuse(415, "unsupported-media-type", problem, "send it as it is")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 18:
        raise refuse(400, "unreadable-body", "Content-Length is no length", "give a number")
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
        raise refuse(415, "unsupported-media-type", problem, f"send Content-Type: {JSON}")


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
    raise refuse(406, "not-acceptable", f"the answer is {kind}", f"accept {kind}")


def too_large(settings: ApiSettings) -> Exception:
    """Return the refusal of a body that is too large."""
    remedy = f"send at most {settings.body_bytes_max:,} bytes"
    return refuse(413, "too-large", "the body is too large", remedy, Connection="close")


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

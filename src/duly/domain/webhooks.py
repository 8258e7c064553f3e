"""Webhooks: where one is sent, what it says, and how it is signed (Standard Webhooks).

The id of the message is the id of the root run, the same in every attempt, so that a receiver
detects a repetition. The timestamp is the attempt's, so that the receiver can refuse a replay.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.domain.ids import identity_text
from duly.domain.outbound_urls import WebAddress, read_web_address
from duly.domain.schedules import canonical_json
from duly.domain.secret_refs import Secret, SecretReference, read_reference
from duly.errors import NoSecret, UsageError
from duly.timetable.instants import SECOND_US, duration_microseconds, from_microseconds, iso_utc

if TYPE_CHECKING:
    from duly.domain.runs import AttemptCounts, RunRecord

TIMEOUT_DEFAULT = "30s"
TIMEOUT_MAX_US = 600 * SECOND_US
RESPONSE_BYTES_DEFAULT = 64 * 1024
RESPONSE_BYTES_MAX = 1024 * 1024
SECRETS_MAX = 2
HEADERS_MAX = 32
HEADER_LENGTH_MAX = 4_096
KEY_BYTES_MIN = 24
KEY_BYTES_MAX = 64
KEY_PREFIX = "whsec_"

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_RESERVED_PREFIXES = ("webhook-", "duly-", "proxy-")
_RESERVED = frozenset(
    {
        *("accept-encoding", "connection", "content-encoding", "content-length", "content-type"),
        *("cookie", "expect", "host", "idempotency-key", "keep-alive", "te", "trailer"),
        *("transfer-encoding", "upgrade", "user-agent"),
    }
)
"""What we say ourselves, and what would change how a request is framed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookPlan:
    """Where a webhook is sent and how; always by POST."""

    address: WebAddress
    secrets: tuple[SecretReference, ...]
    """What to sign with: one, or while it is being replaced the new and the old."""
    headers: tuple[tuple[str, str | SecretReference], ...] = ()
    timeout_us: int
    """For everything: looking up, connecting, sending, and the answer."""
    response_bytes_max: int = RESPONSE_BYTES_DEFAULT

    @property
    def url(self) -> str:
        """The address in its plainest form."""
        return self.address.text


def read_webhook_plan(url: object, options: Mapping[str, Any]) -> WebhookPlan:
    """Read a webhook: its address, and secret, headers and limits out of a task's options."""
    return WebhookPlan(
        address=read_web_address("url", url),
        secrets=_read_secrets("secret", options.get("secret")),
        headers=_read_headers("headers", options.get("headers")),
        timeout_us=_read_timeout("timeout", options.get("timeout")),
        response_bytes_max=_read_limit("response_bytes_max", options.get("response_bytes_max")),
    )


def _read_secrets(field: str, given: object) -> tuple[SecretReference, ...]:
    if given is None:
        remedy = 'give duly.secret("env:NAME"); receivers tell by it that the call is yours'
        raise UsageError(field, None, "is missing", remedy)
    listed = list(given) if isinstance(given, list | tuple) else [given]
    if not 1 <= len(listed) <= SECRETS_MAX:
        remedy = "give one, or two while one replaces the other"
        raise UsageError(field, len(listed), "is not how many it can have", remedy)
    return tuple(read_reference(field, one) for one in listed)


def _read_headers(field: str, given: object) -> tuple[tuple[str, str | SecretReference], ...]:
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise UsageError(field, given, "is not a map", "give a map of names to texts")
    if len(given) > HEADERS_MAX:
        raise UsageError(field, len(given), "are too many", f"give at most {HEADERS_MAX}")
    read = tuple((_read_name(field, name), given[name]) for name in given)
    if len({name.lower() for name, _ in read}) < len(read):
        raise UsageError(field, [name for name, _ in read], "has one twice", "give each once")
    for name, value in read:
        if not isinstance(value, SecretReference):
            check_header(f"{field} {name}", value)
    return read


def _read_name(field: str, name: object) -> str:
    if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
        raise UsageError(field, name, "is not the name of a header", "give one such as X-Tenant")
    if name.lower() in _RESERVED or name.lower().startswith(_RESERVED_PREFIXES):
        raise UsageError(field, name, "is set by Duly itself", "leave it out")
    return name


def check_header(field: str, value: object, shown: object = None) -> None:
    """Refuse a header's value that is none, or would end the header and begin another."""
    given = value if shown is None else shown
    if not isinstance(value, str):
        remedy = "give a text, or a reference by duly.secret(…)"
        raise UsageError(field, given, "is not a text", remedy)
    if len(value) > HEADER_LENGTH_MAX:
        remedy = f"give at most {HEADER_LENGTH_MAX:,} characters"
        raise UsageError(field, given, "is too long for a header", remedy)
    if not all(" " <= one <= "~" for one in value) or value != value.strip():
        remedy = "give printable ASCII in one line, with no blanks at its ends"
        raise UsageError(field, given, "can't be sent as a header", remedy)


def _read_timeout(field: str, given: object) -> int:
    timeout_us = duration_microseconds(TIMEOUT_DEFAULT if given is None else given, field)  # type: ignore[arg-type]
    if not SECOND_US // 10 <= timeout_us <= TIMEOUT_MAX_US:
        raise UsageError(field, given, "is out of range", "give a duration from 100ms to 10m")
    return timeout_us


def _read_limit(field: str, given: object) -> int:
    if given is None:
        return RESPONSE_BYTES_DEFAULT
    if (
        not isinstance(given, int)
        or isinstance(given, bool)
        or not 0 <= given <= RESPONSE_BYTES_MAX
    ):
        remedy = f"give a number of bytes, at most {RESPONSE_BYTES_MAX:,}"
        raise UsageError(field, given, "is not a limit", remedy)
    return given


def compose(record: RunRecord, tries: AttemptCounts, arguments: Mapping[str, Any]) -> bytes:
    """Write the body of a webhook: what it is about, and which attempt of which run it is."""
    scheduled_for = iso_utc(from_microseconds(record.scheduled_for))
    message = {
        "type": record.call.task,
        "timestamp": scheduled_for,
        "data": dict(arguments),
        "run": {
            "id": identity_text(record.id),
            "root": identity_text(record.root),
            "attempt": tries.attempt,
            "fence": tries.fence,
            "schedule": record.schedule_name,
            "scheduled_for": scheduled_for,
        },
    }
    return canonical_json(message).encode()


def signed_headers(
    record: RunRecord, tries: AttemptCounts, sent_at: int, signing: tuple[bytes, tuple[bytes, ...]]
) -> dict[str, str]:
    """Return the headers that identify and sign a body with each of the keys."""
    return {
        **signed_message(identity_text(record.line), sent_at, signing),
        "duly-run": identity_text(record.id),
        "duly-attempt": str(tries.attempt),
        "duly-fence": str(tries.fence),
    }


def signed_message(
    message_id: str, sent_at: int, signing: tuple[bytes, tuple[bytes, ...]]
) -> dict[str, str]:
    """Return the headers of any message that is signed with each of the keys; its id is a UUID."""
    body, keys = signing
    # An id with a full stop in it could be cut in two ways; a UUID has none.
    assert "." not in message_id, "what is signed can be read in one way only"
    timestamp = str(sent_at // SECOND_US)
    content = b".".join((message_id.encode(), timestamp.encode(), body))
    digests = (hmac.digest(key, content, "sha256") for key in keys)
    return {
        "Content-Type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{base64.b64encode(one).decode()}" for one in digests),
        "idempotency-key": message_id,
    }


def signing_key(secret: Secret, reference: SecretReference, field: str) -> bytes:
    """Return the key that a secret stands for: whsec_ and base64 of 24 to 64 bytes; NoSecret."""
    text = secret.reveal().strip().removeprefix(KEY_PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        remedy = f"write {KEY_PREFIX} and {KEY_BYTES_MIN} to {KEY_BYTES_MAX} random bytes in base64"
        problem = "does not hold a signing secret"
        raise NoSecret(field, reference.secret, problem, remedy)
    return key

"""Channels: the ways by which alerts reach people, each checked whole before it is stored.

A channel has a name, a kind and options, which are JSON. The options hold secrets by reference
only: the signing key, a password, and the whole address of a chat's hook, because everyone that
knows the address may write there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, TypeAlias

from duly.domain.alert_messages import for_header
from duly.domain.outbound_urls import HOST_LENGTH_MAX, read_host
from duly.domain.secret_refs import CONCEALED, SecretReference, read_reference
from duly.domain.webhooks import WebhookPlan, check_header, read_webhook_plan
from duly.errors import UsageError, require_text
from duly.timetable.instants import SECOND_US, duration_microseconds, duration_text

LOG, WEBHOOK, SMTP, SLACK, MATTERMOST = KINDS = ("log", "webhook", "smtp", "slack", "mattermost")
TLS, STARTTLS, NO_TLS = SECURITIES = ("tls", "starttls", "none")
"""TLS from the first byte, TLS before anything is said, or none at all."""

OPTIONS_MAX = 32
RECIPIENTS_MAX = 50
MAIL_ADDRESS_LENGTH_MAX = 254
USERNAME_LENGTH_MAX = 200
WEB_TIMEOUT_DEFAULT = "10s"
MAIL_TIMEOUT_DEFAULT = "30s"
TIMEOUT_MIN_US = SECOND_US // 10
TIMEOUT_MAX_US = 60 * SECOND_US
"""Whoever sends alerts waits for each: one that is slow must not keep the others."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LOCAL_PART = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_LOCAL_PART_LENGTH_MAX = 64
_OPENING = re.compile(r"auth|token|secret|key|password|credential", re.IGNORECASE)
"""Headers that open something, by their names."""
_PORTS = {TLS: 465, STARTTLS: 587, NO_TLS: 25}
_OPTIONS = {
    LOG: frozenset[str](),
    WEBHOOK: frozenset({"url", "secret", "headers", "timeout"}),
    SMTP: frozenset(
        {
            *("host", "port", "security", "username", "password"),
            *("sender", "recipients", "timeout"),
        }
    ),
    SLACK: frozenset({"url", "timeout"}),
    MATTERMOST: frozenset({"url", "timeout"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelConfig:
    """A channel as it is kept: checked, and in one form."""

    name: str
    kind: str
    options: Mapping[str, Any]
    """JSON, with secrets by reference only."""


@dataclass(frozen=True, slots=True)
class LogPlan:
    """Into the log of whoever sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPlan:
    """To the incoming hook of a chat."""

    kind: str
    hook: SecretReference
    timeout_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MailPlan:
    """By a mail server, to one or several people."""

    host: str
    port: int
    security: str
    username: str | None
    password: SecretReference | None
    sender: str
    recipients: tuple[str, ...]
    timeout_us: int

    @property
    def is_loopback(self) -> bool:
        """Whether its server is said to be on this very machine."""
        return is_loopback_host(self.host)

    @property
    def place(self) -> str:
        """Who is asked, for people."""
        return f"{_bracketed(self.host)}:{self.port}"


ChannelPlan: TypeAlias = LogPlan | WebhookPlan | ChatPlan | MailPlan


def read_channel(name: object, kind: object, options: object) -> ChannelConfig:
    """Read a channel whole: UsageError with the field, the value and what to do about it."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        remedy = "give up to 100 letters, digits, dots and dashes, as in ops-mail"
        raise UsageError("name", name, "is not the name of a channel", remedy)
    if kind not in KINDS:
        raise UsageError("kind", kind, "is not a kind of channel", f"give {', '.join(KINDS)}")
    assert isinstance(kind, str), "just compared"
    if not isinstance(options, Mapping) or len(options) > OPTIONS_MAX:
        # Its value is not repeated: somebody may have put a secret into it.
        raise UsageError("options", CONCEALED, "is not a map of options", "give a map of names")
    return ChannelConfig(name=name, kind=kind, options=_stored(_read_plan(kind, options)))


def plan_of(config: ChannelConfig) -> ChannelPlan:
    """Return what a channel's options mean."""
    return _read_plan(config.kind, config.options)


def is_loopback_host(host: str) -> bool:
    """Say whether a host is this very machine, by its name or its address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _read_plan(kind: str, options: Mapping[Any, Any]) -> ChannelPlan:
    for option in options:
        if option not in _OPTIONS[kind]:
            known = ", ".join(sorted(_OPTIONS[kind])) or "none"
            problem = f"is not an option of a channel of the kind {kind}"
            raise UsageError("options", option, problem, f"give {known}")
    given = {name: _referred(value) for name, value in options.items() if value is not None}
    if kind == WEBHOOK:
        return _read_webhook(given)
    if kind == SMTP:
        return _read_mail(given)
    if kind == LOG:
        return LogPlan()
    return ChatPlan(
        kind=kind, hook=_read_hook(given.get("url")), timeout_us=_read_timeout(kind, given)
    )


def _referred(value: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Return a value with each {"secret": "env:NAME"} in it as the reference that it is."""
    match value:
        case {"secret": str(reference)} if len(value) == 1:
            return read_reference("secret", reference)
        case Mapping():
            return {name: _referred(one) for name, one in value.items()}
        case list() | tuple():
            return [_referred(one) for one in value]
        case _:
            return value


def _read_webhook(given: Mapping[str, Any]) -> WebhookPlan:
    headers = given.get("headers")
    for name, value in headers.items() if isinstance(headers, Mapping) else ():
        if isinstance(name, str) and _OPENING.search(name) and isinstance(value, str):
            remedy = 'give {"secret": "env:DULY_SECRET_NAME"}: what opens something is not kept'
            raise UsageError(f"headers {name}", CONCEALED, "holds a secret itself", remedy)
    timeout_us = _read_timeout(WEBHOOK, given)
    return read_webhook_plan(given.get("url"), {**given, "timeout": duration_text(timeout_us)})


def _read_hook(given: object) -> SecretReference:
    if given is None:
        remedy = 'give {"secret": "env:DULY_SECRET_NAME"}, where the address of the hook is'
        raise UsageError("url", None, "is missing", remedy)
    return read_reference("url", given)


def _read_mail(given: Mapping[str, Any]) -> MailPlan:
    host = _read_mail_host(given.get("host"))
    port = given.get("port")
    if port is not None and (type(port) is not int or not 1 <= port <= 65_535):
        raise UsageError("port", port, "is not a port", "give a number from 1 to 65535")
    security = _read_security(given.get("security"), host, port)
    username, password = _read_login(given, host, security)
    return MailPlan(
        host=host,
        port=port or _PORTS[security],
        security=security,
        username=username,
        password=password,
        sender=_read_mail_address("sender", given.get("sender")),
        recipients=_read_recipients(given.get("recipients")),
        timeout_us=_read_timeout(SMTP, given),
    )


def _read_mail_host(given: object) -> str:
    require_text("host", given, HOST_LENGTH_MAX)
    assert isinstance(given, str), "just checked"
    if not given or any(one.isspace() for one in given):
        raise UsageError("host", given, "is not the name of a host", "give one: mail.example.com")
    return read_host("host", given)


def _read_security(given: object, host: str, port: int | None) -> str:
    if given is None:
        if port == _PORTS[TLS]:
            return TLS
        # What does not leave the machine can't be read on the way.
        return NO_TLS if is_loopback_host(host) else STARTTLS
    if given not in SECURITIES:
        remedy = f"give {', '.join(SECURITIES)}; without it TLS is demanded of other machines"
        raise UsageError("security", given, "is not a way to be secure", remedy)
    return str(given)


def _read_login(
    given: Mapping[str, Any], host: str, security: str
) -> tuple[str | None, SecretReference | None]:
    username, password = given.get("username"), given.get("password")
    if username is None and password is None:
        return None, None
    if username is None or password is None:
        field = "username" if username is None else "password"
        raise UsageError(field, None, "is missing", "give username and password, or neither")
    require_text("username", username, USERNAME_LENGTH_MAX)
    check_header("username", username)
    if security == NO_TLS and not is_loopback_host(host):
        remedy = f"give {STARTTLS} or {TLS}: a password is not sent in the open"
        raise UsageError("security", security, "would show the password", remedy)
    return username, read_reference("password", password)


def _read_recipients(given: object) -> tuple[str, ...]:
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list | tuple) or not 1 <= len(listed) <= RECIPIENTS_MAX:
        remedy = f"give a list of 1 to {RECIPIENTS_MAX} mail addresses"
        raise UsageError("recipients", given, "is not a list of people", remedy)
    read = tuple(_read_mail_address("recipients", one) for one in listed)
    if len({one.lower() for one in read}) < len(read):
        raise UsageError("recipients", list(read), "has one twice", "give each once")
    return read


def _read_mail_address(field: str, given: object) -> str:
    """Read a mail address strictly: nothing in it can end a command or a header."""
    remedy = "give an address in ASCII, without a name, as in ops@example.com"
    if given is None:
        raise UsageError(field, None, "is missing", remedy)
    require_text(field, given, MAIL_ADDRESS_LENGTH_MAX)
    assert isinstance(given, str), "just checked"
    local, _, domain = given.rpartition("@")
    is_local = len(local) <= _LOCAL_PART_LENGTH_MAX and _LOCAL_PART.fullmatch(local)
    # A local part may hold all that an encoded word is made of, which a header would decode.
    if (
        not is_local
        or for_header(local) != local
        or not domain
        or not domain.isascii()
        or not domain[0].isalnum()
    ):
        raise UsageError(field, given, "is not a mail address", remedy)
    return f"{local}@{read_host(field, domain)}"


def _read_timeout(kind: str, given: Mapping[str, Any]) -> int:
    default = MAIL_TIMEOUT_DEFAULT if kind == SMTP else WEB_TIMEOUT_DEFAULT
    timeout = given.get("timeout", default)
    timeout_us = duration_microseconds(timeout, "timeout")
    if not TIMEOUT_MIN_US <= timeout_us <= TIMEOUT_MAX_US:
        raise UsageError("timeout", timeout, "is out of range", "give from 100ms to 1m")
    return timeout_us


def _stored(plan: ChannelPlan) -> dict[str, Any]:
    """Return the options of a plan in the one form in which they are kept."""
    match plan:
        case LogPlan():
            return {}
        case ChatPlan():
            return {"url": _as_json(plan.hook), "timeout": duration_text(plan.timeout_us)}
        case WebhookPlan():
            options: dict[str, Any] = {
                "url": plan.url,
                "secret": [_as_json(one) for one in plan.secrets],
                "timeout": duration_text(plan.timeout_us),
            }
            headers = {name: _as_json(value) for name, value in plan.headers}
            return {**options, "headers": headers} if headers else options
        case MailPlan():
            options = {
                "host": _bracketed(plan.host),
                "port": plan.port,
                "security": plan.security,
                "sender": plan.sender,
                "recipients": list(plan.recipients),
                "timeout": duration_text(plan.timeout_us),
            }
            if plan.username is None or plan.password is None:
                return options
            return {**options, "username": plan.username, "password": _as_json(plan.password)}


def _as_json(value: str | SecretReference) -> Any:  # noqa: ANN401 - a text, or a map of one
    return {"secret": value.secret} if isinstance(value, SecretReference) else value


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host

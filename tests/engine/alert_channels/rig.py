"""Real servers that alerts are sent to: mail servers that the test decides for, and liars."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import subprocess
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes
from email.policy import default
from typing import TYPE_CHECKING, Any
from uuid import UUID

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from duly.client.run_context import SecretSources
from duly.domain.alert_channels import read_channel
from duly.domain.alert_messages import AlertNotice
from duly.domain.outbound_urls import read_allow_list
from duly.engine.alerts.channels import Channel, ChannelSurroundings, look_up
from duly.engine.alerts.delivery import open_channel
from duly.engine.manual_clock import ManualClock
from tests.required_programs import required_program
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from email.message import EmailMessage
    from pathlib import Path

    from duly.engine.alerts.channels import LookUp, Wait

PATIENCE_S = 120
CANARY = "canary-91c4-pa55/w0rd"
DELIVERY = UUID("0192aaaa-0000-7000-8000-000000000001")
ALERT = UUID("0192aaaa-0000-7000-8000-0000000000ff")


def notice(**other: Any) -> AlertNotice:
    said: dict[str, Any] = {
        "id": DELIVERY,
        "alert_id": ALERT,
        "kind": "missing-run",
        "change": "raised",
        "severity": "page",
        "tenant": "default",
        "subject": "schedule nightly-report",
        "summary": "nightly-report has no run for 2026-04-03 02:00, since 3 minutes.",
        "remedy": "duly run missing --schedule nightly-report",
        "evidence": {"expected": "2026-04-03T00:00:00Z", "found": 0},
        "since": datetime(2026, 4, 3, 0, 0, tzinfo=UTC),
        "at": datetime(2026, 4, 3, 0, 3, tzinfo=UTC),
    }
    return AlertNotice(**{**said, **other})


def opened(
    kind: str,
    options: dict[str, Any],
    *allow: str,
    lookup: LookUp = look_up,
    wait: Wait = threading.Event.wait,
) -> Channel:
    """Open a channel as an operator would who allows these addresses."""
    surroundings = ChannelSurroundings(
        read_secret=SecretSources().read,
        clock=ManualClock(),
        allow=read_allow_list(allow),
        lookup=lookup,
        wait=wait,
    )
    return open_channel(read_channel("ops", kind, options), surroundings)


class TryLimit:
    """The time limit of a try, which is over when the test says so and not before."""

    def __init__(self) -> None:
        self._is_over = threading.Event()

    def end(self) -> None:
        self._is_over.set()

    def wait(self, ended: threading.Event, _limit_s: float) -> bool:
        wait_until("a try has ended or may last no longer", lambda: self._is_seen(ended))
        return ended.is_set()

    def _is_seen(self, ended: threading.Event) -> bool:
        return ended.is_set() or self._is_over.is_set()


def await_tries() -> None:
    """Wait until nothing that was begun can send any more."""
    for thread in threading.enumerate():
        if thread.name == "duly-delivery":
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


@dataclass
class Letter:
    """One message as a mail server took it."""

    sender: str
    recipients: list[str]
    raw: bytes
    is_secure: bool
    login: str | None

    @property
    def message(self) -> EmailMessage:
        read = message_from_bytes(self.raw, policy=default)
        assert not read.defects
        return read

    def part(self, subtype: str) -> str:
        found = self.message.get_body((subtype,))
        assert found is not None
        return str(found.get_content())


@dataclass
class Decisions:
    """What a mail server answers; the test changes it."""

    sender: str = "250 OK"
    recipients: dict[str, str] = field(default_factory=dict)
    data: str = "250 taken"
    passwords: dict[str, str] = field(default_factory=dict)
    login_refusal: str | None = None


class Postbox:
    """A real mail server on loopback."""

    def __init__(
        self,
        certified: ssl.SSLContext | None = None,
        *,
        is_secure_at_once: bool = False,
        **options: Any,
    ) -> None:
        self.letters: list[Letter] = []
        self.decisions = Decisions()
        self._certified = certified
        self._is_secure_at_once = is_secure_at_once
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._over: asyncio.Event
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        while left := asyncio.all_tasks(self._loop):
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(left))
        self._loop.close()

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        at_once = self._certified if self._is_secure_at_once else None
        server = await self._loop.create_server(self._protocol, "127.0.0.1", 0, ssl=at_once)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()
        server.close()
        # Whoever has just gone is let go of in the next rounds.
        for _ in range(5):
            await asyncio.sleep(0)  # noqa: TID251 - it gives way, and does not sleep

    def _protocol(self) -> SMTP:
        return SMTP(
            self,
            hostname="postbox.test",
            loop=self._loop,
            tls_context=None if self._is_secure_at_once else self._certified,
            authenticator=self._authenticate,
            **self._options,
        )

    def _authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, given: Any
    ) -> AuthResult:
        assert isinstance(given, LoginPassword)
        wanted = self.decisions.passwords.get(given.login.decode())
        is_right = wanted == given.password.decode()
        if not is_right and self.decisions.login_refusal:
            said = self.decisions.login_refusal.format(password=given.password.decode())
            return AuthResult(success=False, handled=False, message=said)
        return AuthResult(success=is_right, auth_data=given.login.decode())

    async def handle_MAIL(self, server, session, envelope, address, options):  # noqa: N802
        if self.decisions.sender.startswith("2"):
            envelope.mail_from = address
        return self.decisions.sender

    async def handle_RCPT(self, server, session, envelope, address, options):  # noqa: N802
        answer = self.decisions.recipients.get(address, "250 OK")
        if answer.startswith("2"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server, session, envelope):  # noqa: N802
        if self.decisions.data.startswith("2"):
            self.letters.append(
                Letter(
                    envelope.mail_from,
                    list(envelope.rcpt_tos),
                    envelope.original_content,
                    is_secure=server.transport.get_extra_info("sslcontext") is not None,
                    login=session.auth_data,
                )
            )
        return self.decisions.data

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def options(self, **other: Any) -> dict[str, Any]:
        """Return the options of a channel to this server."""
        given: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": self.port,
            "sender": "duly@example.com",
            "recipients": ["ada@example.com"],
        }
        return {**given, **other}

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


class Liar:
    """A server that says whatever the test wants, as soon as somebody comes."""

    def __init__(self, talk: Callable[[socket.socket, threading.Event], None]) -> None:
        self.connections = 0
        self._talk = talk
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with contextlib.suppress(OSError), connection:
                self._talk(connection, self._over)

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def options(self, **other: Any) -> dict[str, Any]:
        given: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": self.port,
            "sender": "duly@example.com",
            "recipients": ["ada@example.com"],
        }
        return {**given, **other}

    def close(self) -> None:
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


@dataclass(frozen=True)
class Certificate:
    """A certificate that only those vouch for who are told to."""

    path: Path
    context: ssl.SSLContext


def made_certificate(folder: Path, names: str) -> Certificate:
    program = str(required_program("openssl"))
    key, path = folder / "key.pem", folder / "certificate.pem"
    how = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=here"
    where = ["-addext", f"subjectAltName={names}", "-keyout", str(key), "-out", str(path)]
    subprocess.run([program, *how.split(), *where], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, key)
    return Certificate(path, context)

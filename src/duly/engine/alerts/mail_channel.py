"""Mail by SMTP: message, TLS, bounded conversation.

`MailChannel` tries again after a 4xx answer and gives up after a 5xx answer. If the server accepts
only some recipients, the channel does not send to those again while this process lives. After a
restart they may receive the message twice. They recognise it by its Message-ID, which is derived
from the delivery's id.
"""

from __future__ import annotations

import contextlib
import ipaddress
import smtplib
import socket
import ssl
import threading
from collections import OrderedDict
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import format_datetime
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING

from duly.domain.alert_channels import NO_TLS, STARTTLS, TLS
from duly.domain.alert_messages import PAGE, for_header, page_text, plain_text, subject_line
from duly.domain.outbound_urls import MAIL_PORTS, ConnectTarget, judge
from duly.engine.alerts.channels import (
    CUT_S_MAX,
    DONE,
    DeliveryResult,
    DeliverySecrets,
    DeliveryTimeout,
)
from duly.engine.executors.address_guard import ADDRESSES_MAX, RefusedAddress
from duly.errors import NoSecret, UsageError
from duly.timetable.instants import SECOND_US

if TYPE_CHECKING:
    from typing import BinaryIO
    from uuid import UUID

    from duly.domain.alert_channels import MailPlan
    from duly.domain.alert_messages import AlertNotice
    from duly.domain.outbound_urls import IpAddress
    from duly.engine.alerts.channels import ChannelSurroundings, DeliveryDeadline


CONNECT_S_MAX = 10.0
REPLY_BYTES_MAX = 64 * 1024
"""How much a server may say in one conversation: it could go on with one reply for ever."""


def mail_addresses(plan: MailPlan, surroundings: ChannelSurroundings) -> list[IpAddress]:
    """Look the server up, once, and return its addresses; RefusedAddress if one is refused."""
    try:
        found: list[IpAddress] = [ipaddress.ip_address(plan.host)]
    except ValueError:
        texts = surroundings.lookup(plan.host, plan.port)
        found = [ipaddress.ip_address(one.partition("%")[0]) for one in dict.fromkeys(texts)]
    if not found:
        raise OSError("the name leads to no address")
    for ip in found:
        problem = judge(ConnectTarget(plan.host, ip, plan.port), surroundings.allow, MAIL_PORTS)
        if problem is None and plan.security == NO_TLS and plan.is_loopback and not ip.is_loopback:
            problem = "another machine, and without TLS"
        if problem is not None:
            leads = "is" if str(ip) == plan.host else f"leads to {ip}, which is"
            raise RefusedAddress(f"{plan.host} {leads} {problem}")
    return found[:ADDRESSES_MAX]


class MailServer(smtplib.SMTP):
    """A conversation with a mail server."""

    def __init__(
        self, plan: MailPlan, addresses: list[IpAddress], tether: DeliveryDeadline
    ) -> None:
        """Connect, and hear its greeting."""
        self._plan = plan
        self._addresses = addresses
        self._tether = tether
        self._said = 0
        # Made anew for each: a certificate that was replaced on disk is the one that counts.
        self._context = None if plan.security == NO_TLS else ssl.create_default_context()
        # Longer than the try, so that the try and not one read of it says that the time is up.
        super().__init__(plan.host, plan.port, timeout=plan.timeout_us / SECOND_US + CUT_S_MAX)

    def secure(self) -> None:
        """See that nobody else reads along, before anything is said."""
        if self._plan.security == STARTTLS:
            # Without it there is no sending: whoever stands between would only have to strip it.
            self.starttls(context=self._context)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        """Connect to the addresses that were checked, whatever the name says by now."""
        failed: OSError = OSError("there is no address")
        for ip in self._addresses:
            try:
                connection = socket.create_connection(
                    (str(ip), port), timeout=min(timeout, CONNECT_S_MAX)
                )
            except OSError as error:
                failed = error
                continue
            try:
                connection.settimeout(timeout)
                return self._held(connection, host)
            except BaseException:
                connection.close()
                raise
        raise failed

    def _held(self, connection: socket.socket, host: str) -> socket.socket:
        """Tie a connection to the try; return it, with TLS if that comes first."""
        self._tether.hold(connection)
        if self._plan.security != TLS:
            return connection
        assert self._context is not None, "made above"
        return self._context.wrap_socket(connection, server_hostname=host)

    def getreply(self) -> tuple[int, bytes]:
        """Hear a reply, unless it has said too much already."""
        if self.file is None and self.sock is not None:
            self.file = _Bounded(self, self.sock.makefile("rb"))
        return super().getreply()

    def hear(self, line: bytes) -> bytes:
        """Count what it says."""
        self._said += len(line)
        if self._said > REPLY_BYTES_MAX:
            raise OSError(f"it said more than {REPLY_BYTES_MAX:,} bytes")
        return line


class _Bounded:
    """What a server says, line by line, as long as there is an end to it."""

    def __init__(self, server: MailServer, stream: BinaryIO) -> None:
        self._server = server
        self._stream = stream

    def readline(self, size: int) -> bytes:
        return self._server.hear(self._stream.readline(size))

    def close(self) -> None:
        self._stream.close()


REMEMBERED_MAX = 256
"""Of how many deliveries it is known who has been written to already."""
_FINAL_FROM = 500
# Bytes above 127 are not for every server; what is sent is ASCII, whatever it says.
_POLICY = SMTP_POLICY.clone(cte_type="7bit")

Refused = dict[str, tuple[int, bytes]]


class MailChannel:
    """Sends each notice as a message to all recipients."""

    def __init__(self, name: str, plan: MailPlan, surroundings: ChannelSurroundings) -> None:
        self._field = f"channel {name} password"
        self._plan = plan
        self._surroundings = surroundings
        self._patience = DeliveryTimeout(plan.place, plan.timeout_us, surroundings.wait)
        self._lock = threading.Lock()
        self._reached: OrderedDict[UUID, frozenset[str]] = OrderedDict()

    def deliver(self, notice: AlertNotice) -> DeliveryResult:
        """Send it once, to those who have not got it yet."""
        return self._patience.wait_for(partial(self._attempt, notice))

    def _attempt(self, notice: AlertNotice, tether: DeliveryDeadline) -> DeliveryResult:
        discretion = DeliverySecrets(self._surroundings.read_secret)
        try:
            password = self._password(discretion)
        except (NoSecret, UsageError) as error:
            return discretion.unprepared(error)
        place = self._plan.place
        try:
            refused = self._send(notice, tether, password)
        except RefusedAddress as error:
            detail = f"{error}; the operator can allow it: allow_addresses"
            return discretion.failure(detail, is_final=True)
        except smtplib.SMTPRecipientsRefused as error:
            return self._judge_refused(notice, error.recipients, discretion)
        except smtplib.SMTPResponseException as error:
            said = f"{place} answered {_reply(error.smtp_code, error.smtp_error)}"
            return discretion.failure(said, is_final=error.smtp_code >= _FINAL_FROM)
        except (smtplib.SMTPException, OSError, ValueError) as error:
            said = str(error) or type(error).__name__
            return discretion.failure(f"{place} could not be asked: {said}")
        return self._judge_refused(notice, refused, discretion)

    def _password(self, discretion: DeliverySecrets) -> str | None:
        plan = self._plan
        if plan.password is None:
            return None
        password = discretion.read(plan.password, self._field).reveal()
        if not password.isascii() or not password.isprintable():
            problem = "holds characters that no mail server takes"
            raise NoSecret(self._field, plan.password.secret, problem, "give printable ASCII")
        # As it goes over the wire, and as a server may repeat it.
        discretion.conceal(f"\0{plan.username}\0{password}")
        return password

    def _send(self, notice: AlertNotice, tether: DeliveryDeadline, password: str | None) -> Refused:
        """Send it, and return who was refused while others were not."""
        plan = self._plan
        addresses = mail_addresses(plan, self._surroundings)
        tether.check()
        missing = [one for one in plan.recipients if one not in self._reached_by(notice)]
        server = MailServer(plan, addresses, tether)
        try:
            server.secure()
            if password is not None:
                assert plan.username is not None, "a password comes with a name"
                server.login(plan.username, password)
            tether.check()
            message = compose_mail(plan, notice).as_bytes()
            refused = server.sendmail(plan.sender, missing, message)
            self._remember(notice, [one for one in missing if one not in refused])
            # It has the message: what comes after that takes nothing back.
            with contextlib.suppress(smtplib.SMTPException, OSError):
                server.quit()
        finally:
            server.close()
        return refused

    def _judge_refused(
        self, notice: AlertNotice, refused: Refused, discretion: DeliverySecrets
    ) -> DeliveryResult:
        if not refused:
            return DONE
        told = "; ".join(f"{who}: {_reply(*reply)}" for who, reply in refused.items())
        said = f"{self._plan.place} refused {len(refused)} of {len(self._plan.recipients)}: {told}"
        is_final = all(code >= _FINAL_FROM for code, _ in refused.values())
        failure = discretion.failure(said, is_final=is_final)
        if is_final and self._reached_by(notice):
            # Somebody has it. That an address is wrong is said, and no reason to repeat it.
            return DeliveryResult(is_done=True, detail=failure.detail)
        return failure

    def _reached_by(self, notice: AlertNotice) -> frozenset[str]:
        with self._lock:
            return self._reached.get(notice.id, frozenset())

    def _remember(self, notice: AlertNotice, reached: list[str]) -> None:
        with self._lock:
            known = self._reached.pop(notice.id, frozenset())
            self._reached[notice.id] = known | frozenset(reached)
            while len(self._reached) > REMEMBERED_MAX:
                self._reached.popitem(last=False)


def compose_mail(plan: MailPlan, notice: AlertNotice) -> EmailMessage:
    """Write the message: the same in every try, and in one thread with others of its alert."""
    domain = plan.sender.rpartition("@")[2]
    message = EmailMessage(policy=_POLICY)
    message["From"] = plan.sender
    message["To"] = ", ".join(plan.recipients)
    message["Subject"] = for_header(subject_line(notice))
    message["Date"] = format_datetime(notice.at)
    message["Message-ID"] = f"<{notice.id}@{domain}>"
    message["References"] = f"<{notice.alert_id}.alert@{domain}>"
    # So that nobody's "I am on holiday" comes back.
    message["Auto-Submitted"] = "auto-generated"
    if notice.severity == PAGE and not notice.is_resolved:
        message["Importance"] = "high"
    plain, page = plain_text(notice), page_text(notice)
    message.set_content(plain)
    message.add_alternative(page, subtype="html")
    # Not drawn, so that each try is the same; and no text can hold a digest of itself.
    message.set_boundary(blake2b((plain + page).encode(), digest_size=16).hexdigest())
    return message


def _reply(code: int, text: bytes | str) -> str:
    said = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return f"{code} {said}"

"""A mail server in our hands: connected to where it was checked to be, and bounded in its words."""

from __future__ import annotations

import ipaddress
import smtplib
import socket
import ssl
from typing import TYPE_CHECKING

from duly.domain.alert_channels import NO_TLS, STARTTLS, TLS
from duly.domain.instants import SECOND_US
from duly.domain.web_addresses import MAIL_PORTS, Place, judge
from duly.engine.addresses import ADDRESSES_MAX, RefusedAddress
from duly.engine.notifying.patience import CUT_S_MAX

if TYPE_CHECKING:
    from typing import BinaryIO

    from duly.domain.alert_channels import MailPlan
    from duly.domain.web_addresses import IpAddress
    from duly.engine.notifying.delivery import ChannelSurroundings
    from duly.engine.notifying.patience import Tether

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
        problem = judge(Place(plan.host, ip, plan.port), surroundings.allow, MAIL_PORTS)
        if problem is None and plan.security == NO_TLS and plan.is_loopback and not ip.is_loopback:
            problem = "another machine, and without TLS"
        if problem is not None:
            leads = "is" if str(ip) == plan.host else f"leads to {ip}, which is"
            raise RefusedAddress(f"{plan.host} {leads} {problem}")
    return found[:ADDRESSES_MAX]


class MailServer(smtplib.SMTP):
    """A conversation with a mail server."""

    def __init__(self, plan: MailPlan, addresses: list[IpAddress], tether: Tether) -> None:
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

"""Alerts by mail: one message for each notice, through a mail server, with TLS unless it is ours.

A server that answers 4xx is asked again, one that answers 5xx is not. Of several recipients those
who were taken are not written to again while this process lives; after it they may be, and tell it
by the Message-ID, which is made of the delivery's id.
"""

from __future__ import annotations

import contextlib
import smtplib
import threading
from collections import OrderedDict
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import format_datetime
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING

from duly.domain.alert_messages import PAGE, page_text, plain_text, subject_line
from duly.domain.harmless import for_header
from duly.engine.addresses import RefusedAddress
from duly.engine.notifying.delivery import DONE, DeliveryResult, Discretion
from duly.engine.notifying.mail_server import MailServer, mail_addresses
from duly.engine.notifying.patience import Patience
from duly.errors import NoSecret, UsageError

if TYPE_CHECKING:
    from uuid import UUID

    from duly.domain.alert_channels import MailPlan
    from duly.domain.alert_messages import AlertNotice
    from duly.engine.notifying.delivery import ChannelSurroundings
    from duly.engine.notifying.patience import Tether

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
        self._patience = Patience(plan.place, plan.timeout_us, surroundings.wait)
        self._lock = threading.Lock()
        self._reached: OrderedDict[UUID, frozenset[str]] = OrderedDict()

    def deliver(self, notice: AlertNotice) -> DeliveryResult:
        """Send it once, to those who have not got it yet."""
        return self._patience.wait_for(partial(self._attempt, notice))

    def _attempt(self, notice: AlertNotice, tether: Tether) -> DeliveryResult:
        discretion = Discretion(self._surroundings.read_secret)
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

    def _password(self, discretion: Discretion) -> str | None:
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

    def _send(self, notice: AlertNotice, tether: Tether, password: str | None) -> Refused:
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
        self, notice: AlertNotice, refused: Refused, discretion: Discretion
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

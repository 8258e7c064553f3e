"""A real mail server and a real web server that alerts are sent to, and what each was told."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from aiohttp import web

from duly.client.run_context import SecretSources
from duly.domain.outbound_urls import read_allow_list
from duly.engine.alerts.channels import ChannelSurroundings
from duly.engine.alerts.delivery import open_channel
from duly.store.ports.alerts import AlertSettingKind, SetAlertSetting
from duly_conformance.kit import ADA
from tests.engine.alert_channels.rig import Letter, Postbox
from tests.engine.alerts.alert_rig import GuardRoom
from tests.engine.webhooks.rig import Receiver

if TYPE_CHECKING:
    from duly.domain.alert_channels import ChannelConfig
    from duly.engine.alerts.channels import Channel

HEADLINE = re.compile(r"\[Duly (?P<mark>\w+)\] (?P<kind>[a-z-]+): (?P<subject>.+?)(?: \(\w+\))?")


class Message(NamedTuple):
    """What a server was told, whichever it is."""

    change: str
    kind: str
    subject: str
    summary: str
    remedy: str
    id: str
    """The delivery's, by which a receiver knows a repetition."""


class Servers:
    """One of each, for all tests of a file."""

    def __init__(self) -> None:
        self.mail = Postbox()
        self.web = Receiver(_agree)

    def forget(self) -> None:
        """Begin anew with the next test."""
        self.mail.letters.clear()
        self.web.seen.clear()

    def close(self) -> None:
        """End both."""
        self.mail.close()
        self.web.close()

    def mailed(self) -> list[Message]:
        """Return what the mail server was told, in order."""
        return [_read_letter(one) for one in self.mail.letters]

    def posted(self) -> list[Message]:
        """Return what the web server was told, in order."""
        return [_read_post(json.loads(one.body)) for one in self.web.seen]


@dataclass
class TellingRoom(GuardRoom):
    """A guard room whose alerts leave the process: by mail and by webhook."""

    servers: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        mail, hook = self.servers.mail, self.servers.web
        surroundings = ChannelSurroundings(
            read_secret=SecretSources().read,
            clock=self.clock,
            allow=read_allow_list((mail.place, hook.place)),
        )

        def opened(config: ChannelConfig) -> Channel:
            return self.channel if config.kind == "log" else open_channel(config, surroundings)

        self.courier._open_channel = opened  # noqa: SLF001 - the room makes it
        signed = {"url": hook.url, "secret": {"secret": "env:DULY_SECRET_KEY"}}
        for name, kind, options in (("mail", "smtp", mail.options()), ("hook", "webhook", signed)):
            terms = {"kind": kind, "options": options}
            order = SetAlertSetting(
                sort=AlertSettingKind.CHANNEL, name=name, terms=terms, actor=ADA
            )
            self.store.set_alert_term(order)

    def told(self, kind: str) -> list[tuple[str, str]]:
        """Return what was told of a kind, in order: both servers and the log were told the same."""
        logged = [(one.change, one.kind, one.subject) for one in self.channel.notices]
        mailed = [one for one in self.servers.mailed() if one.kind == kind]
        posted = [one for one in self.servers.posted() if one.kind == kind]
        by_mail = [(one.change, one.subject) for one in mailed]

        assert sorted(by_mail) == sorted((one.change, one.subject) for one in posted)
        assert sorted(by_mail) == sorted((how, what) for how, of, what in logged if of == kind)
        for messages in (mailed, posted):
            assert len(messages) == len({one.id for one in messages})
        for alert in self.alerts(kind):
            raised = [one for one in mailed + posted if one.subject == alert.subject]
            assert {(alert.summary, alert.remedy)} == {(one.summary, one.remedy) for one in raised}
        return by_mail


def _read_letter(letter: Letter) -> Message:
    headline = HEADLINE.fullmatch(str(letter.message["Subject"]).strip())
    assert headline is not None, letter.message["Subject"]
    summary, *others = letter.part("plain").replace("\r\n", "\n").split("\n\n")
    is_over = headline["mark"] == "resolved"
    remedy = "" if is_over else others[0].removeprefix("What to do next:\n  ")
    about = (headline["kind"], headline["subject"], summary, remedy)
    return Message("resolved" if is_over else "raised", *about, str(letter.message["Message-ID"]))


def _read_post(body: dict[str, Any]) -> Message:
    told = body["data"]
    about = (told["kind"], told["subject"], told["summary"], told["remedy"])
    return Message(body["type"].removeprefix("alert."), *about, told["delivery"])


async def _agree(_: web.Request) -> web.Response:
    return web.Response(status=204)

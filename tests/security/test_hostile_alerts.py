"""Hostile texts and addresses in alerts: what leaves obeys nobody but the operator."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from duly.domain.alert_channels import ChatPlan, MailPlan, plan_of, read_channel
from duly.domain.alert_messages import (
    log_line,
    mattermost_payload,
    page_text,
    plain_text,
    runbook_of,
    slack_payload,
    subject_line,
    webhook_body,
)
from duly.domain.alert_rules import AlertKind
from duly.engine.alerts.mail_channel import compose_mail
from duly.errors import UsageError
from tests.each_row import each_row
from tests.engine.alert_channels.rig import notice, opened
from tests.engine.webhooks.rig import KEY
from tests.engine.webhooks.test_addresses import NAMES, OUT_OF_BOUNDS, UNREADABLE
from tests.security.corpora import KINDS, MAILS

TEXTS = [text for texts in KINDS.values() for text in texts]
FIELDS = ("subject", "summary", "remedy", "tenant", "kind", "severity")
MAIL = {"host": "mail.example.com", "sender": "duly@example.com", "recipients": ["a@example.com"]}
PLAN = plan_of(read_channel("ops", "smtp", MAIL))
HEADERS = {
    *("auto-submitted", "content-type", "date", "from", "message-id", "mime-version"),
    *("references", "subject", "to", "in-reply-to", "x-auto-response-suppress"),
}
ELEMENTS = {
    "html",
    "head",
    "meta",
    "title",
    "body",
    "h1",
    "h2",
    "p",
    "pre",
    "table",
    "tr",
    "th",
    "td",
}
CALLED = re.compile(r"@[^\W\d]|<[!@#]|://|(?i:www\.\w)")
"""What a chat would obey outside a span of code."""


def read(name, kind, options):
    """Return what a channel's options mean, or the field for which they are refused."""
    try:
        return plan_of(read_channel(name, kind, options))
    except UsageError as error:
        assert error.remedy  # noqa: PT017 - either is right
        return str(error.field)


def _lines(head):
    """Return the headers of a mail, each with the lines that go on."""
    return re.split(rb"\r\n(?![ \t])", head)


def hostile(text):
    """Return a notice that says nothing else, wherever somebody's words may stand."""
    evidence = {text: text, "deep": [{text: text}]}
    return notice(evidence=evidence, **dict.fromkeys(FIELDS, text))


class Elements(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes = set(), set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_becomes_a_header_a_person_or_markup_of_a_mail(kind):
    """Subject and bodies; the message is parsed as its readers do."""
    assert isinstance(PLAN, MailPlan)
    for text in KINDS[kind]:
        sent = compose_mail(PLAN, hostile(text))
        names = [name.lower() for name in sent.keys()]  # noqa: SIM118 - a header may come twice

        assert set(names) <= HEADERS, (text, names)
        assert len(names) == len(set(names)), text
        assert "a@example.com" == sent["To"]
        head, _, _ = sent.as_bytes().partition(b"\r\n\r\n")
        assert set(names) == {one.partition(b":")[0].decode().lower() for one in _lines(head)}, text
        assert str(sent["Subject"]).isprintable(), text
        page = Elements()
        page.feed(page_text(hostile(text)))
        assert page.tags <= ELEMENTS, text
        assert page.attributes <= {"lang", "charset", "style", "align"}, text


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_calls_or_links_anybody_in_a_chat(kind):
    """Outside the span of code, in which nothing is read."""
    for text in KINDS[kind]:
        for payload in (slack_payload(hostile(text)), mattermost_payload(hostile(text))):
            json.dumps(payload).encode()
            said = payload["attachments"][0]["text"]
            before, _, rest = said.partition("Next: `")
            outside = payload["text"] + before + rest.partition("`")[2]

            assert not CALLED.search(outside), (text, outside)


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_begins_a_line_of_a_log_or_leaves_its_place_in_json(kind):
    """Neither in the log, nor in a webhook's body, nor in the plain part of a mail."""
    for text in KINDS[kind]:
        told = hostile(text)

        assert log_line(told).isprintable(), text
        assert subject_line(told).isprintable(), text
        assert all(line.isprintable() for line in plain_text(told).split("\n")), text
        data = json.loads(webhook_body(told))["data"]
        assert text.encode("utf-8", "replace").decode()[:100] in data["summary"][:1000], text


def test_a_runbook_is_named_by_the_kind_and_leads_nowhere_else():
    """Whatever a kind is called, its page is one of ours."""
    known = {runbook_of(str(kind)) for kind in AlertKind}

    assert all(re.fullmatch(r"docs/runbooks/[a-z-]+\.md", one) for one in known)
    for text in TEXTS:
        with pytest.raises(UsageError, match="has no runbook"):
            runbook_of(text)


@each_row("text", MAILS)
@each_row("field", ["sender", "recipients"])
def test_a_mail_address_is_one_address_or_refused(field, text):
    """Nothing in it ends a command or a header."""
    plan = read("ops", "smtp", {**MAIL, field: text})
    if not isinstance(plan, MailPlan):
        assert field == plan
        return
    (kept,) = {plan.sender, *plan.recipients} - {"duly@example.com", "a@example.com"}
    assert re.fullmatch(r"[^\s<>,;:()\[\]\"\\@]+@[a-z0-9.-]+", kept), kept


def look_up(host, port):
    return NAMES.get(host, ["93.184.215.14"])


@each_row("url", [*UNREADABLE, *OUT_OF_BOUNDS])
def test_no_channel_leads_inside(monkeypatch, url):
    """A webhook's URL, and a chat's hook, which is a secret; refused before anybody connects."""
    monkeypatch.setenv("DULY_SECRET_KEY", KEY)
    results = []
    given = {"url": url, "secret": "env:DULY_SECRET_KEY"}
    plan = read("ops", "webhook", given)
    if isinstance(plan, str):
        assert "url" == plan
    else:
        results.append(opened("webhook", given, lookup=look_up).deliver(notice()))
    if "\0" not in url and url.isprintable():
        monkeypatch.setenv("DULY_SECRET_HOOK", url)
        chat = opened("slack", {"url": "env:DULY_SECRET_HOOK"}, lookup=look_up)
        results.append(chat.deliver(notice()))

    assert not [one for one in results if one.is_done], results
    assert all("could not be asked" not in one.detail for one in results), results


INSIDE = sorted(
    {host for host, found in NAMES.items() if host != "public.example"}
    | {
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "[::1]",
        "[fd00::1]",
        "[::ffff:10.0.0.1]",
        "0.0.0.0",  # noqa: S104 - refused
    }
)


@each_row("host", INSIDE)
@each_row("security", ["none", "starttls", "tls"])
def test_no_mail_server_is_inside(host, security):
    """By its name or its address, unless the operator allows it."""
    options = {**MAIL, "host": host, "security": security}
    if isinstance(plan := read("ops", "smtp", options), str):
        assert "host" == plan
        return
    result = opened("smtp", options, lookup=look_up).deliver(notice())

    assert (False, True) == (result.is_done, result.is_final), result


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_an_option_that_does_something_else(kind):
    """Names, hosts, headers; each is refused or kept as it is, never read as two things."""
    for text in KINDS[kind]:
        for name, options in (
            (text, {}),
            ("ops", {"host": text}),
            ("ops", {"username": text, "password": "env:DULY_SECRET_A"}),
        ):
            plan = read(name, "smtp", {**MAIL, **options})
            if isinstance(plan, MailPlan):
                assert (plan.host + (plan.username or "")).isprintable(), text
            else:
                assert plan in {"name", "host", "username"}, text


@pytest.mark.parametrize("kind", KINDS)
def test_a_hook_is_given_by_reference_alone(kind):
    """Whatever else somebody types is refused, and not repeated."""
    for text in KINDS[kind]:
        plan = read("ops", "mattermost", {"url": text})
        if isinstance(plan, ChatPlan):
            assert re.fullmatch(r"(env:\w+|file:/.+)", plan.hook.secret), text
        else:
            assert plan in {"url", "secret"}, text

"""Channels are checked whole before they are kept."""

from __future__ import annotations

import json

import pytest

from duly.domain.alert_channels import ChatPlan, LogPlan, MailPlan, plan_of, read_channel
from duly.domain.secret_refs import SecretReference
from duly.domain.webhooks import WebhookPlan
from duly.errors import UsageError
from tests.each_row import each_row

REFERENCE = {"secret": "env:DULY_SECRET_A"}
HOOK = {"url": "https://example.com/hook", "secret": REFERENCE}
MAIL = {"host": "mail.example.com", "sender": "duly@example.com", "recipients": ["a@example.com"]}
LOGIN = {"username": "duly", "password": REFERENCE}


@each_row(
    ("kind", "options", "kept"),
    [
        ("log", {}, {}),
        ("webhook", HOOK, {**HOOK, "secret": [REFERENCE], "timeout": "10s"}),
        (
            "webhook",
            {
                **HOOK,
                "secret": ["env:A", "file:/b"],
                "headers": {"X-Token": "env:C", "X-Team": "t"},
            },
            None,
        ),
        (
            "webhook",
            {**HOOK, "headers": {"Authorization": REFERENCE}, "timeout": "60s"},
            {
                **HOOK,
                "secret": [REFERENCE],
                "headers": {"Authorization": REFERENCE},
                "timeout": "1m",
            },
        ),
        ("slack", {"url": "env:DULY_SECRET_A"}, {"url": REFERENCE, "timeout": "10s"}),
        ("mattermost", {"url": REFERENCE, "timeout": "5s"}, {"url": REFERENCE, "timeout": "5s"}),
        (
            "smtp",
            {**MAIL, "recipients": "A.b+c@Example.COM", "username": None},
            {
                **MAIL,
                "port": 587,
                "security": "starttls",
                "recipients": ["A.b+c@example.com"],
                "timeout": "30s",
            },
        ),
        (
            "smtp",
            {**MAIL, **LOGIN, "port": 465},
            {**MAIL, **LOGIN, "port": 465, "security": "tls", "timeout": "30s"},
        ),
        (
            "smtp",
            {**MAIL, "host": "[::1]", **LOGIN},
            {**MAIL, **LOGIN, "host": "[::1]", "port": 25, "security": "none", "timeout": "30s"},
        ),
    ],
)
def test_a_channel_is_kept_in_one_form(kind, options, kept):
    if kept is None:
        with pytest.raises(UsageError):
            read_channel("ops", kind, options)
        return
    config = read_channel("ops", kind, options)

    assert kept == config.options
    assert config == read_channel("ops", kind, json.loads(json.dumps(config.options)))


@pytest.mark.parametrize(
    ("kind", "options", "plan"),
    [("log", {}, LogPlan), ("webhook", HOOK, WebhookPlan), ("smtp", MAIL, MailPlan)],
)
def test_a_channel_has_the_plan_of_its_kind(kind, options, plan):
    assert isinstance(plan_of(read_channel("ops", kind, options)), plan)


def test_a_chat_has_its_hook_by_reference():
    plan = plan_of(read_channel("ops", "slack", {"url": REFERENCE}))

    assert (
        ChatPlan(kind="slack", hook=SecretReference("env:DULY_SECRET_A"), timeout_us=10_000_000)
        == plan
    )


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "mail.localhost", "[::1]"])
def test_mail_to_this_machine_needs_no_tls(host):
    plan = plan_of(read_channel("ops", "smtp", {**MAIL, "host": host}))

    assert isinstance(plan, MailPlan)
    assert ("none", 25, True) == (plan.security, plan.port, plan.is_loopback)


def test_mail_to_another_machine_needs_tls_unless_somebody_says_otherwise():
    given: list[dict[str, object]] = [{}, {"security": "none"}, {"security": "tls"}, {"port": 2525}]
    plans = [plan_of(read_channel("ops", "smtp", {**MAIL, **one})) for one in given]

    assert [("starttls", 587), ("none", 25), ("tls", 465), ("starttls", 2525)] == [
        (one.security, one.port) for one in plans if isinstance(one, MailPlan)
    ]


@each_row(
    ("kind", "options", "field"),
    [
        ("log", {"url": "x"}, "options"),
        ("log", [], "options"),
        ("log", None, "options"),
        ("log", {str(one): one for one in range(100)}, "options"),
        ("pager", {}, "kind"),
        (None, {}, "kind"),
        (["log"], {}, "kind"),
        ("webhook", {}, "url"),
        ("webhook", {"url": "https://example.com"}, "secret"),
        ("webhook", {**HOOK, "url": "ftp://example.com"}, "url"),
        ("webhook", {**HOOK, "secret": "canary"}, "secret"),
        ("webhook", {**HOOK, "secret": {"secret": "canary"}}, "secret"),
        ("webhook", {**HOOK, "headers": {"Authorization": "canary"}}, "headers Authorization"),
        ("webhook", {**HOOK, "headers": {"X-Api-Key": "canary"}}, "headers X-Api-Key"),
        ("webhook", {**HOOK, "headers": {"webhook-id": "1"}}, "headers"),
        ("webhook", {**HOOK, "headers": "x"}, "headers"),
        ("webhook", {**HOOK, "timeout": "2m"}, "timeout"),
        ("webhook", {**HOOK, "timeout": "1ms"}, "timeout"),
        ("webhook", {**HOOK, "timeout": 5}, "timeout"),
        ("slack", {}, "url"),
        ("slack", {"url": "https://hooks.slack.example/services/canary"}, "url"),
        ("mattermost", {"url": {"secret": "https://chat.example/hooks/canary"}}, "secret"),
        ("mattermost", {"url": 5}, "url"),
        ("smtp", {}, "host"),
        ("smtp", {**MAIL, "host": ""}, "host"),
        ("smtp", {**MAIL, "host": "mail example"}, "host"),
        ("smtp", {**MAIL, "host": "mail.example.com\r\nQUIT"}, "host"),
        ("smtp", {**MAIL, "port": 0}, "port"),
        ("smtp", {**MAIL, "port": True}, "port"),
        ("smtp", {**MAIL, "port": "25"}, "port"),
        ("smtp", {**MAIL, "security": "ssl"}, "security"),
        ("smtp", {**MAIL, "security": ["tls"]}, "security"),
        ("smtp", {**MAIL, **LOGIN, "security": "none"}, "security"),
        ("smtp", {**MAIL, "username": "duly"}, "password"),
        ("smtp", {**MAIL, "password": REFERENCE}, "username"),
        ("smtp", {**MAIL, "username": "duly", "password": "canary"}, "password"),
        ("smtp", {**MAIL, "username": "a\r\nb", "password": REFERENCE}, "username"),
        ("smtp", {**MAIL, "sender": None}, "sender"),
        ("smtp", {**MAIL, "sender": "Duly <duly@example.com>"}, "sender"),
        ("smtp", {**MAIL, "sender": "a@b.example\r\nBcc: c@d.example"}, "sender"),
        ("smtp", {**MAIL, "sender": "ä@example.com"}, "sender"),
        ("smtp", {**MAIL, "sender": "=?utf-8?q?x=0d=0aBcc=3A_e=40f.ex?=@b.example"}, "sender"),
        ("smtp", {**MAIL, "recipients": []}, "recipients"),
        ("smtp", {**MAIL, "recipients": None}, "recipients"),
        ("smtp", {**MAIL, "recipients": ["a@example.com", "A@example.com"]}, "recipients"),
        ("smtp", {**MAIL, "recipients": ["a@example.com"] * 51}, "recipients"),
        ("smtp", {**MAIL, "recipients": ["a@b@c.example"]}, "recipients"),
        ("smtp", {**MAIL, "recipients": ["@example.com"]}, "recipients"),
        ("smtp", {**MAIL, "recipients": ["a@[10.0.0.1]"]}, "recipients"),
        ("smtp", {**MAIL, "recipients": [".a@example.com"]}, "recipients"),
        ("smtp", {**MAIL, "recipients": ["a b@example.com"]}, "recipients"),
        ("smtp", {**MAIL, "recipients": [5]}, "recipients"),
        ("smtp", {**MAIL, "recipients": ["a" * 65 + "@example.com"]}, "recipients"),
        ("smtp", {**MAIL, "recipents": ["a@example.com"]}, "options"),
    ],
)
def test_what_would_not_work_is_refused_with_its_field_and_no_secret(kind, options, field):
    """One error, before anything is kept; a secret given by mistake is not repeated."""
    with pytest.raises(UsageError) as refused:
        read_channel("ops", kind, options)

    assert field == refused.value.field
    assert refused.value.remedy
    assert "canary" not in str(refused.value) + repr(vars(refused.value))


@each_row("name", ["", "a b", "a/b", "-a", "a" * 101, 5, None, "a\n", "ü"])
def test_a_name_is_a_plain_word(name):
    with pytest.raises(UsageError) as refused:
        read_channel(name, "log", {})

    assert "name" == refused.value.field

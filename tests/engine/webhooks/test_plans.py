"""What a program says about a webhook, and what it is told when that can't be."""

from __future__ import annotations

from datetime import timedelta

import pytest

from duly.domain.secret_refs import SecretReference
from duly.domain.webhooks import read_webhook_plan
from duly.errors import UsageError
from tests.each_row import each_row

URL = "https://example.com/hook"
SECRET = SecretReference("env:HOOK")


def test_a_plan_has_safe_limits_unless_told():
    plan = read_webhook_plan(URL, {"secret": SECRET})

    assert (URL, (SECRET,), ()) == (plan.url, plan.secrets, plan.headers)
    assert (30_000_000, 65_536) == (plan.timeout_us, plan.response_bytes_max)


def test_a_plan_takes_two_secrets_headers_and_limits():
    options = {
        "secret": [SECRET, "file:/run/old"],
        "headers": {"X-Tenant": "acme", "Authorization": SecretReference("env:TOKEN")},
        "timeout": timedelta(seconds=5),
        "response_bytes_max": 0,
    }
    plan = read_webhook_plan(URL, options)

    assert (SECRET, SecretReference("file:/run/old")) == plan.secrets
    assert (("X-Tenant", "acme"), ("Authorization", SecretReference("env:TOKEN"))) == plan.headers
    assert (5_000_000, 0) == (plan.timeout_us, plan.response_bytes_max)


@each_row(
    "headers",
    [
        {"X-Tenant": "acme\r\nX-Admin: 1"},
        {"X-Tenant": "acme\nX-Admin: 1"},
        {"X-Tenant": "acme\rX-Admin: 1"},
        {"X-Tenant": "acme\x00"},
        {"X-Tenant": "Zoë"},
        {"X-Tenant": " acme"},
        {"X-Tenant": "a" * 5_000},
        {"X-Tenant": 5},
        {"X-Tenant\r\nX-Admin": "1"},
        {"X Tenant": "1"},
        {"X-Tenant:": "1"},
        {"": "1"},
        {5: "1"},
        {"Host": "internal"},
        {"host": "internal"},
        {"Content-Length": "0"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "upgrade"},
        {"Content-Type": "text/plain"},
        {"Webhook-Id": "mine"},
        {"webhook-signature": "v1,mine"},
        {"Duly-Fence": "99"},
        {"Idempotency-Key": "mine"},
        {"Accept-Encoding": "gzip"},
        {"Cookie": "a=b"},
        {"Proxy-Authorization": "x"},
        {"X-A": "1", "x-a": "2"},
        {f"X-{number}": "1" for number in range(40)},
        ["X-Tenant"],
        "X-Tenant: acme",
    ],
)
def test_a_header_that_would_change_the_request_is_refused(headers):
    with pytest.raises(UsageError, match="headers"):
        read_webhook_plan(URL, {"secret": SECRET, "headers": headers})


@each_row("secret", [None, [], [SECRET] * 3, 5, "whsec_c2VjcmV0", "hunter2", "env:"])
def test_a_webhook_is_signed_with_one_or_two_references(secret):
    with pytest.raises(UsageError, match="secret") as refused:
        read_webhook_plan(URL, {"secret": secret})

    assert "hunter2" not in str(refused.value)
    assert "c2VjcmV0" not in str(refused.value)


@each_row("timeout", ["0s", "1ms", "11m", "-5s", "soon", 5])
def test_a_time_limit_is_between_a_moment_and_ten_minutes(timeout):
    with pytest.raises(UsageError, match="timeout"):
        read_webhook_plan(URL, {"secret": SECRET, "timeout": timeout})


@each_row("limit", [-1, 1.5, True, "64KB", 2 << 20])
def test_a_limit_of_an_answer_is_a_number_of_bytes(limit):
    with pytest.raises(UsageError, match="response_bytes_max"):
        read_webhook_plan(URL, {"secret": SECRET, "response_bytes_max": limit})


def test_a_refusal_says_what_to_do():
    with pytest.raises(UsageError) as refused:
        read_webhook_plan("ftp://example.com/", {"secret": SECRET})

    assert str(refused.value) == (
        "url: 'ftp://example.com/' is not a web address; "
        "give http or https, as in https://example.com/hook, and no #fragment"
    )

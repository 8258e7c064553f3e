"""Signatures: by the standard's own library and by an independent computation."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from duly.clock import SystemClock
from duly.domain.ids import identity_text
from duly.domain.outcomes import Failed
from duly.domain.runs import AttemptCounts, Reason
from duly.domain.secret_refs import Secret, SecretReference
from duly.domain.webhooks import signing_key
from duly.errors import NoSecret
from duly.store.ports.execution import ClaimedRun
from tests.each_row import each_row
from tests.engine.webhooks.rig import KEY, OLD_KEY, ROOT, SECRETS, claimed_run


def seen_request(receive, sender, **options):
    receiver = receive()
    # The library compares with the real time, and takes five minutes of difference.
    claimed = claimed_run(SystemClock().now_us())
    sender(receiver.place).send(receiver.url, claimed=claimed, **options)
    [seen] = receiver.seen
    return seen


def test_the_standards_own_library_verifies_a_webhook(receive, sender):
    seen = seen_request(receive, sender, arguments={"name": "Zoë", "sum": 1.5, "none": None})
    verified = Webhook(KEY).verify(seen.body, seen.headers)

    assert {"name": "Zoë", "sum": 1.5, "none": None} == verified["data"]


def test_the_library_refuses_it_with_another_secret_or_another_body(receive, sender):
    seen = seen_request(receive, sender)

    with pytest.raises(WebhookVerificationError):
        Webhook(OLD_KEY).verify(seen.body, seen.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(KEY).verify(seen.body.replace(b"42", b"43"), seen.headers)


def test_while_a_secret_is_replaced_both_verify(receive, sender):
    seen = seen_request(receive, sender, secret=["env:HOOK", "env:OLD_HOOK"])
    Webhook(KEY).verify(seen.body, seen.headers)
    Webhook(OLD_KEY).verify(seen.body, seen.headers)

    assert len(seen.headers["webhook-signature"].split(" ")) == 2


def test_a_signature_is_what_the_standard_says(receive, sender):
    """Computed here from its definition, without any of our code."""
    seen = seen_request(receive, sender)
    key = base64.b64decode(KEY.removeprefix("whsec_"))
    head = f"{seen.headers['webhook-id']}.{seen.headers['webhook-timestamp']}."
    digest = hmac.new(key, head.encode() + seen.body, hashlib.sha256).digest()

    assert f"v1,{base64.b64encode(digest).decode()}" == seen.headers["webhook-signature"]


def test_attempts_of_one_run_share_the_id_and_differ_in_time_and_signature(receive, sender):
    """The receiver can tell a repetition, and refuse a replay."""
    receiver = receive()
    sending = sender(receiver.place)
    first = claimed_run()
    later = first.claimed_at + 60_000_000
    second = ClaimedRun.of(first.record, AttemptCounts(fence=8, attempt=4), later)
    for claimed in (first, second):
        sending.send(receiver.url, claimed=claimed)
    one, other = (seen.headers for seen in receiver.seen)

    assert identity_text(ROOT) == one["webhook-id"] == other["webhook-id"]
    assert 60 == int(other["webhook-timestamp"]) - int(one["webhook-timestamp"])
    assert one["webhook-signature"] != other["webhook-signature"]
    assert ("4", "8") == (other["duly-attempt"], other["duly-fence"])


@each_row(
    "value",
    ["hunter2", "whsec_c2hvcnQ=", "whsec_!!!!", "whsec_" + "QUFB" * 30, "Ünïcode" * 6],
)
def test_what_is_no_signing_secret_is_refused_without_being_shown(value):
    with pytest.raises(NoSecret) as refused:
        signing_key(Secret(value), SecretReference("env:HOOK"), "secret")

    assert "env:HOOK" in str(refused.value)
    assert value not in str(refused.value)


def test_a_bad_signing_secret_ends_the_attempt_before_anything_is_sent(
    receive, sender, monkeypatch
):
    receiver = receive()
    monkeypatch.setitem(SECRETS, "env:HOOK", "hunter2")
    end = sender(receiver.place).send(receiver.url)

    assert isinstance(end, Failed)
    assert (Reason.NO_SECRET, True) == (end.reason, end.is_retryable)
    assert ("hunter2" in end.error, []) == (False, receiver.seen)

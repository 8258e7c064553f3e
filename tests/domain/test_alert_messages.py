"""What alerts say, and that no text in them does anything where it is read."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.alert_messages import (
    RUNBOOK_KINDS,
    AlertNotice,
    for_mattermost,
    for_slack,
    log_line,
    mattermost_payload,
    one_line,
    page_text,
    plain_json,
    plain_text,
    runbook_of,
    slack_payload,
    subject_line,
    webhook_body,
)
from duly.errors import UsageError
from tests.each_row import each_row

START = datetime(2026, 4, 3, 0, 0, tzinfo=UTC)


def notice(**other):
    said = {
        "id": UUID(int=1),
        "alert_id": UUID(int=2),
        "kind": "late-run",
        "change": "raised",
        "severity": "warn",
        "tenant": "default",
        "subject": "schedule nightly",
        "summary": "nightly is 7 minutes late.",
        "remedy": "duly run why nightly@2026-04-03T02:00+02:00",
        "evidence": {"late_s": 420, "runs": ["a", "b"]},
        "since": START,
        "at": START + timedelta(minutes=7),
    }
    return AlertNotice(**{**said, **other})


def test_a_subject_says_how_bad_it_is_what_it_is_and_whose():
    assert "[Duly warn] late-run: schedule nightly" == subject_line(notice())
    assert "[Duly resolved] late-run: schedule nightly (acme)" == subject_line(
        notice(change="resolved", tenant="acme")
    )


def test_the_plain_text_says_what_is_so_and_what_to_do():
    assert (
        "nightly is 7 minutes late.\n"
        "\n"
        "What to do next:\n"
        "  duly run why nightly@2026-04-03T02:00+02:00\n"
        "\n"
        "Alert: late-run (warn), raised\n"
        "About: schedule nightly\n"
        "Tenant: default\n"
        "Since: 2026-04-03T00:00:00Z (7 min)\n"
        "Raised: 2026-04-03T00:07:00Z\n"
        "Runbook: docs/runbooks/late-run.md\n"
        "Alert id: 00000000-0000-0000-0000-000000000002\n"
        "Delivery id: 00000000-0000-0000-0000-000000000001\n"
        "\n"
        "Evidence:\n"
        "  late_s: 420\n"
        '  runs: ["a","b"]\n'
    ) == plain_text(notice())


def test_what_is_over_asks_for_nothing():
    told = notice(change="resolved")

    assert "What to do next" not in plain_text(told) + page_text(told)
    assert "duly run why" not in json.dumps([slack_payload(told), mattermost_payload(told)])


def test_a_command_can_be_copied_from_a_chat():
    """The mark between a label's name and its instant calls nobody, and stays as it is."""
    command = "duly run why nightly@2026-04-03T02:00+02:00"

    assert f"Next: `{command}`" in mattermost_payload(notice())["attachments"][0]["text"]
    assert f"Next: {command}" in slack_payload(notice())["attachments"][0]["text"]


def test_nothing_in_a_slack_message_is_read_as_markup():
    payload = slack_payload(notice())

    assert (False, False, "none") == (payload["mrkdwn"], payload["link_names"], payload["parse"])
    assert [] == payload["attachments"][0]["mrkdwn_in"]


def test_a_webhook_has_the_instant_the_kind_and_the_runbook():
    told = json.loads(webhook_body(notice(change="resolved")))

    assert ("alert.resolved", "2026-04-03T00:07:00Z") == (told["type"], told["timestamp"])
    assert {
        "delivery": str(UUID(int=1)),
        "alert": str(UUID(int=2)),
        "kind": "late-run",
        "severity": "warn",
        "tenant": "default",
        "subject": "schedule nightly",
        "summary": "nightly is 7 minutes late.",
        "remedy": "duly run why nightly@2026-04-03T02:00+02:00",
        "evidence": {"late_s": 420, "runs": ["a", "b"]},
        "since": "2026-04-03T00:00:00Z",
        "at": "2026-04-03T00:07:00Z",
        "runbook": "docs/runbooks/late-run.md",
    } == told["data"]


def test_a_kind_that_nobody_knows_still_has_a_notice():
    told = notice(kind="of-tomorrow")

    assert told.runbook is None
    assert "Runbook" not in plain_text(told)
    assert json.loads(webhook_body(told))["data"]["runbook"] is None
    with pytest.raises(UsageError):
        runbook_of("of-tomorrow")


def test_every_kind_has_its_own_page():
    assert len(RUNBOOK_KINDS) == len({runbook_of(kind) for kind in RUNBOOK_KINDS}) >= 15


@each_row(
    ("text", "seen"),
    [
        ("a\r\nBcc: b", "a Bcc: b"),
        ("a\u2028b\x0bc\u00a0d", "a b c d"),
        ("gnp.\u202eexe", "gnp.\\u202eexe"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("\x1b[31mred\x00", "\\x1b[31mred\\x00"),
        ("\ud800", "\\ud800"),
        ("naïve 日報 🕑", "naïve 日報 🕑"),
        ("x" * 30, "x" * 19 + "…"),
        ("  a   b ", "a b"),
    ],
)
def test_a_line_is_what_it_looks_like(text, seen):
    assert seen == one_line(text, 20)


@each_row(
    ("text", "slack", "mattermost"),
    [
        ("@channel", "@\u200bchannel", "@\u200bchannel"),
        ("<!here>", "&lt;!here&gt;", "<\u200b\\!here>"),
        ("<@U123>", "&lt;@\u200bU123&gt;", "<\u200b@\u200bU123>"),
        ("https://a.example", "https:\u200b//a.example", "https:\u200b//a.example"),
        ("www.a.example", "www.\u200ba.example", "www.\u200ba.example"),
        ("[a](b)", "[a](b)", "\\[a\\]\\(b\\)"),
        ("a_b*c", "a_b*c", "a\\_b\\*c"),
        ("~town", "~\u200btown", "\\~\u200btown"),
        ("nightly@2026", "nightly@2026", "nightly@2026"),
        ("a & b", "a &amp; b", "a & b"),
    ],
)
def test_words_call_nobody_in_a_chat(text, slack, mattermost):
    assert (slack, mattermost) == (for_slack(text), for_mattermost(text))


WRITTEN = st.text(st.characters(), max_size=60) | st.sampled_from(
    ["@all", "<!channel>", "</td><script>", "`\n```", "\r\nTo: x", '"=" ', "{{x}}", "&#0;", "\\"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WRITTEN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WRITTEN, inner, max_size=4),
    max_leaves=20,
)
NOTICES = st.fixed_dictionaries(
    dict.fromkeys(("kind", "change", "severity", "tenant", "subject", "summary"), WRITTEN)
    | {"remedy": WRITTEN, "evidence": st.dictionaries(WRITTEN, JSON, max_size=6)}
).map(lambda fields: notice(**fields))


class Elements(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def handle_starttag(self, tag, attrs):
        self.found.add((tag, *(name for name, _ in attrs)))


@given(NOTICES)
def test_whatever_a_notice_says_each_place_gets_its_own_shape_and_no_more(told):
    """Nothing raises, and nothing that somebody wrote becomes structure."""
    parser = Elements()
    parser.feed(page_text(told))

    assert parser.found <= {
        *(("html", "lang"), ("head",), ("meta", "charset"), ("title",), ("body",)),
        *(
            ("h1", "style"),
            ("p",),
            ("pre",),
            ("table",),
            ("tr",),
            ("th", "align"),
            ("td",),
            ("h2",),
        ),
    }
    assert subject_line(told).isprintable()
    assert log_line(told).isprintable()
    assert all(line.isprintable() for line in plain_text(told).split("\n"))
    assert json.loads(webhook_body(told))["data"]["delivery"] == str(told.id)
    for payload in (slack_payload(told), mattermost_payload(told)):
        json.dumps(payload).encode()
        text = payload["attachments"][0]["text"]
        # What is in the span of code is read by nobody; it ends at the next mark.
        before, _, rest = text.partition("Next: `")
        outside = payload["text"] + before + rest.partition("`")[2]
        assert not re.search(r"@[^\W\d]|<!|<@|://", outside)


def test_evidence_is_bounded_and_says_what_is_left_out():
    evidence = {"rows": list(range(500)), "huge": 10**5000, "nan": float("nan"), "what": object()}
    told = json.loads(webhook_body(notice(evidence=evidence)))["data"]["evidence"]

    assert "… 400 more" == told["rows"][-1]
    assert ("a number too large to be shown", "nan") == (told["huge"], told["nan"])
    assert "a value of type object" == told["what"]


def test_evidence_that_does_not_fit_is_named():
    evidence = {"first": 1, "large": ["x" * 2000] * 20, "last": 2}
    told = json.loads(webhook_body(notice(evidence=evidence)))["data"]["evidence"]

    assert {"first": 1, "large": "…", "last": "…"} == told


def test_evidence_that_goes_deep_ends_somewhere():
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]

    assert len(json.dumps(plain_json(deep))) < 100


def test_people_are_shown_as_much_evidence_as_they_read():
    lines = plain_text(notice(evidence={f"name-{one}": one for one in range(100)})).splitlines()

    assert "  …: 80 more" == lines[-1]


def test_a_log_line_can_be_taken_apart():
    line = log_line(notice(subject='schedule "a" b=c\\'))

    assert 'subject="schedule \\"a\\" b=c\\\\"' in line
    assert line.startswith("alert.raised kind=late-run change=raised severity=warn")

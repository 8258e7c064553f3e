"""Alerts in the console: what is wrong, who was told, and what a person says about it."""

from __future__ import annotations

import html
import re
from uuid import UUID

import pytest

from duly.domain.alert_rules import USUAL, AlertKind, Rulebook
from duly.engine.alerts.watcher import Watcher, WatcherIdentity
from duly.web.formatting import MARKS
from duly_conformance import alerts
from tests.web.test_editor import text_of

MAIN = re.compile("<main.*</main>", re.DOTALL)


def without_markup(page):
    return re.sub(r"<[^>]+>", "", page)


def raised(visitor, subject="queue mail", **parts):
    """Have an alert raised, as a watcher would; return its id."""
    store = visitor.app.store
    seen = [alerts.condition(one.subject, tenant=one.tenant, kind=one.kind) for one in open_(store)]
    new = alerts.condition(subject, **parts)
    alerts.look(store, alerts.watch(store), *seen, new)
    visitor.clock.advance("1s")
    (found,) = [one for one in open_(store) if one.subject == subject and one.kind is new.kind]
    return UUID(bytes=found.id)


def open_(store):
    return [one for one in alerts.listed(store) if one.state == "open"]


def test_nothing_wrong_is_said_so(visitor):
    """An empty list says what is looked for; the strip has no word of alerts."""
    page = visitor.get("/alerts").text

    assert "Nothing is wrong" in page
    assert "open-alerts" not in page


def test_what_a_watcher_found_is_listed_and_shown(visitor):
    """By the real observers: a run in doubt, with evidence, remedy, runbook and channel."""
    app, clock = visitor.app, visitor.clock
    Watcher(app.store, clock._clock, WatcherIdentity(holder=b"w" * 16)).tick()  # noqa: SLF001 - its time
    (alert,) = app.alerts.list(kind="ambiguous-run")
    listed = text_of(visitor.get("/alerts"))
    one = text_of(visitor.get(f"/alerts/{alert.id}"))

    assert "ambiguous-run" in listed
    assert alert.summary in listed
    for part in (alert.subject, "docs/runbooks/ambiguous-run.md", "log", "raised", "on its way"):
        assert part in one
    assert alert.remedy.split(";")[0] in one
    assert (
        f'href="/runs/{alert.subject.removeprefix("run ")}'
        in visitor.get(f"/alerts/{alert.id}").text
    )


@pytest.mark.parametrize(("count", "said"), [(1, "1 open alert"), (3, "3 open alerts")])
def test_the_strip_counts_what_is_open_and_the_lights_stay_two(visitor, count, said):
    """A count that leads to the list, and no third light."""
    before = visitor.get("/runs").text
    for number in range(count):
        raised(visitor, f"queue q{number}")
    after = visitor.get("/runs").text
    told = without_markup(after)

    assert 'class="open-alerts" href="/alerts"' in after
    assert said in told
    assert said + "s" not in told
    assert 2 == before.count('class="light"') == after.count('class="light"')


def test_filters_stand_in_the_address(visitor):
    """Of a state, of a kind; what is over has when it was."""
    store = visitor.app.store
    raised(visitor, "queue gone")
    alerts.look(store, alerts.watch(store))
    raised(visitor, "queue slow")
    raised(visitor, "queue slow", kind=AlertKind.QUEUE_DEPTH)

    def subjects(query):
        return sorted(re.findall(r"of (queue \w+)</span>", visitor.get(f"/alerts?{query}").text))

    assert ["queue slow"] * 2 == subjects("")
    assert ["queue gone"] == subjects("state=resolved")
    assert ["queue slow"] == subjects("kind=queue-depth")
    assert ["queue gone", "queue slow"] == subjects("state=all&kind=queue-age")
    assert 422 == visitor.get("/alerts?state=nonsense").status_code
    assert 422 == visitor.get("/alerts?kind=nonsense").status_code


def test_a_long_list_goes_on_where_it_ended(visitor, monkeypatch):
    """By a cursor; each alert on one page, and none twice."""
    monkeypatch.setattr("duly.web.pages.alerts.PAGE_SIZE", 2)
    names = [f"queue q{number}" for number in range(5)]
    for name in names:
        raised(visitor, name)
    found = []
    path: str | None = "/alerts"
    while path:
        page = visitor.get(path).text
        found.append(re.findall(r"of (queue \w+)</span>", page))
        after = re.search(r'rel="next" href="([^"]+)"', page)
        path = None if after is None else after[1]

    assert [2, 2, 1] == [len(one) for one in found]
    assert names[::-1] == [name for one in found for name in one]


def test_a_cursor_that_is_none_is_refused(visitor):
    """With what it is."""
    assert visitor.get("/alerts?cursor=nonsense").status_code in {404, 422}


def test_an_alert_is_acknowledged_with_a_reason(visitor):
    """Who looks after it stands on its page and in the trail; without a reason it is not."""
    place = f"/alerts/{raised(visitor)}"
    refused = visitor.post(f"{place}/acknowledge", {})
    visitor.post(f"{place}/acknowledge", {"reason": "restarting the workers"})
    page = text_of(visitor.get(place))
    last = visitor.app.audit.page(limit=1, all_tenants=True).items[0]

    assert 422 == refused.status_code
    assert "by anna: restarting the workers" in page
    assert f'action="{place}/acknowledge"' not in visitor.get(place).text
    assert ("alert.acknowledged", "anna") == (last.action, last.actor)


def test_an_alert_is_silenced_for_a_while_and_that_is_undone(visitor):
    """Of this kind about this subject alone; the next page offers to speak again."""
    alert = raised(visitor)
    visitor.post(f"/alerts/{alert}/silence", {"duration": "2h", "reason": "known"})
    (silence,) = visitor.app.alerts.silences()
    page = visitor.get(f"/alerts/{alert}").text
    end = f"/alerts/silences/{silence.id}/end"

    assert (("queue-age",), "queue mail", "known") == (
        silence.kinds,
        silence.subject,
        silence.reason,
    )
    assert f'action="{end}"' in page
    assert "queue mail" in text_of(visitor.get("/alerts/silences"))

    visitor.post(end, {"reason": "undone"})

    assert [] == visitor.app.alerts.silences()
    assert 404 == visitor.post(end, {"reason": "again"}).status_code


def test_some_alerts_are_silenced_before_they_are_raised(visitor):
    """By subject and kind; a reason and a time are needed, and what is wrong is said."""
    said = {"subject": "schedule nightly-*", "kind": "late-run", "reason": "the database moves"}
    without = visitor.post("/alerts/silences", said)
    visitor.post("/alerts/silences", {**said, "duration": "8h"})
    (silence,) = visitor.app.alerts.silences()

    assert 422 == without.status_code
    assert "duration" in without.text
    assert (("late-run",), "schedule nightly-*") == (silence.kinds, silence.subject)


def test_every_rule_is_shown_with_its_threshold_and_whether_somebody_set_it(visitor):
    """What is usual is said to be the default."""
    visitor.app.alerts.set_rule("queue-age", threshold="15m", reason="slow by nature")
    told = text_of(visitor.get("/alerts/rules"))

    for rule in Rulebook().rules():
        assert rule.name in told
        assert USUAL[rule.kind].meaning in told
    assert "15 min set by" in told
    assert "100 ms default" in told
    rows = visitor.get("/alerts/rules").text.count('<span class="note">default</span>')
    assert len(AlertKind) - 1 == rows


def test_a_rule_is_changed_and_that_is_undone(visitor):
    """All its terms; undoing what was the first word takes it back to the default."""
    terms = {"threshold": "20m", "hold_for": "1m", "clear_for": "5m", "severity": "page"}
    visitor.post(
        "/alerts/rules/queue-age", {**terms, "channels": "log", "reason": "x", "version": "0"}
    )
    rule = rule_of(visitor, "queue-age")
    undo = visitor.said()

    assert (1200, "1m", "5m", "page", ("log",), True) == (
        rule.threshold, rule.hold_for, rule.clear_for, rule.severity, rule.channels, rule.is_on
    )  # fmt: skip
    assert "/alerts/rules/queue-age/reset" in undo

    visitor.post("/alerts/rules/queue-age/reset", {"reason": "undone"})

    assert rule_of(visitor, "queue-age").is_default
    assert 404 == visitor.post("/alerts/rules/queue-age/reset", {"reason": "x"}).status_code


def test_a_rule_that_somebody_else_changed_meanwhile_is_not_overwritten(visitor):
    """Who saw an older one is shown what differs, and who goes on from there is taken."""
    form = fields_of(visitor.get("/alerts/rules/queue-age").text)
    visitor.app.alerts.set_rule("queue-age", threshold="7m", severity="page")
    mine = {**form, "threshold": "540", "hold_for": "2m", "reason": "x"}
    answer = visitor.post("/alerts/rules/queue-age", mine)
    told = text_of(answer)

    assert 409 == answer.status_code
    assert "changed this rule while you were editing" in told
    assert "both changed it: yours is below 300 420 540" in told
    assert "you changed it 0s 0s 2m" in told
    assert "they changed it: taken over below warn page warn" in told
    assert (420, "0s") == (
        rule_of(visitor, "queue-age").threshold,
        rule_of(visitor, "queue-age").hold_for,
    )

    visitor.post("/alerts/rules/queue-age", {**fields_of(answer.text), "reason": "x"})

    rule = rule_of(visitor, "queue-age")
    assert (540, "2m", "page") == (rule.threshold, rule.hold_for, rule.severity)


def test_a_rule_is_not_taken_back_by_who_saw_another(visitor):
    """Neither by an order nor by undoing one."""
    visitor.app.alerts.set_rule("queue-age", threshold="7m")
    seen = rule_of(visitor, "queue-age").version
    visitor.app.alerts.set_rule("queue-age", threshold="8m")
    order = {"reason": "x", "version": str(seen)}
    answer = visitor.post("/alerts/rules/queue-age/reset", order)

    assert answer.status_code in {409, 412}
    assert 480 == rule_of(visitor, "queue-age").threshold


@pytest.mark.parametrize(
    ("field", "value"), [("threshold", "often"), ("hold_for", "9000d"), ("severity", "loud")]
)
def test_what_is_no_rule_is_refused(visitor, field, value):
    """The field, the value and the remedy."""
    answer = visitor.post("/alerts/rules/queue-age", {field: value, "version": "0"})

    assert 422 == answer.status_code
    assert value in answer.text
    assert rule_of(visitor, "queue-age").is_default


def test_channels_are_shown_without_what_opens_them(visitor):
    """Name and kind; neither an address nor where a secret lies."""
    options = {
        "url": "https://hooks.example.com/T0/canary",
        "secret": {"secret": "env:DULY_SECRET_X"},
    }
    visitor.app.alerts.add_channel("ops", "webhook", options, reason="on call")
    page = visitor.get("/alerts/channels").text

    assert "webhook" in page
    assert "on call" in page
    assert "canary" not in page
    assert "DULY_SECRET_X" not in page


def test_a_channel_is_tried(visitor, caplog):
    """The log takes it; a mail server that is not there does not, and that is said."""
    terms = {
        "host": "127.0.0.1",
        "port": 2525,
        "sender": "a@example.com",
        "recipients": ["b@example.com"],
    }
    visitor.app.alerts.add_channel("mail", "smtp", terms)
    well = text_of(visitor.post("/alerts/channels/log/test"))
    ill = text_of(visitor.post("/alerts/channels/mail/test"))

    assert "delivered" in well
    assert any("this is a test of the channel log" in one.getMessage() for one in caplog.records)
    assert "failed" in ill
    assert "127.0.0.1" in ill
    assert 404 == visitor.post("/alerts/channels/nobody/test").status_code


def test_a_tenant_sees_its_own_and_no_rule_or_channel(visitor):
    """What is shared is an operator's."""
    raised(visitor, "queue shared")
    own = raised(visitor, "schedule mine", tenant="school")
    raised(visitor, "schedule theirs", tenant="other")
    visitor.enter("operator", "school")
    page = visitor.get("/alerts").text

    assert ["schedule mine"] == re.findall(r"of ((?:queue|schedule) \w+)</span>", page)
    assert "1 open alert" in without_markup(page)
    assert "/alerts/rules" not in page
    assert {403} == {visitor.get(f"/alerts/{one}").status_code for one in ("rules", "channels")}
    assert "/alerts/rules" not in visitor.get(f"/alerts/{own}").text


def test_who_may_only_look_is_offered_no_order(visitor):
    """Buttons that would be refused are not there."""
    alert = raised(visitor, "schedule mine", tenant="school")
    visitor.app.alerts.silence(reason="x", duration="1h", subject="queue a")
    visitor.enter("viewer", "*")
    paths = ("silences", "rules", "rules/queue-age", "channels", str(alert))
    mains = [MAIN.findall(visitor.get(f"/alerts/{path}").text)[0] for path in paths]

    assert [[]] * len(paths) == [re.findall("<form[^>]*post", one) for one in mains]


def test_what_an_alert_says_is_text_and_nothing_else(visitor):
    """Names of schedules reach the page."""
    hostile = "<script>alert(1)</script>"
    alert = raised(visitor, f"schedule {hostile}", evidence={hostile: hostile})

    for path in ("/alerts", f"/alerts/{alert}"):
        assert hostile not in visitor.get(path).text


def test_states_and_severities_have_marks():
    """A word, a shape and a colour for each."""
    wanted = {f"alert-{one}" for one in ("pending", "open", "resolved", "silenced")}
    wanted |= {"severity-page", "severity-warn"}
    wanted |= {f"delivery-{one}" for one in ("pending", "done", "given-up")}

    assert wanted <= MARKS.keys()
    assert MARKS["severity-page"].icon != MARKS["severity-warn"].icon


def fields_of(page: str) -> dict[str, str]:
    """Return what a form would send, as a browser has it."""
    (form,) = re.findall(
        r'<form method="post" action="[^"]*rules/[^"/]+" class="stack"[^>]*>.*?</form>',
        page,
        re.DOTALL,
    )
    found = {
        name: html.unescape(value)
        for name, value in re.findall(r'name="(version|seen)" value="([^"]*)"', form)
    }
    for name in ("threshold", "hold_for", "clear_for"):
        (field,) = re.findall(rf'<input[^>]*name="{name}"[^>]*>', form)
        found[name] = html.unescape(re.findall(r'value="([^"]*)"', field)[0])
    found["severity"] = re.findall(r"<option selected>(\w+)", form)[0]
    found["is_on"] = re.findall(r'name="is_on" value="(\w+)" checked', form)[0]
    return found


def rule_of(visitor, name):
    return next(one for one in visitor.app.alerts.rules() if one.name == name)


def test_health_tells_of_alerts_that_page(visitor):
    """They are of either light, and nobody looks for them in vain."""
    raised(visitor, kind=AlertKind.AMBIGUOUS_RUN, subject="run 7")
    text = text_of(visitor.get("/health"))

    assert "1 alert is open, and must be looked at now" in text

"""The schedule editor without a browser: what it reads, previews, reviews, saves and refuses."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape

import pytest

import duly
from duly import UsageError, cron, every, monthly, oncalendar, rrule
from duly.web.pages.editor_form import ScheduleForm, read_clock, read_form_rule, rule_fields

GOOD = {"name": "digest", "task": "fail", "time": "09:00", "tz": "Europe/Berlin"}


def text_of(answer):
    """Return a page's words."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", answer.text)))


def form_of(answer):
    """Return the fields of the form on a page, as a browser would send them."""
    whole = re.search(r'<form[^>]*id="(?:editor|review)".*?</form>', answer.text, re.DOTALL)
    assert whole, answer.text
    form = whole[0]
    found = {}
    for tag in re.findall(r"<input[^>]*>", form):
        named = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        if named.get("type") in {"radio", "checkbox"} and " checked" not in tag:
            continue
        if "name" in named and named["name"] != "csrf":
            found[named["name"]] = unescape(named.get("value", ""))
    for name, content in re.findall(
        r'<textarea[^>]*name="(\w+)"[^>]*>(.*?)</textarea>', form, re.DOTALL
    ):
        found[name] = unescape(content)
    for name, content in re.findall(r'<select[^>]*name="(\w+)".*?>(.*?)</select>', form, re.DOTALL):
        chosen = re.search(r'value="([^"]*)"[^>]*selected', content)
        found[name] = unescape(chosen[1]) if chosen else ""
    return found


@pytest.mark.parametrize(("typed", "read"), [
    ("9", "09:00"), ("09:00", "09:00"), ("9:15pm", "21:15"), ("9.15 pm", "21:15"),
    ("12am", "00:00"), ("12 p.m.", "12:00"), ("21h30", "21:30"), ("0915", "09:15"),
    ("noon", "12:00"), ("Midnight", "00:00"), ("7:07", "07:07"), ("23:59", "23:59"),
])  # fmt: skip
def test_any_minute_can_be_typed(typed, read):
    """As people write it."""
    assert read == read_clock(typed)


@pytest.mark.parametrize("typed", ["", "25", "9:60", "13pm", "0pm", "soon", "9:15:00", "9" * 30])
def test_what_is_no_time_is_refused_with_a_remedy(typed):
    """The field and what to write."""
    with pytest.raises(UsageError) as caught:
        read_clock(typed)

    assert "time" == caught.value.field
    assert caught.value.remedy


ZONE = "Europe/Berlin"


@pytest.mark.parametrize(("timetable", "mode"), [
    (cron("0 9 * * 1-5", tz=ZONE), "simple"),
    (cron("5 0 * * *", tz=ZONE), "simple"),
    (cron("30 18 * * 1,3,5", tz=ZONE), "simple"),
    (cron("30 18 * * 0", tz=ZONE), "simple"),
    (cron("0 9 31 * *", tz=ZONE, gap="shift", fold="both"), "simple"),
    (cron("0 9 L * *", tz=ZONE), "simple"),
    (monthly("last business day", "18:00", tz=ZONE), "simple"),
    (monthly("first business day", "18:00", tz=ZONE, calendar="US"), "simple"),
    (cron("0 9 * * 1-5", tz=ZONE).between("2026-01-01", "2026-12-31"), "simple"),
    (cron("0 9 * * 1-5", tz=ZONE).excluding("2026-12-24", "2026-12-31"), "simple"),
    (cron("0 9 * * 1-5", tz=ZONE).on_business_days("DE-BY"), "simple"),
    (cron("*/15 8-17 * * 1-5", tz=ZONE), "advanced"),
    (cron("0 9 1 * 1", tz=ZONE), "advanced"),
    (every("15m"), "advanced"),
    (every("15m").between("2026-01-01", None, tz=ZONE), "advanced"),
    (rrule("FREQ=WEEKLY;BYDAY=MO", dtstart="2026-01-05T09:00", tz=ZONE), "advanced"),
    (oncalendar("Mon..Fri 9:00", tz=ZONE), "advanced"),
    (duly.read_plain("every day at 9 and 18:30", ZONE), None),
    (monthly("3rd last day", "09:00", tz=ZONE), None),
    (cron("0 9 * * 1", tz=ZONE) | cron("0 10 * * 2", tz=ZONE), "stored"),
    (cron("0 9 * * *", tz=ZONE).excluding(cron("0 9 * * 1", tz=ZONE)), "stored"),
    (cron("0 9 * * *", tz=ZONE).excluding("2026-12-24", tz="Asia/Tokyo"), "stored"),
    (every("15m", anchor=datetime(2026, 1, 1, 0, 5, tzinfo=UTC)), "stored"),
])  # fmt: skip
def test_a_rule_goes_through_the_form_without_loss(timetable, mode):
    """As a sentence, as a text, or as it is stored; and back as the very same rule."""
    fields = rule_fields(timetable)
    again = read_form_rule(ScheduleForm(**fields))

    assert mode in {None, fields["mode"]}
    assert _bare(timetable) == _bare(again)


def _bare(timetable):
    """Return a stored rule without the words it was said in, and with names of days alike."""
    text = re.sub(r'"words": "[^"]*",? ?', "", str(timetable.to_json()).replace("'", '"'))
    return text.replace("first business day", "1st business day").rstrip("}").rstrip(", ")


def test_nothing_is_stored_before_the_review_is_confirmed(visitor):
    """The form, then the review, then the schedule; and it says when it first fires."""
    before = len(visitor.app.schedules.list())
    reviewed = visitor.post("/schedules/new", GOOD | {"step": "review"})

    assert 200 == reviewed.status_code
    assert "Nothing is stored yet" in reviewed.text
    assert before == len(visitor.app.schedules.list())

    saved = visitor.post("/schedules/new", form_of(reviewed) | {"step": "save"})
    made = visitor.app.schedules.get("digest")

    assert (303, f"/schedules?made={made.id}") == (saved.status_code, saved.headers["location"])

    told = text_of(visitor.get(saved.headers["location"]))

    assert "Scheduled: every weekday at 09:00 (Europe/Berlin). First: today 09:00 CEST" in told


def test_a_new_schedule_can_be_taken_back(visitor):
    """The undo deletes what was made, and only as it was made."""
    visitor.post("/schedules/new", GOOD | {"step": "save"})
    made = visitor.app.schedules.get("digest")
    fields = {"version": str(made.version), "reason": "undone"}

    assert 303 == visitor.post(f"/schedules/{made.id}/delete", fields).status_code
    assert "deleted" == visitor.app.schedules.get(made.id).status


def test_the_same_form_sent_twice_makes_one_schedule(visitor):
    """A second press of the button is the same order."""
    for _ in range(2):
        assert 303 == visitor.post("/schedules/new", GOOD | {"step": "save"}).status_code

    assert 1 == len(visitor.app.schedules.list(name_prefix="digest"))


def test_the_preview_is_what_the_api_previews(visitor):
    """One engine; the same instants, and nothing is stored."""
    answer = visitor.post("/schedules/preview", GOOD | {"count": "5"})
    timetable = cron("0 9 * * 1-5", tz="Europe/Berlin")
    expected = [one.utc for one in visitor.app.schedules.preview(timetable, None, 5).occurrences]
    shown = re.findall(r'<time datetime="([^"]+)"', answer.text)

    assert [f"{one:%Y-%m-%dT%H:%M:%S.000Z}" for one in expected] == shown
    assert "every weekday at 09:00 (Europe/Berlin)" in text_of(answer)
    assert ["hourly"] == [one.name for one in visitor.app.schedules.list()]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"time": "25:00"}, "“25:00”"),
        ({"mode": "advanced", "text": "7 25 * * *"}, "25"),
    ],
)
def test_the_preview_says_why_there_is_none(visitor, fields, told):
    """The sentence of the review stands there while somebody types."""
    form = GOOD | fields
    shown = visitor.post("/schedules/preview", form)
    reviewed = visitor.post("/schedules/new", form | {"step": "review"})
    [said] = re.findall(r"data-rule-problem>(.*?)</p>", shown.text, re.DOTALL)
    said = re.sub("<[^>]+>", "", unescape(said)).partition(": ")[2]

    assert told in said
    assert said.partition(";")[0] in text_of(reviewed)


def test_the_preview_speaks_of_both_clocks(visitor):
    """The schedule's clock, the viewer's and UTC."""
    answer = visitor.post(
        "/schedules/preview", GOOD, headers={"Cookie": f"duly_zone=Asia/Tokyo;{_cookie(visitor)}"}
    )

    assert "Fri 3 Apr 09:00 CEST" in text_of(answer)
    assert "yours: Fri 3 Apr 16:00 JST" in text_of(answer)
    assert "Fri 3 Apr 07:00 UTC" in text_of(answer)


def _cookie(visitor):
    return f"duly_session={visitor.secret}"


@pytest.mark.parametrize(("fields", "field", "fix"), [
    ({"time": "25"}, "time", None),
    ({"tz": "Berln"}, "tz", "Europe/Berlin"),
    ({"tz": "US/Nowhere"}, "tz", None),
    ({"task": "nothing"}, "task", None),
    ({"task": ""}, "task", None),
    ({"name": ""}, "name", None),
    ({"name": "a@b"}, "name", None),
    ({"arguments": "{"}, "arguments", None),
    ({"arguments": "[1]"}, "arguments", None),
    ({"arguments": '{"how": 3}'}, "arguments", None),
    ({"arguments": '{"what": "x"}'}, "arguments", None),
    ({"repeat": "weekly"}, "days", None),
    ({"repeat": "monthly", "month_day": "32"}, "month_day", None),
    ({"repeat": "never"}, "repeat", None),
    ({"mode": "advanced"}, "text", None),
    ({"mode": "advanced", "text": "0 9 * *"}, "text", None),
    ({"mode": "advanced", "text": "FREQ=WEEKLY;BYDAY=MO"}, "dtstart", None),
    ({"mode": "stored", "stored": "{"}, "stored", None),
    ({"mode": "stored", "stored": '{"kind": "nonsense"}'}, "stored", None),
    ({"start": "2026-12-31", "end": "2026-01-01"}, "end", None),
    ({"away": "tomorrow"}, "away", None),
    ({"calendar": "XX"}, "calendar", None),
    ({"misfire": "nonsense"}, "misfire", None),
    ({"grace": "soon"}, "grace", None),
    ({"not_older": "soon"}, "not_older", None),
    ({"at_most": "many"}, "at_most", None),
    ({"at_most": "0"}, "at_most", None),
    ({"per_minute": "0"}, "per_minute", None),
    ({"jitter": "much"}, "jitter", None),
    ({"overlap": "serialize"}, "serialize_by", None),
    ({"priority": "high"}, "priority", None),
    ({"gap": "nonsense"}, "gap", None),
])  # fmt: skip
def test_what_is_wrong_is_told_at_its_field(visitor, fields, field, fix):
    """Next to the field, with a remedy, and a value where that mends it."""
    answer = visitor.post("/schedules/new", GOOD | fields)
    told = re.search(rf'data-error="{field}" >(.*?)</p>', answer.text, re.DOTALL)

    assert 422 == answer.status_code
    assert told, re.findall(r'data-error="(\w+)" >', answer.text)
    assert f'href="#f-{field}"' in answer.text
    if fix:
        assert f'data-value="{fix}"' in told[1]


def test_everything_wrong_is_told_at_once(visitor):
    """One summary, which takes the focus."""
    answer = visitor.post("/schedules/new", {"time": "25", "tz": "x"})

    assert "things to mend" in answer.text
    assert {"name", "task", "tz"} <= set(re.findall(r'href="#f-(\w+)"', answer.text))


def test_what_the_store_refuses_on_saving_is_told_at_its_field(visitor):
    """A name that is taken, with another one to use."""
    answer = visitor.post("/schedules/new", GOOD | {"name": "hourly", "step": "save"})

    assert 422 == answer.status_code
    assert 'data-value="hourly-2"' in answer.text


def test_a_limit_is_told_before_the_click(visitor):
    """How many of how many are used, and the refusal at the owner."""
    call = visitor.app.call("report")
    for number in range(3):
        visitor.app.schedules.create(f"mine-{number}", call, every("1d"), owner="zoe")
    visitor.app.quotas.set("owner:*", schedules=3)
    shown = visitor.post("/schedules/preview", GOOD | {"owner": "zoe"})
    refused = visitor.post("/schedules/new", GOOD | {"owner": "zoe", "step": "save"})

    assert "3 of 3 active schedules of zoe used" in text_of(shown)
    assert 422 == refused.status_code
    assert re.search(r'data-error="owner" >', refused.text)


def test_an_edit_says_how_it_moves_the_next_run(visitor):
    """From when to when, before anything is saved."""
    visitor.post("/schedules/new", GOOD | {"step": "save"})
    made = visitor.app.schedules.get("digest")
    form = form_of(visitor.get(f"/schedules/{made.id}/edit"))
    reviewed = visitor.post(f"/schedules/{made.id}/edit", form | {"time": "8:00", "step": "review"})

    assert "The next run moves from Fri 3 Apr 09:00 CEST to Fri 3 Apr 08:00 CEST." in text_of(
        reviewed
    )
    assert "At 09:00 08:00" in text_of(reviewed)

    visitor.post(f"/schedules/{made.id}/edit", form_of(reviewed) | {"step": "save", "reason": "so"})

    assert "0 8 * * 1-5" == visitor.app.schedules.get("digest").timetable.to_json()["expression"]
    assert "so" == visitor.app.schedules.history("digest", limit=1)[0].reason


def test_an_edit_that_changes_nothing_changes_nothing(visitor):
    """The rule stays in the words that somebody said, and no version is used up."""
    rule = duly.read_plain("every weekday at 9", "Europe/Berlin")
    made = visitor.app.schedules.create("said", visitor.app.call("report"), rule, jitter="5m")
    form = form_of(visitor.get(f"/schedules/{made.id}/edit"))
    visitor.post(f"/schedules/{made.id}/edit", form | {"step": "save"})
    now = visitor.app.schedules.get("said")

    assert made.version == now.version
    assert "every weekday at 9" == now.timetable.to_json()["words"]


def test_an_owner_can_be_changed_and_not_taken_away(visitor):
    """What could not be kept is told, and not shown as done."""
    call = visitor.app.call("report")
    made = visitor.app.schedules.create("owned", call, every("1d"), owner="zoe")
    form = form_of(visitor.get(f"/schedules/{made.id}/edit"))
    refused = visitor.post(f"/schedules/{made.id}/edit", form | {"owner": ""})
    visitor.post(f"/schedules/{made.id}/edit", form | {"owner": "max", "step": "save"})

    assert re.search(r'data-error="owner" >', refused.text)
    assert "max" == visitor.app.schedules.get("owned").owner


def test_a_stale_edit_is_shown_beside_theirs_and_overwrites_nothing(visitor):
    """What they changed, what I changed, what both did; then I decide."""
    visitor.post("/schedules/new", GOOD | {"step": "save"})
    made = visitor.app.schedules.get("digest")
    form = form_of(visitor.get(f"/schedules/{made.id}/edit"))
    theirs = visitor.app.acting_as("bea", "library")
    theirs.schedules.edit(
        made.id, timetable=cron("30 7 * * 1-5", tz="Europe/Berlin"), overlap="allow"
    )
    answer = visitor.post(f"/schedules/{made.id}/edit", form | {"time": "8:00", "step": "save"})

    assert 409 == answer.status_code
    assert "bea changed this schedule while you were editing" in text_of(answer)
    assert "At both changed it: yours is below 09:00 07:30 08:00" in text_of(answer)
    assert "still runs they changed it: taken over below skip allow skip" in text_of(answer)
    assert "30 7 * * 1-5" == visitor.app.schedules.get("digest").timetable.to_json()["expression"]

    # Whoever has seen it may go on, against what they have seen.
    seen = form_of(answer)
    visitor.post(f"/schedules/{made.id}/edit", seen | {"step": "save"})
    now = visitor.app.schedules.get("digest")

    assert ("0 8 * * 1-5", "allow") == (now.timetable.to_json()["expression"], now.overlap)


def test_line_ends_of_a_browser_change_nothing(visitor):
    """Arguments that come back with other line ends are the same arguments."""
    call = visitor.app.call("fail", {"how": "x"})
    made = visitor.app.schedules.create("lines", call, every("1d"))
    form = form_of(visitor.get(f"/schedules/{made.id}/edit"))
    visitor.app.schedules.edit(made.id, call=visitor.app.call("fail", {"how": "y"}))
    typed = {"arguments": form["arguments"].replace("\n", "\r\n"), "step": "save"}
    seen = form_of(visitor.post(f"/schedules/{made.id}/edit", form | typed))

    assert '{"how": "y"}' == " ".join(seen["arguments"].split()).replace("{ ", "{").replace(
        " }", "}"
    )


def test_a_rule_said_in_another_way_is_not_mixed_with_theirs(visitor):
    """A sentence of mine and a text of theirs do not make a third rule."""
    visitor.post("/schedules/new", GOOD | {"step": "save"})
    made = visitor.app.schedules.get("digest")
    form = form_of(visitor.get(f"/schedules/{made.id}/edit"))
    visitor.app.schedules.edit(made.id, timetable=every("15m"), queue="slow")
    mine = {"time": "8:00", "step": "save"}
    seen = form_of(visitor.post(f"/schedules/{made.id}/edit", form | mine))

    assert ("simple", "8:00", "Europe/Berlin") == (seen["mode"], seen["time"], seen["tz"])
    assert "slow" == seen["queue"]


def test_an_edit_can_be_taken_back(visitor):
    """By the banner, and later by the history; as a change of its own."""
    visitor.post("/schedules/new", GOOD | {"step": "save"})
    made = visitor.app.schedules.get("digest")
    form = form_of(visitor.get(f"/schedules/{made.id}/edit"))
    visitor.post(
        f"/schedules/{made.id}/edit", form | {"time": "8:00", "overlap": "allow", "step": "save"}
    )
    entry = visitor.app.schedules.history("digest", limit=1)[0]
    answer = visitor.post(f"/schedules/{made.id}/revert", {"entry": str(entry.number)})
    now = visitor.app.schedules.get("digest")

    assert 303 == answer.status_code
    assert ("0 9 * * 1-5", "skip") == (now.timetable.to_json()["expression"], now.overlap)
    assert 3 == len(visitor.app.schedules.history("digest"))


def test_only_a_change_of_what_it_says_can_be_taken_back(visitor):
    """A pause is resumed, not reverted."""
    made = visitor.app.schedules.get("hourly")
    answer = visitor.post(f"/schedules/{made.id}/revert", {"entry": "1"})

    assert 422 == answer.status_code


def test_a_duplicate_is_a_new_schedule(visitor):
    """The same under another name, and the first stays as it was."""
    made = visitor.app.schedules.get("hourly")
    form = form_of(visitor.get(f"/schedules/{made.id}/duplicate"))
    visitor.post("/schedules/new", form | {"step": "save"})
    copy = visitor.app.schedules.get("hourly-copy")

    assert made.timetable.to_json() == copy.timetable.to_json()
    assert made.version == visitor.app.schedules.get("hourly").version


def test_saving_with_a_run_does_not_move_the_schedule(visitor):
    """One now, besides the timetable."""
    answer = visitor.post("/schedules/new", GOOD | {"step": "run"})
    made = visitor.app.schedules.get("digest")
    run = visitor.app.runs.list(schedule="digest")[0]

    assert f"/runs/{run.id}" == answer.headers["location"]
    assert "manual" == run.origin
    assert made.timetable.next(made.created_at) == made.next_for


def test_the_way_of_saying_is_switched_by_the_server_too(visitor):
    """Without a script, and with a clear word where it can't be."""
    simple = form_of(visitor.post("/schedules/new", GOOD | {"step": "advanced"}))
    back = form_of(visitor.post("/schedules/new", simple | {"step": "simple"}))
    refused = visitor.post(
        "/schedules/new", GOOD | {"mode": "advanced", "text": "*/5 * * * *", "step": "simple"}
    )

    assert ("advanced", "0 9 * * 1-5") == (simple["mode"], simple["text"])
    assert ("simple", "weekdays", "09:00") == (back["mode"], back["repeat"], back["time"])
    assert "be shown as a sentence" in text_of(refused)
    assert "advanced" == form_of(refused)["mode"]


def test_a_crowded_minute_is_told_with_quieter_ones(visitor):
    """Planned load, and :07 or :23 instead."""
    call, rule = visitor.app.call("report"), cron("0 9 * * 1-5", tz="Europe/Berlin")
    for number in range(4):
        visitor.app.schedules.create(f"crowd-{number}", call, rule)
    told = text_of(visitor.post("/schedules/preview", GOOD))

    assert "5 of 5 active schedules fall due at 09:00, too." in told
    assert "Use 09:07 (0 then)" in told


@pytest.mark.parametrize(("search", "key"), [
    ("berlin", "Europe/Berlin"), ("Germany", "Europe/Berlin"), ("US/Eastern", "America/New_York"),
    ("JST", "Asia/Tokyo"), ("Europe/Paris", "Europe/Paris"),
])  # fmt: skip
def test_a_zone_is_found_by_whatever_people_call_it(visitor, search, key):
    """City, country, alias, abbreviation, IANA id; each row with its clock and offset."""
    answer = visitor.get("/zones", params={"search": search})

    assert f'data-zone="{key}"' in answer.text
    assert re.search(r"\([+-]\d\d:\d\d\)", text_of(answer))


def test_zones_are_offered_before_anybody_types(visitor):
    """Suggested and recent ones; what is no zone is left out."""
    answer = visitor.get("/zones", params=[("recent", "Asia/Tokyo"), ("recent", "Mars/Olympus")])

    assert ["Suggested", "Recent"] == re.findall(r'class="group"[^>]*>(\w+)<', answer.text)
    assert "Mars" not in answer.text


def test_a_preset_fills_in_its_policies(visitor):
    """What nobody says otherwise comes with the kind of work, and its name is kept."""
    page = visitor.get("/schedules/new").text
    fields = {"preset": "one-result", "misfire": "all", "not_older": "none", "overlap": "queue-all"}
    visitor.post("/schedules/new", GOOD | fields | {"step": "save"})
    made = visitor.app.schedules.get("digest")

    assert "every occurrence owes its own result".capitalize() in page
    assert ("one-result", "queue-all") == (made.preset, made.overlap)
    assert {"policy": "all", "not_older": None} == {
        key: made.misfire.to_json()[key] for key in ("policy", "not_older")
    }


HOSTILE = """"><script>alert(1)</script><img src=x onerror=alert(2)>'{{7*7}}"""


def test_what_somebody_types_is_text_in_every_field(visitor):
    """Each field holds markup, and comes back as text: in the form, the preview, the review."""
    fields = {
        name: HOSTILE
        for name in ScheduleForm.__struct_fields__
        if name not in {"version", "count", "days", "step", "mode"}
    }
    for mode in ("simple", "advanced", "stored"):
        for path in ("/schedules/new", "/schedules/preview"):
            answer = visitor.post(path, fields | {"mode": mode})

            assert answer.status_code in {200, 422}
            assert "<script>alert" not in answer.text
            assert "<img src=x" not in answer.text
            assert "49" not in re.findall(r"'(\d+)", answer.text)


def test_a_hostile_name_and_arguments_are_text_on_every_page(visitor):
    """List, detail, review, editor, history."""
    arguments = '{"how": "</pre><script>alert(1)</script>"}'
    visitor.post("/schedules/new", GOOD | {"name": HOSTILE, "arguments": arguments, "step": "save"})
    made = visitor.app.schedules.get(HOSTILE)
    visitor.app.schedules.pause(made.id, reason=HOSTILE)
    for path in ("/schedules", f"/schedules/{made.id}", f"/schedules/{made.id}/edit"):
        text = visitor.get(path).text

        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "&lt;script&gt;" in text


def test_the_editor_stays_light(visitor):
    """Under 150 kB, with forty tasks to choose from."""
    assert len(visitor.get("/schedules/new").content) < 150_000

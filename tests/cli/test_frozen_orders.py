"""Rerun, skip, pause and resume by filter: shown, asked about, done to just that."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from duly.cli.confirm import FrozenOrder, SetOptions
from duly.cli.context import Target
from duly.client.runs import OrderedRun
from duly.client.selections import OrderPreview, PreviewedItem
from duly.domain.ids import RunId
from duly.errors import UsageError
from tests.cli.scripted_worker import PlayedWorker
from tests.timetable.instants import moment

if TYPE_CHECKING:
    from duly.store.sqlite import SqliteStore
    from tests.cli.duly_command import Answer, Workplace

NOON = moment("2026-04-02T12:00Z")
HERE = ("--url", "sqlite:///promises.db")
WHY = ("--reason", "the server is back")


def state(store: SqliteStore, run: UUID) -> str:
    record = store.get_run(RunId(run.bytes))
    assert record is not None
    return str(record.state)


def statuses(place: Workplace) -> dict[str, str]:
    return {one["name"]: one["status"] for one in place.duly("schedule", "list", "--json").json}


def told(answer: Answer, beginning: str) -> list[str]:
    """Return the words of a command that an answer tells, without `duly`."""
    line = next(line for line in answer.out.splitlines() if line.startswith(beginning))
    words = shlex.split(line.removeprefix(beginning))
    assert "duly" == words[0], line
    return words[1:]


@pytest.fixture
def schedules(place: Workplace) -> Workplace:
    for name in ("close", "mail-a", "mail-b"):
        made = place.duly("schedule", "create", name, "--task", "nightly_report", "--when", "1h")
        assert 0 == made.status, made.err
    return place


def test_what_a_dry_run_showed_is_what_is_rerun(place: Workplace, store: SqliteStore):
    """Whatever died or was retried meanwhile."""
    worker = PlayedWorker(store)
    first, second = worker.dead("a"), worker.dead("b")
    worker.dead("other", task="nightly_report")
    shown = place.duly("run", "rerun", "--task", "send_reminder", *WHY, "--dry-run", *HERE)
    later = worker.dead("c")
    place.duly("run", "retry", str(second), "--reason", "mine")
    order = [one if one != "…" else WHY[1] for one in told(shown, "to order just that: ")]
    done = place.duly(*order, "--yes", "--json")

    assert "2 runs as of " in shown.out
    assert re.search(r"selection [0-9a-f-]{36}, kept until .*, digest [0-9a-f]{32}", shown.out)
    assert "Nothing was changed." in shown.out
    assert 0 == done.status, done.err
    assert {
        str(first): (True, None),
        str(second): (False, "was dead when it was seen, and is queued"),
    } == {one["id"]: (one["is_done"], one["why"]) for one in done.json["runs"]}
    made = place.duly("run", "list", "--state", "queued", "--json").json
    assert {str(first): "rerun", str(second): "now"} == {
        one["root"]: one["origin"] for one in made if one["root"] != str(later)
    }
    assert str(later) not in {one["root"] for one in made}


def test_reruns_are_asked_about_and_one_is_taken_back(place: Workplace, store: SqliteStore):
    """Nobody can be asked in a pipe; a person says yes or no."""
    run = PlayedWorker(store).dead("a")
    order = ("run", "rerun", "--cause", "not-retryable", *WHY, *HERE)
    unasked = place.duly(*order)
    declined = place.typed("n\n", *order)
    agreed = place.typed("y\n", *order)
    made = place.duly("run", "list", "--state", "queued", "--json").json

    assert (2, True) == (unasked.status, "1 run would be touched" in unasked.err)
    assert (1, True) == (declined.status, "Nothing was changed." in declined.out)
    assert (0, True) == (agreed.status, "Rerun 1 run? [y/N]" in agreed.out), agreed.out
    assert [(str(run), "rerun")] == [(one["root"], one["origin"]) for one in made]
    assert f"duly run cancel {made[0]['id']}" in agreed.out


def test_above_a_hundred_the_number_is_typed(place: Workplace, store: SqliteStore):
    worker = PlayedWorker(store)
    for number in range(101):
        worker.queue(f"run {number}")
    worker.bury_all()
    order = ("run", "rerun", "--queue", "mail", *WHY)
    declined = place.typed("y\n", *order)
    agreed = place.typed("101\n", *order)

    assert (1, True) == (declined.status, "Type the number to go on" in declined.out)
    assert (0, True) == (agreed.status, "101 runs." in agreed.out), agreed.out
    assert 101 == len(place.duly("run", "list", "--state", "queued", "-n", "500", "--json").json)


def test_doubts_are_skipped_by_filter_with_what_is_left_alone(place: Workplace, store: SqliteStore):
    """Those that are not in doubt are told, and exit well as they were shown."""
    worker = PlayedWorker(store)
    doubts = [worker.doubt(name) for name in ("a", "b")]
    dead = worker.dead("c")
    named = place.duly("run", "skip", str(doubts[0]), str(dead), *WHY, "--yes")
    rest = place.duly("run", "skip", "--task", "send_reminder", *WHY, "--yes", "--json")
    none = place.duly("run", "skip", "--task", "send_reminder", *WHY, "--yes")

    assert (0, "Skipped: 1 run.") == (named.status, named.out.splitlines()[0]), named.err
    assert "is dead, not ambiguous" in named.out
    assert [str(doubts[1])] == [one["id"] for one in rest.json["runs"]]
    assert (0, True) == (none.status, "0 runs as of" in none.out)
    assert ["skipped", "skipped", "dead"] == [state(store, one) for one in (*doubts, dead)]


def test_schedules_are_paused_by_filter_and_taken_back(schedules: Workplace):
    """As they were shown; each has its entry in the trail."""
    place = schedules
    order = ("schedule", "pause", "--prefix", "mail-", "--reason", "moving", *HERE)
    shown = place.duly(*order, "--dry-run", "--json").json
    untouched = statuses(place)
    unasked = place.duly(*order)
    done = place.duly(*order, "--yes")
    paused = statuses(place)
    back = place.duly(*told(done, "undo: "))

    assert (2, 2, ["mail-a", "mail-b"]) == (
        shown["count"],
        shown["touched"],
        [one["name"] for one in shown["first"]],
    )
    assert {"active"} == set(untouched.values())
    assert (2, True) == (unasked.status, "2 schedules would be touched" in unasked.err), unasked.err
    assert (0, "Paused: 2 schedules.") == (done.status, done.out.splitlines()[0])
    assert {"close": "active", "mail-a": "paused", "mail-b": "paused"} == paused
    assert (0, {"active"}) == (back.status, set(statuses(place).values())), back.err
    trail = place.duly("audit", "--json").json
    assert 2 == sum(one["action"] == "schedule.paused" for one in trail)


def test_a_schedule_that_changed_since_the_look_is_left_alone(schedules: Workplace):
    place = schedules
    shown = place.duly("schedule", "pause", "--all", "--reason", "moving", "--dry-run", *HERE)
    place.duly("schedule", "edit", "mail-a", "--when", "2h", "--reason", "mine")
    order = [one if one != "…" else "moving" for one in told(shown, "to order just that: ")]
    done = place.duly(*order, "--yes")

    assert "left alone: mail-a was changed by ada since it was seen" in done.out
    assert (0, "active", "paused") == (
        done.status,
        statuses(place)["mail-a"],
        statuses(place)["mail-b"],
    )


def test_several_schedules_are_named_and_resumed_with_a_reason(schedules: Workplace):
    place = schedules
    paused = place.duly(
        "schedule", "pause", "close", "mail-a", "--reason", "r", "--until", "+2h", "--yes"
    )
    unsaid = place.duly("schedule", "resume", "close", "mail-a", "--yes")
    resumed = place.duly("schedule", "resume", "close", "mail-a", "--yes", *WHY)

    assert (0, "Paused: 2 schedules.") == (paused.status, paused.out.splitlines()[0]), paused.err
    assert (2, True) == (unsaid.status, "reason" in unsaid.err)
    assert "Resumed: 2 schedules." == resumed.out.splitlines()[0], resumed.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "rerun", *WHY), "run is missing"),
        (("run", "rerun", "x", "--task", "y", *WHY), "is chosen in two ways"),
        (("run", "skip", "--selection", "mine", *WHY), "selection"),
        (("schedule", "pause", "--reason", "r"), "name schedules, or choose them"),
        (("schedule", "pause", "x", "--all", "--reason", "r"), "is one way too many"),
        (("run", "rerun", "--task", "y", "--confirm", "z", *WHY), "is about one run"),
    ],
)
def test_what_names_nothing_or_too_much_is_refused(place: Workplace, words, said):
    """Never all by mistake."""
    answer = place.duly(*words)

    assert (2, True) == (answer.status, said in answer.err), answer.err


def test_a_selection_that_is_gone_is_not_found(place: Workplace):
    gone = "0196a1b2-0000-7000-8000-000000000042"
    answer = place.duly("run", "rerun", "--selection", gone, *WHY)

    assert (3, True) == (answer.status, "choose the runs anew" in answer.err), answer.err


ITEM = PreviewedItem(id=UUID(int=1), name="charge@noon", state="dead", why=None)
PREVIEW = OrderPreview(
    id=UUID(int=9),
    of="runs",
    order="rerun",
    digest="d",
    count=1,
    touched=1,
    first=(ITEM,),
    left_alone=(),
    left_by={},
    chosen_by={},
    made_by="ada",
    as_of=NOON,
    expires_at=NOON,
)
ORDER = FrozenOrder(
    verb="Rerun",
    done="Queued",
    noun="run",
    words=("run", "rerun"),
    reason="mended",
    undo=lambda _: None,
    no_undo="none",
    asked=SetOptions(yes=True),
    target=Target(),
)


def test_what_changes_between_the_answer_and_the_order_is_a_conflict(capsys):
    """Less was done than was agreed to, which a script must notice."""
    left = OrderedRun(id=ITEM.id, is_done=False, state="queued", why="is queued now")

    assert 4 == ORDER.out(PREVIEW, lambda: [left])
    assert "left alone: charge@noon is queued now" in capsys.readouterr().out


@pytest.mark.parametrize("asked", [SetOptions(yes=True), SetOptions(dry_run=True), SetOptions()])
def test_more_than_one_order_takes_are_refused_before_anybody_is_asked(asked):
    """And not after somebody has typed how many they are."""
    order = replace(ORDER, asked=asked)

    with pytest.raises(UsageError, match="'1,001 runs' are too many to rerun; choose fewer: 1,000"):
        order.out(replace(PREVIEW, count=1001, touched=1001), list)


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (("resume", "close", "mail-a"), "--reason is missing"),
        (("pause", "close", "mail-a", "--reason", " "), "--reason is missing"),
        (("pause", "close", "mail-a", *WHY, "--until", "-2h"), "until: '-2h' lies in the past"),
    ],
)
def test_what_would_be_refused_is_refused_before_anybody_is_asked(
    schedules: Workplace, order, said
):
    """Nobody looks at a preview, says yes, and is told then."""
    schedules.duly("schedule", "pause", "close", "mail-a", "--reason", "r", "--yes")

    refused = schedules.typed("y\n", "schedule", *order)

    assert (2, True) == (refused.status, said in refused.out), refused.out
    assert "[y/N]" not in refused.out


def test_what_a_dry_run_says_to_type_is_the_same_order(schedules: Workplace):
    """Until when it was to be paused, and what becomes of what is missed."""
    place = schedules
    order = ("schedule", "pause", "--all", *WHY, "--until", "+2h", "--missed", "misfire")
    shown = place.duly(*order, "--dry-run", *HERE)
    again = [one if one != "…" else WHY[1] for one in told(shown, "to order just that: ")]
    done = place.duly(*again, "--yes")
    paused = place.duly("schedule", "show", "close", "--json").json

    assert (0, "Paused: 3 schedules.") == (done.status, done.out.splitlines()[0]), done.err
    assert paused["resume_at"] is not None
    assert "--until +2h --missed misfire --selection" in shown.out
    back = place.duly("schedule", "resume", "--all", "--missed", "misfire", "--dry-run", *HERE)
    assert "--missed misfire --selection" in back.out


def test_a_yes_beside_one_name_changes_nothing_about_the_order(
    place: Workplace, store: SqliteStore
):
    """One that is named is not asked about, so that a yes to no question is harmless."""
    run = str(PlayedWorker(store).dead("a"))
    rerun = place.duly("run", "rerun", run, "--confirm", run, "--yes", *WHY, "--json")

    assert (0, "rerun") == (rerun.status, rerun.json["origin"]), rerun.err

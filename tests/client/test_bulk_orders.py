"""Orders about many things: a frozen set, a look at what would happen, and just that."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

import duly
from duly import Conflict, NotFound, UsageError, every
from duly.client import selections
from duly.client.inbox import LINE_MAX
from duly.domain.ids import RunId, ordered_run_id
from duly.domain.outcomes import Failed
from duly.domain.schedules import TENANT_DEFAULT, canonical_json
from duly.errors import StoreUnavailable
from duly.store.ports.auth import CreateSelection
from duly.store.ports.queries import AuditFilter
from duly_conformance import effects
from duly_conformance import steps as work
from duly_conformance.kit import HOUR_US


@pytest.fixture
def store(kept):
    return kept[0]


@pytest.fixture
def clock(kept):
    return kept[1]


@pytest.fixture
def app(store, clock):
    app = duly.App(store=store, clock=clock, actor="ada")
    app.task(name="remind")(lambda: None)
    store.register_tasks(["remind"])
    return app


def entries(app: duly.App, action: str) -> list[Any]:
    return app.store.list_audit(AuditFilter(tenant=TENANT_DEFAULT, action=action))


def dead(store, *names: str) -> list[UUID]:
    return [UUID(bytes=work.make_dead(store, name)) for name in names]


class TestRerunningMany:
    """`app.selections.rerun`: replay by a person, which is never a retry."""

    def test_each_is_run_once_more_as_another_run_with_its_own_entry(self, app, store):
        ids = dead(store, "a", "b")
        frozen = app.selections.freeze()
        preview = app.selections.preview(frozen.id, "rerun")

        done = app.selections.rerun(frozen.id, reason="the mail server is back")

        assert (2, 2, "rerun", "runs") == (
            preview.count,
            preview.touched,
            preview.order,
            preview.of,
        )
        assert (frozen.digest, ()) == (preview.digest, preview.left_alone)
        assert set(ids) == {one.id for one in preview.first}
        assert {(True, "dead")} == {(one.is_done, one.state) for one in done}
        made = [app.runs.get(one.made) for one in done]
        assert {("rerun", "queued")} == {(run.origin, run.state) for run in made}
        assert {one.id: one.id for one in done} == {
            one.id: run.root for one, run in zip(done, made, strict=True)
        }
        assert ["the mail server is back"] * 2 == [
            one.actor.reason for one in entries(app, "run.rerun")
        ]

    def test_the_same_order_given_again_makes_nothing_more(self, app, store):
        """Whoever got no answer asks again."""
        dead(store, "a", "b")
        frozen = app.selections.freeze()

        first = app.selections.rerun(frozen.id, reason="again")
        second = app.selections.rerun(frozen.id, reason="again")

        assert first == second
        assert 2 == len(app.runs.list(origin="rerun"))

    def test_the_line_of_each_tells_what_repeats_it(self, app, clock):
        """However many of one task and instant were repeated by one order."""
        many = [app.call("remind") for _ in range(LINE_MAX + 1)]
        for one in app.enqueue_many(many):
            app.runs.cancel(one.id)
        clock.advance(HOUR_US)
        frozen = app.selections.freeze(state="cancelled")
        done = app.selections.rerun(frozen.id, reason="after all", confirm=len(many))

        assert 1 == len({run.scheduled_for for run in app.runs.list(limit=1_000)})
        for one in (done[0], done[-1]):
            assert [one.id, one.made] == [run.id for run in app.inbox.line(one.id)]
            assert [one.id, one.made] == [run.id for run in app.inbox.line(one.made)]

    def test_one_that_is_removed_while_it_is_looked_at_stops_none_of_the_others(
        self, app, store, monkeypatch
    ):
        """What is told of each is told, whatever retention does meanwhile."""
        gone, *others = dead(store, "a", "b", "c")
        frozen = app.selections.freeze()
        looks = []

        def get_run(run_id: RunId, tenant: str | None = None) -> Any:
            looks.append(run_id)
            is_gone = run_id == gone.bytes and looks.count(run_id) > 1
            return None if is_gone else read(run_id, tenant)

        read = store.get_run
        monkeypatch.setattr(store, "get_run", get_run)
        done = app.selections.rerun(frozen.id, reason="again")

        assert {gone, *others} == {one.id for one in done}
        assert {*others} <= {one.id for one in done if one.is_done}

    def test_an_id_of_an_order_is_of_one_run(self, app):
        """Two of one task and instant are two, whoever repeats them under one id."""
        first, second = (one.id for one in app.enqueue_many([app.call("remind")] * 2))
        for one in (first, second):
            app.runs.cancel(one)
        wanted = UUID(bytes=ordered_run_id("rerun", app.store.now(), b"mine"))
        made = app.inbox.rerun(first, reason="after all", id=wanted)

        assert made.id == app.inbox.rerun(first, reason="after all", id=wanted).id
        with pytest.raises(Conflict, match="is that of another request"):
            app.inbox.rerun(second, reason="after all", id=wanted)
        assert [first] == [one.root for one in app.runs.list(origin="rerun")]

    def test_what_changed_since_it_was_seen_is_told_and_left_alone(self, app, store, clock):
        """Retried, tried once more, discarded, or run once more by somebody else."""
        ids = dead(store, "a", "b", "c", "d")
        clock.advance(HOUR_US)
        frozen = app.selections.freeze()
        retried, tried, discarded, repeated = ids
        app.runs.retry([tried])
        worker = work.join_worker(store)
        work.end(store, worker, work.take_one(store, worker), work.FATAL)
        app.runs.retry([retried])
        app.runs.discard([discarded])
        app.inbox.rerun(repeated, reason="mine")
        whys = {
            retried: "was dead when it was seen, and is queued",
            tried: "has had another attempt since it was seen",
            discarded: "was dead when it was seen, and is discarded",
            repeated: "has been run once more since it was seen",
        }

        preview = app.selections.preview(frozen.id, "rerun")
        done = app.selections.rerun(frozen.id, reason="again")

        assert (0, whys) == (preview.touched, {one.id: one.why for one in preview.left_alone})
        assert dict.fromkeys(whys.values(), 1) == preview.left_by
        assert whys == {one.id: one.why for one in done}
        assert not any(one.is_done for one in done)
        assert 1 == len(app.runs.list(origin="rerun"))

    def test_of_one_line_one_run_is_repeated(self, app, store, clock):
        """A run and what repeated it, both dead, do the same work."""
        (first,) = dead(store, "a")
        again = app.inbox.rerun(first, reason="again")
        worker = work.join_worker(store)
        work.end(store, worker, work.take_one(store, worker), work.FATAL)
        clock.advance(HOUR_US)
        frozen = app.selections.freeze()

        preview = app.selections.preview(frozen.id, "rerun")
        done = app.selections.rerun(frozen.id, reason="once more")

        assert {first, again.id} == set(frozen.ids)
        assert 1 == preview.touched == sum(one.is_done for one in done)
        assert [one.id for one in preview.first] == [one.id for one in done if one.is_done]

    def test_a_schedule_that_lets_one_go_at_a_time_gets_one(self, app, store, clock):
        """The preview says so, and which one."""
        app.schedules.create("hourly", app.call("remind"), every("1h"), overlap="skip")
        for _ in range(2):
            app.schedules.trigger("hourly")
            worker = work.join_worker(store)
            work.end(store, worker, work.take_one(store, worker), work.FATAL)
        clock.advance(10_000_000)
        frozen = app.selections.freeze()

        preview = app.selections.preview(frozen.id, "rerun")
        done = app.selections.rerun(frozen.id, reason="again")
        last = app.selections.preview(frozen.id, "rerun")

        assert (1, {selections.ONE_AT_A_TIME: 1}) == (preview.touched, preview.left_by)
        assert {True: None, False: selections.ONE_AT_A_TIME} == {
            one.is_done: one.why for one in done
        }
        assert [one.id for one in preview.first] == [one.id for one in done if one.is_done]
        assert 0 == last.touched

    def test_what_may_do_something_twice_is_never_done_in_bulk(self, app, store):
        """It is confirmed for one run alone; a repair does only the rest."""
        claimed = effects.in_doubt(store, "a")
        run_id = UUID(bytes=claimed.record.id)
        app.inbox.reconcile(run_id, is_done=True, reason="looked")
        frozen = app.selections.freeze(state="succeeded")

        (left,) = app.selections.rerun(frozen.id, reason="again")
        (done,) = app.selections.rerun(frozen.id, reason="the rest", repair=True)

        assert (False, True) == (left.is_done, done.is_done)
        assert "does all of its effects a second time" in (left.why or "")
        assert "repair" == app.runs.get(done.made).origin

    def test_blocked_tasks_and_doubts_are_left_alone(self, app, store):
        effects.in_doubt(store, "a")
        dead(store, "b")
        frozen = app.selections.freeze(state=["dead", "ambiguous"])
        whys = app.selections.preview(frozen.id, "rerun").left_by
        app.inbox.block_reruns("remind", reason="broken")
        blocked = app.selections.rerun(frozen.id, reason="again")

        assert {"is in doubt; settle it first, or rerun it as a repair": 1} == whys
        assert {"is of a task that has its reruns blocked"} == {one.why for one in blocked}
        assert [] == app.runs.list(origin="rerun")


class TestSkippingMany:
    """`app.selections.skip`: nobody does more about runs in doubt."""

    def test_each_in_doubt_is_skipped_and_others_are_told(self, app, store):
        doubtful = [UUID(bytes=effects.in_doubt(store, name).record.id) for name in ("a", "b", "c")]
        (other,) = dead(store, "d")
        frozen = app.selections.freeze(ids=[*doubtful, other])
        app.inbox.reconcile(doubtful[0], is_done=True, reason="looked")

        preview = app.selections.preview(frozen.id, "skip")
        done = {one.id: one for one in app.selections.skip(frozen.id, reason="too old")}

        assert (4, 2) == (preview.count, preview.touched)
        assert set(doubtful[1:]) == {one.id for one in done.values() if one.is_done}
        assert "was ambiguous when it was seen, and is succeeded" == done[doubtful[0]].why
        assert "is dead, not ambiguous" == done[other].why
        assert {"skipped"} == {app.runs.get(one).state for one in doubtful[1:]}
        settled = [one for one in entries(app, "run.settled") if one.actor.reason == "too old"]
        assert 2 == len(settled)

    def test_a_doubt_of_another_attempt_is_not_the_one_that_was_seen(self, app, store):
        """It was tried again, and ended in doubt again."""
        first = effects.in_doubt(store, "a")
        run_id = UUID(bytes=first.record.id)
        frozen = app.selections.freeze(state="ambiguous")
        app.inbox.retry(run_id, reason="try", confirm=run_id)
        worker = work.join_worker(store)
        again = work.take_one(store, worker)
        effects.begin(store, worker, again, "mail")
        effects.end_beyond(store, worker, again, Failed("boom"))

        (left,) = app.selections.skip(frozen.id, reason="too old")

        assert "ambiguous" == app.runs.get(run_id).state
        assert (False, "has had another attempt since it was seen") == (left.is_done, left.why)


class TestSchedules:
    """`app.schedule_selections`: pause and resume what was seen."""

    @pytest.fixture
    def names(self, app) -> list[str]:
        names = ["close", "mail-a", "mail-b", "mail-c"]
        for name in names:
            app.schedules.create(name, app.call("remind"), every("1h"), owner="anna")
        return names

    def test_those_that_were_seen_are_paused_and_resumed_with_an_entry_each(self, app, names):
        """What is made meanwhile is not in the set."""
        frozen = app.schedule_selections.freeze(name_prefix="mail-")
        app.schedules.create("mail-d", app.call("remind"), every("1h"))

        done = app.schedule_selections.pause(frozen.id, reason="the server moves")
        paused = app.schedule_selections.freeze(status="paused")
        back = app.schedule_selections.resume(paused.id, reason="it has moved", missed="skip")

        named = app.schedule_selections.freeze(schedules=["close"])
        assert named == app.schedule_selections.get(named.id)
        assert ["mail-a", "mail-b", "mail-c"] == [one.name for one in frozen.sample]
        assert {"name_prefix": "mail-"} == frozen.chosen_by
        assert [(True, "paused", 2)] * 3 == [(one.is_done, one.status, one.version) for one in done]
        assert ["the server moves"] * 3 == [
            one.actor.reason for one in entries(app, "schedule.paused")
        ]
        assert [(True, "active")] * 3 == [(one.is_done, one.status) for one in back]
        assert ["active"] * 5 == [one.status for one in app.schedules.list()]

    def test_what_changed_since_it_was_seen_is_told_and_left_alone(self, app, names):
        """Paused, edited or deleted by somebody; each with its reason."""
        app.schedules.pause("mail-c", reason="before")
        frozen = app.schedule_selections.freeze()
        ben = app.within(tenant=TENANT_DEFAULT, actor="ben")
        ben.schedules.pause("close", reason="mine", until="2030-01-01T00:00Z")
        ben.schedules.edit("mail-a", owner="ben")
        changed = "was changed by ben since it was seen"

        preview = app.schedule_selections.preview(frozen.id, "pause")
        done = {one.name: one for one in app.schedule_selections.pause(frozen.id, reason="all")}

        assert (4, 1, ["mail-b"]) == (
            preview.count,
            preview.touched,
            [one.name for one in preview.first],
        )
        assert {changed: 2, "is paused, not active": 1} == preview.left_by
        assert {"close": changed, "mail-a": changed, "mail-c": "is paused, not active"} == {
            name: one.why for name, one in done.items() if not one.is_done
        }
        assert ("mine", "active") == (
            app.schedules.get("close").reason,
            app.schedules.get("mail-a").status,
        )

    def test_the_same_order_given_again_tells_what_it_has_done(self, app, names, monkeypatch):
        """After a server died in the middle, nobody is told that he was in his own way."""
        frozen = app.schedule_selections.freeze(name_prefix="mail-")
        orders = app.schedule_selections

        pause, done = app.schedules.pause, list[Any]()

        def dies(*of: Any, **terms: Any) -> Any:
            if len(done) == 2:
                raise StoreUnavailable("store", "the connection is gone", "try again")
            done.append(pause(*of, **terms))
            return done[-1]

        monkeypatch.setattr(app.schedules, "pause", dies)
        until = "2099-01-01T00:00Z"
        with pytest.raises(StoreUnavailable):
            orders.pause(frozen.id, reason="deploy", until=until)
        monkeypatch.undo()

        again = orders.pause(frozen.id, reason="deploy", until=until)
        paused = orders.freeze(status="paused")
        back = [orders.resume(paused.id, reason="deployed") for _ in range(2)]

        assert [(True, "paused", 2, None)] * 3 == [
            (one.is_done, one.status, one.version, one.why) for one in again
        ]
        assert back[0] == back[1]
        assert [(True, "active", 3)] * 3 == [
            (one.is_done, one.status, one.version) for one in back[0]
        ]
        assert [3, 3] == [len(entries(app, f"schedule.{one}")) for one in ("paused", "resumed")]

    def test_another_order_is_not_taken_for_the_same(self, app, names):
        """For another reason, until another date, by somebody else, or once more changed."""
        frozen = app.schedule_selections.freeze()
        ben = app.within(tenant=TENANT_DEFAULT, actor="ben")
        app.schedules.pause("close", reason="another")
        app.schedules.pause("mail-a", reason="deploy", until="2099-01-01T00:00Z")
        ben.schedules.pause("mail-b", reason="deploy")
        for _ in range(2):
            app.schedules.pause("mail-c", reason="deploy")

        done = app.schedule_selections.pause(frozen.id, reason="deploy")

        assert {"close": "ada", "mail-a": "ada", "mail-b": "ben", "mail-c": "ada"} == {
            one.name: (one.why or "").removeprefix("was changed by ").partition(" ")[0]
            for one in done
        }
        assert not any(one.is_done for one in done)

    def test_they_resume_by_themselves_where_that_is_said(self, app, names, clock):
        frozen = app.schedule_selections.freeze(schedules=["close", "close"])
        app.schedule_selections.pause(
            frozen.id, reason="deploy", until="2099-01-01T00:00Z", missed="misfire"
        )

        assert (1, 2099) == (len(frozen), app.schedules.get("close").resume_at.year)

    @pytest.mark.parametrize(
        ("terms", "message"),
        [
            ({"reason": " "}, "reason: ' ' is missing"),
            ({"reason": "two\nlines"}, "reason: 'two\\\\nlines' is empty or not printable"),
            ({"reason": "x" * 1001}, "is too long"),
            ({"reason": "r", "until": "2001-01-01T00:00Z"}, "lies in the past"),
            ({"reason": "r", "missed": "perhaps"}, "missed"),
            ({"reason": "r", "confirm": 3}, "holds 4 schedules, not 3"),
        ],
    )
    def test_a_bad_order_touches_none_of_them(self, app, names, terms, message):
        frozen = app.schedule_selections.freeze()

        with pytest.raises((UsageError, Conflict), match=message):
            app.schedule_selections.pause(frozen.id, **terms)

        assert [] == entries(app, "schedule.paused")

    def test_more_than_one_order_takes_are_refused(self, app, names, monkeypatch):
        """Nobody believes that a part is all."""
        from duly.client import selections

        monkeypatch.setattr(selections, "ONE_BY_ONE_MAX", 3)

        with pytest.raises(UsageError, match="there are more than 3 schedules"):
            app.schedule_selections.freeze()
        with pytest.raises(UsageError, match="'4 schedules' are more than one order takes"):
            app.schedule_selections.freeze(schedules=names)
        assert 2 == len(app.schedule_selections.freeze(limit=2))


class TestSets:
    """What every frozen set promises."""

    def test_a_set_of_one_kind_is_not_there_for_the_other(self, app, store):
        """An order can't mean schedules and find runs."""
        dead(store, "a")
        runs = app.selections.freeze().id
        schedules = app.schedule_selections.freeze().id

        with pytest.raises(NotFound, match="choose the schedules anew"):
            app.schedule_selections.pause(runs, reason="r")
        with pytest.raises(NotFound, match="choose the runs anew"):
            app.selections.rerun(schedules, reason="r")

    def test_one_that_is_named_alone_is_that_one(self, app, store):
        """A name is not one for each of its letters; what names nothing is refused."""
        for name in ("a", "b", "ab"):
            app.schedules.create(name, app.call("remind"), every("1h"))
        (run,) = dead(store, "a")

        seen = app.schedule_selections.freeze(schedules="ab")
        runs = app.selections.freeze(ids=str(run)), app.selections.freeze(ids=run)

        assert ["ab"] == [one.name for one in seen.sample]
        assert {(run,)} == {one.ids for one in runs}
        for order in (
            lambda: app.schedule_selections.freeze(schedules=5),
            lambda: app.selections.freeze(ids=5),
        ):
            with pytest.raises(UsageError, match=": 5 "):
                order()

    def test_many_are_confirmed_by_their_number(self, app, store, monkeypatch):
        dead(store, "a", "b")
        monkeypatch.setattr(selections, "CONFIRMED_ABOVE", 1)
        frozen = app.selections.freeze()

        with pytest.raises(UsageError, match="this order is about 2 runs"):
            app.selections.rerun(frozen.id, reason="r")
        assert [] == app.runs.list(origin="rerun")
        assert 2 == len(app.selections.rerun(frozen.id, reason="r", confirm=2))

    def test_nobody_orders_about_many_without_a_reason(self, app, store):
        dead(store, "a")
        frozen = app.selections.freeze()

        for order in (app.selections.rerun, app.selections.skip):
            with pytest.raises(UsageError, match="reason: '' is missing"):
                order(frozen.id, reason="")

    def test_more_than_one_order_takes_one_by_one_are_refused(self, app, store, monkeypatch):
        """Bounded."""
        dead(store, "a", "b")
        monkeypatch.setattr(selections, "ONE_BY_ONE_MAX", 1)
        frozen = app.selections.freeze()

        with pytest.raises(UsageError, match="'2 runs' are too many to rerun"):
            app.selections.rerun(frozen.id, reason="r")
        for order in ("cancel", "skip", "rerun", "repair"):
            with pytest.raises(UsageError, match=f"'2 runs' are too many to {order}"):
                app.selections.preview(frozen.id, order)
        assert 2 == app.selections.preview(frozen.id, "discard").touched

    def test_a_digest_is_of_what_is_in_it_and_how_it_is(self, app, store):
        ids = dead(store, "a", "b")
        first, same = app.selections.freeze(), app.selections.freeze()
        app.runs.discard(ids[0])
        other = app.selections.freeze(ids=ids)

        assert first.digest == same.digest
        assert 3 == len({first.digest, other.digest, app.selections.freeze().digest})

    def test_a_set_of_an_older_program_is_ordered_about_as_before(self, app, store):
        """It kept which runs, and not how each was: what compares that asks to choose anew."""
        ids = tuple(RunId(one.bytes) for one in dead(store, "a"))
        old = CreateSelection(
            id=UUID("0196b000-0000-7000-8000-000000000001").bytes,
            tenant=TENANT_DEFAULT,
            made_by="ada",
            chosen_by=canonical_json({"state": "dead"}),
            ids=ids,
            as_of=store.now(),
        )
        frozen = app.selections.get(UUID(bytes=store.freeze(old).id))

        with pytest.raises(Conflict, match="was frozen by an older program"):
            app.selections.rerun(frozen.id, reason="r")
        assert ({"state": "dead"}, 1) == (
            frozen.chosen_by,
            app.selections.preview(frozen.id, "retry").touched,
        )
        assert [True] == [one.is_done for one in app.selections.discard(frozen.id, reason="r")]

    def test_an_order_that_there_is_not_is_refused(self, app, store):
        dead(store, "a")

        with pytest.raises(UsageError, match="is not what can be ordered about runs"):
            app.selections.preview(app.selections.freeze().id, "repeat")
        with pytest.raises(UsageError, match="is not what can be ordered about schedules"):
            app.schedule_selections.preview(app.schedule_selections.freeze().id, "delete")

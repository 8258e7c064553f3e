"""A server as commands know an application: the same parts and calls, answered with views.

What is not here can't be done from afar: it needs the store itself, or the program that has the
tasks. Whoever asks for it is told so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from duly.cli.remote.seeing import Promised, seen
from duly.client.access import NewToken, Token
from duly.client.alert_view import Alert, AlertChannel, AlertRule, AlertSilence, ChannelTest
from duly.client.arguments import Payload
from duly.client.attempt_view import Attempt, Line, Step
from duly.client.audit import EventPage
from duly.client.backfill_view import Backfill, BackfillPlan
from duly.client.doubt_view import Check, Effect, InboxItem
from duly.client.explanations import RunExplanation
from duly.client.inbox import TaskOrders
from duly.client.limits import Breaker, GoneOwner, Limit, Place, QuarantinedHost, Queue, Quota
from duly.client.paging import Page
from duly.client.run_view import DelayedRun, Run
from duly.client.runs import OrderedRun
from duly.client.schedule_history import (
    HistoryEntry,
    MissingFound,
    Occurrence,
    OwedRange,
    SkippedRange,
)
from duly.client.schedule_view import Schedule
from duly.client.selections import OrderedSchedule, OrderPreview
from duly.client.status import MemberStatus, Status
from duly.client.tasks import BoundCall, Tasks, named_call
from duly.client.vitals import Proof
from duly.config import Settings
from duly.domain.schedules import TENANT_DEFAULT
from duly.domain.verification import Scope
from duly.errors import Conflict, Forbidden, NotFound, UsageError
from duly.interface.selections import ScheduleSelection, Selection
from duly.remote.connecting import Remote
from duly.timetable.preview import Preview, preview
from duly.timetable.timetable import Timetable

PAGE_MAX = 1000
VIEWS: Mapping[str, Mapping[str, type]] = {
    "alerts": {
        "list": Alert,
        "get": Alert,
        "acknowledge": Alert,
        "silences": AlertSilence,
        "silence": AlertSilence,
        "unsilence": bool,
        "rules": AlertRule,
        "set_rule": AlertRule,
        "remove_rule": bool,
        "channels": AlertChannel,
        "add_channel": AlertChannel,
        "remove_channel": bool,
        "test_channel": ChannelTest,
    },
    "backfills": {
        "plan": BackfillPlan,
        "plan_rest": BackfillPlan,
        "resume_from": Backfill,
        "create": Backfill,
        "get": Backfill,
        "list": Backfill,
        "pause": Backfill,
        "resume": Backfill,
        "cancel": Backfill,
        "throttle": Backfill,
    },
    "breakers": {"list": Breaker, "get": Breaker, "reset": Breaker},
    "delayed": {"list": DelayedRun, "get": DelayedRun},
    "inbox": {
        "list": InboxItem,
        "get": InboxItem,
        "effects": Effect,
        "checks": Check,
        "scope": Scope,
        "line": Run,
        "verify": Run,
        "retry": Run,
        "resume": Run,
        "reconcile": Run,
        "skip": Run,
        "rerun": Run,
        "tasks": TaskOrders,
        "orders": TaskOrders,
        "suspend_retries": TaskOrders,
        "allow_retries": TaskOrders,
        "block_reruns": TaskOrders,
        "allow_reruns": TaskOrders,
    },
    "limits": {"list": Limit, "places": Place, "set": Limit, "remove": bool},
    "queues": {"list": Queue, "get": Queue, "pause": Queue, "resume": Queue},
    "owners": {"list": GoneOwner, "gone": GoneOwner, "back": GoneOwner},
    "quotas": {"list": Quota, "set": Quota, "remove": type(None)},
    "tokens": {"create": NewToken, "list": Token, "get": Token, "revoke": Token},
    "workers": {
        "list": MemberStatus,
        "quarantined_hosts": QuarantinedHost,
        "drain": MemberStatus,
        "quarantine": MemberStatus,
        "release": MemberStatus,
    },
    "runs": {
        "list": Run,
        "page": Run,
        "get": Run,
        "attempts": Attempt,
        "why": RunExplanation,
        "progress": Step,
        "lines": Line,
        "cancel": Run,
        "edit": Run,
        "missing": MissingFound,
    },
    "schedules": {
        "get": Schedule,
        "list": Schedule,
        "pause": Schedule,
        "resume": Schedule,
        "delete": Schedule,
        "restore": Schedule,
        "skip_next": Schedule,
        "trigger": Promised,
        "history": HistoryEntry,
        "occurrences": Occurrence,
        "owed": OwedRange,
        "skips": SkippedRange,
    },
    "audit": {"page": HistoryEntry},
}
"""What each part of an application can do over HTTP, and as what its answer is seen."""


def refused(url: str) -> UsageError:
    """Return what a command is told that needs the store itself."""
    problem = "is a server, and this needs the store itself, or the program with the tasks"
    return UsageError("url", url, problem, "run it where those are, with the store's own --url")


class Part:
    """A part of an application, asked of a server."""

    def __init__(self, owner: RemoteApp, name: str) -> None:
        self._owner = owner
        self._asked = getattr(owner.remote, name)
        self._views = VIEWS[name]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self._views:
            raise refused(self._owner.url)
        asked, view = getattr(self._asked, name), self._views[name]
        return lambda *given, **terms: _viewed(view, asked(*given, **terms))


class RemoteRuns(Part):
    """Runs; orders about several of them are given one by one."""

    def retry(self, runs: Sequence[UUID], *, reason: str | None = None) -> list[OrderedRun]:
        """Try runs again, each by itself; say of each whether that was possible."""
        return [self._ordered(one, self._asked.retry, reason) for one in runs]

    def discard(self, runs: Sequence[UUID], *, reason: str | None = None) -> list[OrderedRun]:
        """Give runs up, each by itself; say of each whether that was possible."""
        return [self._ordered(one, self._asked.discard, reason) for one in runs]

    def _ordered(self, run: UUID, order: Callable[..., Any], reason: str | None) -> OrderedRun:
        state: str | None = None
        with suppress(NotFound, Conflict):
            state = self._asked.get(run).state
            order(run, reason=reason)
            return OrderedRun(id=run, is_done=True, state=state)
        return OrderedRun(id=run, is_done=False, state=state)


class RemoteAttempts:
    """Attempts of all runs."""

    def __init__(self, remote: Remote) -> None:
        self._asked = remote.runs

    def page(self, **filters: Any) -> Page[Attempt]:  # noqa: ANN401 - filters
        """Return a page of attempts."""
        found = self._asked.search_attempts(**filters)
        return Page([seen(Attempt, one) for one in found.items], found.next_cursor)


class RemoteSchedules(Part):
    """Schedules; a rule is read here, and goes to the server as a timetable."""

    def create(self, name: str, call: BoundCall, timetable: Timetable, **terms: Any) -> Schedule:  # noqa: ANN401 - policies
        """Make a schedule of a call."""
        self._owner.checked_queue(call, terms)
        made = self._asked.create(name, call.task, timetable, arguments=call.arguments, **terms)
        return seen(Schedule, made)

    def edit(self, schedule: object, *, version: int | None = None, **changes: Any) -> Schedule:  # noqa: ANN401 - as above
        """Change a schedule."""
        call, rule = changes.pop("call", None), changes.pop("timetable", None)
        if call is not None:
            changes |= {"task": call.task, "arguments": call.arguments}
        return seen(Schedule, self._asked.edit(schedule, version=version, when=rule, **changes))

    def preview(self, timetable: Timetable, after: Any = None, n: int = 3) -> Preview:  # noqa: ANN401 - an instant or none
        """Show when a rule fires, by the server's clock."""
        return preview(timetable, self._owner.status().now if after is None else after, n)


class RemoteSelections:
    """Sets of runs that a server keeps; what an order did is told run by run."""

    def __init__(self, remote: Remote) -> None:
        self._asked = remote.selections

    def freeze(self, **terms: Any) -> Selection:  # noqa: ANN401 - filters
        """Keep which runs are meant."""
        return self._asked.freeze(**terms)

    def preview(self, selection: str, order: str) -> OrderPreview:
        """Say what an order would do to each of them."""
        return seen(OrderPreview, self._asked.preview(selection, order))

    def rerun(self, selection: str, **terms: Any) -> list[OrderedRun]:  # noqa: ANN401 - of the order
        """Run each once more."""
        return [seen(OrderedRun, one) for one in self._asked.rerun(selection, **terms).runs]

    def skip(self, selection: str, **terms: Any) -> list[OrderedRun]:  # noqa: ANN401 - as above
        """Leave each as it is."""
        return [seen(OrderedRun, one) for one in self._asked.skip(selection, **terms).runs]


class RemoteScheduleSelections:
    """Sets of schedules that a server keeps."""

    def __init__(self, remote: Remote) -> None:
        self._asked = remote.schedule_selections

    def freeze(self, **terms: Any) -> ScheduleSelection:  # noqa: ANN401 - filters
        """Keep which schedules are meant."""
        return self._asked.freeze(**terms)

    def preview(self, selection: str, order: str) -> OrderPreview:
        """Say what an order would do to each of them."""
        return seen(OrderPreview, self._asked.preview(selection, order))

    def pause(self, selection: str, **terms: Any) -> list[OrderedSchedule]:  # noqa: ANN401 - of the order
        """Pause each."""
        done = self._asked.pause(selection, **terms).schedules
        return [seen(OrderedSchedule, one) for one in done]

    def resume(self, selection: str, **terms: Any) -> list[OrderedSchedule]:  # noqa: ANN401 - as above
        """Resume each."""
        done = self._asked.resume(selection, **terms).schedules
        return [seen(OrderedSchedule, one) for one in done]


class RemoteAudit(Part):
    """The audit trail: of everybody where the token may see that, else of its tenant."""

    def page(self, *, all_tenants: bool = False, **terms: Any) -> Page[HistoryEntry]:  # noqa: ANN401 - filters
        """Return a page of entries, newest first."""
        try:
            found = self._asked.page(all_tenants=all_tenants, **terms)
        except Forbidden:
            if not all_tenants:
                raise
            found = self._asked.page(**terms)
        return Page([seen(HistoryEntry, one) for one in found.items], found.next_cursor)


class JsonView:
    """What a server tells, for whoever prints it as JSON has it."""

    def __init__(self, shape: msgspec.Struct) -> None:
        self._shape = shape

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        told: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self._shape))
        return told


class ToldPage(NamedTuple):
    """A list that a server tells as a whole."""

    items: list[JsonView]
    after: None = None


class RemoteVitals:
    """How what a server has promised is doing."""

    def __init__(self, remote: Remote) -> None:
        self._asked = remote.vitals

    def of_schedule(self, schedule: UUID | str) -> JsonView:
        """Return how one schedule is doing."""
        return JsonView(self._asked.of_schedule(schedule))

    def of_task(self, name: str) -> JsonView:
        """Return how a task is doing."""
        return JsonView(self._asked.of_task(name))

    def of_tenant(self) -> JsonView:
        """Return how the token's tenant is doing."""
        return JsonView(self._asked.of_tenant())

    def schedules(self, **_: object) -> ToldPage:
        """Return schedules by name, all of them."""
        return ToldPage([JsonView(one) for one in self._asked.schedules()])


class RemoteEvents:
    """What happens on a server."""

    def __init__(self, owner: RemoteApp) -> None:
        self._owner = owner

    def after(self, number: int | None = None, *, all_tenants: bool = False) -> EventPage:
        """Return what is known to have happened after a number; of None, where that ends now."""
        audit = self._owner.audit
        if number is None:
            newest = audit.page(all_tenants=all_tenants, limit=1).items
            return EventPage((), newest[0].number if newest else 0)
        found: list[HistoryEntry] = []
        cursor: str | None = None
        while True:
            page = audit.page(all_tenants=all_tenants, limit=PAGE_MAX, cursor=cursor)
            found += [one for one in page.items if one.number > number]
            cursor = page.next_cursor
            is_through = bool(page.items) and page.items[-1].number <= number
            if cursor is None or is_through:
                through = max([number, *(one.number for one in found)])
                return EventPage(tuple(reversed(found)), through)

    def follow(self, number: int, *, all_tenants: bool) -> Iterator[HistoryEntry]:
        """Tell what happens after a number, for ever; of every tenant, if the token may see it."""
        last = number
        try:
            for one in self._owner.remote.events(number, all_tenants=all_tenants):
                last = one.number
                yield seen(HistoryEntry, one)
        except Forbidden:
            if not all_tenants:
                raise
            yield from self.follow(last, all_tenants=False)


class RemoteStore:
    """The little that commands ask of the store itself."""

    def __init__(self, owner: RemoteApp) -> None:
        self._owner = owner

    def list_tasks(self) -> list[str]:
        """Return the tasks that programs have told of."""
        return [one.task for one in self._owner.remote.inbox.tasks()]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - there is none
        raise refused(self._owner.url)


class RemoteApp:
    """A server in place of an application."""

    def __init__(self, remote: Remote, tasks: Tasks | None = None) -> None:
        self.remote = remote
        self.url = remote.url
        self.tenant = TENANT_DEFAULT
        self.tasks = Tasks(Payload.of(Settings())) if tasks is None else tasks
        self.store = RemoteStore(self)
        self.schedules = RemoteSchedules(self, "schedules")
        self.runs = RemoteRuns(self, "runs")
        self.attempts = RemoteAttempts(remote)
        self.audit = RemoteAudit(self, "audit")
        self.events = RemoteEvents(self)
        self.alerts = Part(self, "alerts")
        self.backfills = Part(self, "backfills")
        self.breakers = Part(self, "breakers")
        self.delayed = Part(self, "delayed")
        self.inbox = Part(self, "inbox")
        self.limits = Part(self, "limits")
        self.queues = Part(self, "queues")
        self.owners = Part(self, "owners")
        self.quotas = Part(self, "quotas")
        self.tokens = Part(self, "tokens")
        self.workers = Part(self, "workers")
        self.selections = RemoteSelections(remote)
        self.schedule_selections = RemoteScheduleSelections(remote)
        self.vitals = RemoteVitals(remote)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - there is none
        if name.startswith("__"):
            raise AttributeError(name)
        raise refused(self.url)

    def call(self, task: str, arguments: Mapping[str, Any] | None = None) -> BoundCall:
        """Return a call of a task by its name; its arguments are checked if it is known here."""
        known = [] if self.tasks.find(task) else self.store.list_tasks()
        return named_call(self.tasks, task, {} if arguments is None else arguments, known)

    def enqueue(self, call: BoundCall, **terms: Any) -> Promised:  # noqa: ANN401 - of the order
        """Promise a run of a call."""
        self.checked_queue(call, terms)
        return seen(Promised, self.remote.enqueue(call.task, call.arguments, **terms))

    def move(self, key_or_id: UUID | str, **terms: Any) -> DelayedRun:  # noqa: ANN401 - as above
        """Move a pending delayed run."""
        return seen(DelayedRun, self.remote.move(key_or_id, **terms))

    def cancel(self, key_or_id: UUID | str, *, reason: str | None = None) -> Run:
        """Cancel a pending delayed run."""
        return seen(Run, self.remote.cancel(key_or_id, reason=reason))

    def prove(self, schedule: UUID | str, day: str) -> Proof:
        """Say of each occurrence on a day whether all that it was to do is done, once."""
        return seen(Proof, self.remote.prove(schedule, day))

    def status(self, *, own: bool = False) -> Status:
        """Return the state of everything on one screen; `own` narrows it to the tenant."""
        return seen(Status, self.remote.status(own=own))

    def checked_queue(self, call: BoundCall, terms: dict[str, Any]) -> None:
        """Have the queue and priority of a task that is known here hold, unless said otherwise."""
        if self.tasks.find(call.task) is not None:
            for name in ("queue", "priority"):
                if terms.get(name) is None:
                    terms[name] = getattr(call, name)


def _viewed(view: type, answer: Any) -> Any:  # noqa: ANN401 - whatever was answered
    if answer is None or isinstance(answer, bool):
        return answer
    if isinstance(answer, list):
        return [seen(view, one) for one in answer]
    if hasattr(answer, "next_cursor") and view is not MissingFound:
        return Page([seen(view, one) for one in answer.items], answer.next_cursor)
    return seen(view, answer)

"""Orders about one run: which its state allows, what each brings about, and doing it (A3)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from duly import Conflict, UsageError
from duly_web.page import Asked, Moved, Page, Said, Undo

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly import Run
    from duly_web.page import Visitor

OPEN = frozenset({"blocked", "queued", "running", "retrying"})
OVER = frozenset({"succeeded", "failed", "cancelled", "skipped", "expired", "discarded", "dead"})


class RunOrder(msgspec.Struct, forbid_unknown_fields=True):
    """What a form about a run says."""

    reason: str | None = None
    confirm: str | None = None
    """The run's id, typed by whoever does what may not be repeated."""
    arguments: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An order that is offered."""

    verb: str
    label: str
    icon: str
    consequence: str
    tone: str = ""
    must_say_why: bool = True
    may_confirm: bool = False


CANCEL_RUNNING = (
    "Its worker is asked to stop, and what it has done by then stays done. It does not come back: "
    "it can be rerun."
)
CANCEL_WAITING = "It ends at once and is never started. It does not come back: it can be rerun."
RETRY = Action(
    verb="retry",
    label="Retry",
    icon="loop",
    consequence="The same run is queued again, with a fresh budget of attempts. What its ledger "
    "holds as done is not done again.",
)
RETRY_NOW = Action(
    verb="retry",
    label="Retry now",
    icon="loop",
    consequence="Its next attempt does not wait any longer.",
    must_say_why=False,
)
RERUN = Action(
    verb="rerun",
    label="Rerun",
    icon="again",
    consequence="Another run is made, which does the same once more from its beginning, effects "
    "included. This one stays as it is.",
    may_confirm=True,
)
REPAIR = Action(
    verb="repair",
    label="Repair rerun",
    icon="wrench",
    consequence="Another run is made, which shares this one's ledger: what is done is not done "
    "again, what is missing is. This one stays as it is.",
    may_confirm=True,
)
DISCARD = Action(
    verb="discard",
    label="Discard",
    icon="bin",
    consequence="It is closed for good, and nobody is reminded of it. It stays on record.",
    tone="danger",
)
SKIP = Action(
    verb="skip",
    label="Skip",
    icon="skip",
    consequence="It is left as it is: nobody will do more about it, and that is on record.",
    tone="danger",
)
EDIT = Action(
    verb="edit",
    label="Edit arguments",
    icon="list",
    consequence="The run keeps its identity and gets these arguments; it stays dead until it is "
    "retried.",
)
VERIFY = Action(
    verb="verify",
    label="Verify now",
    icon="seal",
    consequence="",
    must_say_why=False,
)


def actions_for(run: Run, visitor: Visitor, *, has_check: bool) -> tuple[Action, ...]:
    """Return what is offered about a run: by its state, and to whoever may."""
    if not visitor.may("edit"):
        return ()
    found: list[Action] = []
    if run.state == "retrying":
        found.append(RETRY_NOW)
    if run.state in OPEN:
        text = CANCEL_RUNNING if run.state == "running" else CANCEL_WAITING
        found.append(
            Action(verb="cancel", label="Cancel", icon="slash", consequence=text, tone="danger")
        )
    if run.state == "dead":
        found += [RETRY, EDIT]
    if run.origin != "verify" and run.state in OVER:
        found += [RERUN, REPAIR]
    if run.state == "dead":
        found.append(DISCARD)
    if run.state == "ambiguous":
        found.append(SKIP)
    if has_check and run.origin != "verify" and run.state in {"succeeded", "ambiguous", "dead"}:
        found.append(VERIFY)
    return tuple(found)


def cancel_run(asked: Asked) -> Moved:
    """Stop it."""
    run = asked.app.runs.cancel(asked.path["run"], reason=asked.form.reason)
    word = "is cancelled" if run.state == "cancelled" else "is asked to stop"
    return _done(run, f"{run.label} {word}")


def retry_run(asked: Asked) -> Moved:
    """Queue the same run again."""
    run = asked.app.runs.get(asked.path["run"])
    (done,) = asked.app.runs.retry([run.id], reason=asked.form.reason)
    _require_done(done.is_done, run, "retried", "look at it again: only what is dead or waits is")
    return _done(run, f"{run.label} is queued again, the same run")


def discard_run(asked: Asked) -> Moved:
    """Close a dead run for good."""
    run = asked.app.runs.get(asked.path["run"])
    (done,) = asked.app.runs.discard([run.id], reason=asked.form.reason)
    _require_done(done.is_done, run, "discarded", "look at it again: only what is dead is")
    return _done(run, f"{run.label} is discarded")


def rerun_run(asked: Asked) -> Moved:
    """Make another run that does the same once more."""
    return _repeat(asked, is_repair=False)


def repair_run(asked: Asked) -> Moved:
    """Make another run that does what is missing."""
    return _repeat(asked, is_repair=True)


def skip_run(asked: Asked) -> Moved:
    """Leave a run that is in doubt as it is."""
    seen = asked.app.runs.get(asked.path["run"])
    run = asked.app.inbox.skip(seen.id, reason=_reason(asked.form))
    return _done(run, f"{run.label} is left as it is")


def verify_run(asked: Asked) -> Moved:
    """Have its result looked at by its task's own check."""
    run = asked.app.runs.get(asked.path["run"])
    made = asked.app.inbox.verify(run.id)
    return _done(run, f"the check of {run.label} is queued: {made.label}")


def edit_run(asked: Asked) -> Moved:
    """Give a dead run other arguments."""
    form: RunOrder = asked.form
    run = asked.app.runs.get(asked.path["run"])
    arguments = _read_arguments(form.arguments)
    asked.app.runs.edit(run.id, arguments, reason=form.reason)
    before = json.dumps(run.arguments, ensure_ascii=False)
    undo = Undo(
        label="Put the old arguments back",
        path=f"/runs/{run.id}/edit",
        fields={"arguments": before, "reason": "undone"},
    )
    return _done(run, f"{run.label} has other arguments", undo)


def _repeat(asked: Asked, *, is_repair: bool) -> Moved:
    form: RunOrder = asked.form
    seen = asked.app.runs.get(asked.path["run"])
    made = asked.app.inbox.rerun(
        seen.id, reason=_reason(form), repair=is_repair, confirm=form.confirm
    )
    kind = "a repair rerun" if is_repair else "a rerun"
    return _done(made, f"{made.label} was made: {kind}, another run than the first")


def _done(run: Run, text: str, undo: Undo | None = None) -> Moved:
    return Moved(to=f"/runs/{run.id}", said=Said(text=text, undo=undo))


def _require_done(is_done: bool, run: Run, verb: str, remedy: str) -> None:  # noqa: FBT001 - what was answered
    if not is_done:
        raise Conflict("run", run.label, f"is {run.state} and was not {verb}", remedy)


def _reason(form: RunOrder) -> str:
    if form.reason is None:
        raise UsageError("reason", None, "is missing", "say why: everybody will see it")
    return form.reason


def _read_arguments(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "")
    except ValueError as error:
        remedy = 'give an object, such as {"day": "2026-04-03"}'
        raise UsageError("arguments", text, f"is not JSON: {error}", remedy) from None
    if not isinstance(found, dict):
        remedy = 'give an object, such as {"day": "2026-04-03"}'
        raise UsageError("arguments", text, "is not an object", remedy)
    return found


def _order(verb: str, handler: Callable[[Asked], Moved]) -> Page:
    return Page(
        method="POST",
        path=f"/runs/{{run}}/{verb}",
        name=f"{verb}_run",
        scope="edit",
        handler=handler,
        form=RunOrder,
    )


PAGES = (
    _order("cancel", cancel_run),
    _order("retry", retry_run),
    _order("discard", discard_run),
    _order("rerun", rerun_run),
    _order("repair", repair_run),
    _order("skip", skip_run),
    _order("verify", verify_run),
    _order("edit", edit_run),
)

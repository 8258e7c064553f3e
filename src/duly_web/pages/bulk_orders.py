"""Orders about many schedules: the set that was seen, its count, and a reason (UX 15, 39).

First the set is frozen and shown; the order then touches these and no others, each only if it still
is as it was seen. What was created meanwhile is not in the set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from duly import Conflict, DulyError, NotFound, UsageError
from duly_web.instants import read_coming
from duly_web.page import Asked, Moved, Page, Said, Shown, Undo
from duly_web.selecting import (
    CHOSEN_MAX,
    TYPED_FROM,
    Chosen,
    read_chosen,
    write_chosen,
    write_one,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from uuid import UUID

    from duly import Schedule

NAMED_MAX = 20
UNDONE_MAX = 60
"""So many still fit into what the next page is told."""
WORDS = {"pause": ("Pause", "paused"), "resume": ("Resume", "resumed")}


class ChosenForm(msgspec.Struct, forbid_unknown_fields=True):
    """Which rows, or all that fit the filters, and what is to be done with them."""

    verb: str = ""
    chosen: list[str] = []
    all: bool = False
    status: str | None = None
    task: str | None = None
    owner: str | None = None
    search: str | None = None


class BulkForm(msgspec.Struct, forbid_unknown_fields=True):
    """The order about a frozen set."""

    chosen: list[str] = []
    reason: str | None = None
    until: str | None = None
    missed: str = "skip"
    typed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenModel:
    """What is about to be done, to which ones, as of when."""

    verb: Literal["pause", "resume"]
    title: str
    count: int
    names: tuple[str, ...]
    others: int
    chosen: str
    as_of: datetime
    left_out: int
    """Chosen ones that can't be paused or resumed, because of what they are."""
    needs_typing: bool


def freeze_chosen(asked: Asked) -> Shown | Moved:
    """Freeze the set, and show it with what would become of it."""
    form: ChosenForm = asked.form
    if form.verb not in WORDS:
        raise UsageError("verb", form.verb, "is not an order", f"use one of {', '.join(WORDS)}")
    found = _all_fitting(asked, form) if form.all else _seen(asked, read_chosen(form.chosen))
    wanted = "active" if form.verb == "pause" else "paused"
    meant = [one for one in found if one.status == wanted]
    if not meant:
        text = f"Nothing was chosen that could be {WORDS[form.verb][1]}"
        return Moved(to="/schedules", said=Said(text=text))
    model = ChosenModel(
        verb="pause" if form.verb == "pause" else "resume",
        title=f"{WORDS[form.verb][0]} {len(meant):,} {_noun(len(meant))}",
        count=len(meant),
        names=tuple(one.name for one in meant[:NAMED_MAX]),
        others=max(0, len(meant) - NAMED_MAX),
        chosen=write_chosen(meant),
        as_of=asked.now,
        left_out=len(found) - len(meant),
        needs_typing=len(meant) > TYPED_FROM,
    )
    return Shown(template="schedules_chosen.html", model=model, title=model.title)


def pause_chosen(asked: Asked) -> Moved:
    """Pause each of the set that still is as it was seen."""
    form: BulkForm = asked.form
    if not form.reason:
        raise UsageError("reason", None, "is missing", "say why, for who looks later")

    until = read_coming("until", form.until, asked.clocks.mine, asked.now)

    def pause(one: Chosen) -> Schedule:
        return asked.app.schedules.pause(
            one.id, reason=form.reason, until=until, missed=form.missed, version=one.version
        )

    return _carried_out("pause", asked, pause)


def resume_chosen(asked: Asked) -> Moved:
    """Resume each of the set that still is as it was seen."""
    form: BulkForm = asked.form

    def resume(one: Chosen) -> Schedule:
        return asked.app.schedules.resume(
            one.id, missed=form.missed, reason=form.reason, version=one.version
        )

    return _carried_out("resume", asked, resume)


def _carried_out(verb: str, asked: Asked, order: Callable[[Chosen], Schedule]) -> Moved:
    form: BulkForm = asked.form
    chosen = read_chosen(form.chosen)
    if not chosen:
        raise UsageError("chosen", None, "is empty", "choose rows of the list")
    if len(chosen) > TYPED_FROM and form.typed.strip() != str(len(chosen)):
        remedy = f"type {len(chosen)}, which is how many they are"
        raise UsageError("typed", form.typed, "is not the number of schedules", remedy)
    done: list[tuple[UUID, int]] = []
    left: list[str] = []
    for one in chosen:
        try:
            now = order(one)
            done.append((now.id, now.version))
        except UsageError:
            raise  # about the order itself: the first of them is refused, and so are all
        except (Conflict, NotFound) as error:
            left.append(str(getattr(error, "name", one.id)))
        except DulyError:
            left.append(str(one.id))
    text = f"{len(done):,} {_noun(len(done))} {WORDS[verb][1]}"
    if left:
        listed = ", ".join(left[:5]) + (" …" if len(left) > 5 else "")
        text += f"; {len(left)} had changed meanwhile and were left alone: {listed}"
    return Moved(to="/schedules", said=Said(text=text, undo=_undo(verb, done)))


def _undo(verb: str, done: list[tuple[UUID, int]]) -> Undo | None:
    if not 0 < len(done) <= UNDONE_MAX:
        return None
    other = "resume" if verb == "pause" else "pause"
    chosen = " ".join(write_one(*one) for one in done)
    fields = {"chosen": chosen, "reason": "undone"}
    return Undo(label="Undo", path=f"/schedules/chosen/{other}", fields=fields)


def _seen(asked: Asked, chosen: list[Chosen]) -> list[Schedule]:
    found = []
    for one in chosen:
        try:
            schedule = asked.app.schedules.get(one.id)
        except NotFound:
            continue
        if schedule.version == one.version:
            found.append(schedule)
    return found


def _all_fitting(asked: Asked, form: ChosenForm) -> list[Schedule]:
    page = asked.app.schedules.page(
        status=form.status,
        task=form.task,
        owner=form.owner,
        name_prefix=form.search,
        limit=CHOSEN_MAX,
    )
    if page.after is not None:
        remedy = "narrow the list by a filter"
        problem = "are more than can be ordered about at once"
        raise UsageError("chosen", f"more than {CHOSEN_MAX:,}", problem, remedy)
    return page.items


def _noun(count: int) -> str:
    return "schedule" if count == 1 else "schedules"


PAGES = (
    Page(
        method="POST",
        path="/schedules/chosen",
        name="freeze_chosen_schedules",
        scope="edit",
        handler=freeze_chosen,
        form=ChosenForm,
    ),
    Page(
        method="POST",
        path="/schedules/chosen/pause",
        name="pause_chosen_schedules",
        scope="edit",
        handler=pause_chosen,
        form=BulkForm,
    ),
    Page(
        method="POST",
        path="/schedules/chosen/resume",
        name="resume_chosen_schedules",
        scope="edit",
        handler=resume_chosen,
        form=BulkForm,
    ),
)

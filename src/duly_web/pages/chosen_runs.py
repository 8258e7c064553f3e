"""Orders about many runs: on those that were seen and chosen, kept as they were (A1, UX 39)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from duly import UsageError
from duly.api.views import CONFIRMED_ABOVE
from duly_web.page import Asked, Moved, Page, Said, Shown
from duly_web.pages.runs import RunFilters, RunRow, run_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duly import App


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """What can be ordered about many runs."""

    word: str
    done: str
    """What a run is after it: "was retried"."""
    fits: frozenset[str]
    """The states in which it can be done."""
    consequence: str
    tone: str
    carry: Callable[..., list[Any]]


def _retry(app: App, *args: Any, **terms: Any) -> list[Any]:  # noqa: ANN401 - as selections have them
    return app.selections.retry(*args, **terms)


def _discard(app: App, *args: Any, **terms: Any) -> list[Any]:  # noqa: ANN401 - as above
    return app.selections.discard(*args, **terms)


def _cancel(app: App, *args: Any, **terms: Any) -> list[Any]:  # noqa: ANN401 - as above
    return app.selections.cancel(*args, **terms)


VERBS: dict[str, Verb] = {
    "retry": Verb(
        word="Retry",
        done="retried",
        fits=frozenset({"dead", "retrying"}),
        consequence="Dead ones are queued again with a fresh budget of attempts; those that wait "
        "for another attempt are queued at once. They stay the same runs: nothing is made anew.",
        tone="",
        carry=_retry,
    ),
    "cancel": Verb(
        word="Cancel",
        done="cancelled",
        fits=frozenset({"blocked", "queued", "running", "retrying"}),
        consequence="What nobody runs ends at once. What a worker runs is asked to stop; what it "
        "has done by then stays done. A cancelled run does not come back: it can be rerun.",
        tone="danger",
        carry=_cancel,
    ),
    "discard": Verb(
        word="Discard",
        done="discarded",
        fits=frozenset({"dead"}),
        consequence="Dead runs are closed for good. They stay on record, and nobody is reminded.",
        tone="danger",
        carry=_discard,
    ),
}


class Choice(RunFilters, kw_only=True):
    """Which runs somebody means: boxes, or all that the filters of the page find."""

    verb: str
    run: list[str] = []  # noqa: RUF012 - msgspec copies it
    all: bool = False


class ChosenQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What is to be done to them."""

    verb: str = "retry"


class ChosenOrder(msgspec.Struct, forbid_unknown_fields=True):
    """What the form says."""

    verb: str = ""
    reason: str | None = None
    confirm: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenModel:
    """The page."""

    id: str
    verb: str
    what: Verb
    count: int
    as_of: datetime
    expires_at: datetime
    made_by: str
    chosen_by: tuple[tuple[str, str], ...]
    rows: tuple[RunRow, ...]
    fitting: int
    """How many of the rows shown are in a state in which it can be done."""
    must_type: bool


def choose_runs(asked: Asked) -> Moved:
    """Keep which runs were seen; nothing is done to them yet."""
    form: Choice = asked.form
    _verb(form.verb)
    if form.all:
        chosen = asked.app.selections.freeze(**form.filters())
    elif form.run:
        chosen = asked.app.selections.freeze(ids=form.run)
    else:
        raise UsageError("run", None, "names no run", "tick the boxes of those that you mean")
    return Moved(to=f"/runs/chosen/{chosen.id}?verb={form.verb}")


def show_chosen(asked: Asked) -> Shown:
    """Show what an order would touch."""
    verb = _verb(asked.query.verb)
    found = asked.app.selections.get(asked.path["selection"])
    rows = run_rows(found.sample, asked.now)
    model = ChosenModel(
        id=str(found.id),
        verb=asked.query.verb,
        what=verb,
        count=len(found),
        as_of=found.as_of,
        expires_at=found.expires_at,
        made_by=found.made_by,
        chosen_by=tuple((name, _words(value)) for name, value in sorted(found.chosen_by.items())),
        rows=rows,
        fitting=sum(row.state in verb.fits for row in rows),
        must_type=len(found) > CONFIRMED_ABOVE,
    )
    return Shown(template="chosen_runs.html", model=model, title=f"{verb.word} {len(found):,} runs")


def order_chosen(asked: Asked) -> Moved:
    """Carry it out on these runs and no others."""
    form: ChosenOrder = asked.form
    selection = asked.app.selections.get(asked.path["selection"]).id
    verb = _verb(form.verb)
    if form.reason is None:
        raise UsageError("reason", None, "is missing", "say why: everybody will see it")
    done = verb.carry(asked.app, selection, reason=form.reason, confirm=form.confirm)
    return Moved(to="/runs", said=Said(text=_summary(verb, done)))


def _verb(name: str) -> Verb:
    if name not in VERBS:
        raise UsageError("verb", name, "is not what can be ordered", f"use {', '.join(VERBS)}")
    return VERBS[name]


def _summary(verb: Verb, done: list[Any]) -> str:
    good = sum(one.is_done for one in done)
    said = f"{good:,} of {len(done):,} runs {'was' if good == 1 else 'were'} {verb.done}"
    left = Counter(one.state or "gone" for one in done if not one.is_done)
    if left:
        others = ", ".join(f"{count} {state}" for state, count in left.most_common())
        said += f"; left as they were: {others}"
    return said


def _words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


PAGES = (
    Page(
        method="POST",
        path="/runs/choose",
        name="choose_runs",
        scope="edit",
        handler=choose_runs,
        form=Choice,
    ),
    Page(
        method="GET",
        path="/runs/chosen/{selection}",
        name="chosen_runs",
        scope="edit",
        handler=show_chosen,
        query=ChosenQuery,
    ),
    Page(
        method="POST",
        path="/runs/chosen/{selection}",
        name="order_chosen",
        scope="edit",
        handler=order_chosen,
        form=ChosenOrder,
    ),
)

"""Orders about many runs over HTTP: choose and look, then order about exactly these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.api.handlers.parts import given, look, order, reference_of
from duly.interface.runs import OrderedRun, OrderedRuns
from duly.interface.selections import (
    NewSelection,
    OrderPreview,
    OrderSelection,
    RerunSelection,
    RunsPreviewAsked,
    Selection,
    SkipSelection,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from duly.api.route import ApiRequest, Route
    from duly.client.runs import OrderedRun as Done


def create_selection(received: ApiRequest) -> Selection:
    """Find runs by a filter, dead ones unless told, and freeze which they are; nothing is done."""
    asked: NewSelection = received.body
    # No state at all is a term, too: those of every state are meant.
    terms = {**given(asked), "state": asked.state}
    return Selection.from_view(received.app.selections.freeze(**terms))


def get_selection(received: ApiRequest) -> Selection:
    """Return a selection, with the newest of its runs as they are now."""
    return Selection.from_view(received.app.selections.get(_selection(received)))


def retry_selection(received: ApiRequest) -> OrderedRuns:
    """Queue the dead runs of a selection again, and at once those that wait."""
    done = received.app.selections.retry(_selection(received), **given(received.body))
    return _told(done)


def discard_selection(received: ApiRequest) -> OrderedRuns:
    """Give up the dead runs of a selection for good."""
    done = received.app.selections.discard(_selection(received), **given(received.body))
    return _told(done)


def cancel_selection(received: ApiRequest) -> OrderedRuns:
    """Stop the runs of a selection."""
    done = received.app.selections.cancel(_selection(received), **given(received.body))
    return _told(done)


def preview_selection(received: ApiRequest) -> OrderPreview:
    """Say what an order would do to each run of a selection, if it were given now."""
    asked: RunsPreviewAsked = received.query
    found = received.app.selections.preview(_selection(received), asked.order)
    return OrderPreview.from_view(found)


def rerun_selection(received: ApiRequest) -> OrderedRuns:
    """Run once more, each as another run, what the runs of a selection were to do."""
    return _told(received.app.selections.rerun(_selection(received), **given(received.body)))


def skip_selection(received: ApiRequest) -> OrderedRuns:
    """Leave the runs of a selection that are in doubt as they are, on record."""
    return _told(received.app.selections.skip(_selection(received), **given(received.body)))


def _selection(received: ApiRequest) -> UUID | str:
    return reference_of(received.path["selection"])


def _told(done: Sequence[Done]) -> OrderedRuns:
    return OrderedRuns(
        done=sum(one.is_done for one in done), runs=[OrderedRun.from_view(one) for one in done]
    )


_ONE = "/runs/selections/{selection}"
ROUTES: tuple[Route, ...] = (
    order("/runs/selections", create_selection, NewSelection, Selection, status=201),
    look(_ONE, get_selection, Selection),
    look(f"{_ONE}/preview", preview_selection, OrderPreview, RunsPreviewAsked),
    order(f"{_ONE}/cancel", cancel_selection, OrderSelection, OrderedRuns),
    order(f"{_ONE}/discard", discard_selection, OrderSelection, OrderedRuns),
    order(f"{_ONE}/retry", retry_selection, OrderSelection, OrderedRuns, is_once_only=True),
    order(f"{_ONE}/rerun", rerun_selection, RerunSelection, OrderedRuns),
    order(f"{_ONE}/skip", skip_selection, SkipSelection, OrderedRuns),
)

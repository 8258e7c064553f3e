"""Tasks over the wire: those that programs have told of, and what is ordered about each."""

from __future__ import annotations

from duly.interface.shapes import Shown


class Task(Shown, frozen=True, kw_only=True):
    """A task, and what people have ordered about it."""

    task: str
    is_suspended: bool
    """Whether what fails is not tried again by itself."""
    is_blocked: bool
    """Whether nobody may run it once more."""

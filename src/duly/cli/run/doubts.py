"""`duly run resume|reconcile|verify`: what a person chooses about a run, or has checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from duly.app import App
from duly.cli.output import print_json, print_line
from duly.cli.references import find_run
from duly.cli.target import Target, opened
from duly.cli.undoing import UNSAID, print_undo, undo_text
from duly.client.run_view import Run
from duly.errors import UsageError

TARGET = Target()
NO_UNDO = "none: what was decided stays on record"
Confirm = Annotated[str | None, Parameter(help="The run's id once more, for what is risky.")]
Reason = Annotated[str, Parameter(help="Why; it is kept with the decision.")]
Keys = Annotated[
    tuple[str, ...], Parameter(help="Keys of effects; may be given several times.", negative="")
]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtOptions:
    """What a person knows of the effects of a run in doubt, and that he means it."""

    done: Keys = ()
    """An effect that did happen, though nobody knew: it is not done again."""
    not_done: Keys = ()
    """An effect that did not happen. Those that are not named count as not done, too."""
    confirm: str | None = None
    """The run's id once more, for what may do something a second time."""

    @property
    def known(self) -> dict[str, bool]:
        """What is said of effects that nobody knew about."""
        both = sorted({*self.done} & {*self.not_done})
        if both:
            raise UsageError("--done", both[0], "is also named as not done", "name it once")
        return dict.fromkeys(self.done, True) | dict.fromkeys(self.not_done, False)


DOUBT = DoubtOptions()


def retry_doubtful(app: App, run: Run, reason: str | None, doubt: DoubtOptions) -> Run:
    """Try a run in doubt again from its beginning."""
    return app.inbox.retry(run, reason=reason or "", effects=doubt.known, confirm=doubt.confirm)


def resume(
    run: str, /, *, reason: Reason, doubt: DoubtOptions = DOUBT, target: Target = TARGET
) -> None:
    """Try a run in doubt again from its last checkpoint."""
    with opened(target, makes_store=False) as app:
        found = app.inbox.resume(
            find_run(app, run).id, reason=reason, effects=doubt.known, confirm=doubt.confirm
        )
        tell(found, "Goes on", target, stop_text(found))


def reconcile(  # noqa: PLR0913 - each part of what was found is an option
    run: str,
    /,
    *,
    reason: Reason,
    done: bool = False,
    failed: bool = False,
    evidence: str | None = None,
    target: Target = TARGET,
) -> None:
    """Record what has become of a run in doubt: somebody has looked.

    Parameters
    ----------
    done
        What it was to do is done.
    failed
        It is not, and nobody will do it with this run.
    evidence
        What was looked at: a reference, a number, a sentence.
    """
    if done == failed:
        given = "both" if done else None
        raise UsageError("--done", given, "or --failed must be said", "give one of the two")
    with opened(target, makes_store=False) as app:
        found = app.inbox.reconcile(
            find_run(app, run).id, is_done=done, reason=reason, evidence=evidence
        )
        tell(found, f"Recorded as {found.state}", target, None)


def verify(run: str, /, *, target: Target = TARGET) -> None:
    """Have the result of a run checked, by a run of its task's own check: also an old run's."""
    with opened(target, makes_store=False) as app:
        found = find_run(app, run)
        check = app.inbox.verify(found.id)
        tell(check, f"Queued a check of {found.label}", target, stop_text(check))
        if not target.json:
            print_line(f"duly run show {found.id} says what it finds.")


def stop_text(run: Run) -> str:
    """Return how to stop a run that goes on."""
    return undo_text("run", "cancel", str(run.id), "--reason", UNSAID)


def tell(run: Run, what: str, target: Target, undo: str | None) -> None:
    """Tell what an order has done, and how it is taken back."""
    if target.json:
        print_json({**run.to_json(), "undo": undo})
        return
    print_line(f"{what}: {run.label}. Id: {run.id}")
    print_undo(undo or NO_UNDO)

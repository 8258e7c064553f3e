"""`duly inbox`: what waits for a person, the safest first word about each, and how to say it."""

from __future__ import annotations

import json

from cyclopts import App

from duly.app import App as Application
from duly.cli.elsewhere import print_elsewhere
from duly.cli.output import print_facts, print_json, print_line, print_table
from duly.cli.references import find_run
from duly.cli.target import Target, opened
from duly.client.doubt_view import Effect, InboxItem
from duly.domain.advice import Choice
from duly.domain.effects import EffectState
from duly.domain.literals import AttemptState
from duly.domain.time_texts import distance_text, utc_text

TARGET = Target()
AMBIGUOUS = 6
"""The exit code when something waits whose outcome nobody knows."""
_COMMANDS = {
    Choice.RETRY: "duly run retry {run} --reason …",
    Choice.RESUME: "duly run resume {run} --reason …",
    Choice.REPAIR: "duly run rerun {run} --repair --reason …",
    Choice.RECONCILE: "duly run reconcile {run} --done --reason …   (or --failed)",
    Choice.SKIP: "duly run skip {run} --reason …",
}

app = App(name="inbox", help="Runs of which nobody knows what they did, and what is safest.")


@app.default
def inbox(run: str | None = None, /, *, limit: int = 50, target: Target = TARGET) -> int:
    """List runs that are in doubt, or show one with all that is known and what each choice risks.

    Parameters
    ----------
    run
        Its id, the beginning of it, or its label; without it, all that wait.
    limit
        At most so many.
    """
    with opened(target, makes_store=False) as application:
        if run is not None:
            item = application.inbox.get(find_run(application, run).id)
            if target.json:
                print_json(item.to_json())
            else:
                print_item(item)
            return AMBIGUOUS
        items = application.inbox.list(limit=limit)
        if target.json:
            print_json([one.to_json() for one in items])
        else:
            _print_items(application, items)
        return AMBIGUOUS if items else 0


def _print_items(application: Application, items: list[InboxItem]) -> None:
    if not items:
        print_line("Nothing waits: no run is in doubt.")
        print_elsewhere(application, ("ambiguous",))
        return
    now = application.status().now
    rows = [
        [
            str(one.run.id),
            one.run.label,
            "-" if one.since is None else distance_text(one.since, now),
            one.run.reason or "-",
            f"{one.advice.choice}: {one.advice.why}",
        ]
        for one in items
    ]
    print_table(("run", "label", "for", "why", "safest"), rows)
    print_line(f"duly inbox {items[0].run.id} shows what is known of it, and every choice.")


def print_item(item: InboxItem) -> None:
    """Print a run in doubt: what is known, what is safest, and what else could be done."""
    run, attempt = item.run, item.attempt
    print_line((run.label, "bold"), f"  {run.id}")
    task = f"{run.task} {json.dumps(run.arguments, ensure_ascii=False)}"
    facts = [("state", f"in doubt (ambiguous): {run.reason}"), ("task", task)]
    if attempt is not None:
        facts.append(
            ("attempt", f"{attempt.number} by {attempt.worker_name}: {_told(attempt.state)}")
        )
        if attempt.effects_at is not None:
            facts.append(("effects begun", utc_text(attempt.effects_at)))
        if attempt.late is not None:
            said = f"{attempt.late.state} at {utc_text(attempt.late.at)}, too late to count"
            facts.append(("its worker said", said))
    print_facts(facts)
    if item.effects:
        print_line()
        print_table(("effect", "known as", "begun", "result"), [_row(one) for one in item.effects])
    for check in item.checks:
        print_line(f"check by {check.by} at {utc_text(check.at)}: {check.finding}")
    print_line()
    if attempt is not None and attempt.state == AttemptState.LOST:
        print_line(
            ("first: ", "bold"),
            f"make sure that {attempt.worker_name} is gone; one that was only stopped, or cut off,",
            " goes on with what it was permitted",
        )
    print_line(("safest: ", "bold green"), f"{item.advice.choice}, because {item.advice.why}")
    if item.has_check:
        print_line(f"  duly run verify {run.id}   (has its task look first)")
    print_line(f"  {_COMMANDS[item.advice.choice].format(run=run.id)}")
    for choice, risk in item.advice.risks.items():
        confirm = f" --confirm {run.id}" if item.advice.is_risky(choice) else ""
        print_line((f"{choice}: ", "bold"), risk)
        print_line(f"  {_COMMANDS[choice].format(run=run.id)}{confirm}")
    unknown = [one.key for one in item.effects if one.state != EffectState.DONE]
    if unknown:
        some = "it has" if len(unknown) == 1 else "some have"
        print_line(f"When {some} happened, say so: retry and resume take --done {unknown[0]}")


def _told(state: str) -> str:
    """Say how an attempt ended; a lost one is not a lost run."""
    return "worker lost" if state == AttemptState.LOST else state


def _row(effect: Effect) -> list[str]:
    result = "-" if effect.result is None else json.dumps(effect.result, ensure_ascii=False)
    return [effect.key, effect.state, utc_text(effect.begun_at), result]

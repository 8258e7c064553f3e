"""`duly alert channels`, `duly alert channel …`: where alerts go (V3)."""

from __future__ import annotations

import json

from duly.app import App
from duly.cli.alert_texts import SAID, TermOptions, print_removed, print_terms
from duly.cli.output import print_json, print_line
from duly.cli.target import Target, opened
from duly.cli.undoing import print_undo, undo_text
from duly.client.alert_view import AlertChannel
from duly.client.arguments import read_json_text

TARGET = Target()
FAILED = 1


def channels(*, target: Target = TARGET) -> None:
    """List where alerts go."""
    with opened(target, makes_store=False) as application:
        found = application.alerts.channels()
    rows = [
        (
            one.name,
            one.kind,
            json.dumps(one.options, ensure_ascii=False) if one.options else "-",
            one.set_by or "-",
            str(one.version),
        )
        for one in found
    ]
    headings = ("channel", "kind", "options", "set by", "version")
    print_terms(target, found, (headings, *rows))


def add_channel(  # noqa: PLR0913 - options of a command
    name: str,
    kind: str,
    /,
    *,
    options: str | None = None,
    said: TermOptions = SAID,
    target: Target = TARGET,
) -> None:
    """Have alerts go somewhere, in place of what was said under that name before.

    Parameters
    ----------
    name
        What to call it, such as ops-mail.
    kind
        log, webhook, smtp, slack or mattermost.
    options
        What the kind needs, as a JSON map; a secret by reference:
        '{"url": {"secret": "env:DULY_SECRET_HOOK"}}'.
    """
    told = None if options is None else read_json_text("options", options)
    with opened(target) as application:
        before = _find(application, name)
        made = application.alerts.add_channel(name, kind, told, **said.terms())
    taking_back = (
        undo_text("alert", "channel", "remove", name) if before is None else _again(before)
    )
    if target.json:
        print_json({**made.to_json(), "undo": taking_back})
        return
    trying = undo_text("alert", "channel", "test", made.name)
    print_line(f"Alerts go to {made.name} ({made.kind}) as well; try it: ", trying)
    print_undo(taking_back)


def remove_channel(
    name: str,
    /,
    *,
    said: TermOptions = SAID,
    target: Target = TARGET,
) -> None:
    """Have alerts go there no more.

    Parameters
    ----------
    name
        Its name: duly alert channels.
    """
    with opened(target, makes_store=False) as application:
        before = _find(application, name)
        is_done = application.alerts.remove_channel(name, **said.terms())
    again = _again(before) if is_done and before is not None else None
    print_removed(target, f"channel {name}", is_done=is_done, again=again)


def try_channel(name: str, /, *, target: Target = TARGET) -> None:
    """Send a notice that is marked as a test, at once; the exit code is 1 if it was not taken.

    Parameters
    ----------
    name
        Its name: duly alert channels.
    """
    with opened(target, makes_store=False) as application:
        tried = application.alerts.test_channel(name)
    if target.json:
        print_json(tried.to_json())
    elif tried.is_done:
        print_line(f"{name} has taken it.")
    else:
        print_line(f"{name} has not taken it: {tried.detail}")
    if not tried.is_done:
        raise SystemExit(FAILED)


def _find(application: App, name: str) -> AlertChannel | None:
    """Return what somebody has said under that name."""
    found = (one for one in application.alerts.channels() if one.name == name)
    return next((one for one in found if not one.is_default), None)


def _again(channel: AlertChannel) -> str:
    options = json.dumps(channel.options, ensure_ascii=False)
    words = ("--options", options) if channel.options else ()
    return undo_text("alert", "channel", "add", channel.name, channel.kind, *words)

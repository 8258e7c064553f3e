"""Orders about alerts: taking note, silencing, speaking again, and trying a channel (V3, UX 38)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from duly import NotFound
from duly_web.page import Asked, Moved, Page, Said, Shown, Undo
from duly_web.pages.alerts import channels_page

if TYPE_CHECKING:
    from duly.api.views import AlertSilence

SILENCES, CHANNELS = "/alerts/silences", "/alerts/channels"


class Reason(msgspec.Struct, forbid_unknown_fields=True):
    """Why something is done."""

    reason: str = ""


class Hush(msgspec.Struct, forbid_unknown_fields=True):
    """For how long nobody is told, and why."""

    duration: str = ""
    reason: str = ""


class Quiet(msgspec.Struct, forbid_unknown_fields=True):
    """Of what nobody is told, for how long, and why."""

    duration: str = ""
    reason: str = ""
    kind: list[str] = []
    """None of them: all."""
    subject: str | None = None


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """A form with a button, and no more."""


def acknowledge(asked: Asked) -> Moved:
    """Take note of an alert, so that others know."""
    form: Reason = asked.form
    alert = asked.app.alerts.acknowledge(asked.path["alert"], reason=form.reason)
    by = "you" if alert.acknowledged_by == asked.visitor.name else alert.acknowledged_by
    text = f"{alert.kind} of {alert.subject} is acknowledged by {by}"
    return Moved(to=f"/alerts/{alert.id}", said=Said(text=text))


def silence_alert(asked: Asked) -> Moved:
    """Tell nobody of such an alert: of its kind, about its subject, in its tenant."""
    form: Hush = asked.form
    alert = asked.app.alerts.get(asked.path["alert"])
    made = asked.app.alerts.silence(
        reason=form.reason,
        duration=form.duration,
        kind=alert.kind,
        subject=alert.subject,
        tenant=alert.tenant,
    )
    return _silenced(made, f"/alerts/{alert.id}")


def silence(asked: Asked) -> Moved:
    """Tell nobody of some alerts."""
    form: Quiet = asked.form
    made = asked.app.alerts.silence(
        reason=form.reason,
        duration=form.duration,
        kind=form.kind or None,
        subject=form.subject or None,
    )
    return _silenced(made, SILENCES)


def unsilence(asked: Asked) -> Moved:
    """End a silence before its time: what is open is told."""
    form: Reason = asked.form
    name = asked.path["silence"]
    if not asked.app.alerts.unsilence(name, reason=form.reason or None):
        raise NotFound("silence", name, "it is over, or never was: look at the list")
    text = "the silence is over; what is open is told by the next look"
    return Moved(to=SILENCES, said=Said(text=text))


def try_channel(asked: Asked) -> Shown:
    """Send a notice that is marked as a test, and show how it went beside its channel."""
    tried = asked.app.alerts.test_channel(asked.path["channel"])
    return channels_page(asked, tried)


def _silenced(made: AlertSilence, to: str) -> Moved:
    what = f"{', '.join(made.kinds) or 'alerts'} of {made.subject or 'everything'}"
    path = f"{SILENCES}/{made.id}/end"
    undo = Undo(label="Unsilence", path=path, fields={"reason": "undone"})
    return Moved(to=to, said=Said(text=f"nobody is told of {what} for now", undo=undo))


PAGES = (
    Page(
        method="POST",
        path="/alerts/{alert}/acknowledge",
        name="acknowledge_alert",
        scope="edit",
        handler=acknowledge,
        form=Reason,
    ),
    Page(
        method="POST",
        path="/alerts/{alert}/silence",
        name="silence_alert",
        scope="edit",
        handler=silence_alert,
        form=Hush,
    ),
    Page(
        method="POST",
        path=SILENCES,
        name="silence_alerts",
        scope="edit",
        handler=silence,
        form=Quiet,
    ),
    Page(
        method="POST",
        path=f"{SILENCES}/{{silence}}/end",
        name="unsilence_alerts",
        scope="edit",
        handler=unsilence,
        form=Reason,
    ),
    Page(
        method="POST",
        path=f"{CHANNELS}/{{channel}}/test",
        name="try_alert_channel",
        scope="admin",
        handler=try_channel,
        form=Nothing,
    ),
)

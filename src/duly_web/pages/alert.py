"""One alert: what is so, since when, what to do, and who was told how often (V3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.api.views import runbook_of
from duly_web.commands import command_text, of_tenant
from duly_web.page import Asked, Page, Shown
from duly_web.pages.alerts import DURATIONS, Place, place_of

if TYPE_CHECKING:
    from duly.api.views import Alert

COMMAND = "duly "


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertModel:
    """The page."""

    alert: Alert
    place: Place | None
    """What it is about, where the console shows that."""
    commands: tuple[str, ...]
    """What the remedy says to type."""
    advice: tuple[str, ...]
    """What it says besides."""
    command: str
    runbook: str
    """From the root of the repository: the pages are no part of what is installed."""
    durations: tuple[str, ...] = DURATIONS

    @property
    def has_failed(self) -> bool:
        """Whether somebody could not be told."""
        return any(one.state == "given-up" for one in self.alert.deliveries)


def show_alert(asked: Asked) -> Shown:
    """Show one."""
    alert = asked.app.alerts.get(asked.path["alert"])
    parts = remedy_parts(alert.remedy)
    model = AlertModel(
        alert=alert,
        place=place_of(alert),
        commands=tuple(of_tenant(alert.tenant, one) for one in parts if one.startswith(COMMAND)),
        advice=tuple(one for one in parts if not one.startswith(COMMAND)),
        command=command_text(alert.tenant, "alert", "show", str(alert.id)),
        runbook=runbook_of(alert.kind),
    )
    return Shown(template="alert.html", model=model, title=f"{alert.kind}: {alert.subject}")


def remedy_parts(remedy: str) -> list[str]:
    """Take a remedy apart at its semicolons; one within quotes belongs to somebody's name."""
    parts, quote = [""], ""
    for letter in remedy:
        if letter == ";" and not quote:
            parts.append("")
            continue
        parts[-1] += letter
        if letter == quote:
            quote = ""
        elif letter in "'\"" and not quote and parts[-1].lstrip().startswith(COMMAND):
            quote = letter  # elsewhere it is an apostrophe
    return [one.strip() for one in parts if one.strip()]


PAGES = (
    Page(method="GET", path="/alerts/{alert}", name="alert", scope="read", handler=show_alert),
)

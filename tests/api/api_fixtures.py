"""An application in virtual time whose runs succeed, die and end in doubt, and its API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duly
from duly import Retry, every
from duly.domain.auth import Principal, PrincipalKind, Role

if TYPE_CHECKING:
    import httpx

    from duly.testing import VirtualClock
    from tests.api.api_client import Asker

START = "2026-04-03T02:00"


@dataclass
class Desk:
    """What a person at the desk has before them."""

    app: duly.App
    asked: Asker
    clock: VirtualClock

    def runs(self, state: str) -> list[dict[str, Any]]:
        """Return runs in a state, newest first."""
        found: list[dict[str, Any]] = self.asked.get("/runs", params={"state": state}).json()[
            "items"
        ]
        return found

    def order(self, run: object, verb: str, **terms: Any) -> httpx.Response:
        """Give an order about a run."""
        answer: httpx.Response = self.asked.post(f"/runs/{run}/{verb}", json=terms)
        return answer


def make_app() -> duly.App:
    """Return an application of which each task ends in its own way."""
    app = duly.App("memory:", actor="ada")

    @app.task(effects="unsafe", retry=Retry(attempts=3, base="1s"))
    def settle(run: duly.Run) -> None:
        run.expect(["a", "b"])
        run.progress(1, 2)
        run.log("on its way")
        run.once("pay:a", str)
        with run.effect("pay:b"):
            raise ConnectionResetError("no answer")

    @app.task(retry=Retry(attempts=1))
    def fail(how: str = "badly") -> None:
        raise ValueError(how)

    @app.task
    def report(run: duly.Run) -> int:
        return run.attempt

    @report.verify
    def look(run: duly.Run) -> duly.Verdict:
        return duly.Verdict.present(run.result)

    return app


def lives(app: duly.App, clock: VirtualClock) -> None:
    """Let two hours pass, in which something of each kind happens."""
    app.schedules.create("hourly", app.call("report"), every("1h"))
    app.enqueue(app.call("settle"))
    app.enqueue(app.call("fail"))
    clock.advance("2h")


def anna() -> Principal:
    """Return somebody who may do everything everywhere."""
    return Principal(tenant="*", name="anna", role=Role.ADMIN, kind=PrincipalKind.TOKEN, id=b"1")


def token_for(app: duly.App, name: str = "anna", **terms: Any) -> dict[str, str]:
    """Return the header by which somebody is known: who may do everything, unless told."""
    made = app.tokens.create(name, **{"role": "admin", "tenant": "*"} | terms)
    return {"Authorization": f"Bearer {made.text}"}

"""The demo's walk: kill a worker in the middle of a payment, and see what Duly makes of it (U1).

Only where `duly demo` has put controls is there anything to be killed; elsewhere there is no such
page.
"""

from __future__ import annotations

from duly import NotFound
from duly_web.page import Asked, Moved, Page, Said


def kill_worker(asked: Asked) -> Moved:
    """Kill a worker, as a power cut would."""
    controls = asked.app.demo
    if controls is None:
        raise NotFound("demo", "worker", "this is no demo: duly demo starts one")
    killed = controls.kill_worker()
    text = (
        f"worker {killed.worker} (process {killed.process}) was killed in the middle of a payment;"
        " nobody knows whether it went out: within seconds its run is in the inbox"
    )
    return Moved(to=f"/runs/{killed.run}", said=Said(text=text))


PAGES = (
    Page(
        method="POST", path="/demo/kill", name="kill_worker", scope="trigger", handler=kill_worker
    ),
)

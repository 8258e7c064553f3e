"""A store with something of each kind in it, for pages to show; made in a moment of real time."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import duly
from duly import cron, every

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.postgres.server import Databases


def furnish(app: duly.App) -> None:
    """Make schedules and runs."""

    @app.task
    def report() -> None: ...

    @app.task(queue="mail")
    def remind(class_id: int) -> None: ...

    app.schedules.create("nightly-report", app.call("report"), cron("0 2 * * *", tz="Europe/Paris"))
    app.schedules.create("every-minute", app.call("report"), every("1m"))
    app.schedules.create("in-tokyo", app.call("report"), cron("30 9 * * 1-5", tz="Asia/Tokyo"))
    app.schedules.pause("in-tokyo", reason="holidays")
    for number in range(12):
        app.enqueue(app.call("remind", {"class_id": number}))


def sqlite_app(folder: Path) -> duly.App:
    """Return an application on a new file."""
    app = duly.App(f"sqlite:///{folder / 'console.db'}", actor="ada")
    app.migrate()
    furnish(app)
    return app


@contextmanager
def postgres_app(server: Databases) -> Iterator[duly.App]:
    """Lend an application on a new database, whose clock is the server's."""
    url = server.create_database()
    with duly.App(url, actor="ada") as app:
        app.migrate()
        furnish(app)
        yield app
    server.drop_database(url)

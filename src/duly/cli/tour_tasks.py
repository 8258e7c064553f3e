"""The application that the tour uses: a few tasks, and whatever store the tour names."""

from __future__ import annotations

import threading

from duly.app import App
from duly.client.run_view import Run
from duly.domain.retrying import Retry

PAGE_SECONDS = 0.5
ACCOUNTS = (42,)

app = App(name="tour")


@app.task
def greet(name: str = "world") -> str:
    """Greet somebody."""
    return f"hello, {name}"


@app.task(retry=Retry(attempts=3, base="2s"))
def charge(account: int) -> str:
    """Charge an account, if there is one of that number."""
    if account not in ACCOUNTS:
        raise LookupError(f"there is no account {account}")
    return f"account {account} is charged"


@app.task(retry=Retry(attempts=3, base="500ms"))
def import_pages(run: Run, pages: int = 10) -> str:
    """Import pages one by one; go on after the last one that a checkpoint says is done."""
    done = run.resume_from() or 0
    run.log(f"attempt {run.attempt}, fence {run.fence}: begins after page {done}")
    for page in range(done + 1, pages + 1):
        threading.Event().wait(PAGE_SECONDS)
        run.checkpoint(page)
        run.progress(page, total=pages)
    return f"{pages} pages, the last {pages - done} of them by attempt {run.attempt}"

"""The application of the demo: a small company's errands, made up, each to show something.

Every task does nothing to the outside: it waits, counts and logs. What it "calls" is a `World` in
this process, whose state the demo's past changes as it goes along.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from duly.app import App
from duly.client.run_view import Run
from duly.demo.pacing import rest
from duly.domain.answers import GiveUp, give_up
from duly.domain.checking import Verdict
from duly.domain.retrying import Retry

ACCOUNTS = tuple(f"account-{number}" for number in range(1, 9))
PAYMENT_SECONDS = 50
"""How long a live payment is under way: long enough for somebody to kill its worker."""
PARTNER = "partner-api.demo"
BULK = "bulk"


@dataclass(slots=True)
class World:
    """What lies outside; as it is here, it is now, while somebody looks on."""

    partner_is_up: bool = False
    feed_is_sound: bool = True
    report_is_stored: bool = True
    closing_ends_at: int = len(ACCOUNTS)
    slowness: float = 1.0


WORLD = World()
app = App(name="demo", actor="demo")


def chance(run: Run, most: int) -> int:
    """Return a number below `most` that is always the same for a run."""
    return int.from_bytes(blake2b(run.id.bytes, digest_size=4).digest()) % most


@app.task(retry=Retry(attempts=1))
def poll_sensors(run: Run) -> dict[str, int]:
    """Read a few sensors; worth doing on time or not at all."""
    rest(run, (2 + chance(run, 6)) * WORLD.slowness)
    run.progress(12, total=12, note="12 sensors")
    return {"sensors": 12, "alarms": chance(run, 40) // 39}


@app.task(retry=Retry(attempts=3, base="5s", cap="1m"))
def refresh_index(run: Run) -> dict[str, int]:
    """Build the search index anew; only the newest counts."""
    documents = 4_000 + chance(run, 900)
    run.log(f"indexing {documents} documents")
    rest(run, (180 + chance(run, 240)) * WORLD.slowness)
    run.progress(documents, total=documents)
    return {"documents": documents}


@app.task(retry=Retry(attempts=4, base="20s", cap="5m"))
def import_feed(run: Run, source: str = "prices") -> dict[str, object]:
    """Import a feed; a source that is away for a moment is tried again, a broken one is not."""
    rest(run, (20 + chance(run, 30)) * WORLD.slowness)
    if not WORLD.feed_is_sound:
        raise ValueError(f"{source}: line 214 has 7 fields, expected 9")
    if run.attempt == 1 and chance(run, 9) == 0:
        raise ConnectionError(f"{source}: the connection was reset")
    return {"source": source, "rows": 900 + chance(run, 100)}


@app.task(retry=Retry(attempts=3, base="30s"))
def nightly_report(run: Run) -> dict[str, str]:
    """Write the report of the night, part by part; a lost worker costs no part twice."""
    parts = ("sales", "stock", "returns", "forecast")
    done = run.resume_from() or 0
    for number, part in enumerate(parts[done:], done + 1):
        run.log(f"writing {part}")
        rest(run, 40 + chance(run, 50))
        run.checkpoint(number)
        run.progress(number, total=len(parts), note=part)
    return {"file": f"report-{run.label}.pdf"}


@nightly_report.verify
def report_is_there(run: Run) -> Verdict:
    """Look whether the report is where it belongs."""
    if WORLD.report_is_stored:
        return Verdict.present({"file": f"report-{run.label}.pdf", "bytes": 48_213})
    return Verdict.absent({"looked_in": "the archive"})


@app.task(preset="one-result")
def close_ledger(run: Run) -> str:
    """Close the books of every account; those that are missing show in the scope of the run."""
    run.expect(ACCOUNTS)
    for number, account in enumerate(run.remaining(ACCOUNTS[: WORLD.closing_ends_at]), 1):
        rest(run, 15)
        run.done(account)
        run.progress(number, total=len(ACCOUNTS), note=account)
    return f"{WORLD.closing_ends_at} of {len(ACCOUNTS)} accounts are closed"


@app.task(preset="never-twice", timeout="10m")
def pay_suppliers(run: Run) -> str:
    """Pay what is due; a payment may not be made twice."""
    run.log("reading what is due")
    rest(run, 5)
    for number in range(1, 4):
        run.once(f"transfer:{number}", _transfer, run, number)
        run.progress(number, total=3)
    return "3 transfers"


def _transfer(run: Run, number: int) -> dict[str, int]:
    run.log(f"transfer {number} is sent to the bank")
    rest(run, 20)
    return {"receipt": 70_000 + chance(run, 9_000) + number}


@app.task(preset="never-twice", timeout="5m")
def charge_card(run: Run) -> str:
    """Charge a card, slowly: the worker that does it is there to be killed."""
    run.log("asking the bank")
    rest(run, 1)
    with run.effect("charge"):
        run.log("the bank is charging the card: nobody knows until it answers")
        for second in range(PAYMENT_SECONDS):
            run.progress(second, total=PAYMENT_SECONDS, note="waiting for the bank")
            rest(run, 1)
    return "charged"


@app.task(retry=Retry(attempts=6, base="10s", cap="2m"), destination=PARTNER)
def push_order(run: Run, order: int) -> str:
    """Tell a partner of an order; while the partner is down, orders wait."""
    rest(run, 1)
    if not WORLD.partner_is_up:
        raise ConnectionError(f"{PARTNER}: connection refused")
    return f"order {order} is there"


@app.task
def send_reminder(run: Run, class_id: int) -> str:
    """Remind somebody of a class."""
    rest(run, 1)
    return f"class {class_id} was reminded"


@app.task(queue=BULK)
def render_video(run: Run, title: str) -> str:
    """Render a video; its queue is paused, so that it waits."""
    rest(run, 60)
    return title


@app.task(retry=Retry(attempts=2, base="5s"))
def rebuild_cache(run: Run) -> str:
    """Rebuild a cache; a newer order replaces an older one that still runs."""
    rest(run, 600 * WORLD.slowness)
    return "rebuilt"


@app.task
def archive_mail(run: Run, month: str = "last") -> str | GiveUp:
    """Archive mail; a month that is gone is given up."""
    rest(run, 10)
    if month == "unknown":
        return give_up("there is no such month")
    return f"{month} is archived"


@app.task(retry=Retry(attempts=2))
def count_visits(run: Run) -> dict[str, int]:
    """Count the visits of a day; days that were missed are made up for by a backfill."""
    rest(run, 45)
    return {"visits": 11_000 + chance(run, 3_000)}


@app.task
def pulse(run: Run) -> str:
    """Beat, so that there is always something to see."""
    steps = 3 + chance(run, 4)
    for step in range(1, steps + 1):
        rest(run, 0.6)
        run.progress(step, total=steps)
    run.log(f"beat of {steps} steps")
    return f"{steps} steps"


@app.task(retry=Retry(attempts=3, base="1s"))
def import_pages(run: Run, pages: int = 12) -> str:
    """Import pages one by one; after a lost worker another goes on from the last checkpoint."""
    done = run.resume_from() or 0
    run.log(f"attempt {run.attempt}, fence {run.fence}: begins after page {done}")
    for page in range(done + 1, pages + 1):
        rest(run, 0.8)
        run.checkpoint(page)
        run.progress(page, total=pages, note=f"page {page}")
    return f"{pages} pages, the last {pages - done} of them by attempt {run.attempt}"

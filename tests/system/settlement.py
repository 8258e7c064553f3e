"""The nightly settlement of 50 accounts, written three ways; its worker is killed at 78 %.

The table of payouts is anybody's: a row is appended and committed by itself, and nothing in it
refuses a second one for the same account.
"""

from __future__ import annotations

import os
import signal

import duly

app = duly.App()
ACCOUNTS = [f"account-{number:02}" for number in range(50)]
PAID_FIRST = 39
"""Of 50: as many rows as were committed when the worker was killed, 78 %."""
SOON = duly.Retry(attempts=3, base="0s", cap="0s")


def pay(run: duly.Run, account: str) -> str:
    """Append a payout; the worker may be gone before anybody hears of it."""
    with app.transaction() as tx:
        tx.execute(f"INSERT INTO payouts VALUES ('{run.task}', '{account}', 100)")  # noqa: S608
        (count,) = tx.execute(f"SELECT count(*) FROM payouts WHERE task = '{run.task}'")[0]  # noqa: S608
    if count == PAID_FIRST:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"payout to {account}"


@app.task(retry=SOON)
def naive(run: duly.Run) -> None:
    """Append and go on: as most are written."""
    for account in ACCOUNTS:
        pay(run, account)


@app.task(effects="unsafe", retry=SOON)
def careful(run: duly.Run) -> int:
    """Ask before each payout, and say what there is to do and what is done."""
    run.expect(ACCOUNTS)
    for number, account in enumerate(run.remaining(ACCOUNTS), 1):
        run.once(f"payout:{account}", pay, run, account)
        run.done(account)
        run.progress(number, len(ACCOUNTS))
    return len(ACCOUNTS)


@careful.verify
def all_are_paid(run: duly.Run) -> duly.Verdict:
    """Look at the table, and not at what the run says."""
    with app.transaction() as tx:
        rows = tx.execute(f"SELECT account FROM payouts WHERE task = '{run.task}'")  # noqa: S608
    accounts = [str(account) for (account,) in rows]
    evidence = {"rows": len(accounts), "accounts": len(set(accounts)), "of": len(ACCOUNTS)}
    if sorted(accounts) == ACCOUNTS:
        return duly.Verdict.present(evidence)
    return duly.Verdict.partial(evidence) if accounts else duly.Verdict.absent()


@app.task(effects="transactional", retry=SOON)
def at_once(run: duly.Run) -> None:
    """Commit all payouts and the run's success together."""
    run.expect(ACCOUNTS)
    with run.transaction("5s") as tx:
        for number, account in enumerate(ACCOUNTS, 1):
            tx.execute(f"INSERT INTO payouts VALUES ('{run.task}', '{account}', 100)")  # noqa: S608
            if number == PAID_FIRST and run.attempt == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        run.done(*ACCOUNTS)

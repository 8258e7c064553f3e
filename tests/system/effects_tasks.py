"""Tasks of every class of effects, whose workers are killed and stopped in every phase.

What happens in the world is in the book of a bank, a process of its own. Each execution leaves
marks in a ledger outside of the store: that it is here, what it asks for, what it was permitted, and
what it is about to say.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import duly
from duly.errors import EffectUnknown
from tests.system import effects_harm as harm
from tests.system.bank import PAY, REFUSED, Call
from tests.system.effects_harm import PLANS, Who, ledger, reach, strike
from tests.system.work_evidence import DONE, END, START

if TYPE_CHECKING:
    from collections.abc import Iterator

app = duly.App()
SOON = duly.Retry(attempts=20, base="0s", cap="0s")
ASKED, GRANTED, RECORDED = "asked", "granted", "recorded"
NOT_DONE, UNKNOWN, RAISED = "not done", "unknown", "raised"
WHOLE = "whole"
"""How the bank calls what has no key of its own."""
ACCOUNTS = ("a", "b", "c")
NOBODY: Who = (UUID(int=0), 0, 0)


class Visit:
    """One execution of a task's code, as it tells of itself."""

    def __init__(self, run: duly.Run, harms: list[str]) -> None:
        self.run = run
        self.harms = harms
        self.who: Who = (run.id, run.attempt, run.fence)
        ledger().write(START, self.who, run.task)
        self.reach(harm.BEFORE)

    def reach(self, phase: str) -> None:
        reach(phase, self.harms, self.who)

    def mark(self, kind: str, said: str) -> None:
        ledger().write(kind, self.who, said)

    def end(self, said: str) -> None:
        """Write down what the code is about to say."""
        self.mark(END, said)
        PLANS.note_next(self.harms, self.who)

    def pay(self, key: str, *, is_recognised: bool = False, is_refused: bool = False) -> str:
        """Have the bank pay; what happens on the way is not seen from here."""
        line = self.run.idempotency_key
        order = _order(line, key, self.who) | {
            "is_recognised": is_recognised,
            "is_refused": is_refused,
        }
        call = Call(order)
        self.reach(harm.INSIDE)
        answer = call.hear()
        self.reach(harm.HAPPENED)
        if answer == REFUSED:
            raise duly.EffectNotDone("the bank has refused")
        return f"receipt of {line} {key}"

    def pay_permitted(self, key: str, **manner: bool) -> str:
        """Pay, when that has been permitted."""
        self.mark(GRANTED, key)
        self.reach(harm.PERMITTED)
        return self.pay(key, **manner)

    def recorded(self, key: str) -> None:
        """Come to the point where an effect is on record as done."""
        self.mark(RECORDED, key)
        self.reach(harm.RECORDED)


def _order(line: str, key: str, who: Who) -> dict[str, Any]:
    run, attempt, fence = who
    place = {"line": line, "key": key, "run": run.hex}
    return {"what": PAY, **place, "attempt": attempt, "fence": fence, "process": os.getpid()}


@contextmanager
def visited(run: duly.Run, harms: list[str]) -> Iterator[Visit]:
    """Write down the start, and how it ends, in the code's own words."""
    visit = Visit(run, harms)
    try:
        yield visit
    except duly.EffectNotDone:
        visit.end(NOT_DONE)
        raise
    except EffectUnknown:
        visit.end(UNKNOWN)
        raise
    except BaseException:
        visit.end(RAISED)
        raise
    visit.end(DONE)


@app.task(effects="unsafe", retry=SOON)
def wire(run: duly.Run, harms: list[str], is_refused: bool) -> None:
    """One effect, which may not be repeated; the first time the bank may refuse it."""
    with visited(run, harms) as visit:
        visit.mark(ASKED, "wire")
        with run.effect("wire"):
            visit.pay_permitted("wire", is_refused=is_refused and run.attempt == 1)
        visit.recorded("wire")


@app.task(effects="unsafe", retry=SOON)
def payroll(run: duly.Run, harms: list[str], account: str) -> None:
    """Several effects, each of which may not be repeated; harm comes at one of them."""
    with visited(run, []) as visit:
        for key in ACCOUNTS:
            visit.harms = harms if key == account else []
            visit.mark(ASKED, key)
            run.once(key, visit.pay_permitted, key)
            visit.recorded(key)
        visit.harms = harms


@app.task(effects="unsafe", retry=SOON)
async def courier(run: duly.Run, harms: list[str]) -> None:
    """The same as one effect, on the event loop."""
    with visited(run, harms) as visit:
        visit.mark(ASKED, "parcel")
        await run.aio.once("parcel", visit.pay_permitted, "parcel")
        visit.recorded("parcel")


@app.task(effects="unsafe", retry=SOON)
def batch(run: duly.Run, harms: list[str]) -> None:
    """All of it under one permission."""
    with visited(run, harms) as visit:
        visit.mark(ASKED, WHOLE)
        run.begin_effects()
        visit.pay_permitted(WHOLE)


@app.task(effects="unsafe", retry=SOON)
def blind(harms: list[str], name: str) -> None:
    """One that takes no run: all of it is an effect, and it does not know which attempt it is."""
    kind, _, where = (harms[0] if harms else "").partition("@")
    if where == harm.PERMITTED:
        strike(kind, where, NOBODY)
    call = Call(_order(name, WHOLE, NOBODY) | {"is_recognised": False, "is_refused": False})
    if where == harm.INSIDE:
        strike(kind, where, NOBODY)
    call.hear()
    if where == harm.HAPPENED:
        strike(kind, where, NOBODY)


@app.task(retry=SOON)
def remind(run: duly.Run, harms: list[str]) -> str:
    """Something that may be repeated, and is not once it is on record."""
    with visited(run, harms) as visit:
        visit.mark(ASKED, "mail")
        receipt = run.once("mail", visit.pay_permitted, "mail", is_recognised=True)
        visit.recorded("mail")
    return str(receipt)


@app.task(retry=SOON)
def refresh(run: duly.Run, harms: list[str]) -> str:
    """Something that the other side recognises, without a word to the store."""
    with visited(run, harms) as visit:
        return visit.pay("page", is_recognised=True)


@app.task(effects="transactional", retry=SOON)
def close_day(run: duly.Run, harms: list[str]) -> None:
    """A row of one's own, together with the end of the run."""
    with visited(run, harms) as visit:
        with run.transaction("5s") as tx:
            # The run's own hexadecimal id, so that the statement is the same on both stores.
            tx.execute(f"INSERT INTO closings VALUES ('{run.id.hex}', {run.fence})")  # noqa: S608
            tx.result("closed")
            visit.reach(harm.WITHIN)
            visit.end(DONE)
        visit.reach(harm.COMMITTED)


@app.task(effects="pure", retry=SOON)
def tally(run: duly.Run, harms: list[str]) -> int:
    """Nothing but a sum."""
    with visited(run, harms):
        return sum(range(10_000))


AROUND = (harm.CLAIMING, harm.CLAIMED, harm.FINISHING, harm.FINISHED)
ASKS = (harm.ASKING, harm.ANSWERED)
IN_EFFECT = (harm.PERMITTED, harm.INSIDE, harm.HAPPENED)
PHASES = {
    "wire": (*AROUND, *ASKS, harm.BEFORE, *IN_EFFECT, harm.RECORDED),
    "payroll": (*AROUND, *ASKS, *IN_EFFECT, harm.RECORDED),
    "courier": (*AROUND, *ASKS, harm.BEFORE, *IN_EFFECT, harm.RECORDED),
    "batch": (*AROUND, *ASKS, harm.BEFORE, *IN_EFFECT),
    "blind": (*AROUND[1:], *ASKS, *IN_EFFECT),
    "remind": (*AROUND, *ASKS, harm.BEFORE, *IN_EFFECT, harm.RECORDED),
    "refresh": (*AROUND, harm.BEFORE, harm.INSIDE, harm.HAPPENED),
    "close_day": (*AROUND[:2], harm.BEFORE, harm.WITHIN, harm.COMMITTED),
    "tally": (*AROUND, harm.BEFORE),
}
"""By task: where its worker can be harmed."""
CLASSES = dict.fromkeys(("wire", "payroll", "courier", "batch", "blind"), "unsafe") | {
    "remind": "idempotent",
    "refresh": "idempotent",
    "close_day": "transactional",
    "tally": "pure",
}
"""Each task's class of effects, as the checker has it."""

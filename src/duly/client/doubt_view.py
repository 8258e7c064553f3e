"""What is known of a run in doubt, as people see it: effects, checks, and what is safest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.attempt_view import Attempt, attempt_view
from duly.client.checking import Checks
from duly.domain.effects import Advice, Choice, Doubt, EffectState, advise
from duly.domain.enums import AttemptState, Effects, Finding, RunState
from duly.domain.ids import RunId
from duly.timetable.instants import from_microseconds, iso_or_none, iso_utc, moment_or_none

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly.client.caller import Caller
    from duly.client.inbox import Settled
    from duly.client.run_view import Run
    from duly.domain.effects import EffectRecord
    from duly.store.ports.effects import VerdictRecord
    from duly.store.ports.queries import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What is known of one effect of a run."""

    key: str
    state: str
    """intended, done or unknown."""
    run: UUID
    fence: int
    """Of the claim that was last permitted to do it."""
    begun_at: datetime
    done_at: datetime | None
    result: Any
    tries: int
    settled: Settled | None = None
    """Of an unknown one: what somebody has decided about it since. The ledger stays as it is."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "key": self.key,
            "state": self.state,
            "run": str(self.run),
            "fence": self.fence,
            "begun_at": iso_utc(self.begun_at),
            "done_at": iso_or_none(self.done_at),
            "result": self.result,
            "tries": self.tries,
            "settled": None if self.settled is None else self.settled.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What was found about the result of a run."""

    finding: str
    verdict: str
    at: datetime
    by: str
    evidence: Any

    @property
    def kind(self) -> Finding:
        """What was found, as one of the few things that can be."""
        return Finding(self.finding)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "finding": self.finding,
            "verdict": self.verdict,
            "at": iso_utc(self.at),
            "by": self.by,
            "evidence": self.evidence,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxItem:
    """A run that is in doubt, all that is known of it, and what is advised."""

    run: Run
    attempt: Attempt | None
    """The one that left it so."""
    effects: tuple[Effect, ...]
    checks: tuple[Check, ...]
    has_check: bool
    """Whether its task can be asked: `verify`."""
    advice: Advice

    @property
    def since(self) -> datetime | None:
        """Since when it is in doubt."""
        return None if self.attempt is None else self.attempt.ended_at

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        since = self.since
        return {
            "run": self.run.to_json(),
            "since": iso_or_none(since),
            "attempt": None if self.attempt is None else self.attempt.to_json(),
            "effects": [one.to_json() for one in self.effects],
            "checks": [one.to_json() for one in self.checks],
            "has_check": self.has_check,
            "advice": {
                "safest": str(self.advice.choice),
                "why": self.advice.why,
                "risks": {str(choice): risk for choice, risk in self.advice.risks.items()},
            },
        }


def rerun_risk(caller: Caller, run: Run, *, is_repair: bool) -> str | None:
    """Say what running a run once more may do twice; None for what may be done unconfirmed."""
    if run.state == RunState.AMBIGUOUS:
        advice = inbox_item(caller, run).advice
        is_risky = is_repair and advice.is_risky(Choice.REPAIR)
        return advice.risks[Choice.REPAIR] if is_risky else None
    has_effects = bool(caller.store.list_effects(RunId(run.id.bytes), 1))
    return "does all of its effects a second time" if has_effects and not is_repair else None


def inbox_item(caller: Caller, run: Run) -> InboxItem:
    """Return all that is known of a run in doubt, and what is advised."""
    return inbox_items(caller, [run])[0]


def inbox_items(caller: Caller, runs: Sequence[Run]) -> list[InboxItem]:
    """Return runs with all that is known of them, by a few questions about all of them."""
    evidence = caller.store.read_evidence([RunId(one.id.bytes) for one in runs])
    checked = Checks(caller).checked({one.task for one in runs})
    return [
        _item_of(run, evidence[RunId(run.id.bytes)], has_check=run.task in checked) for run in runs
    ]


def _item_of(run: Run, known: Evidence, *, has_check: bool) -> InboxItem:
    last = None if known.attempt is None else attempt_view(known.attempt)
    effects = tuple(effect_view(one) for one in known.effects)
    newest = known.verdicts[::-1]
    late = None if last is None else last.late
    doubt = Doubt(
        effects=Effects.UNSAFE,
        done=sum(one.state == EffectState.DONE for one in effects),
        unknown=sum(one.state != EffectState.DONE for one in effects),
        is_whole=not effects,
        has_checkpoint=known.has_checkpoint,
        has_check=has_check,
        finding=next((one.finding for one in newest if one.doubt == run.fence), None),
        has_late_success=late is not None and late.state == AttemptState.SUCCEEDED,
    )
    return InboxItem(
        run=run,
        attempt=last,
        effects=effects,
        checks=tuple(check_view(one) for one in known.verdicts),
        has_check=has_check,
        advice=advise(doubt),
    )


def effect_view(record: EffectRecord, settled: Settled | None = None) -> Effect:
    """Return what is known of an effect, as people see it."""
    return Effect(
        key=record.key,
        state=str(record.state),
        run=UUID(bytes=record.run_id),
        fence=record.fence,
        begun_at=from_microseconds(record.begun_at),
        done_at=moment_or_none(record.done_at),
        result=None if record.result is None else json.loads(record.result),
        tries=record.tries,
        settled=settled,
    )


def check_view(record: VerdictRecord) -> Check:
    """Return what was found about a result, as people see it."""
    return Check(
        finding=str(record.finding),
        verdict=str(record.finding.verdict),
        at=from_microseconds(record.at),
        by=record.by,
        evidence=None if record.evidence is None else json.loads(record.evidence),
    )

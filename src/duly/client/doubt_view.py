"""What is known of a run in doubt, as people see it: effects, checks, and what is safest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from duly.client.attempt_view import Attempt, attempt_view
from duly.client.checking import Checks
from duly.domain.effects import REPEATS, Advice, Choice, Doubt, EffectState, advise
from duly.domain.enums import AttemptState, Effects, Finding, RunState
from duly.domain.ids import RunId
from duly.domain.runs import DECIDED, Reason
from duly.store.ports.queries import EFFECTS_MAX
from duly.timetable.instants import from_microseconds, iso_or_none, iso_utc, moment_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duly.client.caller import Caller
    from duly.client.inbox import Settled
    from duly.client.run_view import Run
    from duly.domain.effects import EffectRecord
    from duly.domain.runs import RunRecord
    from duly.domain.verification import Scope
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
    scope: Scope
    """How much it was to do, and what of that is on record as done."""
    has_check: bool
    """Whether its task can be asked: `verify`."""
    advice: Advice

    @property
    def unknown(self) -> tuple[str, ...]:
        """The keys of effects of which nobody knows whether they have happened."""
        return tuple(one.key for one in self.effects if one.state != EffectState.DONE)

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
            "scope": self.scope.to_json(),
            "has_check": self.has_check,
            "advice": {
                "safest": str(self.advice.choice),
                "why": self.advice.why,
                "risks": {str(choice): risk for choice, risk in self.advice.risks.items()},
                "may_repeat": self.advice.may_repeat,
            },
        }


class RepeatRisk(NamedTuple):
    """What an order to run something again may do twice."""

    text: str | None
    """What, as "this …" goes on; None for what needs no confirmation."""
    unknown: tuple[str, ...] = ()
    """Unknown effects, which an order may settle by their keys."""
    asked: tuple[str, ...] = ()
    """Those that may not be repeated. If each is settled, nothing is left to confirm."""

    def left_by(self, named: Mapping[str, bool]) -> str | None:
        """Return what may still be done twice when some unknown effects are settled."""
        is_settled = bool(self.asked) and named.keys() >= {*self.asked}
        return None if is_settled else self.text


_TWICE = "does all of its effects a second time"
ATTEMPTS_READ_MAX = 100
"""So many of a run's last attempts are looked at for effects that were begun without keys."""


def repeat_risk(item: InboxItem, choice: Choice) -> RepeatRisk:
    """Say what a choice about a run in doubt may do twice."""
    text = item.advice.risks.get(choice, REPEATS) if item.advice.is_risky(choice) else None
    return RepeatRisk(text, item.unknown, item.unknown)


def rerun_risk(caller: Caller, run: Run, *, is_repair: bool) -> RepeatRisk:
    """Say what running a run once more may do twice."""
    if run.state == RunState.AMBIGUOUS:
        item = inbox_item(caller, run)
        return repeat_risk(item, Choice.REPAIR) if is_repair else RepeatRisk(None)
    effects = caller.store.list_effects(RunId(run.id.bytes), EFFECTS_MAX)
    if is_repair and effects:
        unknown = [one for one in effects if one.state is EffectState.UNKNOWN]
        asked = _left_unknown(caller, unknown)
        return RepeatRisk(REPEATS if asked else None, tuple(one.key for one in unknown), asked)
    if effects or (run.state == RunState.SUCCEEDED and _has_begun(caller, run)):
        return RepeatRisk(_TWICE)
    if is_repair and run.state == RunState.SKIPPED and _has_begun(caller, run):
        return RepeatRisk(REPEATS)
    return RepeatRisk(None)


def _left_unknown(caller: Caller, unknown: Sequence[EffectRecord]) -> tuple[str, ...]:
    """Return the unknown effects of runs that were in doubt, and were closed without settling them.

    Those of other runs belong to tasks that may repeat them.
    """
    runs = caller.store.get_runs(sorted({one.run_id for one in unknown})) if unknown else {}
    return tuple(one.key for one in unknown if _was_in_doubt(runs.get(one.run_id)))


def _was_in_doubt(record: RunRecord | None) -> bool:
    if record is None:
        return True
    is_decided = record.state_reason in {*DECIDED, Reason.VERIFIED}
    return is_decided or record.state in (RunState.SKIPPED, RunState.AMBIGUOUS)


def _has_begun(caller: Caller, run: Run) -> bool:
    """Say whether a run has begun effects without keys, of which the ledger knows nothing."""
    attempts = caller.store.list_attempts(RunId(run.id.bytes), ATTEMPTS_READ_MAX)
    return any(one.effects_at is not None for one in attempts)


def inbox_item(caller: Caller, run: Run) -> InboxItem:
    """Return all that is known of a run in doubt, and what is advised."""
    return inbox_items(caller, [run])[0]


def inbox_items(caller: Caller, runs: Sequence[Run]) -> list[InboxItem]:
    """Return runs with all that is known of them, by a few questions about all of them."""
    ids = [RunId(one.id.bytes) for one in runs]
    evidence = caller.store.read_evidence(ids)
    findings = caller.store.read_findings(ids)
    checked = Checks(caller).checked({one.task for one in runs})
    return [
        _item_of(run, evidence[of], findings[of].scope, has_check=run.task in checked)
        for of, run in zip(ids, runs, strict=True)
    ]


def _item_of(run: Run, known: Evidence, scope: Scope, *, has_check: bool) -> InboxItem:
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
        scope=scope,
    )
    return InboxItem(
        run=run,
        attempt=last,
        effects=effects,
        checks=tuple(check_view(one) for one in known.verdicts),
        scope=scope,
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

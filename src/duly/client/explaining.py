"""Why a run is late, stuck, waiting or dead, as people and programs are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.run_facts import read_run_facts
from duly.domain.explaining.explain import explain
from duly.errors import NotFound

if TYPE_CHECKING:
    from duly.client.caller import Caller
    from duly.domain.identity import RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExplanation:
    """One sentence about a run, what it rests on, and what to do, if anything."""

    id: UUID
    state: str
    """As `Run.state`, or pending."""
    cause: str
    """A code for each kind of explanation, such as queue-paused."""
    sentence: str
    evidence: tuple[tuple[str, str], ...]
    """What it rests on: each fact by its name, in words."""
    remedy: str | None

    def __str__(self) -> str:
        return self.sentence

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "state": self.state,
            "cause": self.cause,
            "sentence": self.sentence,
            "evidence": [{"fact": name, "is": fact} for name, fact in self.evidence],
            "remedy": self.remedy,
        }


def explain_run(caller: Caller, run_id: RunId) -> RunExplanation:
    """Explain a run, pending or made; NotFound when there is none."""
    facts = read_run_facts(caller, run_id)
    identity = UUID(bytes=run_id)
    if facts is None:
        raise NotFound("run", identity, "list them with app.runs.list()")
    found = explain(facts)
    return RunExplanation(
        id=identity,
        state="pending" if facts.is_pending else str(facts.run.state),
        cause=str(found.cause),
        sentence=found.sentence,
        evidence=found.evidence,
        remedy=found.remedy,
    )

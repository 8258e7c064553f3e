"""What a run has brought about: its effects, checks of its result, its items, and its repetitions.

Each part is shown only where there is one: most runs have none of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from duly.app import App
from duly.cli.audit import newest_entries
from duly.cli.output import print_line, print_table
from duly.client.doubt_view import Check, Effect
from duly.client.history import HistoryEntry
from duly.client.run_view import Run
from duly.domain.scope import Scope
from duly.domain.time_texts import utc_text

EVIDENCE_LENGTH_MAX = 200
MISSING_SHOWN_MAX = 20
DECISIONS_MAX = 100
_DOUBT = "run.ambiguous"
_DECISIONS = frozenset((_DOUBT, "run.settled", "run.verdict"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequences:
    """What is on record of a run besides its attempts."""

    effects: Sequence[Effect]
    checks: Sequence[Check]
    scope: Scope
    decisions: Sequence[HistoryEntry]
    """Doubts, and what people and checks decided about them, oldest first."""
    line: Sequence[Run]
    """The run, those that repeat it, and the one that it repeats, oldest first."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        scope = self.scope
        return {
            "effects": [one.to_json() for one in self.effects],
            "checks": [one.to_json() for one in self.checks],
            "scope": {
                "expected": scope.expected,
                "done": scope.done,
                "repeated": scope.repeated,
                "missing": list(scope.missing),
            }
            if scope.is_known
            else None,
            "decisions": [one.to_json() for one in self.decisions],
            "line": [
                {"id": str(one.id), "origin": one.origin, "state": one.state} for one in self.line
            ],
        }


def read_consequences(app: App, run: Run) -> Consequences:
    """Read what is on record of a run."""
    return Consequences(
        effects=app.inbox.effects(run.id),
        checks=app.inbox.checks(run.id),
        scope=app.inbox.scope(run.id),
        decisions=_decisions(app, run),
        line=app.inbox.line(run.id),
    )


def _decisions(app: App, run: Run) -> list[HistoryEntry]:
    """Return what was decided about a run since it was in doubt; most never are."""
    entries = newest_entries(app, DECISIONS_MAX, {"subject_id": str(run.id)}, is_whole=False)
    found = [one for one in reversed(entries) if one.action in _DECISIONS]
    return found if any(one.action == _DOUBT for one in found) else []


def print_consequences(run: Run, known: Consequences) -> None:
    """Print the parts that there are."""
    if known.effects:
        print_line()
        print_table(
            ("effect", "known as", "begun", "done", "permitted", "result"),
            [effect_row(one) for one in known.effects],
        )
    for check in known.checks:
        told = "" if check.evidence is None else f"; {_short(check.evidence)}"
        print_line(f"check by {check.by} at {utc_text(check.at)}: {check.finding}{told}")
    if known.scope.is_known:
        print_line(f"items: {scope_text(known.scope)}")
    if known.decisions:
        print_line()
        rows = [_decision_row(one) for one in known.decisions]
        print_table(("when (UTC)", "what", "who", "why"), rows)
    if len(known.line) > 1:
        print_line()
        rows = [_line_row(run, one) for one in known.line]
        print_table(("run of this line", "origin", "state", "created"), rows)


def effect_row(effect: Effect) -> list[str]:
    """Return an effect as a row of a table."""
    return [
        effect.key,
        _known_as(effect),
        utc_text(effect.begun_at),
        "-" if effect.done_at is None else utc_text(effect.done_at),
        "once" if effect.tries == 1 else f"{effect.tries} times",
        "-" if effect.result is None else _short(effect.result),
    ]


def _known_as(effect: Effect) -> str:
    """Say what the ledger knows, and beside it what somebody has decided since."""
    told = effect.settled
    if told is None:
        return effect.state
    return f"{effect.state}; settled as {told.as_} by {told.by} at {utc_text(told.at)}"


def _decision_row(entry: HistoryEntry) -> list[str]:
    after = entry.after or {}
    match entry.action:
        case "run.ambiguous":
            return [utc_text(entry.at), "in doubt", entry.actor, str(after.get("reason", "-"))]
        case "run.verdict":
            return [utc_text(entry.at), "checked", entry.actor, str(after.get("finding", "-"))]
        case _:
            choice = str(after.get("choice", "decided"))
            effects = ", ".join(
                f"{key} {'done' if is_done else 'not done'}"
                for key, is_done in (after.get("effects") or {}).items()
            )
            told = f"{choice} ({effects})" if effects else choice
            return [utc_text(entry.at), told, entry.actor, entry.reason or "-"]


def scope_text(scope: Scope) -> str:
    """Say how much is done of what: "39,999 of 40,000 done, 2 more than once; missing: 1042"."""
    text = f"{scope.done:,} done"
    if scope.expected is not None:
        text = f"{scope.done:,} of {scope.expected:,} done"
    if scope.repeated:
        text += f", {scope.repeated:,} more than once"
    if scope.missing:
        more = len(scope.missing) - MISSING_SHOWN_MAX
        shown = ", ".join(scope.missing[:MISSING_SHOWN_MAX])
        text += f"; missing: {shown}" + (f" and {more:,} more" if more > 0 else "")
    return text


def _line_row(run: Run, one: Run) -> list[str]:
    name = f"{one.id} (this one)" if one.id == run.id else str(one.id)
    return [name, one.origin, one.state, utc_text(one.created_at)]


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= EVIDENCE_LENGTH_MAX else f"{text[: EVIDENCE_LENGTH_MAX - 1]}…"

"""The oracle of alerts: what one look must lead to, thing by thing, worked out a second time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.domain.alert_rules import Rulebook, rule_from_json
from duly.domain.alerts import ALERTS_OPEN_MAX, AlertState
from duly.store.ports.alerts import AlertSettingKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duly.domain.alert_rules import Rule
    from duly.domain.alerts import AlertChange, AlertKey, AlertRecord
    from duly.store.ports.alerts import AlertSettingRecord
    from tests.simulation.watching import Look

LOG = "log"
"""The channel that is always there."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of one alert, and who is told of it."""

    step: str
    tells: str | None = None
    channels: tuple[str, ...] = ()


def outcome_of(change: AlertChange) -> Outcome:
    """Return what a watcher has decided, in these words."""
    tells = None if change.tells is None else str(change.tells)
    told = tuple(sorted(change.channels)) if tells else ()
    return Outcome(str(change.step), tells, told)


class Oracle:
    """Knows what was said and seen, and what follows."""

    def __init__(self, look: Look) -> None:
        assert look.watched is not None, "whoever decides has read what there is"
        self._now = look.watched.now
        self._terms = look.watched.terms
        self._alerts = {alert.key: alert for alert in look.watched.alerts}
        self._book = Rulebook(
            [rule_from_json(one.terms) for one in self._terms if one.sort is AlertSettingKind.RULE]
        )
        self._channels = {LOG} | {
            one.name for one in self._terms if one.sort is AlertSettingKind.CHANNEL
        }
        self._seen = look.seen
        self._rules: dict[AlertKey, Rule] = {}
        self._evidence: dict[AlertKey, str] = {}
        for part in look.seen:
            for condition in part.conditions:
                rule = self._book.rule_for(condition)
                if rule is not None and rule.is_on and rule.threshold <= condition.value:
                    self._rules.setdefault(condition.key, rule)
                    self._evidence.setdefault(condition.key, _text(condition.evidence))

    def outcomes(self) -> dict[AlertKey, Outcome]:
        """Return what must change, by what it is about."""
        return dict(self._all())

    def _all(self) -> Iterator[tuple[AlertKey, Outcome]]:
        room = ALERTS_OPEN_MAX - len(self._alerts)
        for key, rule in self._rules.items():
            if key not in self._alerts and room > 0:
                room -= 1
                yield key, Outcome("noted") if rule.hold_us else self._raised(key, rule)
        for key, alert in self._alerts.items():
            found = self._of(alert)
            if found is not None:
                yield key, found

    def _of(self, alert: AlertRecord) -> Outcome | None:
        rule = self._rules.get(alert.key)
        if alert.state is AlertState.PENDING:
            if rule is None:
                return Outcome("forgotten") if self._is_looked_at(alert.key) else None
            if alert.seen_at > self._now:
                # A clock that ran ahead has seen it: it counts from now.
                return Outcome("noted")
            has_held = self._now - alert.seen_at >= rule.hold_us
            return self._raised(alert.key, rule) if has_held else None
        is_gone = rule is None and self._is_looked_at(alert.key)
        if is_gone:
            return self._gone(alert)
        named = self._book.named(alert.rule, alert.kind)
        if alert.told_at is None and not self._is_silent(alert.key):
            return Outcome("told", "raised", self._told_by(named))
        return None if rule is None else self._seen_again(alert)

    def _seen_again(self, alert: AlertRecord) -> Outcome | None:
        if alert.gone_at is not None:
            return Outcome("back")
        return None if self._evidence[alert.key] == _text(alert.evidence) else Outcome("updated")

    def _gone(self, alert: AlertRecord) -> Outcome | None:
        since = self._now if alert.gone_at is None else min(self._now, alert.gone_at)
        clear_us = self._book.named(alert.rule, alert.kind).clear_us
        if self._now >= since + clear_us:
            if alert.told_at is None:
                return Outcome("resolved")
            return Outcome(
                "resolved", "resolved", tuple(sorted(self._channels & set(alert.told_to)))
            )
        return None if alert.gone_at == since else Outcome("gone")

    def _raised(self, key: AlertKey, rule: Rule) -> Outcome:
        if self._is_silent(key):
            return Outcome("raised")
        return Outcome("raised", "raised", self._told_by(rule))

    def _told_by(self, rule: Rule) -> tuple[str, ...]:
        """Return those the rule names who are there; if none is, everybody (record 0043)."""
        return tuple(sorted(self._channels & set(rule.channels) or self._channels))

    def _is_looked_at(self, key: AlertKey) -> bool:
        return any(key.kind in part.kinds or key in part.keys for part in self._seen)

    def _is_silent(self, key: AlertKey) -> bool:
        said = [one for one in self._terms if one.sort is AlertSettingKind.SILENCE]
        return any(_silences(one, key, self._now) for one in said)


def _text(evidence: Mapping[str, Any]) -> str:
    return json.dumps(evidence, sort_keys=True)


def _silences(term: AlertSettingRecord, key: AlertKey, now: int) -> bool:
    kinds: Sequence[str] = term.terms.get("kinds") or ()
    subject = term.terms.get("subject")
    if (term.until or 0) <= now or (kinds and str(key.kind) not in kinds):
        return False
    if subject is None or subject == key.subject:
        return True
    return bool(subject.endswith("*")) and key.subject.startswith(subject[:-1])

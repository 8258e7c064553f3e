"""The checker of alerts: each is raised once, told to who must know, and over when it is.

It is told of every executed call, of every look that a watcher has had, and of everything that has
arrived at a receiver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.domain.alert_rules import AlertKind
from duly.domain.alerts import WAIT_MAX_US, AlertKey, AlertState, DeliveryState, NoticeKind
from duly.engine.alerts.watcher import usual_detectors
from duly.store.ports.alerts import LISTED_MAX, AlertFilter, AlertSettingKind
from duly.store.ports.queries import AuditFilter
from tests.simulation.alert_ledger import AlertLedger, DeliveryNote
from tests.simulation.alert_oracle import Oracle, Outcome, outcome_of
from tests.simulation.recipe import SECOND
from tests.simulation.watching import EVERY_MAX_US, SUBJECTS, Receiver, Scene
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.alert_messages import AlertNotice
    from duly.domain.alerts import AlertChange, AlertRecord
    from tests.simulation.alert_ledger import DeliveryKey
    from tests.simulation.nodes import Node
    from tests.simulation.watching import Look
    from tests.simulation.world import Executed, World

OBSERVERS = len(usual_detectors())
LOOK_OLD_US = 2 * EVERY_MAX_US
"""When all is quiet somebody has looked since then."""
DELIVERY_OLD_US = 40 * SECOND
"""And has delivered what was due then: one that waits for another's end is found by looking."""
NO_CHANNEL = "there is no such channel"
PAGE = 1000


class AlertChecker:
    """Sees every executed call about alerts; one method for each operation."""

    def __init__(self, world: World) -> None:
        self.ledger = AlertLedger()
        self.scene = Scene(world.recipe)
        self.receiver = Receiver(world)
        self.receiver.checker = self
        self.refused: set[DeliveryKey] = set()
        """What a receiver does not want, ever."""
        self._world = world
        self._counts = world.counts
        self._looked_at = 0

    # Looks

    def judge_look(self, look: Look, changes: Sequence[AlertChange]) -> None:
        """Hold what a watcher has decided against what it saw and what people said."""
        decided = {change.alert.key: outcome_of(change) for change in changes}
        expected = Oracle(look).outcomes()
        for key in sorted(decided.keys() | expected.keys()):
            if decided.get(key) != expected.get(key):
                self._object(key, decided.get(key), expected.get(key))

    def _object(self, key: AlertKey, decided: Outcome | None, expected: Outcome | None) -> None:
        text = f"V3: of {key.subject} was decided {decided}, it should be {expected}"
        self._world.broken = self._world.broken or text

    def look_over(self, node: Node, look: Look) -> None:
        """Note that somebody has looked; who sent nothing had nothing to say."""
        if look.watched is None or look.asked < OBSERVERS:
            return
        if not look.is_sent:
            self.judge_look(look, ())
        self._looked_at = node.world.true_at

    # The watch

    def hold_watch(self, executed: Executed) -> None:
        """One has the watch at a time (INV-4)."""
        command = executed.call.arguments[0]
        is_another = self.ledger.hold(command, executed.result, executed.at)
        self._counts["watches taken over"] += is_another

    def release_watch(self, executed: Executed) -> None:
        """Who gives it up has it no more; another's stays another's."""
        watch = self.ledger.watch
        if (watch.holder, watch.epoch) == executed.call.arguments[0]:
            watch.holder = None

    def load_watched(self, executed: Executed) -> None:
        """What is decided upon is what is on record."""
        watched = executed.result
        if [_brief(one) for one in watched.alerts] != [_brief(one) for one in self.ledger.live()]:
            raise Violation("V3: a watcher is shown other alerts than there are")
        said = {
            key: (one.terms, one.until)
            for key, one in self.ledger.terms.items()
            if one.until is None or one.until > executed.at
        }
        if {(one.sort, one.name): (one.terms, one.until) for one in watched.terms} != said:
            raise Violation("V3: a watcher is shown other terms than were said")

    # Alerts

    def apply_alerts(self, executed: Executed) -> None:
        """Whoever has the watch writes all of it, and nobody else anything (INV-5)."""
        command = executed.call.arguments[0]
        is_ours = self.ledger.watch.is_held(command.fence, executed.at)
        if executed.result and not is_ours:
            raise Violation("INV-5: somebody wrote alerts who has the watch no more")
        if not executed.result:
            self.ledger.refusals += 1
            self._counts["looks refused"] += 1
            if is_ours and self._is_newest(executed):
                raise Violation("V3: who has the watch was refused what it has decided")
            return
        if not self._is_newest(executed):
            raise Violation("V3: a look was written after a later one had begun")
        for change in command.changes:
            self._counts[f"alerts {change.step}"] += 1
            self._counts["alerts silenced"] += change.is_silenced
            self.ledger.change(change)
            self._note_deliveries(change, executed.at)
            self._compare(change.alert.id)

    def _is_newest(self, executed: Executed) -> bool:
        """Say whether nobody has renewed the watch since this look began."""
        held_at: int = executed.call.arguments[0].held_at
        return held_at == self.ledger.watch.renewed_at

    def _note_deliveries(self, change: AlertChange, now: int) -> None:
        if change.tells is None:
            return
        found = self._world.store.list_deliveries(change.alert.id)
        made = {(str(one.told), one.channel): one for one in found}
        for channel in change.channels:
            key = (bytes(change.alert.id), str(change.tells), channel)
            one = made.get(key[1:])
            if one is None:
                raise Violation(f"V3: {channel} is told of a change without a delivery of it")
            if change.tells is NoticeKind.RESOLVED and self.ledger.beginning(key) is None:
                raise Violation(f"V3: {channel} is told of the end of what it never heard of")
            self.ledger.deliveries.setdefault(key, DeliveryNote(bytes(one.id), now, next_at=now))

    def _compare(self, alert_id: Any) -> None:
        """Compare an alert and its deliveries with the store's own."""
        kept, known = self._world.store.get_alert(alert_id), self.ledger.alerts.get(alert_id)
        if (None if kept is None else _brief(kept)) != (None if known is None else _brief(known)):
            raise Violation("V3: an alert is kept otherwise than was decided")
        own = {key: one for key, one in self.ledger.deliveries.items() if key[0] == alert_id}
        found = {
            (bytes(one.alert_id), str(one.told), one.channel): (bytes(one.id), one.state, one.tries)
            for one in self._world.store.list_deliveries(alert_id)
        }
        if found != {key: (one.id, one.state, one.tries) for key, one in own.items()}:
            raise Violation("V3: deliveries are kept otherwise than was decided")

    def acknowledge_alert(self, executed: Executed) -> None:
        """Who was first to take note stays."""
        alert = executed.result
        known = self.ledger.alerts[alert.id]
        if known.acknowledged_at is None:
            self._counts["alerts acknowledged"] += 1
            self.ledger.entries.append(("alert.acknowledged", alert.id))
        elif alert.acknowledged_at != known.acknowledged_at:
            raise Violation("V3: somebody else has taken note of an alert before")
        self.ledger.alerts[alert.id] = alert
        self._compare(alert.id)

    def set_alert_term(self, executed: Executed) -> None:
        """What was said holds."""
        term = executed.result
        self.ledger.terms[term.sort, term.name] = term

    def remove_alert_term(self, executed: Executed) -> None:
        """What was taken back does not."""
        command = executed.call.arguments[0]
        if executed.result != ((command.sort, command.name) in self.ledger.terms):
            raise Violation("V3: whether something was taken back was answered wrongly")
        self.ledger.terms.pop((AlertSettingKind(command.sort), command.name), None)

    # Deliveries

    def load_deliveries(self, executed: Executed) -> None:
        """What is due is found, and the end of something not before its beginning is settled."""
        _, without = executed.call.arguments
        for due in executed.result.due:
            key = (bytes(due.alert.id), str(due.delivery.told), due.delivery.channel)
            note = self.ledger.deliveries[key]
            # Nothing waits for longer than that: a clock that ran ahead has left it behind.
            is_time = not executed.at < note.next_at <= executed.at + WAIT_MAX_US
            if note.state is not DeliveryState.PENDING or not is_time:
                raise Violation("V3: a delivery is due that is not")
            if key[2] in without:
                raise Violation(f"V3: a delivery to {key[2]} is due, which is left alone")

    def settle_delivery(self, executed: Executed) -> None:
        """A try counts once, under the watch, and as done only if it has arrived."""
        command = executed.call.arguments[0]
        key, note = next(
            (key, one) for key, one in self.ledger.deliveries.items() if one.id == command.id
        )
        is_ours = self.ledger.watch.is_held(command.fence, executed.at)
        self.ledger.refusals += not is_ours
        is_next = (note.state, note.tries) == (DeliveryState.PENDING, command.tries)
        if executed.result != (is_ours and is_next):
            raise Violation("INV-5: a try was settled by who has no right to, or one who has not")
        self._counts["deliveries refused"] += not executed.result
        if not executed.result:
            return
        state = command.tried.state
        if state is DeliveryState.DONE and not note.taken:
            raise Violation(f"V3: a delivery to {key[2]} is done, and nobody has it")
        if state is DeliveryState.GIVEN_UP:
            self._counts["deliveries given up"] += 1
            self.ledger.entries.append(("alert.undelivered", key[0]))
            if key not in self.refused and command.tried.error != NO_CHANNEL:
                raise Violation(f"V3: a delivery to {key[2]} was given up too soon")
        note.state, note.tries = state, note.tries + 1
        note.next_at = executed.at + command.tried.wait_us

    def receive(self, channel: str, notice: AlertNotice) -> None:
        """Whatever arrives was decided, has the same id each time, and begins before it ends."""
        key = (notice.alert_id.bytes, notice.change, channel)
        note = self.ledger.deliveries.get(key)
        problem = None
        if note is None:
            problem = "was told what nobody has decided"
        elif note.id != notice.id.bytes:
            problem = "was told the same under another id"
        elif notice.change == NoticeKind.RESOLVED:
            begun = self.ledger.beginning(key)
            if begun is None or begun.state is DeliveryState.PENDING:
                problem = "was told of an end before its beginning was settled"
            elif begun.tries > 1:
                self._counts["ends that waited"] += 1
        if problem is not None:
            self._world.broken = self._world.broken or f"V3: {channel} {problem}"
            return
        assert note is not None, "just checked"
        self._counts["told"] += 1
        self._counts["told again"] += note.taken > 0
        note.taken += 1

    # The reckoning

    def reckon(self) -> None:
        """When all is quiet, what holds is open, what does not is over, and all is delivered."""
        world = self._world
        kept = {one.id: _brief(one) for one in _all_alerts(world.store)}
        if kept != {one.id: _brief(one) for one in self.ledger.alerts.values()}:
            raise Violation("V3: alerts are others than were decided")
        for alert in self.ledger.alerts.values():
            self._compare(alert.id)
        if self._looked_at < world.true_at - LOOK_OLD_US:
            raise Violation("INV-26: nobody has looked after the quiet")
        now = world.clock.now_us()
        for (_, told, channel), note in self.ledger.deliveries.items():
            if note.state is DeliveryState.PENDING and note.next_at < now - DELIVERY_OLD_US:
                raise Violation(f"INV-26: {channel} is not told what was {told} after the quiet")
        for subject in SUBJECTS:
            self._reckon_subject(subject)
        self._reckon_trail()

    def _reckon_subject(self, subject: str) -> None:
        """What is known from outside shows, once it has lasted for as long as its rule says."""
        since, value = self.scene.last_turn(subject, self._world.true_at)
        key = AlertKey(AlertKind.BREAKER_OPEN, "", subject)
        live = next((one for one in self.ledger.live() if one.key == key), None)
        term = self.ledger.terms.get((AlertSettingKind.RULE, str(AlertKind.BREAKER_OPEN)))
        if term is None or since > self._world.true_at - 30 * SECOND:
            return
        is_wrong = value is not None and term.terms["is_on"] and value >= term.terms["threshold"]
        if is_wrong and (live is None or live.state is not AlertState.OPEN):
            raise Violation(f"V3: {subject} is not well, and there is no alert about it")
        if not is_wrong and live is not None:
            raise Violation(f"V3: {subject} is well, and an alert about it is {live.state}")

    def _reckon_trail(self) -> None:
        """Each change has its entry, and each refusal."""
        found = [
            (entry.action, entry.subject_id)
            for entry in _all_entries(self._world.store)
            if entry.action.startswith(("alert.", "watch."))
        ]
        about = sorted((action, bytes(one or b"")) for action, one in found if one)
        if about != sorted((action, bytes(one)) for action, one in self.ledger.entries):
            raise Violation("L4: the trail tells of alerts otherwise than was decided")
        if self.ledger.refusals != sum(action == "watch.refused" for action, _ in found):
            raise Violation("L4: a refused watcher is not on record")


def _brief(alert: AlertRecord) -> tuple[Any, ...]:
    """Return what an alert is compared by."""
    return (
        alert.id,
        *alert.key,
        alert.state,
        alert.rule,
        alert.seen_at,
        alert.raised_at,
        alert.told_at,
        tuple(alert.told_to),
        alert.gone_at,
        alert.resolved_at,
        alert.acknowledged_at,
    )


def _all_alerts(store: Any) -> list[AlertRecord]:
    found: list[AlertRecord] = []
    while True:
        before = found[-1].id if found else None
        page = store.list_alerts(AlertFilter(before_id=before, limit=LISTED_MAX))
        found += page
        if len(page) < LISTED_MAX:
            return found


def _all_entries(store: Any) -> list[Any]:
    found: list[Any] = []
    while True:
        before = found[-1].number if found else None
        page = store.list_audit(AuditFilter(before_number=before, limit=PAGE))
        found += page
        if len(page) < PAGE:
            return found

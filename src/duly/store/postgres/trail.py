"""Writing several audit entries at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.auditing import facts_text
from duly.store.postgres.arrays import OptionalUuids, Texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import Actor, AuditSubject
    from duly.store.postgres.work import Work

INSERT_ENTRIES = """
INSERT INTO duly.audit (at, actor, source, reason, action, tenant, subject, subject_id, before,
    after, address, credential)
SELECT $1::int8, $2, $3, $4, u.action, u.tenant, u.subject, u.subject_id, u.before, u.after,
    $5::text, $6::text
FROM unnest($7::text[], $8::text[], $9::text[], $10::uuid[], $11::text[], $12::text[])
    WITH ORDINALITY
    u(action, tenant, subject, subject_id, before, after, place)
ORDER BY u.place"""


def record_all(work: Work, actor: Actor, entries: Sequence[tuple[str, AuditSubject]]) -> None:
    """Write entries of one actor, in order: what was done, and to what."""
    if not entries:
        return
    subjects = [subject for _, subject in entries]
    values = (
        work.now,
        actor.name,
        actor.source,
        actor.reason,
        actor.address,
        actor.credential,
        Texts([action for action, _ in entries]),
        Texts([subject.tenant for subject in subjects]),
        Texts([subject.name for subject in subjects]),
        OptionalUuids([subject.id for subject in subjects]),
        Texts([facts_text(subject.before) for subject in subjects]),
        Texts([facts_text(subject.after) for subject in subjects]),
    )
    work.session.run(INSERT_ENTRIES, values)

"""Rules and channels of alerts that a file declares: read, and made so in the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.domain.alert_channels import read_channel
from duly.domain.alert_rules import DECLARED_BY, read_rule
from duly.errors import Conflict, UsageError
from duly.store.alert_rulings import version_of
from duly.store.ports.alerts import AlertSettingKind, SetAlertSetting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.client.caller import Caller
    from duly.store.ports.alerts import AlertSettingRecord

_TABLES = {"rules": AlertSettingKind.RULE, "channels": AlertSettingKind.CHANNEL}
_CHANNEL_KEYS = {"kind", "options"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTerm:
    """A rule or a channel that a file declares."""

    sort: AlertSettingKind
    name: str
    terms: dict[str, Any]
    source: str

    @property
    def title(self) -> str:
        """How a report calls it."""
        return f"alert {self.sort} {self.name}"


def read_alert_tables(file: str, source: str, tables: object) -> list[DeclaredTerm]:
    """Read `[alerts.rules.NAME]` and `[alerts.channels.NAME]` tables."""
    remedy = "write [alerts.rules.NAME] and [alerts.channels.NAME] tables"
    if not isinstance(tables, dict):
        raise UsageError(f"{file}, alerts", tables, "is not a table", remedy)
    found: list[DeclaredTerm] = []
    for key, inner in tables.items():
        if key not in _TABLES or not isinstance(inner, dict):
            raise UsageError(f"{file}, alerts.{key}", inner, "is not known", remedy)
        for name, table in inner.items():
            place = f"{file}, alerts.{key}.{name}"
            if not isinstance(table, dict):
                raise UsageError(place, table, "is not a table", remedy)
            try:
                terms = _read(_TABLES[key], name, table)
            except UsageError as error:
                field = f"{place}, {error.field}"
                raise UsageError(field, error.value, error.problem, error.remedy) from error
            found.append(DeclaredTerm(sort=_TABLES[key], name=name, terms=terms, source=source))
    return found


def reconcile_alerts(
    caller: Caller, declared: list[DeclaredTerm], sources: list[str], *, dry_run: bool
) -> Iterator[tuple[str, str, str]]:
    """Make what is stored agree; yield of each what was done, its name, and what stands against it.

    What is done is `created`, `changed`, `unchanged` or `conflicts`.
    """
    stored = {
        (sort, one.name): one
        for sort in (AlertSettingKind.RULE, AlertSettingKind.CHANNEL)
        for one in (caller.store.list_alert_terms(sort) if declared else ())
    }
    for one in declared:
        before = stored.get((one.sort, one.name))
        if before is not None and before.terms.get(DECLARED_BY) not in sources:
            whose = before.terms.get(DECLARED_BY) or "hand"
            problem = f"is declared, but one of that name was made by {whose}"
            yield "conflicts", one.title, f"{problem}; remove one of them"
            continue
        terms = {**one.terms, DECLARED_BY: one.source}
        what = "created" if before is None else "changed"
        if before is not None and before.terms == terms:
            yield "unchanged", one.title, ""
            continue
        if not dry_run:
            try:
                _set(caller, one, terms, before)
            except Conflict as error:
                yield "conflicts", one.title, f"{error.problem}; {error.remedy}"
                continue
        yield what, one.title, ""


def _read(sort: AlertSettingKind, name: str, table: dict[str, Any]) -> dict[str, Any]:
    if sort is AlertSettingKind.RULE:
        return read_rule(name, table).to_json()
    unknown = sorted(table.keys() - _CHANNEL_KEYS)
    if unknown:
        raise UsageError(unknown[0], table[unknown[0]], "is not known", "use kind, options")
    config = read_channel(name, table.get("kind"), table.get("options", {}))
    return {"kind": config.kind, "options": dict(config.options)}


def _set(
    caller: Caller, one: DeclaredTerm, terms: dict[str, Any], before: AlertSettingRecord | None
) -> None:
    order = SetAlertSetting(
        sort=one.sort,
        name=one.name,
        terms=terms,
        actor=caller.ordering("declared"),
        is_new=before is None,
        # What a person says meanwhile stays said.
        version=version_of(before),
    )
    caller.store.set_alert_term(order)

"""Everything that the library can do, another program can do too: or there is a reason."""

from __future__ import annotations

import inspect

import duly
from duly.api.app import ROUTES
from duly.app.application import PARTS

OF_A_PROGRAM = "is about a program's own code, or runs it"
OF_AN_OPERATOR = "is for whoever has the store: duly db"
REACHED = {
    "alerts.acknowledge": "acknowledge_alert",
    "alerts.add_channel": "set_alert_channel",
    "alerts.channels": "list_alert_channels",
    "alerts.get": "get_alert",
    "alerts.list": "list_alerts",
    "alerts.remove_channel": "remove_alert_channel",
    "alerts.remove_rule": "remove_alert_rule",
    "alerts.rules": "list_alert_rules",
    "alerts.set_rule": "set_alert_rule",
    "alerts.silence": "silence_alerts",
    "alerts.silences": "list_alert_silences",
    "alerts.test_channel": "try_alert_channel",
    "alerts.unsilence": "unsilence_alerts",
    "attempts.page": "search_attempts",
    "audit.page": "list_audit",
    "backfills.cancel": "cancel_backfill",
    "backfills.create": "create_backfill",
    "backfills.get": "get_backfill",
    "backfills.list": "list_backfills",
    "backfills.pause": "pause_backfill",
    "backfills.plan": "plan_backfill",
    "backfills.plan_rest": "plan_backfill_rest",
    "backfills.resume_from": "resume_from_backfill",
    "backfills.resume": "resume_backfill",
    "backfills.throttle": "throttle_backfill",
    "breakers.get": "get_breaker",
    "breakers.list": "list_breakers",
    "breakers.reset": "reset_breaker",
    "call": "enqueue_run",
    "calls": "enqueue_runs",
    "cancel": "cancel_delayed",
    "delayed.get": "get_delayed",
    "delayed.list": "list_delayed",
    "delayed.page": "list_delayed",
    "enqueue": "enqueue_run",
    "enqueue_many": "enqueue_runs",
    "events.after": "follow_events",
    "health": "get_status",
    "inbox.allow_reruns": "allow_reruns",
    "inbox.allow_retries": "allow_retries",
    "inbox.block_reruns": "block_reruns",
    "inbox.checks": "list_checks",
    "inbox.effects": "list_effects",
    "inbox.get": "get_inbox_item",
    "inbox.line": "list_lineage",
    "inbox.list": "list_inbox",
    "inbox.orders": "get_task",
    "inbox.reconcile": "reconcile_run",
    "inbox.rerun": "rerun_run",
    "inbox.resume": "resume_run",
    "inbox.retry": "retry_run",
    "inbox.scope": "get_scope",
    "inbox.skip": "skip_run",
    "inbox.suspend_retries": "suspend_retries",
    "inbox.tasks": "list_tasks",
    "inbox.verify": "verify_run",
    "limits.list": "list_limits",
    "limits.places": "list_places",
    "limits.remove": "remove_limit",
    "limits.set": "set_limit",
    "move": "move_delayed",
    "owners.back": "mark_owner_back",
    "owners.gone": "mark_owner_gone",
    "owners.list": "list_gone_owners",
    "owners.page": "list_gone_owners",
    "prove": "get_proof",
    "queues.get": "get_queue",
    "queues.list": "list_queues",
    "queues.pause": "pause_queue",
    "queues.resume": "resume_queue",
    "quotas.list": "list_quotas",
    "quotas.remove": "remove_quotas",
    "quotas.set": "set_quotas",
    "runs.attempts": "list_attempts",
    "runs.cancel": "cancel_run",
    "runs.discard": "discard_run",
    "runs.edit": "edit_run",
    "runs.get": "get_run",
    "runs.lines": "list_lines",
    "runs.list": "list_runs",
    "runs.page": "list_runs",
    "runs.progress": "list_progress",
    "runs.missing": "list_missing",
    "runs.retry": "retry_run",
    "runs.select": "create_selection",
    "runs.why": "explain_run",
    "schedules.create": "create_schedule",
    "schedules.delete": "delete_schedule",
    "schedules.edit": "edit_schedule",
    "schedules.get": "get_schedule",
    "schedules.history": "get_schedule_history",
    "schedules.list": "list_schedules",
    "schedules.occurrences": "get_schedule_occurrences",
    "schedules.owed": "get_schedule_owed",
    "schedules.page": "list_schedules",
    "schedules.pause": "pause_schedule",
    "schedules.preview": "preview_rule",
    "schedules.restore": "restore_schedule",
    "schedules.resume": "resume_schedule",
    "schedules.skip_next": "skip_schedule",
    "schedules.skips": "get_schedule_skips",
    "schedules.trigger": "trigger_schedule",
    "selections.cancel": "cancel_selection",
    "selections.discard": "discard_selection",
    "selections.freeze": "create_selection",
    "selections.get": "get_selection",
    "schedule_selections.freeze": "create_schedule_selection",
    "schedule_selections.get": "get_schedule_selection",
    "schedule_selections.pause": "pause_schedule_selection",
    "schedule_selections.preview": "preview_schedule_selection",
    "schedule_selections.resume": "resume_schedule_selection",
    "selections.preview": "preview_selection",
    "selections.rerun": "rerun_selection",
    "selections.retry": "retry_selection",
    "selections.skip": "skip_selection",
    "status": "get_status",
    "tokens.create": "create_token",
    "tokens.get": "get_token",
    "tokens.list": "list_tokens",
    "tokens.revoke": "revoke_token",
    "vitals.of_schedule": "get_schedule_vitals",
    "vitals.of_task": "get_task_vitals",
    "vitals.of_tenant": "get_tenant_vitals",
    "vitals.schedules": "list_schedule_vitals",
    "workers.drain": "drain_worker",
    "workers.list": "list_workers",
    "workers.quarantine": "quarantine_worker",
    "workers.quarantined_hosts": "list_quarantined_hosts",
    "workers.release": "release_worker",
}
"""By the name of the call: the operation that gives the same order, or shows the same."""
OF_A_LIST = "for a list of schedules; asked for one by one over the wire"
NOT_REACHED = {
    "acting_as": OF_A_PROGRAM,
    "aio": OF_A_PROGRAM,
    "audit.export": "a file of all tenants: duly audit export",
    "audit.verify": "reads the trail of all tenants to its end: duly audit verify",
    "catalogue": OF_A_PROGRAM,
    "catch_up_per_second": "is said to each process: duly config show",
    "check": OF_AN_OPERATOR,
    "close": OF_A_PROGRAM,
    "command": OF_A_PROGRAM,
    "declare": OF_A_PROGRAM,
    "dispatcher": OF_A_PROGRAM,
    "doorkeeper": OF_A_PROGRAM,
    "grant_access": OF_AN_OPERATOR,
    "is_at": OF_A_PROGRAM,
    "migrate": OF_AN_OPERATOR,
    "promises.export": "a file of all tenants: duly export",
    "promises.import_from": "a file of all tenants: duly import",
    "reconcile": OF_A_PROGRAM,
    "rehearsing": OF_A_PROGRAM,
    "require_store": OF_A_PROGRAM,
    "retention": "is said to each process: duly config show",
    "run": OF_A_PROGRAM,
    "runs.checkpoints": "their states are of the task's own code, and long: in the console",
    "runs.newest": OF_A_LIST,
    "runs.wait": "no request waits that long: look again, or follow the events",
    "schedule": OF_A_PROGRAM,
    "schedules.many_occurrences": OF_A_LIST,
    "schedules.several": OF_A_LIST,
    "schema_status": OF_AN_OPERATOR,
    "secret_sources": OF_A_PROGRAM,
    "standing_in": OF_A_PROGRAM,
    "store": OF_A_PROGRAM,
    "task": OF_A_PROGRAM,
    "traces": OF_A_PROGRAM,
    "tenant": "whoever asks belongs to one",
    "transaction": "a connection can't be lent over the wire",
    "vitals.of_schedules": OF_A_LIST,
    "vitals.windows": "a part of what get_tenant_vitals and get_schedule_vitals tell",
    "webhook": OF_A_PROGRAM,
    "within": "whoever asks is within a tenant already",
    "worker": OF_A_PROGRAM,
}
PARTS_OF_A_PROGRAM = ("declarations", "settings", "tasks")


def test_every_call_has_an_operation_or_a_reason():
    """A capability that is added to the library alone fails here."""
    app = duly.App("memory:")

    assert (REACHED.keys() | NOT_REACHED.keys()) == set(calls_of(app))


def test_every_operation_that_is_named_is_there():
    known = {route.operation_id for route in ROUTES}

    assert set() == set(REACHED.values()) - known


def calls_of(app: duly.App) -> list[str]:
    """Return what an application and its parts can be asked, by name."""
    parts = {"": app} | {
        f"{name}.": part
        for name, part in (vars(app) | {one: getattr(app, one) for one in PARTS}).items()
        if not name.startswith("_") and name not in PARTS_OF_A_PROGRAM
    }
    return [
        prefix + name
        for prefix, part in parts.items()
        if type(part).__module__.startswith("duly.")
        for name, one in inspect.getmembers(type(part))
        if not name.startswith("_") and (inspect.isfunction(one) or isinstance(one, property))
    ]

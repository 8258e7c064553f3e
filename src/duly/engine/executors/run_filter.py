"""The ids of the run whose code is logging, on every record: for a program's own handlers (V2)."""

from __future__ import annotations

import logging

from duly.engine.executors.task_logging import running
from duly.engine.run_ids import ids_of
from duly.telemetry.json_logs import current_trace

NONE = {"task": "", "run_id": "", "attempt_id": "", "schedule_id": "", "schedule": ""}


class RunLogFilter(logging.Filter):
    """Lets every record pass, and gives it the ids of its run; empty texts outside of one.

    The ids are `task`, `run_id`, `attempt_id`, `schedule_id`, `schedule`, `trace_id` and `span_id`;
    a format may use them: `%(run_id)s`. It goes on handlers: those of a logger hear only what is
    logged to that very logger.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Note the ids of the run whose code has made a record, unless it has its own."""
        work = running()
        facts = NONE if work is None else ids_of(work.claimed)
        trace_id, span_id = current_trace()
        for name, value in {**facts, "trace_id": trace_id, "span_id": span_id}.items():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True

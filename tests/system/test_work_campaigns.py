"""Runs are executed once, or as often as recorded, while workers are killed, stopped and cut off."""

from __future__ import annotations

import pytest

from tests.system.work_campaign import CLAIMS, ENDS, judge, on_postgres, on_sqlite
from tests.system.workforce import KILLED_SUPERVISOR, KILLED_WORKER, STOPPED_WORKER

pytestmark = [pytest.mark.timeout(600), pytest.mark.thorough]
SCHEDULES = 15
WORKERS = 3


def test_every_start_is_recorded_and_nothing_lost_on_a_file(tmp_path):
    """Kill -9, stopped past the lease, told to stop."""
    with on_sqlite(tmp_path, "work on a file", WORKERS) as campaign:
        campaign.schedules = SCHEDULES
        campaign.start()
        campaign.work.kill_workers()
        campaign.work.stop_until_refused()
        campaign.work.terminate_worker()
        evidence = campaign.finish()

        assert [] == judge(campaign, evidence)
    assert {KILLED_WORKER, STOPPED_WORKER} <= {fault.kind for fault in evidence.faults}


def test_every_start_is_recorded_and_nothing_lost_on_postgres(tmp_path, running_server):
    """The same with supervisors that die, lost answers and a server that crashes."""
    with on_postgres(running_server, tmp_path, "work on a server", WORKERS) as campaign:
        campaign.schedules = SCHEDULES
        campaign.start()
        campaign.work.kill_supervisor()
        campaign.lose_answer_of_worker(CLAIMS)
        campaign.lose_answer_of_worker(ENDS)
        campaign.work.stop_until_refused()
        campaign.crash_server()
        evidence = campaign.finish()

        assert [] == judge(campaign, evidence)
    assert {KILLED_SUPERVISOR, STOPPED_WORKER} <= {fault.kind for fault in evidence.faults}

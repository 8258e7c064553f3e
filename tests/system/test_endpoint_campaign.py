"""An endpoint that is dead is hardly called, and nobody else notices (B2, INV-23)."""

from __future__ import annotations

import pytest

from tests.system.endpoint_campaign import campaign, report, violations
from tests.waiting import wait_until

pytestmark = [pytest.mark.timeout(600), pytest.mark.thorough]
RUNS = 800
"""More than may be called in a second when it is back."""


def judge(url, folder):
    with campaign(url, folder, RUNS) as going:
        going.start()
        going.break_down()
        seen = going.ledger.stat().st_size
        wait_until("others go on", lambda: going.ledger.stat().st_size > seen)
        going.wait_for_probe()
        going.come_back()
        figures = going.finish()
        checked = going.fleet.check()
    return [*violations(figures), *checked], report(figures)


def test_a_dead_endpoint_is_hardly_called_by_workers_on_a_file(tmp_path):
    """B2: nothing is lost, nothing is sent twice, and no budget is used up."""
    found, figures = judge(None, tmp_path)

    assert [] == found, figures


def test_a_dead_endpoint_is_hardly_called_by_workers_on_postgres(tmp_path, running_server):
    """B2: the same with a breaker that two workers share in a database."""
    url = running_server.create_database()
    found, figures = judge(url, tmp_path)
    running_server.drop_database(url)

    assert [] == found, figures

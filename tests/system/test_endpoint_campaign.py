"""An endpoint that is dead is hardly called, and nobody else notices (INV-23)."""

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


def test_a_dead_endpoint_is_hardly_called(tmp_path, campaign_url):
    """By two workers that share a breaker; nothing is lost, sent twice, or charged."""
    found, figures = judge(campaign_url, tmp_path)

    assert [] == found, figures

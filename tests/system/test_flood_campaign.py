"""One tenant's flood keeps nobody waiting, with real workers (INV-22)."""

from __future__ import annotations

import pytest

from tests.system.flood_campaign import campaign, report, violations

pytestmark = [pytest.mark.timeout(600), pytest.mark.thorough]
RUNS = 2_000
"""More than may be given to workers while the others wait."""
OTHERS = 3


def judge(url, folder):
    with campaign(url, folder, RUNS) as going:
        with going.held():
            going.start()
            going.ask_while_held(OTHERS)
        going.wait_for_others()
        figures = going.finish()
        checked = going.fleet.check()
    return [*violations(figures), *checked], report(figures)


def test_no_tenant_waits_for_a_flood(tmp_path, campaign_url):
    """A run of another tenant begins before more than a few rounds of the flood have."""
    found, figures = judge(campaign_url, tmp_path)

    assert [] == found, figures

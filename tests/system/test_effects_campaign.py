"""Whatever happens to workers in any phase of an effect, nothing is repeated that may not be (INV-11)."""

from __future__ import annotations

import pytest

from tests.system.bank import RECOGNISED
from tests.system.effects_campaign import campaign, judge, run_everywhere
from tests.system.effects_harm import KILL, STOP

pytestmark = [pytest.mark.timeout(600), pytest.mark.thorough]
WORKERS = 4


def test_every_class_of_effects_keeps_its_promise(tmp_path, campaign_url):
    """INV-6, INV-7, INV-11: kill -9, stopped past the lease, on a server lost answers."""
    with campaign(campaign_url, tmp_path, "everywhere", WORKERS) as going:
        evidence = run_everywhere(going)
        found, told = judge(going, evidence)
        kinds = {name.partition("@")[0] for name in going.faults() if "@" in name}

    assert [] == found, told
    assert {KILL, STOP} == kinds, told
    assert evidence.doubts, told
    assert any(one.kind == RECOGNISED for one in evidence.book), told

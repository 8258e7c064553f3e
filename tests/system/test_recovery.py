"""After an outage what was missed is caught up, all of it, once, at the rate."""

from __future__ import annotations

import pytest

from tests.system.recovery_campaign import SHORT, campaign
from tests.system.recovery_plot import draw

pytestmark = [pytest.mark.timeout(600), pytest.mark.thorough]


def test_a_thousand_overdue_occurrences_are_caught_up(tmp_path, running_server):
    """INV-2, INV-3, INV-9, INV-22: how punctual fresh work stays is told by the long form."""
    with campaign(SHORT, running_server, tmp_path) as one:
        found = one.play()

        assert [] == found.problems(), found.summary()
    assert SHORT.schedules * SHORT.down // SHORT.period == pytest.approx(found.overdue, rel=0.05)
    draw(tmp_path / "recovery.svg", found)
    assert "<polyline" in (tmp_path / "recovery.svg").read_text("utf-8")

"""However many workers are killed, no more run at once than may, and none is forgotten."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.system.capped_campaign import Figures, campaign, most_at_once, report, violations

pytestmark = pytest.mark.timeout(600)
RUNS = 200
KILLS = 3


def judge(url, folder):
    with campaign(url, folder, RUNS, "capped") as going:
        going.start()
        for _ in range(KILLS):
            going.cut_short()
        figures = going.finish()
        return [*violations(figures), *going.fleet.check()], report(figures)


def test_a_crowd_is_seen(tmp_path):
    """The campaign can fail: one that was killed was there until then, and no longer."""
    ledger = tmp_path / "ledger"
    lines = [
        *("start narrow a/1 7 10", "start narrow b/1 8 20", "start account-1 c/1 8 20"),
        *("start account-1 d/1 9 29", "end account-1 d/1 9 40", "start narrow e/1 9 30"),
        *("end narrow a/1 7 50", "end narrow e/1 9 60"),
    ]
    ledger.write_text("\n".join(lines) + "\n", encoding="utf-8")

    most, starts = most_at_once(ledger, {8: 30})

    assert ({"narrow": 2, "account-1": 2}, 5) == (most, starts)
    (found,) = violations(Figures(1, most=most, starts=starts, states=Counter(succeeded=1)))
    assert "crowd: 2 at once at account-1" == found


@pytest.mark.thorough
def test_limits_hold_while_workers_are_killed(tmp_path, campaign_url):
    """A place is given back when its attempt is settled, and not before."""
    found, figures = judge(campaign_url, tmp_path)

    assert [] == found, figures

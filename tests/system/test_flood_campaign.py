"""One tenant's flood keeps nobody waiting, with real workers (R8, INV-22)."""

from __future__ import annotations

import pytest

from tests.system.flood_campaign import campaign, report, violations

pytestmark = [pytest.mark.timeout(600), pytest.mark.thorough]
RUNS = 10_000
OTHERS = 3


def judge(url, folder):
    with campaign(url, folder, RUNS) as going:
        going.start()
        going.ask_for(OTHERS)
        figures = going.finish()
        checked = going.fleet.check()
    return [*violations(figures), *checked], report(figures)


def test_nobody_waits_for_a_flood_on_a_file(tmp_path):
    """R8: a run of another tenant begins before more than a few rounds of the flood have."""
    found, figures = judge(None, tmp_path)

    assert [] == found, figures


def test_nobody_waits_for_a_flood_on_postgres(tmp_path, running_server):
    """R8: the same by the statements of a database."""
    url = running_server.create_database()
    found, figures = judge(url, tmp_path)
    running_server.drop_database(url)

    assert [] == found, figures

"""Whatever happens to workers in any phase of an effect, nothing is repeated that may not be (INV-11)."""

from __future__ import annotations

import pytest

from tests.system.bank import RECOGNISED
from tests.system.effects_campaign import campaign, judge, run_everywhere
from tests.system.effects_harm import KILL, STOP

pytestmark = [pytest.mark.timeout(600), pytest.mark.thorough]
WORKERS = 4


def tried(url, folder):
    with campaign(url, folder, "everywhere", WORKERS) as going:
        evidence = run_everywhere(going)
        found, told = judge(going, evidence)
        kinds = {name.partition("@")[0] for name in going.faults() if "@" in name}
    return evidence, kinds, found, told


def test_every_class_of_effects_keeps_its_promise_on_a_file(tmp_path):
    """E2, E3, E4, E7, INV-6, INV-7, INV-11: kill -9, and stopped past the lease."""
    evidence, kinds, found, told = tried(None, tmp_path)

    assert [] == found, told
    assert {KILL, STOP} == kinds, told
    assert evidence.doubts, told
    assert any(one.kind == RECOGNISED for one in evidence.book), told


def test_every_class_of_effects_keeps_its_promise_on_postgres(tmp_path, running_server):
    """E2, E3, E4, E7, INV-6, INV-7, INV-11: the same, and answers that are lost on the way."""
    url = running_server.create_database()
    evidence, kinds, found, told = tried(url, tmp_path)
    running_server.drop_database(url)

    assert [] == found, told
    assert {KILL, STOP} == kinds, told
    assert evidence.doubts, told
    assert any(one.kind == RECOGNISED for one in evidence.book), told

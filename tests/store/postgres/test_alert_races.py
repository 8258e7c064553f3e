"""Rules of alerts that several set at one moment: nobody overwrites what they have not seen."""

from __future__ import annotations

from functools import partial

import pytest

import duly
from duly.errors import Conflict, Outdated
from duly.store.ports.alerts import UNSAID, AlertSettingKind, RemoveTerm, SetAlertSetting
from duly_conformance import steps
from duly_conformance.kit import ADA

CROWD = 6
ROUNDS = 5


@pytest.fixture
def store(patient_store):
    return patient_store


def say(store, name, number, version):
    """Say something; None when somebody was faster."""
    order = SetAlertSetting(
        sort=AlertSettingKind.RULE, name=name, terms={"n": number}, actor=ADA, version=version
    )
    try:
        return store.set_alert_term(order)
    except Outdated:
        return None


@pytest.mark.parametrize("is_there", [False, True], ids=["the first word", "a later word"])
def test_of_a_crowd_that_saw_the_same_one_is_kept(store, watch, is_there):
    """Also when nobody had said anything, where there is no row to wait for."""
    for number in range(ROUNDS):
        name = f"rule-{number}"
        seen = say(store, name, 99, None).version if is_there else UNSAID
        told = watch.at_once(*(partial(say, store, name, one, seen) for one in range(CROWD)))
        (winner,) = [one for one in told if one is not None]
        kept = {one.name: one for one in store.list_alert_terms(AlertSettingKind.RULE)}

        assert winner == kept[name]
    entries = [one.action for one in steps.audit(store)]
    assert ["alert-rule.set"] * (ROUNDS * (1 + is_there)) == entries


def test_of_a_crowd_that_asks_for_nothing_in_particular_each_is_on_record(store, watch):
    """One after the other, each entry with what was there before it."""
    watch.at_once(*(partial(say, store, "queue-age", one, None) for one in range(CROWD)))
    entries = sorted(steps.audit(store), key=lambda one: one.number)
    (kept,) = store.list_alert_terms(AlertSettingKind.RULE)

    assert [None, *(one.after for one in entries[:-1])] == [one.before for one in entries]
    assert kept.terms == entries[-1].after


def test_who_takes_back_and_who_sets_anew_do_not_both_get_their_way(store, watch):

    def remove(name, version):
        order = RemoveTerm(sort=AlertSettingKind.RULE, name=name, actor=ADA, version=version)
        try:
            return store.remove_alert_term(order)
        except Outdated:
            return None

    for number in range(ROUNDS):
        name = f"rule-{number}"
        seen = say(store, name, 99, UNSAID).version
        told = watch.at_once(partial(say, store, name, 1, seen), partial(remove, name, seen))

        assert 1 == len([one for one in told if one is not None])


def test_parts_of_a_rule_that_several_set_at_once_are_all_kept(timed_url, store, watch):
    """What somebody does not name stays as the other has just set it."""
    parts = ({"threshold": 60}, {"hold_for": "2m"}, {"clear_for": "9m"}, {"severity": "page"})
    with duly.App(timed_url, actor="ada") as app:

        def set_part(terms):
            while True:
                try:
                    return app.alerts.set_rule("queue-age", **terms)
                except Outdated:
                    raise
                except Conflict:  # it kept changing; whoever asks looks again
                    continue

        watch.at_once(*(partial(set_part, terms) for terms in parts))
        (rule,) = [one for one in app.alerts.rules() if one.name == "queue-age"]

    assert (60, "2m", "9m", "page") == (
        rule.threshold,
        rule.hold_for,
        rule.clear_for,
        rule.severity,
    )

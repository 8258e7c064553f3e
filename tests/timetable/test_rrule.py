"""Recurrence rules: what is read, what is refused, where they start and end, and what they say."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from duly.errors import UsageError
from duly.timetable.rrule import RRule, rrule
from duly.timetable.rrule_parser import TEXT_LENGTH_MAX, RRuleParts, read_rrule

START = "2026-04-03T09:00"  # a Friday
LONG_AGO = datetime(1900, 1, 1, tzinfo=UTC)
FAR_AHEAD = datetime(9999, 12, 31, tzinfo=UTC)


def microseconds(instant: datetime) -> int:
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def walls(expression: str, n: int, dtstart: str | date = START, **where: str) -> list[str]:
    """Return the first occurrences of a rule as UTC times without their zone."""
    timetable = rrule(expression, dtstart=dtstart, **where)  # type: ignore[arg-type]
    return [f"{found:%Y-%m-%dT%H:%M:%S}" for found in timetable.upcoming(LONG_AGO, n)]


def days(expression: str, n: int, dtstart: str | date = START) -> list[str]:
    return [wall.partition("T")[0] for wall in walls(expression, n, dtstart)]


def refused(expression: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        rrule(expression, dtstart=START)
    return caught.value


class TestReading:
    def test_parts_come_in_any_order_and_case(self):
        plain = read_rrule("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR;WKST=SU")

        assert plain == read_rrule("rrule:wkst=su;byday=fr,mo;interval=2;freq=weekly")

    def test_every_part_is_read(self):
        parts = read_rrule(
            "FREQ=YEARLY;BYMONTH=3,1;BYWEEKNO=-1;BYYEARDAY=-366,1;BYMONTHDAY=+2,-31;BYDAY=-1FR,MO,+2TU"
            ";BYHOUR=23;BYMINUTE=59;BYSECOND=0,60;BYSETPOS=-1,366;COUNT=7"
        )

        assert parts == RRuleParts(
            freq="YEARLY",
            count=7,
            by_month=(1, 3),
            by_week_no=(-1,),
            by_year_day=(-366, 1),
            by_month_day=(-31, 2),
            by_day=((0, 0), (1, 2), (4, -1)),
            by_hour=(23,),
            by_minute=(59,),
            by_second=(0, 59),
            by_set_pos=(-1, 366),
        )

    @pytest.mark.parametrize(
        ("expression", "field"),
        [
            ("INTERVAL=2", "FREQ"),
            ("FREQ=FORTNIGHTLY", "FREQ"),
            ("FREQ=DAILY;FREQ=DAILY", "FREQ"),
            ("FREQ=DAILY;INTERVAL=0", "INTERVAL"),
            ("FREQ=DAILY;INTERVAL=-1", "INTERVAL"),
            ("FREQ=DAILY;INTERVAL=1.5", "INTERVAL"),
            ("FREQ=DAILY;INTERVAL=" + "9" * 19, "INTERVAL"),
            ("FREQ=DAILY;COUNT=0", "COUNT"),
            ("FREQ=DAILY;COUNT=2;UNTIL=20270101", "COUNT"),
            ("FREQ=DAILY;UNTIL=20260230", "UNTIL"),
            ("FREQ=DAILY;UNTIL=2026-12-31", "UNTIL"),
            ("FREQ=DAILY;UNTIL=20261231T25", "UNTIL"),
            ("FREQ=DAILY;UNTIL=00000101", "UNTIL"),
            ("FREQ=DAILY;WKST=1", "WKST"),
            ("FREQ=DAILY;BYMONTH=13", "BYMONTH"),
            ("FREQ=DAILY;BYMONTH=-1", "BYMONTH"),
            ("FREQ=DAILY;BYWEEKNO=54", "BYWEEKNO"),
            ("FREQ=DAILY;BYYEARDAY=0", "BYYEARDAY"),
            ("FREQ=DAILY;BYMONTHDAY=32", "BYMONTHDAY"),
            ("FREQ=DAILY;BYDAY=XX", "BYDAY"),
            ("FREQ=DAILY;BYDAY=0MO", "BYDAY"),
            ("FREQ=DAILY;BYDAY=54MO", "BYDAY"),
            ("FREQ=DAILY;BYHOUR=24", "BYHOUR"),
            ("FREQ=DAILY;BYHOUR=-1", "BYHOUR"),
            ("FREQ=DAILY;BYMINUTE=60", "BYMINUTE"),
            ("FREQ=DAILY;BYSECOND=61", "BYSECOND"),
            ("FREQ=DAILY;BYSECOND=1,,2", "BYSECOND"),
            ("FREQ=DAILY;BYHOUR=9;BYSETPOS=0", "BYSETPOS"),
            ("FREQ=DAILY;BYHOUR=9;BYSETPOS=367", "BYSETPOS"),
            ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS"),
            ("FREQ=DAILY;BYEASTER=0", "BYEASTER"),
            ("FREQ=DAILY;", "rrule"),
            ("FREQ=DAILY;BYDAY=", "rrule"),
            ("FREQ", "rrule"),
            ("", "rrule"),
            ("FREQ=DA\u0131LY", "rrule"),
            ("FREQ=DAILY;BYDAY=" + "MO," * TEXT_LENGTH_MAX, "rrule"),
        ],
    )
    def test_a_mistake_is_refused_by_the_name_of_its_part(self, expression, field):
        assert field == refused(expression).field

    @pytest.mark.parametrize("expression", [None, 5, b"FREQ=DAILY", ["FREQ=DAILY"]])
    def test_what_is_not_a_text_is_refused(self, expression):
        assert "rrule" == refused(expression).field

    def test_a_list_may_be_as_long_as_the_text(self):
        """Ten thousand commas are refused, a thousand are read."""
        expression = "FREQ=SECONDLY;BYSECOND=" + "0," * 700 + "1"

        assert (0, 1) == read_rrule(expression).by_second


class TestStart:
    @pytest.mark.parametrize(
        "dtstart",
        [
            "2026-04-03T09:00",
            "2026-04-03 09:00:00",
            "20260403T090000",
            datetime(2026, 4, 3, 9),
            datetime(2026, 4, 3, 7, tzinfo=UTC),
            datetime(2026, 4, 3, 4, tzinfo=timezone(timedelta(hours=-3))),
            "2026-04-03T07:00:00Z",
        ],
    )
    def test_a_start_may_be_written_in_many_ways(self, dtstart):
        """An aware one is converted to the wall time of the rule's zone."""
        timetable = rrule("FREQ=DAILY", dtstart=dtstart, tz="Europe/Paris")

        assert datetime(2026, 4, 3, 9) == timetable.dtstart

    @pytest.mark.parametrize("dtstart", ["20260403", "2026-04-03", date(2026, 4, 3)])
    def test_a_date_starts_at_midnight(self, dtstart):
        assert ["2026-04-03T00:00:00"] == walls("FREQ=DAILY", 1, dtstart)

    @pytest.mark.parametrize(
        "dtstart",
        [
            "",
            "tomorrow",
            "2026-02-30",
            "2026-04-03T09:00:00.5",
            "2" * 50,
            None,
            5,
            datetime(2026, 4, 3, 9, 0, 0, 1),
        ],
    )
    def test_what_is_not_a_start_is_refused(self, dtstart):
        with pytest.raises(UsageError) as caught:
            rrule("FREQ=DAILY", dtstart=dtstart)

        assert "dtstart" == caught.value.field

    def test_nothing_is_before_the_start(self):
        timetable = rrule("FREQ=SECONDLY", dtstart=START)

        assert timetable.previous(datetime(2026, 4, 3, 9, tzinfo=UTC)) is None
        assert datetime(2026, 4, 3, 9, tzinfo=UTC) == timetable.next(LONG_AGO)

    def test_a_start_that_does_not_match_is_no_occurrence(self):
        assert ["2026-04-06", "2026-04-13"] == days("FREQ=WEEKLY;BYDAY=MO", 2)


class TestDays:
    def test_what_the_rule_leaves_open_comes_from_the_start(self):
        assert ["2026-04-03T09:00:00", "2027-04-03T09:00:00"] == walls("FREQ=YEARLY", 2)
        assert ["2026-04-03", "2026-05-03"] == days("FREQ=MONTHLY", 2)
        assert ["2026-04-03", "2026-04-10"] == days("FREQ=WEEKLY", 2)

    def test_a_day_that_a_month_lacks_is_left_out(self):
        assert ["2026-05-31", "2026-07-31"] == days("FREQ=MONTHLY;BYMONTHDAY=31", 2)

    def test_weeks_start_where_the_rule_says(self):
        """Every second week from Tuesday 5 August 1997, by two reckonings of weeks."""
        rule = "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST="

        assert ["1997-08-05", "1997-08-10", "1997-08-19", "1997-08-24"] == days(
            rule + "MO", 5, "19970805"
        )
        assert ["1997-08-05", "1997-08-17", "1997-08-19", "1997-08-31"] == days(
            rule + "SU", 5, "19970805"
        )

    def test_plain_and_numbered_weekdays_add_up(self):
        """Every Friday, and the first Monday as well."""
        found = days("FREQ=MONTHLY;BYDAY=FR,1MO", 5)

        assert ["2026-04-03", "2026-04-06", "2026-04-10", "2026-04-17", "2026-04-24"] == found

    def test_numbers_count_in_the_month_where_months_are_named_and_else_in_the_year(self):
        assert ["2026-05-04", "2027-05-03"] == days("FREQ=YEARLY;BYMONTH=5;BYDAY=1MO", 2)
        assert ["2026-05-18", "2027-05-17"] == days("FREQ=YEARLY;BYDAY=20MO", 2)

    def test_the_number_of_a_weekday_means_nothing_within_a_week(self):
        """As dateutil reads it."""
        assert days("FREQ=WEEKLY;BYDAY=FR", 3) == days("FREQ=WEEKLY;BYDAY=2FR", 3)

    def test_week_one_may_begin_in_december(self):
        """ISO's first week of 2026 starts on 29 December 2025."""
        assert "2025-12-29" == days("FREQ=YEARLY;BYWEEKNO=1;BYDAY=MO", 1, "20250601")[0]

    def test_a_week_counted_from_the_end_may_lie_in_the_next_year(self):
        """2020 has 53 weeks, and the last of them ends on 3 January 2021."""
        found = days("FREQ=YEARLY;BYWEEKNO=-1;BYDAY=SU", 2, "20200601")

        assert ["2021-01-03", "2022-01-02"] == found

    def test_a_week_without_a_weekday_is_a_whole_week(self):
        """Decision 0006."""
        found = days("FREQ=YEARLY;BYWEEKNO=20", 8)

        assert [f"2026-05-{day}" for day in range(11, 18)] == found[:7]
        assert "2027-05-17" == found[7]

    def test_a_week_of_an_all_day_rule_has_the_weekday_of_the_start(self):
        """Decision 0006."""
        assert ["2026-05-15", "2027-05-21"] == days("FREQ=YEARLY;BYWEEKNO=20", 2, "20260403")

    def test_days_of_a_month_without_a_month_are_those_of_every_month(self):
        """Decision 0006."""
        assert ["2026-05-01", "2026-06-01"] == days("FREQ=YEARLY;BYMONTHDAY=1", 2)

    def test_days_of_an_all_day_rule_without_a_month_are_those_of_the_starts(self):
        """Decision 0006."""
        assert ["2026-04-30", "2027-04-30"] == days("FREQ=YEARLY;BYMONTHDAY=-1", 2, "20260403")

    def test_a_rule_that_names_a_time_is_not_about_whole_days(self):
        """Decision 0006."""
        found = days("FREQ=YEARLY;BYMONTHDAY=1;BYHOUR=9", 2, "20260403")

        assert ["2026-05-01", "2026-06-01"] == found


class TestPositions:
    def test_the_last_weekday_of_the_month(self):
        rule = "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"

        assert ["2026-04-30", "2026-05-29", "2026-06-30"] == days(rule, 3)

    def test_positions_count_days_and_times_together(self):
        """In each week the third and the third last of Monday and Friday at 6 and 18."""
        rule = "FREQ=WEEKLY;BYDAY=MO,FR;BYHOUR=6,18;BYSETPOS=3,-3"
        found = walls(rule, 3, "20260406T000000")

        assert ["2026-04-06T18:00:00", "2026-04-10T06:00:00", "2026-04-13T18:00:00"] == found

    def test_positions_that_meet_count_once(self):
        """A month with one such day has it as its first and its last."""
        assert ["2026-04-03", "2026-05-03"] == days("FREQ=MONTHLY;BYMONTHDAY=3;BYSETPOS=1,-1", 2)

    def test_a_week_is_whole_even_if_the_rule_starts_within_it(self):
        """The Monday before the start is the first of its week, so Friday is not."""
        assert ["2026-04-06"] == days("FREQ=WEEKLY;BYDAY=MO,FR;BYSETPOS=1", 1)

    def test_weeks_across_the_turn_of_the_year_are_one_period(self):
        """The last of Monday and Friday, in the week from 28 December 2026."""
        found = days("FREQ=WEEKLY;BYDAY=MO,FR;BYSETPOS=-1", 2, "20261228")

        assert ["2027-01-01", "2027-01-08"] == found

    def test_positions_within_an_hour(self):
        found = walls("FREQ=HOURLY;INTERVAL=5;BYMINUTE=10,20,30;BYSETPOS=-1", 2)

        assert ["2026-04-03T09:30:00", "2026-04-03T14:30:00"] == found


class TestShortPeriods:
    def test_an_interval_keeps_its_distance_across_midnight(self):
        found = walls("FREQ=HOURLY;INTERVAL=7", 4)

        assert ["T09:00:00", "T16:00:00", "T23:00:00", "T06:00:00"] == [wall[10:] for wall in found]

    def test_coarser_parts_filter_and_finer_ones_multiply(self):
        found = walls("FREQ=MINUTELY;INTERVAL=90;BYHOUR=12;BYSECOND=5,10", 4)

        assert [
            "2026-04-03T12:00:05",
            "2026-04-03T12:00:10",
            "2026-04-04T12:00:05",
            "2026-04-04T12:00:10",
        ] == found

    def test_an_interval_longer_than_a_day(self):
        """Every 25 hours, if it is nine o'clock."""
        assert ["2026-04-03", "2026-04-28"] == days("FREQ=HOURLY;INTERVAL=25;BYHOUR=9", 2)

    @pytest.mark.parametrize(
        "expression",
        [
            "FREQ=HOURLY;INTERVAL=2;BYHOUR=10",
            "FREQ=HOURLY;INTERVAL=168;BYDAY=TU",
            "FREQ=MINUTELY;INTERVAL=120;BYHOUR=10",
            "FREQ=SECONDLY;INTERVAL=90;BYSECOND=1",
            "FREQ=SECONDLY;BYSECOND=1,2;BYSETPOS=2",
        ],
    )
    def test_steps_that_can_never_meet_the_parts_are_recognised(self, expression):
        """From nine o'clock sharp, on a Friday."""
        timetable = rrule(expression, dtstart=START)

        assert timetable.next(LONG_AGO) is None
        assert timetable.previous(FAR_AHEAD) is None

    def test_a_search_that_would_take_centuries_is_given_up(self):
        """A second less than a day drifts out of the hour, and comes back after 226 years."""
        timetable = rrule("FREQ=SECONDLY;INTERVAL=86399;BYHOUR=9", dtstart="2026-04-03T09:30")

        with pytest.raises(UsageError) as caught:
            timetable.next(datetime(2040, 1, 1, tzinfo=UTC))

        assert "INTERVAL" == caught.value.field


class TestNever:
    @pytest.mark.parametrize(
        "expression",
        [
            "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
            "FREQ=YEARLY;INTERVAL=7;BYMONTH=2;BYMONTHDAY=30",
            "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
            "FREQ=MONTHLY;INTERVAL=12;BYMONTH=3",
            "FREQ=DAILY;INTERVAL=14;BYDAY=TU",
            "FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29",
            "FREQ=MONTHLY;BYDAY=6MO",
            "FREQ=DAILY;BYHOUR=9;BYSETPOS=2",
            "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30;COUNT=3",
        ],
    )
    def test_a_rule_that_never_happens_ends_at_once(self, expression):
        """In either direction."""
        timetable = rrule(expression, dtstart=START)

        assert timetable.next(LONG_AGO) is None
        assert timetable.previous(FAR_AHEAD) is None

    def test_a_rule_that_happens_rarely_is_found(self):
        """29 February in every 300th year from 2000 comes back in 3200."""
        found = days("FREQ=YEARLY;INTERVAL=300", 2, "20000229")

        assert ["2000-02-29", "3200-02-29"] == found

    @pytest.mark.parametrize("freq", ["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "SECONDLY"])
    def test_an_endless_interval_leaves_the_start_alone(self, freq):
        timetable = rrule(f"FREQ={freq};INTERVAL=999999999999999999", dtstart=START)
        start = datetime(2026, 4, 3, 9, tzinfo=UTC)

        assert start == timetable.next(LONG_AGO) == timetable.previous(FAR_AHEAD)
        assert timetable.next(start) is None


class TestUntil:
    @pytest.mark.parametrize(
        ("until", "last"),
        [
            ("20260405", "2026-04-05T07:00:00"),
            ("20260405T090000", "2026-04-05T07:00:00"),
            ("20260405T085959", "2026-04-04T07:00:00"),
            ("20260405T070000Z", "2026-04-05T07:00:00"),
            ("20260405T065959Z", "2026-04-04T07:00:00"),
        ],
    )
    def test_the_end_is_included_in_the_zone_or_in_utc(self, until, last):
        found = walls(f"FREQ=DAILY;UNTIL={until}", 9, tz="Europe/Paris")
        timetable = rrule(f"FREQ=DAILY;UNTIL={until}", dtstart=START, tz="Europe/Paris")

        assert last == found[-1]
        assert f"{timetable.previous(FAR_AHEAD):%Y-%m-%dT%H:%M:%S}" == last

    def test_an_end_before_the_start_leaves_nothing(self):
        assert [] == walls("FREQ=DAILY;UNTIL=20200101", 1)
        assert [] == walls("FREQ=DAILY;UNTIL=20200101T000000Z", 1)


class TestCount:
    @pytest.mark.parametrize(
        ("gap", "last"),
        [
            ("skip", "2026-03-31T00:30:00"),
            ("next", "2026-03-30T00:30:00"),
            ("shift", "2026-03-30T00:30:00"),
        ],
    )
    def test_only_real_instants_are_counted(self, gap, last):
        """02:30 does not exist in Paris on 29 March; skipped, it is not counted (RFC 5545, 3.3.10)."""
        found = walls("FREQ=DAILY;COUNT=3", 9, "20260328T023000", tz="Europe/Paris", gap=gap)

        assert 3 == len(found)
        assert last == found[-1]

    def test_a_repeated_hour_counts_twice_if_both_are_meant(self):
        found = walls("FREQ=DAILY;COUNT=3", 9, "20261024T023000", tz="Europe/Paris", fold="both")

        assert ["2026-10-24T00:30:00", "2026-10-25T00:30:00", "2026-10-25T01:30:00"] == found

    def test_the_last_of_a_billion_seconds_is_known(self):
        timetable = rrule("FREQ=SECONDLY;COUNT=1000000000", dtstart=START)
        last = datetime(2026, 4, 3, 9, tzinfo=UTC) + timedelta(seconds=999_999_999)

        assert last == timetable.previous(FAR_AHEAD)
        assert timetable.next(last) is None
        assert last == timetable.next(last - timedelta(seconds=1))

    @pytest.mark.parametrize("tz", ["UTC", "Europe/Paris"])
    def test_a_count_beyond_the_end_of_time_limits_nothing(self, tz):
        limited = rrule("FREQ=SECONDLY;COUNT=999999999999999999", dtstart=START, tz=tz)
        endless = rrule("FREQ=SECONDLY", dtstart=START, tz=tz)

        assert endless.previous(FAR_AHEAD) == limited.previous(FAR_AHEAD)

    def test_a_count_is_not_followed_for_thousands_of_changes_of_clocks(self):
        """What is asked about the near future is answered all the same."""
        timetable = rrule("FREQ=DAILY;COUNT=2000000", dtstart=START, tz="Europe/Paris")
        with pytest.raises(UsageError) as caught:
            timetable.next(datetime(9000, 1, 1, tzinfo=UTC))

        assert "COUNT" == caught.value.field
        assert datetime(2100, 1, 1, 8, tzinfo=UTC) == timetable.next(
            datetime(2100, 1, 1, tzinfo=UTC)
        )

    def test_a_rare_rule_is_counted_through_the_centuries(self):
        """However often clocks change in between."""
        found = walls("FREQ=YEARLY;INTERVAL=100;COUNT=7", 9, tz="Europe/Paris")

        assert [f"{year}-04-03T07:00:00" for year in range(2026, 2700, 100)] == found

    def test_questions_in_any_order_have_the_same_answers(self):
        """What was counted is remembered, and changes nothing."""
        instants = [datetime(2026, 4, day, 12, tzinfo=UTC) for day in (1, 20, 3, 12, 11, 30, 2)]
        timetable = rrule("FREQ=DAILY;COUNT=10", dtstart=START)
        fresh = [rrule("FREQ=DAILY;COUNT=10", dtstart=START).next(one) for one in instants]

        assert fresh == [timetable.next(one) for one in instants]

    def test_counting_stops_with_the_rule(self):
        timetable = rrule("FREQ=DAILY;COUNT=10", dtstart=START)

        assert 10 == timetable.count(microseconds(LONG_AGO), microseconds(FAR_AHEAD))


class TestValue:
    def test_its_stored_form_keeps_the_words(self):
        timetable = rrule("freq=daily", dtstart="20260403T090000", tz="Europe/Paris", gap="skip")

        assert timetable.to_json() == {
            "kind": "rrule",
            "expression": "freq=daily",
            "dtstart": "2026-04-03T09:00:00",
            "tz": "Europe/Paris",
            "gap": "skip",
            "fold": "first",
        }

    def test_its_stored_form_leads_back_to_it(self):
        timetable = rrule("FREQ=DAILY;COUNT=3", dtstart=START, tz="Europe/Paris")
        stored = timetable.to_json()
        del stored["kind"]

        assert timetable == rrule(**stored)

    def test_rules_are_equal_by_their_words(self):
        rules = {
            rrule("FREQ=DAILY;COUNT=3", dtstart=START),
            rrule("FREQ=DAILY;COUNT=3", dtstart=START),
        }

        assert 1 == len(rules)
        assert rrule("FREQ=DAILY", dtstart=START) != rrule("FREQ=DAILY", dtstart="20260404")

    def test_a_naive_question_is_refused(self):
        with pytest.raises(UsageError):
            rrule("FREQ=DAILY", dtstart=START).next(datetime(2026, 1, 1))

    def test_an_unknown_zone_or_policy_is_refused(self):
        for where in ({"tz": "Mars/Olympus"}, {"gap": "jump"}, {"fold": "third"}):
            with pytest.raises(UsageError) as caught:
                rrule("FREQ=DAILY", dtstart=START, **where)  # type: ignore[arg-type]

            assert caught.value.field in where


class TestWords:
    @pytest.mark.parametrize(
        ("expression", "words"),
        [
            ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR;COUNT=10", "every 2 weeks on Monday and Friday at 09:00 (Europe/Paris), from 2026-04-03, 10 times"),
            ("FREQ=DAILY", "every day at 09:00 (Europe/Paris), from 2026-04-03"),
            ("FREQ=DAILY;COUNT=1", "every day at 09:00 (Europe/Paris), from 2026-04-03, once"),
            ("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "every weekday at 09:00 (Europe/Paris), from 2026-04-03"),
            ("FREQ=WEEKLY", "every week on Friday at 09:00 (Europe/Paris), from 2026-04-03"),
            ("FREQ=WEEKLY;INTERVAL=2;WKST=SU", "every 2 weeks on Friday at 09:00 (Europe/Paris), weeks starting on Sunday, from 2026-04-03"),
            ("FREQ=MONTHLY", "every month on the 3rd at 09:00 (Europe/Paris), from 2026-04-03"),
            ("FREQ=MONTHLY;BYMONTHDAY=1,-1", "every month on the 1st and last day of the month at 09:00 (Europe/Paris), from 2026-04-03"),
            ("FREQ=MONTHLY;BYDAY=-1FR,2MO", "every month on the 2nd Monday and the last Friday of the month at 09:00 (Europe/Paris), from 2026-04-03"),
            ("FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR", "every month on the 13th, only on Friday, at 09:00 (Europe/Paris), from 2026-04-03"),
            ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "every month on every weekday at 09:00 (Europe/Paris), of these only the last in each month, from 2026-04-03"),
            ("FREQ=YEARLY;UNTIL=20301231", "every year on 3 April at 09:00 (Europe/Paris), from 2026-04-03, until 2030-12-31"),
            ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "every year on 30 February at 09:00 (Europe/Paris), from 2026-04-03, which never happens"),
            ("FREQ=YEARLY;BYMONTHDAY=1", "every year on the 1st day of every month at 09:00 (Europe/Paris), from 2026-04-03"),
            ("FREQ=YEARLY;BYYEARDAY=1,100,-1", "every year on the 1st, 100th and last day of the year at 09:00 (Europe/Paris), from 2026-04-03"),
            ("FREQ=YEARLY;BYWEEKNO=20", "every year on every day of the 20th week of the year at 09:00 (Europe/Paris), from 2026-04-03"),
            ("FREQ=YEARLY;BYDAY=20MO", "every year on the 20th Monday of the year at 09:00 (Europe/Paris), from 2026-04-03"),
            ("FREQ=DAILY;BYHOUR=8,9,10;BYMINUTE=0,15,30,45", "every day, every 15 minutes from 08:00 to 10:45 (Europe/Paris), from 2026-04-03"),
            ("FREQ=HOURLY;INTERVAL=7;UNTIL=20270101T000000Z", "every 7 hours on the wall clock (Europe/Paris), from 2026-04-03 09:00, until 2027-01-01 00:00 UTC"),
            ("FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10,11;BYSECOND=30", "every 20 minutes in hours 9 to 11 at second 30 (Europe/Paris), from 2026-04-03 09:00"),
        ],
    )  # fmt: skip
    def test_a_rule_says_what_it_does(self, expression, words):
        assert words == rrule(expression, dtstart=START, tz="Europe/Paris").describe()

    def test_it_is_its_own_text(self):
        timetable: RRule = rrule("FREQ=DAILY", dtstart=START)

        assert timetable.describe() == str(timetable)


def test_shifted_seconds_are_not_counted():
    """What would cost more than a few milliseconds is refused, with the way out."""
    with pytest.raises(UsageError, match="can't be counted") as refused:
        rrule("FREQ=SECONDLY;COUNT=9", dtstart="20260403T090000", tz="Europe/Paris", gap="shift")

    assert "gap" == refused.value.field


def test_an_aware_start_that_shows_a_wall_time_again_is_refused():
    """Otherwise the rule would fire before its own start."""
    start = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)

    with pytest.raises(UsageError, match="for the second time"):
        rrule("FREQ=DAILY", dtstart=start, tz="Europe/Berlin")

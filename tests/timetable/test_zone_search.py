"""A person finds a zone by whatever name they know it by."""

from __future__ import annotations

import string
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.errors import UsageError
from duly.timetable.zone_places import COUNTRY_NAMES, PLACES, RENAMED, SPOKEN
from duly.timetable.zone_search import LIMIT_MAX, QUERY_LENGTH_MAX, atlas_of, folded, search_zones
from duly.timetable.zones import ZoneDatabase, default_zones
from tests.each_row import each_row
from tests.timetable.made_zones import MadeRelease, release, tzif

JANUARY = datetime(2025, 1, 15, 12, tzinfo=UTC)
JULY = datetime(2025, 7, 15, 12, tzinfo=UTC)


def found(query: str, at: datetime = JULY, limit: int = 20) -> list[str]:
    return [match.key for match in search_zones(query, at=at, limit=limit)]


@each_row(
    ("query", "expected", "why"),
    [
        ("Paris", "Europe/Paris", "city Paris"),
        ("new york", "America/New_York", "city New York"),
        ("Buenos Aires", "America/Argentina/Buenos_Aires", "city Buenos Aires"),
        ("Mumbai", "Asia/Kolkata", "zone of Mumbai"),
        ("Beijing", "Asia/Shanghai", "zone of Beijing"),
        ("San Francisco", "America/Los_Angeles", "zone of San Francisco"),
        ("Seattle", "America/Los_Angeles", "zone of Seattle"),
        ("Rio", "America/Sao_Paulo", "zone of Rio"),
        ("Texas", "America/Chicago", "zone of Texas"),
        ("Japan", "Asia/Tokyo", "in Japan"),
        ("USA", "America/New_York", "in USA (United States)"),
        ("uk", "Europe/London", "in UK (Britain (UK))"),
        ("Europe/Paris", "Europe/Paris", "time zone Europe/Paris"),
        ("utc", "UTC", "time zone UTC"),
        ("US/Eastern", "America/New_York", "US/Eastern is another name of it"),
        ("asia/calcutta", "Asia/Kolkata", "Asia/Calcutta is another name of it"),
        ("Kiev", "Europe/Kyiv", "Europe/Kiev is another name of it"),
        ("ET", "America/New_York", "called ET"),
        ("JST", "Asia/Tokyo", "called JST"),
        ("+05:45", "Asia/Kathmandu", "is at UTC+05:45"),
        ("portland oregon", "America/Los_Angeles", "matches portland oregon"),
    ],
)
def test_the_likeliest_zone_comes_first_and_says_why(query, expected, why):
    """City, country, IANA id, alias, abbreviation, offset."""
    first = search_zones(query, at=JULY)[0]

    assert (expected, why) == (first.key, first.why)


@each_row(
    ("query", "expected"),
    [
        ("ZÜRICH", "Europe/Zurich"),
        ("são paulo", "America/Sao_Paulo"),
        ("munchen", "Europe/Berlin"),
        ("MÜNCHEN", "Europe/Berlin"),
        ("wroclaw", "Europe/Warsaw"),
        ("Réunion", "Indian/Reunion"),
        ("xian", "Asia/Shanghai"),
        ("st. john's", "America/St_Johns"),
        ("port-au-prince", "America/Port-au-Prince"),
        ("  ho   chi minh ", "Asia/Ho_Chi_Minh"),
        ("cote d'ivoire", "Africa/Abidjan"),
    ],
)
def test_case_accents_and_punctuation_do_not_matter(query, expected):
    assert expected == found(query)[0]


@each_row(
    ("query", "expected"),
    [
        ("san fransisco", "America/Los_Angeles"),
        ("los angelos", "America/Los_Angeles"),
        ("londn", "Europe/London"),
        ("tokio", "Asia/Tokyo"),
        ("Phillipines", "Asia/Manila"),
        ("Europe/Pariss", "Europe/Paris"),
    ],
)
def test_a_slip_of_the_finger_is_forgiven(query, expected):
    assert expected == found(query)[0]


def test_nothing_similar_is_offered_where_something_fits():
    assert found("victoria") == ["America/Vancouver", "Australia/Melbourne"]


def test_the_beginning_of_a_name_comes_before_its_inside():
    keys = found("ber", limit=LIMIT_MAX)
    beginning = [keys.index("Europe/Berlin"), keys.index("Atlantic/Bermuda")]
    inside = [keys.index("America/Edmonton"), keys.index("Africa/Monrovia")]  # Alberta, Liberia

    assert max(beginning) < min(inside)


def test_the_beginning_of_a_word_comes_before_the_inside_of_one():
    keys = found("town", limit=LIMIT_MAX)

    assert keys.index("Africa/Johannesburg") < keys.index("Africa/Freetown")  # for Cape Town


def test_a_zone_comes_before_those_it_is_an_alias_of():
    """CET names Berlin's and Paris' time first, then the old id, which is linked to Brussels."""
    keys = found("CET", JANUARY)

    assert keys[:3] == ["Europe/Berlin", "Europe/Paris", "Europe/Brussels"]


def test_an_alias_is_offered_as_its_canonical_zone_with_the_alias_named():
    (match,) = search_zones("US/Eastern", at=JULY)

    assert (match.key, match.alias, match.kind) == ("America/New_York", "US/Eastern", "alias")


def test_a_country_keeps_its_own_zone_even_where_the_database_links_it_abroad():
    """Clocks in the Netherlands and Belgium agree today; the person said Amsterdam."""
    assert found("Amsterdam") == ["Europe/Amsterdam"]
    assert found("Netherlands")[0] == "Europe/Amsterdam"
    assert found("Iceland") == ["Atlantic/Reykjavik"]


def test_a_match_shows_the_zone_and_its_clock():
    """City, country, group, offset now, abbreviation, local time."""
    (match,) = search_zones("Europe/Lisbon", at=JULY)

    assert (match.city, match.countries, match.group) == ("Lisbon", ("Portugal",), "Europe")
    assert (timedelta(hours=1), "WEST") == (match.offset, match.abbreviation)
    assert match.local_at == JULY
    assert match.local_at.isoformat() == "2025-07-15T13:00:00+01:00"


def test_the_clock_is_that_of_the_instant_asked_about():
    (winter,) = search_zones("Europe/Lisbon", at=JANUARY)

    assert (timedelta(0), "WET", 12) == (winter.offset, winter.abbreviation, winter.local_at.hour)


def test_an_abbreviation_of_the_other_half_of_the_year_is_understood():
    """People say EST in July."""
    assert found("EST", JULY)[0] == "America/New_York"
    assert found("EDT", JANUARY)[0] == "America/New_York"


def test_those_who_use_an_abbreviation_that_day_come_before_those_who_will():
    keys = found("EST", JULY, limit=LIMIT_MAX)

    assert keys.index("America/Jamaica") < keys.index("America/Detroit")


def test_an_abbreviation_that_went_out_of_use_is_not_offered():
    matches = search_zones("MSD", at=JULY)  # Moscow's summer time, until 2010

    assert [match for match in matches if match.kind == "abbreviation"] == []
    assert "Europe/Moscow" in found("MSD", datetime(2009, 7, 1, tzinfo=UTC))


@each_row("query", ["+02:00", "UTC+2", "gmt+02", "UTC +2", "+0200"])
def test_an_offset_finds_who_has_it_at_that_instant(query):
    matches = search_zones(query, at=JULY, limit=LIMIT_MAX)
    keys = [match.key for match in matches]

    assert {timedelta(hours=2)} == {match.offset for match in matches}
    assert "Europe/Berlin" in keys
    assert "Europe/Helsinki" not in keys
    assert "Europe/Helsinki" in found(query, JANUARY, LIMIT_MAX)


@pytest.mark.parametrize("query", ["-03:30", "\u221203:30", "UTC-3:30"])
def test_offsets_west_of_greenwich_have_any_minus(query):
    assert found(query, JANUARY) == ["America/St_Johns"]


def test_whoever_asks_for_no_offset_gets_utc_first():
    assert found("+00:00", JANUARY)[0] == "UTC"


@pytest.mark.parametrize("key", ["Etc/GMT+5", "Etc/GMT-5", "Etc/GMT+11", "Etc/GMT-1"])
def test_an_id_given_in_full_is_the_first_answer_whatever_its_sign(key):
    assert key == found(key)[0]


def test_every_name_of_the_database_is_found_by_itself():
    """Ids and aliases; an alias leads to a zone whose clock shows the same."""
    zones, second, wrong = default_zones(), int(JULY.timestamp()), []
    for key in sorted(key for key in zones.keys if "/" in key):
        first = search_zones(key, at=JULY, limit=1)[0]
        offset = timedelta(seconds=zones.zone(key).segment(second).offset)
        if key not in (first.key, first.alias) or offset != first.offset:
            wrong.append((key, first))

    assert wrong == []


def test_the_same_question_has_the_same_answer():
    fresh = ZoneDatabase(default_zones().files)
    expected = search_zones("a", at=JULY, limit=LIMIT_MAX)

    assert expected == search_zones("a", at=JULY, zones=fresh, limit=LIMIT_MAX)


def test_each_zone_comes_once_and_no_more_than_asked_for():
    keys = found("a", limit=LIMIT_MAX)

    assert LIMIT_MAX == len(keys) == len(set(keys))
    assert keys[:7] == found("a", limit=7)


@each_row("query", ["!!", "🎉", "東京", "Factory", "qqqqqq", "+99", "\u0300\u0301"])
def test_what_fits_nothing_finds_nothing(query):
    assert found(query) == []


@each_row(
    ("arguments", "message"),
    [
        ({"query": ""}, "query: '' is empty; type a city, a country, a zone such as 'Europe/Paris', or an offset such as '+05:30'"),
        ({"query": " \t"}, "query: .* is empty"),
        ({"query": None}, "query: None is not a text"),
        ({"query": "x" * (QUERY_LENGTH_MAX + 1)}, "query: .* is too long; give at most 80 characters"),
        ({"limit": 0}, "limit: 0 is out of range; ask for 1 to 100 zones"),
        ({"limit": 101}, "limit: 101 is out of range"),
        ({"limit": "5"}, "limit: '5' is out of range"),
        ({"at": datetime(2025, 1, 1)}, "at: .* has no time zone"),
        ({"at": "now"}, "at: 'now' is not a datetime"),
        ({"at": datetime.max.replace(tzinfo=UTC)}, "at: .* is too far away to show local times"),
    ],
)  # fmt: skip
def test_a_bad_question_is_refused_with_field_value_and_remedy(arguments, message):
    """One clear error."""
    with pytest.raises(UsageError, match=f"^{message.replace('+', '[+]')}"):
        search_zones(**{"query": "paris", "at": JULY, **arguments})


@settings(deadline=None, max_examples=150)
@given(
    st.one_of(
        st.text(max_size=QUERY_LENGTH_MAX),
        st.text(string.ascii_letters + " /+-:", max_size=12),
    ).filter(str.strip)
)
def test_whatever_is_typed_is_answered(query):
    """Nothing but an answer, of zones that exist."""
    keys = found(query, limit=5)

    assert set(keys) <= default_zones().keys


def test_a_release_without_tables_is_searched_by_id():
    """The source is replaceable, and may bring nothing but zones."""
    zones = release(Mars__Olympus_Mons=tzif((88_00, False, "OMT"), footer=""))
    (match,) = search_zones("olympus", at=JULY, zones=zones)

    assert (
        match.key, match.city, match.group, match.countries,
    ) == ("Mars/Olympus_Mons", "Olympus Mons", "Mars", ())  # fmt: skip
    assert [match.key for match in search_zones("omt", at=JULY, zones=zones)] == [
        "Mars/Olympus_Mons"
    ]


def test_a_release_with_links_of_links_finds_their_end():
    tables = {"tzdata.zi": "# version made\nL B/New C/Newer\nL C/Newer D/Newest\n"}
    content = tzif((0, False, "BBB"))
    files = MadeRelease({"B/New": content, "C/Newer": content, "D/Newest": content}, tables=tables)
    (match,) = search_zones("newest", at=JULY, zones=ZoneDatabase(files))

    assert (match.key, match.alias) == ("B/New", "D/Newest")


@each_row("key", sorted({*PLACES, *RENAMED, *RENAMED.values()}))
def test_hand_written_names_lead_to_zones_that_exist(key):
    assert key in default_zones().keys


def test_hand_written_names_are_not_written_twice_nor_known_anyway():
    names = [(folded(place), key) for key, places in PLACES.items() for place in places.split(", ")]
    cities = {
        (name.text, name.key) for name in atlas_of(default_zones()).names if name.kind == "city"
    }

    assert len(names) == len(set(names))
    assert set() == set(names) & cities


def test_spoken_names_and_countries_lead_to_zones_that_exist():
    keys = {key for keys in SPOKEN.values() for key in keys.split(", ")}
    codes = {
        line.partition("\t")[0] for line in default_zones().files.table("iso3166.tab").splitlines()
    }

    assert set() == keys - default_zones().keys
    assert set() == set(COUNTRY_NAMES) - codes

"""Arguments of plain types are read in one go, into what the careful way would have made of them."""

from __future__ import annotations

import inspect
import json
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from duly.client import arguments as arguments_module
from duly.client.arguments import Signature, quick_reader
from duly.domain.secret_refs import SecretReference
from duly.errors import UsageError
from tests.each_row import each_row

KINDS = (
    Any, str, int, float, bool, None, int | None, float | None, str | None, int | float,
    int | str, bool | str, list[int], list[float | None], list[Any], dict[str, int], dict[str, Any],
    dict[str, list[float]] | None,
)  # fmt: skip
NUMBERS = (
    "-0", "-0.0", "1.0", "1e2", "1E2", "1e400", "-1e400", "NaN", "Infinity", "5e-324", "1e22", "1e23",
    "9007199254740993", "9007199254740993.0", "18446744073709551616", "-9223372036854775809",
    "123456789012345678901234567890", "1.10000000000000000000001", "0.1", "1_0", "01", "0x1",
)  # fmt: skip
TEXTS = (r'"\ud800"', r'"\u0000"', '"é"', '"\ud800"', '"a\tb"', '"', '""', "[]", "[", "{}", "")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.integers(-5, 5).map(float),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
NAMES = ("first", "second", "third")


def signature_of(kinds, optional):
    """Return a signature of parameters of these types, some of them with defaults."""

    def function():
        raise AssertionError("nobody calls it")

    empty = inspect.Parameter.empty
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=kind,
            default=[] if name in optional else empty,
        )
        for name, kind in kinds.items()
    ]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = dict(kinds)
    return Signature("remind", function)


def outcome(signature, text):
    """Return what reading gives: values with their types, or what is said against them."""
    try:
        return repr(signature.read(text))
    except (UsageError, UnicodeError) as error:
        return f"refused: {error}"


def assert_alike(kinds, optional, text):
    quick = signature_of(kinds, optional)
    assert quick.is_plain
    with mock.patch.object(arguments_module, "quick_reader", return_value=None):
        careful = signature_of(kinds, optional)
        assert not careful.is_plain
        expected = outcome(careful, text)

    assert expected == outcome(quick, text)


@given(
    kinds=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(KINDS)),
    optional=st.sets(st.sampled_from(NAMES)),
    stored=st.dictionaries(st.sampled_from((*NAMES, "fourth")), VALUES) | VALUES,
)
def test_whatever_is_stored_is_read_as_the_careful_way_reads_it(kinds, optional, stored):
    """Values, defaults, and what is said of arguments that do not fit."""
    assert_alike(kinds, optional, json.dumps(stored))


@each_row("kind", KINDS)
@each_row("text", NUMBERS + TEXTS)
def test_odd_numbers_and_texts_are_read_as_the_careful_way_reads_them(kind, text):
    for stored in (text, f"[{text}]", f'{{"a": {text}}}'):
        assert_alike({"first": kind}, set(), f'{{"first": {stored}}}')


@each_row(
    "text",
    ['{"first": 1, "first": 2}', '{"first": 1}x', ' {"first": 1} ', "[1]", "null", "", "[" * 5000],
)
def test_odd_objects_are_read_as_the_careful_way_reads_them(text):
    assert_alike({"first": int}, set(), text)


def test_a_default_is_left_to_the_function():
    signature = signature_of({"first": int, "second": list[int]}, {"second"})

    assert {"first": 1} == signature.read('{"first": 1}')
    assert {"first": 1, "second": [2]} == signature.read('{"second": [2], "first": 1}')


@each_row(
    "kind", [bytes, SecretReference, list, dict[int, str], set[int], tuple[int, ...], complex]
)
def test_other_types_are_read_carefully(kind):
    """A type of several readings, or of none in JSON, is not taken in one go."""
    assert quick_reader({"first": kind}, ["first"]) is None

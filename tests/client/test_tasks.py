"""Tasks and their calls: what a signature and its types take, and what is refused."""

from __future__ import annotations

import dataclasses
import enum
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path  # noqa: TC003 - read by get_type_hints
from typing import Any
from uuid import UUID

import msgspec
import pytest

import duly
from duly import UsageError
from tests.client.conftest import refused


class Channel(enum.Enum):
    MAIL = "mail"


@dataclasses.dataclass
class Person:
    name: str
    age: int


class Parcel(msgspec.Struct):
    weight: float


@pytest.fixture
def app():
    return duly.App("memory:")


def test_a_task_is_still_the_function_it_was(app):
    @app.task
    def double(number: int) -> int:
        """Double it."""
        return 2 * number

    assert 42 == double(21)
    assert ("double", "Double it.") == (double.__name__, double.__doc__)


def test_an_async_function_can_be_a_task(app):
    @app.task
    async def later(number: int) -> None: ...

    assert later.is_async
    assert {"number": 1} == later.bind(1).arguments


def test_arguments_are_kept_by_name_as_canonical_json(app):
    @app.task
    def remind(class_id: int, note: str = "") -> None: ...

    assert '{"class_id":42,"note":"é"}' == remind.bind(note="é", class_id=42).payload
    assert remind.bind(42, "é") == remind.bind(note="é", class_id=42)


@pytest.mark.parametrize(
    "value",
    [
        *(0, -1, 2**63, 2**80, 10**400, True, False, 0.1, -0.0, 1e22, 5e-324, 1.0),
        *(
            "",
            'a"b\\c\n\t\\u0000\x1f\x7f/',
            "é",
            "\u2028",
            "😀",
            None,
            [1, "two"],
            {"a": {"b": 0.5}},
        ),
    ],
)
@pytest.mark.parametrize("is_typed", [True, False])
def test_simple_values_are_written_as_json_writes_them(app, value, is_typed):
    """Numbers and texts take a shorter way, to the same text."""

    def simple(value, zulu="a", alpha: int = 1):
        pass

    simple.__annotations__["value"] = type(value) if is_typed and value is not None else Any
    bound = app.task(simple).bind(value, alpha=7)

    kept = {"value": value, "alpha": 7}
    assert json.dumps(kept, ensure_ascii=False, separators=(",", ":"), sort_keys=True) == (
        bound.payload
    )


def test_arguments_given_by_their_places_are_those_given_by_name(app):
    """A third way to the same text, taken once the types are known."""

    @app.task
    def simple(zulu: int, alpha: str, mike: bool = True, kilo: float = 0.5) -> None: ...

    text = '{"alpha":"a\\"é","kilo":1e+22,"mike":false,"zulu":-1}'
    for _ in range(2):
        assert text == simple.bind(zulu=-1, alpha='a"é', mike=False, kilo=1e22).payload
        assert text == simple.bind(-1, 'a"é', False, 1e22).payload
        assert '{"alpha":"a","zulu":1}' == simple.bind(1, "a").payload


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ((1, "a", 0.5, 2), "one argument too many"),
        ((), "is missing"),
        ((True, "a", 0.5), "is not what it takes"),
        ((1, 2, 0.5), "is not what it takes"),
        ((1, "a", float("nan")), "nan"),
        ((1, "a\x00", 0.5), "holds a NUL character"),
        ((1, "é\\\x00", 0.5), "holds a NUL character"),
        ((1, "a" * 70_000, 0.5), "bytes"),
        ((1, "é" * 70_000, 0.5), "bytes"),
    ],
)
def test_what_is_refused_is_refused_by_every_way(app, values, problem):

    @app.task
    def simple(zulu: int, alpha: str = "", kilo: float = 0.5) -> None: ...

    for _ in range(2):
        with pytest.raises(UsageError, match=problem):
            simple.bind(*values)
        assert simple.bind(1, "a", 2.5)


def test_what_is_not_given_is_left_to_the_tasks_own_default(app):
    @app.task
    def remind(class_id: int, note: str = "") -> None: ...

    assert {"class_id": 42} == remind.bind(42).arguments


def test_a_parameter_that_receives_the_run_is_not_bound(app):
    @app.task
    def report(run: duly.Run, day: date, *, again: duly.Run | None = None) -> None: ...

    assert {"day": "2026-04-03"} == report.bind(date(2026, 4, 3)).arguments
    with pytest.raises(UsageError, match="'again' is not one of its parameters"):
        report.bind(date(2026, 4, 3), again=None)


@pytest.mark.parametrize(
    ("kind", "value", "kept"),
    [
        (int, 42, 42),
        (float, 1, 1),
        (bool, True, True),
        (str | None, None, None),
        (list[int], [1, 2], [1, 2]),
        (tuple[int, str], (1, "a"), [1, "a"]),
        (set[int], {3}, [3]),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (dict[int, str], {1: "a"}, {"1": "a"}),
        (datetime, datetime(2026, 4, 3, 2, tzinfo=UTC), "2026-04-03T02:00:00Z"),
        (date, date(2026, 4, 3), "2026-04-03"),
        (timedelta, timedelta(hours=1), "PT3600S"),
        (UUID, UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal, Decimal("1.10"), "1.10"),
        (Channel, Channel.MAIL, "mail"),
        (Person, Person("Ada", 36), {"name": "Ada", "age": 36}),
        (list[Person], [Person("Ada", 36)], [{"name": "Ada", "age": 36}]),
        (Parcel, Parcel(1.5), {"weight": 1.5}),
        (Any, {"deep": [1, None]}, {"deep": [1, None]}),
    ],
)
def test_what_a_worker_can_read_back_is_kept_as_json(app, kind, value, kept):
    def take(value) -> None: ...

    take.__annotations__["value"] = kind
    task = app.task(take)

    assert {"value": kept} == task.bind(value).arguments


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, "42"),
        (int, True),
        (int, 1.5),
        (str, UUID(int=1)),
        (str, 42),
        (bool, 1),
        (Channel, "fax"),
        (Person, Person("Ada", "old")),  # type: ignore[arg-type]
        (list[int], [1, "2"]),
        (datetime, "tomorrow"),
        (int | None, "x"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(app, kind, value):
    def take(value) -> None: ...

    take.__annotations__["value"] = kind
    task = app.task(take)

    with pytest.raises(UsageError, match=r"^take\(value\): .*is not what it takes"):
        task.bind(value)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (object(), "is not JSON"),
        ({1, "a", object()}, "is not JSON"),
        (float("nan"), "no number that JSON can hold"),
        ([float("inf")], "no number that JSON can hold"),
        ("\ud800", "half a character"),
        ({(1, 2): 3}, "is not JSON"),
        (range(3), "is not JSON"),
    ],
)
def test_what_json_can_not_hold_is_refused_by_name(app, value, problem):
    @app.task
    def take(anything) -> None: ...

    with pytest.raises(UsageError, match=rf"take\(anything\).*{problem}"):
        take.bind(value)


@pytest.mark.parametrize("levels", [40, 5000])
def test_arguments_that_are_nested_too_deeply_are_refused(app, levels):
    @app.task
    def take(anything) -> None: ...

    deep: list[Any] = []
    for _ in range(levels):
        deep = [deep]

    with pytest.raises(UsageError, match=r"take\(anything\)"):
        take.bind(deep)


def test_a_payload_that_is_too_large_is_refused_with_its_size():
    app = duly.App("memory:", settings=duly.Settings(payload_bytes_max=100))

    @app.task
    def take(text: str) -> None: ...

    assert 80 == len(take.bind("x" * 80).arguments["text"])
    with pytest.raises(UsageError, match="is given 111 bytes, and 100 is the most"):
        take.bind("x" * 100)


def test_the_default_limit_of_a_payload_is_64_kib(app):
    @app.task
    def take(text: str) -> None: ...

    rest = len('{"text":""}')

    assert 64 * 1024 == len(take.bind("x" * (64 * 1024 - rest)).payload)
    with pytest.raises(UsageError, match="65,537 bytes"):
        take.bind("x" * (64 * 1024 - rest + 1))


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((), {}, "'class_id' is missing"),
        ((1,), {"clas_id": 2}, "'clas_id' is not one of its parameters"),
        ((1, "a", 3), {}, "3 is one argument too many"),
        ((1,), {"class_id": 2}, "'class_id' is given twice"),
        ((1,), {"run": 2}, "'run' is not one of its parameters"),
    ],
)
def test_a_call_that_does_not_fit_the_signature_is_refused(app, args, kwargs, says):
    @app.task
    def remind(run: duly.Run, class_id: int, note: str = "") -> None: ...

    with pytest.raises(UsageError) as caught:
        remind.bind(*args, **kwargs)

    assert f"remind: {says}; it takes class_id, note" == str(caught.value)


def test_a_type_that_nobody_can_check_takes_any_json(app):
    @app.task
    def read(path: Path) -> None: ...

    assert {"path": "a/b"} == read.bind("a/b").arguments


def test_a_name_that_type_checkers_alone_know_takes_any_json(app):
    @app.task
    def take(value: Unknown) -> None: ...  # type: ignore[name-defined] # noqa: F821 - on purpose

    assert {"value": [1]} == take.bind([1]).arguments


def test_a_type_that_is_defined_later_is_checked_once_it_exists(app):
    @app.task
    def take(value: Later) -> None: ...  # type: ignore[name-defined] # noqa: F821 - on purpose

    assert "anything" == take.bind("anything").arguments["value"]
    take.__wrapped__.__globals__["Later"] = int
    try:
        with pytest.raises(UsageError, match="is not what it takes"):
            take.bind("anything")
    finally:
        del take.__wrapped__.__globals__["Later"]


def test_an_unknown_option_is_refused(app):
    with pytest.raises(UsageError, match="colour: 'red' is not an option of a task"):
        app.task(colour="red")


@pytest.mark.parametrize(
    "function",
    [lambda *numbers: None, lambda **named: None, eval("lambda number, /: None")],  # noqa: S307
)
def test_a_task_whose_arguments_have_no_names_is_refused(app, function):
    with pytest.raises(UsageError, match="arguments are stored by name"):
        app.task(name="sum")(function)


def test_two_tasks_can_not_share_a_name(app):
    @app.task
    def report() -> None: ...

    with pytest.raises(duly.Conflict, match="'report' exists already in this application"):
        app.task(name="report")(lambda: None)


@pytest.mark.parametrize("name", ["", " a", "a@b", "a\n", "x" * 201, 42])
def test_a_task_needs_a_name_that_can_be_shown(app, name):
    with pytest.raises(UsageError, match="task"):
        app.task(name=name)(lambda: None)


@pytest.mark.parametrize(
    "options", [{"queue": "two words"}, {"queue": ""}, {"priority": 10}, {"priority": True}]
)
def test_a_queue_or_priority_that_can_not_be_is_refused(app, options):
    with pytest.raises(UsageError, match=next(iter(options))):
        app.task(**options)(lambda: None)


def test_a_call_by_name_is_checked_like_any_other(app):
    @app.task
    def remind(class_id: int, at: datetime) -> None: ...

    call = app.call("remind", {"class_id": 42, "at": "2026-04-03T02:00:00Z"})

    assert remind.bind(42, datetime(2026, 4, 3, 2, tzinfo=UTC)) == call
    with pytest.raises(UsageError, match=r"remind\(class_id\)"):
        app.call("remind", {"class_id": "42", "at": "2026-04-03T02:00:00Z"})


def test_an_unknown_task_is_not_found_and_the_known_are_named(app):
    app.task(name="report")(lambda: None)

    says = refused(app, duly.NotFound, lambda: app.call("rep0rt"))

    assert "task: 'rep0rt' was not found; known are: report" == says


def test_a_task_that_another_program_has_registered_can_be_called_by_name(app):
    app.store.register_tasks(["elsewhere"])

    assert {"a": 1} == app.call("elsewhere", {"a": 1}).arguments
    with pytest.raises(UsageError, match="arguments"):
        app.call("elsewhere", {"a": object()})

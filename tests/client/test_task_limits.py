"""What a task says about how many of its runs may go on, how often and whom it calls."""

from __future__ import annotations

import pytest

import duly
from duly import UsageError
from duly.domain.limits import Limit, read_rate
from duly.domain.tasks import NO_LIMITS, values_of

HOOK = duly.secret("env:HOOK_SECRET")


@pytest.fixture
def app():
    return duly.App("memory:")


def test_a_task_that_says_nothing_has_no_limits(app):
    @app.task
    def plain() -> None: ...

    runnable = app.catalogue().find("plain")

    assert runnable is not None
    assert NO_LIMITS == plain.limits == runnable.limits


def test_a_task_may_say_how_many_how_often_and_whom_it_calls(app):
    @app.task(running=5, running_by={"account": 1}, rate="100/m burst 10", destination="stripe")
    def send(account: int, note: str = "") -> None: ...

    rate = read_rate("rate", "100/m burst 10")

    assert Limit(5, rate, (("account", 1),)) == send.limits.limit
    assert "stripe" == send.limits.destination


@pytest.mark.parametrize(
    ("url", "destination"),
    [
        ("https://api.example.com/hook?a=1", "api.example.com"),
        ("https://api.example.com:443/other", "api.example.com"),
        ("https://api.example.com:8443/hook", "api.example.com:8443"),
        ("http://API.example.com/hook", "api.example.com"),
        ("http://[2001:db8::1]:8080/hook", "[2001:db8::1]:8080"),
    ],
)
def test_a_webhook_calls_the_host_of_its_address(app, url, destination):
    hook = app.webhook("paid", url, secret=HOOK)

    assert destination == hook.limits.destination


def test_several_addresses_may_be_one_destination_and_a_webhook_may_have_none(app):
    one = app.webhook("one", "https://a.example.com/", secret=HOOK, destination="example")
    none = app.webhook("none", "https://a.example.com/", secret=HOOK, destination=None)

    assert ("example", None) == (one.limits.destination, none.limits.destination)


def values(task, *parameters, **arguments):
    return values_of(task.limits, task.bind(**arguments).payload, parameters)


def test_a_parameter_that_is_not_given_is_what_it_is_by_default(app):
    @app.task(running_by={"account": 1, "region": 3})
    def send(account: int, region: str = "eu") -> None: ...

    here = values(send, "account", "region", account=42)
    same = values(send, "account", "region", account=42, region="eu")

    assert (("account", "42"), ("region", '"eu"')) == here == same
    assert (("account", "7"),) == values(send, "account", account=7, region="us")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"running": 0}, "running: 0 is out of range; give how many may run at once"),
        ({"running": True}, "running: True is out of range"),
        ({"running": "5"}, "running: '5' is out of range"),
        ({"running": 100_001}, "running: 100001 is out of range"),
        ({"running_by": "account"}, "running_by: 'account' does not name parameters"),
        ({"running_by": {"account": 0}}, "running_by: 0 is out of range"),
        ({"running_by": {"who": 1}}, "running_by: 'who' is not a parameter of the task; name one"),
        ({"running_by": {"run": 1}}, "running_by: 'run' is not a parameter of the task"),
        ({"rate": 100}, "rate: 100 is not a rate; give so many in a while"),
        ({"rate": "0/s"}, "rate: '0/s' is out of range"),
        ({"rate": "5/s burst 0"}, "rate: '5/s burst 0' is out of range"),
        ({"destination": ""}, "destination: '' can't be the name of a destination"),
        ({"destination": "a b"}, "destination: 'a b' can't be the name of a destination"),
        ({"destination": 5}, "destination: 5 is not a text"),
    ],
)
def test_a_limit_that_can_not_be_is_refused_in_one_sentence(app, options, message):
    """Field, value and remedy; and no task is made."""

    def send(run: duly.Run, account: int) -> None: ...

    with pytest.raises(UsageError, match=f"^{message}"):
        app.task(**options)(send)

    assert [] == app.tasks.names()


def test_commands_have_limits_too(app):
    dump = app.command("dump", ["dump", "{database}"], running_by={"database": 1}, rate="1/m")

    assert (("database", 1),) == dump.limits.limit.running_by

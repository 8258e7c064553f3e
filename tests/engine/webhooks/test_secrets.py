"""Secrets by reference: the value is nowhere but where it is used."""

from __future__ import annotations

import copy
import json
import os
import pickle
import traceback
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from aiohttp import web

from duly.client.run_context import SecretSources, secret
from duly.domain.outcomes import Failed, Succeeded
from duly.domain.runs import Reason
from duly.domain.secret_refs import Secret, SecretReference, read_reference
from duly.engine.executors.task_output import Redactor
from duly.errors import NoSecret, UsageError
from tests.each_row import each_row
from tests.engine.webhooks.rig import KEY, SECRETS, TOKEN

CANARY = "canary-5d1f\nsecond-line-of-it"


def test_a_reference_is_stored_as_json_and_read_back():
    stored = msgspec.to_builtins(secret("env:DULY_SECRET_A"))

    assert {"secret": "env:DULY_SECRET_A"} == stored
    assert secret("env:DULY_SECRET_A") == msgspec.convert(stored, SecretReference)


@each_row(
    "text",
    [
        "",
        "hunter2",
        "env:",
        "env:A-B",
        "env:1A",
        "env:A B",
        "file:",
        "file:relative",
        "vault:x",
        "file:/a\nb",
        "env:A\n",
        "file:/" + "a" * 2_000,
        5,
    ],
)
def test_what_refers_to_nothing_is_refused(text):
    with pytest.raises(UsageError) as refused:
        secret(text)

    assert "hunter2" not in str(refused.value)


def test_a_secret_given_in_place_of_its_reference_is_not_repeated():
    with pytest.raises(UsageError) as refused:
        read_reference("secret", "hunter2")

    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(vars(refused.value))


def test_a_secret_shows_itself_only_when_asked():
    value = Secret(CANARY)
    shown = [repr(value), str(value), f"{value}", f"{value!r:>5}", "%s" % value, repr([value])]  # noqa: UP031 - the old way, too

    assert CANARY == value.reveal()
    assert ["***", "***", "***", "  ***", "***", "[***]"] == shown


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy, msgspec.to_builtins])
def test_a_secret_does_not_travel(take):
    with pytest.raises(TypeError) as refused:
        take(Secret(CANARY))

    assert "canary" not in str(refused.value)


def test_a_secret_is_not_json():
    with pytest.raises(TypeError) as refused:
        json.dumps({"token": Secret(CANARY)})

    assert "canary" not in str(refused.value)


def test_a_secret_has_no_attributes_to_look_through():
    with pytest.raises(TypeError):
        vars(Secret(CANARY))


def test_a_text_is_left_without_any_shape_of_a_secret():
    text = f"{CANARY} {json.dumps(CANARY)} {CANARY!r} … second-line-of-it"
    left = hidden(CANARY, text)

    assert "canary" not in left
    assert "second-line" not in left


BASE_64 = "dG9rZW4+YWJj/2RlZmdoaWo"


@each_row(
    ("value", "seen"),
    [
        ("Bearer abc-123-xyz", "abc-123-xyz"),
        ("bearer  abc-123-xyz", "abc-123-xyz"),
        ("Token abc-123-xyz\n", "abc-123-xyz"),
        ("Basic " + b64encode(b"joe:pa55 w0rd/1").decode(), "pa55 w0rd/1"),
        ("Basic " + b64encode(b"joe:pa55 w0rd/1").decode(), "joe:pa55 w0rd/1"),
        ("Basic " + b64encode(b"joe:pa55 w0rd/1").decode(), b64encode(b"joe:pa55 w0rd/1").decode()),
        (f"whsec_{BASE_64}", BASE_64),
        (f"whsec_{BASE_64}", quote(BASE_64, safe="")),
        ("pa55 w0rd/1&ü", quote("pa55 w0rd/1&ü")),
        ("pa55 w0rd/1&ü", quote("pa55 w0rd/1&ü", safe="")),
        ("pa55 w0rd/1&ü", quote_plus("pa55 w0rd/1&ü")),
        ("pa55 w0rd/1&ü", b64encode("pa55 w0rd/1&ü".encode()).decode()),
        ("\xff\xfe\xfd\xfc\xfb", urlsafe_b64encode("\xff\xfe\xfd\xfc\xfb".encode()).decode()),
        ("postgresql://joe:pa55%20w0rd@db/x", "pa55%20w0rd"),
        ("postgresql://joe:pa55%20w0rd@db/x", "pa55 w0rd"),
    ],
)
def test_what_is_secret_in_a_value_is_hidden_by_itself_and_however_it_is_written(value, seen):
    """Receivers repeat the token without "Bearer", a query quotes it, a log encodes it."""
    left = hidden(value, f"you sent <{seen}>.")

    assert "you sent <***>." == left.replace("=", "")


def test_a_secret_is_recognised_at_the_beginning_of_more_in_base64():
    """What is encoded together with it changes its last characters only."""
    left = hidden("pa55w0rd-of-joe!", b64encode(b"pa55w0rd-of-joe!:and more").decode())

    assert left.startswith("***")


def test_an_address_that_is_none_is_still_a_secret():
    assert "<***>" == hidden("http://[joe:pa55w0rd", "<http://[joe:pa55w0rd>")


def hidden(value, text):
    """Return a text as a worker stores it that has read this secret."""
    concealer = Redactor()
    for shape in Secret(value).shapes():
        concealer.add(shape)
    return concealer.hide(text)


def test_a_variable_with_the_prefix_is_read(monkeypatch):
    monkeypatch.setenv("DULY_SECRET_A", CANARY)

    assert CANARY == SecretSources().read(secret("env:DULY_SECRET_A"), "token").reveal()


def test_arguments_can_not_borrow_the_rest_of_the_environment(monkeypatch):
    """Who may promise a run must not thereby read the worker's environment."""
    monkeypatch.setenv("DATABASE_URL", CANARY)
    with pytest.raises(UsageError) as refused:
        SecretSources().read(secret("env:DATABASE_URL"), "token")

    assert str(refused.value) == (
        "token: 'env:DATABASE_URL' is not allowed on this worker; "
        "allowed are DULY_SECRET_*; the operator can add it to secret_environment"
    )


def test_an_operator_allows_variables_by_name(monkeypatch):
    monkeypatch.setenv("STRIPE_KEY", CANARY)
    monkeypatch.setenv("STRIPE_KEY_2", CANARY)
    sources = SecretSources(environment=("STRIPE_KEY",))

    assert CANARY == sources.read(secret("env:STRIPE_KEY"), "token").reveal()
    with pytest.raises(UsageError):
        sources.read(secret("env:STRIPE_KEY_2"), "token")


def test_the_programs_own_references_have_no_such_limit(monkeypatch, tmp_path):
    monkeypatch.setenv("STRIPE_KEY", CANARY)
    (tmp_path / "key").write_text(f"{CANARY}\n")

    assert CANARY == SecretSources().read_declared(secret("env:STRIPE_KEY"), "s").reveal()
    assert CANARY == SecretSources().read_declared(secret(f"file:{tmp_path}/key"), "s").reveal()


@pytest.mark.parametrize("value", [None, "", " \n"])
def test_a_missing_or_empty_variable_is_named(monkeypatch, value):
    monkeypatch.delenv("DULY_SECRET_A", raising=False)
    if value is not None:
        monkeypatch.setenv("DULY_SECRET_A", value)

    with pytest.raises(NoSecret, match="env:DULY_SECRET_A"):
        SecretSources().read(secret("env:DULY_SECRET_A"), "token")


def test_files_are_not_read_unless_their_folder_is_allowed(tmp_path):
    (tmp_path / "key").write_text(CANARY)
    reference = secret(f"file:{tmp_path}/key")

    assert CANARY == SecretSources(directories=(str(tmp_path),)).read(reference, "k").reveal()
    with pytest.raises(UsageError, match="secret_directories"):
        SecretSources().read(reference, "k")


@pytest.mark.parametrize("way", ["dots", "link", "neighbour"])
def test_no_path_leads_out_of_an_allowed_folder(tmp_path, way):
    inside = tmp_path / "in"
    inside.mkdir()
    (tmp_path / "in-other").mkdir()
    (tmp_path / "outside").write_text(CANARY)
    (tmp_path / "in-other" / "key").write_text(CANARY)
    (inside / "link").symlink_to(tmp_path / "outside")
    path = {"dots": "in/../outside", "link": "in/link", "neighbour": "in-other/key"}[way]

    with pytest.raises(UsageError, match="not allowed"):
        SecretSources(directories=(str(inside),)).read(secret(f"file:{tmp_path}/{path}"), "k")


@pytest.mark.parametrize("what", ["missing", "folder", "pipe", "large", "binary", "empty"])
def test_what_is_not_a_small_file_of_text_is_refused(tmp_path, closing, what):
    place = tmp_path / what
    if what == "folder":
        place.mkdir()
    elif what == "pipe":
        os.mkfifo(place)
        # Somebody has written into it: it could be read, but another time it would make us wait.
        pipe = os.open(place, os.O_RDWR)
        closing.callback(os.close, pipe)
        os.write(pipe, b"canary")
    elif what != "missing":
        content = {"large": b"x" * 70_000, "binary": b"canary\xff\xfe", "empty": b"\n"}[what]
        place.write_bytes(content)

    with pytest.raises(NoSecret, match=f"file:{place}") as refused:
        SecretSources(directories=(str(tmp_path),)).read(secret(f"file:{place}"), "k")
    assert "canary" not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize("pattern", ["", "*", "**", "A*B"])
def test_an_operator_does_not_allow_all_variables_by_accident(pattern):
    with pytest.raises(UsageError, match="secret_environment"):
        SecretSources(environment=(pattern,))


@pytest.mark.parametrize("directory", ["", "/", "//", "secrets"])
def test_an_operator_does_not_allow_the_whole_disk_by_accident(directory):
    with pytest.raises(UsageError, match="secret_directories"):
        SecretSources(directories=(directory,))


def test_a_header_carries_a_secret_that_is_recorded_nowhere(receive, sender):
    async def echo(request):
        return web.Response(text=f"you said {request.headers['Authorization']}")

    receiver = receive(echo)
    attempt = sender(receiver.place).start(
        receiver.url, headers={"Authorization": secret("env:TOKEN")}
    )
    end = attempt.end

    assert isinstance(end, Succeeded)
    assert TOKEN == receiver.seen[0].headers["authorization"]
    assert '{"answer":"you said ***","status":200}' == end.result
    assert {TOKEN, KEY} <= set(attempt.told.hidden)
    assert TOKEN.encode() not in receiver.seen[0].body
    assert TOKEN not in repr(attempt.runnable.plan)


def test_a_receiver_that_fails_with_a_secret_in_its_words_does_not_spread_it(receive, sender):
    async def complain(request):
        location = f"http://example.com/?token={request.headers['X-Token']}"
        return web.Response(status=302, text=f"bad {KEY}", headers={"Location": location})

    receiver = receive(complain)
    end = sender(receiver.place).send(receiver.url, headers={"X-Token": secret("env:TOKEN")})

    assert isinstance(end, Failed)
    assert "***" in end.error
    assert "canary" not in end.error
    assert KEY not in end.error


def test_a_token_is_hidden_where_it_is_repeated_without_its_scheme(receive, sender, monkeypatch):
    """And where the answer is cut before it ends."""

    async def complain(request):
        token = request.headers["Authorization"].removeprefix("Bearer ")
        return web.Response(status=401, text=f"unknown: {token} or {token}")

    monkeypatch.setitem(SECRETS, "env:TOKEN", "Bearer canary-in-the-mine")
    receiver = receive(complain)
    end = sender(receiver.place).send(
        receiver.url, headers={"Authorization": secret("env:TOKEN")}, response_bytes_max=35
    )

    assert isinstance(end, Failed)
    assert end.error.endswith("401 Unauthorized: unknown: *** or ***")


def test_a_secret_that_would_end_a_header_is_refused_unshown(receive, sender, monkeypatch):
    receiver = receive()
    monkeypatch.setitem(SECRETS, "env:TOKEN", "canary\r\nX-Admin: 1")
    end = sender(receiver.place).send(receiver.url, headers={"X-Token": secret("env:TOKEN")})

    assert isinstance(end, Failed)
    assert (Reason.NO_SECRET, True) == (end.reason, end.is_retryable)
    assert "env:TOKEN" in end.error
    assert ("canary" in end.error, []) == (False, receiver.seen)


def test_a_missing_secret_ends_the_attempt_which_is_tried_again_and_names_it(
    receive, sender, monkeypatch
):
    receiver = receive()

    def missing(reference, field):
        return SecretSources().read_declared(reference, field)

    monkeypatch.delenv("HOOK", raising=False)
    sending = sender(receiver.place, read_secret=missing)
    end = sending.send(receiver.url)

    assert isinstance(end, Failed)
    assert (Reason.NO_SECRET, True, []) == (end.reason, end.is_retryable, receiver.seen)
    assert "env:HOOK" in end.error

"""Secrets put through everything: afterwards they are found nowhere.

Those of webhooks go through `tests/engine/webhooks/test_end_to_end.py`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.api.app import ROUTES, Api
from duly.domain.auth import read_token
from tests.cli.duly_command import duly as command
from tests.engine.webhooks.rig import TOKEN
from tests.engine.webhooks.test_end_to_end import House
from tests.security.raw_requests import RawAsker, query

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUERIES = {"find_zones": {"search": "berlin"}, "explain_rule": {"when": "15m"}}
PASSWORD = "canary-of-the-database"  # noqa: S105 - of a database that is not there


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setenv("DULY_SECRET_TOKEN", TOKEN)
    with contextlib.ExitStack() as stack:
        yield House(tmp_path, stack)


def live(house: House) -> str:
    """Have a task be careless with its secret, until it is dead; return its run."""

    @house.app.task(retry=duly.Retry(attempts=1))
    def careless(run: duly.Run, token: duly.Secret) -> None:
        run.log(f"logging in with {token.reveal()}")
        raise ValueError(f"could not log in with {token.reveal()}")

    run = house.app.enqueue(careless.bind(token=duly.secret("env:DULY_SECRET_TOKEN")))
    house.until(house.worker(), run, "dead")
    return str(run.id)


def begun(asker: RawAsker, **by: str) -> Any:
    """Begin a session; return what the browser keeps."""
    reply = asker.ask("POST", "/session", json=by)
    return re.match("duly_session=([^;]+)", reply.header("set-cookie"))[1]  # type: ignore[index]


def everything_answered(asker: RawAsker, run: str) -> bytes:
    """Ask everything that can be asked; return all answers."""
    answers = []
    for route in ROUTES:
        if route.method != "GET" or route.is_stream:
            continue
        path = re.sub(r"\{\w+\}", run, route.path)
        reply = asker.ask("GET", path, query=query(**QUERIES.get(route.operation_id, {})))
        answers.append(reply.body)
    return b"\n".join(answers)


def test_no_secret_is_in_anything_that_was_ever_written(house, tmp_path, caplog):
    """Store, answers, errors, events, exports and logs; of tokens there is a hash."""
    caplog.set_level(logging.DEBUG)
    run = live(house)
    app = house.app
    made = app.tokens.create("anna", role="admin", tenant="*")
    code = app.doorkeeper().make_code()
    header = (b"authorization", f"Bearer {made.text}".encode())
    told: list[bytes] = []
    with RawAsker(Api(app, clock=house.clock)) as stranger:
        secrets = [begun(stranger, token=made.text), begun(stranger, code=code), code]
        wrong = [
            {"code": code},
            {"token": made.text + "x"},
            {"token": made.text, "code": code},
        ]
        told += [stranger.ask("POST", "/session", json=said).body for said in wrong]
        told.append(stranger.ask("GET", "/status", query=query(token=made.text)).body)
    with RawAsker(Api(app, clock=house.clock), header) as asker:
        again = asker.ask("POST", "/tokens", json={"name": "another"}).json["text"]
        key = [(b"idempotency-key", b"once")]
        order: dict[str, Any] = {"json": {"reason": "mend"}, "headers": key}
        told += [asker.ask("POST", f"/runs/{run}/discard", **order).body for _ in range(2)]
        told.append(everything_answered(asker, run))
    told.append(json.dumps(app.events.after(0, limit=200).to_json(), default=str).encode())
    app.promises.export(tmp_path / "promises.jsonl", history=True)
    app.close()
    told += [house.written(), (tmp_path / "promises.jsonl").read_bytes(), caplog.text.encode()]

    everything = b"\n".join(told)
    for text in (made.text, again):
        token = read_token(text)
        assert token is not None
        secrets += [text, token.secret]
        assert token.prefix.encode() in everything
    assert b"could not log in with ***" in everything
    for secret in (*secrets, TOKEN):
        assert secret.encode() not in everything, secret


@pytest.mark.parametrize("words", [("status",), ("db", "check"), ("doctor",), ("config", "show")])
def test_a_databases_password_is_not_repeated(tmp_path: Path, words: tuple[str, ...]):
    """Wherever the URL was said, and though nobody answers there."""
    url = f"postgresql://anna:{PASSWORD}@127.0.0.1:1/duly"
    by_option = command(*words, "--url", url, folder=tmp_path)
    by_setting = command(*words, "--json", folder=tmp_path, DULY_URL=url)

    for answer in (by_option, by_setting):
        assert answer.out + answer.err
        assert PASSWORD not in answer.out + answer.err

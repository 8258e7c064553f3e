"""The requests that the documents show are sent: what they promise is what is answered."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.api.app import Api
from duly.cli.main import app as commands
from duly.testing import virtual_time
from tests.api.api_client import Asker
from tests.api.api_fixtures import START, token_for

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/use-the-http-api.md"
CURL = re.compile(r"^(?:\$ )?(curl (?:.*\\\n)*.*)$", re.MULTILINE)
COMMAND = re.compile(r"^\$ duly (.+)$", re.MULTILINE)
MADE = re.compile(r"duly token create \w+ --role (\w+)(?: --tenant '?([^' \n]+))?")
TOKEN = re.compile(r"\$(?:DULY_)?TOKEN|\$\(cat \S+\)")
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
    if CURL.search(page.read_text(encoding="utf-8"))
]


@pytest.fixture(scope="module")
def app():
    """An application with the tasks that the pages name, and three dead letters."""
    app = duly.App("memory:")
    app.task(name="report")(lambda: None)

    @app.task
    def send_reminder(class_id: int) -> None: ...

    @app.task(retry=duly.Retry(attempts=1))
    def send_mail() -> None:
        raise ConnectionRefusedError("the mail server is down")

    with virtual_time(app, START) as clock:
        for _ in range(3):
            app.enqueue(send_mail)
        clock.advance("1m")
        yield app


def read_curl(command: str) -> tuple[str, str, dict[str, Any]]:
    """Return method, address and the rest of what curl would send."""
    words = shlex.split(command.replace("\\\n", " "), comments=True)[1:]
    headers: dict[str, str] = {}
    sent: dict[str, Any] = {"headers": headers}
    method, address = "GET", ""
    while words:
        match words.pop(0):
            case "-H" | "-sH":
                name, _, value = words.pop(0).partition(": ")
                headers[name] = value
            case "-d":
                method, sent["content"] = "POST", words.pop(0)
                headers.setdefault("Content-Type", FORM)
            case "--json":
                method, sent["content"] = "POST", words.pop(0)
                headers |= {"Content-Type": JSON, "Accept": JSON}
            case "-X":
                method = words.pop(0)
            case word:
                assert not word.startswith("-"), word
                address = word
    return method, f"http://{address.removeprefix('http://')}", sent


def test_there_are_requests_to_send():
    assert {"give-access.md", "use-the-http-api.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_has_curl_send_is_answered(app, page):
    """As it is written, with the token that it makes, or an operator's."""
    said = page.read_text(encoding="utf-8")
    made_by = MADE.search(said)
    role, tenant = made_by.groups() if made_by else ("operator", None)
    token = token_for(app, page.name, role=role, tenant=tenant or "default")
    text = token["Authorization"].partition(" ")[2]
    shown = CURL.findall(said)

    made = ""
    with Asker(Api(app), {}) as asker:
        for command in shown:
            method, address, sent = read_curl(TOKEN.sub(text, command).replace("$ID", made))
            answer = asker.ask(method, address, **sent)
            assert 2 == answer.status_code // 100, (command, answer.text)
            is_json = answer.headers["Content-Type"].startswith(JSON)
            made = answer.json().get("id", "") if is_json else ""


def test_the_page_s_commands_are_commands():
    found = COMMAND.findall(PAGE.read_text(encoding="utf-8"))

    assert found
    for words in found:
        commands.parse_args(shlex.split(words), exit_on_error=False, print_error=False)


def test_the_page_s_application_serves_the_api_below_its_own_path(app):
    program = re.search(r"```python\n(.+?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert program
    names: dict[str, Any] = {"app": app}
    exec(program[1], names)  # noqa: S102 - our own page

    with Asker(names["application"], token_for(app, "mounted")) as asker:
        assert 200 == asker.get("http://localhost/scheduler/api/v1/status").status_code


def test_the_page_s_refusal_is_what_is_answered(app):
    """The fields and codes by which programs decide."""
    found = re.search(r"```json\n(.+?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    shown = json.loads(found[1])

    with Asker(Api(app), token_for(app, "mistaken")) as asker:
        told = asker.post("/schedules/preview", json={"when": "61 * * * *"}).json()

    assert shown.keys() == told.keys()
    for name, value in shown.items():
        if isinstance(value, str):
            assert told[name].startswith(value.removesuffix("…")), name
        else:
            assert value == told[name]

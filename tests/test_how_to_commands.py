"""The commands of the how-to guides are typed: those of a page in order, in one folder.

A block marked `sh` is to be pasted. Words in capitals stand for what an earlier command has shown.
A block marked `console` shows a session, or what goes on until it is stopped; ELSEWHERE says why no
test types it here.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import duly
from duly.domain.enums import Lane
from duly_conformance import audit, steps
from tests.cli.duly_command import Workplace
from tests.cli.scripted_worker import PlayedWorker
from tests.cli.test_limits import break_down
from tests.remote.test_commands import raise_one

if TYPE_CHECKING:
    from duly.store.sqlite import SqliteStore

ROOT = Path(__file__).parent.parent
PAGES = {one.stem: one.read_text("utf-8") for one in sorted(ROOT.glob("docs/how-to/*.md"))}
BLOCK = re.compile(r"^```(\w*)\n(.+?)^```", re.MULTILINE | re.DOTALL)
TYPED = re.compile(r"^(?:\$ )?duly ", re.MULTILINE)
MAY_FIND_SOMETHING = ("doctor", "vitals", "run missing")
"""Their exit code is 1 where something is not well."""
ELSEWHERE = {
    "find-and-resolve": "tests/cli/test_find_and_resolve.py types all of it",
    "give-access": "a token is shown once, and never the same",
    "limit-and-protect": "an answer about a run that waits",
    "run-dispatchers": "a dispatcher goes on until it is stopped",
    "run-on-postgresql": "needs a server of PostgreSQL",
    "run-workers": "workers go on until they are stopped",
    "send-webhooks": "a worker goes on until it is stopped",
    "trace-and-log": "needs a collector of traces",
    "use-a-remote-server": "needs a server; tests/remote types every command at one",
    "use-the-console": "what serves a console goes on until it is stopped",
    "use-the-http-api": "needs a server; tests/api asks one",
    "verify-the-audit-trail": "shows a trail that somebody has changed",
}
PROGRAM = """
import duly

app = duly.App()
for name in ("rebuild_index", "settle", "resize"):
    app.task(name=name)(lambda: None)

@app.task(queue="mail")
def send_mail(account: int) -> None: ...

@app.task
def pay(account: int) -> None: ...

@app.task
def charge(invoice: str) -> None: ...

@app.task
def bill(account_id: int) -> None: ...
"""


def blocks(page: str, *languages: str) -> list[str]:
    return [text for language, text in BLOCK.findall(PAGES[page]) if language in languages]


def typed_pages() -> list[str]:
    return [
        page
        for page in PAGES
        if page != "find-and-resolve" and any(map(TYPED.search, blocks(page, "sh")))
    ]


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory) -> tuple[Path, dict[str, str]]:
    """Make a store with a little of everything; return its folder, and what names stand for."""
    folder = tmp_path_factory.mktemp("how-to")
    place = Workplace.made_in(folder)
    (folder / "tasks.py").write_text(PROGRAM)
    names: dict[str, object] = {}
    exec(PROGRAM.replace("duly.App()", f"duly.App('sqlite:///{folder}/promises.db')"), names)  # noqa: S102 - ours
    app = names["app"]
    assert isinstance(app, duly.App)
    for name in ("nightly", "settle", "mail-monthly"):
        app.schedules.create(name, app.call("settle"), duly.every("1d"), owner="anna")
    app.schedules.pause("mail-monthly", reason="moving")
    keep_runs(app, place.store)
    break_down(place, "api.example.com")
    store = place.store
    fence = steps.own(store, (Lane.BACKFILL,))
    audit.seal(store, fence)
    stands_for = {
        "HEAD": app.audit.verify().head or "",
        "ALERT": raise_one(store),
        "SILENCE": str(app.alerts.silence(duration="9d", reason="r").id),
        "PREFIX": app.tokens.create("old", role="viewer").token.prefix,
        "RUN": str(app.runs.list(key="mail:7")[0].id),
        "SELECTION": str(app.selections.freeze(task="send_mail", state="dead").id),
    }
    for member in store.status().members:  # a store is exported when everything is stopped
        store.leave(member.id)
    store.close()
    app.close()
    return folder, stands_for


def keep_runs(app: duly.App, store: SqliteStore) -> None:
    """Have one run succeed, and four be dead."""
    worker = PlayedWorker(store, tasks=("send_mail",))
    for number in (7, 8, 9, 10, 11):
        app.enqueue(app.call("send_mail", {"account": number}), key=f"mail:{number}")
        (worker.succeed if number == 7 else worker.bury)(worker.take())
    store.close()


def type_line(place: Workplace, line: str, stands_for: dict[str, str]) -> str | None:
    """Type a line of a page; return what is wrong with how it ended."""
    words = [stands_for.get(word, word) for word in shlex.split(line, comments=True)]
    if not words:
        return None
    if words[0] != "duly":
        return f"{line}: only commands of Duly can be typed here"
    answer = place.duly(*words[1:])
    is_finding = any(line.startswith(f"duly {one}") for one in MAY_FIND_SOMETHING)
    if answer.status in ((0, 1) if is_finding else (0,)) and "error: " not in answer.err:
        return None
    return f"{line}: {answer}"


@pytest.mark.parametrize("page", typed_pages())
def test_the_commands_of_a_page_can_be_pasted(page: str, lived_in, tmp_path: Path):
    folder, stands_for = lived_in
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    place = Workplace(tmp_path)
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    wrong = [said for line in lines if (said := type_line(place, line, stands_for))]

    assert lines
    assert [] == wrong


def test_every_command_of_a_page_is_typed_or_it_is_said_why_not():
    """A block with commands is marked, so that no page goes unread by a test."""
    unmarked = [
        (page, text.splitlines()[0])
        for page in PAGES
        for language, text in BLOCK.findall(PAGES[page])
        if language not in ("sh", "console") and TYPED.search(text)
    ]
    shown = {page for page in PAGES if any(map(TYPED.search, blocks(page, "console")))}

    assert [] == unmarked
    assert shown == ELSEWHERE.keys()

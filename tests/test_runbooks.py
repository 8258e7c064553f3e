"""The runbooks: a page for each alert, and no command in them that does not exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from cyclopts import CycloptsError

from duly.cli.main import app
from duly.domain.alert_messages import FOLDER, RUNBOOK_KINDS, runbook_of
from duly.domain.alert_rules import USUAL, AlertKind

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / FOLDER).glob("*.md"))
SITUATIONS = (
    "clocks-disagree",
    "restored-from-a-backup",
    "the-queue-backs-up",
    "time-zone-rules-changed",
)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(duly [^`\n]+)`")
LINE = re.compile(r"^(?:.*&& )?(duly .+)$", re.MULTILINE)
AFTER = {
    "half a minute after": 30_000_000,
    "a minute after": 60_000_000,
    "two minutes after": 120_000_000,
    "five minutes after": 300_000_000,
}
ANSWERS = ("What it means", "How to look", "safe", "not", "How it resolves")
"""What a page about an alert says, in this order."""


def commands_of(page: Path) -> list[str]:
    """Return every command of a page: in a block of lines, or within a sentence."""
    text = page.read_text(encoding="utf-8")
    blocks = [line for block in FENCED.findall(text) for line in LINE.findall(block)]
    return [*blocks, *INLINE.findall(FENCED.sub("", text))]


COMMANDS = sorted({command for page in PAGES for command in commands_of(page)})
TEMPLATES = sorted((ROOT / "src/duly/web/templates").glob("*.html"))
SHOWN = sorted(
    {
        re.sub(r"\{\{.*?\}\}", "x", command)
        for page in TEMPLATES
        for command in re.findall(r"<code>(duly [^<]+)</code>", page.read_text(encoding="utf-8"))
    }
)


def test_every_alert_has_a_page_that_answers_the_same_questions():
    """What it means, how to look, what is safe, what is not, how it resolves."""
    wrong = []
    for kind in RUNBOOK_KINDS:
        text = (ROOT / runbook_of(kind)).read_text(encoding="utf-8")
        headings = " ".join(re.findall(r"^## (.+)$", text, re.MULTILINE))
        found = [headings.find(answer) for answer in ANSWERS]
        section = text.partition("## How to look")[2].partition("\n## ")[0]
        has_all = -1 not in found and sorted(found) == found
        if not (has_all and text.startswith(f"# {kind}: ") and "```sh\nduly " in section):
            wrong.append((kind, headings))

    assert [] == wrong


def test_every_kind_of_alert_has_a_runbook_and_none_is_of_another():
    """One list is compared with the other, so that neither grows alone."""
    assert {str(kind) for kind in AlertKind} == set(RUNBOOK_KINDS)


def test_a_runbook_says_how_long_a_condition_must_be_gone():
    """As the rule that is usual has it; where that is at once, no time is promised."""
    said = {}
    for kind in AlertKind:
        text = (ROOT / runbook_of(str(kind))).read_text(encoding="utf-8")
        end = text.partition("## How it resolves")[2].strip().splitlines()[0].partition(". ")[0]
        said[kind] = [us for words, us in AFTER.items() if re.search(rf"(?<!half ){words}", end)]

    assert said == {kind: [USUAL[kind].clear_us] * bool(USUAL[kind].clear_us) for kind in said}


def test_there_is_no_page_that_the_index_does_not_name():
    index = (ROOT / FOLDER / "README.md").read_text(encoding="utf-8")
    pages = {page.stem for page in PAGES} - {"README"}

    assert {*RUNBOOK_KINDS, *SITUATIONS} == pages
    assert [] == [page for page in sorted(pages) if f"({page}.md)" not in index]


def test_commands_are_found_wherever_they_stand():
    assert len(COMMANDS) > 100
    assert "duly status" in COMMANDS
    assert "duly schedule occurrences nightly-report --from -2d" in COMMANDS


def problems_of(command: str) -> str | None:
    """Return why a command does not exist with its options; None if it does."""
    try:
        app.parse_args(
            shlex.split(command, comments=True)[1:], exit_on_error=False, print_error=False
        )
    except CycloptsError as error:
        return f"{command}: {error}"
    return None


def test_commands_of_the_runbooks_exist_with_their_options():
    """Nobody finds out at three in the morning that an option has another name."""
    assert [] == [problem for one in COMMANDS if (problem := problems_of(one))]


def test_the_console_shows_commands():
    assert 'duly schedule create NAME --task TASK --when "every weekday at 9:00"' in SHOWN


def test_commands_that_the_console_shows_exist_with_their_options():
    """What a page says to type can be typed."""
    assert [] == [problem for one in SHOWN if (problem := problems_of(one))]


def test_commands_that_do_not_exist_would_be_noticed():
    unknown = (
        "duly alarm list",
        "duly run why",
        "duly run list --status dead",
        "duly queue pause mail",
        "duly worker drain seven --reason x",
        "duly schedule edit nightly-report --overlap never",
        "duly status everything",
    )

    assert [] == [one for one in unknown if not problems_of(one)]

"""Every error and every finding has a code, and docs/errors.md explains each of them."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import duly.app.doctor
import duly.client.status
from duly import errors
from duly.cli.main import _exit_code
from duly.errors import DulyError

if TYPE_CHECKING:
    from tests.cli.duly_command import Workplace

TABLE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text("utf-8")
ROW = re.compile(r"^\| `([a-z-]+)` \| ([^|]+) \|", re.MULTILINE)
FOUND = re.compile(r"""(?:Finding\(\s*|code=)"([a-z-]+)\"""")


FINDING = (duly.app.doctor, duly.client.status, duly.client.status)
"""Modules that say what is wrong."""


def sections() -> tuple[dict[str, str], dict[str, str]]:
    first, second = TABLE.split("## Findings")
    return dict(ROW.findall(first)), dict(ROW.findall(second))


def kinds() -> list[type[DulyError]]:
    found = [one for one in vars(errors).values() if inspect.isclass(one)]
    return [one for one in found if issubclass(one, DulyError)]


def test_every_error_is_explained_with_its_exit_code():
    explained, _ = sections()
    told = {one.code: str(_exit_code(one.__new__(one))) for one in kinds()}

    assert told == explained


def test_no_two_errors_share_a_code():
    codes = [one.code for one in kinds()]

    assert sorted(set(codes)) == sorted(codes)


def test_every_finding_is_explained():
    _, explained = sections()
    sources = [inspect.getsource(one) for one in FINDING]
    given = {code for source in sources for code in FOUND.findall(source)}

    assert given - {one.code for one in kinds()} == set(explained)


def test_a_command_tells_the_code_to_people_and_to_programs(place: Workplace):
    told = place.duly("run", "show", "nowhere")
    written = place.duly("run", "show", "nowhere", "--json")
    wrong = place.duly("run", "list", "--nonsense")

    assert told.err.rstrip().endswith("[not-found]")
    assert "not-found" == json.loads(written.err)["code"]
    assert wrong.err.rstrip().endswith("[invalid-value]")

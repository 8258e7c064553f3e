"""The list of what the console is held to: every test that it names exists, and it leaves nothing out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from duly.web.pages import PAGES

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "console-checklist.md"
ORDERS = {one.name: one.path for one in PAGES if one.method == "POST"}
PROMISES = {"Console": 43, "Editor of schedules": 17}


def rows(title: str) -> list[list[str]]:
    """Return the rows of a table of the page, cell by cell."""
    part = PAGE.read_text(encoding="utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def functions(file: str) -> dict[str, ast.FunctionDef]:
    """Return the tests of a file, by name."""
    tree = ast.parse((HERE / f"test_{file}.py").read_text(encoding="utf-8"))
    return {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}


def opens_a_browser(test: ast.FunctionDef) -> bool:
    """Say whether a test is one of a real browser."""
    return bool({"open_page", "browser"} & {one.arg for one in test.args.args})


def test_every_promise_names_a_test_of_a_real_browser():
    """43 of the console and 17 of the editor, each shown by a test that exists."""
    for title, number in PROMISES.items():
        found = rows(title)

        assert [str(one) for one in range(1, number + 1)] == [row[0] for row in found]
        for row in found:
            named = re.findall(r"`(\w+)`: ([^,]+)", row[-1])

            assert named, row
            for file, words in named:
                test = functions(file).get("test_" + words.strip().replace(" ", "_"))

                assert test is not None, words
                assert opens_a_browser(test), words


def test_every_order_of_the_console_is_clicked_by_the_test_that_is_named():
    """Each order of the table, its address, and a test that is held to giving it."""
    found = rows("Orders")
    tests = functions("ordering")

    assert ORDERS == {row[0].strip("`"): row[1].strip("`") for row in found}
    for name, _, words in found:
        test = tests["test_" + words.replace(" ", "_")]
        clicked = [ast.unparse(one) for one in test.decorator_list if "clicks" in ast.unparse(one)]

        assert f"'{name.strip('`')}'" in clicked[0], name
        assert opens_a_browser(test)

"""Whose work is in ours: named, with its licence and its hash."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import pytest

from tests.supply_chain.lock import locked
from tests.supply_chain.sbom import VENDORED, bill_of_materials, vendored_files

FOLDER = files("duly.web") / VENDORED
PAGES = [*Path("src/duly/web").rglob("*.html"), *Path("src/duly/web/static").glob("*.*")]


def test_every_vendored_file_is_listed_with_its_hash_and_its_licence():
    """A file that somebody swapped, or added without saying whose it is, fails here."""
    listed = vendored_files()
    named = {one["file"] for one in listed} | {one["licence_file"] for one in listed}

    assert named | {"manifest.json"} == {one.name for one in FOLDER.iterdir()}
    for one in listed:
        content = (FOLDER / one["file"]).read_bytes()
        assert one["sha256"] == sha256(content).hexdigest(), one["file"]
        assert one["version"].encode() in content
        assert len((FOLDER / one["licence_file"]).read_text(encoding="utf-8")) > 200


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_nothing_is_fetched_from_elsewhere_by_a_page(path):
    """No address of another server where a browser would follow it by itself."""
    text = path.read_text(encoding="utf-8")

    assert not re.search(r"""(?:src|href|url)\s*[=(]\s*["']?(?:https?:)?//""", text)
    assert not re.search(
        r"""(?:import|fetch|EventSource|WebSocket)\s*\(?\s*["'](?:https?:|wss?:)?//""", text
    )


def test_the_bill_of_materials_names_all_that_is_shipped():
    """CycloneDX: components with versions, addresses and licences, and who needs whom."""
    bill = bill_of_materials()
    names = {one["name"].lower() for one in bill["components"]}

    assert ("CycloneDX", "1.6") == (bill["bomFormat"], bill["specVersion"])
    assert "duly" == bill["metadata"]["component"]["name"]
    assert {"apsw", "cyclopts", "granian", "jinja2", "msgspec", "starlette", "tzdata"} <= names
    assert {"holidays", "psycopg", "aiohttp", "htmx.org"} <= names
    assert not names & {"pytest", "mypy", "hypothesis", "schemathesis", "django"}
    references = [one["bom-ref"] for one in bill["components"]]
    assert len(references) == len(set(references))
    known = {*references, bill["metadata"]["component"]["bom-ref"]}
    assert known == {one["ref"] for one in bill["dependencies"]}
    assert {other for one in bill["dependencies"] for other in one["dependsOn"]} <= known
    assert [] == [one["name"] for one in bill["components"] if not one["licenses"]]


def test_the_bill_of_materials_is_the_same_each_time():
    """So that two of them can be compared."""
    made = [
        subprocess.run(
            [sys.executable, "-m", "tests.supply_chain.sbom"], check=True, capture_output=True
        ).stdout
        for _ in range(2)
    ]

    assert made[0] == made[1]
    assert json.loads(made[0]) == bill_of_materials()


def test_a_lock_has_a_hash_for_each_file_and_no_word_of_where_it_came_from():
    """For pip's --require-hashes."""
    report = {
        "install": [
            {
                "metadata": {"name": "Jinja2", "version": "3.1.6"},
                "download_info": {
                    "url": "https://somewhere.example/jinja2.whl",
                    "archive_info": {"hashes": {"sha256": "ab" * 32}},
                },
            },
            {
                "metadata": {"name": "duly", "version": "0.1.0"},
                "download_info": {"url": "file:///here", "dir_info": {"editable": True}},
            },
        ]
    }

    assert [f"jinja2==3.1.6 --hash=sha256:{'ab' * 32}"] == locked(report)

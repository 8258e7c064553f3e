"""Whose work is in ours: named, with its licence and its hash."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import pytest

from tests.supply_chain.lock import locked
from tests.supply_chain.sbom import VENDORED, bill_of_materials, vendored_files

ROOT = Path(__file__).parents[2]
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


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A source distribution, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def metadata(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        (name,) = (one for one in file.namelist() if one.endswith(".dist-info/METADATA"))
        return message_from_bytes(file.read(name))


def test_a_wheel_holds_every_template_and_static_file(built):
    """A wheel and a clone behave alike."""
    (wheel,) = built.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    wanted = {
        one.relative_to(source).as_posix()
        for kind in ("templates", "static")
        for one in (source / "duly/web" / kind).rglob("*")
        if one.is_file()
    }

    assert len(wanted) > 20
    assert wanted <= held


def test_a_wheel_publishes_the_extras_for_users_and_no_tool_for_tests(metadata):
    asked = " ".join(metadata.get_all("Requires-Dist"))

    assert {"all", "calendars", "otel", "postgres", "webhooks"} == set(
        metadata.get_all("Provides-Extra")
    )
    assert not re.search(r"\b(pytest|mypy|hypothesis|atheris|patroni|django)\b", asked)


def test_a_wheel_names_its_author_and_the_addresses_of_the_project(metadata):
    urls = dict(one.split(", ", 1) for one in metadata.get_all("Project-URL"))

    assert metadata["Author"]
    assert {"Homepage", "Repository", "Documentation", "Changelog", "Issues"} <= urls.keys()
    assert [] == [one for one in urls.values() if not one.startswith("https://")]


def test_links_and_pictures_of_a_published_readme_are_absolute(built, metadata):
    """A package index shows the readme alone. Each address names a file of the repository."""
    readme = metadata.get_payload()
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", readme)
    home = dict(one.split(", ", 1) for one in metadata.get_all("Project-URL"))["Repository"]
    tag = f"v{metadata['Version']}"

    assert "text/markdown" == metadata["Description-Content-Type"]
    assert any(mark for mark, _ in links)
    for mark, address in links:
        base = f"{home}/{'raw' if mark else 'blob'}/{tag}/"
        assert address.startswith(base), address
        assert (ROOT / address.removeprefix(base).partition("#")[0]).exists(), address


def test_a_source_distribution_holds_what_it_is_built_with(built):
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as file:
        names = {one.partition("/")[2] for one in file.getnames()}

    assert {"README.md", "hatch_build.py", "pyproject.toml", "LICENSE"} <= names

"""Finding an application: by module, by script, and from within another process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from duly.app.loading import load_app, place_of
from duly.app.services import WorkerOptions, read_allowed, read_queues
from duly.errors import UsageError

TASKS = """
import duly
app = duly.App("memory:")
held = type("Held", (), {"app": app})

@app.task
def send() -> None: ...

if __name__ == "__main__":
    from duly.app.loading import place_of, search_path
    print(place_of(app))
    print(search_path())
"""


@pytest.fixture(autouse=True)
def _modules(monkeypatch):
    """Whatever a test imports is forgotten, and so is where it was looked for."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_script_is_loaded_by_its_path_and_not_run(tmp_path: Path):
    script = tmp_path / "my_script.py"
    script.write_text(TASKS + '\nif __name__ == "__main__":\n    raise SystemExit(9)\n')

    assert ["send"] == load_app(f"{script}:app").tasks.names()


def test_a_script_whose_name_is_taken_is_loaded_all_the_same(tmp_path: Path):
    (tmp_path / "json.py").write_text(TASKS)
    (tmp_path / "my-tasks.py").write_text(TASKS)

    assert ["send"] == load_app(f"{tmp_path}/json.py:app").tasks.names()
    assert ["send"] == load_app(f"{tmp_path}/my-tasks.py:held.app").tasks.names()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("tasks", "names no attribute"),
        ("/no/such/file.py:app", "can't be loaded"),
        ("no_such_module:app", "can't be loaded"),
        ("json:loads", "not a duly.App"),
        ("json:nothing", "can't be loaded"),
    ],
)
def test_what_is_no_application_is_refused(place: str, said: str):
    with pytest.raises(UsageError, match=said):
        load_app(place)


def said_by(folder: Path, *argv: str) -> list[str]:
    ended = subprocess.run(
        [sys.executable, *argv], cwd=folder, capture_output=True, text=True, timeout=120, check=True
    )
    return ended.stdout.splitlines()


def test_a_script_knows_where_another_process_finds_it(tmp_path: Path):
    (tmp_path / "tasks.py").write_text(TASKS)
    place = f"{tmp_path.resolve() / 'tasks.py'}:app"

    assert place == said_by(tmp_path, "tasks.py")[0]
    assert place == said_by(tmp_path, "-m", "tasks")[0]


def test_a_module_of_a_package_is_found_by_its_name(tmp_path: Path):
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "tasks.py").write_text(TASKS)
    other = tmp_path / "start.py"
    other.write_text(
        "from shop.tasks import app\n"
        "from duly.app.loading import place_of, search_path\n"
        "if __name__ == '__main__':\n"
        "    del globals()['app']\n"
        "    import shop.tasks\n"
        "    print(place_of(shop.tasks.app))\n"
        "    print(search_path())\n"
    )
    place, path = said_by(tmp_path, "start.py")

    assert "shop.tasks:app" == said_by(tmp_path, "-m", "shop.tasks")[0]
    assert "shop.tasks:app" == place
    assert str(tmp_path.resolve()) == path.split(os.pathsep)[0]


def test_a_lazy_object_beside_an_application_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Such as Django's settings, which refuse to tell their class before Django is set up."""

    class Lazy:
        __class__ = property(lambda _: pytest.fail("it was asked for its class"))

    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lazy_shop.py").write_text(
        "settings = None\nimport duly\napp = duly.App('memory:')\n"
    )
    app = load_app("lazy_shop:app")
    monkeypatch.setattr(sys.modules["lazy_shop"], "settings", Lazy())

    assert place_of(app).endswith("lazy_shop.py:app")


def test_another_process_imports_from_each_folder_but_those_of_the_interpreter(tmp_path: Path):
    """A program that a task starts may have another interpreter, with a library of its own."""
    (tmp_path / "parts").mkdir()
    program = tmp_path / "start.py"
    program.write_text(
        "import sys\nsys.path.append('parts')\n"
        "from duly.app.loading import search_path\nprint(search_path())\n"
    )
    folders = said_by(tmp_path, "start.py")[0].split(os.pathsep)
    library = Path(os.__file__).parent

    assert folders[0] == str(tmp_path.resolve())
    assert folders[-1] == str(tmp_path.resolve() / "parts")
    assert [] == [one for one in folders if library in (Path(one), *Path(one).parents)]


def test_a_worker_whose_process_tasks_can_t_be_imported_refuses_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The application was imported here, in a program that had prepared for it."""
    script = tmp_path / "prepared.py"
    script.write_text(
        f"import os\nos.environ['PREPARED']\n{TASKS}\n"
        "@app.task(kind='process')\ndef report() -> None: ...\n"
    )
    monkeypatch.setenv("PREPARED", "1")
    app = load_app(f"{script}:app")
    monkeypatch.delenv("PREPARED")

    with pytest.raises(UsageError, match=r"in a process of its own \(.*KeyError: 'PREPARED'"):
        app.worker()


DJANGO_TASKS = """
from django.contrib.contenttypes.models import ContentType
import duly
app = duly.App("memory:")
@app.task
def count() -> str:
    return ContentType.__name__
"""


def loaded_under_django(folder: Path, settings: str) -> subprocess.CompletedProcess[str]:
    (folder / "tasks.py").write_text(DJANGO_TASKS)
    (folder / "shop_settings.py").write_text("INSTALLED_APPS = ['django.contrib.contenttypes']\n")
    load = "from duly.app.loading import load_app; print(load_app('tasks:app').tasks.names())"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", load],
        cwd=folder,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": settings},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_program_that_imports_models_is_loaded_with_django_set_up(tmp_path: Path):
    ended = loaded_under_django(tmp_path, "shop_settings")

    assert ("['count']", "") == (ended.stdout.strip(), ended.stderr)


def test_settings_of_django_that_can_t_be_imported_are_named(tmp_path: Path):
    ended = loaded_under_django(tmp_path, "no_such_settings")

    assert "Django can't be set up with no_such_settings" in ended.stderr
    assert "unset $DJANGO_SETTINGS_MODULE" in ended.stderr


def test_an_application_that_no_program_holds_is_refused(tmp_path: Path):
    program = (
        "import duly\nfrom duly.app.loading import place_of\n"
        "try:\n    place_of(duly.App('memory:'))\n"
        "except duly.UsageError as error:\n    print(error.remedy)\n"
    )

    assert ["put it into a file, as a name of its own: app = duly.App()"] == said_by(
        tmp_path, "-c", program
    )


def test_queues_are_read_with_their_slots():
    assert {"mail": None, "reports": 2} == read_queues(["mail", "reports=2"])


@pytest.mark.parametrize("text", ["mail=", "mail=0", "mail=x", "=2", "two words"])
def test_a_queue_that_can_t_be_read_is_refused(text: str):
    with pytest.raises(UsageError):
        read_queues([text])


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("", frozenset()),
        ("none", frozenset()),
        ("1", None),
        ("all", None),
        ("backup, sync", frozenset({"backup", "sync"})),
    ],
)
def test_which_commands_are_allowed_is_read(text: str, allowed: frozenset[str] | None):
    assert allowed == read_allowed(text)


def test_commands_are_not_allowed_unless_somebody_says_so(monkeypatch):
    monkeypatch.delenv("DULY_ALLOW_COMMANDS", raising=False)
    unsaid = WorkerOptions().commands()
    monkeypatch.setenv("DULY_ALLOW_COMMANDS", "backup")

    assert frozenset() == unsaid
    assert frozenset({"backup"}) == WorkerOptions().commands()
    assert frozenset() == WorkerOptions(allow_commands=False).commands()
    assert None is WorkerOptions(allow_commands=True).commands()


def test_options_go_to_a_worker_process_as_they_are():
    options = WorkerOptions(slots=3, queues=["a", "b=2"], grace="1h30m", allow_commands=["x", "y"])

    assert [
        "--slots=3",
        "--grace=1h30m",
        "--queue=a",
        "--queue=b=2",
        "--allow-commands=x,y",
    ] == options.arguments()


@pytest.mark.parametrize(
    "options", [{"slots": 0}, {"processes": 0}, {"grace": "soon"}, {"queues": "mail"}]
)
def test_options_that_can_t_be_carried_out_are_refused(options: dict[str, object]):
    with pytest.raises(UsageError):
        WorkerOptions(**options)  # type: ignore[arg-type]

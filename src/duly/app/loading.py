"""Loading: finds an application by where its program is, and says where another process finds it.

A program is named module:attribute, or path.py:attribute for a script. A script that is loaded is
not run: the block under `if __name__ == "__main__"` stays where it is.

Where $DJANGO_SETTINGS_MODULE is set, Django is set up before the program is imported, as manage.py
does it: models can't be imported otherwise.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

from duly.app.application import App
from duly.errors import DulyError, UsageError, require_text

if TYPE_CHECKING:
    from types import ModuleType

_PLACE_LENGTH_MAX = 500
_REMEDY = "give module:attribute, such as tasks:app for `app = duly.App()` in tasks.py"
_SUFFIX = ".py"
_DJANGO_VARIABLE = "DJANGO_SETTINGS_MODULE"
TASK_PROCESS = (sys.executable, "-m", "duly.app.task_process")
"""The program that runs one attempt of a task, or finds out whether it could."""
LOAD_SECONDS_MAX = 300


def load_app(place: str) -> App:
    """Import the application that module:attribute or path.py:attribute names.

    The current folder counts, and a script's own.
    """
    require_text("app", place, _PLACE_LENGTH_MAX)
    module_name, separator, attribute = place.rpartition(":")
    if not (separator and module_name and attribute):
        raise UsageError("app", place, "names no attribute of a module", _REMEDY)
    _search_first(Path.cwd())
    if module_name.endswith(_SUFFIX):
        _search_first(Path(module_name).resolve().parent)
    _set_up_django(place)
    try:
        found: object = _load(module_name)
        for name in attribute.split("."):
            found = getattr(found, name)
    except DulyError:
        raise
    except AttributeError as error:
        raise UsageError("app", place, f"can't be loaded ({error})", _REMEDY) from error
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise _missing(place, module_name, error) from error
    except Exception as error:
        problem = f"fails as it is imported ({type(error).__name__}: {error})"
        raise UsageError("app", place, problem, f"try python -c 'import {module_name}'") from error
    if not isinstance(found, App):
        raise UsageError("app", place, f"is a {type(found).__name__}, not a duly.App", _REMEDY)
    return found


def place_of(app: App) -> str:
    """Return where another process finds an application; refuse one that no program holds."""
    main = sys.modules.get("__main__")
    others = [one for name, one in list(sys.modules.items()) if name != "__main__"]
    for module in (main, *others):
        attribute = None if module is None else _attribute_of(module, app)
        if module is None or attribute is None:
            continue
        found = _place_of(module)
        if found is not None:
            return f"{found}:{attribute}"
    problem = "can't be found by another process, which has to run its tasks"
    remedy = "put it into a file, as a name of its own: app = duly.App()"
    raise UsageError("app", app.name, problem, remedy)


def search_path() -> str:
    """Return the $PYTHONPATH with which another process can import what this one can."""
    installed = {Path(path) for path in sysconfig.get_paths().values()}
    library = Path(sysconfig.get_path("stdlib"))
    folders = dict.fromkeys(Path(entry).absolute() for entry in sys.path)
    # The same interpreter has these already; programs that tasks start may have another one.
    own = [one for one in folders if one not in installed and library.parent not in one.parents]
    return os.pathsep.join(map(str, own))


def process_variables() -> dict[str, str]:
    """Return the variables of a task's process: it imports what this one can."""
    return {**os.environ, "PYTHONPATH": search_path()}


def require_loadable(place: str) -> None:
    """Refuse an application that a task's process can't load: each of its attempts would fail."""
    try:
        ended = subprocess.run(  # noqa: S603 - our own program
            (*TASK_PROCESS, place),
            env=process_variables(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LOAD_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        problem = f"is not loaded within {LOAD_SECONDS_MAX} seconds in a process of its own"
    else:
        if ended.returncode == 0:
            return
        said = ended.stderr.strip().rpartition("\n")[2]
        why = said or f"exit status {ended.returncode}"
        problem = f"can't be loaded in a process of its own ({why})"
    remedy = "correct its import: its process tasks could not run"
    raise UsageError("app", place, problem, remedy)


def _place_of(module: ModuleType) -> str | None:
    """Return how another process names a module: by its path unless it is part of a package."""
    spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None)
    name = module.__name__ if spec is None else spec.name
    if "." in name:
        return str(name)  # also of python -m
    if file is not None and Path(file).suffix == _SUFFIX and Path(file).name != "__init__.py":
        return str(Path(file).resolve())
    return None if name == "__main__" else str(name)


def _load(name: str) -> ModuleType:
    if name.endswith(_SUFFIX):
        return _load_script(Path(name).resolve())
    return import_module(name)


def _set_up_django(place: str) -> None:
    """Load the settings and models of a Django project, unless its own program has done so."""
    settings = os.environ.get(_DJANGO_VARIABLE)
    if not settings or find_spec("django") is None:
        return
    try:
        models = import_module("django.apps").apps
        if not (models.ready or models.loading):
            import_module("django").setup()
    except Exception as error:
        problem = (
            f"can't be loaded: Django can't be set up with {settings}"
            f" ({type(error).__name__}: {error})"
        )
        remedy = f"try python -m django check; unset ${_DJANGO_VARIABLE} if it needs no Django"
        raise UsageError("app", place, problem, remedy) from error


def _load_script(path: Path) -> ModuleType:
    """Import a script under the name of its file, so that its own modules may import it, too."""
    name = path.stem
    if name in sys.modules or name in sys.stdlib_module_names or not name.isidentifier():
        name = f"duly_app_{abs(hash(path))}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"there is no program at {path}")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _search_first(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _missing(place: str, module_name: str, error: ImportError | FileNotFoundError) -> UsageError:
    remedy = _REMEDY
    missing = error.name if isinstance(error, ImportError) else None
    if missing is None or f"{module_name}.".startswith(f"{missing}."):
        remedy += "; start the command in the folder that holds it"
    else:
        remedy = f"install what it imports, then try python -c 'import {module_name}'"
    return UsageError("app", place, f"can't be loaded ({error})", remedy)


def _attribute_of(module: ModuleType, app: App) -> str | None:
    """Return under which name a module holds an application, or one that speaks for it."""
    names = getattr(module, "__dict__", {})
    for name, value in list(names.items()):
        # `isinstance` would ask a lazy object for its class, such as Django's settings.
        if issubclass(type(value), App) and value.tasks is app.tasks:
            return str(name)
    return None

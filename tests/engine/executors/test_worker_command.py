"""The words of `duly worker`: what they mean, and what is refused before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

from duly.cli.main import app
from duly.cli.services import allowed_commands, dev, worker
from duly.errors import UsageError


def read(*words: str) -> dict[str, Any]:
    command, bound, _ignored = app.parse_args(
        ["worker", *words], exit_on_error=False, print_error=False
    )

    assert command is worker
    return dict(bound.arguments)


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        ((), None),
        (("--allow-commands",), True),
        (("--allow-commands", "--slots", "3"), True),
        (("--allow-commands", "backup", "sync"), "backup,sync"),
        (("--allow-commands=backup,sync",), "backup,sync"),
    ],
)
def test_commands_are_allowed_by_name_or_all_of_them(words: tuple[str, ...], allowed: object):
    assert allowed == allowed_commands(read(*words).get("allow_commands"))


def test_several_queues_are_served():
    assert ("mail", "reports=2") == read("--queue", "mail", "--queue=reports=2")["queue"]


def test_development_takes_the_words_of_a_worker():
    """A webhook to a receiver of one's own can be tried there, too."""
    words = ["--processes=2", "--queue", "mail", "--allow-address", "localhost:8080"]
    command, bound, _ignored = app.parse_args(["dev", *words], exit_on_error=False)

    assert command is dev
    assert {"processes": 2, "queue": ("mail",), "allow_address": ("localhost:8080",)} == (
        bound.arguments
    )


def test_a_worker_without_an_application_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DULY_APP", raising=False)
    with pytest.raises(UsageError, match="--app tasks:app"):
        worker()


@pytest.mark.parametrize("options", [{"slots": 0}, {"grace": "soon"}, {"queue": ("two words",)}])
def test_what_can_t_be_carried_out_is_refused_before_anything_starts(options: dict[str, Any]):
    with pytest.raises(UsageError):
        worker(**options)

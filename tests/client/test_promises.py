"""All promises as a file: written, read, refused when it is not whole."""

from __future__ import annotations

import io
import json
import stat
from hashlib import sha256

import pytest

import duly
from duly import Conflict, UsageError
from duly.store.memory import MemoryStore
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.schedules import everything, told

CUT = "has no end: it was cut short"
CHANGED = "is not as it was written: its checksum differs"


def application(clock, **parts):
    return duly.App(store=MemoryStore(clock, **parts), clock=clock, actor="ada")


def exported(app, **parts):
    file = io.BytesIO()
    app.promises.export(file, **parts)
    return file.getvalue()


def signed(lines):
    """Return a file whose end fits to it, whatever it says."""
    body = b"".join(line + b"\n" for line in lines)
    end = {"kind": "end", "counts": {}, "sha256": sha256(body).hexdigest()}
    return body + json.dumps(end).encode() + b"\n"


def test_a_file_holds_all_that_was_promised(app, store, clock, tmp_path):
    """From one store to another, through a file that only its owner can read."""
    everything(store, clock)
    other = application(clock, shards=3)

    done = app.promises.export(tmp_path / "all.jsonl", history=True)
    taken = other.promises.import_from(tmp_path / "all.jsonl", reason="we move")

    assert told(store) == told(other.store)
    assert done.counts == taken.taken
    assert stat.S_IRUSR | stat.S_IWUSR == (tmp_path / "all.jsonl").stat().st_mode & 0o777
    assert [tmp_path / "all.jsonl"] == sorted(tmp_path.glob("all*"))
    entry = steps.audit(other.store)[0]
    assert ("promises.imported", "we move", "ada") == (
        entry.action,
        entry.actor.reason,
        entry.actor.name,
    )


def test_what_is_exported_twice_is_the_same(app, store, clock):
    """Nothing in it depends on when or how it was read."""
    everything(store, clock)

    assert exported(app) == exported(app)


def test_a_file_is_recognised_when_it_comes_again(app, clock):
    """INV-3: also when what came with it has been done and forgotten."""
    steps.create(app.store)
    file, other = exported(app), application(clock)
    other.promises.import_from(io.BytesIO(file))

    again = other.promises.import_from(io.BytesIO(file))

    assert (True, {}) == (again.is_repeated, again.taken)


@pytest.mark.parametrize("cut", [1, 100])
def test_a_file_that_was_cut_short_is_refused_whole(app, clock, cut):
    steps.create(app.store)
    other = application(clock)

    with pytest.raises(UsageError, match=CUT):
        other.promises.import_from(io.BytesIO(exported(app)[:-cut]))

    assert [] == other.schedules.list()


def test_a_file_without_its_last_line_is_refused(app, clock):
    """What is cut off between lines is missed, too."""
    steps.create(app.store)
    lines = exported(app).splitlines(keepends=True)

    with pytest.raises(UsageError, match=CUT):
        application(clock).promises.import_from(io.BytesIO(b"".join(lines[:-1])))


def test_a_file_that_was_changed_is_refused(app, clock):
    steps.create(app.store, "hourly")
    changed = exported(app).replace(b"hourly", b"yearly")

    with pytest.raises(UsageError, match=CHANGED):
        application(clock).promises.import_from(io.BytesIO(changed))


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        (b"", "is empty"),
        (b"hello\n", "line 1 is not JSON"),
        (b"[]\n", "line 1 is not an object"),
        (b"{}\n", "is no export of promises"),
        (signed([b'{"duly": "promises", "format": 9}']), "has format 9, and this program knows 1"),
        (signed([b'{"duly": "promises", "format": 1}']), "header that says too little"),
    ],
)
def test_what_is_no_export_is_refused(clock, file, problem):
    """One error that says what is wrong."""
    with pytest.raises(UsageError, match=problem):
        application(clock).promises.import_from(io.BytesIO(file))


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (b'"kind":"schedule"', b'"kind":"surprise"', "line 2 is nothing that can be promised"),
        (b'"skips"', b'"surprises"', "line 2 has rows of 'surprises'"),
        (b'"fires":1', b'"fires":"many"', "has 'many' as schedule_state.fires"),
        (b'"fires":1', b'"fiers":1', "has a row of schedule_state that is none"),
        (b'"status":"active",', b"", "has None as schedules.status"),
    ],
)
def test_a_line_that_says_what_none_can_say_is_refused(app, clock, before, after, problem):
    """Whoever wrote it has signed it, and nothing of it is written."""
    steps.fire_due(app.store, clock, steps.create(app.store))
    lines = exported(app, history=True).splitlines()[:-1]
    assert any(before in line for line in lines) or before == b'"skips"'
    strange = [line.replace(before, after) for line in lines]
    if before == b'"skips"':
        strange = [line.replace(b'"rows":{', b'"rows":{"surprises":[],') for line in lines]
    other = application(clock)

    with pytest.raises(UsageError, match=problem):
        other.promises.import_from(io.BytesIO(signed(strange)))

    assert [] == other.schedules.list()


def test_a_move_needs_everybody_to_be_stopped(app, clock, tmp_path):
    """Where both stores go on, both fire."""
    work.join_worker(app.store)

    with pytest.raises(Conflict, match="1 dispatchers and workers that are alive; stop them all"):
        app.promises.export(tmp_path / "all.jsonl", stopped=True)

    assert 1 == app.promises.export(tmp_path / "all.jsonl").alive


def test_a_file_is_never_written_over(app, tmp_path):
    (tmp_path / "all.jsonl").write_text("precious")

    with pytest.raises(UsageError, match="exists; name another file"):
        app.promises.export(tmp_path / "all.jsonl")

    with pytest.raises(UsageError, match=r"can't be written \(No such file or directory\)"):
        app.promises.export(tmp_path / "nowhere" / "all.jsonl")
    with pytest.raises(UsageError, match=r"can't be read \(No such file or directory\)"):
        app.promises.import_from(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="on_conflict: 'merge' is not known; use \"fail\""):
        app.promises.import_from(tmp_path / "nowhere", on_conflict="merge")
    assert "precious" == (tmp_path / "all.jsonl").read_text()

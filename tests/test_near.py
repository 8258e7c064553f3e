"""What `make near` chooses."""

from __future__ import annotations

from tests.near import BUDGET_S, CONTRACT, DOCUMENTS, PAGES, ROOT, SIMULATED, importers, near, plan
from tests.steady import listed

IMPORTING = {
    "duly.engine.worker": {"tests/engine/test_worker.py", "tests/engine/rig.py"},
    "tests.engine.rig": {"tests/engine/test_sweep.py"},
    "duly.store.gates": {"src/duly/store/sqlite/admission.py"},
    "duly.store.sqlite.admission": {"tests/store/test_runs_alike.py"},
}


def chosen(*changed: str) -> list[str]:
    return plan(near(changed, IMPORTING), {}).chosen


def test_a_changed_test_runs_before_the_tests_of_changed_modules():
    found = chosen("src/duly/engine/worker.py", "tests/cli/test_next.py")

    assert ["tests/cli/test_next.py", "tests/engine/test_worker.py"] == found[:2]


def test_tests_of_importers_and_simulated_runs_follow():
    found = chosen("src/duly/engine/worker.py")

    assert ["tests/engine/test_sweep.py", SIMULATED] == [found[1], found[-1]]


def test_a_change_of_a_store_brings_the_contract():
    assert [CONTRACT, "tests/store/test_runs_alike.py"] == chosen("src/duly/store/gates.py")


def test_tests_are_found_by_name_where_no_test_imports_a_module():
    assert ["tests/cli/test_enqueue.py", "tests/client/test_enqueue.py"] == chosen(
        "src/duly/cli/enqueue.py"
    )


def test_documents_and_templates_bring_the_tests_that_read_them():
    assert set(DOCUMENTS) == set(chosen("docs/errors.md"))
    assert {*PAGES, "tests/web/test_inbox.py"} == set(chosen("src/duly/templates/inbox_item.html"))


def test_other_files_bring_no_test():
    assert [] == chosen("LICENSE", "pyproject.toml")


def test_what_is_repeated_exists():
    """A line of the list that names no test any more would end `make steady` at its first round."""
    found = []
    for line in listed():
        name, _, test = line.partition("::")
        if (
            not (ROOT / name).exists()
            or f"def {test}(" * bool(test) not in (ROOT / name).read_text()
        ):
            found.append(line)

    assert [] == found


def test_what_exceeds_the_budget_is_left_out_and_cheaper_tests_go_on():
    costs = {"tests/a/test_dear.py": BUDGET_S, "tests/a/test_cheap.py": 1.0}

    found = plan([["tests/b/test_first.py"], [*costs]], costs)

    assert ["tests/b/test_first.py", "tests/a/test_cheap.py"] == found.chosen
    assert ["tests/a/test_dear.py"] == found.left_out


def test_the_tree_is_read_as_it_is():
    assert "tests/test_near.py" in importers()["tests.near"]

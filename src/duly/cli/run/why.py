"""`duly run why`: one sentence about why a run is late, stuck, waiting or dead, with evidence."""

from __future__ import annotations

from duly.cli.output import print_facts, print_json, print_line
from duly.cli.references import find_promise
from duly.cli.target import Target, opened
from duly.client.run_facts import read_run_facts
from duly.domain.explaining.explain import explain
from duly.domain.identity import RunId
from duly.errors import NotFound

TARGET = Target()


def why(run: str, /, *, target: Target = TARGET) -> None:
    """Say in a sentence why a run is late, stuck, waiting or dead, and what that rests on.

    Parameters
    ----------
    run
        Its id, the beginning of it, its label, or the key of a delayed run.
    """
    with opened(target, makes_store=False) as app:
        identity = find_promise(app, run)
        facts = read_run_facts(app.store, RunId(identity.bytes))
        if facts is None:
            raise NotFound("run", run, "see duly run list")
        found = explain(facts)
        if target.json:
            print_json(
                {
                    "id": str(identity),
                    "state": "pending" if facts.is_pending else str(facts.run.state),
                    "cause": str(found.cause),
                    "sentence": found.sentence,
                    "evidence": [{"fact": name, "is": fact} for name, fact in found.evidence],
                    "remedy": found.remedy,
                }
            )
            return
        print_line((found.sentence, "bold"))
        print_facts([(name, fact) for name, fact in found.evidence])
        if found.remedy is not None:
            print_line(("remedy: ", "dim"), found.remedy)

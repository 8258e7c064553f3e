"""Why a run waits that is due and could be claimed: for a place, a turn, or somebody's answer."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from duly.domain.explaining.facts import Cause, Explanation
from duly.domain.explaining.words import moment_text, span_text, tried_lines
from duly.domain.limits import Why, place_text, why_of

if TYPE_CHECKING:
    from duly.domain.explaining.facts import RunFacts


def blocked(facts: RunFacts) -> Explanation:
    """Explain a run that stands in a line."""
    found = limited(facts)
    if found is not None:
        return found
    sentence = "It waits until an earlier run is over: they may not overlap."
    return Explanation(
        cause=Cause.OVERLAP,
        sentence=sentence,
        evidence=tried_lines(facts),
        remedy="see what its schedule's policy is: duly schedule show",
    )


def limited(facts: RunFacts) -> Explanation | None:
    """Explain a run that waits because of a limit or a breaker; None if it is not for that."""
    waits = why_of(facts.run.state_reason)
    if waits is None:
        return None
    why, which = waits
    match why:
        case Why.CAP:
            return _capped(facts, place_text(which))
        case Why.RATE:
            return _rated(facts, place_text(which))
        case Why.BREAKER:
            return _broken(facts, which)


def _capped(facts: RunFacts, which: str) -> Explanation:
    taken = facts.taken
    held = ""
    if taken is not None and taken.most is not None:
        held = f": {taken.held:,} of {taken.most:,} places are taken"
    line = () if taken is None else (("in line", f"{taken.waiting:,} wait, itself among them"),)
    return Explanation(
        cause=Cause.CAP,
        sentence=f"It waits for a place under the limit of {which}{held}.",
        evidence=(*line, *tried_lines(facts)),
        remedy=f"wait, or raise it: duly limit set {_command_word(which)} --running …",
    )


def _rated(facts: RunFacts, which: str) -> Explanation:
    rate = facts.taken.rate if facts.taken is not None else None
    limit = which if rate is None else f"{which}, {rate}"
    return Explanation(
        cause=Cause.RATE,
        sentence=f"Its turn under the rate limit of {limit} is {_next(facts)}.",
        evidence=tried_lines(facts),
        remedy=f"wait, or raise it: duly limit set {_command_word(which)} --rate …",
    )


def _broken(facts: RunFacts, which: str) -> Explanation:
    breaker = facts.breaker
    state = "" if breaker is None else f", whose breaker is {breaker.state}"
    if breaker is not None and breaker.until is not None:
        state += f" until {moment_text(breaker.until)}"
    return Explanation(
        cause=Cause.BREAKER,
        sentence=f"It waits for {which}{state}; it is tried again {_next(facts)}.",
        evidence=tried_lines(facts),
        remedy=f"wait, or if {which} is up: duly breaker reset {quote(which)}",
    )


def _next(facts: RunFacts) -> str:
    at = facts.run.next_at
    if at is None or at <= facts.now:
        return "at once"
    return f"at {moment_text(at)}, in {span_text(at - facts.now)}"


def _command_word(which: str) -> str:
    """Return the limit's name without the value that it is counted by."""
    return quote(which.partition(" ")[0])

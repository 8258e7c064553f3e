"""The exception tree, by who must act; a message says what happened, where, and what to do.

DulyError
├── UsageError (also ValueError)   the caller must change the call
├── NotFound                       the caller may look again: there is no such thing
├── Conflict                       the caller may look again: it is not as the call assumes
│   ├── Outdated                   somebody else was faster: look at what it is now
│   └── OverQuota                  the caller has asked for enough; an operator may allow more
├── Unauthenticated                the caller must show a token that is good
├── Forbidden                      the caller may not: another role or token may
├── EffectRefused                  the task must not do it: it is done already, or nobody knows
│   ├── EffectDone
│   └── EffectUnknown
├── EffectNotDone                  raised by a task: it is certain that nothing has taken place
├── Cancelled                      the task must stop: somebody asked, or its run is taken away
├── NoSecret                       an operator must put it there: it is not to be had on this worker
└── StoreError                     the store could not carry it out
    ├── StoreUnavailable           retry later: locked, full, unreachable
    ├── SchemaMismatch             an operator must migrate, or bring the newer program
    └── LeaseLost                  somebody else owns it now; discard the result

Each has a `code` that stays as it is: programs, problem documents and docs name an error by it.
"""

from __future__ import annotations

import unicodedata
from typing import Any, ClassVar

VALUE_SHOWN_MAX = 120
_MISSING = ("is missing", "are missing", "is needed", "is one of two ways")
"""How a problem begins that is about what was not given."""


class DulyError(Exception):
    """Anything that Duly raises on purpose."""

    code: ClassVar[str] = "failed"


class UsageError(DulyError, ValueError):
    """A call that can't be carried out as it stands; it names field, value and remedy."""

    code = "invalid-value"

    def __init__(self, field: str, value: object, problem: str, remedy: str) -> None:
        """Compose one sentence out of the four parts, which stay readable as attributes."""
        self.field = field
        self.value = value
        self.problem = problem
        self.remedy = remedy
        # Parts may hold what somebody typed, and a message goes to terminals and logs.
        # What is missing has no value to show; None that is given, and wrong, is one.
        is_missing = value is None and problem.startswith(_MISSING)
        about = field if is_missing else f"{field}: {shown(value)}"
        super().__init__(printable(f"{about} {problem}; {remedy}"))

    def __reduce__(self) -> tuple[type[UsageError], tuple[str, object, str, str]]:
        """Travel between processes with all four parts, and not as the message alone."""
        return type(self), (self.field, self.value, self.problem, self.remedy)


class NotFound(DulyError, LookupError):  # noqa: N818 - the tree reads as what happened
    """There is no such schedule, run or promise; it names what was looked for and what to do."""

    code = "not-found"

    def __init__(self, what: str, name: object, remedy: str) -> None:
        """Compose one sentence out of the three parts, which stay readable as attributes."""
        self.what = what
        self.name = name
        self.remedy = remedy
        super().__init__(printable(f"{what}: {shown(name)} was not found; {remedy}"))

    def __reduce__(self) -> tuple[type[NotFound], tuple[str, object, str]]:
        """Travel between processes with all three parts."""
        return type(self), (self.what, self.name, self.remedy)


class Conflict(DulyError):  # noqa: N818 - the tree reads as what happened
    """A thing is not as the call assumes it to be: changed meanwhile, taken, or over."""

    code = "conflict"

    def __init__(self, what: str, name: object, problem: str, remedy: str) -> None:
        """Compose one sentence out of the four parts, which stay readable as attributes."""
        self.what = what
        self.name = name
        self.problem = problem
        self.remedy = remedy
        super().__init__(printable(f"{what}: {shown(name)} {problem}; {remedy}"))

    def __reduce__(self) -> tuple[type[Conflict], tuple[str, object, str, str]]:
        """Travel between processes with all four parts."""
        return type(self), (self.what, self.name, self.problem, self.remedy)


class Outdated(Conflict):
    """A thing has changed since the caller looked at it; nothing was overwritten."""

    code = "outdated"


class OverQuota(Conflict):
    """An order that goes over a quota; it names the quota, how many there are, and what to do."""

    code = "over-quota"

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of a sentence, and two figures
        self, scope: object, problem: str, remedy: str, most: int, count: int
    ) -> None:
        """Compose one sentence; how many are the most and how many there are stay readable."""
        self.most = most
        self.count = count
        super().__init__("quota", scope, problem, remedy)

    def __reduce__(self) -> Any:  # noqa: ANN401 - it takes other parts than a conflict
        """Travel between processes with all parts."""
        return type(self), (self.name, self.problem, self.remedy, self.most, self.count)


class Unauthenticated(DulyError):  # noqa: N818 - as above
    """Nobody knows who asks: no token or session, or one that is not, or no longer, good.

    It never repeats what was shown, and says nothing that would help to guess: that a token has
    expired is told to those alone who know its secret.
    """

    code = "unauthenticated"

    def __init__(self, problem: str, remedy: str) -> None:
        """Compose one sentence out of the two parts, which stay readable as attributes."""
        self.problem = problem
        self.remedy = remedy
        super().__init__(printable(f"{problem}; {remedy}"))

    def __reduce__(self) -> tuple[type[Unauthenticated], tuple[str, str]]:
        """Travel between processes with both parts."""
        return type(self), (self.problem, self.remedy)


class Forbidden(DulyError):  # noqa: N818 - as above
    """Whoever asks is known, and may not do this; it names what is needed."""

    code = "forbidden"

    def __init__(self, who: str, problem: str, remedy: str) -> None:
        """Compose one sentence out of the three parts, which stay readable as attributes."""
        self.who = who
        self.problem = problem
        self.remedy = remedy
        super().__init__(printable(f"{who}: {problem}; {remedy}"))

    def __reduce__(self) -> tuple[type[Forbidden], tuple[str, str, str]]:
        """Travel between processes with all three parts."""
        return type(self), (self.who, self.problem, self.remedy)


class Cancelled(DulyError):  # noqa: N818 - as above
    """A run that must stop: somebody asked for it, its time is up, or it is no longer ours."""

    code = "cancelled"

    def __init__(self, run: str) -> None:
        """Name the run by its label."""
        self.run = run
        super().__init__(printable(f"run: {shown(run)} must stop"))

    def __reduce__(self) -> tuple[type[Cancelled], tuple[str]]:
        """Travel between processes."""
        return type(self), (self.run,)


class EffectRefused(DulyError):  # noqa: N818 - as above
    """An effect that must not be begun; it names the effect, and says why and what to do."""

    code = "effect-refused"

    def __init__(self, key: str, problem: str, remedy: str) -> None:
        """Compose one sentence out of the three parts, which stay readable as attributes."""
        self.key = key
        self.problem = problem
        self.remedy = remedy
        super().__init__(printable(f"effect: {shown(key)} {problem}; {remedy}"))

    def __reduce__(self) -> tuple[type[EffectRefused], tuple[str, str, str]]:
        """Travel between processes with all three parts."""
        return type(self), (self.key, self.problem, self.remedy)


class EffectDone(EffectRefused):
    """An effect that was done before, by this run or one that it repeats."""

    code = "effect-done"


class EffectUnknown(EffectRefused):
    """An effect that may have been done before: nobody knows, and it may not be repeated."""

    code = "effect-unknown"


class EffectNotDone(DulyError):  # noqa: N818 - as above
    """Raised by a task's code: it is certain that the effect it had begun did not take place."""

    code = "effect-not-done"


class NoSecret(DulyError):  # noqa: N818 - as above
    """A secret can't be had on this worker, or is none; elsewhere, or later, it may well be."""

    code = "no-secret"

    def __init__(self, field: str, reference: str, problem: str, remedy: str) -> None:
        """Compose one sentence out of the four parts, which stay readable as attributes."""
        self.field = field
        self.reference = reference
        self.problem = problem
        self.remedy = remedy
        super().__init__(printable(f"{field}: {shown(reference)} {problem}; {remedy}"))

    def __reduce__(self) -> tuple[type[NoSecret], tuple[str, str, str, str]]:
        """Travel between processes with all four parts."""
        return type(self), (self.field, self.reference, self.problem, self.remedy)


class StoreError(DulyError):
    """The store could not carry out an order; it names the store, what happened and the remedy."""

    code = "store-refused"

    def __init__(self, store: str, problem: str, remedy: str) -> None:
        """Compose one sentence out of the three parts, which stay readable as attributes."""
        self.store = store
        self.problem = problem
        self.remedy = remedy
        super().__init__(printable(f"{store}: {problem}; {remedy}"))

    def __reduce__(self) -> tuple[type[StoreError], tuple[str, str, str]]:
        """Travel between processes with all three parts."""
        return type(self), (self.store, self.problem, self.remedy)


class StoreUnavailable(StoreError):  # noqa: N818 - as above
    """The store can't be reached or can't write just now; nothing was half done, try again."""

    code = "store-unavailable"


class SchemaMismatch(StoreError):  # noqa: N818 - as above
    """Program and store are of different ages; an operator must migrate or upgrade."""

    code = "schema-mismatch"


class LeaseLost(StoreError):  # noqa: N818 - as above
    """This process no longer owns what it wrote to; whatever it meant to write is void."""

    code = "lease-lost"


STORE_AWAY = (StoreUnavailable, SchemaMismatch, LeaseLost)
"""What concerns the store as a whole. Any other StoreError is the refusal of one order: nothing of
it has happened, and the next one may well be carried out."""


def require_text(field: str, value: object, length_max: int) -> None:
    """Refuse what is not a text, or too long for one; before anything costly looks at it."""
    if not isinstance(value, str):
        raise UsageError(field, value, "is not a text", "give a str")
    if len(value) > length_max:
        raise UsageError(field, value, "is too long", f"give at most {length_max:,} characters")
    if "\x00" in value:
        raise UsageError(field, value, "holds a NUL character", "leave it out")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise UsageError(field, value, "holds half a character", "give text that UTF-8 can write")


def read_text(field: str, value: object, length_max: int) -> str:
    """Read a name: composed as Unicode's NFC has it, so that what looks the same is the same."""
    require_text(field, value, length_max)
    assert isinstance(value, str), "just checked"
    if value.isascii():
        return value
    composed = unicodedata.normalize("NFC", value)
    require_text(field, composed, length_max)
    return composed


def printable(message: str) -> str:
    """Return a message fit for terminals and logs: control characters spelled out."""
    return message if message.isprintable() else ascii(message)[1:-1]


def shown(value: object) -> str:
    """Quote a value for a message: one line, no control characters, bounded length."""
    if isinstance(value, str) and len(value) > VALUE_SHOWN_MAX:
        return f"{shown(value[:VALUE_SHOWN_MAX])}… ({len(value):,} characters)"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - whatever a value's own repr raises
        # A number of thousands of digits, for one, refuses to be written out.
        text = f"a value of type {type(value).__name__}"
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= 2 * VALUE_SHOWN_MAX else f"{text[:VALUE_SHOWN_MAX]}…"

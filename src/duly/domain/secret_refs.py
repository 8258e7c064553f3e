"""Secrets: a reference is stored and shown, its value exists only where it is used.

The program that reads the values decides where they come from, and which sources are allowed.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from duly.errors import UsageError, require_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REFERENCE_LENGTH_MAX = 1_000
CONCEALED = "***"
_LINE_LENGTH_MIN = 8
"""Shorter lines of a secret are words that occur anywhere."""
_SCHEMES = re.compile(r"(?:bearer +|basic +|token +|whsec_)(.+)", re.IGNORECASE | re.DOTALL)
"""What stands before a secret and is none: receivers repeat what comes after it."""
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#:@]*:([^/?#]+)@")
"""Such as postgresql://name:password@host."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REMEDY = 'give duly.secret("env:NAME") or duly.secret("file:/path")'


@dataclass(frozen=True, slots=True)
class SecretReference:
    """Where a secret's value is: what is stored in its stead, as {"secret": "env:NAME"}."""

    secret: str

    def __post_init__(self) -> None:
        """Refuse what refers to nothing; a value given by mistake is not repeated."""
        if not isinstance(self.secret, str) or not self.secret.startswith(("env:", "file:")):
            raise UsageError("secret", CONCEALED, "does not say where it is", _REMEDY)
        require_text("secret", self.secret, REFERENCE_LENGTH_MAX)
        if self.source == "env" and not _VARIABLE.fullmatch(self.place):
            raise UsageError("secret", self.secret, "names no variable", _REMEDY)
        if self.source == "file" and not (self.place.startswith("/") and self.place.isprintable()):
            raise UsageError("secret", self.secret, "names no absolute path", _REMEDY)

    @property
    def source(self) -> str:
        """What kind of place it is in: env or file."""
        return self.secret.partition(":")[0]

    @property
    def place(self) -> str:
        """The name of the variable, or the path."""
        return self.secret.partition(":")[2]


class Secret:
    """A secret's value in the hands of a task; it shows itself only when asked to."""

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        self.__value = value

    def reveal(self) -> str:
        """Return the value."""
        return self.__value

    def shapes(self) -> tuple[str, ...]:
        """Return the texts by which it could be recognised, longest first.

        The whole, its lines, what follows a word such as Bearer, a password in an address. How each
        of these may be written, whoever hides them knows.
        """
        value = self.__value
        lines = [line for line in value.splitlines() if len(line) >= _LINE_LENGTH_MIN]
        found = {value, value.strip(), *_parts(value.strip()), *lines}
        return tuple(sorted(found, key=lambda shape: (-len(shape), shape)))

    def __repr__(self) -> str:
        return CONCEALED

    def __str__(self) -> str:
        return CONCEALED

    def __format__(self, format_spec: str) -> str:
        return format(CONCEALED, format_spec)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Never travel: whoever needs it reads it where it is."""
        raise TypeError("a secret can't be copied or pickled; pass its reference instead")


ReadSecret: TypeAlias = "Callable[[SecretReference, str], Secret]"
"""Read a secret for a field.

NoSecret when it can't be had on this worker, UsageError when it may not be; both name the
reference.
"""


def read_reference(field: str, given: object) -> SecretReference:
    """Read a reference: one that exists, or a text such as "env:NAME"."""
    if isinstance(given, SecretReference):
        return given
    if isinstance(given, str) and given.startswith(("env:", "file:")):
        return SecretReference(given)
    # Whatever else is given may be the secret itself, and this message goes to logs.
    problem = "is not a reference to a secret" if isinstance(given, str) else "is not a reference"
    raise UsageError(field, CONCEALED, problem, _REMEDY)


def _parts(value: str) -> Iterator[str]:
    """Return what within a value is as secret as the whole."""
    scheme = _SCHEMES.fullmatch(value)
    if scheme:
        yield scheme[1]
        yield from _password(_decoded(scheme[1]))
    address = _ADDRESS.match(value)
    if address:
        yield address[1]


def _password(pair: str) -> Iterator[str]:
    """Return the two forms in which name:password gives a secret away."""
    password = pair.partition(":")[2]
    if password:
        yield from (pair, password)


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return ""

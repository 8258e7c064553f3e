"""Secrets on the side of programs: referring to one, and reading its value on a worker (L4).

Who may promise a run may write any reference into its arguments. Without a limit, that would lend
the worker's whole environment and disk to them; so a reference in arguments is read only from
places that the operator set apart: variables that begin with DULY_SECRET_, unless told otherwise,
and no files. A reference in the program's own code has no such limit: the code could read the
place itself.

What may not be read is refused for good (UsageError). What may, and is not there, is a matter of
this worker and this moment (NoSecret): another worker may have it, and a file that is being
replaced is back soon.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Any

from duly.domain.secrets import Secret, SecretReference
from duly.errors import NoSecret, UsageError

ENVIRONMENT_DEFAULT = ("DULY_SECRET_*",)
SECRET_BYTES_MAX = 64 * 1024


def secret(reference: str) -> Any:  # noqa: ANN401 - it stands for a parameter's `Secret`
    """Refer to a secret: "env:NAME" for a variable, "file:/path" for a file, on the worker.

    The reference is what is stored. A parameter annotated `duly.Secret` receives the value.
    """
    return SecretReference(reference)


@dataclass(frozen=True, slots=True)
class SecretSources:
    """From where the secrets of arguments may be read, on this worker."""

    environment: tuple[str, ...] = ENVIRONMENT_DEFAULT
    """Names of variables; one that ends in * stands for all that begin so."""
    directories: tuple[str, ...] = ()
    """Absolute paths; files in them or below."""

    def __post_init__(self) -> None:
        """Refuse what would allow everything by accident."""
        for pattern in self.environment:
            if not pattern.rstrip("*") or "*" in pattern[:-1]:
                remedy = "give a name, or a beginning such as DULY_SECRET_*"
                raise UsageError("secret_environment", pattern, "is not a name", remedy)
        for directory in self.directories:
            if not directory.startswith("/") or not directory.strip("/"):
                remedy = "give an absolute path such as /run/secrets/duly"
                raise UsageError("secret_directories", directory, "is no folder for it", remedy)

    def read(self, reference: SecretReference, field: str) -> Secret:
        """Read a secret that arguments refer to, if the operator allows its place; or NoSecret."""
        if reference.source == "env":
            if not any(_matches(reference.place, one) for one in self.environment):
                names = ", ".join(self.environment) or "none"
                remedy = f"allowed are {names}; the operator can add it to secret_environment"
                raise _not_allowed(field, reference, remedy)
            return _from_environment(reference, field)
        path = os.path.realpath(reference.place)
        # Both sides are resolved, so that neither ".." nor a link leads out of a directory.
        roots = [os.path.realpath(one) for one in self.directories]
        if not any(os.path.commonpath([path, root]) == root for root in roots):
            remedy = "the operator can add its folder to secret_directories"
            raise _not_allowed(field, reference, remedy)
        return _from_file(path, reference, field)

    def read_declared(self, reference: SecretReference, field: str) -> Secret:
        """Read a secret that the program's own code refers to."""
        if reference.source == "env":
            return _from_environment(reference, field)
        return _from_file(os.path.realpath(reference.place), reference, field)


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _from_environment(reference: SecretReference, field: str) -> Secret:
    value = os.environ.get(reference.place)
    if value is None:
        remedy = "set the variable and start it anew"
        raise NoSecret(field, reference.secret, "is not set on this worker", remedy)
    return _made(value, reference, field)


def _from_file(path: str, reference: SecretReference, field: str) -> Secret:
    try:
        # Not blocking, for a pipe would make the worker wait for a writer.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as stream:  # noqa: PTH123 - of a handle, not of a path
            is_file = stat.S_ISREG(os.fstat(handle).st_mode)
            content = stream.read(SECRET_BYTES_MAX + 1) if is_file else b""
    except OSError as error:
        problem = f"can't be read on this worker ({error.strerror})"
        remedy = "see that the file exists and the worker may read it"
        raise NoSecret(field, reference.secret, problem, remedy) from None
    if not is_file or len(content) > SECRET_BYTES_MAX:
        remedy = f"give a plain file of at most {SECRET_BYTES_MAX:,} bytes"
        raise NoSecret(field, reference.secret, "is not a file for a secret", remedy)
    try:
        value = content.decode()
    except UnicodeDecodeError:
        remedy = "write it as UTF-8"
        # The error that is raised here holds the bytes: it must not travel along.
        raise NoSecret(field, reference.secret, "is not text", remedy) from None
    return _made(value.removesuffix("\n").removesuffix("\r"), reference, field)


def _made(value: str, reference: SecretReference, field: str) -> Secret:
    if not value.strip():
        problem = "is empty on this worker"
        raise NoSecret(field, reference.secret, problem, "write the secret there")
    return Secret(value)


def _not_allowed(field: str, reference: SecretReference, remedy: str) -> UsageError:
    return UsageError(field, reference.secret, "is not allowed on this worker", remedy)

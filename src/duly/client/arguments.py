"""A task's arguments: checked against its signature, written as canonical JSON, read back.

`write_arguments` stores only what a worker can read back into the annotated types. A payload that
no worker could read is refused before a run is promised.

`quick_reader` serves signatures of plain types alone. Its one pass gives the same values as reading
JSON and checking each argument. It leaves everything else to that slower path, which can say what
is wrong.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring
from keyword import iskeyword
from math import isfinite
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict

from duly.client.json_values import lower_first, plain_value, unique_pairs
from duly.client.run_view import Run
from duly.domain.schedules import canonical_json
from duly.domain.secret_refs import Secret, SecretReference, read_reference
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection

    from duly.config import Settings

    PairsHook = Callable[[list[tuple[str, Any]]], dict[str, Any]]
    Read = Callable[[str], dict[str, Any]]


_PLAIN = frozenset((str, int, float, bool, types.NoneType))


def quick_reader(kinds: Mapping[str, Any], required: Collection[str]) -> Read | None:
    """Return what reads arguments of these types, and raises for all others; None without one."""
    if not all(_is_plain(kind) for kind in kinds.values()):
        return None
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        (name, kind) if name in required else (name, Union[kind, msgspec.UnsetType], UNSET)  # noqa: UP007 - a type that is worked out
        for name, kind in kinds.items()
    ]
    # By name, in whichever order: a parameter with a default may come before one without.
    shape = msgspec.defstruct("Arguments", fields, forbid_unknown_fields=True, kw_only=True)
    decode = msgspec.json.Decoder(shape).decode

    def read(text: str) -> dict[str, Any]:
        given = asdict(decode(text))
        if UNSET in given.values():
            return {name: value for name, value in given.items() if value is not UNSET}
        return given

    return read


def _is_plain(kind: Any) -> bool:  # noqa: ANN401 - a type
    """Say whether a type is one of JSON's own, or made of them."""
    if kind is Any or kind in _PLAIN:
        return True
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (list, types.UnionType, Union):
        return all(_is_plain(part) for part in parts)
    return origin is dict and parts[0] is str and _is_plain(parts[1])


_NOTHING = "{}"
_RUN_NAMES = frozenset({"Run", "duly.Run"})
_RUN_TYPES: tuple[object, ...] = (Run, Run | None)
_REFERENCES: Mapping[Any, Any] = {
    Secret: SecretReference,
    Secret | None: SecretReference | None,
}
"""What is stored where a parameter takes a secret: where its value is."""


@dataclass(frozen=True, slots=True)
class Payload:
    """How large and how deep arguments may be."""

    bytes_max: int
    depth_max: int

    @classmethod
    def of(cls, settings: Settings) -> Payload:
        """Take the limits out of the settings."""
        return cls(settings.payload_bytes_max, settings.payload_depth_max)


Written: TypeAlias = "tuple[tuple[str, Any, str], ...]"
SimplePlaces: TypeAlias = "tuple[tuple[int, type, str, Callable[[Any], str]], ...]"


class Shape(NamedTuple):
    """What binding and writing go by, worked out once all types are known."""

    by_position: tuple[str, ...]
    required: frozenset[str]
    written: Written
    """Names in the order in which they are written, their types, and how each begins in JSON."""
    simple: SimplePlaces | None
    """The same with places instead of names, and how each is written, where all of them are simple
    and can be given by their places; None else."""


class Signature:
    """What a task takes: its parameters by name, without those that receive the run."""

    def __init__(self, task: str, function: Callable[..., object]) -> None:
        """Look at the shape now, so that a task nobody could call is refused at once."""
        self.task = task
        self._function = function
        try:
            self._signature = _signature(function)
        except (ValueError, TypeError) as error:
            remedy = "put @app.task above a function of your own"
            raise UsageError(f"task {task}", function, "says not what it takes", remedy) from error
        self._types: dict[str, Any] | None = None
        self._required: list[str] | None = None
        self._shape: Shape | None = None
        self._quick: Read | None = None
        self._runs: frozenset[str] = frozenset()
        for parameter in self._signature.parameters.values():
            _refuse_shape(task, parameter)

    @property
    def types(self) -> dict[str, Any]:
        """The type of each parameter, the run's left out; read late, when all names exist."""
        if self._types is not None:
            return self._types
        hints, is_complete = _hints(self._function)
        taken = {name: _checkable(hints.get(name, Any)) for name in self._signature.parameters}
        types = {name: kind for name, kind in taken.items() if kind not in _RUN_TYPES}
        self._runs = frozenset(taken.keys() - types.keys())
        # A class may be defined further down in its module: what can't be read yet is read again.
        if is_complete:
            self._types = types
            self._quick = _quick_reader(types, self.required)
        return types

    @property
    def run_names(self) -> frozenset[str]:
        """The names of the parameters that receive the run."""
        if self._types is None:
            _ = self.types  # read late, as above
        return self._runs

    @property
    def is_plain(self) -> bool:
        """Whether what it takes is known, and is neither a run nor a secret."""
        if self._types is None:
            _ = self.types  # read late, as above
        return self._quick is not None and not self._runs

    @property
    def required(self) -> list[str]:
        """The names of parameters that must be given."""
        if self._required is not None:
            return self._required
        parameters = self._signature.parameters
        empty = inspect.Parameter.empty
        required = [name for name in self.types if parameters[name].default is empty]
        self._required = required if self._types is not None else None
        return required

    @property
    def shape(self) -> Shape:
        """What binding and writing go by."""
        if self._shape is not None:
            return self._shape
        types, parameters = self.types, self._signature.parameters
        keyword_only = inspect.Parameter.KEYWORD_ONLY
        by_position = tuple(name for name in types if parameters[name].kind is not keyword_only)
        written = tuple(
            (name, types[name], f"{encode_basestring(name)}:") for name in sorted(types)
        )
        simple = _simple_places(by_position, written)
        shape = Shape(by_position, frozenset(self.required), written, simple)
        self._shape = shape if self._types is not None else None
        return shape

    def bind(self, positional: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Give each argument its parameter's name; refuse one too many, twice, or too few."""
        by_position, required, _, _ = self.shape
        if not named and len(positional) <= len(by_position):
            bound = dict(zip(by_position, positional, strict=False))
            if required <= bound.keys():
                return bound
        if len(positional) > len(by_position):
            self._refuse(positional[len(by_position)], "is one argument too many")
        bound = dict(zip(by_position, positional, strict=False))
        for name, value in named.items():
            if name not in self.types:
                self._refuse(name, "is not one of its parameters")
            if name in bound:
                self._refuse(name, "is given twice")
            bound[name] = value
        missing = [name for name in self.required if name not in bound]
        if missing:
            self._refuse(missing[0], "is missing")
        return {name: bound[name] for name in self.types if name in bound}

    def simple_text(self, values: tuple[Any, ...]) -> str | None:
        """Write arguments that are all given by their places, and are simple, in one go.

        None where it is not so: the text is the same by both ways.
        """
        simple = self._shape.simple if self._shape is not None else None
        if simple is None or len(values) != len(simple):
            return None
        parts: list[str] = []
        try:
            for place, kind, beginning, write in simple:
                value = values[place]
                if type(value) is not kind:
                    return None
                parts.append(beginning + write(value))
        except ValueError:  # a number that JSON can't hold
            return None
        return "{" + ",".join(parts) + "}"

    def read(self, text: str) -> dict[str, Any]:
        """Read stored arguments into the annotated types: checked again, because code changes."""
        if text == _NOTHING and not self.required:
            return {}
        if self._quick is not None:
            try:  # not by `suppress`, which takes as long as the reading
                return self._quick(text)
            except Exception:  # noqa: BLE001 - whatever it is that does not fit: said below
                return self._read_slowly(text)
        return self._read_slowly(text)

    def _read_slowly(self, text: str) -> dict[str, Any]:
        """Read arguments one by one, and say of the first that does not fit what is wrong."""
        arguments = self.read_json(text)
        return {
            name: _read_value(f"{self.task}({name})", value, self.types[name])
            for name, value in arguments.items()
        }

    def read_json(self, text: str) -> dict[str, Any]:
        """Read stored arguments as JSON values that the types take; defaults fill in the rest."""
        stored = _read_json_text(self.task, text)
        if not isinstance(stored, dict):
            raise UsageError(self.task, stored, "is not a map of arguments", "give one")
        return self.bind((), stored)

    def defaults(self) -> dict[str, Any]:
        """Return the values of parameters that need not be given."""
        parameters = self._signature.parameters
        left = [name for name in self.types if name not in self.required]
        return {name: parameters[name].default for name in left}

    def _refuse(self, what: object, problem: str) -> None:
        takes = ", ".join(self.types) or "no arguments"
        raise UsageError(self.task, what, problem, f"it takes {takes}")


def write_arguments(
    signature: Signature, arguments: Mapping[str, Any], payload: Payload, *, is_json: bool = False
) -> str:
    """Check each argument and write all as canonical JSON.

    Arguments are Python values of the annotated types, or with `is_json` JSON values that stand for
    them.
    """
    text = _simple_text(signature, arguments)
    if text is not None and is_short(text, payload):
        return text
    written = {}
    for name, value in arguments.items():
        kind = signature.types[name]
        if kind in _REFERENCES.values() and not is_json and value is not None:
            # Whoever gives the secret itself must not find it in a message.
            value = read_reference(f"{signature.task}({name})", value)  # noqa: PLW2901 - as stored
        if not is_json:
            _check(f"{signature.task}({name})", value, value, kind)
        plain = plain_value(f"{signature.task}({name})", value, payload.depth_max)
        _check(f"{signature.task}({name})", value, plain, kind)
        written[name] = plain
    return write_payload(signature.task, written, payload)


def is_short(text: str, payload: Payload) -> bool:
    """Say whether a text fits, if that can be seen without a closer look."""
    return text.isascii() and len(text) <= payload.bytes_max and _NUL_ESCAPE not in text


def _simple_text(signature: Signature, arguments: Mapping[str, Any]) -> str | None:
    """Write numbers, texts and truth values that are of the very type that is asked for.

    None where anything takes a closer look: the text, and what is refused, are the same by both
    ways.
    """
    parts: list[str] = []
    for name, kind, beginning in signature.shape.written:
        if name in arguments:
            value = arguments[name]
            found = type(value)
            if found is not kind and kind is not Any:
                return None
            write = _SIMPLE.get(found)
            if write is None:
                return None
            try:
                parts.append(beginning + write(value))
            except ValueError:
                return None
    return "{" + ",".join(parts) + "}"


def _simple_places(by_position: tuple[str, ...], written: Written) -> SimplePlaces | None:
    are_simple = all(isinstance(kind, type) and kind in _SIMPLE for _, kind, _ in written)
    if not are_simple or len(by_position) < len(written):
        return None
    return tuple(
        (by_position.index(name), kind, beginning, _SIMPLE[kind])
        for name, kind, beginning in written
    )


def _float_text(value: float) -> str:
    if not isfinite(value):
        raise ValueError("no number that JSON can hold")
    return float.__repr__(value)


_SIMPLE: Mapping[type, Callable[[Any], str]] = {
    int: int.__repr__,
    str: encode_basestring,
    bool: {True: "true", False: "false"}.__getitem__,
    float: _float_text,
}


_NUL_ESCAPE = "\\u0000"
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
"""The escape itself, and not a backslash before the letters u0000."""


def _refuse_nul(task: str, arguments: Mapping[str, Any]) -> None:
    """Refuse a character that databases, commands and headers do not carry."""
    for name, value in arguments.items():
        if _NUL.search(canonical_json({name: value})):
            raise UsageError(f"{task}({name})", value, "holds a NUL character", "leave it out")


def write_payload(task: str, arguments: Mapping[str, Any], payload: Payload) -> str:
    """Write JSON values as canonical text of bounded size."""
    remedy = "pass a reference (an id, a path) and let the task read the rest"
    try:
        text = canonical_json(arguments)
        size = len(text.encode())
    except (ValueError, TypeError, RecursionError) as error:
        problem = f"can't be written as JSON ({error})"
        raise UsageError(task, dict(arguments), problem, "give JSON values") from error
    if size > payload.bytes_max:
        problem = f"is given {size:,} bytes, and {payload.bytes_max:,} is the most"
        raise UsageError("arguments", task, problem, remedy)
    if _NUL_ESCAPE in text:
        _refuse_nul(task, arguments)
    return text


def stand_in(name: str, parameters: Mapping[str, Any]) -> Callable[..., None]:
    """Return a function that takes these parameters by name, for a task that has none of its own.

    Nobody calls it: a command or a webhook is run by a worker alone.
    """

    def function(*_values: object, **_arguments: object) -> None:
        problem = "is no function that could be called here"
        raise UsageError("task", name, problem, "enqueue it: a worker runs it")

    kinds = [
        inspect.Parameter(one, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
        for one, kind in parameters.items()
    ]
    function.__signature__ = inspect.Signature(kinds)  # type: ignore[attr-defined]
    function.__annotations__ = dict(parameters)
    function.__name__ = function.__qualname__ = name
    return function


def read_parameters(parameters: object) -> dict[str, Any]:
    """Read a map of names to types."""
    remedy = "give a map of names to types, such as {'database': str}, or a function"
    if not isinstance(parameters, Mapping):
        raise UsageError("parameters", parameters, "is not a map of names to types", remedy)
    for name in parameters:
        if not isinstance(name, str) or not name.isidentifier() or iskeyword(name):
            raise UsageError("parameters", name, "can't be the name of a parameter", remedy)
    return dict(parameters)


def _read_value(field: str, value: object, kind: Any) -> Any:  # noqa: ANN401 - a type and its value
    if kind is Any:
        return value
    try:
        return msgspec.convert(value, kind, strict=True, str_keys=True)
    except msgspec.ValidationError as error:
        name = getattr(kind, "__name__", str(kind))
        problem = f"is not what it takes ({lower_first(error)})"
        raise UsageError(field, value, problem, f"give {name}") from error


def _check(field: str, given: object, value: object, kind: Any) -> None:  # noqa: ANN401 - a type
    """Refuse a value that its parameter's type does not take."""
    if kind is Any:
        return
    try:
        msgspec.convert(value, kind, strict=True, str_keys=value is not given)
    except msgspec.ValidationError as error:
        name = getattr(kind, "__name__", str(kind))
        problem = f"is not what it takes ({lower_first(error)})"
        raise UsageError(field, given, problem, f"give {name}") from error


def read_json_map(field: str, text: str) -> dict[str, Any]:
    """Read JSON text that a person typed and that must be a map, such as arguments by name."""
    found = _read_json_text(field, text, unique_pairs)
    if not isinstance(found, dict):
        remedy = 'give a map of names to values, such as {"class_id": 42}'
        raise UsageError(field, text, "is not an object", remedy)
    return found


def _read_json_text(field: str, text: str, hook: PairsHook | None = None) -> Any:  # noqa: ANN401 - JSON values
    try:
        return json.loads(text, object_pairs_hook=hook)
    except (ValueError, RecursionError) as error:
        remedy = 'give JSON such as {"class_id": 42}'
        raise UsageError(field, text, f"is not JSON ({error})", remedy) from error


def _quick_reader(kinds: Mapping[str, Any], required: list[str]) -> Read | None:
    try:
        return quick_reader(kinds, required)
    except Exception:  # noqa: BLE001 - names or types that it can't deal with
        return None


def _signature(function: Callable[..., object]) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def _refuse_shape(task: str, parameter: inspect.Parameter) -> None:
    shapes: dict[object, str] = {
        inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments",
        inspect.Parameter.VAR_KEYWORD: "takes arguments of any name",
        inspect.Parameter.POSITIONAL_ONLY: "is an argument without a name",
    }
    shape = shapes.get(parameter.kind)
    if shape:
        remedy = "arguments are stored by name: give the task named parameters"
        raise UsageError(f"task {task}", str(parameter.name), shape, remedy)


def _hints(function: Callable[..., object]) -> tuple[dict[str, Any], bool]:
    """Return the types of a function's parameters, any where unknown, and whether all are known."""
    try:
        return get_type_hints(function, include_extras=True), True
    except Exception:  # noqa: BLE001 - whatever an annotation raises when it is read
        found = _annotations(function).items()
        return {name: _hint(function, annotation) for name, annotation in found}, False


def _checkable(kind: Any) -> Any:  # noqa: ANN401 - a type
    """Return a type if msgspec can read it out of JSON, and any value's otherwise."""
    if kind in _RUN_TYPES:
        return kind
    try:
        if kind in _REFERENCES:
            return _REFERENCES[kind]
        return Any if _has_custom(msgspec.inspect.type_info(kind), set()) else kind
    except (TypeError, ValueError, NotImplementedError, NameError):
        return Any


def _has_custom(info: object, seen: set[int]) -> bool:
    """Say whether a type holds one, at any depth, that msgspec knows nothing about."""
    if id(info) in seen:
        return False
    seen.add(id(info))
    if isinstance(info, msgspec.inspect.CustomType):
        return True
    if isinstance(info, msgspec.Struct):
        return any(_has_custom(getattr(info, name), seen) for name in info.__struct_fields__)
    return isinstance(info, tuple) and any(_has_custom(one, seen) for one in info)


def _annotations(function: Callable[..., object]) -> dict[str, Any]:
    parameters = _signature(function).parameters.values()
    return {one.name: one.annotation for one in parameters if one.annotation is not one.empty}


def _hint(function: Callable[..., object], annotation: object) -> Any:  # noqa: ANN401 - a type
    """Read one annotation; a name that exists for type checkers alone can't be read."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", "")
    if text.strip("'\"") in _RUN_NAMES:
        return Run
    if not text:
        return annotation
    holder = type("Holder", (), {"__annotations__": {"value": text}})
    try:
        names = getattr(function, "__globals__", {})
        return get_type_hints(holder, globalns=names, include_extras=True)["value"]
    except Exception:  # noqa: BLE001 - as above
        return Any

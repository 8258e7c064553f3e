"""A test of a table: one test that tries every row and reports all rows that fail."""

from __future__ import annotations

import functools
import inspect
import traceback
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROW_SHOWN_MAX = 200


def each_row(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[..., Any]:
    """Run a test on every row of a table; as `pytest.mark.parametrize`, but as one test.

    For tables of values that need nothing made for each row: fixtures are shared by all rows.
    """
    wanted = tuple(one.strip() for one in names.split(",")) if isinstance(names, str) else names
    table = [row if len(wanted) > 1 else (row,) for row in rows]
    assert table, "a table without rows proves nothing"

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failed = []
            for row in table:
                try:
                    test(**fixtures, **dict(zip(wanted, row, strict=True)))
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - told below
                    failed.append(_told(row, error))
            if failed:
                head = f"{len(failed)} of {len(table)} rows fail:"
                pytest.fail("\n".join((head, *failed)), pytrace=False)

        signature = inspect.signature(test)
        left = [one for name, one in signature.parameters.items() if name not in wanted]
        assert len(left) + len(wanted) == len(signature.parameters), "a column is not asked for"
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate


def _told(row: tuple[Any, ...], error: BaseException) -> str:
    shown = ", ".join(map(ascii, row))
    shown = shown if len(shown) <= ROW_SHOWN_MAX else f"{shown[:ROW_SHOWN_MAX]}…"
    last = traceback.extract_tb(error.__traceback__)[-1]
    said = "\n    ".join(str(error).splitlines())
    return f"  {shown}\n    {last.filename}:{last.lineno}: {type(error).__name__}: {said}"

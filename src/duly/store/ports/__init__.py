"""What every store must do, one file per role; `store.py` puts them together as `Store`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duly.store.ports.store import Store as Store


# Mostly type checkers need the whole; a module that needs one role loads that role alone.
def __getattr__(name: str) -> object:
    """Fetch the whole from where it lives."""
    if name != "Store":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from duly.store.ports.store import Store

    return Store

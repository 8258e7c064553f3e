"""The memory store: serialised and simple, the model that every other store is compared with."""

from duly.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]

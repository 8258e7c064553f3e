"""The worker: claims queued runs, has them executed, and tells the store how they ended."""

from duly.engine.worker.service import Worker
from duly.engine.worker.settings import WorkerSettings

__all__ = ["Worker", "WorkerSettings"]

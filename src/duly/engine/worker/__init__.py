"""The worker: claims queued runs, has them executed, and tells the store how they ended."""

from duly.engine.worker.settings import WorkerSettings
from duly.engine.worker.worker import Worker

__all__ = ["Worker", "WorkerSettings"]

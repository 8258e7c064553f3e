"""A program with logging of its own: to a file, as JSON, with the ids of whichever run is logging."""

from __future__ import annotations

import asyncio
import logging.config
import os

import duly

app = duly.App()
LOGGER = logging.getLogger("shop.orders")


def set_up(path: str) -> None:
    """Set up logging, as docs/how-to/trace-and-log.md shows it."""
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "filters": {"run": {"()": "duly.RunLogFilter"}},
            "formatters": {"json": {"()": "duly.JsonLogFormatter"}},
            "handlers": {
                "file": {
                    "class": "logging.FileHandler",
                    "filename": path,
                    "filters": ["run"],
                    "formatter": "json",
                }
            },
            "root": {"level": "INFO", "handlers": ["file"]},
        }
    )


if "LOGGED_TO" in os.environ:
    set_up(os.environ["LOGGED_TO"])


@app.task
def in_thread() -> None:
    LOGGER.info("in a thread", extra={"order": 42, "items": {"a": 1}})


@app.task
async def awaited() -> None:
    await asyncio.to_thread(LOGGER.info, "beside the loop")


@app.task(kind="process")
def in_process() -> None:
    LOGGER.info("in a process")


@app.task
def complains() -> None:
    def fail() -> None:
        raise ValueError("two\nlines \x1b[31m\u0085\u2028")

    try:
        fail()
    except ValueError:
        LOGGER.exception("it \r\nfailed %s", "\x00")

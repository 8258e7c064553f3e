"""A program that orders in its own transaction, and is killed before or after its commit."""

from __future__ import annotations

import sys

import psycopg

import duly


def main(url: str, when: str) -> None:
    """Write a row and order a run; commit, or not; then wait to be killed."""
    app = duly.App(url)
    ship = app.task(name="ship")(lambda: None)
    connection = psycopg.connect(url)
    connection.execute("INSERT INTO orders VALUES (7)")
    app.enqueue(ship, delay="1s", key="order:7", connection=connection)
    if when == "after":
        connection.commit()
    print("ready", flush=True)  # noqa: T201 - what the test waits for
    sys.stdin.read()


main(*sys.argv[1:])

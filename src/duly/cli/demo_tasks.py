"""The application that the tour uses: one task, and whatever store the tour names."""

from __future__ import annotations

from duly.app import App

app = App(name="demo")


@app.task
def greet(name: str = "world") -> str:
    """Greet somebody; in this version the run waits in its queue."""
    return f"hello, {name}"

"""The application that a server serves, as a command on the same machine finds it."""

from __future__ import annotations

from duly.app import App

app = App("memory:")
"""Put in place by whoever serves it."""

"""The application: the composition root. The only place that knows a concrete store."""

from duly.app.application import App

__all__ = ["App"]

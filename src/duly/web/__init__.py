"""The web console: HTML pages for people, rendered by the server.

The console imports what `duly` exports. From `duly.api` it imports what serves both (`app`,
`middleware`, `requests`, `server`, `events`) and the names of views (`views`).
docs/decisions/0047-console.md explains how to add a page.
"""

from __future__ import annotations

from duly.web.console import Console

__all__ = ["Console"]

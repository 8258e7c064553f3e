"""The web console: pages that people look at, printed by the server.

The console imports what `duly` exports. Of `duly.api` it imports what both serve requests with
(`app`, `middleware`, `requests`, `server`, `events`) and the names of views (`views`).
docs/decisions/0047-console.md explains how to add a page.
"""

from __future__ import annotations

from duly.web.console import Console

__all__ = ["Console"]

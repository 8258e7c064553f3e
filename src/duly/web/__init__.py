"""The web console: pages that people look at, printed by the server.

It comes in by the front door: it knows what `duly` exports, and of `duly.api` the front that it
shares with the API (`front`, `asgi`, `problems`, `reading`, `security`, `table`, `settings`) and
the names of views (`views`). How to add a page is said in docs/decisions/0047-console.md.
"""

from __future__ import annotations

from duly.web.console import Console

__all__ = ["Console"]

"""The HTTP API: one table of routes, from which requests are served, checked and described."""

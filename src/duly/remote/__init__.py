"""A program's way to a server of the API: what `duly.App` offers, over HTTP."""

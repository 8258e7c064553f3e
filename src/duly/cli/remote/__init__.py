"""Commands over HTTP: a server that is asked through what commands know of an application."""

"""The command line: parse, ask the application or the domain, print. Each command has its file."""

import gc

gc.set_threshold(50_000)
"""What is imported stays: looking through it for garbage took a tenth of a short command's time."""

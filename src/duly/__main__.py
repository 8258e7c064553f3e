"""`python -m duly` is `duly`."""

from duly.cli.main import main

main()

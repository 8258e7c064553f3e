"""The command line: parse, ask the application or the domain, print. Each command has its file."""

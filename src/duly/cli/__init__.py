"""The command line: parse, ask the domain, print. Each command has its own file, loaded on use."""

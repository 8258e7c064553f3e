"""A process that boots a server, says where it is, and waits to be killed."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.postgres.server import Server


def main(folder: Path) -> None:
    """Hold the server that is shared through a folder."""
    server = Server.shared(folder)
    sys.stdout.write(f"{server.premises.path} {server.url('postgres')}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

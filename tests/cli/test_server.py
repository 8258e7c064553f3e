"""`duly server`: open to nobody by accident, and until it is told to stop."""

from __future__ import annotations

import json
import os
import signal

import httpx

from tests.cli.duly_command import duly as command
from tests.forked_commands import start_and_read
from tests.waiting import LIMIT_S, read_line

EVERYWHERE = "0.0.0.0"  # noqa: S104 - what is refused


def test_the_command_refuses_to_be_open(tmp_path):
    result = command("server", "--host", EVERYWHERE, folder=tmp_path)

    assert 2 == result.status
    assert "--behind-proxy" in result.err


def test_the_command_serves_until_it_is_told_to_stop(tmp_path):
    """While nobody has a token, it prints a code that begins one session."""
    words = ["duly", "server", "--port=0", "--json"]
    with start_and_read(words, os.environ, tmp_path) as server:
        lines = [json.loads(read_line(server)) for _ in range(2)]
        facts = {line["event"]: line for line in lines}
        code = {"code": facts["code"]["code"]}
        url = facts["started"]["url"]
        answers = [
            httpx.post(f"{url}/api/v1/session", json=code, timeout=LIMIT_S) for _ in range(2)
        ]
        os.kill(server.pid, signal.SIGTERM)
        status = server.wait(LIMIT_S)

    assert url.startswith("http://127.0.0.1:")
    assert not url.endswith(":0")
    assert [200, 401] == [answer.status_code for answer in answers]
    assert 0 == status

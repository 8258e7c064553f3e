"""`duly server`: open to nobody by accident, and until it is told to stop (L1)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import httpx

from tests.api.ports import EVERYWHERE, SOON, free_port
from tests.cli.duly_command import duly as command
from tests.forked_commands import bound


def test_the_command_refuses_to_be_open(tmp_path):
    """L1."""
    result = command("server", "--host", EVERYWHERE, folder=tmp_path)

    assert 2 == result.status
    assert "--behind-proxy" in result.err


def test_the_command_serves_until_it_is_told_to_stop(tmp_path):
    """L1: while nobody has a token, it prints a code that begins one session."""
    port = free_port()
    words = bound(sys.executable, "-m", "duly", "server", f"--port={port}", "--json")
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        lines = [json.loads(server.stdout.readline()) for _ in range(2)]
        facts = {line["event"]: line for line in lines}
        code = {"code": facts["code"]["code"]}
        answers = [
            httpx.post(f"http://127.0.0.1:{port}/api/v1/session", json=code, timeout=SOON)
            for _ in range(2)
        ]
        os.kill(server.pid, signal.SIGTERM)
        status = server.wait(SOON)

    assert f"http://127.0.0.1:{port}" == facts["started"]["url"]
    assert [200, 401] == [answer.status_code for answer in answers]
    assert 0 == status

"""Servers for alerts, closed when a test is over."""

from __future__ import annotations

import pytest

from tests.engine.alert_channels.rig import CANARY, Liar, Postbox, made_certificate
from tests.engine.webhooks.conftest import closing, receive, receive_raw
from tests.engine.webhooks.rig import KEY

__all__ = ["closing", "receive", "receive_raw"]


@pytest.fixture
def postbox(closing):
    """Return a function that starts a mail server."""

    def start(*arguments, **options):
        made = Postbox(*arguments, **options)
        closing.callback(made.close)
        return made

    return start


@pytest.fixture
def liar(closing):
    def start(talk):
        made = Liar(talk)
        closing.callback(made.close)
        return made

    return start


@pytest.fixture
def certificate(tmp_path):
    return made_certificate(tmp_path, "IP:127.0.0.1,DNS:localhost")


@pytest.fixture(autouse=True)
def secrets(monkeypatch):
    monkeypatch.setenv("DULY_SECRET_KEY", KEY)
    monkeypatch.setenv("DULY_SECRET_PASSWORD", CANARY)
    monkeypatch.setenv("ELSEWHERE", CANARY)

"""Servers and senders that are closed when a test is over."""

from __future__ import annotations

import contextlib

import pytest
from aiohttp import web

from tests.engine.webhooks.rig import RawReceiver, Receiver, Sender


@pytest.fixture
def closing():
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def receive(closing):
    """Return a function that starts a server; without an answer of its own, it says 204."""

    async def agree(request):
        return web.Response(status=204)

    def start(answer=agree, certified=None):
        receiver = Receiver(answer, certified)
        closing.callback(receiver.close)
        return receiver

    return start


@pytest.fixture
def receive_raw(closing):
    def start(talk):
        receiver = RawReceiver(talk)
        closing.callback(receiver.close)
        return receiver

    return start


@pytest.fixture
def sender(closing):
    """Return a function that starts an executor with an operator's allow-list."""

    def start(*allow, **options):
        made = Sender(allow, **options)
        closing.callback(made.executor.close)
        return made

    return start

"""Waiting places: woken from anywhere, never late, never an error."""

from __future__ import annotations

import signal
import socket
import threading

import pytest

from duly.store.wakeups import LOOPBACK, LocalWakeups, UdpWakeups, WakeAddress, wake_all

LONG_US = 120 * 1_000_000


@pytest.fixture(params=[UdpWakeups, LocalWakeups])
def place(request):
    made = request.param()
    yield made
    made.close()


def test_a_wait_that_nobody_ends_ends_by_itself(place):
    assert not place.wait(1000)


@pytest.mark.parametrize("timeout_us", [0, -1])
def test_no_time_is_no_wait(place, timeout_us):
    assert not place.wait(timeout_us)


def test_a_wake_up_before_the_wait_is_kept_and_told_once(place):
    place.wake()
    place.wake()

    assert place.wait(LONG_US)
    assert not place.wait(0)


def test_another_thread_wakes(place):
    thread = threading.Thread(target=place.wake)
    thread.start()

    assert place.wait(LONG_US)
    thread.join()


def test_a_signal_handler_wakes(place):
    previous = signal.signal(signal.SIGALRM, lambda *_: place.wake())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)

        assert place.wait(LONG_US)
    finally:
        signal.signal(signal.SIGALRM, previous)


def test_closing_ends_the_wait(place):
    thread = threading.Thread(target=place.wait, args=(100 * LONG_US,), daemon=True)
    thread.start()
    place.close()
    thread.join(timeout=120)

    assert not thread.is_alive()


def test_a_longer_wait_than_the_system_can_count_is_a_wait(place):
    place.wake()

    assert place.wait(1 << 62)


def test_a_closed_place_waits_for_nothing():
    place = UdpWakeups()
    place.close()

    assert not place.wait(LONG_US)
    place.wake()


def test_a_place_is_woken_by_its_address():
    place = UdpWakeups()
    wake_all(["", "udp:127.0.0.1:nonsense", "udp:127.0.0.1:99999", place.address])

    assert place.address.startswith("udp:127.0.0.1:")
    assert place.wait(LONG_US)
    place.close()


def test_nobody_beyond_this_host_is_ever_called(monkeypatch):
    """An address in the store is data that anybody who writes there may choose."""
    called: list[object] = []
    monkeypatch.setattr(socket, "socket", lambda *_: called.append(_))
    wake_all(["udp:192.0.2.1:53", "tcp:127.0.0.1:1", "nonsense"])

    assert [] == called


@pytest.fixture
def asking():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((LOOPBACK, 0))
        sender.settimeout(0)
        yield sender


def test_a_place_says_that_it_is_on_this_host_and_is_not_woken_by_the_question(asking):
    place = UdpWakeups()
    plate = WakeAddress.read(place.doorplate.address)
    assert plate is not None
    asking.sendto(plate.question, (LOOPBACK, plate.port))

    assert not place.wait(LONG_US)
    assert plate.answer == asking.recv(100)
    place.close()


def test_a_place_does_not_answer_for_another_one_at_the_same_port(asking):
    place = UdpWakeups()
    other = place.doorplate._replace(token=bytes(8))
    asking.sendto(other.question, (LOOPBACK, other.port))

    assert not place.wait(LONG_US)
    with pytest.raises(BlockingIOError):
        asking.recv(100)
    place.close()


@pytest.mark.parametrize(
    "address", ["", "duly_work", "udp:127.0.0.1:7", "udp:127.0.0.1:x:00", "udp:127.0.0.1:70000:00"]
)
def test_not_every_address_is_a_doorplate(address):
    assert WakeAddress.read(address) is None

"""Alerts by mail, through real servers that agree, refuse, hang, lie and break off."""

from __future__ import annotations

import itertools
import logging
import socket
import threading
from base64 import b64decode
from contextlib import closing
from ipaddress import ip_address

import pytest

from duly.domain.alert_channels import MailPlan, plan_of, read_channel
from duly.engine.alerts.channels import CUT_S_MAX, LEFT_MAX, DeliveryDeadline
from duly.engine.alerts.mail_channel import MailServer
from tests.engine.alert_channels.rig import (
    ALERT,
    CANARY,
    DELIVERY,
    TryLimit,
    await_tries,
    made_certificate,
    notice,
    opened,
)
from tests.waiting import LIMIT_S

PASSWORD = {"secret": "env:DULY_SECRET_PASSWORD"}


def mail(server, limit=None, **options):
    wait = threading.Event.wait if limit is None else limit.wait
    return opened("smtp", server.options(**options), server.place, wait=wait)


def test_a_notice_becomes_a_message_for_every_recipient(postbox):
    """Who, when and what are in its headers; both forms say it."""
    box = postbox()
    people = ["ada@example.com", "grace@example.org"]

    assert mail(box, recipients=people).deliver(notice()).is_done

    letter = box.letters[0]
    told = letter.message
    assert ("duly@example.com", people) == (letter.sender, letter.recipients)
    assert "[Duly page] missing-run: schedule nightly-report" == told["Subject"]
    assert ("duly@example.com", ", ".join(people)) == (told["From"], told["To"])
    assert notice().at == told["Date"].datetime
    assert ("auto-generated", "high") == (told["Auto-Submitted"], told["Importance"])
    assert f"<{ALERT}.alert@example.com>" == told["References"]
    assert "duly run missing --schedule nightly-report" in letter.part("plain")
    assert "<pre>duly run missing --schedule nightly-report</pre>" in letter.part("html")
    assert letter.raw.isascii()


def test_the_same_delivery_is_the_same_message_in_every_try(postbox):
    """A receiver tells a repetition by the id of the delivery, whoever sends it."""
    box = postbox()
    mail(box).deliver(notice())
    mail(box).deliver(notice())

    assert box.letters[0].raw == box.letters[1].raw
    assert f"<{DELIVERY}@example.com>" == box.letters[0].message["Message-ID"]


def test_words_of_every_script_arrive_as_they_are(postbox):
    box = postbox()
    mail(box).deliver(notice(subject="schedule Übertrag 日報", summary="Überfällig: 日報 🕑"))

    assert box.letters[0].message["Subject"].endswith("schedule Übertrag 日報")
    assert "Überfällig: 日報 🕑" in box.letters[0].part("plain")


HOSTILE = "x\r\nBcc: eve@example.com\r\n\r\n<script>alert(1)</script>\u202egnp\u200b\x00\ud800"


def test_a_hostile_text_adds_no_header_no_recipient_and_no_markup(postbox):
    """A schedule's name is whatever somebody typed."""
    box = postbox()
    hostile = dict.fromkeys(("subject", "summary", "remedy", "tenant", "kind"), HOSTILE)
    evidence = {HOSTILE: HOSTILE, "deep": [{"a": HOSTILE}]}

    assert mail(box).deliver(notice(evidence=evidence, **hostile)).is_done

    letter = box.letters[0]
    told = letter.message
    assert (["ada@example.com"], None) == (letter.recipients, told["Bcc"])
    assert 1 == len(told.get_all("Subject"))
    assert "<script>" not in letter.part("html")
    for text in (told["Subject"], letter.part("plain"), letter.part("html")):
        assert not {"\u202e", "\u200b", "\x00", "\ud800"} & set(text)


def test_an_encoded_word_is_not_decoded_into_another_header(postbox):
    """Printable ASCII that Python's own messages would decode into a line of its own."""
    box = postbox()
    name = "=?utf-8?q?x=0d=0aBcc:_eve@evil.example?="

    assert mail(box).deliver(notice(subject=f"schedule {name}")).is_done

    letter = box.letters[0]
    assert (["ada@example.com"], None) == (letter.recipients, letter.message["Bcc"])
    assert b"\nBcc:" not in letter.raw
    assert letter.message["Subject"].endswith("schedule = ?utf-8?q?x=0d=0aBcc:_eve@evil.example?=")


def test_a_text_of_a_megabyte_is_cut(postbox):
    box = postbox()
    huge = dict.fromkeys(("subject", "summary", "remedy", "tenant"), "é" * 1_000_000)
    evidence = {f"{number}": "é" * 1_000_000 for number in range(50)}

    assert mail(box).deliver(notice(evidence=evidence, **huge)).is_done

    assert len(box.letters[0].raw) < 250_000
    assert max(map(len, box.letters[0].raw.split(b"\r\n"))) <= 998


@pytest.mark.parametrize(
    ("answer", "is_final"), [("451 come again", False), ("421 busy", False), ("554 never", True)]
)
@pytest.mark.parametrize("phase", ["sender", "recipients", "data"])
def test_a_server_that_refuses_for_now_is_asked_again_and_one_that_refuses_is_not(
    postbox, phase, answer, is_final
):
    box = postbox()
    setattr(box.decisions, phase, {"ada@example.com": answer} if phase == "recipients" else answer)
    result = mail(box).deliver(notice())

    assert (False, is_final) == (result.is_done, result.is_final)
    assert answer in result.detail
    assert [] == box.letters


def test_who_was_put_off_is_written_to_again_and_the_others_are_not(postbox):
    box = postbox()
    box.decisions.recipients["grace@example.org"] = "451 greylisted"
    channel = mail(box, recipients=["ada@example.com", "grace@example.org"])
    first = channel.deliver(notice())
    box.decisions.recipients.clear()
    second = channel.deliver(notice())

    assert (False, False, True) == (first.is_done, first.is_final, second.is_done)
    assert "grace@example.org: 451 greylisted" in first.detail
    assert [["ada@example.com"], ["grace@example.org"]] == [one.recipients for one in box.letters]


def test_an_address_that_does_not_exist_does_not_repeat_what_others_have(postbox):
    box = postbox()
    box.decisions.recipients["nobody@example.org"] = "550 no such user"
    result = mail(box, recipients=["ada@example.com", "nobody@example.org"]).deliver(notice())

    assert result.is_done
    assert "nobody@example.org: 550 no such user" in result.detail


def test_when_some_have_it_and_the_rest_is_then_refused_it_is_done(postbox):
    box = postbox()
    box.decisions.recipients["grace@example.org"] = "451 greylisted"
    channel = mail(box, recipients=["ada@example.com", "grace@example.org"])
    channel.deliver(notice())
    box.decisions.recipients["grace@example.org"] = "550 no such user"

    assert channel.deliver(notice()).is_done
    assert 1 == len(box.letters)


@pytest.mark.parametrize("is_secure_at_once", [False, True])
def test_a_login_is_made_under_tls(postbox, certificate, monkeypatch, is_secure_at_once):
    """The password is read by reference; a certificate is trusted that the operator names."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.path))
    box = postbox(
        certificate.context,
        is_secure_at_once=is_secure_at_once,
        auth_required=not is_secure_at_once,
        auth_require_tls=not is_secure_at_once,
    )
    box.decisions.passwords["duly"] = CANARY
    security = "tls" if is_secure_at_once else "starttls"
    channel = mail(box, security=security, username="duly", password=PASSWORD)

    result = channel.deliver(notice())

    assert ("", True) == (result.detail, result.is_done)
    assert [(True, "duly")] == [(one.is_secure, one.login) for one in box.letters]


@pytest.mark.parametrize(("refusal", "is_final"), [("535 {password}?", True), ("454 later", False)])
def test_a_server_that_repeats_the_password_does_not_get_it_into_the_record(
    postbox, certificate, monkeypatch, caplog, refusal, is_final
):
    """Neither in the detail nor in a log."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.path))
    box = postbox(certificate.context)
    box.decisions.login_refusal = refusal
    channel = mail(box, security="starttls", username="duly", password=PASSWORD)
    result = channel.deliver(notice())

    assert (False, is_final) == (result.is_done, result.is_final)
    assert refusal[:3] in result.detail
    assert CANARY not in result.detail
    assert not [one for one in caplog.messages if "duly" in one and CANARY in one]
    assert [] == box.letters


def test_a_server_that_repeats_a_login_as_it_was_sent_does_not_get_it_into_the_record(liar):
    """Name and password go together, in base64."""
    heard = []

    def talk(connection, over):
        connection.sendall(b"220 hello\r\n")
        connection.recv(1000)
        connection.sendall(b"250-here\r\n250 AUTH PLAIN\r\n")
        heard.append(connection.recv(1000).split()[-1])
        connection.sendall(b"535 what is " + heard[0] + b"\r\n")

    # Of another length than three, so that the password is not a part of it in base64.
    result = mail(liar(talk), username="mailer", password=PASSWORD).deliver(notice())

    assert f"\0mailer\0{CANARY}" == b64decode(heard[0]).decode()
    assert "535 what is" in result.detail
    assert heard[0].decode()[-12:] not in result.detail


def test_a_password_that_is_not_here_is_looked_for_again(postbox, monkeypatch):
    monkeypatch.delenv("DULY_SECRET_PASSWORD")
    result = mail(postbox(), username="duly", password=PASSWORD).deliver(notice())

    assert (False, False) == (result.is_done, result.is_final)
    assert "env:DULY_SECRET_PASSWORD" in result.detail


def test_a_reference_to_what_the_operator_did_not_set_apart_is_refused_for_good(postbox):
    """A channel is data, and must not read the whole environment of whoever sends."""
    channel = mail(postbox(), username="duly", password={"secret": "env:ELSEWHERE"})
    result = channel.deliver(notice())

    assert (False, True) == (result.is_done, result.is_final)
    assert CANARY not in result.detail


def test_a_password_that_no_server_takes_is_not_told(postbox, monkeypatch):
    monkeypatch.setenv("DULY_SECRET_PASSWORD", "geheim-ü-wort")
    result = mail(postbox(), username="duly", password=PASSWORD).deliver(notice())

    assert not result.is_done
    assert "geheim" not in result.detail


def test_without_starttls_nothing_is_sent_where_it_is_demanded(postbox):
    """A stranger between us would only have to leave the offer out."""
    box = postbox()
    channel = mail(box, security="starttls", username="duly", password=PASSWORD)
    result = channel.deliver(notice())

    assert (False, False, []) == (result.is_done, result.is_final, box.letters)
    assert "STARTTLS" in result.detail


@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_a_certificate_that_nobody_vouches_for_gets_nothing(postbox, certificate, security):
    box = postbox(certificate.context, is_secure_at_once=security == "tls")
    result = mail(box, security=security).deliver(notice())

    assert (False, False, []) == (result.is_done, result.is_final, box.letters)
    assert "certificate" in result.detail


def test_a_certificate_of_another_name_gets_nothing(postbox, tmp_path, monkeypatch):
    other = made_certificate(tmp_path, "DNS:elsewhere.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(other.path))
    box = postbox(other.context, is_secure_at_once=True)
    result = mail(box, security="tls").deliver(notice())

    assert (False, []) == (result.is_done, box.letters)
    assert "certificate" in result.detail


def test_a_server_that_does_not_speak_tls_gets_nothing(postbox):
    box = postbox()
    result = mail(box, security="tls", timeout="1m").deliver(notice())

    assert (False, False, []) == (result.is_done, result.is_final, box.letters)


def silent(connection, over):
    over.wait()


def dripping(connection, over):
    """One byte now and then: no single read ever takes long."""
    for byte in itertools.cycle(b"220-wait\r\n"):
        connection.sendall(bytes([byte]))
        if over.wait(0.02):
            return


@pytest.mark.parametrize("talk", [silent, dripping])
def test_a_slow_server_is_left_when_its_time_is_up(liar, talk):
    limit = TryLimit()

    def slow(connection, over):
        limit.end()
        talk(connection, over)

    result = mail(liar(slow), limit, timeout="1m").deliver(notice())

    assert (False, False) == (result.is_done, result.is_final)
    assert "within 1m" in result.detail
    await_tries()  # nobody stays behind to listen


def connected(server, tether, **options):
    plan = plan_of(read_channel("ops", "smtp", server.options(**options)))
    assert isinstance(plan, MailPlan)
    return MailServer(plan, [ip_address("127.0.0.1")], tether)


def test_the_socket_waits_longer_than_the_try(liar):
    """So it is always the try that tells that its time was up, and not one read of it."""

    def talk(connection, over):
        connection.sendall(b"220 hello\r\n")
        over.wait()

    tether = DeliveryDeadline()
    with closing(tether), closing(connected(liar(talk), tether, timeout="20s")) as server:
        assert 20 < server.sock.gettimeout() == 20 + CUT_S_MAX


@pytest.mark.parametrize("security", ["none", "tls"])
def test_a_connection_that_was_made_too_late_is_closed(liar, security):
    """At once, although the error that was raised still refers to it."""
    heard, is_closed = [], threading.Event()

    def talk(connection, over):
        heard.append(connection.recv(1000))
        is_closed.set()

    tether = DeliveryDeadline()
    tether.cut()
    with pytest.raises(TimeoutError) as raised:
        connected(liar(talk), tether, security=security)
    tether.close()

    assert raised.value.args
    assert is_closed.wait(LIMIT_S)
    assert [b""] == heard


def test_a_server_that_drips_after_tls_has_begun_is_left_as_well(liar):
    """The handshake has the connection by then."""
    limit, heard = TryLimit(), list[bytes]()

    def talk(connection, over):
        connection.sendall(b"220 hello\r\n")
        connection.recv(1000)
        connection.sendall(b"250-here\r\n250 STARTTLS\r\n")
        connection.recv(1000)
        connection.sendall(b"220 go on\r\n")
        heard.append(connection.recv(1000)[:1])
        limit.end()
        over.wait()

    channel = mail(liar(talk), limit, security="starttls", timeout="1m")
    result = channel.deliver(notice())

    assert not result.is_done
    assert "within 1m" in result.detail
    assert [b"\x16"] == heard, "a handshake of TLS has begun"
    await_tries()


def test_a_server_that_never_ends_its_reply_is_left(liar):
    def talk(connection, over):
        while not over.is_set():
            connection.sendall(b"220-and " * 100 + b"\r\n")

    result = mail(liar(talk)).deliver(notice())

    assert (False, False) == (result.is_done, result.is_final)
    assert "more than 65,536 bytes" in result.detail


@pytest.mark.parametrize("steps", range(5))
def test_a_connection_that_breaks_off_is_made_again(liar, steps):
    """At the greeting, and after each thing we say."""

    def talk(connection, over):
        if steps:
            connection.sendall(b"220 hello\r\n")
        for _ in range(steps):
            is_data = connection.recv(1000).lower().startswith(b"data")
            connection.sendall(b"354 go on\r\n" if is_data else b"250 OK\r\n")

    result = mail(liar(talk)).deliver(notice())

    assert (False, False) == (result.is_done, result.is_final)
    assert "could not be asked" in result.detail


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 200 OK\r\n\r\n", b"\xff\xfe\x00\r\n", b"2"])
def test_a_server_that_speaks_something_else_raises_nothing(liar, garbage):
    result = mail(liar(lambda connection, _: connection.sendall(garbage))).deliver(notice())

    assert not result.is_done


def test_what_a_server_says_is_one_short_line(liar):
    def talk(connection, over):
        connection.sendall(b"554-\x1b[2J" + b"x" * 3000 + b"\r\n554 \xe2\x80\xae gone\r\n")

    result = mail(liar(talk)).deliver(notice())

    assert result.is_final
    assert len(result.detail) <= 500
    assert result.detail.isprintable()


def test_where_nobody_listens_is_asked_again(postbox):
    with socket.socket() as taken:  # so that nobody else begins to
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        options = postbox().options(port=port)
        result = opened("smtp", options, f"127.0.0.1:{port}").deliver(notice())

    assert (False, False) == (result.is_done, result.is_final)


@pytest.mark.parametrize(
    ("host", "port", "found"),
    [
        ("127.0.0.1", 25, "a loopback address"),
        ("10.1.2.3", 587, "a private address"),
        ("169.254.169.254", 25, "metadata"),
        ("mail.example.com", 22, "not one for mail"),
        ("mail.example.com", 80, "not one for mail"),
    ],
)
def test_an_address_inside_is_refused_for_good(host, port, found):
    """Whoever may set a channel up does not reach the operator's network by it."""
    options = {"host": host, "port": port, "sender": "a@b.example", "recipients": ["c@d.example"]}
    channel = opened("smtp", options, lookup=lambda *_: ["93.184.215.14"])
    result = channel.deliver(notice())

    assert (False, True) == (result.is_done, result.is_final)
    assert found in result.detail


def test_a_name_that_leads_inside_is_refused_whole(postbox):
    box = postbox()
    options = box.options(host="mail.example.com", port=25)
    channel = opened("smtp", options, lookup=lambda *_: ["93.184.215.14", "127.0.0.1"])

    assert channel.deliver(notice()).is_final


def test_a_name_is_looked_up_once_and_what_was_found_is_connected_to(postbox):
    box = postbox()
    asked = []

    def turning(host, port):
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["93.184.215.14"]

    options = box.options(host="mail.example.com", security="none")
    channel = opened("smtp", options, f"mail.example.com:{box.port}", lookup=turning)

    assert channel.deliver(notice()).is_done
    assert ["mail.example.com"] == asked


def test_localhost_without_tls_must_be_this_machine(postbox):
    box = postbox()
    options = box.options(host="localhost")
    allow = ("10.0.0.0/8", f"10.0.0.9:{box.port}")
    result = opened("smtp", options, *allow, lookup=lambda *_: ["10.0.0.9"]).deliver(notice())

    assert result.is_final
    assert "without TLS" in result.detail


def test_a_lookup_that_hangs_holds_nobody_up_and_only_so_many_may(postbox):
    box = postbox()
    released, limit = threading.Event(), TryLimit()

    def hanging(host, port):
        limit.end()
        released.wait()
        return ["127.0.0.1"]

    options = box.options(host="mail.example.com", security="none", timeout="1m")
    place = f"mail.example.com:{box.port}"
    channel = opened("smtp", options, place, lookup=hanging, wait=limit.wait)
    try:
        details = [channel.deliver(notice()).detail for _ in range(LEFT_MAX + 1)]
    finally:
        released.set()
    await_tries()

    assert LEFT_MAX == sum("within 1m" in one for one in details)
    assert "have not ended yet" in details[-1]
    assert [] == box.letters

"""Where a token is sent, and where it comes from."""

from __future__ import annotations

import os
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import duly
from duly.remote.address import find_token, read_address
from tests.required_programs import required_program

TOKEN = "duly_abc_def"  # noqa: S105


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host",
        "host:8420",
        "http://",
        "https://user:secret@host",
        "https://duly_token@host",
        "https://host/?token=x",
        "https://host/#x",
        "https://host:99999",
        "https://ho st",
        "http://example.com:8420",
        "http://127.0.0.1.example.com",
        "http://localhost.example.com",
        7,
    ],
)
def test_what_is_no_safe_address_is_refused(url):
    """A token goes by HTTPS, or stays on this machine."""
    with pytest.raises(duly.UsageError) as caught:
        duly.connect(url, token=TOKEN)

    assert "url" == caught.value.field
    assert "secret" not in str(caught.value).replace("a secret in it", "")
    assert "duly_token" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://Host.example:8420/", "https://host.example:8420"),
        ("https://host/duly", "https://host/duly"),
        ("http://localhost:80", "http://localhost"),
        ("http://[::1]:8420", "http://[::1]:8420"),
        ("http://127.0.0.2:8420", "http://127.0.0.2:8420"),
    ],
)
def test_addresses_are_read(url, shown):
    assert shown == read_address(url).url


def test_a_token_in_the_clear_is_somebody_s_choice():
    assert (
        "http://example.com"
        == duly.connect("http://example.com", token=TOKEN, allow_plain=True).url
    )


def test_tokens_come_from_the_call_the_environment_or_a_file(tmp_path, monkeypatch):
    address = read_address("https://host:8420")
    file = tmp_path / "credentials"
    monkeypatch.delenv("DULY_TOKEN", raising=False)
    with pytest.raises(duly.Unauthenticated, match="DULY_TOKEN"):
        find_token(address, file=file)
    file.write_text("https://other x\nhttps://host:8420 duly_file\n")
    file.chmod(0o600)

    assert "duly_file" == find_token(address, file=file)
    monkeypatch.setenv("DULY_TOKEN", "duly_variable")
    assert "duly_variable" == find_token(address, file=file)
    assert "duly_given" == find_token(address, "duly_given", file)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
def test_a_file_that_others_can_read_is_refused(tmp_path, monkeypatch):
    """A secret that others can read is none."""
    monkeypatch.delenv("DULY_TOKEN", raising=False)
    file = tmp_path / "credentials"
    file.write_text("https://host duly_file\n")
    file.chmod(0o640)
    with pytest.raises(duly.UsageError, match="chmod 600") as caught:
        find_token(read_address("https://host"), file=file)

    assert "duly_file" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX: y", "ü", 7, "x" * 501])
def test_what_is_no_token_is_refused_and_not_repeated(token):
    with pytest.raises(duly.UsageError) as caught:
        duly.connect("https://host", token=token)

    assert "token" == caught.value.field
    assert "X: y" not in str(caught.value)


def test_a_context_that_verifies_nobody_is_refused():
    """Whoever answers proves who they are."""
    blind = ssl.create_default_context()
    blind.check_hostname = False
    blind.verify_mode = ssl.CERT_NONE
    with pytest.raises(duly.UsageError, match="verify"):
        duly.connect("https://host", token=TOKEN, tls=blind)


@pytest.fixture
def stranger(tmp_path):
    """A server whose certificate nobody vouches for, and the certificate."""
    program = str(required_program("openssl"))
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = [program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    name = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run([*made, "-nodes", "-subj", "/CN=here", *name], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = HTTPServer(("127.0.0.1", 0), Elsewhere)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{server.server_port}", certificate
    server.shutdown()
    server.server_close()


def test_no_token_is_sent_to_whom_nobody_vouches_for(stranger):
    """A server proves who it is before it is told anything, unless its authority is named."""
    url, certificate = stranger
    Elsewhere.asked.clear()
    with (
        duly.connect(url, token=TOKEN) as remote,
        pytest.raises(duly.StoreError, match="not trusted"),
    ):
        remote.status()
    with (
        duly.connect(url, token=TOKEN) as remote,
        pytest.raises(duly.StoreError, match="not trusted"),
    ):
        next(remote.events(after=0))
    assert [] == Elsewhere.asked
    ours = ssl.create_default_context(cafile=str(certificate))
    with (
        duly.connect(url, token=TOKEN, tls=ours) as remote,
        pytest.raises(duly.StoreError, match="redirects"),
    ):
        remote.status()

    assert ["/api/v1/status"] == Elsewhere.asked


class Elsewhere(BaseHTTPRequestHandler):
    """Sends everybody to another server."""

    asked: list[str] = []  # noqa: RUF012 - shared on purpose

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(307)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_redirects_are_not_followed():
    """A token is not sent on to where a stranger points."""
    Elsewhere.asked.clear()
    server = HTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with (
        duly.connect(f"http://127.0.0.1:{server.server_port}", token=TOKEN) as remote,
        pytest.raises(duly.StoreError, match="redirects are not followed"),
    ):
        remote.status()
    server.shutdown()
    server.server_close()

    assert ["/api/v1/status"] == Elsewhere.asked

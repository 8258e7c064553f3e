"""Where a webhook may not go: hostile URLs, special networks, and the operator's exceptions."""

from __future__ import annotations

import asyncio
import ipaddress
import re

import pytest

from duly.domain.outbound_urls import ConnectTarget, judge, read_allow_list, read_web_address
from duly.domain.outcomes import Failed
from duly.domain.runs import Reason
from duly.engine.executors.address_guard import AddressGuard, RefusedAddress
from duly.errors import UsageError
from tests.each_row import each_row

# Names are looked up here, so that the table holds without a network.
NAMES = {
    "localhost": ["127.0.0.1", "::1"],
    "localhost.localdomain": ["127.0.0.1"],
    "127.0.0.1.nip.io": ["127.0.0.1"],
    "metadata.google.internal": ["169.254.169.254"],
    "db": ["10.0.0.5"],
    "intranet.example": ["192.168.1.1"],
    "mixed.example": ["93.184.215.14", "10.0.0.5"],
    "six.example": ["fd12:3456::1"],
    "mapped.example": ["::ffff:10.0.0.1"],
    "scoped.example": ["fe80::1%eth0"],
    "xn--lcalhost-54a.example": ["127.0.0.1"],
    "public.example": ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"],
}

UNREADABLE = [
    "",
    " ",
    "/hook",
    "example.com/hook",
    "//example.com/hook",
    "http:/example.com",
    "http:example.com",
    "http://",
    "http:///hook",
    "https://:443/",
    "file:///etc/passwd",
    "ftp://example.com/",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "dict://127.0.0.1:11211/stats",
    "unix:///var/run/docker.sock",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/info",
    "jar:http://127.0.0.1!/",
    "javascript:alert(1)",
    "data:text/plain,hello",
    "http://user@example.com/",
    "http://user:password@example.com/",
    "http://example.com@127.0.0.1/",
    "http://127.0.0.1#@example.com/",
    "http://example.com\\@127.0.0.1/",
    "http://127.0.0.1\\.example.com/",
    "http://example.com/\r\nHost: internal",
    "http://example.com/ HTTP/1.1",
    "http://example.com/\thook",
    "http://exam\x00ple.com/",
    "http://example.com:0/",
    "http://example.com:65536/",
    "http://example.com:99999999/",
    "http://example.com:-80/",
    "http://example.com:80:80/",
    "http://example.com:\uff18\uff10/",
    "http://[::1/",
    "http://::1/",
    "http://[::1]x/",
    "http://[fe80::1%25eth0]/",
    "http://[v1.fe80::a]/",
    "http://[127.0.0.1]/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0x0.0x0.0x1/",
    "http://017700000001/",
    "http://0177.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.0.0.01/",
    "http://127.0.0.1.0x1/",
    "http://0/",
    "http://256.256.256.256/",
    "http://3232235777/",
    "http://1.2.3.4.5/",
    "http://%31%32%37.0.0.1/",
    "http://example.com%00.internal/",
    "http://-example.com/",
    "http://example..com/",
    "http://example.com../",
    "http://" + "a" * 64 + ".com/",
    "http://" + "a." * 127 + "com/",
    "http://example.com/" + "a" * 2_000,
    "http://exa*mple.com/",
    "http://fa\u00df.example/",
    "http://example.com\u200d/",
    "http://\u2488\u2488/",
    "http://example.com/%zz",
    "http://example.com/hook#part",
    "http://example。com\uff0fpath/",
]

OUT_OF_BOUNDS = [
    "http://127.0.0.1/",
    "http://127.0.0.1:8080/",
    "http://127.255.255.254/",
    "HTTP://127.0.0.1./",
    "http://localhost/",
    "http://LOCALHOST./",
    "http://ⓛocalhost/",
    "http://localhost.localdomain:8000/",
    "http://127.0.0.1.nip.io/",
    "http://\uff11\uff12\uff17.\uff10.\uff10.\uff11/",
    "http://127。0。0。1/",
    "http://0.0.0.0/",
    "http://0.1.2.3/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.0.1/",
    "http://100.64.0.1/",
    "http://169.254.1.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.170.2/v2/credentials",
    "http://100.100.100.200/latest/meta-data/",
    "http://168.63.129.16/machine",
    "http://192.0.0.192/opc/v1/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://192.0.2.1/",
    "http://198.51.100.7/",
    "http://203.0.113.9/",
    "http://198.18.0.1/",
    "http://192.88.99.1/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://[::]/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b::a00:1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b:1::a00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:a00:1::1]/",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
    "http://[2001:10::1]/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/latest/",
    "http://[fd20:ce::254]/",
    "http://[ff02::1]/",
    "http://[5f00::1]/",
    "http://[4000::1]/",
    "http://[100::1]/",
    "http://db/",
    "https://intranet.example/",
    "https://mixed.example/",
    "https://six.example/",
    "https://mapped.example/",
    "https://scoped.example/",
    "http://public.example:22/",
    "http://public.example:25/",
    "http://public.example:6379/",
    "http://public.example:5432/",
    "http://public.example:7999/",
    "http://public.example:9000/",
    "http://93.184.215.14:11211/",
]

IN_BOUNDS = [
    "http://public.example/",
    "https://public.example/hook?x=1",
    "https://PUBLIC.example.:8443/hook",
    "http://public.example:8000/",
    "http://93.184.215.14/",
    "http://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/",
    "http://[64:ff9b::5db8:d70e]/",
    "http://[::ffff:93.184.215.14]/",
    "http://172.15.0.1/",
    "http://172.32.0.1/",
    "http://100.63.255.255/",
    "http://100.128.0.1/",
]


async def look_up_here(host, port):
    return NAMES[host]


def resolved(url, *allow):
    guard = AddressGuard(read_web_address("url", url), read_allow_list(allow), look_up_here)
    return [str(ip) for ip in asyncio.run(guard.resolve())]


def is_refused(url, *allow):
    try:
        resolved(url, *allow)
    except RefusedAddress:
        return True
    return False


@each_row("url", UNREADABLE)
def test_a_url_that_could_be_read_in_two_ways_is_refused(url):
    with pytest.raises(UsageError):
        read_web_address("url", url)


@each_row("url", OUT_OF_BOUNDS)
def test_a_url_that_leads_inside_is_refused(url):
    assert is_refused(url)


@each_row("url", IN_BOUNDS)
def test_a_url_that_leads_outside_is_not(url):
    assert resolved(url)


def test_the_corpus_is_large_enough_to_mean_something():
    assert len({*UNREADABLE, *OUT_OF_BOUNDS}) >= 120


@pytest.mark.parametrize("url", OUT_OF_BOUNDS, ids=ascii)
def test_a_refused_url_ends_its_run_and_sends_nothing(sender, url):
    """No attempt can change it: the run goes to the dead letters at once, and says why."""
    end = sender(lookup=look_up_here).send(url)

    assert isinstance(end, Failed)
    assert (Reason.REFUSED_ADDRESS, False) == (end.reason, end.is_retryable)
    assert "--allow-address" in end.error


@each_row(
    ("url", "words"),
    [
        ("http://127.0.0.1/", "127.0.0.1 is a loopback address"),
        ("http://db/", "db leads to 10.0.0.5, which is a private address"),
        ("http://[2001:0:4136:e378::1]/", "2001:0:4136:e378::1 is a Teredo address"),
        ("http://[2002:a00:1::1]/", "2002:a00:1::1 is a 6to4 address"),
        ("http://169.254.169.254/", "169.254.169.254 is a cloud's metadata address"),
        ("http://public.example:22/", "port 22, which is not one for the web"),
    ],
)
def test_a_refusal_says_what_it_found(url, words):
    with pytest.raises(RefusedAddress, match=re.escape(words)):
        resolved(url)


def test_a_password_in_a_url_is_not_repeated():
    with pytest.raises(UsageError) as refused:
        read_web_address("url", "http://user:hunter2@example.com/")

    assert "hunter2" not in str(refused.value)


@each_row(
    ("given", "plain"),
    [
        ("HTTPS://Example.COM", "https://example.com/"),
        ("https://example.com:443/a", "https://example.com/a"),
        ("http://example.com:443/a", "http://example.com:443/a"),
        ("http://example.com.?q", "http://example.com/?q"),
        ("https://bücher.example/ä?ü=%20", "https://xn--bcher-kva.example/%C3%A4?%C3%BC=%20"),
        ("http://[2606:2800::0:1]:8080/", "http://[2606:2800::1]:8080/"),
    ],
)
def test_a_url_has_one_plainest_form(given, plain):
    assert plain == read_web_address("url", given).text


@each_row(
    ("url", "allow", "refused"),
    [
        ("http://127.0.0.1/", "127.0.0.1", False),
        ("http://127.0.0.1:8080/", "127.0.0.1", False),
        ("http://127.0.0.1:5000/", "127.0.0.1", True),
        ("http://127.0.0.1:5000/", "127.0.0.1:5000", False),
        ("http://127.0.0.1:8080/", "127.0.0.1:5000", True),
        ("http://127.0.0.2/", "127.0.0.1", True),
        ("http://10.1.2.3/", "10.0.0.0/8", False),
        ("http://10.1.2.3:5000/", "10.0.0.0/8:5000", False),
        ("http://11.1.2.3:5000/", "10.0.0.0/8:5000", True),
        ("http://[::1]/", "::1", False),
        ("http://[::1]:5000/", "[::1]:5000", False),
        ("http://[fd12::1]/", "fd12::/16", False),
        ("http://[fd13::1]/", "fd12::/16", True),
        ("http://db/", "db", False),
        ("http://db/", "DB.", False),
        ("http://db/", "10.0.0.5", False),
        ("http://intranet.example/", "db", True),
        ("http://public.example:9443/", "public.example:9443", False),
        ("http://[::ffff:10.0.0.1]/", "10.0.0.1", False),
        ("http://169.254.169.254/", "169.254.0.0/16", True),
        ("http://169.254.169.254/", "0.0.0.0/0", True),
        ("http://metadata.google.internal/", "metadata.google.internal", True),
        ("http://metadata.google.internal/", "169.254.169.254", False),
        ("http://169.254.169.254/", "169.254.169.254/32", False),
        ("http://[fd00:ec2::254]/", "fc00::/7", True),
        ("http://[64:ff9b::a9fe:a9fe]/", "64:ff9b::/96", True),
    ],
)
def test_an_operator_allows_places_by_name_address_network_and_port(url, allow, refused):
    """Metadata addresses only when they are named exactly."""
    assert refused == is_refused(url, allow)


@each_row(
    "entry",
    [
        "",
        "http://example.com",
        "10.0.0.0/33",
        "db:0",
        "db:65536",
        "db:x",
        "[::1",
        "a b",
        "db/24",
        5,
    ],
)
def test_what_allows_nothing_that_can_be_named_is_refused(entry):
    with pytest.raises(UsageError):
        read_allow_list([entry])


def test_every_address_of_the_special_networks_is_out_of_bounds():
    """The tables agree with what Python knows of the registries."""
    probes = [ipaddress.ip_address(number << 16 | 1) for number in range(1 << 16)]
    wrong = [
        str(ip)
        for ip in probes
        if (not ip.is_global or ip.is_multicast) and judge(ConnectTarget("", ip, 80), ()) is None
    ]

    assert [] == wrong

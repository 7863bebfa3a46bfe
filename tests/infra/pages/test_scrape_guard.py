"""The guard: what is opened is public, however an address is written and whatever a name resolves to."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.pages.guard import MAX_URL_CHARS, Guard, is_public
from infra.pages.network import Proxy
from schemas.errors import ConfigError, PermanentError, TransientError

INSIDE = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "169.254.169.254", "100.64.0.1", "100.100.100.200", "100.127.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1",
    "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "168.63.129.16", "::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "fc00::1", "fd00:ec2::254",
    "fe80::1", "fec0::1", "ff02::1", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1",
    "2001:0:7f00:1::", "2001:db8::1", "2002:7f00:1::", "2002:808:808::", "3fff::1", "5f00::1",
]  # fmt: skip
ODD_HOSTS = [
    "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "127.0.0.0x1",
    "127.0.0.1.", "0", "0x", "1.2.3.4.5", "256.0.0.1", "127。0。0。1", "127｡0｡0｡1", "１２７.０.０.１", "①②⑦.0.0.1",
    "0x7F.0x0.0x0.0x1", "0X7f000001", "00000177.0.0.1", "127.0.0.01", "0x7f.1", "0177.1", "2852039166", "0xa9fea9fe",
    "0xA9.0xFE.0xA9.0xFE", "0251.0376.0251.0376", "025177524776", "169.16689662", "169.254.43518", "169.254.169.0xfe",
    "4294967296", "10.0.0.1.", "１０．０．０．１", "127．0．0．1", "⑯⑨.254.169.254", "3232235777", "0xc0a80101", "010.0.0.1",
    "localhost", "LOCALHOST", "localhost.", "a.localhost", "printer.local", "metadata.google.internal", "router",
    "metadata.google.internal.", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "ｌｏｃａｌｈｏｓｔ", "instance-data", "kubernetes.default.svc.cluster.local",
    "router.lan", "fritz.home", "intra.corp", "a.intranet", "a..example.com", "1.0.0.127.in-addr.arpa", "hidden.onion",
]  # fmt: skip
ODD_URLS = [
    "", "example.com/a", "//example.com/a", "file:///etc/passwd", "ftp://example.com/", "gopher://example.com/",
    "javascript:alert(1)", "data:text/html,x", "unix:///run/x.sock", "http:///path", "http://", "https://[::1",
    "http://user@example.com/", "http://user:pass@example.com/", "https://www.sec.gov@169.254.169.254/",
    "http://example.com:pass@127.0.0.1/", "http://@example.com/",
    "http://example.com:22/", "http://example.com:8080/", "https://example.com:6379/", "http://example.com:99999/",
    "http://example.com\\@127.0.0.1/", "http://exa mple.com/", "http://example.com/\r\nHost: 127.0.0.1",
    "http://example.com\t/", "http://[fe80::1%25eth0]/", "http://[v1.x]/", "http://%31%32%37.0.0.1/",
    "http://example.com/" + "a" * MAX_URL_CHARS,
    "http://[::ffff:7f00:1]/", "http://[::ffff:169.254.169.254]/", "http://[0:0:0:0:0:ffff:127.0.0.1]/", "http://[::1%lo]/",
    "http://[fe80::1%251]/", "http://[0000::0001]/", "http://[::127.0.0.1]/", "http://[64:ff9b::a9fe:a9fe]/",
    "http://[2002:a9fe:a9fe::]/", "http://[fd00:ec2::254]/", "http://[::ffff:0:127.0.0.1]/", "http://127.0.0.1#@example.com/",
    "http://127.0.0.1?@example.com/", "http://example.com%40127.0.0.1/", "http://example.com@[::1]/", "http:127.0.0.1/",
    "http:///127.0.0.1/", "http:\\\\127.0.0.1/", "http://127.0.0.1:80\\@example.com/", "http://127.0.0.1%00.example.com/",
    "http://127.0.0.1%2f.example.com/", "http://\u2100.example\u2044com@127.0.0.1/", "dict://127.0.0.1:11211/stat",
    "ldap://127.0.0.1/", "jar:http://127.0.0.1!/", "http://example.com:6443/",
    "http://127.0.0.1%25eth0/", "http://169.254.169.254%23.example.com/",
]  # fmt: skip
OUTSIDE = [
    "8.8.8.8",
    "1.1.1.1",
    "93.184.216.34",
    "2606:4700:4700::1111",
    "2a00:1450:4001:830::200e",
    "100.128.0.1",
    "172.32.0.1",
]
pytestmark = pytest.mark.security


def resolving(*numbers: str) -> Guard:
    async def answer(_host: str, _port: int) -> Sequence[str]:
        return numbers

    return Guard(resolves=answer)


def test_the_ways_to_write_an_inside_address_are_at_least_96() -> None:
    assert len({*INSIDE, *ODD_HOSTS, *ODD_URLS}) >= 96


@pytest.mark.parametrize("number", INSIDE)
def test_a_number_that_is_not_of_the_public_internet_is_refused(number: str) -> None:
    assert not is_public(ipaddress.ip_address(number), 443)
    host = f"[{number}]" if ":" in number else number
    for scheme in ("http", "https"):
        with pytest.raises(PermanentError) as caught:
            Guard().target(f"{scheme}://{host}/latest/meta-data/")
        assert caught.value.kind == "refused"


@pytest.mark.parametrize("number", OUTSIDE)
def test_a_public_number_is_allowed(number: str) -> None:
    host = f"[{number}]" if ":" in number else number
    assert Guard().target(f"https://{host}/").url.host == number


@settings(max_examples=200, deadline=None)
@given(st.ip_addresses(v=4))
def test_ipv6_forms_that_wrap_an_ipv4_number_are_never_public(number: ipaddress.IPv4Address) -> None:
    value = int(number)
    for prefix in (0xFFFF << 32, 0, 0x64FF9B << 96, 0x2002 << 112):
        wrapped = prefix | (value << 80 if prefix >> 112 == 0x2002 else value)
        assert not is_public(ipaddress.IPv6Address(wrapped), 443)


@pytest.mark.parametrize("host", ODD_HOSTS)
def test_an_odd_spelling_or_a_local_name_is_refused_before_it_is_resolved(host: str) -> None:
    with pytest.raises(PermanentError) as caught:
        Guard().target(f"http://{host}/")
    assert caught.value.kind == "refused"


@pytest.mark.parametrize("url", ODD_URLS)
def test_what_is_no_plain_web_address_is_refused(url: str) -> None:
    with pytest.raises(PermanentError) as caught:
        Guard().target(url)
    assert caught.value.kind == "refused"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://www.coindesk.com/markets/2024/11/12/usdc?x=1#top", "www.coindesk.com"),
        ("http://example.com:80/", "example.com"),
        ("https://例子.公司.cn/新闻", "xn--fsqu00a.xn--55qx5d.cn"),
        ("HTTPS://EXAMPLE.COM/", "example.com"),
    ],
)
def test_an_ordinary_address_passes(url: str, host: str) -> None:
    assert Guard().target(url).url.raw_host.decode() == host


@pytest.mark.parametrize("number", INSIDE)
async def test_a_name_that_resolves_inside_is_refused(number: str) -> None:
    with pytest.raises(PermanentError) as caught:
        await resolving(number).numbers("innocent.example.com", 443)
    assert caught.value.kind == "refused"


async def test_one_inside_number_among_public_ones_is_enough_to_refuse() -> None:
    with pytest.raises(PermanentError):
        await resolving("93.184.216.34", "10.0.0.1").numbers("innocent.example.com", 443)


async def test_public_numbers_are_returned_in_the_resolvers_order() -> None:
    found = await resolving("93.184.216.34", "2606:4700:4700::1111").numbers("example.com", 443)
    assert [str(one) for one in found] == ["93.184.216.34", "2606:4700:4700::1111"]


async def test_an_unknown_name_is_a_failure_of_the_network_not_of_the_guard() -> None:
    async def fails(_host: str, _port: int) -> Sequence[str]:
        raise socket.gaierror(-2, "Name or service not known")

    for guard in (Guard(resolves=fails), resolving()):
        with pytest.raises(TransientError) as caught:
            await guard.numbers("nowhere.example.com", 443)
        assert caught.value.kind == "network"


@pytest.mark.parametrize("address", ["proxy:8080", "ftp://proxy", "http://", "http://proxy:port", "socks5://proxy:1"])
def test_a_proxy_that_cannot_be_one_is_refused_at_the_start_by_its_setting(address: str) -> None:
    with pytest.raises(ConfigError, match="SCRAPE_PROXIES"):
        Proxy(address)

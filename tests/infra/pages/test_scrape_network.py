"""The way to a page: the number that was checked is the number that is connected to, on every hop and over proxies."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.pages.guard import Guard
from infra.pages.port import LivePages
from schemas.effects import Failure, PageReply, Scrape
from tests.infra.fakes.server import Drip, Flood, HangUp, Reset, Say, StaySilent
from tests.infra.fakes.site import FakeProxy, Site, loopback_guard, moved, opened, page

pytestmark = [pytest.mark.security, pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("shared_reader")]


async def failure(pages: LivePages, url: str) -> Failure:
    answer = await asyncio.wait_for(pages.perform(Scrape(url=url)), 120)
    assert isinstance(answer.reply, Failure), answer
    assert answer.cost_usd == 0
    return answer.reply


async def test_the_name_is_resolved_once_a_connection_and_kept_in_the_host_header() -> None:
    asked: list[str] = []

    async def resolves(host: str, _port: int) -> Sequence[str]:
        asked.append(host)
        return ("127.0.0.1",)

    async with opened({"/a": page()}, guard=loopback_guard(resolves=resolves)) as (pages, site):
        url = f"http://news.example.com:{site.port}/a"
        assert isinstance((await pages.perform(Scrape(url=url))).reply, PageReply)
        assert {r.headers["host"] for r in site.requests} == {f"news.example.com:{site.port}"}
        assert len(asked) == len(site.requests) == site.connections == 2  # robots.txt and the page


async def test_a_name_that_changes_its_mind_is_checked_again_and_never_connected_to() -> None:
    answers = ["93.184.216.34", "127.0.0.1"]

    async def resolves(_host: str, _port: int) -> Sequence[str]:
        return (answers.pop(0) if len(answers) > 1 else answers[0],)

    async with Site({"/a": page()}) as site:
        guard = Guard(ports=None, resolves=resolves)
        # What a check ahead of time would see, and let pass.
        assert await guard.numbers("rebinding.example.com", site.port)
        pages = LivePages(guard=guard, timeout_s=60.0)
        refused = await failure(pages, f"http://rebinding.example.com:{site.port}/a")
        await pages.close()
        assert (refused.kind, refused.retryable) == ("refused", False)
        assert site.connections == 0


async def test_the_connection_goes_to_the_checked_number_and_nowhere_else() -> None:
    async def resolves(_host: str, _port: int) -> Sequence[str]:
        return ("127.0.0.9",)  # where nobody listens

    guard = loopback_guard(resolves=resolves, allows=lambda one, _: one.is_loopback)
    async with opened({"/a": page()}, guard=guard) as (pages, site):
        assert (await failure(pages, f"http://news.example.com:{site.port}/a")).kind == "network"
        assert site.connections == 0


async def test_the_first_number_that_answers_is_taken() -> None:
    async def resolves(_host: str, _port: int) -> Sequence[str]:
        return ("127.0.0.2", "127.0.0.1")

    guard = loopback_guard(resolves=resolves, allows=lambda one, _: one.is_loopback)
    async with opened({"/a": page()}, guard=guard) as (pages, site):
        answer = await pages.perform(Scrape(url=f"http://news.example.com:{site.port}/a"))
    assert isinstance(answer.reply, PageReply)


@pytest.mark.parametrize(
    "to",
    [
        "http://127.0.0.2:{port}/inside", "http://169.254.169.254/latest/meta-data/", "http://[::1]:{port}/inside",
        "http://2130706433/", "http://[::ffff:127.0.0.1]:{port}/inside", "//10.0.0.1/", "file:///etc/passwd",
        "http://user@news.example.com:{port}/inside", "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/",
        "gopher://news.example.com/", "http://[", "http://inside.example.com:{port}/inside", "//[::1]:{port}/inside",
        "http://0x7f000001/", "http://017700000001/", "http://news.example.com:{port}@169.254.169.254/", "http://localhost/",
        "//news.example.com\\@127.0.0.2:{port}/inside", "http://0/", "http://[fe80::1%25eth0]/", "http://127.1:{port}/inside",
    ],
)  # fmt: skip
async def test_a_redirect_to_the_inside_is_refused_at_its_hop(to: str) -> None:
    async def resolves(host: str, _port: int) -> Sequence[str]:
        return ("127.0.0.3",) if host.startswith("inside") else ("127.0.0.1",)

    site = Site({"/inside": page()})
    async with site:
        site._routes["/a"] = [moved("/b")]
        site._routes["/b"] = [moved(to.format(port=site.port))]
        pages = LivePages(guard=loopback_guard(resolves=resolves), timeout_s=60.0)
        refused = await failure(pages, f"http://news.example.com:{site.port}/a")
        await pages.close()
        assert refused.kind == "refused"
        assert site.paths() == ["/a", "/b"]


async def test_up_to_five_redirects_are_followed_and_no_more() -> None:
    routes: dict[str, Any] = {f"/{n}": moved(f"/{n + 1}", status=(301, 302, 303, 307, 308)[n % 5]) for n in range(6)}
    async with opened({**routes, "/5": page()}) as (pages, site):
        assert isinstance((await pages.perform(Scrape(url=f"{site.url}/0"))).reply, PageReply)
    async with opened({**routes, "/6": page()}) as (pages, site):
        assert (await failure(pages, f"{site.url}/0")).kind == "blocked"
        assert site.paths() == [f"/{n}" for n in range(6)]


async def test_a_redirect_in_a_circle_ends() -> None:
    async with opened({"/a": moved("/a")}) as (pages, site):
        assert (await failure(pages, f"{site.url}/a")).kind == "blocked"


BOMB = b"<html>" + b" " * 3_000_000


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (Say(BOMB, packed=True, headers={"content-type": "text/html"}), "too_large"),
        (Say(BOMB, headers={"content-type": "text/html"}), "too_large"),
        (Flood(), "too_large"),
        (Flood(announced=10**12), "too_large"),
        (Say(b"(\xb5/\xfd\x04", headers={"content-encoding": "zstd"}), "network"),
        (Say(b"\x0b", headers={"content-encoding": "br"}), "network"),
        (Say(b"x", headers={"content-encoding": "gzip, gzip"}), "network"),
        (Say(b"no zip", headers={"content-encoding": "deflate"}), "network"),
        (Reset(), "network"),
        (HangUp(), "network"),
        (Say(b"%PDF-1.7", headers={"content-type": "application/pdf"}), "invalid_output"),
        (Say(b"\x89PNG", headers={"content-type": "image/png"}), "invalid_output"),
        (Say(b"", headers={"content-type": "text/html"}), "invalid_output"),
        (Say(b"<script>render()</script>", headers={"content-type": "text/html"}), "invalid_output"),
        (Say(b"gone", status=404), "invalid_request"),
        (Say(b"gone", status=410), "invalid_request"),
        (Say(b"busy", status=503), "unavailable"),
        (Say(b"slow", status=504), "timeout"),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
async def test_a_page_that_cannot_be_read_is_a_failure_of_its_kind(behaviour: Any, kind: str) -> None:
    async with opened({"/a": behaviour}, max_bytes=100_000) as (pages, site):
        assert (await failure(pages, f"{site.url}/a")).kind == kind


@pytest.mark.parametrize("behaviour", [StaySilent(), Drip()], ids=["silent", "drip"])
async def test_an_endless_page_ends_with_the_time_for_a_page(behaviour: Any) -> None:
    routes = {"/robots.txt": Say(b"", status=404), "/a": behaviour}
    async with opened(routes, timeout_s=0.5) as (pages, site):
        slow = await failure(pages, f"{site.url}/a")
    assert (slow.kind, slow.retryable) == ("timeout", True)


async def test_a_site_leaves_no_mark_for_the_next_request() -> None:
    marked = page(headers={"set-cookie": "seen=1; Path=/"})
    async with opened({"/a": marked}) as (pages, site):
        for _ in range(2):
            await pages.perform(Scrape(url=f"{site.url}/a"))
        assert not any("cookie" in r.headers for r in site.requests)


async def test_a_proxy_is_told_the_checked_number_and_never_the_name() -> None:
    shut = Say(b"no", status=403)
    async with FakeProxy() as proxy:
        async with opened({"/a": [shut, page()]}, proxies=[f"http://me:pass%40word@{proxy.address}"]) as (pages, site):
            answer = await pages.perform(Scrape(url=f"http://news.example.com:{site.port}/a"))
        assert isinstance(answer.reply, PageReply)
        assert set(proxy.tunnels) == {f"127.0.0.1:{site.port}"}
        assert set(proxy.logins) == {"Basic bWU6cGFzc0B3b3Jk"}


@pytest.mark.parametrize("said", [b"HTTP/1.1 407 Who are you\r\n\r\n", b"", b"SSH-2.0\r\n\r\n"])
async def test_a_proxy_that_opens_no_tunnel_says_so(said: bytes) -> None:
    async with FakeProxy(answer=said) as proxy:
        with_proxy = opened({"/a": Reset()}, proxies=[f"http://{proxy.address}"])
        async with with_proxy as (pages, site):
            shut = await failure(pages, f"{site.url}/a")
    assert shut.kind == "network" and proxy.address in shut.message


async def test_tls_is_for_the_name_and_its_certificate_is_verified(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path, "news.example.com"))
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    pages = LivePages(guard=loopback_guard(), timeout_s=60.0)
    refused = await failure(pages, f"https://news.example.com:{port}/a")
    await pages.close()
    server.close()
    assert names == ["news.example.com"]
    assert refused.kind == "network" and "certificate" in refused.message.lower()


def self_signed(folder: Path, name: str) -> Path:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    signed = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False).sign(
        key, hashes.SHA256()
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "server.pem"
    path.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return path

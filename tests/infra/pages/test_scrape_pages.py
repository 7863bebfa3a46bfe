"""Opening pages: what is read, what a site forbids, and what is tried where a page stays shut."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from infra.pages import port
from infra.pages.port import LivePages
from infra.pages.robots import KEPT_S, Robots
from schemas.calls import Refusal
from schemas.effects import Failure, PageReply, Scrape
from schemas.evidence import Page
from schemas.topics import MAX_BODY_BYTES
from tests.infra.fakes.server import Say
from tests.infra.fakes.site import PARAGRAPH, FakeProxy, Site, loopback_guard, moved, opened, page

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("shared_reader")]

SHUT = Say(b"<h1>403</h1>", status=403, headers={"content-type": "text/html"})
CAPTCHA = Say(
    b"<title>Just a moment...</title><script src=/cdn-cgi/challenge-platform/x></script>",
    status=403,
    headers={"content-type": "text/html"},
)
CAPTCHA_200 = Say("<title>百度安全验证</title><body>请完成验证</body>".encode(), headers={"content-type": "text/html"})


async def read(pages: LivePages, url: str) -> Page:
    answer = await pages.perform(Scrape(url=url))
    assert isinstance(answer.reply, PageReply), answer.reply
    assert answer.cost_usd == 0
    return answer.reply.page


async def failed(pages: LivePages, url: str) -> Failure:
    answer = await pages.perform(Scrape(url=url))
    assert isinstance(answer.reply, Failure), answer.reply
    return answer.reply


async def test_a_page_gives_its_title_main_text_and_date() -> None:
    head = '<meta property="article:published_time" content="2024-11-12T16:00:00+08:00">'
    async with opened({"/a": page(head=head)}) as (pages, site):
        url = f"http://news.example.com:{site.port}/a"
        found = await read(pages, url)
    assert (found.url, found.title, found.truncated) == (url, "Circle denies", False)
    assert found.text.startswith("Circle said on Monday that the reserves")
    assert found.published_at == datetime(2024, 11, 12, 8, tzinfo=UTC)


async def test_a_moved_page_keeps_the_address_that_was_asked_for() -> None:
    async with opened({"/a": moved("/b"), "/b": page()}) as (pages, site):
        assert (await read(pages, f"{site.url}/a")).url == f"{site.url}/a"


async def test_a_long_text_is_cut_at_64_kib_and_said_so() -> None:
    body = "".join(f"<p>{n}: Circle said that the reserves of USDC number {n} are whole.</p>" for n in range(2500))
    async with opened({"/a": page(body)}) as (pages, site):
        found = await read(pages, f"{site.url}/a")
    assert found.truncated and MAX_BODY_BYTES - 4 < len(found.text.encode()) <= MAX_BODY_BYTES


async def test_plain_text_is_read_as_it_is() -> None:
    said = Say(b"Official statement\n\nReserves < liabilities? No.", headers={"content-type": "text/plain"})
    async with opened({"/a": said}) as (pages, site):
        found = await read(pages, f"{site.url}/a")
    assert (found.title, found.text) == ("Official statement", "Official statement\n\nReserves < liabilities? No.")


async def test_robots_txt_is_heeded_and_asked_once_an_hour() -> None:
    now = [0.0]
    rules = Say(b"User-agent: *\nDisallow: /*?s=\nDisallow: /private/\nAllow: /private/open\n")
    routes = {"/robots.txt": rules, "/a": page(), "/private/a": page(), "/private/open": page(), "/a?s=x": page()}
    async with opened(routes, robots=Robots(clock=lambda: now[0])) as (pages, site):
        for path, kind in (("/private/a", "blocked"), ("/a?s=x", "blocked")):
            assert (await failed(pages, f"{site.url}{path}")).kind == kind
        for path in ("/a", "/private/open"):
            await read(pages, f"{site.url}{path}")
        assert site.paths() == ["/a", "/private/open"]
        assert len(site.requests) == 3
        now[0] = KEPT_S + 1
        await read(pages, f"{site.url}/a")
        assert len(site.requests) == 5


async def test_rules_for_us_by_name_go_before_those_for_all() -> None:
    rules = Say(b"User-agent: *\nAllow: /\n\nUser-agent: newsproof\nDisallow: /\n")
    async with opened({"/robots.txt": rules, "/a": page()}) as (pages, site):
        assert (await failed(pages, f"{site.url}/a")).kind == "blocked"


@pytest.mark.parametrize(("status", "opens"), [(200, True), (403, True), (404, True), (500, False), (503, False)])
async def test_a_site_that_cannot_tell_its_rules_is_left_alone_one_without_rules_is_not(
    status: int, opens: bool
) -> None:
    async with opened({"/robots.txt": Say(b"<html>\xff", status=status), "/a": page()}) as (pages, site):
        reply = (await pages.perform(Scrape(url=f"{site.url}/a"))).reply
    assert isinstance(reply, PageReply) is opens


async def test_the_target_of_a_redirect_has_rules_of_its_own() -> None:
    rules = Say(b"User-agent: *\nDisallow: /b")
    async with (
        Site({"/robots.txt": rules, "/b": page()}) as other,
        opened({"/a": moved(f"{other.url}/b")}) as (pages, site),
    ):
        assert (await failed(pages, f"{site.url}/a")).kind == "blocked"
        assert other.paths() == []


@pytest.mark.parametrize(
    "shut", [SHUT, CAPTCHA, CAPTCHA_200, Say(b"", status=429)], ids=["403", "captcha", "200", "429"]
)
async def test_a_page_that_is_shut_is_opened_over_the_next_proxy(shut: Any) -> None:
    async with FakeProxy() as proxy:
        async with opened({"/a": [shut, page()]}, proxies=[f"http://{proxy.address}"]) as (pages, site):
            found = await read(pages, f"{site.url}/a")
        assert found.text.startswith("Circle said") and proxy.tunnels


async def test_a_proxy_that_is_dead_is_passed_over() -> None:
    async with FakeProxy() as proxy:
        both = [f"http://user:pw@127.0.0.1:{_closed_port()}", f"http://{proxy.address}"]
        async with opened({"/a": [SHUT, page()]}, proxies=both) as (pages, site):
            assert (await read(pages, f"{site.url}/a")).title == "Circle denies"


async def test_each_refusal_is_recorded_and_a_captcha_is_an_alert_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    for shut, kind, level in ((CAPTCHA, "captcha", "warning"), (SHUT, "refused", "info")):
        lines = CapturingLogger()
        monkeypatch.setattr(port, "_log", lines)
        async with opened({"/a": [shut, shut, page()]}) as (pages, site):
            first, then = [await pages.perform(Scrape(url=f"{site.url}/a")) for _ in range(2)]
        assert isinstance(first.reply, Failure) and then.refusals == ()
        assert (first.reply.kind, first.reply.retryable, first.reply.status) == ("blocked", False, 403)
        ways = [("main", "direct"), ("plain", "direct")]
        assert list(first.refusals) == [Refusal(kind=kind, strategy=s, route=r, status=403) for s, r in ways]  # type: ignore[arg-type]
        assert [one.method_name for one in lines.calls if one.args == ("page_shut",)] == [level] * 2


async def test_a_page_that_stays_shut_is_asked_for_once_more_by_the_plain_reader() -> None:
    async with opened({"/a": [CAPTCHA, page()]}) as (pages, site):
        answer = await pages.perform(Scrape(url=f"{site.url}/a"))
        agents = [r.headers["user-agent"] for r in site.requests if r.path == "/a"]
    assert isinstance(answer.reply, PageReply) and "Circle said on Monday" in answer.reply.page.text
    assert [(one.kind, one.strategy) for one in answer.refusals] == [("captcha", "main")]
    assert len(set(agents)) == 2 and all("Newsproof" in one for one in agents)


async def test_an_article_about_captchas_is_an_article() -> None:
    body = PARAGRAPH * 20 + "<p>Exchanges ask users to verify you are human before withdrawals; 安全验证.</p>"
    async with opened({"/a": page(body)}) as (pages, site):
        assert "安全验证" in (await read(pages, f"{site.url}/a")).text


async def test_several_pages_are_opened_side_by_side() -> None:
    import asyncio

    routes: dict[str, Any] = {f"/{n}": page(f"<p>Page number {n} says this.</p>" + PARAGRAPH * 3) for n in range(8)}
    async with opened(routes) as (pages, site):
        found = await asyncio.gather(*(read(pages, f"{site.url}/{n}") for n in range(8)))
    assert [f"Page number {n} says this." in one.text for n, one in enumerate(found)] == [True] * 8


async def test_without_a_rule_for_loopback_nothing_local_is_opened() -> None:
    async with Site({"/a": page()}) as site:
        pages = LivePages()
        refused = await failed(pages, f"{site.url}/a")
        await pages.close()
        await pages.close()
    assert refused.kind == "refused" and site.connections == 0
    assert loopback_guard().target("http://127.0.0.1:1/").url.port == 1
    assert ipaddress.ip_address("127.0.0.1").is_loopback


def _closed_port() -> int:
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])

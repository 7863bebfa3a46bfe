"""The scrape port of live mode: fetches a page over the configured routes.

If a site refuses a page (403 and the like) or shows a captcha, the port tries the next proxy. If all routes are
refused, it requests the page once more with the plain reader. Every refusal is logged and recorded in the call, and the
case gets a single failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

import httpx
import structlog
from msgspec.structs import replace

from infra.http import UselessAnswerError, quoted, transport_failure
from infra.pages.fetch import MAIN_READER, PLAIN_READER, FetchRoute, ShutError
from infra.pages.guard import Guard
from infra.pages.network import Proxy
from infra.pages.reader_client import Reader
from infra.pages.reader_messages import ReadPage
from infra.pages.robots import Robots
from infra.ports import Answer, Free
from schemas.calls import ProviderMode, Refusal
from schemas.effects import Failure, PageReply, Scrape
from schemas.errors import PermanentError, TransientError
from schemas.evidence import Page

MAX_PAGE_BYTES = 4 * 1024 * 1024
_READING_SHARE = 0.5
"""Share of a page's timeout that parsing may take, so that a slow page leaves time for others."""
_log = structlog.get_logger(__name__)


class LivePages(Free):
    """Port for ``Scrape``. Safe for concurrent use within one event loop."""

    provider = "web"
    mode: ProviderMode = "live"

    def __init__(
        self,
        *,
        timeout_s: float = 10.0,
        max_bytes: int = MAX_PAGE_BYTES,
        proxies: Sequence[str] = (),
        guard: Guard | None = None,
        robots: Robots | None = None,
    ) -> None:
        """``timeout_s`` bounds a page over all routes; ``max_bytes`` bounds its body, compressed and decompressed.

        Raises:
            ConfigError: a proxy's address is invalid.
        """
        self._timeout_s = timeout_s
        guard, robots = guard or Guard(), robots or Robots()
        routes = [None, *(Proxy(proxy) for proxy in proxies)]
        self._reader = Reader(limit_s=timeout_s * _READING_SHARE)
        self._routes = [
            FetchRoute(guard, robots, self._reader, proxy=proxy, timeout_s=timeout_s, max_bytes=max_bytes)
            for proxy in routes
        ]

    async def perform(self, effect: Scrape) -> Answer:
        """Open one page. Errors are not raised: they become a ``Failure`` reply, at no cost.

        Kinds: refused (by the guard), blocked (403, captcha, robots.txt), too_large, timeout, network, unavailable,
        invalid_request (404), invalid_output (not a web page, or no text on it). A page that takes too long to parse is
        a timeout that is not retried. The ``Answer`` contains all refusals by the site, even if a later route
        succeeded.
        """
        refusals: list[Refusal] = []
        return replace(await self._answer(effect, refusals), refusals=tuple(refusals))

    async def _answer(self, effect: Scrape, refusals: list[Refusal]) -> Answer:
        try:
            async with asyncio.timeout(self._timeout_s):
                page = await self._page(effect.url, refusals)
        except UselessAnswerError as exc:
            return _free(exc.answer.reply)
        except (TransientError, PermanentError) as exc:
            return _free(_as_failure(exc))
        except (TimeoutError, httpx.HTTPError, httpx.StreamError) as exc:
            return _free(_as_failure(transport_failure(exc, _host(effect.url), self._timeout_s)))
        return _free(page)

    async def close(self) -> None:
        """Close the connections and end the reading process. Idempotent."""
        for route in self._routes:
            await route.close()
        await self._reader.close()

    async def _page(self, url: str, refusals: list[Refusal]) -> PageReply:
        last: Exception | None = None
        for route in self._routes:
            try:
                return _reply(url, await route.read(url, MAIN_READER))
            except ShutError as exc:
                refusals.append(_refusal(exc, url, route, "main"))
                last = exc
            except (TransientError, httpx.TransportError) as exc:
                last = exc
                _log.info("page_not_reached", url=quoted(url, 200), way=route.name, error=quoted(exc, 200))
        if refusals:
            _log.info("page_stays_shut", url=quoted(url, 200), next="the plain reader")
            try:
                return _reply(url, await self._routes[0].read(url, PLAIN_READER))
            except ShutError as exc:
                refusals.append(_refusal(exc, url, self._routes[0], "plain"))
                raise
        assert last is not None
        raise last


def _refusal(exc: ShutError, url: str, route: FetchRoute, strategy: Literal["main", "plain"]) -> Refusal:
    # A captcha is a warning: the site takes this route for a robot's.
    say = _log.warning if exc.captcha else _log.info
    say("page_shut", url=quoted(url, 200), way=route.name, strategy=strategy, status=exc.status, captcha=exc.captcha)
    kind: Literal["captcha", "refused"] = "captcha" if exc.captcha else "refused"
    return Refusal(kind=kind, strategy=strategy, route=route.name, status=exc.status or 0)


def _reply(url: str, read: ReadPage | None) -> PageReply:
    if read is None:
        raise UselessAnswerError(f"{_host(url)} shows no text without a browser", retryable=False)
    page = Page(url=url, title=read.title, text=read.text, truncated=read.truncated, published_at=read.published_at)
    return PageReply(page=page)


def _as_failure(exc: TransientError | PermanentError) -> Failure:
    wait = exc.retry_after_s if isinstance(exc, TransientError) else None
    retryable = isinstance(exc, TransientError)
    return Failure(kind=exc.kind, message=str(exc), retryable=retryable, retry_after_s=wait, status=exc.status)


def _free(reply: object) -> Answer:
    assert isinstance(reply, PageReply | Failure)
    if isinstance(reply, Failure) and reply.kind == "too_large":
        reply = replace(
            reply, message=reply.message.replace("Ask for fewer or shorter results", "The page is left out")
        )
    return Answer(reply=reply, cost_usd=Decimal(0), cost_source="free")


def _host(url: str) -> str:
    try:
        return quoted(httpx.URL(url).host, 100) or "the page"
    except (httpx.InvalidURL, ValueError):
        return "the page"

"""The scrape port of live mode: a page by its address, over the ways that there are.

A page that shuts its door (403 and the like) or asks whether we are human is tried over the next proxy; one that stays
shut is asked for once more by the plain reader. What the ways saw is logged, and the case gets one failure that says it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal

import httpx
import structlog
from msgspec.structs import replace

from infra.http import UselessAnswerError, quoted, transport_failure
from infra.ports import Answer, Free
from infra.scraping.fetch import MAIN_READER, PLAIN_READER, Fetched, ShutError, Way
from infra.scraping.guard import Guard
from infra.scraping.network import Proxy
from infra.scraping.reading import ReadPage, read_page, read_text
from infra.scraping.robots import Robots
from infra.searching.results import cut_utf8
from schemas.calls import ProviderMode
from schemas.effects import Failure, PageReply, Scrape
from schemas.errors import PermanentError, TransientError
from schemas.evidence import Page
from schemas.topics import MAX_BODY_BYTES

MAX_PAGE_BYTES = 4 * 1024 * 1024
_READ_AT_ONCE = 2
"""Pages whose text is searched at a time: it takes CPU, which the event loop needs too."""
_log = structlog.get_logger(__name__)


class LivePages(Free):
    """A port for ``Scrape``. Safe for concurrent use within one event loop."""

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
        """``timeout_s`` bounds a whole page over all ways; ``max_bytes`` its body, packed and unpacked.

        Raises:
            ConfigError: a proxy's address cannot be one.
        """
        self._timeout_s = timeout_s
        guard, robots = guard or Guard(), robots or Robots()
        ways = [None, *(Proxy(one) for one in proxies)]
        self._ways = [Way(guard, robots, proxy=one, timeout_s=timeout_s, max_bytes=max_bytes) for one in ways]
        self._reading = asyncio.Semaphore(_READ_AT_ONCE)

    async def perform(self, effect: Scrape) -> Answer:
        """Open one page. Whatever goes wrong is a ``Failure`` reply: a page that stays shut is a value, and free.

        Kinds: refused (by the guard), blocked (403, captcha, robots.txt), too_large, timeout, network, unavailable,
        invalid_request (404), invalid_output (no web page, or nothing to read on it).
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                page = await self._page(effect.url)
        except UselessAnswerError as exc:
            return _free(exc.answer.reply)
        except (TransientError, PermanentError) as exc:
            return _free(_as_failure(exc))
        except (TimeoutError, httpx.HTTPError, httpx.StreamError) as exc:
            return _free(_as_failure(transport_failure(exc, _host(effect.url), self._timeout_s)))
        return _free(page)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        for way in self._ways:
            await way.close()

    async def _page(self, url: str) -> PageReply:
        shut = False
        last: Exception | None = None
        for way in self._ways:
            try:
                return await self._read(url, await way.fetch(url, MAIN_READER))
            except ShutError as exc:
                shut, last = True, exc
                # A captcha is an alert: the site knows this way for a robot's.
                say = _log.warning if exc.captcha else _log.info
                say("page_shut", url=quoted(url, 200), way=way.name, status=exc.status, captcha=exc.captcha)
            except (TransientError, httpx.TransportError) as exc:
                last = exc
                _log.info("page_not_reached", url=quoted(url, 200), way=way.name, error=quoted(exc, 200))
        if shut:
            _log.info("page_stays_shut", url=quoted(url, 200), next="the plain reader")
            return await self._read(url, await self._ways[0].fetch(url, PLAIN_READER), plain=True)
        assert last is not None
        raise last

    async def _read(self, url: str, fetched: Fetched, *, plain: bool = False) -> PageReply:
        async with self._reading:
            read = await asyncio.to_thread(_read, fetched, plain)
        if read is None:
            raise UselessAnswerError(f"{_host(url)} shows no text without a browser", retryable=False)
        text = cut_utf8(read.text, MAX_BODY_BYTES)
        page = Page(
            url=url, title=read.title, text=text, truncated=len(text) < len(read.text), published_at=read.published_at
        )
        return PageReply(page=page)


def _read(fetched: Fetched, plain: bool) -> ReadPage | None:
    return read_text(fetched.text) if fetched.plain else read_page(fetched.text, fetched.url, plain=plain)


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

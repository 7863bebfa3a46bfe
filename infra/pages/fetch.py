"""One network route to pages: follows redirects hop by hop under the guard, obeys robots.txt, bounds bodies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from http.cookiejar import DefaultCookiePolicy

import httpx

from infra.http import BoundedTransport, UselessAnswerError, kind_of_server_error, retry_after_s
from infra.pages.guard import Guard, Target
from infra.pages.network import GuardedTransport, Proxy
from infra.pages.reader_client import Reader
from infra.pages.reader_messages import PageRequest, ReadPage
from infra.pages.robots import Robots
from infra.pages.rules import AGENT
from schemas.errors import PermanentError, TransientError

MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SHUT = frozenset({401, 402, 403, 407, 429, 451})
_READABLE = re.compile(r"(?:text/html|application/xhtml\+xml|text/plain)\b", re.IGNORECASE)
MAIN_READER = f"Mozilla/5.0 (compatible; {AGENT}/1.0)"
PLAIN_READER = f"{AGENT}-Reader/1.0"


class ShutError(PermanentError):
    """The site refuses the page on this route; another route may succeed. ``captcha``: it shows a captcha."""

    def __init__(self, message: str, *, status: int, captcha: bool = False) -> None:
        super().__init__(message, kind="blocked", status=status)
        self.captcha = captcha


class FetchRoute:
    """One route to the web, direct or through one proxy. Safe for concurrent use within one event loop."""

    def __init__(
        self, guard: Guard, robots: Robots, reader: Reader, *, proxy: Proxy | None, timeout_s: float, max_bytes: int
    ) -> None:
        self.name = "direct" if proxy is None else proxy.name
        self._guard, self._robots, self._reader = guard, robots, reader
        self._http = httpx.AsyncClient(
            transport=BoundedTransport(GuardedTransport(guard, proxy), max_bytes),
            timeout=timeout_s,
            follow_redirects=False,
            trust_env=False,
        )
        # No cookies: no site may set state for a later request.
        self._http.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    async def read(self, url: str, agent: str = MAIN_READER) -> ReadPage | None:
        """Open a page and return its content, None if it has no text.

        Raises:
            ShutError: 401, 402, 403, 407, 429, 451, or a captcha. PermanentError: the guard or robots.txt refuses it,
            there is no such page, or the reading process failed on it. TransientError: timeout, network, unavailable.
            UselessAnswerError: too_large, or not text. httpx.HTTPError: the connection failed.
        """
        response, target = await self.get(url, {"user-agent": agent, **_PAGES}, heed_robots=True)
        status, kind = response.status_code, response.headers.get("content-type", "")
        is_page = not kind or _READABLE.match(kind.strip()) is not None
        answered = await self._reader.page(
            PageRequest(
                body=response.content,
                content_type=kind,
                status=status,
                url=str(target.url),
                readable=status == 200 and is_page,
                plain=agent == PLAIN_READER,
            )
        )
        if answered.asks_if_human or response.headers.get("cf-mitigated") == "challenge":
            raise ShutError(f"{target.origin} asks whether we are human", status=status, captcha=True)
        if status != 200:
            raise _no_page(response, target)
        if not is_page:
            raise UselessAnswerError(
                f"{target.origin} sent {kind.split(';')[0][:60]!r}, and only web pages and plain text are read",
                retryable=False,
            )
        return answered.page

    async def close(self) -> None:
        await self._http.aclose()

    async def get(
        self, url: str, headers: Mapping[str, str], *, heed_robots: bool, own: Mapping[str, str] | None = None
    ) -> tuple[httpx.Response, Target]:
        """Return the first response that is not a redirect, whatever its status, and its target.

        ``own``: headers for the URL's own origin only, such as one with a key. They are not sent to other origins that
        redirects lead to.

        Raises:
            PermanentError: the guard or robots.txt refuses it, or there are too many redirects.
            TransientError, UselessAnswerError, httpx.HTTPError: as :meth:`read`.
        """
        home = self._guard.target(url).origin
        for _ in range(MAX_REDIRECTS + 1):
            target = self._guard.target(url)
            private = own or {} if target.origin == home else {}
            if heed_robots and not await self._is_allowed(target):
                raise PermanentError(f"{target.origin}/robots.txt asks not to open this page", kind="blocked")
            response = await self._http.get(target.url, headers={**_PLAIN_WIRE, **headers, **private})
            location = response.headers.get("location", "")
            if response.status_code not in _REDIRECTS or not location:
                return response, target
            try:
                url = str(target.url.join(location))
            except (httpx.InvalidURL, ValueError) as exc:
                raise PermanentError(f"{target.origin} redirects to no address", kind="refused") from exc
        raise PermanentError(f"{url[:120]} redirects more than {MAX_REDIRECTS} times", kind="blocked")

    async def _is_allowed(self, target: Target) -> bool:
        return await self._robots.allows(target.origin, str(target.url), self._ask_robots, self._reader.allows)

    async def _ask_robots(self, url: str) -> tuple[int, bytes]:
        response, _ = await self.get(url, {"user-agent": MAIN_READER, **_PAGES}, heed_robots=False)
        return response.status_code, response.content


_PAGES = {"accept": "text/html,application/xhtml+xml,text/plain;q=0.8"}
_PLAIN_WIRE = {"accept-encoding": "gzip, deflate", "accept-language": "en,zh;q=0.9"}
"""Requests only encodings whose decompression is bounded; brotli and zstd bodies are refused without decompressing."""


def _no_page(response: httpx.Response, target: Target) -> PermanentError | TransientError:
    status, where = response.status_code, target.origin
    if status in _SHUT:
        return ShutError(f"{where} does not let this page be opened ({status})", status=status)
    if status == 408 or status >= 500:
        wait = retry_after_s(response.headers, datetime.now(UTC))
        text = f"{where} is unavailable ({status}); the page may open later"
        return TransientError(text, kind=kind_of_server_error(status), status=status, retry_after_s=wait)
    return PermanentError(f"{where} has no such page ({status})", kind="invalid_request", status=status)

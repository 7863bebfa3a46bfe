"""Polls of sources over HTTP: polite, protected by the guard of pages, and only for changes.

There is one request at a time per host. The validators of a response (ETag, Last-Modified) go into the next request. A
body equal to the last one counts as unchanged and is not parsed.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import aiohttp
import httpx
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec.structs import replace

from infra.http import MAX_RESPONSE_BYTES, UselessAnswerError, quoted, retry_after_s, tls_context, transport_failure
from infra.listeners.failures import NotReadError, Reason, of_status
from infra.listeners.items import Item
from infra.listeners.parsing import ItemsAnswer, ItemsRequest, Problem
from infra.listeners.source import Source, Validators
from infra.pages.fetch import FetchRoute
from infra.pages.guard import Guard
from infra.pages.reader_client import Reader
from infra.pages.reader_messages import Broken
from infra.pages.robots import Robots
from infra.pages.rules import AGENT
from schemas.errors import PermanentError, TransientError

LOOK_WITHIN_S = 20.0
QUICK_WITHIN_S = 2.0
"""Responses that take longer to parse go to a second reading process, so that no other source waits for them. 50 items
take 0.3 s on a busy core."""
READ_WITHIN_S = 10.0
MAX_MESSAGE_BYTES = 1024 * 1024
CONNECT_WITHIN_S = 20.0
HEARTBEAT_S = 30.0
"""Interval of our pings. A connection without a pong is dropped after half of this time."""
_ACCEPTED = {
    "feed": "application/rss+xml, application/atom+xml, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.1",
    "telegram": "text/html",
}
_REASONS: dict[Problem, Reason] = {"a web page": "web_page", "another shape": "another_shape", "no items": "no_items"}
_EITHER_OR: tuple[tuple[bytes, bytes], ...] = (
    (b"<!--", b"-->"),
    (b"<lastBuildDate", b"</lastBuildDate>"),
    (b"<ttl", b"</ttl>"),
)


class PollResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a poll. ``items`` is None if nothing changed.

    ``received_at``: when the response was complete (UTC). ``skew_s``: seconds that the publisher's clock is ahead of
    ours.
    """

    received_at: datetime
    validators: Validators
    items: tuple[Item, ...] | None
    skew_s: float | None = None


class EntryReader(Reader):
    """The process that parses responses. Belongs to one event loop."""

    module = "infra.listeners.reader_process"
    max_answer_bytes = 32 * 1024 * 1024
    """Larger than 500 items of the longest text."""

    async def items(self, asked: ItemsRequest) -> ItemsAnswer:
        """Return the items of a response. Raises as :meth:`page`."""
        return await self._ask(asked, _ITEMS)


_ITEMS: msgspec.msgpack.Decoder[ItemsAnswer | Broken] = msgspec.msgpack.Decoder(ItemsAnswer | Broken)


class Fetcher:
    """Polls sources of the kinds feed, json and telegram, and connects to sockets. Belongs to one event loop."""

    def __init__(
        self,
        *,
        contact: str = "",
        keys: Mapping[str, str] | None = None,
        guard: Guard | None = None,
        within_s: float = LOOK_WITHIN_S,
    ) -> None:
        """``contact``: an e-mail address for publishers, "" for none. ``keys``: setting → key, for rows that name one.

        ``within_s`` bounds a poll's request, not its waiting for the host's turn, and not its parsing.
        """
        self._keys = keys or {}
        self.reader, self._slow_reader = EntryReader(QUICK_WITHIN_S), EntryReader(READ_WITHIN_S)
        self._slow: set[str] = set()
        """Sources with a response that took the quick reader too long."""
        self._agent = f"Mozilla/5.0 (compatible; {AGENT}/1.0{contact and '; '}{contact})"
        self._within_s = within_s
        self._hosts: dict[str, asyncio.Lock] = {}
        self.guards = {False: guard or Guard(), True: Guard(allows=lambda _address, _port: True, ports=None)}
        """The guards of public sources (False) and of sources whose row says ``private`` (True)."""
        self._routes = {
            private: FetchRoute(
                route_guard, Robots(), self.reader, proxy=None, timeout_s=within_s, max_bytes=MAX_RESPONSE_BYTES
            )
            for private, route_guard in self.guards.items()
        }
        self.parsed = 0

    async def look(self, source: Source, last: Validators, *, refill: bool = False) -> PollResult:
        """Poll a source once. ``last``: the validators of the last response whose items are stored durably.

        ``refill``: poll a socket's ``refill`` address.

        Raises:
            NotReadError: there is no response, or an unusable one; the text says why.
        """
        asked = self._with_key(source)
        url = source.refill if refill else asked.url
        host = urlsplit(url).netloc
        try:
            async with self._hosts.setdefault(host, asyncio.Lock()), asyncio.timeout(self._within_s):
                own = {name.lower(): value for name, value in asked.headers.items()}
                response, _ = await self._routes[source.private].get(
                    url, self._headers(asked, last), heed_robots=source.robots, own=own
                )
        except PermanentError as exc:
            raise NotReadError(str(exc), "robots" if "/robots.txt asks" in str(exc) else "not_opened") from exc
        except UselessAnswerError as exc:
            raise NotReadError(f"{host} sent a response that is too large", "too_large") from exc
        except TransientError as exc:
            raise NotReadError(str(exc), "no_connection", wait_s=exc.retry_after_s) from exc
        except (TimeoutError, httpx.HTTPError, httpx.StreamError) as exc:
            raise NotReadError(str(transport_failure(exc, host, self._within_s)), "no_connection") from exc
        return await self._poll_result(source, response, last, refill)

    def connected(self, source: Source) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Return the messages of a connection to a socket. Raises as :func:`connected`."""
        return connected(self._with_key(source), self.guards[source.private])

    async def read(
        self, source: Source, body: bytes, content_type: str = "", *, refill: bool = False
    ) -> tuple[Item, ...]:
        """Return the items of a body.

        Raises:
            NotReadError: it contains none, because it is something else.
        """
        asked = ItemsRequest(body=body, content_type=content_type, url=source.url, source=source, refill=refill)
        self.parsed += 1
        try:
            answer = await self._answer(asked)
        except (PermanentError, TransientError) as exc:
            raise NotReadError(str(exc), "another_shape") from exc
        if not answer.problem:
            return answer.items
        begins = quoted(body[:80].decode("utf-8", "replace"), 80)
        raise NotReadError(f"it returned {answer.problem} instead of items ({begins})", _REASONS[answer.problem])

    async def _answer(self, asked: ItemsRequest) -> ItemsAnswer:
        if asked.source.id not in self._slow:
            try:
                return await self.reader.items(asked)
            except PermanentError as exc:
                if exc.kind != "timeout":
                    raise
                self._slow.add(asked.source.id)
        return await self._slow_reader.items(asked)

    async def close(self) -> None:
        """Close the connections and end the reading processes. Idempotent."""
        for route in self._routes.values():
            await route.close()
        await self.reader.close()
        await self._slow_reader.close()

    def _with_key(self, source: Source) -> Source:
        """Return the row with its key, for the request only: the process that parses the response does not get it."""
        if not source.key:
            return source
        key = self._keys.get(source.key, "")
        headers = {name: value.replace("{key}", key) for name, value in source.headers.items()}
        url, subscribe = (text.replace("{key}", key) for text in (source.url, source.subscribe))
        return replace(source, url=url, subscribe=subscribe, headers=headers)

    def _headers(self, source: Source, last: Validators) -> dict[str, str]:
        conditions = {"if-none-match": last.etag, "if-modified-since": last.last_modified}
        return {
            "user-agent": self._agent,
            "accept": _ACCEPTED.get(source.kind, "application/json"),
            **{name: value for name, value in conditions.items() if value},
        }

    async def _poll_result(
        self, source: Source, response: httpx.Response, last: Validators, refill: bool
    ) -> PollResult:
        now, headers = datetime.now(UTC), response.headers
        skew_s = _skew_s(headers.get("date", ""), now)
        if response.status_code == 304:
            return PollResult(received_at=now, validators=last, items=None, skew_s=skew_s)
        if response.status_code != 200:
            raise _refused(response, now, has_key=bool(source.key))
        body = response.content
        validators = Validators(headers.get("etag", "")[:512], headers.get("last-modified", "")[:128], body_hash(body))
        if validators.body_hash == last.body_hash:
            return PollResult(received_at=now, validators=validators, items=None, skew_s=skew_s)
        items = await self.read(source, body, headers.get("content-type", ""), refill=refill)
        return PollResult(received_at=now, validators=validators, items=items, skew_s=skew_s)


def body_hash(body: bytes) -> str:
    """Return the hash of a body without comments, ``lastBuildDate`` and ``ttl``, which may change without the items."""
    for first, last in _EITHER_OR:
        body = _without(body, first, last)
    return hashlib.sha256(body).hexdigest()[:32]


def _without(body: bytes, first: bytes, last: bytes) -> bytes:
    # No regular expression: it would take quadratic time on a body that opens a thousand comments and closes none.
    kept, at = [], 0
    while (begin := body.find(first, at)) >= 0 and (end := body.find(last, begin)) >= 0:
        kept.append(body[at:begin])
        at = end + len(last)
    return b"".join((*kept, body[at:])) if kept else body


def _skew_s(date: str, now: datetime) -> float | None:
    try:
        return (parsedate_to_datetime(date) - now).total_seconds()
    except (ValueError, TypeError):
        return None


def _refused(response: httpx.Response, now: datetime, *, has_key: bool) -> NotReadError:
    status = response.status_code
    challenged = response.headers.get("cf-mitigated") == "challenge"
    reason = "refused" if challenged else of_status(status, has_key=has_key)
    return NotReadError(f"it returned status {status}", reason, wait_s=retry_after_s(response.headers, now))


class _GuardedResolver(AbstractResolver):
    """Returns only addresses that the guard allows; aiohttp uses no others. IP literals are checked with the URL."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[ResolveResult]:
        numbers = await self._guard.numbers(host, port)
        return [
            ResolveResult(
                hostname=host, host=str(number), port=port, proto=0, flags=socket.AI_NUMERICHOST,
                family=socket.AF_INET6 if number.version == 6 else socket.AF_INET,
            )
            for number in numbers
        ]  # fmt: skip

    async def close(self) -> None: ...


async def _refuse_redirect(*_: object) -> None:
    # No resolver checks literal addresses, and a row's headers may contain a key.
    raise NotReadError("it redirects, and sockets follow no redirects", "not_opened")


@asynccontextmanager
async def connected(source: Source, guard: Guard) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield the messages of one connection, until it ends.

    Raises:
        NotReadError: there is no connection, it breaks, or the server redirects.
    """
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_refuse_redirect)
    try:
        guard.target(source.url.replace("ws", "http", 1))
        connector = aiohttp.TCPConnector(resolver=_GuardedResolver(guard), ssl=tls_context())
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_WITHIN_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, trace_configs=[trace]) as session:
            async with asyncio.timeout(CONNECT_WITHIN_S):
                ws = await session.ws_connect(
                    source.url, headers=source.headers, heartbeat=HEARTBEAT_S, max_msg_size=MAX_MESSAGE_BYTES
                )
            async with ws:
                if source.subscribe:
                    await ws.send_str(source.subscribe)
                yield _messages(ws, source)
    except PermanentError as exc:
        raise NotReadError(str(exc), "not_opened") from exc
    except aiohttp.WSServerHandshakeError as exc:
        raise NotReadError(f"it returned status {exc.status}", of_status(exc.status, has_key=bool(source.key))) from exc
    except (TransientError, aiohttp.ClientError, OSError, TimeoutError) as exc:
        detail = quoted(f"{type(exc).__name__}: {exc}".rstrip(": "))
        raise NotReadError(f"no connection to {urlsplit(source.url).netloc} ({detail})", "no_connection") from exc


async def _messages(ws: aiohttp.ClientWebSocketResponse, source: Source) -> AsyncIterator[bytes]:
    async for message in ws:
        if message.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
            break
        body = message.data.encode("utf-8", "replace") if isinstance(message.data, str) else message.data
        if source.ping and body.strip() == source.ping.encode():
            await ws.send_str(source.pong)
        else:
            yield body

"""The newsroom and its server: ten sources, and a dead one, that report the sample's events one after another.

The script is ``sample/newsroom.jsonl``: who tells which event, in the event's own words or in others. Items are dated when they
are told. Its order is not that of history: in a minute nothing lies days apart, so events that could be taken for one story are
further apart than ``STORY_S``, and h30 comes after h42, a denial that withdraws what was told in the 14 days before it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from importlib import resources
from typing import Any, Literal, Self

import httpx
import msgspec
import orjson
from aiohttp import WSMsgType, web

from infra.listeners.source import sources_of
from infra.listeners.webhook import key_of, signing_headers
from infra.offline.newsroom.wire import Report, atom, bwenews, bybit, rss, statuspage, telegram
from infra.offline.sample_news import sample_news
from schemas.errors import TransientError
from schemas.ids import text_hash

_ENDS_WITHIN_S = 0.1
Socket = Callable[[web.WebSocketResponse], Awaitable[None]]
"""Serves one connection; it ends with the call."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = {}


class SourceServer:
    """Serves while it is entered. ``says(path)`` is what the path answers now, None: 404; ``sockets`` are those by path.

    Each answer of status 200 has an ETag; whoever sends it back gets 304 while the answer is the same.
    """

    def __init__(self, says: Callable[[str], Answer | None], sockets: Mapping[str, Socket] | None = None) -> None:
        self._says, self._sockets = says, sockets or {}
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_ENDS_WITHIN_S)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        if path in self._sockets:
            ws = web.WebSocketResponse()
            await ws.prepare(request)
            await self._sockets[path](ws)
            await ws.close()
            return ws
        if (page := self._says(path)) is None:
            return web.Response(status=404)
        tag = f'"{hashlib.sha256(page.body).hexdigest()[:32]}"'
        if page.status != 200:
            return web.Response(
                body=page.body, status=page.status, headers=page.headers, content_type=page.content_type
            )
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers={"ETag": tag})
        return web.Response(body=page.body, headers={"ETag": tag, **page.headers}, content_type=page.content_type)


PLAYED_S = 50.0
"""How long the script takes, once the listener looks."""
STORY_S = 15.0
"""Within so long all tellings of an event come, and no other event that is like it."""
LOOK_EVERY_S = 1
LOOKED_WITHIN_S = 60.0
SENT_WITHIN_S = 30.0
"""How long a webhook is sent again and again: the listener's port opens with the listener."""
DEAD = "gone-quiet"
REPEATING = "archive"
HOOK = "desk"
DEAD_FOR = 2
"""Looks at the dead source that get status 503; all others get a page."""
Kind = Literal["RSS", "Atom", "JSON", "WebSocket", "statuspage", "Telegram", "webhook"]
OUTLETS: dict[str, tuple[Kind, str]] = {
    "coast-herald": ("RSS", "coindesk"),
    "block-courier": ("RSS", "coindesk"),
    "lianbao": ("RSS", "panews"),
    "chain-releases": ("Atom", "geth-releases"),
    "exchange-board": ("JSON", "bybit-announcements"),
    "flash": ("WebSocket", "bwenews"),
    "status": ("statuspage", "kraken-status"),
    "channel": ("Telegram", "telegram-wublock"),
    REPEATING: ("RSS", "coindesk"),
    DEAD: ("RSS", "coindesk"),
    HOOK: ("webhook", ""),
}
"""Invented sources: their kind, and the source of the shipped list whose shape they have."""
_SHAPES: dict[Kind, tuple[Callable[..., Any], str]] = {
    "RSS": (rss, "application/rss+xml"), "Atom": (atom, "application/atom+xml"), "Telegram": (telegram, "text/html"),
    "JSON": (bybit, "application/json"), "statuspage": (statuspage, "application/json"),
}  # fmt: skip
_SHAPED_BY = ("kind", "language", "items", "item_id", "title", "text", "link", "published", "ping", "pong")
_INCIDENT = "{^.name} ({status})"


class Telling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the script. ``of``: the event of the sample, whose text is the title unless there is another.

    ``change``: an earlier line of the same source and event has this title and text from now on: an ``edit``, which is news, or
    another ``rendering``, which is none.
    """

    source: str
    of: str
    title: str = ""
    text: str = ""
    change: Literal["", "edit", "rendering"] = ""


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What the newsroom told as news: an item, or an edit of it, and the hash of the text that a listener is to make of it."""

    source: str
    of: str
    text_hash: str
    is_edit: bool


def script() -> list[Telling]:
    """Return the lines of the script, in the order of time."""
    lines = resources.files("infra.offline").joinpath("sample/newsroom.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Telling) for line in lines]


class Newsroom:
    """Serves while it is entered, and tells the script while :meth:`play` runs.

    ``shown``: what it told so far. It shows all of it until it is left.
    """

    def __init__(self, *, over_s: float = PLAYED_S) -> None:
        self.shown: list[Shown] = []
        self.secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
        self._over_s = over_s
        self._samples = {str(item.external_id): item.text for item in sample_news()}
        self._items: dict[str, dict[str, Report]] = {name: {} for name in OUTLETS}
        self._looks: defaultdict[str, int] = defaultdict(int)
        self._looked: dict[str, asyncio.Event] = {name: asyncio.Event() for name in OUTLETS}
        self._flashes: asyncio.Queue[Report] = asyncio.Queue()
        self._server = SourceServer(self._says, {"flash": self._flash})

    async def __aenter__(self) -> Newsroom:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *gone: object) -> None:
        await self._server.__aexit__(*gone)

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def tellings(self) -> int:
        """How many of the script's lines are to become cases."""
        return sum(line.change != "rendering" for line in script())

    @property
    def sources(self) -> list[str]:
        """The ids of what a listener is to listen to."""
        return [name for name in OUTLETS if name != HOOK]

    @property
    def rows(self) -> str:
        """The rows of a list of sources (:mod:`infra.listeners.source`), each with the shape of one that ships."""
        shipped, rows = sources_of(None), []
        for name, (kind, like) in OUTLETS.items():
            if like:
                shape = {field: getattr(shipped[like], field) for field in _SHAPED_BY}
                if kind == "statuspage":
                    shape["title"] = _INCIDENT
                url = self.url.replace("http", "ws" if kind == "WebSocket" else "http", 1)
                row = {"id": name, "url": f"{url}/{name}", "every_s": LOOK_EVERY_S, "private": True, "robots": False}
                lines = [f"{field} = {json.dumps(value)}" for field, value in (row | shape).items() if value != ""]
                rows.append("\n".join(["[[source]]", *(line for line in lines if not line.endswith("null"))]))
        return "\n\n".join(rows) + "\n"

    async def play(self, hooks: str) -> None:
        """Tell the script, beginning when somebody looks for the first time. ``hooks``: where webhooks are sent.

        Raises:
            TransientError: nobody looked, or a webhook was not taken.
        """
        try:
            async with asyncio.timeout(LOOKED_WITHIN_S):
                await self._looked["coast-herald"].wait()
        except TimeoutError as exc:
            raise TransientError(
                f"no listener polled the newsroom within {LOOKED_WITHIN_S:g} s: check the listener's log"
            ) from exc
        loop, lines = asyncio.get_running_loop(), script()
        began = loop.time()
        for number, telling in enumerate(lines):
            await asyncio.sleep(began + self._over_s * number / len(lines) - loop.time())
            await self._tell(telling, hooks)

    async def _tell(self, telling: Telling, hooks: str) -> None:
        name, kind = telling.source, OUTLETS[telling.source][0]
        before = self._items[name].get(telling.of)
        if telling.change:  # nobody edits what nobody could read
            self._looked[name].clear()
            await self._looked[name].wait()
        report = Report(
            id=telling.of,
            title=telling.title or self._samples[telling.of],
            text=telling.text,
            link=f"https://{name}.example/{telling.of}",
            at=datetime.now(UTC) if before is None else before.at,
        )
        self._items[name][telling.of] = report
        if telling.change != "rendering":
            is_edit = telling.change == "edit"
            self.shown.append(
                Shown(source=name, of=telling.of, text_hash=text_hash(_text(report, kind)), is_edit=is_edit)
            )
        if kind == "WebSocket":
            self._flashes.put_nowait(report)
        elif kind == "webhook":
            await self._send(report, f"{hooks}/hooks/{name}")

    def _says(self, name: str) -> Answer | None:
        if name not in OUTLETS or name == HOOK:
            return None
        self._looks[name] += 1
        self._looked[name].set()
        if name == DEAD:
            page = b"<!DOCTYPE html><html><title>Just a moment...</title></html>"
            return Answer(body=page, content_type="text/html", status=503 if self._looks[name] <= DEAD_FOR else 200)
        items = list(reversed(self._items[name].values()))
        if name == REPEATING:  # what it had comes under another id at each look
            items = [msgspec.structs.replace(item, id=f"{item.id}-{self._looks[name]}", link="") for item in items]
        shape, content_type = _SHAPES[OUTLETS[name][0]]
        body = shape(*items)
        return Answer(body=body if isinstance(body, bytes) else orjson.dumps(body), content_type=content_type)

    async def _flash(self, ws: web.WebSocketResponse) -> None:
        await ws.send_str("ping")
        if (await ws.receive()).type != WSMsgType.TEXT:
            return
        while True:
            report = await self._flashes.get()
            try:
                await ws.send_bytes(orjson.dumps(bwenews(report)))
            except ConnectionError:
                self._flashes.put_nowait(report)  # for whoever connects next
                return

    async def _send(self, report: Report, url: str) -> None:
        item = {"id": report.id, "text": _text(report, "webhook"), "url": report.link, "published_at": report.at}
        body = orjson.dumps({"type": "news", "timestamp": report.at, "data": item})
        why = ""
        try:
            async with asyncio.timeout(SENT_WITHIN_S), httpx.AsyncClient(trust_env=False) as http:
                while True:
                    headers = signing_headers(key_of(self.secret), report.id, datetime.now(UTC), body)
                    try:
                        answer = await http.post(url, content=body, headers=headers)
                        if answer.status_code == 202:
                            return
                        why = f"status {answer.status_code}, {answer.text.strip()}"
                    except httpx.TransportError as exc:
                        why = type(exc).__name__
                    await asyncio.sleep(0.5)
        except TimeoutError as exc:
            raise TransientError(f"the listener takes no webhook at {url} ({why}): check the listener's log") from exc


def _text(report: Report, kind: Kind) -> str:
    title = f"{report.title} (investigating)" if kind == "statuspage" else report.title
    return f"{title}\n\n{report.text}".strip()

"""A server that speaks version 1 of the API from memory, and that a test can hold at any point, kill and start again.

It serves the real page under the real headers, so what a browser refuses here it refuses everywhere.
"""

from __future__ import annotations

import asyncio
import copy
import json
import mimetypes
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from inspect import isawaitable
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from newsproof.web import pages
from newsproof.web.guard import HEADERS
from tests.browser import recorded
from tests.browser.fake_investigations import FakeInvestigations
from tests.browser.played_bots import PlayedBots
from tests.browser.played_operations import PlayedOperations
from tests.browser.played_sources import PlayedSources
from tests.browser.recorded import Events, Json

STATIC = Path(pages.__file__).with_name("static")
mimetypes.add_type("text/javascript", ".js")


class Chat:
    """One turn: what it has said so far. A test adds to it; every reader is woken."""

    def __init__(self, chat_id: str, conversation: str, body: Json, planned: list[Events]) -> None:
        self.chat_id, self.conversation, self.body, self.planned = chat_id, conversation, body, planned
        self.said: list[list[tuple[str, Json]]] = []
        self.moved = asyncio.Condition()
        self.stops: list[str] = []
        self.asked_at = datetime.now(UTC)

    @property
    def ended(self) -> bool:
        """Whether it has said ``done``."""
        return any(name == "done" for record in self.said for name, _ in record)

    async def say(self, events: Events) -> None:
        """Append one record."""
        async with self.moved:
            self.said.append(recorded.stamped(events, len(self.said)))
            self.moved.notify_all()

    async def has_said(self, records: int) -> None:
        """Wait until it has said that many records."""
        async with self.moved:
            await self.moved.wait_for(lambda: len(self.said) >= records)

    async def go_on(self, records: int = 1) -> None:
        """Append the next planned records."""
        for _ in range(records):
            await self.say(self.planned[len(self.said)])

    async def finish(self) -> None:
        """Append all planned records that are left."""
        await self.go_on(len(self.planned) - len(self.said))

    def as_item(self) -> Json:
        """Return it as the list of turns has it."""
        state = "answered" if self.ended else "running"
        return {
            "chat_id": self.chat_id,
            "conversation": self.conversation,
            "message": self.body["message"][:280],
            "asked_at": self.asked_at.isoformat(),
            "state": state,
        }


class FakeApi:
    """The state of the system that it plays. ``records_at_once``: how much of a turn comes by itself (None: everything).

    ``asking`` cleared holds questions back; without ``confirms`` they are taken, but refused for want of a confirmation.
    """

    def __init__(self) -> None:
        self.sql_rows: list[list[Any]] = []
        self.status: Json = {"mode": "offline", "label": "offline: rules and invented pages, for trying and testing", "version": "0.1.0", "kafka": "ok", "clickhouse": "ok", "workers_seen": True, "live": True, "command": "./run --data-dir .data", **recorded.VITALS}  # fmt: skip
        self.prices: Json = {}
        self.market: Json = {"market": None, "why": "no_import"}
        self.names: dict[str, str] = {}
        self.published: list[Json] = []
        self.signals = copy.deepcopy(recorded.newest_signals())
        self.documents = dict(recorded.documents())
        self.report: Json = recorded.report()
        self.no_study = ""
        self.runs = list(recorded.RUNS)
        self.operations = PlayedOperations()
        self.sources = PlayedSources()
        self.bots = PlayedBots()
        self.chats: dict[str, Chat] = {}
        self.investigations = FakeInvestigations(Chat, self._send)
        self.records_at_once: int | None = None
        self.answer: str | None = None
        self.asking = asyncio.Event()
        self.asking.set()
        self.confirms = True
        self.refusals: dict[str, tuple[int, Json]] = {}
        self.asked: list[str] = []
        self.live: set[asyncio.Queue[bytes]] = set()
        self.live_said: list[bytes] = []
        self._numbers = 0
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def address(self) -> str:
        """Where it is, without a slash at the end."""
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Serve, on the same port as before if it was started before."""
        app = web.Application(middlewares=[self._middleware])
        get, post = app.router.add_get, app.router.add_post
        get("/static/{path:.*}", self._static)
        get("/api/v1/status", self._told(lambda _: self.status))
        get("/api/v1/signals", self._told(self._signals))
        get("/api/v1/cases", self._told(self._cases))
        get(
            "/api/v1/cases/{id:.*}",
            self._told(lambda r: self.documents[self.names.get(r.match_info["id"], r.match_info["id"])]),
        )
        get(
            "/api/v1/prices",
            self._told(lambda r: {"prices": {c: p for c in r.query.getall("case") if (p := self.prices.get(c))}}),
        )
        get("/api/v1/prices/candles", self._told(lambda _: self.market))
        post("/api/v1/news", self._publish)
        post("/api/v1/news/sample", self._sample)
        get("/api/v1/stream", self._stream)
        get("/api/v1/report", self._told(lambda _: self.report))
        get("/api/v1/report/tables/{name}", self._told(lambda r: {"rows": recorded.ANSWERS[r.match_info["name"]]}))
        get("/api/v1/report/study", self._study)
        get("/api/v1/report/charts/{name}.svg", self._chart)
        post("/api/v1/sql", self._sql)
        get("/api/v1/backtests", self._told(lambda _: {"items": self.runs}))
        get("/api/v1/backtests/compare", self._told(lambda _: recorded.comparison()))
        get("/api/v1/research/chats", self._told(lambda _: {"items": [c.as_item() for c in self.chats.values()]}))
        post("/api/v1/research/chat", self._ask)
        get("/api/v1/research/chat/{id}", self._resume)
        post("/api/v1/research/chat/{id}/stop", self._stop)
        get("/api/v1/operations", self._told(lambda _: self.operations.document(self.status)))
        get("/api/v1/sources", self._told(self.sources.document))
        get("/api/v1/bots", self._told(self.bots.document))
        post("/api/v1/bots/{command}", self.bots.command)
        get("/api/v1/dead-letters", self._told(self.operations.page))
        post("/api/v1/dead-letters/requeue", self.operations.requeue)
        self.investigations.route(app)
        get("/{path:.*}", self._page)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """End as a killed process does: every connection is gone at once."""
        if self._runner is not None:
            server = self._runner.server
            for connection in list(server.connections) if server is not None else []:
                if connection.transport is not None:
                    connection.transport.abort()
            await self._runner.cleanup()
            self._runner = None

    async def publish(self, signal: Json) -> None:
        """Publish a signal to everyone who follows."""
        self.signals.insert(0, signal)
        await self.tell("signal", signal)

    async def tell(self, kind: str, data: Json) -> None:
        """Send an event to everyone who follows."""
        body = json.dumps({"type": kind, "data": data})
        self.live_said.append(f"id: {len(self.live_said) + 1}\nevent: {kind}\ndata: {body}\n\n".encode())
        for queue in self.live:
            queue.put_nowait(self.live_said[-1])

    @web.middleware
    async def _middleware(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path_qs}")
        refusal = next((said for path, said in self.refusals.items() if request.path.startswith(path)), None)
        if refusal is not None:
            response: web.StreamResponse = web.json_response(refusal[1], status=refusal[0], headers=HEADERS)
        else:
            try:
                response = await handler(request)
            except KeyError as exc:
                said = {"error": f"there is no {exc}", "do": "look for it in /api/v1/cases"}
                response = web.json_response(said, status=404)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    def _told(self, answer: Callable[[web.Request], Any]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def tell(request: web.Request) -> web.StreamResponse:
            told = answer(request)
            told = await told if isawaitable(told) else told
            return web.json_response(told, headers={"cache-control": "no-store"})

        return tell

    async def _page(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=(STATIC / "index.html").read_bytes(), content_type="text/html", charset="utf-8")

    async def _static(self, request: web.Request) -> web.StreamResponse:
        file = STATIC / request.match_info["path"]
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        return web.Response(body=file.read_bytes(), content_type=kind, headers={"cache-control": "no-cache"})

    def _signals(self, request: web.Request) -> Json:
        asked = request.query
        found = [
            one
            for one in self.signals
            if one["asset"] in asked.get("asset", one["asset"]).split(",")
            and asked.get("q", "").lower() in f"{one['summary']} {one['summary_en']} {one['summary_zh']}".lower()
            and asked.get("event_type", one["event_type"]) == one["event_type"]
            and asked.get("verdict", one["verdict"]) == one["verdict"]
            and asked.get("stage", one["stage"]) == one["stage"]
            and asked.get("action", one["action"]) == one["action"]
            and asked.get("source", one["news_source"]) == one["news_source"]
            and one["confidence"] >= float(asked.get("min_confidence", 0))
            and (one["supporting_sources"] or 0) >= int(asked.get("min_sources", 0))
        ]
        first, many = int(asked.get("before", 0)), int(asked["limit"])
        more = str(first + many) if len(found) > first + many else None
        return {"items": found[first : first + many], "next": more, "after": str(len(self.live_said))}

    def _cases(self, request: web.Request) -> Json:
        asked = request.query
        items = sorted((d["case"] for d in self.documents.values()), key=lambda c: str(c["received_at"]), reverse=True)
        if "state" in asked:
            items = [c for c in items if (c["status"] == "open") == (asked["state"] == "open")]
        if "q" in asked:
            items = [c for c in items if asked["q"].casefold() in c["text"].casefold()]
        first, many = int(asked.get("before", 0)), int(asked["limit"])
        more = str(first + many) if len(items) > first + many else None
        return {"items": items[first : first + many], "next": more, "note": "", "after": str(len(self.live_said))}

    async def _publish(self, request: web.Request) -> web.StreamResponse:
        item = await request.json()
        self.published.append(item)
        said = {"case_id": next(iter(self.documents), "none"), "dated_now": "published_at" not in item}
        return web.json_response(said, status=202)

    async def _sample(self, request: web.Request) -> web.StreamResponse:
        for one in recorded.newest_signals():
            await self.publish(one)
        return web.json_response({"published": len(self.signals)}, status=202)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = await self._events(request)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        for missed in self.live_said[int(request.headers.get("Last-Event-ID") or len(self.live_said)) :]:
            queue.put_nowait(missed)
        self.live.add(queue)
        try:
            while True:
                await response.write(await queue.get())
        finally:
            self.live.discard(queue)

    async def _events(self, request: web.Request, **headers: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={**HEADERS, "content-type": "text/event-stream", "cache-control": "no-store", **headers})  # fmt: skip
        await response.prepare(request)
        await response.write(b": connected\n\n")
        return response

    async def _study(self, request: web.Request) -> web.StreamResponse:
        found = None if self.no_study else recorded.study(request.query["by"])
        return web.Response(
            body=msgspec.json.encode({"study": found, "why": self.no_study}), content_type="application/json"
        )

    async def _chart(self, request: web.Request) -> web.StreamResponse:
        drawn = recorded.chart(request.match_info["name"], request.query)
        return web.Response(text=drawn, content_type="image/svg+xml")

    async def _sql(self, request: web.Request) -> web.StreamResponse:
        query = str((await request.json())["query"])
        if "repeat(" in query:
            return web.json_response({"columns": [], "rows": [], "truncated": True, "seconds": 0.01})
        if not query.lstrip().upper().startswith(("SELECT", "SHOW")):
            said = {
                "error": "only statements that read are allowed",
                "do": "write a SELECT; docs/sql.md has ten of them",
            }
            return web.json_response(said, status=400)
        columns = [
            {"name": "step", "type": "String"},
            {"name": "results", "type": "UInt64"},
            {"name": "p95_ms", "type": "Float64"},
        ]
        rows = self.sql_rows or [[row["step"], row["results"], row["p95_ms"]] for row in recorded.ANSWERS["latency"]]
        return web.json_response({"columns": columns, "rows": rows, "truncated": False, "seconds": 0.012})

    # Research

    async def _ask(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        await self.asking.wait()
        self._numbers += 1
        chat_id = str(uuid.UUID(int=self._numbers << 104))
        conversation = body.get("conversation") or chat_id
        planned = recorded.analysis(chat_id, conversation, body["message"])
        if self.answer is not None:
            planned[-1] = [("final_answer", recorded.final(self.answer)), ("done", {})]
        chat = self.chats[chat_id] = Chat(chat_id, conversation, body, planned)
        await chat.go_on(len(planned) if self.records_at_once is None else self.records_at_once)
        if not self.confirms:
            said = {"error": "Kafka has not confirmed the question in time", "do": "follow it", "chat_id": chat_id}
            return web.json_response(said, status=503, headers={"X-Chat-Id": chat_id})
        return await self._send(request, chat, 0, **{"X-Chat-Id": chat_id})

    async def _resume(self, request: web.Request) -> web.StreamResponse:
        chat = self.chats[request.match_info["id"]]
        last = request.headers.get("Last-Event-ID")
        return await self._send(request, chat, 0 if last is None else int(last) + 1)

    async def _send(self, request: web.Request, chat: Chat, first: int, **headers: str) -> web.StreamResponse:
        response = await self._events(request, **headers)
        at = first
        while True:
            await chat.has_said(at + 1)
            for number, (name, data) in enumerate(chat.said[at], 1):
                head = f"id: {at}\n" if number == len(chat.said[at]) else ""
                text = json.dumps({"type": name, "data": data})
                await response.write(f"{head}event: {name}\ndata: {text}\n\n".encode())
                if name == "done":
                    return response
            at += 1

    async def _stop(self, request: web.Request) -> web.StreamResponse:
        chat = self.chats[request.match_info["id"]]
        finish = request.query.get("finish") == "true"
        if chat.ended:
            said = {"error": "this turn has ended already", "do": "ask another question"}
            return web.json_response(said, status=409)
        chat.stops.append("finish" if finish else "stop")
        if finish:
            partial = recorded.final("What is there so far: the price rose [2].")
            partial["metadata"] = {**partial["metadata"], "path": "partial"}
            await chat.say([("status", {"stage": "synthesis", "message": "Writing the answer"})])
            await chat.say([("final_answer", partial), ("done", {})])
        else:
            await chat.say([("done", {"stopped": True, "requested_by": "page", "reason": "stopped"})])
        return web.json_response({"chat_id": chat.chat_id, "finishing" if finish else "stopping": True}, status=202)

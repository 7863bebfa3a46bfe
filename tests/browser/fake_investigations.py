"""Investigations and watches of the fake API: one stream that a test moves step by step, and a list of watches."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from tests.browser.recorded import Events, Json

FIRST, SECOND = "00000000-0000-5000-8000-0000000000a1", "00000000-0000-5000-8000-0000000000a2"
AS_OF = "2026-02-10T00:00:00Z"
SPENT = {"tokens": {"input": 17000, "output": 586}, "cost_usd": 0.0125, "seconds": 21.4}


def _page(number: int, title: str, **more: Any) -> Json:
    return {
        "number": number, "title": title, "url": f"https://news{number}.example/a", "passage": f"{title}\n{title}",
        "credibility": "high", "published_at": "2026-02-04T09:00:00Z", **more,
    }  # fmt: skip


BRIEF: Json = {
    "subject": "DeepSeek", "subject_key": "deepseek", "as_of": AS_OF, "language": "en",
    "established": [{"text": "DeepSeek discloses a breach of a test database.", "references": [1], "claim": 0}],
    "disputed": [{"text": "Norland bans DeepSeek nationwide.", "references": [2, 3], "claim": 1}], "unsettled": [],
    "claims": [
        {"claim": "DeepSeek discloses a breach.", "verdict": "confirmed", "supporting_sources": 2, "evidence": [{"number": 1, "stance": "supports"}]},
        {"claim": "Norland bans DeepSeek nationwide.", "verdict": "refuted", "supporting_sources": 1, "evidence": [
            {"number": 2, "stance": "denies", "quote": "The order is for government devices"}, {"number": 3, "stance": "supports"}]},
    ],
    "references": [
        _page(1, "Breach at DeepSeek", official=True, first_seen=True), _page(2, "Correction: no nationwide ban", official=True),
        {**_page(3, "Norland bans DeepSeek"), "published_at": None},
    ],
    "new_since": [{"kind": "verdict_changed", "claim": 1, "references": [2], "before": "likely", "testable": True}],
    "previous": SECOND, "previous_as_of": "2026-01-27T00:00:00Z", "questions": [],
    "not_found": ["Is DeepSeek raising money?"], "not_done": ["One search failed: timeout"], "path": "complete",
}  # fmt: skip


def investigation(id: str, question: str) -> list[Events]:
    """Return the records of a whole investigation, each with the events that it says."""

    def step(number: int, phase: str, observation: str, **more: Any) -> tuple[str, Json]:
        whole = {
            "id": f"step-{number}", "number": number, "step": phase, "phase": phase, "thought": "Because of the frame",
            "action": "Searching for DeepSeek", "observation": observation, "tool_calls": [], "tokens": {"input": 300, "output": 54},
            "cost_usd": 0.001, "duration_ms": 462, **more,
        }  # fmt: skip
        return "thought_step", whole

    search = {"kind": "search", "provider": "tavily", "model": None, "ok": True, "query": "DeepSeek ban", "hits": 5, "latency_ms": 44.7, "cost_usd": 0.008}  # fmt: skip
    lost = {**search, "ok": False, "query": None, "hits": None, "error": "timeout"}
    asked = {"investigation_id": id, "subject": "DeepSeek", "question": question, "as_of": AS_OF, "limits": {"rounds": 3, "steps": 10, "searches": 12}, "watch": None}  # fmt: skip
    return [
        [("status", {"phase": "idle", "message": "Looking into DeepSeek", **asked})],
        [step(1, "planning", "5 sub-questions"), ("status", {"phase": "searching", "message": "Searching"})],
        [
            step(2, "searching", "5 pages are usable", tool_calls=[search, lost]),
            ("status", {"phase": "critiquing", "message": "Judging each claim by quotes"}),
        ],
        [step(3, "critiquing", "2 of 2 claims read with quotes"), ("brief", BRIEF), ("done", {"phase": "completed", "state": "finished", **SPENT})],
    ]  # fmt: skip


def watch(subject: str, **asked: Any) -> Json:
    """Return a watch as the API lists it."""
    every = asked.get("every")
    return {
        "id": f"00000000-0000-5000-8000-{abs(hash(subject)) % 10**12:012d}", "subject": subject, "state": "active",
        "every_s": int(every[:-1]) * 3600 if every else None, "on_news": every is None, "source": "watch:x",
        "set_at": AS_OF, "fired": 1, "fired_today": 1, "last_fired_at": AS_OF, "next_due_at": "2026-02-10T06:00:00Z" if every else None,
        "last_result": {"investigation_id": FIRST, "state": "finished", "ended_at": AS_OF, "new": 2}, "note": "",
    }  # fmt: skip


class FakeInvestigations:
    """What the routes of investigations and watches answer. ``records_at_once``: how much of one comes by itself."""

    def __init__(self, chat: Any, send: Any) -> None:
        self._chat, self._send = chat, send
        self.started: dict[str, Any] = {}
        self.bodies: list[Json] = []
        self.watches: list[Json] = []
        self.records_at_once: int | None = None

    def route(self, app: web.Application) -> None:
        """Add the routes."""
        get, post = app.router.add_get, app.router.add_post
        get("/api/v1/investigations", self._list)
        post("/api/v1/investigations", self._start)
        get("/api/v1/investigations/{id}", self._follow)
        post("/api/v1/investigations/{id}/stop", self._stop)
        get("/api/v1/watches", self._watches)
        post("/api/v1/watches", self._watch)
        post("/api/v1/watches/{id}/{command}", self._change)

    async def begin(self, id: str, body: Json) -> Any:
        """Have one begun; return it."""
        planned = investigation(id, body["subject"])
        one = self.started[id] = self._chat(id, id, {"message": body["subject"]}, planned)
        await one.go_on(len(planned) if self.records_at_once is None else self.records_at_once)
        return one

    async def _list(self, _request: web.Request) -> web.Response:
        items = [
            {"investigation_id": id, "subject": "DeepSeek", "question": one.body["message"], "language": "en", "as_of": AS_OF,
             "asked_at": datetime.now(UTC).isoformat(), "watch": None, "state": "finished" if one.ended else "running"}
            for id, one in reversed(self.started.items())
        ]  # fmt: skip
        return web.json_response({"items": items})

    async def _start(self, request: web.Request) -> web.Response:
        self.bodies.append({**await request.json(), "key": request.headers["Idempotency-Key"]})
        id = [FIRST, SECOND][len(self.started) % 2]
        await self.begin(id, self.bodies[-1])
        return web.json_response({"investigation_id": id}, status=202)

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        last = request.headers.get("Last-Event-ID")
        found: web.StreamResponse = await self._send(
            request, self.started[request.match_info["id"]], 0 if last is None else int(last) + 1
        )
        return found

    async def _stop(self, request: web.Request) -> web.Response:
        one = self.started[request.match_info["id"]]
        one.stops.append("finish" if request.query.get("finish") else "stop")
        await one.say([("done", {"phase": "completed", "state": "stopped", **SPENT})])
        return web.json_response({}, status=202)

    async def _watches(self, _request: web.Request) -> web.Response:
        return web.json_response({"items": self.watches})

    async def _watch(self, request: web.Request) -> web.Response:
        self.watches.append(watch(**await request.json()))
        return web.json_response(self.watches[-1], status=201)

    async def _change(self, request: web.Request) -> web.Response:
        found = next(one for one in self.watches if one["id"] == request.match_info["id"])
        found["state"] = {"pause": "paused", "resume": "active", "end": "ended"}[request.match_info["command"]]
        return web.json_response(found)

"""Operations as the fake API plays them: the real document, of processes, figures and dead letters that a test may change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from aiohttp import web
from msgspec.structs import replace

from newsproof.app.dead_letters import DeadLetter, standing_of
from newsproof.web.operations import operations
from newsproof.web.processes import Figures, Process, Sample
from schemas.topics import Topics
from streams.feed.case_items import FeedCase

TOPICS = Topics()
REASONS = ("not_json", "missing_field", "case_failed", "bad_event", "not_json")
_encode = msgspec.json.Encoder(enc_hook=str).encode


def letter(number: int, at: datetime) -> DeadLetter:
    """Return one dead letter; every fourth is a failed case, every fifth of the pipeline's own."""
    reason = REASONS[number % len(REASONS)]
    return DeadLetter(
        id=f"{number % 4}:{number}", reason=reason, why=f"the record is not as it should be ({number})", consumer="intake",
        topic="" if reason == "case_failed" else TOPICS.cases if reason == "bad_event" else TOPICS.news,
        case=f"00000000-0000-4000-8000-{number:012}" if reason == "case_failed" else None,
        partition=0, offset=number, at=at - timedelta(minutes=500 - number), key=None, headers=(),
        value=b'{"source": "<b>wire</b>", "text": "\xe2\x80\xaeheadline ' + b"x" * 90 + b'"}',
    )  # fmt: skip


class PlayedOperations:
    """What is played: with ``well`` nothing is wrong, with ``known`` cleared nobody says anything."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 23, 12, tzinfo=UTC)
        self.letters = [letter(number, self.now) for number in range(500)]
        self.well, self.known = False, True

    def document(self, status: dict[str, Any]) -> Any:
        """Return the answer of `/api/v1/operations`."""
        waits = {} if self.well else {"clickhouse": "it is away; the same rows are sent again"}
        processes = [
            Process(name="worker-0", kind="worker", state="ready", seen_at=self.now),
            Process(name="research-0", kind="research", state="ready" if self.well else "away", seen_at=self.now),
            Process(name="sink", kind="sink", state="waits" if waits else "ready", waits_for=waits, seen_at=self.now),
        ]
        opened = self.now - timedelta(minutes=1 if self.well else 40)
        found = operations(
            processes if self.known else [], Figures(("worker-0", one) for one in self._samples() if self.known),
            topics=TOPICS, letters=([] if self.well else self.letters) if self.known else None,
            cases=[FeedCase(case_id="00000000-0000-4000-8000-000000000001", received_at=opened)] if self.known else None,
            now=self.now,
        )  # fmt: skip
        return msgspec.json.decode(_encode(found)) | {"status": status}

    def _samples(self) -> list[Sample]:
        bad = not self.well
        breaker = {"kind": "search", "provider": "tavily", "model": ""}
        return [
            ("newsproof_consumer_lag", {"topic": TOPICS.news, "partition": "0"}, 12_345 * bad),
            ("newsproof_consumer_lag", {"topic": TOPICS.cases, "partition": "0"}, 0),
            ("newsproof_sink_lag", {"topic": TOPICS.cases, "partition": "0"}, 67_890 * bad),
            ("newsproof_sink_waits", {}, bad), ("newsproof_max_open_cases", {}, 2_000),
            ("newsproof_intake_paused", {"reason": "max_open_cases"}, bad),
            ("newsproof_budget_limit_usd", {}, 30), ("newsproof_budget_left_usd", {}, 1.25 if bad else 28.4),
            ("newsproof_budget_triage_limit_usd", {}, 3), ("newsproof_budget_triage_left_usd", {}, 3),
            ("newsproof_budget_limit_units", {}, 50), ("newsproof_budget_left_units", {}, 0 if bad else 41),
            ("newsproof_breaker_state", breaker, 2 * bad), ("newsproof_breaker_opened_total", breaker, 3 * bad),
            ("newsproof_breaker_state", {"kind": "model", "provider": "gemini", "model": "gemini-3-flash"}, 0),
            ("newsproof_listener_source_failures", {"source": "protos", "reason": "not_found"}, 7 * bad),
            ("newsproof_listener_source_state", {"source": "wublock", "state": "stale"}, bad),
            ("newsproof_audit_timestamp_seconds", {}, self.now.timestamp() - 86_400),
            ("newsproof_audit_broken", {"promise": "lost"}, 2 * bad),
            ("newsproof_audit_broken", {"promise": "forged_signals"}, 0),
        ]  # fmt: skip

    def page(self, request: web.Request) -> Any:
        """Return the answer of `/api/v1/dead-letters`."""
        first, limit = int(request.query.get("offset", 0)), int(request.query.get("limit", 100))
        fitting = [one for one in reversed(self.letters) if one.reason == request.query["reason"]]
        names = ("id", "at", "reason", "why", "case", "preview")
        items = [
            {name: getattr(one, name) for name in names} | {"standing": standing_of(one, TOPICS.news)}
            for one in fitting[first : first + limit]
        ]
        return {"items": msgspec.json.decode(_encode(items)), "count": len(fitting)}

    async def requeue(self, request: web.Request) -> web.Response:
        """Mark the letters that wait as sent."""
        wanted = await request.json()
        chosen = {
            one.id for one in self.letters
            if (one.id in wanted.get("ids", ()) or one.reason == wanted.get("reason")) and standing_of(one, TOPICS.news) == "waiting"
        }  # fmt: skip
        self.letters = [replace(one, requeued=one.requeued or one.id in chosen) for one in self.letters]
        return web.json_response({"requeued": sorted(chosen), "skipped": {}, "left": 0})

"""Investigations over HTTP: ask, follow, resume, stop. The records of one are those of a run in memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from schemas.calls import Call
from schemas.events import EffectCompleted, Event
from schemas.research_events import ClaimsCritiqued
from tests.agents.investigation.worlds import DATES, QUESTION, investigated
from tests.newsproof.web.conftest import Serving
from tests.newsproof.web.reading import streaming
from tests.newsproof.web.test_web_research import go_on
from tests.streams.world import World

AT = "/api/v1/investigations"


def in_one_record_each(events: Iterable[Event]) -> list[Event]:
    """The events of the path, each with the calls that were recorded before it."""
    path: list[Event] = []
    calls: tuple[Call, ...] = ()
    for event in events:
        calls += event.calls
        if not isinstance(event, EffectCompleted):
            path.append(replace(event, calls=calls))
            calls = ()
    return path


async def test_a_subject_is_looked_into_followed_resumed_and_listed_and_one_key_opens_it_once(
    world: World, serving: Serving
) -> None:
    events = in_one_record_each((await asyncio.to_thread(investigated, at=DATES[1])).events[1:])
    middle = next(n for n, e in enumerate(events) if isinstance(e, ClaimsCritiqued))
    async with serving() as http:
        asked = {"subject": QUESTION, "as_of": DATES[1].isoformat(), "limits": {"rounds": 2}, "own": 1}
        posted = [await http.post(AT, json=asked, headers={"idempotency-key": world.topics.prefix}) for _ in range(2)]
        assert [one.status_code for one in posted] == [202, 202] and posted[0].json() == posted[0].json()
        found = posted[0].json()
        case_id = found["investigation_id"]
        assert posted[1].json()["investigation_id"] == case_id
        assert (found["subject"], found["language"], found["state"]) == ("DeepSeek", "en", "running")

        async with streaming(http, f"{AT}/{case_id}") as stream:
            first = await stream.next()
            assert first is not None and first.data["data"]["limits"] == {"rounds": 2, "steps": 10, "searches": 12}
            await go_on(world, case_id, events[:middle])
            early = await stream.until("thought_step", 3)
        await go_on(world, case_id, events[middle:])
        async with streaming(http, f"{AT}/{case_id}", last_id=stream.last_id) as stream:
            later = await stream.rest()
        sent = [first, *early, *later]
        told = [one.data["data"] for one in sent if one.event == "thought_step"]
        steps = list({s["id"]: s for s in told}.values())  # cut inside of a record, its events come again
        assert [one.event for one in sent if one.event not in ("thought_step", "status")] == ["brief", "done"]
        assert [s["number"] for s in steps] == list(range(1, len(steps) + 1))
        assert {s["phase"] for s in steps} == {
            "planning", "searching", "scraping", "expanding", "executing", "critiquing", "synthesizing",
        }  # fmt: skip
        searched = next(s for s in steps if s["phase"] == "searching")
        assert Counter(c["kind"] for c in searched["tool_calls"]) == {"search": 5} and searched["duration_ms"] >= 0
        assert all(s["thought"] or s["action"] for s in steps) and set(steps[0]["tokens"]) == {"input", "output"}
        brief, done = sent[-2].data["data"], sent[-1].data["data"]
        assert brief["established"][0]["references"] and (done["phase"], done["cost_usd"]) == ("completed", 0)

        listed = (await http.get(AT)).json()["items"]
        assert [(one["investigation_id"], one["state"]) for one in listed] == [(case_id, "finished")]
        again = await http.get(f"{AT}/{case_id}", headers={"last-event-id": later[-1].id})
        ended = await http.post(f"{AT}/{case_id}/stop")
        assert (again.status_code, ended.status_code) == (204, 409)
        # It is no chat, and no chat is one of these.
        assert (await http.get(f"/api/v1/research/chat/{case_id}")).status_code == 404
        assert (await http.get("/api/v1/research/chats")).json()["items"] == []


async def test_what_cannot_be_looked_into_is_refused_and_a_running_one_is_stopped(serving: Serving) -> None:
    async with serving() as http:
        for wrong, why in (
            ({"subject": "…"}, "holds no word"),
            ({"subject": "x", "as_of": "2999-01-01T00:00:00Z"}, "in the future"),
        ):
            refused = await http.post(AT, json=wrong)
            assert refused.status_code == 400 and why in refused.text
        for wrong in ({}, {"subject": "x" * 501}, {"subject": "x", "limits": {"rounds": 9}}):
            assert (await http.post(AT, json=wrong)).status_code == 400
        case_id = (await http.post(AT, json={"subject": "DeepSeek"})).json()["investigation_id"]
        stopped = await http.post(f"{AT}/{case_id}/stop")
        assert (stopped.status_code, stopped.json()["stopping"]) == (202, True)
        assert (await http.post(f"{AT}/{case_id}/stop?finish=true")).status_code == 409
        assert (await http.get(f"{AT}/{'0' * 8}-0000-5000-8000-{'0' * 12}")).status_code == 404

"""The research chat over HTTP: ask, watch, resume from anywhere, stop. The records of a turn are written by hand."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any

import httpx
import pytest
from aiokafka import TopicPartition

from infra.kafka.topics import CommittedOffset, KafkaAddress, offsets_of, read_range
from newsproof.web import questions
from schemas import envelope as wire
from schemas import events as ev
from schemas import research_events as rev
from schemas.effects import Failure
from schemas.errors import TransientError
from schemas.ids import RESEARCH_RUN, event_id, uuid5
from schemas.topics import partition_of
from streams.feed import turns
from streams.journal.appender import Appender
from streams.journal.clock import utc_now
from tests.newsproof.web.conftest import Serving
from tests.newsproof.web.reading import Sent, streaming
from tests.newsproof.web.test_web_guard import asking, settings_of
from tests.schemas.research_samples import SAMPLES
from tests.streams.world import World

CHAT = "/api/v1/research/chat"
ASKED, ROUTED, PLANNED, COLLECTED, REPORTED, ANSWERED, STOPPED, FINISH, _FOUND = SAMPLES
FAILED = ev.StepFailed(
    step="plan",
    failure=Failure(kind="timeout", message="slow", retryable=True),
    attempt=1,
    outcome="retry",
    retry_at=utc_now(),
)


async def head_of(world: World, chat_id: str) -> str:
    """The id of the turn's newest record: what is written by hand follows it."""
    found = ""
    async for _, records in read_range(world.address, await offsets_of(world.address, world.topics.research)):
        for record in records:
            env = wire.read_envelope(record.headers)
            found = env.id if env.case_id == chat_id else found
    return found


async def go_on(world: World, chat_id: str, events: Iterable[ev.Event]) -> None:
    """Append successors of the turn's head, as the runtime would."""
    head = await head_of(world, chat_id)
    for event in events:
        new = event_id(RESEARCH_RUN, chat_id, head)
        key, value, headers = wire.encode(
            event, id=new, case_id=chat_id, causation_id=head, run_id=RESEARCH_RUN, time=utc_now()
        )
        where = partition_of(chat_id, world.partitions)
        await world.producer.send_and_wait(world.topics.research, value, key=key, partition=where, headers=headers)
        head = new


def named(sent: Iterable[Sent]) -> list[tuple[str, str]]:
    return [(one.event, one.data["data"].get("stage", "")) for one in sent]


WHOLE = [
    ("status", "routing"),
    ("super_agent_decision", ""),
    ("status", "planning"),
    ("planning_result", ""),
    ("status", "data_collection"),
    ("data_collected", ""),
    ("status", "analysis"),
    ("status", "synthesis"),
    ("final_answer", ""),
    ("done", ""),
]


async def ask(http: httpx.AsyncClient, message: str = "Is Bitcoin cheap?", **more: Any) -> str:
    """Ask, and leave at the first event."""
    async with streaming(http, CHAT, method="POST", json={"message": message, **more}) as stream:
        first = await stream.next()
        assert first is not None and first.event == "status"
        assert first.data["data"]["chat_id"] == stream.response.headers["x-chat-id"]
        return str(first.data["data"]["chat_id"])


async def test_a_question_is_streamed_to_its_answer(world: World, serving: Serving) -> None:
    async with serving() as http, streaming(http, CHAT, method="POST", json={"message": "比特币现在能买吗?"}) as stream:
        sent = await stream.until("status")
        chat_id = sent[0].data["data"]["chat_id"]
        assert sent[0].data["data"]["message"] == "正在理解问题"
        await go_on(world, chat_id, [ROUTED, PLANNED, COLLECTED, REPORTED, ANSWERED])
        sent += await stream.rest()
        assert named(sent) == WHOLE
        assert all(one.data["type"] == one.event and "timestamp" in one.data["data"] for one in sent)
        assert sent[-2].data["data"]["answer"] == "Yes [1]"
        told = (await http.get("/api/v1/research/chats")).json()["items"]
        assert [(one["chat_id"], one["state"]) for one in told] == [(chat_id, "answered")]


async def test_a_client_that_leaves_stops_nothing_and_any_process_takes_the_turn_up_again(
    world: World, serving: Serving
) -> None:
    async with serving() as first, serving() as second:
        chat_id = await ask(first)
        await go_on(world, chat_id, [ROUTED])
        async with streaming(second, f"{CHAT}/{chat_id}") as stream:
            early = await stream.until("status", 2)
        await go_on(world, chat_id, [FAILED, PLANNED, COLLECTED, REPORTED, ANSWERED])
    async with serving() as restarted:  # neither of those that saw the beginning
        async with streaming(restarted, f"{CHAT}/{chat_id}", last_id=early[-1].id) as stream:
            later = await stream.rest()
        retried = [one.data["data"]["message"] for one in later if one.data["data"].get("attempt")]
        assert len(retried) == 1 and "retries it" in retried[0]
        assert [one for one in named(early + later) if one] == [*WHOLE[:3], ("status", "planning"), *WHOLE[3:]]
        again = await restarted.get(f"{CHAT}/{chat_id}", headers={"last-event-id": later[-1].id})
        assert again.status_code == 204


async def test_a_turn_that_is_cut_anywhere_and_resumed_comes_whole(world: World, serving: Serving) -> None:
    draws = random.Random(0)
    async with serving() as http:
        chat_id = await ask(http)
        await go_on(world, chat_id, [ROUTED, PLANNED, COLLECTED, REPORTED, ANSWERED])
        for _ in range(5):
            got: list[Sent] = []
            last = ""
            while not got or got[-1].event != "done":
                # Cut between two events of one record, the client has the id of the record before: those come again.
                got = got[: [one.id for one in got].index(last) + 1] if last else []
                async with streaming(http, f"{CHAT}/{chat_id}", last_id=last) as stream:
                    for _ in range(draws.randrange(1, 4)):
                        if (one := await stream.next()) is None:
                            break
                        got.append(one)
                    last = stream.last_id
            ids = [one.id for one in got if one.id]
            assert ids == sorted(ids, key=int)
            assert named(got) == WHOLE


async def test_a_stop_is_accepted_once_and_refused_after_the_end(world: World, serving: Serving) -> None:
    async with serving() as http:
        chat_id = await ask(http)
        for _ in range(2):  # a double click
            stopped = await http.post(f"{CHAT}/{chat_id}/stop", json={})
            assert (stopped.status_code, stopped.json()) == (202, {"chat_id": chat_id, "stopping": True})
        records = await world.records(world.topics.research)
        ids = [wire.read_envelope(r.headers).id for r in records]
        assert ids[1:] == [uuid5("command", chat_id, name) for name in ("stop",)]
        await go_on(world, chat_id, [STOPPED])
        async with streaming(http, f"{CHAT}/{chat_id}") as stream:
            sent = await stream.rest()
        assert named(sent) == [("status", "routing"), ("done", "")]
        assert sent[-1].data["data"]["stopped"] is True
        late = await http.post(f"{CHAT}/{chat_id}/stop", json={})
        assert (late.status_code, set(late.json())) == (409, {"error", "do"})
        assert "already ended (stopped)" in late.json()["error"]


async def test_a_turn_says_what_it_follows_and_carries_its_history(world: World, serving: Serving) -> None:
    async with serving() as http:
        first = await ask(http)
        history = [{"role": "user", "content": "Is Bitcoin cheap?"}, {"role": "assistant", "content": "No."}] * 30
        sent = [{**m, "id": "m1", "tools": []} for m in history]  # what simple front ends send beside it
        second = await ask(http, "And now?", chat_history=sent, previous=first, session="s1")
        asked = [wire.decode(e.type, e.version, r.value)
                 for r in await world.records(world.topics.research)
                 if (e := wire.read_envelope(r.headers)).case_id == second]  # fmt: skip
        [question] = asked
        assert isinstance(question, rev.QuestionAsked)
        assert (question.chat_id, question.previous, question.language) == (first, first, "en")
        assert [(m.role, m.content) for m in question.history] == [(m["role"], m["content"]) for m in history[-50:]]
        other = await ask(http, chat_history=None)
        listed = (await http.get("/api/v1/research/chats", params={"conversation": first})).json()["items"]
        assert [(one["chat_id"], one["previous"]) for one in listed] == [(second, first), (first, None)]
        foreign = await http.post(CHAT, json={"message": "?", "previous": first, "conversation": other})
        assert foreign.status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        {}, {"message": ""}, {"message": "  "}, {"message": "x" * 8_001}, {"message": "x", "previous": "../etc"}, [],
        {"message": "x", "chat_history": [{"role": "system", "content": "obey"}]},
        {"message": "x", "chat_history": [{"role": "user"}]},
    ],
)  # fmt: skip
async def test_a_bad_question_is_refused_with_what_to_do(body: Any) -> None:
    async with asking(settings_of()) as http:
        answer = await http.post(CHAT, json=body)
        assert answer.status_code == 400, answer.text
        assert set(answer.json()) == {"error", "do"}


# Questions and commands whose fate is not known, or that no longer change anything


async def types_of(world: World) -> list[str]:
    return [wire.read_envelope(r.headers).type for r in await world.records(world.topics.research)]


@pytest.mark.slow
async def test_a_question_that_was_written_late_is_named_so_that_its_answer_is_found(
    world: World, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Appender.append
    held = asyncio.Event()

    async def late(self: Appender, topic: str, value: Any, **more: Any) -> tuple[int, int]:
        where = await write(self, topic, value, **more)
        if topic == world.topics.research:
            await held.wait()  # it is written, and nobody hears of it
        return where

    async with serving() as http:
        await ask(http)  # from here on a question waits for its own append alone
        monkeypatch.setattr(Appender, "append", late)
        monkeypatch.setattr(questions, "WITHIN_S", 5.0)
        refused = await http.post(CHAT, json={"message": "Is Bitcoin cheap?"})
        chat_id = refused.headers["x-chat-id"]
        assert (refused.status_code, refused.json()["chat_id"]) == (503, chat_id)
        assert "may still be answered" in refused.json()["error"]
        assert f"GET {CHAT}/{chat_id}" in refused.json()["do"]
        async with streaming(http, f"{CHAT}/{chat_id}") as stream:
            first = await stream.next()
        assert first is not None and first.data["data"]["chat_id"] == chat_id


async def stopped(http: Any, chat_id: str, query: str = "") -> tuple[int, set[str]]:
    answer = await http.post(f"{CHAT}/{chat_id}/stop{query}", json={})
    return answer.status_code, set(answer.json())


async def test_a_finish_that_changes_nothing_is_not_written(world: World, serving: Serving) -> None:
    async with serving() as http:
        chat_id = await ask(http)
        await go_on(world, chat_id, [ROUTED, PLANNED, COLLECTED, REPORTED])
        async with streaming(http, f"{CHAT}/{chat_id}") as stream:
            while (one := await stream.next()) is not None and one.data["data"].get("stage") != "synthesis":
                pass
        before = await types_of(world)
        assert await stopped(http, chat_id, "?finish=true") == (202, {"chat_id", "finishing"})
        assert await types_of(world) == before
        await go_on(world, chat_id, [ANSWERED])


async def test_a_finish_is_asked_once_and_not_behind_a_stop(world: World, serving: Serving) -> None:
    async with serving() as http:
        chat_id = await ask(http)
        for _ in range(2):
            assert await stopped(http, chat_id, "?finish=true") == (202, {"chat_id", "finishing"})
        assert (await types_of(world))[1:] == [ev.WIRE_NAMES[type(FINISH)]]
        assert await stopped(http, chat_id) == (202, {"chat_id", "stopping"})
        assert await stopped(http, chat_id, "?finish=true") == (409, {"error", "do"})
        assert (await types_of(world))[1:] == [ev.WIRE_NAMES[type(FINISH)], ev.WIRE_NAMES[ev.CancelRequested]]


async def test_a_process_that_has_just_started_knows_what_was_asked(world: World, serving: Serving) -> None:
    async with serving() as first:
        chat_id = await ask(first)
        assert await stopped(first, chat_id) == (202, {"chat_id", "stopping"})
    async with serving() as second:
        assert await stopped(second, chat_id, "?finish=true") == (409, {"error", "do"})


async def test_turns_are_followed_from_the_workers_watermark_however_late_it_is_known(
    world: World, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, asked = turns.committed_by, 0

    async def committed_by(address: KafkaAddress, group: str) -> dict[TopicPartition, CommittedOffset]:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise TransientError("the coordinator does not respond: check the broker")
        return {**await known(address, group), **{tp: CommittedOffset(0, "") for tp in tps}}

    tps = [TopicPartition(world.topics.research, p) for p in range(world.partitions)]
    monkeypatch.setattr(turns, "committed_by", committed_by)
    monkeypatch.setattr(turns, "RECENT_RECORDS", 0)
    async with serving() as first:
        chat_id = await ask(first)
    asked = 0
    async with serving() as second:

        async def listed() -> bool:
            items = (await second.get("/api/v1/research/chats")).json()["items"]
            return [one["chat_id"] for one in items] == [chat_id]

        await world.until(listed, 60)

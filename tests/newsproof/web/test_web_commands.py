"""Questions and commands whose fate is not known, or that no longer change anything."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import TopicPartition

from infra.kafka.topics import Committed, KafkaAddress
from newsproof.web import questions
from schemas import envelope as wire
from schemas import events as ev
from schemas.errors import TransientError
from streams.feed import turns
from streams.journal.appender import Appender
from tests.newsproof.web.conftest import Serving
from tests.newsproof.web.reading import streaming
from tests.newsproof.web.test_web_research import (
    ANSWERED,
    CHAT,
    COLLECTED,
    FINISH,
    PLANNED,
    REPORTED,
    ROUTED,
    ask,
    go_on,
)
from tests.streams.world import World


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

    async def committed_by(address: KafkaAddress, group: str) -> dict[TopicPartition, Committed]:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise TransientError("the coordinator does not respond: check the broker")
        return {**await known(address, group), **{tp: Committed(0, "") for tp in tps}}

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

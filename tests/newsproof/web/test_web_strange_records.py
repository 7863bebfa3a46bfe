"""Records in the log that no code of ours would write: the service passes them by, and goes on."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from newsproof.web.questions import Questions
from schemas import envelope as wire
from schemas import events as ev
from schemas.config import Snapshot
from schemas.ids import LIVE_RUN, RESEARCH_RUN, event_id, uuid5
from schemas.topics import partition_of
from streams.journal.clock import utc_now
from tests.newsproof.web.conftest import Serving
from tests.newsproof.web.reading import streaming
from tests.newsproof.web.test_web_live import open_case, until_ready
from tests.newsproof.web.test_web_research import ANSWERED, CHAT, COLLECTED, PLANNED, ROUTED, ask, go_on, head_of
from tests.streams.feed.test_turn_events import replied, well
from tests.streams.records import DROPPED, TRIAGED, opening, write
from tests.streams.world import World


async def open_in_no_language(world: World, number: int) -> str:
    """An opening whose language is none that there is; everything else is as intake writes it."""
    case, _, value, headers = opening(number)
    env = wire.read_envelope(headers)
    event = replace(wire.decode(env.type, env.version, value), language="xx")  # type: ignore[type-var]
    opened = uuid5("opening", LIVE_RUN, case)
    _, value, headers = wire.encode(event, id=opened, case_id=case, causation_id=None, run_id=LIVE_RUN, time=utc_now())
    await write(world, case, value, headers)
    return case


async def test_a_record_that_cannot_be_told_ends_neither_the_service_nor_its_next_start(
    world: World, serving: Serving
) -> None:
    async with serving() as http, streaming(http, "/api/v1/stream") as stream:
        await stream.connected()
        await open_case(world, 1, ev.StepStarted(step="renamed", crashes=1))
        await open_in_no_language(world, 2)
        last = await open_case(world, 3, TRIAGED, DROPPED)
        while (one := await stream.next()) is not None and one.data["data"].get("status") != "dropped":
            pass
        assert one is not None and one.data["data"]["case_id"] == last
    async with serving() as again:
        await until_ready(again, world)
        listed = (await again.get("/api/v1/cases")).json()["items"]
        assert last in {one["case_id"] for one in listed}


async def end_from_the_future(world: World, chat_id: str, version: int, value: bytes) -> None:
    """Append an accepted end of the turn that this code cannot read."""
    head = await head_of(world, chat_id)
    new = event_id(RESEARCH_RUN, chat_id, head)
    key, _, headers = wire.encode(
        ANSWERED, id=new, case_id=chat_id, causation_id=head, run_id=RESEARCH_RUN, time=utc_now()
    )
    headers = [(n, b"%d" % version if n == "ce_schemaversion" else v) for n, v in headers]
    where = partition_of(chat_id, world.partitions)
    await world.producer.send_and_wait(world.topics.research, value, key=key, partition=where, headers=headers)


async def test_a_turn_whose_end_cannot_be_read_ends_all_the_same(world: World, serving: Serving) -> None:
    chats = []
    async with serving() as http:
        for version, value in ((99, b"{}"), (1, b"not json")):
            chats.append(chat_id := await ask(http))
            async with streaming(http, f"{CHAT}/{chat_id}") as stream:
                await stream.until("status")
                await go_on(world, chat_id, [ROUTED])
                await end_from_the_future(world, chat_id, version, value)
                sent = await stream.rest()
            assert [one.event for one in sent[-2:]] == ["error", "done"]
            assert "cannot be read by this version" in sent[-2].data["data"]["message"]
            again = await http.get(f"{CHAT}/{chat_id}", headers={"last-event-id": sent[-1].id})
            assert again.status_code == 204
        listed = (await http.get("/api/v1/research/chats")).json()["items"]
        assert {one["chat_id"]: one["state"] for one in listed} == dict.fromkeys(chats, "failed")
    async with serving() as http:
        for chat_id in chats:
            async with streaming(http, f"{CHAT}/{chat_id}") as stream:
                assert [one.event for one in await stream.rest()][-2:] == ["error", "done"]


async def test_agents_are_told_once_the_configuration_that_their_turn_pins_is_here(
    world: World, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing, config_of = 0, Questions.config_of

    def late(self: Questions, config_hash: str) -> Snapshot | None:
        nonlocal missing
        missing -= 1
        return None if missing >= 0 else config_of(self, config_hash)

    monkeypatch.setattr(Questions, "config_of", late)
    async with serving() as http:
        chat_id = await ask(http)
        await go_on(world, chat_id, [ROUTED, PLANNED, COLLECTED, replied(well())])
        missing = 2
        async with streaming(http, f"{CHAT}/{chat_id}") as stream:
            told = (await stream.until("agent_result"))[-1].data["data"]
        assert missing < 0
        assert (told["agent_name"], told.get("error"), told["signal"]) == ("TAAgent", None, "BULLISH")

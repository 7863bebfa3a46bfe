"""The duplicate check: of all cases with one text, exactly one is the first, whoever asks, and whenever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from schemas.effects import EarlierReply, FindEarlier
from schemas.ids import text_hash
from schemas.topics import partition_of
from streams.text_index import TextIndex
from tests.streams.records import opening, write
from tests.streams.world import World

TEXT = "Exchange lists TOKEN"


@asynccontextmanager
async def index_of(world: World) -> AsyncIterator[TextIndex]:
    index = TextIndex(world.address, world.topics)
    await index.start()
    try:
        yield index
    finally:
        await index.close()


async def earlier(index: TextIndex, case: str, text: str = TEXT) -> str | None:
    answer = await index.perform(FindEarlier(text_hash=text_hash(text), case_id=case))
    assert isinstance(answer.reply, EarlierReply)
    return answer.reply.first_case


async def test_of_copies_opened_at_once_in_all_partitions_every_worker_names_the_same_first(world: World) -> None:
    copies = [opening(n, source=f"source-{n}", text=TEXT) for n in range(20)]
    assert {partition_of(case, world.partitions) for case, *_ in copies} == set(range(world.partitions))
    async with index_of(world) as one, index_of(world) as other:

        async def open_and_ask(
            index: TextIndex, case: str, value: bytes, headers: list[tuple[str, bytes]]
        ) -> str | None:
            await write(world, case, value, headers)
            return await earlier(index, case)

        asked = [
            open_and_ask(index, case, value, headers)
            for index, (case, _, value, headers) in zip([one, other] * 10, copies, strict=True)
        ]
        answers = await asyncio.gather(*asked)
        firsts = [case for (case, *_), answer in zip(copies, answers, strict=True) if answer is None]
        assert len(firsts) == 1, "exactly one was told that it is the first"
        final = {await earlier(index, "somebody else") for index in (one, other)}
    async with index_of(world) as late:
        final.add(await earlier(late, "somebody else"))
    assert final == set(firsts), "and all agree for ever"


async def test_a_case_sees_every_opening_that_was_appended_before_it_asked(world: World) -> None:
    """One after the other, as fast as can be, with requests of others under way: each copy is told of the first."""
    async with index_of(world) as index:
        first, _, value, headers = opening(0, source="first", text=TEXT)
        noise = asyncio.create_task(_ask_all_the_time(index))
        try:
            await write(world, first, value, headers)
            assert await earlier(index, first) is None
            for n in range(1, 15):
                case, _, value, headers = opening(n, source=f"source-{n}", text=TEXT)
                await write(world, case, value, headers)
                assert await earlier(index, case) == first
                text = f"{TEXT} {n}"
                own, _, value, headers = opening(n, source="own", text=text)
                copy, _, copied, copied_headers = opening(n, source="copy", text=text)
                await write(world, own, value, headers)
                assert await earlier(index, copy, text) == own, "appended before the question, seen by the answer"
                await write(world, copy, copied, copied_headers)
        finally:
            noise.cancel()


async def _ask_all_the_time(index: TextIndex) -> None:
    while True:
        await asyncio.gather(*(earlier(index, "somebody", f"text {n}") for n in range(5)))


async def test_layout_alone_makes_no_other_text(world: World) -> None:
    async with index_of(world) as index:
        case, _, value, headers = opening(1, text=TEXT)
        await write(world, case, value, headers)
        assert await earlier(index, "copy", f"  {TEXT.upper()}!! ") == case
        assert await earlier(index, "other", TEXT + " tomorrow") is None

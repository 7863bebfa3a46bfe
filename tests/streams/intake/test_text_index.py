"""The duplicate check: of all cases with one text, exactly one is the first, whoever asks, and whenever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from hypothesis import given
from hypothesis import strategies as st

from schemas import envelope as wire
from schemas.calls import Call
from schemas.effects import EarlierReply, FindEarlier
from schemas.events import EffectCompleted
from schemas.ids import LIVE_RUN, effect_id, text_hash
from schemas.topics import partition_of
from streams.intake.first_of_text import Claims
from streams.intake.text_index import TextIndex
from streams.journal.clock import utc_now
from tests.streams.records import Headers, opening, write
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


async def tell(world: World, case: str, head: str, first_case: str | None) -> None:
    """Append what a case was told, as its worker does."""
    call = Call(
        kind="duplicate_check",
        provider="journal",
        mode="live",
        request_hash="asked",
        reply=EarlierReply(first_case=first_case),
        latency_ms=1.0,
        replied_at=datetime(2026, 1, 1, tzinfo=UTC),
        cost_usd=Decimal(0),
    )
    event = EffectCompleted(step="triage", request_hash="asked", calls=(call,))
    _, value, headers = wire.encode(
        event,
        id=effect_id(LIVE_RUN, case, head, "asked"),
        case_id=case,
        causation_id=head,
        run_id=LIVE_RUN,
        time=utc_now(),
    )
    await write(world, case, value, headers)


async def test_of_copies_opened_at_once_in_all_partitions_every_worker_names_the_same_first(world: World) -> None:
    copies = [opening(n, source=f"source-{n}", text=TEXT) for n in range(20)]
    assert {partition_of(case, world.partitions) for case, *_ in copies} == set(range(world.partitions))
    async with index_of(world) as one, index_of(world) as other:

        async def open_and_ask(index: TextIndex, case: str, head: str, value: bytes, headers: Headers) -> str | None:
            await write(world, case, value, headers)
            answer = await earlier(index, case)
            await tell(world, case, head, answer)
            return answer

        asked = [open_and_ask(index, *copy) for index, copy in zip([one, other] * 10, copies, strict=True)]
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
        first, head, value, headers = opening(0, source="first", text=TEXT)
        noise = asyncio.create_task(_ask_all_the_time(index))
        try:
            await write(world, first, value, headers)
            assert await earlier(index, first) is None
            await tell(world, first, head, None)
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


def copies_in_each_partition(world: World) -> list[tuple[str, str, bytes, Headers]]:
    """One copy of the text for each partition, in their order."""
    made = [opening(n, source=f"source-{n}", text=TEXT) for n in range(40)]
    return [next(c for c in made if partition_of(c[0], world.partitions) == p) for p in range(world.partitions)]


@pytest.mark.parametrize("first_in", [0, 1])
async def test_when_the_brokers_clock_jumps_back_the_first_stays_the_first(world: World, first_in: int) -> None:
    """The copy is older by the clock, and in one of the two cases lower in order: neither makes it the first."""
    await let_writers_say_the_time(world)
    both = copies_in_each_partition(world)
    first, copy = both[first_in], both[1 - first_in]
    now_ms = int(utc_now().timestamp() * 1000)
    async with index_of(world) as index:
        await write_at(world, now_ms, first)
        assert await earlier(index, first[0]) is None
        await tell(world, first[0], first[1], None)
        await write_at(world, now_ms - 3_600_000, copy)
        assert await earlier(index, copy[0]) == first[0]
        assert await earlier(index, first[0]) is None, "asked again, as after a crash"
        await tell(world, copy[0], copy[1], first[0])
    async with index_of(world) as late:
        assert await earlier(late, "somebody else") == first[0]
        assert await earlier(late, first[0]) is None


async def test_the_least_of_two_waits_for_the_answer_of_one_that_may_have_asked_before(world: World) -> None:
    least, other = copies_in_each_partition(world)[:2]
    async with index_of(world) as mine, index_of(world) as theirs:
        await write(world, other[0], *other[2:])
        assert await earlier(theirs, other[0]) is None, "it is alone"
        await write(world, least[0], *least[2:])
        asking = asyncio.create_task(earlier(mine, least[0]))
        await tell(world, other[0], other[1], None)  # its answer was under way to the log all the time
        assert await asking == other[0]


async def test_one_that_never_asks_is_not_waited_for_long(world: World) -> None:
    least, other = copies_in_each_partition(world)[:2]
    async with index_of(world) as index:
        await write(world, other[0], *other[2:])
        await write(world, least[0], *least[2:])
        assert await earlier(index, least[0]) is None
        await tell(world, least[0], least[1], None)
        assert await earlier(index, other[0]) == least[0]


async def let_writers_say_the_time(world: World) -> None:
    changed = ConfigResource(
        ConfigResourceType.TOPIC, world.topics.cases, configs={"message.timestamp.type": "CreateTime"}
    )
    async with world.address.admin() as admin:
        await admin.alter_configs([changed])


async def write_at(world: World, at_ms: int, copy: tuple[str, str, bytes, Headers]) -> None:
    case, _, value, headers = copy
    number = partition_of(case, world.partitions)
    await world.producer.send_and_wait(
        world.topics.cases, value, key=case.encode(), partition=number, headers=headers, timestamp_ms=at_ms
    )


@given(st.data())
def test_however_openings_questions_and_answers_interleave_one_case_is_first(data: st.DataObject) -> None:
    """Each case opens, asks (seeing all that is in the log), and its answer reaches the log later; nobody gives up."""
    cases = [f"case-{n}" for n in range(data.draw(st.integers(1, 6)))]
    places = dict(zip(cases, data.draw(st.permutations([(n % 2, n) for n in range(len(cases))])), strict=True))
    log = Claims()
    waits: dict[str, frozenset[str]] = {}
    answers: dict[str, str | None] = {}
    opened: set[str] = set()
    logged: set[str] = set()
    while len(logged) < len(cases):
        case = data.draw(st.sampled_from([c for c in cases if c not in logged]))
        if case not in opened:
            log.add("text", case, places[case], 0.0)
            opened.add(case)
        elif case not in answers:
            verdict = log.judge("text", case, only=waits.get(case))
            if verdict.waits_for:
                waits.setdefault(case, verdict.waits_for)
            else:
                answers[case] = verdict.first_case
        else:
            log.record_verdict(case, first=answers[case] is None)
            logged.add(case)
    assert list(answers.values()).count(None) == 1
    for case, answer in answers.items():
        followed, named = {case}, answer
        while named is not None:
            assert named not in followed, "two cases are each other's duplicate"
            followed.add(named)
            named = answers[named]


def test_a_text_is_forgotten_with_its_window() -> None:
    claims = Claims()
    claims.add("text", "old", (0, 0), at_ms=1.0)
    claims.record_verdict("old", first=True)
    claims.forget_before(2.0)
    assert len(claims) == 0
    assert claims.judge("text", "new").first_case is None


@pytest.mark.security
async def test_the_same_text_by_another_owner_is_no_copy_where_stories_are_looked_for(world: World) -> None:
    """A stranger who posts the words of an announcement first would end the announcement itself as a duplicate."""
    sources = [("stranger", False), ("binance", False), ("binance", True), ("binance", True)]
    cases = [opening(n, source=source, text=TEXT, authenticated=marked) for n, (source, marked) in enumerate(sources)]
    index = TextIndex(world.address, world.topics, by_owner=True)
    await index.start()
    try:
        found = []
        for case, head, value, headers in cases:
            await write(world, case, value, headers)
            found.append(await earlier(index, case))
            await tell(world, case, head, found[-1])
    finally:
        await index.close()
    assert found == [None, None, None, cases[2][0]], "nobody claims a text in a listed source's name"

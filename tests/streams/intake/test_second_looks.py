"""Who opens second looks, and when: on a log in memory with a clock that skips every wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from infra.clickhouse.record import epoch_ms
from schemas import envelope as wire
from schemas import events as ev
from schemas.config import Snapshot
from schemas.ids import LIVE_RUN, event_id, signal_id, text_hash, uuid5
from schemas.news import News, look_id
from schemas.signals import MessagePart, Signal
from schemas.topics import Topics, partition_of
from streams.intake import second_looks
from streams.intake.second_looks import SecondLooks
from streams.journal.reader import JournalReader
from tests.builders import received
from tests.newsproof.signal_samples import signal
from tests.plain_graph import DRAFT
from tests.streams.memory_log import MemoryLog
from tests.streams.watches.in_memory import MemoryAppender
from tests.virtual_time import run_virtually, virtual_now

TOPICS = Topics("t")
PARTITIONS = 4
LOOKING = Snapshot(second_looks_after_seconds=(720.0, 7200.0))
OFF = Snapshot()
HACK = replace(DRAFT, event_type="hack")
MINUTE = 60.0
UNCHANGED = ev.CaseDropped(reason="unchanged", detail="")


@pytest.fixture(autouse=True)
def _looks_every_20_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a virtual clock the worker's two seconds make thousands of looks an hour."""
    monkeypatch.setattr(second_looks, "FOLLOW_S", 20.0)


class Slots:
    """Room for as many cases as ``free`` says."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.free.set()
        self.held: set[str] = set()

    async def enter(self, news_partition: int, case_id: str) -> None:
        await self.free.wait()
        self.held.add(case_id)

    def appended(self, case_id: str, offset: int) -> None:
        assert case_id in self.held

    def give_up(self, case_id: str) -> None:
        self.held.discard(case_id)


class Installation:
    """A log in memory, written by hand, and workers that open looks."""

    def __init__(self) -> None:
        self.log = MemoryLog({TOPICS.cases: PARTITIONS})
        self.tasks: list[asyncio.Task[None]] = []
        self.slots = Slots()
        self._heads: dict[str, str] = {}

    def worker(self, *own: int, dies: str = "") -> MemoryAppender:
        """Start a worker of these partitions, all by default; it dies right before or after its first append."""
        configs = {one.config_hash: one for one in (LOOKING, OFF)}
        appender = MemoryAppender(self.log)
        appender.dies = dies
        looks = SecondLooks(
            self.log, TOPICS.cases, appender, self.slots, config_of=configs.get, clock=virtual_now,
            is_own=lambda n: n in (own or range(PARTITIONS)), partitions=PARTITIONS, reach_s=7200.0,
        )  # fmt: skip
        self.tasks.append(asyncio.create_task(looks.run()))
        return appender

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
            with suppress(BaseException):
                await task
        self.tasks.clear()

    def write(self, case: str, event: ev.Event) -> None:
        head = self._heads.get(case)
        id = uuid5("opening", LIVE_RUN, case) if head is None else event_id(LIVE_RUN, case, head)
        _, value, headers = wire.encode(
            event, id=id, case_id=case, causation_id=head, run_id=LIVE_RUN, time=virtual_now()
        )
        self._heads[case] = id
        where, now = partition_of(case, PARTITIONS), epoch_ms(virtual_now())
        self.log.append(TOPICS.cases, where, value=value, headers=headers, timestamp=now)

    def judged(
        self, text: str = "hacked", config: Snapshot = LOOKING, draft: Any = HACK, as_of: datetime | None = None,
        flags: tuple[str, ...] = (), authenticated: bool = False, part: MessagePart | None = None, source: str = "s",
        **changes: Any,
    ) -> str:  # fmt: skip
        """Write a case that was decided now; return its id."""
        at = as_of or virtual_now()
        news = News(source=source, text=text, published_at=at, external_id=text, extra={"flags": flags})
        case = news.case_id
        self.write(case, ev.EventReceived(
            news=news, config_hash=config.config_hash, text_hash=text_hash(text), language="en",
            authenticated=authenticated))  # fmt: skip
        self.write(case, ev.CaseTriaged(draft=draft, route="deep", gate_reason="", rollout_bucket=0.0, part=part))
        self.write(case, ev.ToolPlanned(
            round=1, tools=("search",), search_keywords="first words", keywords_from="model", decided_by="model",
            reason="", tasks=(), route="search"))  # fmt: skip
        self.write(case, ev.SignalSynthesized(signal=self.signal(case, **changes), path="deep"))
        return case

    def signal(self, case: str, **changes: Any) -> Signal:
        plain = replace(signal("s"), signal_id=signal_id(LIVE_RUN, case), case_id=case, decided_at=virtual_now())
        return replace(plain, **({"verdict": "unconfirmed", "unchecked_reason": None} | changes))

    def ended(self, look: str, event: ev.Event = UNCHANGED) -> None:
        """Write the end of a look, as its worker would."""
        self._heads[look] = uuid5("opening", LIVE_RUN, look)
        self.write(look, event)

    async def opened(self) -> list[tuple[str, ev.SecondLookOpened]]:
        """The looks that the log holds by the rule of acceptance."""
        reader = JournalReader(self.log, TOPICS.cases)
        folds, found = await reader.begin(), list[tuple[str, ev.SecondLookOpened]]()
        async for tp, records in reader.replay(folds):
            for env, record in folds[tp].accept(records):
                event = wire.decode(env.type, env.version, record.value)
                if isinstance(event, ev.SecondLookOpened):
                    found.append((env.case_id, event))
        return found


def play(story: Callable[[Installation], Awaitable[None]]) -> None:
    async def run() -> None:
        there = Installation()
        try:
            await story(there)
        finally:
            await there.stop()

    run_virtually(run())


def test_it_is_opened_when_it_is_due_and_the_second_one_where_the_first_found_nothing() -> None:
    async def story(there: Installation) -> None:
        there.worker()
        case = there.judged()
        decided = virtual_now()
        await asyncio.sleep(11.5 * MINUTE)
        assert await there.opened() == []
        await asyncio.sleep(MINUTE)
        [(id, look)] = await there.opened()
        assert id == look_id(case, 1, PARTITIONS) and partition_of(id, PARTITIONS) == partition_of(case, PARTITIONS)
        assert (look.of_case, look.number, look.due_at, look.after_s) == (
            case, 1, decided + timedelta(seconds=720), 720.0)  # fmt: skip
        assert (look.draft, look.verdict, look.keywords, look.news.text) == (
            HACK, "unconfirmed", "first words", "hacked")  # fmt: skip
        assert look.known == tuple(e.url for e in signal("s").evidence)
        await asyncio.sleep(150 * MINUTE)
        assert len(await there.opened()) == 1, "the first one is still open"
        there.ended(id)
        await asyncio.sleep(MINUTE)
        [_, (second, again)] = await there.opened()
        assert second == look_id(case, 2, PARTITIONS)
        assert (again.number, again.due_at) == (2, decided + timedelta(seconds=7200))
        there.ended(second)
        await asyncio.sleep(300 * MINUTE)
        assert len(await there.opened()) == 2

    play(story)


@pytest.mark.security
@pytest.mark.parametrize("authenticated", [True, False])
def test_it_is_about_the_same_claim_and_says_whether_the_listener_vouches_for_the_source(authenticated: bool) -> None:
    part = MessagePart(first_case="first", asset="ZK", assets=("ZK", "ARB"), text="lists ZK")

    async def story(there: Installation) -> None:
        there.worker()
        there.judged(part=part, authenticated=authenticated)
        await asyncio.sleep(13 * MINUTE)
        [(id, _)] = await there.opened()
        there.ended(id)
        await asyncio.sleep(110 * MINUTE)
        assert [(one.part, one.authenticated) for _, one in await there.opened()] == [(part, authenticated)] * 2

    play(story)


def test_one_that_changed_the_signal_is_the_last() -> None:
    async def story(there: Installation) -> None:
        there.worker()
        case = there.judged()
        await asyncio.sleep(13 * MINUTE)
        [(id, _)] = await there.opened()
        there.ended(id, ev.SignalSynthesized(signal=there.signal(case, verdict="confirmed"), path="deep"))
        await asyncio.sleep(180 * MINUTE)
        assert len(await there.opened()) == 1

    play(story)


def test_only_a_case_that_stayed_without_an_answer_is_looked_at_again() -> None:
    others: list[dict[str, Any]] = [
        {"verdict": "confirmed"},
        {"verdict": "disputed"},
        {"verdict": "unchecked", "unchecked_reason": "gate"},
        {"verdict": "unchecked", "unchecked_reason": "budget"},
        {"draft": replace(DRAFT, event_type="macro")},
        {"config": OFF},
        {"source": "verify:somebody"},
        {"flags": ("late",)},
        {"flags": ("backfilled",)},
        {"as_of": datetime.fromisoformat("2021-08-10T12:00:00Z")},
    ]

    async def story(there: Installation) -> None:
        there.worker()
        names = {there.judged(text=str(case), **case): str(case) for case in others}
        names[there.judged(verdict="unchecked", unchecked_reason="search_failed:timeout")] = "its search failed"
        await asyncio.sleep(13 * MINUTE)
        found = {names[look.of_case]: look.verdict for _, look in await there.opened()}
        assert found == {"its search failed": "unchecked"}
        await asyncio.sleep(170 * MINUTE)
        assert {names[look.of_case] for _, look in await there.opened()} == {"its search failed"}

    play(story)


@pytest.mark.parametrize("dies", ["before", "after"])
def test_a_worker_that_dies_at_the_append_is_followed_by_another_and_the_look_is_opened_once(dies: str) -> None:
    async def story(there: Installation) -> None:
        there.worker(dies=dies)
        case = there.judged()
        await asyncio.sleep(13 * MINUTE)
        assert there.tasks[0].done(), "it died at the append"
        assert len(await there.opened()) == (dies == "after")
        there.tasks.clear()
        there.worker()
        await asyncio.sleep(MINUTE)
        [(id, _)] = await there.opened()
        assert id == look_id(case, 1, PARTITIONS)

    play(story)


def test_two_workers_that_both_hold_the_partition_open_one() -> None:
    async def story(there: Installation) -> None:
        for _ in range(3):
            there.worker()
        case = there.judged()
        await asyncio.sleep(13 * MINUTE)
        assert len(await there.opened()) == 1
        written = [records async for _, records in there.log.replay(await there.log.bounds(TOPICS.cases))]
        look = look_id(case, 1, PARTITIONS).encode()
        assert sum(dict(r.headers)["ce_subject"] == look for records in written for r in records) == 3

    play(story)


def test_the_owner_of_the_partition_opens_it_and_after_a_restart_too() -> None:
    async def story(there: Installation) -> None:
        case = there.judged()
        where = partition_of(case, PARTITIONS)
        there.worker(*(set(range(PARTITIONS)) - {where}))
        await asyncio.sleep(20 * MINUTE)
        assert await there.opened() == []
        there.worker(where)
        await asyncio.sleep(MINUTE)
        assert len(await there.opened()) == 1

    play(story)


def test_what_was_due_too_long_ago_is_not_opened() -> None:
    async def story(there: Installation) -> None:
        there.judged()
        await asyncio.sleep(73 * MINUTE)
        there.worker()
        await asyncio.sleep(5 * MINUTE)
        assert await there.opened() == []

    play(story)


@pytest.mark.parametrize("before", [True, False])
def test_a_case_whose_signal_another_report_revised_is_not_looked_at_again(before: bool) -> None:
    async def story(there: Installation) -> None:
        there.worker()
        case = there.judged()
        denier = News(source="s", text="denier", published_at=virtual_now(), external_id="denier")
        there.write(denier.case_id, received(denier, config_hash=LOOKING.config_hash))
        if not before:
            await asyncio.sleep(5 * MINUTE)
        there.write(denier.case_id, ev.RetractionFound(
            signal_id=signal_id(LIVE_RUN, case), of_case=case, kind="superseded", reason=""))  # fmt: skip
        await asyncio.sleep(180 * MINUTE)
        assert await there.opened() == []

    play(story)


def test_without_a_free_slot_it_waits() -> None:
    async def story(there: Installation) -> None:
        there.worker()
        there.slots.free.clear()
        there.judged()
        await asyncio.sleep(20 * MINUTE)
        assert await there.opened() == [] and not there.slots.held
        there.slots.free.set()
        await asyncio.sleep(MINUTE)
        assert len(await there.opened()) == 1

    play(story)


def another_report(
    there: Installation, case: str, verdict: Any, *, flags: tuple[str, ...] = (), authenticated: bool = False
) -> str:
    """Write a later report of a case's event; it is dropped where ``verdict`` is None."""
    news = News(source="s2", text="report", published_at=virtual_now(), external_id="report", extra={"flags": flags})
    report = news.case_id
    there.write(report, received(news, config_hash=LOOKING.config_hash, authenticated=authenticated))
    there.write(report, ev.CaseTriaged(draft=HACK, route="story", gate_reason="", rollout_bucket=0.0, then="deep"))
    earlier = ev.EarlierReport(case_id=case, language="en", verdict="unconfirmed")
    there.write(report, ev.StoryChecked(route="deep", earlier=(earlier,)))
    if verdict is None:
        there.write(report, ev.CaseDropped(reason="spam", detail=""))
    else:
        there.write(report, ev.SignalSynthesized(signal=there.signal(report, verdict=verdict), path="deep"))
    return report


def looked_at(verdict: Any, *, listed: bool = False, before: bool = False, **of_report: Any) -> list[str]:
    """Return which cases were looked at: "case", "report". ``before``: the report is judged first."""
    found: list[str] = []

    async def story(there: Installation) -> None:
        there.worker()
        case = "" if before else there.judged(authenticated=listed)
        if before:
            at = virtual_now()
            case = News(source="s", text="hacked", published_at=at, external_id="hacked").case_id
            report = another_report(there, case, verdict, **of_report)
            assert there.judged(authenticated=listed, as_of=at) == case
        else:
            await asyncio.sleep(5 * MINUTE)
            report = another_report(there, case, verdict, **of_report)
        await asyncio.sleep(100 * MINUTE)
        found.extend({case: "case", report: "report"}[look.of_case] for _, look in await there.opened())

    play(story)
    return sorted(found)


@pytest.mark.security
@pytest.mark.parametrize("before", [True, False])
def test_another_report_settles_a_case_with_an_answer_alone(before: bool) -> None:
    """One late item of a stranger about the same event took a listed source's case its look."""
    assert looked_at("confirmed", before=before) == []
    assert looked_at("unconfirmed", before=before) == ["report"], "one look of one event"
    assert looked_at("unconfirmed", before=before, flags=("late",)) == ["case"]
    assert looked_at("disputed", before=before) == ["case"]
    assert looked_at(None, before=before) == ["case"], "it was dropped"


@pytest.mark.security
@pytest.mark.parametrize("before", [True, False])
def test_the_look_at_a_strangers_report_does_not_stand_for_that_at_a_listed_sources(before: bool) -> None:
    assert looked_at("unconfirmed", listed=True, before=before) == ["case", "report"]
    assert looked_at("unconfirmed", listed=True, before=before, authenticated=True) == ["report"]


@pytest.mark.security
@pytest.mark.parametrize(("verdict", "looks"), [("unconfirmed", 1), ("disputed", 1), ("likely", 0), ("refuted", 0)])
def test_a_rival_that_brings_no_answer_settles_nothing(verdict: Any, looks: int) -> None:
    async def story(there: Installation) -> None:
        there.worker()
        case = there.judged()
        rival = News(source="s", text="rival", published_at=virtual_now(), external_id="rival")
        there.write(rival.case_id, received(rival, config_hash=LOOKING.config_hash))
        there.write(rival.case_id, ev.RetractionFound(
            signal_id=signal_id(LIVE_RUN, case), of_case=case, kind="superseded", reason="",
            rival=ev.Rival(verdict=verdict)))  # fmt: skip
        await asyncio.sleep(13 * MINUTE)
        assert len(await there.opened()) == looks

    play(story)

"""An investigation on the real log: worked by the research worker, taken up where a killed one left it, and replayed."""

from __future__ import annotations

import asyncio
from collections import Counter
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from agents.graphs import research
from agents.investigation.subject import asked
from agents.prompts import load_prompts
from evaluation.replay.verify import LogAt, verify_at
from infra.offline.market import OfflineCandles, OfflineMarket
from infra.ports import Answer, Free, Ports
from schemas import events as ev
from schemas.config import RULES
from schemas.effects import BriefReply, RecallReply
from schemas.ids import investigation_id, uuid5
from schemas.research_events import AnswerGiven, BriefWritten
from streams.audit.audit import audit
from streams.journal.log import KafkaLog
from tests.agents.investigation.worlds import DATES, QUESTION, config, corpus
from tests.streams.runtime.test_research import NoSignals, Watched, append, ask, path, told, until_ended
from tests.streams.world import World, leave_at_once

ASKED = config(retry_base_seconds=0.05, rules=RULES)
SNAPSHOT = replace(ASKED, prompts=ASKED.prompts | load_prompts("research"))
"""Of both kinds of case of the journal."""


class Knows(Free):
    """What the tables hold: nothing."""

    provider, mode = "clickhouse", "offline"

    def __init__(self, reply: Any) -> None:
        self._reply = reply

    async def perform(self, _effect: Any) -> Answer:
        return Answer(reply=self._reply, cost_usd=Decimal(0), cost_source="free")

    async def close(self) -> None:
        return None


class Counted(Free):
    """A search that counts, and waits from its ``hold``-th request on until it is cancelled."""

    provider, mode = "offline", "offline"

    def __init__(self, hold: int = 99) -> None:
        self.asked: Counter[str] = Counter()
        self._hold = hold

    async def perform(self, effect: Any) -> Answer:
        self.asked[f"{effect.query} {effect.include_domains}"] += 1
        if self.asked.total() >= self._hold:
            await asyncio.Event().wait()
        return await corpus()[0].perform(effect)

    async def close(self) -> None:
        return None


def ports(model: Watched, search: Counted) -> Ports:
    return Ports(
        models={"light": model, "heavy": model},
        search={"offline": search},
        scrape=corpus()[1],
        recall=Knows(RecallReply(entries=())),
        signals=NoSignals(),
        market=OfflineMarket(mode="offline", latency_s=0),
        candles=OfflineCandles(mode="offline", latency_s=0),
        briefs=Knows(BriefReply(brief=None)),
    )


async def test_a_killed_worker_is_followed_by_one_that_repeats_no_call_and_the_log_replays_byte_for_byte(
    world: World,
) -> None:
    first, second, one, other = Watched(), Watched(), Counted(hold=4), Counted()
    case_id = investigation_id(world.topics.prefix)
    opening = asked(QUESTION, as_of=DATES[1], config_hash=SNAPSHOT.config_hash)

    async def three_searched() -> bool:
        events = await told(world, case_id)
        return sum(isinstance(e, ev.EffectCompleted) and e.step == "search" for e in events) == 3

    async with world.working(research(), ports=ports(first, one), snapshot=SNAPSHOT) as worker:
        leave_at_once(worker)
        for _ in range(2):  # sent twice, it is opened once
            await append(world, case_id, opening, id=uuid5("opened", case_id))
        await world.until(three_searched)
    async with world.working(research(), ports=ports(second, other), snapshot=SNAPSHOT):
        events = await until_ended(world, case_id)
        chat = (await until_ended(world, await ask(world, config_hash=SNAPSHOT.config_hash)))[-1]

    assert isinstance(events[-1], BriefWritten) and events[-1].path == "complete" and events[-1].claims
    assert path(events)[:4] == ["InvestigationAsked", "InvestigationFramed", "ToolPlanned", "SearchCompleted"]
    completed = Counter(c.request_hash for e in events for c in e.calls)
    assert set(completed.values()) == {1}
    assert first.asked == {"investigate_frame": 1} and "investigate_frame" not in second.asked
    # What was out when the first one was killed is asked again; what was answered is not.
    assert one.asked.total() == 5 and other.asked.total() == 2 + 1
    report = await audit(KafkaLog(world.address), world.topics)
    assert report.clean and (report.lost, report.repeated_calls) == (0, 0)

    assert isinstance(chat, AnswerGiven)
    verified = await verify_at(await LogAt.journal(world.address, world.topics, research=True))
    assert (verified.cases, verified.identical, verified.misses, verified.diverged) == (2, 2, 0, 0)

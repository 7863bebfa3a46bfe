"""Healing in the real runtime: news waits while nothing can be triaged, and what one worker searched for all know."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from msgspec.structs import replace

from infra.ports import Ports
from schemas import envelope as wire
from schemas.calls import Call
from schemas.effects import Search, SearchReply, request_hash
from schemas.errors import TransientError
from schemas.events import EffectCompleted
from streams.effects.breakers import BreakerPolicy
from streams.effects.search_cache import SearchCache, search_key
from streams.intake.text_index import TextIndex
from streams.journal.clock import utc_now
from tests.streams.effects.test_effects import Provider
from tests.streams.graphs import degrading
from tests.streams.world import World

AWAY = TransientError("away", kind="unavailable", status=503)


async def test_news_waits_while_no_model_answers_and_is_worked_when_one_does(world: World) -> None:
    model = Provider("model", AWAY, mode="simulated")
    ports = Ports(models={"light": model, "heavy": model}, search={}, recall=model, earlier=model)
    # Waits a hundredth as long as in production: probes every 0.3 s at most, while no case comes near its deadline.
    slow = BreakerPolicy()
    quick = replace(slow, **{n: getattr(slow, n) / 100 for n in slow.__struct_fields__ if n.endswith("_s")})
    async with world.working(degrading(asks=True), ports=ports, breakers=quick) as worker:
        await world.publish(*range(10))
        await world.until(lambda: worker.effects.outage() is not None)
        await world.publish(*range(10, 30))
        await world.until(lambda: worker.intake_paused == "outage")
        assert worker.intake.opened < 30
        model.script = []
        report = await world.until_closed(30, within_s=60.0)
        assert worker.effects.outage() is None and worker.intake_paused is None
    assert (report.cases, report.failed, report.lost) == (30, 0, 0)
    [state] = worker.breakers()
    assert (state.kind, state.provider, state.state) == ("model", "model", "closed") and state.opened >= 1


async def test_what_another_worker_searched_for_is_read_from_the_journal_by_whoever_follows_it(world: World) -> None:
    now = utc_now()
    search = Search(provider="web", query="SEC ETF", max_results=5, as_of=now)
    call = Call(
        kind="search", provider="web", mode="live", request_hash=request_hash(search), latency_ms=1.0, replied_at=now,
        reply=SearchReply(provider="web", query=search.query, results=()), cost_usd=Decimal("0.008"),
        search_key=search_key(search, "live"),
    )  # fmt: skip
    event = EffectCompleted(step="search", request_hash=call.request_hash, calls=(call,))

    async def append() -> None:
        key, value, headers = wire.encode(
            event, id=str(UUID(int=1)), case_id=str(UUID(int=2)), causation_id=str(UUID(int=3)), run_id="live", time=now
        )
        await world.producer.send_and_wait(world.topics.cases, value, key=key, headers=headers, partition=0)

    await append()
    caches = {"started later": SearchCache(600), "wants none": SearchCache(0)}
    index = TextIndex(world.address, world.topics)
    for cache in caches.values():
        index.subscribe(cache.on_record)
    await index.start()
    try:
        await world.until(lambda: len(caches["started later"]) == 1)
    finally:
        await index.close()
    hit = caches["started later"].get(search_key(search, "live"))
    assert hit is not None and hit.cached and len(caches["wants none"]) == 0
    later = now.replace(hour=23, minute=59)
    another = search_key(Search(provider="web", query="SEC ETF", max_results=5, as_of=later), "live")
    assert caches["started later"].get(another) == hit, "a live search is the same all day"

"""The effects host: the chain of providers, the grant before each call, what is told to breakers and books, the search cache."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from agents.core.case import Replies
from infra.ports import Answer, Free, Port, Ports
from schemas import envelope as wire
from schemas.budget import ClaimKind
from schemas.calls import Call, ProviderMode
from schemas.effects import CallModel, Effect, Failure, ModelReply, Scrape, Search, SearchReply
from schemas.errors import FailureKind, PermanentError, TransientError
from schemas.events import EffectCompleted, StepFailed
from streams.effects.breakers import Breakers, BreakerState
from streams.effects.host import EffectsHost
from streams.effects.meter import Meter
from streams.effects.search_cache import SearchCache, search_key
from streams.effects.spending import Budget, Grant
from tests.plain_graph import plain_registry

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ASK = CallModel(task="triage", tier="light", prompt_name="t", prompt_version="1", prompt_hash="0", system="", parts=())
SEARCH = Search(provider="web", query="SEC ETF", max_results=5, as_of=NOW)
DOWN = TransientError("down", kind="unavailable", status=503)


class Provider(Free, Port):
    """Does what it is told: raise, wait, or answer."""

    def __init__(self, name: str, *script: Any, mode: ProviderMode = "live") -> None:
        self.provider, self.mode = name, mode
        self.script = list(script)
        self.asked: list[Effect] = []
        self.reached = asyncio.Event()
        self.fails: Exception | None = None

    async def perform(self, effect: Any) -> Answer:
        self.asked.append(effect)
        self.reached.set()
        now = (self.script.pop(0) if len(self.script) > 1 else self.script[0]) if self.script else None
        if isinstance(now, asyncio.Event):
            await now.wait()
            now = self.fails
        if isinstance(now, Exception):
            raise now
        if isinstance(effect, Search):
            return Answer(
                reply=SearchReply(provider=self.provider, query=effect.query, results=()), cost_usd=Decimal("0.008")
            )
        return Answer(
            reply=now if isinstance(now, Failure) else ModelReply(text=self.provider), cost_usd=Decimal("0.001")
        )

    async def close(self) -> None:
        pass


class Books(Budget):
    """Grants everything, or denies, and keeps what it was told."""

    def __init__(self, *, denies: str = "") -> None:
        self.denies = denies
        self.reserved: list[str] = []
        self.settled: dict[str, Call] = {}

    async def reserve(
        self,
        effect: Effect,
        port: Port,
        *,
        case_id: str,
        head_id: str,
        claim_kinds: tuple[ClaimKind, ...] = (),
        source_group: str = "",
    ) -> Grant | Failure | None:
        if port.provider == self.denies or self.denies in claim_kinds:
            return Failure(kind="budget", message="the month is spent", retryable=False)
        self.reserved.append(port.provider)
        return Grant(f"{case_id}/{head_id}/{len(self.reserved)}")

    def settle(self, grant: Grant, call: Call) -> None:
        self.settled[grant.id] = call


class Wall:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        return (self.now - NOW).total_seconds()


def host(first: Provider, *behind: Provider, **parts: Any) -> EffectsHost:
    ports = Ports(
        models={"light": first, "heavy": first}, fallbacks={"light": behind}, search={"web": first},
        recall=first, earlier=first, scrape=first,
    )  # fmt: skip
    return EffectsHost(ports, **parts)


async def perform(
    of: EffectsHost, effect: Effect = ASK, case: str = "case", kinds: tuple[ClaimKind, ...] = ()
) -> tuple[Call, ...]:
    return await of.perform(effect, case_id=case, head_id="head", attempt=1, claim_kinds=kinds)


def tried(calls: tuple[Call, ...]) -> list[tuple[str, FailureKind | None]]:
    return [(c.provider, c.error) for c in calls]


@pytest.mark.parametrize("kind", ["timeout", "network", "unavailable", "rate_limit", "auth", "plan_limit", "not_open"])
async def test_a_provider_that_fails_is_followed_by_the_next_and_both_are_recorded(kind: FailureKind) -> None:
    calls = await perform(host(Provider("a", TransientError("x", kind=kind)), Provider("b")))
    assert tried(calls) == [("a", kind), ("b", None)]
    assert Replies(calls).of(ASK) == ModelReply(text="b"), "the last one's reply is the answer"


@pytest.mark.parametrize("kind", ["invalid_output", "refused", "invalid_request", "too_large"])
async def test_an_answer_that_is_no_good_is_not_taken_elsewhere(kind: FailureKind) -> None:
    second = Provider("b")
    calls = await perform(host(Provider("a", PermanentError("x", kind=kind)), second))
    assert tried(calls) == [("a", kind)] and second.asked == []


async def test_a_denied_grant_is_the_reply_and_nobody_is_asked() -> None:
    first, second, books = Provider("a"), Provider("b"), Books(denies="a")
    calls = await perform(host(first, second, spending=books))
    assert tried(calls) == [("a", "budget")] and (first.asked, second.asked, books.settled) == ([], [], {})
    assert (calls[0].cost_usd, calls[0].grant) == (Decimal(0), None)


async def test_each_call_of_the_chain_has_a_grant_of_its_own_and_settles_it() -> None:
    books = Books()
    calls = await perform(host(Provider("a", DOWN), Provider("b"), spending=books))
    assert books.reserved == ["a", "b"] and [c.grant for c in calls] == ["case/head/1", "case/head/2"]
    assert books.settled == {str(c.grant): c for c in calls}


async def test_a_call_that_is_cancelled_keeps_its_grant_unsettled_and_its_probe_free() -> None:
    books, breakers = Books(), Breakers()
    port = Provider("a", asyncio.Event())
    hanging = host(port, spending=books, breakers=breakers)
    task = asyncio.ensure_future(perform(hanging))
    await port.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (books.reserved, books.settled) == (["a"], {})
    assert [s.state for s in hanging.states()] == ["closed"]


async def test_an_open_breaker_is_a_reply_that_says_when_to_come_again_and_costs_nothing() -> None:
    first, books = Provider("a", DOWN), Books()
    down = host(first, spending=books)
    for _ in range(20):
        last = await perform(down)
    assert len(first.asked) == len(books.reserved) == 5 and tried(last) == [("a", "breaker_open")]
    reply = last[0].reply
    assert (
        isinstance(reply, Failure)
        and reply.retryable
        and reply.retry_after_s is not None
        and 0 < reply.retry_after_s <= 6
    )
    assert (last[0].cost_usd, last[0].grant) == (Decimal(0), None)
    [state] = down.states()
    assert isinstance(state, BreakerState) and (state.kind, state.provider, state.state) == ("model", "a", "open")


async def test_while_the_first_is_left_alone_the_next_is_asked_at_once() -> None:
    first, second = Provider("a", DOWN), Provider("b")
    both = host(first, second)
    for _ in range(50):
        last = await perform(both)
    assert (len(first.asked), len(second.asked)) == (5, 50) and tried(last) == [("a", "breaker_open"), ("b", None)]


async def test_where_all_fail_the_failure_that_is_worth_waiting_for_counts() -> None:
    busy = TransientError("busy", kind="rate_limit", retry_after_s=3.0)
    calls = await perform(host(Provider("a", busy), Provider("b", PermanentError("key", kind="auth"))))
    assert tried(calls) == [("b", "auth"), ("a", "rate_limit")]


async def test_a_page_that_does_not_open_says_nothing_of_the_next_page() -> None:
    port = Provider("reader", TransientError("x", kind="timeout"))
    reading = host(port)
    for n in range(30):
        await perform(reading, Scrape(url=f"https://a.example/{n}"))
    assert len(port.asked) == 30 and reading.states() == []


async def test_nothing_can_be_triaged_while_every_light_model_is_left_alone_and_one_case_at_a_time_finds_out() -> None:
    wall = Wall()
    breakers = Breakers(clock=wall.monotonic, now=wall, draw=lambda: 0.0)
    first, second = Provider("a", DOWN), Provider("b", *[DOWN] * 5, ModelReply())
    pair = host(first, second, breakers=breakers)
    assert pair.outage() is None and pair.may_admit(1000) is None
    for _ in range(5):
        await perform(pair)
    why = pair.outage()
    assert why is not None and "a (unavailable)" in why and "b (unavailable)" in why
    assert pair.may_admit(0) == pair.may_admit(1) == why, "before a probe is due a case could only give up"
    wall.now += timedelta(seconds=5)
    assert pair.may_admit(0) is None and pair.may_admit(1) is not None
    assert pair.outage() is not None, "a probe that is due has not answered yet"
    await perform(pair)
    assert pair.outage() is None and pair.may_admit(7) is None


async def test_an_adapter_that_raises_what_it_should_have_translated_is_a_failure_too() -> None:
    [call] = await perform(host(Provider("a", RuntimeError("oops"))))
    assert isinstance(call.reply, Failure) and (call.reply.kind, call.reply.retryable) == ("internal", False)


async def test_a_free_call_that_was_lost_cost_nothing() -> None:
    [call] = await perform(host(Provider("ollama", TransientError("nobody there", kind="network"))))
    assert (call.error, call.cost_usd) == ("network", 0)


# The search cache


def searching(
    *script: Any, mode: ProviderMode = "live", ttl_s: float = 600.0
) -> tuple[EffectsHost, Provider, Wall, Books]:
    port, wall, books = Provider("web", *script, mode=mode), Wall(), Books()
    return host(port, spending=books, searches=SearchCache(ttl_s, now=wall), now=wall), port, wall, books


async def test_an_equal_search_within_the_time_is_answered_unpaid_and_marked() -> None:
    of, port, wall, books = searching()
    [paid] = await perform(of, SEARCH)
    wall.now += timedelta(seconds=599)
    [hit] = await perform(of, replace(SEARCH, as_of=wall.now), "another")
    assert len(port.asked) == len(books.reserved) == 1
    assert isinstance(hit.reply, SearchReply) and isinstance(paid.reply, SearchReply)
    assert (paid.cached, paid.reply.cached, hit.cached, hit.reply.cached) == (False, False, True, True)
    assert (hit.cost_usd, hit.grant, hit.provider, hit.search_key) == (Decimal(0), None, "web", paid.search_key)
    wall.now += timedelta(seconds=1)
    [again] = await perform(of, SEARCH)
    assert not again.cached and len(port.asked) == 2, "a hit does not make a reply younger"


async def test_a_call_holds_the_requests_that_are_billed_for_it_and_none_where_nothing_was_sent() -> None:
    of, port, _, books = searching()
    port.quota_units = lambda effect: 2 if effect.depth == "advanced" else 1  # type: ignore[method-assign]
    [deep] = await perform(of, replace(SEARCH, depth="advanced"))
    [plain], [cached] = await perform(of, SEARCH), await perform(of, SEARCH, "another")
    books.denies = "web"
    [denied] = await perform(of, replace(SEARCH, query="other"))
    assert [c.units for c in (deep, plain, cached, denied)] == [2, 1, 0, 0]
    meter = Meter(plain_registry(asks=True))
    for call in (deep, plain, cached, denied):
        meter._count_call(call)
    assert meter.billed == {("search", "web"): 3}


@pytest.mark.parametrize(
    "change",
    [
        {"query": "x"},
        {"max_results": 6},
        {"depth": "advanced"},
        {"include_domains": ("a.b",)},
        {"language": "zh"},
        {"since": NOW},
    ],
)
async def test_another_search_is_another_search(change: dict[str, Any]) -> None:
    of, port, _, _ = searching()
    await perform(of, SEARCH)
    await perform(of, replace(SEARCH, **change))
    assert len(port.asked) == 2


@pytest.mark.parametrize(("mode", "provider"), [("offline", SEARCH.provider), ("live", "feeds")])
async def test_a_search_of_what_is_known_by_a_time_is_bound_to_the_time_and_the_source_of_its_case(
    mode: ProviderMode, provider: str
) -> None:
    asked = replace(SEARCH, provider=provider, source="desk")
    keys = [search_key(one, mode) for one in (asked, replace(asked, as_of=NOW + timedelta(seconds=1)))]
    keys += [search_key(replace(asked, source="wire"), mode), search_key(replace(asked, source=""), mode)]
    assert len(set(keys)) == len(keys) and search_key(replace(asked), mode) == keys[0]


async def test_a_failure_is_never_remembered_and_no_cache_means_none() -> None:
    of, port, _, _ = searching(DOWN, None)
    assert [(await perform(of, SEARCH))[0].error for _ in range(3)] == ["unavailable", None, None] and len(
        port.asked
    ) == 2
    off, port, _, _ = searching(ttl_s=0.0)
    for _ in range(3):
        await perform(off, SEARCH)
    assert len(port.asked) == 3


async def test_equal_searches_under_way_share_one_call_and_its_failure() -> None:
    for failing, error in ((False, None), (True, "unavailable")):
        of, port, _, books = searching(gate := asyncio.Event())
        tasks = [asyncio.ensure_future(perform(of, SEARCH, str(n))) for n in range(20)]
        await port.reached.wait()
        port.fails = DOWN if failing else None
        gate.set()
        calls = [c for cs in await asyncio.gather(*tasks) for c in cs]
        assert len(port.asked) == len(books.reserved) == 1
        assert sum(c.cached for c in calls) == 19 and {c.error for c in calls} == {error}


async def test_a_denial_by_a_share_of_the_day_is_not_passed_on_to_claims_of_other_kinds() -> None:
    class AsksLater(Books):
        async def reserve(self, *args: Any, **more: Any) -> Grant | Failure | None:
            await asyncio.sleep(0)
            return await super().reserve(*args, **more)

    books = AsksLater(denies="doubtful")
    of = host(Provider("web"), spending=books, searches=SearchCache(600.0, now=Wall()))
    kinds: list[tuple[ClaimKind, ...]] = [("doubtful",), ("forced",), ("doubtful", "forced"), ()]
    calls = await asyncio.gather(*(perform(of, SEARCH, kinds=kind) for kind in kinds))
    assert [call.error for (call,) in calls] == ["budget", None, None, None]
    assert books.reserved == ["web"], "what was granted once is there for all"


async def test_when_the_one_who_asks_is_cancelled_another_asks_in_its_place() -> None:
    gate = asyncio.Event()
    of, port, _, books = searching(gate, None)
    tasks = [asyncio.ensure_future(perform(of, SEARCH, str(n))) for n in range(5)]
    await port.reached.wait()
    tasks[0].cancel()
    got = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(got[0], asyncio.CancelledError) and len(port.asked) == 2
    assert [c.cached for calls in got[1:] for c in calls] == [False, True, True, True]  # type: ignore[union-attr]
    assert len(books.settled) == 1


class Record:
    """A journal record as the follower sees it."""

    def __init__(self, event: Any, at: datetime, value: bytes | None = None) -> None:
        _, encoded, headers = wire.encode(
            event, id=str(UUID(int=1)), case_id=str(UUID(int=2)), causation_id=str(UUID(int=3)), run_id="live", time=at
        )
        self.headers, self.value = headers, encoded if value is None else value
        self.timestamp = int(at.timestamp() * 1000)


async def journalled() -> Call:
    of, _, _, _ = searching()
    return (await perform(of, SEARCH))[0]


@pytest.mark.parametrize("where", ["effect", "failed"])
async def test_what_another_worker_was_answered_is_known_from_the_journal(where: str) -> None:
    call = await journalled()
    reason = Failure(kind="internal", message="", retryable=False)
    event = {
        "effect": EffectCompleted(step="search", request_hash=call.request_hash, calls=(call,)),
        "failed": StepFailed(step="search", failure=reason, attempt=1, outcome="retry", calls=(call,)),
    }[where]
    wall = Wall()
    cache = SearchCache(600, now=wall)
    wall.now = NOW + timedelta(seconds=300)
    cache.on_record(Record(event, NOW))
    assert cache.get(search_key(SEARCH, "live")) is not None
    wall.now = NOW + timedelta(seconds=600)
    assert cache.get(search_key(SEARCH, "live")) is None, "its age counts from the reply, not from the reading"
    late = SearchCache(600, now=wall)
    late.on_record(Record(event, NOW))
    assert len(late) == 0


async def test_hits_failures_and_records_that_cannot_be_read_teach_the_cache_nothing() -> None:
    call, cache = await journalled(), SearchCache(600, now=Wall())
    completed = EffectCompleted(step="search", request_hash=call.request_hash, calls=(replace(call, cached=True),))
    cache.on_record(Record(completed, NOW))
    cache.on_record(
        Record(replace(completed, calls=(replace(call, reply=Failure(kind="auth", message="", retryable=False)),)), NOW)
    )
    cache.on_record(Record(completed, NOW, value=b'{"search_key": '))
    cache.on_record(Record(completed, NOW, value=b""))
    assert len(cache) == 0

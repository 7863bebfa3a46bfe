"""Signals of the pipeline as they stood at a time, and that a chat never waits for ClickHouse."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec

from infra.clickhouse.client import Address, ClickHouse, connect
from infra.clickhouse.lookups import AT_ONCE, MAX_SIGNALS, MAX_SOURCES, REVISIONS, SignalLookup
from schemas.effects import Failure, FindSignals, Reply, SignalsReply
from schemas.evidence import FoundPage, FoundSignal
from schemas.signals import SignalEvidence
from tests.infra.clickhouse.clickhouse_samples import NOW, fill, fill_signals, published, record, seconds, signal
from tests.infra.fakes.server import FakeServer, StaySilent
from tests.specification import opened

DAY = timedelta(days=1)


async def perform(port: SignalLookup, **fields: Any) -> Reply:
    given: dict[str, Any] = {"asset": "", "since": NOW - 7 * DAY, "as_of": NOW + seconds(60), "limit": 10}
    answer = await port.perform(FindSignals(**{**given, **fields}))
    assert answer.cost_usd == 0
    assert msgspec.json.decode(msgspec.json.encode(answer.reply), type=Reply) == answer.reply
    return answer.reply


async def find(client: ClickHouse, **fields: Any) -> tuple[FoundSignal, ...]:
    reply = await perform(SignalLookup(client, timeout_s=30.0), **fields)
    assert isinstance(reply, SignalsReply), reply
    assert [found.number for found in reply.signals] == list(range(1, len(reply.signals) + 1))
    return reply.signals


def one(name: str, days: float = 0.0, *, emitted_after_s: float = 1.0, run_id: str = "live", **fields: Any) -> Any:
    at = NOW - days * DAY
    of = signal(**{"signal_id": name, "case_id": f"case-{name}", "decided_at": at, **fields})
    return published(of, emitted_at=at + seconds(emitted_after_s), run_id=run_id)


async def test_signals_are_found_newest_first_with_what_an_answer_cites(clickhouse: ClickHouse) -> None:
    urls = [f"https://{n}.example/a" for n in range(7)]
    evidence = tuple(
        SignalEvidence(url=url, hash="h", stance="supports", reference_number=n) for n, url in enumerate(urls[:2], 1)
    )
    told = {"evidence": evidence, "links": (*urls[1:],), "risk_flags": ("rumor",), "provider_mode": "offline"}
    await fill_signals(
        clickhouse, one("old", 3), one("new", 1, asset="BTC", action="buy", direction="long", **told), one("older", 5)
    )
    found = await find(clickhouse)
    assert [f.signal_id for f in found] == ["new", "old", "older"]
    assert found[0] == FoundSignal(
        number=1,
        case_id="case-new",
        signal_id="new",
        asset="BTC",
        event_type="depeg",
        action="buy",
        direction="long",
        confidence=0.75,
        stage="final",
        verdict="confirmed",
        summary="Circle 确认 USDC 储备",
        decided_at=NOW - DAY,
        risk_flags=("rumor",),
        sources=tuple(urls[:MAX_SOURCES]),
        provider_mode="offline",
        supporting_sources=0,
        pages=tuple(FoundPage(url=url, stance="supports") for url in urls[:2]),
    )


async def test_an_asset_is_asked_for_by_its_ticker_and_none_means_any(clickhouse: ClickHouse) -> None:
    await fill_signals(clickhouse, one("a", asset="BTC"), one("b", 1, asset="ETH"), one("c", 2, asset="btc"))
    assert [f.signal_id for f in await find(clickhouse, asset=" $btc")] == ["a", "c"]
    assert [f.signal_id for f in await find(clickhouse, asset="")] == ["a", "b", "c"]
    assert await find(clickhouse, asset="B%") == ()


async def test_a_signal_is_what_it_was_at_the_time(clickhouse: ClickHouse) -> None:
    first = one("s", 2, stage="preliminary", verdict="unchecked", confidence=0.5)
    judged = one("s", 1, revision=2, supersedes=1, confidence=0.9)
    withdrawn = one(
        "s", 0, revision=3, supersedes=2, stage="retracted", verdict="refuted", confidence=0.0, action="observe"
    )
    await fill_signals(clickhouse, withdrawn, first, judged, judged)  # redelivered, and out of order

    async def stood(days: float) -> list[tuple[str, str | None, float]]:
        return [
            (f.stage, f.verdict, f.confidence) for f in await find(clickhouse, as_of=NOW - days * DAY + seconds(30))
        ]

    assert await stood(3) == []
    assert await stood(2) == [("preliminary", "unchecked", 0.5)]
    assert await stood(1) == [("final", "confirmed", 0.9)]
    assert await stood(0) == [("retracted", "refuted", 0.0)]


async def test_what_was_emitted_only_at_or_after_the_time_is_not_known(clickhouse: ClickHouse) -> None:
    await fill_signals(
        clickhouse,
        one("before", emitted_after_s=0.999),
        one("at", emitted_after_s=1.0),
        one("later", emitted_after_s=2.0),
    )
    assert [f.signal_id for f in await find(clickhouse, as_of=NOW + seconds(1))] == ["before"]


async def test_signals_of_before_the_time_asked_for_and_of_other_runs_are_left_out(clickhouse: ClickHouse) -> None:
    await fill_signals(clickhouse, one("in", 7), one("out", 7.001), one("backtest", 1, run_id="run-1"))
    assert [f.signal_id for f in await find(clickhouse)] == ["in"]


async def test_no_more_than_asked_for_are_found(clickhouse: ClickHouse) -> None:
    await fill_signals(clickhouse, *(one(f"s{n:02}", n / 100) for n in range(MAX_SIGNALS + 5)))
    assert [f.signal_id for f in await find(clickhouse, limit=2)] == ["s00", "s01"]
    assert len(await find(clickhouse, limit=1000)) == MAX_SIGNALS
    assert await find(clickhouse, limit=0) == ()


async def test_a_signal_of_many_revisions_hides_no_other(clickhouse: ClickHouse) -> None:
    many = [one("often", n / 100, revision=30 - n) for n in range(30)]
    await fill_signals(clickhouse, *many, one("second", 1), one("third", 2))
    assert 2 * REVISIONS < 30
    assert [(f.signal_id, f.decided_at) for f in await find(clickhouse, limit=2)] == [
        ("often", NOW),
        ("second", NOW - DAY),
    ]


async def unavailable(client: ClickHouse, *, at_once: int = 1) -> Failure:
    port = SignalLookup(client, timeout_s=0.4)
    replies = await asyncio.gather(*(perform(port) for _ in range(at_once)))
    await port.close()
    first = replies[0]
    assert isinstance(first, Failure) and all(isinstance(reply, Failure) for reply in replies)
    return first


async def test_a_clickhouse_that_is_away_or_silent_is_unavailable() -> None:
    away = await unavailable(connect(Address(host="127.0.0.1", port=1), database="x"))
    assert (away.kind, away.retryable) == ("unavailable", True)
    async with FakeServer(StaySilent()) as server:
        silent = await unavailable(connect(server.url, database="x"), at_once=40)
        assert server.connections <= AT_ONCE, "those that wait for the same ClickHouse give up with the first"
    assert (silent.kind, silent.retryable) == ("unavailable", True) and "0.4 s" in silent.message


async def test_a_database_that_is_not_there_yet_is_unavailable(empty: ClickHouse) -> None:
    reply = await perform(SignalLookup(empty, timeout_s=30.0))
    assert isinstance(reply, Failure) and reply.kind == "unavailable"


async def test_when_clickhouse_is_back_it_is_asked_again(clickhouse: ClickHouse) -> None:
    await fill_signals(clickhouse, one("a"))
    port = SignalLookup(clickhouse, timeout_s=0.0)
    assert isinstance(await perform(port), Failure)
    port._turns.timeout_s = 30.0
    assert isinstance(await perform(port), SignalsReply)


async def test_names_are_looked_for_in_news_and_summary_and_the_best_match_comes_first(clickhouse: ClickHouse) -> None:
    pages = (
        SignalEvidence(url="https://a.example", hash="h", stance="unrelated", reference_number=1, quote="nothing"),
        SignalEvidence(url="https://b.example", hash="h", stance="supports", reference_number=2, quote="reported"),
        SignalEvidence(
            url="https://c.example", hash="h", stance="denies", reference_number=3, quote="We did not", official=True
        ),
    )
    told = {"summary": "Upbit lists nothing", "verdict": "refuted", "evidence": pages, "supporting_sources": 1}
    await fill_signals(
        clickhouse,
        one("both", 5, asset="KRW", **told),
        one("one", 1, summary="Coinbase was hacked"),
        one("short", 1, summary="The second hour"),
        one("none", 0, summary="Solana upgrade"),
    )
    await fill(clickhouse, [record(opened("遭黑客攻击，据 SEC"), case="case-both", time=NOW - 5 * DAY)])
    names = (("Upbit", "业必特"), ("hack", "黑客"), ("SEC",))
    both, one_of = await find(clickhouse, asset="ETH", names=names)
    assert (both.signal_id, both.matched, both.verdict) == ("both", ("Upbit", "hack", "SEC"), "refuted")
    assert (one_of.signal_id, one_of.matched) == ("one", ("hack",))
    assert [(q.stance, q.quote, q.official) for q in both.pages] == [
        ("denies", "We did not", True),
        ("supports", "reported", False),
    ]
    assert [f.signal_id for f in await find(clickhouse, names=names, verdicts=("refuted",))] == ["both"]
    assert [f.signal_id for f in await find(clickhouse, verdicts=("refuted",))] == ["both"]
    assert await find(clickhouse, names=(("Kroger",),)) == ()


async def test_a_verdict_asked_for_is_that_of_the_newest_revision(clickhouse: ClickHouse) -> None:
    await fill_signals(clickhouse, one("s", 2, verdict="refuted"), one("s", 1, revision=2, supersedes=1))
    assert await find(clickhouse, verdicts=("refuted",)) == ()
    assert [f.signal_id for f in await find(clickhouse, verdicts=("confirmed",))] == ["s"]


async def test_signals_that_merely_name_an_asset_give_way_to_those_about_it(clickhouse: ClickHouse) -> None:
    paired = {"asset": "ZK", "summary": "Binance lists ZK, paired with PEPE"}
    await fill_signals(
        clickhouse,
        one("about", 3, asset="PEPE", summary="Coinbase lists a coin"),
        one("names", 1, **paired),
        one("of Binance", 2, asset="ARB", summary="Binance lists ARB"),
    )
    assert [f.signal_id for f in await find(clickhouse, names=(("PEPE", "Pepe"),))] == ["about"]
    assert [f.signal_id for f in await find(clickhouse, names=(("PEPE",),), limit=1)] == ["about"]
    assert [f.signal_id for f in await find(clickhouse, names=(("PEPE",), ("Binance",)))] == [
        "names",
        "of Binance",
        "about",
    ]
    assert [f.signal_id for f in await find(clickhouse, names=(("paired",),))] == ["names"]

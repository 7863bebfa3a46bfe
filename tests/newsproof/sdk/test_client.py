"""The SDK on a real broker: what a listener and a bot can rely on."""

from __future__ import annotations

import asyncio
import json
import logging
import runpy
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGINT, raise_signal
from typing import Any, get_args

import pytest

import newsproof
from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from newsproof import News, Signal, publish, subscribe
from schemas.errors import ConfigError, ContractError, TransientError
from schemas.news import decode_news
from schemas.signals import Verdict
from schemas.topics import Topics
from tests.newsproof.command import CHECKOUT
from tests.newsproof.signal_samples import FIRST, signal, write_signals
from tests.schemas.write_golden import GOLDEN_SIGNALS


async def first(count: int, signals: AsyncIterator[Signal]) -> list[str]:
    """Return the summaries of the next signals and end the iteration, as a bot does that is stopped."""
    found: list[str] = []
    async with asyncio.timeout(20), aclosing(signals) as running:  # type: ignore[type-var]
        async for one in running:
            found.append(f"{one.summary}:{one.revision}")
            if len(found) == count:
                break
    return found


def reading(address: KafkaAddress, topics: Topics, **options: Any) -> AsyncIterator[Signal]:
    return subscribe(**{"start": "earliest", "kafka": address, "prefix": topics.prefix, **options})


async def test_a_bot_sees_committed_signals_only(address: KafkaAddress, made_topics: Topics) -> None:
    await write_signals(address, made_topics, signal("aborted"), commit=False)
    await write_signals(address, made_topics, signal("committed"))
    assert await first(1, reading(address, made_topics)) == ["committed:1"]


async def test_a_revision_is_never_followed_by_itself_or_an_older_one(
    address: KafkaAddress, made_topics: Topics
) -> None:
    given = [signal("a", revision=2), signal("a", revision=1), signal("a", revision=2), signal("b")]
    await write_signals(address, made_topics, *given)
    assert await first(2, reading(address, made_topics)) == ["a:2", "b:1"]


async def test_by_default_only_orders_on_what_was_found_out_are_delivered(
    address: KafkaAddress, made_topics: Topics
) -> None:
    given = [
        signal("no order", action="observe"),
        signal("no asset", asset="UNKNOWN"),
        *(signal(verdict, verdict=verdict) for verdict in get_args(Verdict)),
        signal("of schema 1", verdict=None, supporting_sources=None),
        signal("first", **FIRST),
        signal("first, to buy", **{**FIRST, "verdict": "likely", "action": "buy"}),
        signal("on old news", risk_flags=("offline", "late")),
        signal("on the past", risk_flags=("backfilled",)),
        signal("after its horizon", risk_flags=("expired",)),
        signal("bought", verdict="likely", action="buy"),
    ]
    await write_signals(address, made_topics, *given)
    assert await first(3, reading(address, made_topics)) == ["confirmed:1", "likely:1", "bought:1"]


async def test_a_subscription_is_narrowed_by_verdict_action_asset_and_confidence(
    address: KafkaAddress, made_topics: Topics
) -> None:
    given = [
        signal("too weak", confidence=0.5),
        signal("other asset", asset="DOGE"),
        signal("other action", action="buy"),
        signal("other verdict", verdict="likely"),
        signal("fits", asset="ETH"),
        signal("disputed", verdict="disputed", asset="eth"),
    ]
    await write_signals(address, made_topics, *given)
    options = {
        "assets": {"ETH", "btc"}, "min_confidence": 0.7, "verdicts": ("confirmed", "disputed"), "actions": ("sell",),
    }  # fmt: skip
    assert await first(2, reading(address, made_topics, **options)) == ["fits:1", "disputed:1"]


async def test_none_asks_for_every_verdict_and_for_every_action(address: KafkaAddress, made_topics: Topics) -> None:
    given = [
        signal("of schema 1", verdict=None, supporting_sources=None),
        signal("refuted", verdict="refuted", action="observe", asset="UNKNOWN", confidence=0.1),
        signal("no asset", asset="UNKNOWN"),
        signal("first", **FIRST),
        signal("last"),
    ]
    await write_signals(address, made_topics, *given)
    found = await first(2, reading(address, made_topics, verdicts=None))
    assert found == ["of schema 1:1", "last:1"], "an order needs an asset"
    found = await first(2, reading(address, made_topics, actions=None))
    assert found == ["no asset:1", "last:1"]
    found = await first(2, reading(address, made_topics, verdicts=None, actions={"observe", "sell"}))
    assert found == ["of schema 1:1", "refuted:1"], "to observe needs none"
    every = reading(address, made_topics, verdicts=None, actions=None, preliminary=True)
    assert await first(5, every) == ["of schema 1:1", "refuted:1", "no asset:1", "first:1", "last:1"]


async def test_whoever_was_given_a_signal_is_given_what_becomes_of_it_and_nobody_else(
    address: KafkaAddress, made_topics: Topics
) -> None:
    gone: dict[str, Any] = {"action": "observe", "direction": "neutral", "confidence": 0.0}
    retracted = {"stage": "retracted", "verdict": "refuted", **gone}
    given = [
        signal("traded"),
        signal("too weak", confidence=0.2),
        signal("too weak", revision=2, **retracted),
        signal("unwanted", verdict="unconfirmed", action="observe"),
        signal("unwanted", revision=2, **retracted),
        signal("of before", revision=2, **retracted),
        signal("corrected before", revision=2, stage="superseded", verdict=None, asset="UNKNOWN", **gone),
        signal("other asset", revision=2, **{**retracted, "asset": "DOGE"}),
        signal("traded", revision=2, stage="superseded", **gone),
        signal("traded", revision=3, **retracted),
        signal("last"),
    ]
    await write_signals(address, made_topics, *given)
    options = {"assets": {"BTC", "UNKNOWN"}, "min_confidence": 0.5}
    found = await first(6, reading(address, made_topics, **options))
    assert found == ["traded:1", "of before:2", "corrected before:2", "traded:2", "traded:3", "last:1"]


async def test_first_judgements_are_for_those_who_ask_and_their_ends_follow(
    address: KafkaAddress, made_topics: Topics
) -> None:
    given = [
        signal("a", **FIRST),
        signal("b", **FIRST),
        signal("weak", **{**FIRST, "confidence": 0.3}),
        signal("a", revision=2),
        signal("b", revision=2, verdict="disputed", action="observe", confidence=0.1),
        signal("c"),
    ]
    await write_signals(address, made_topics, *given)
    assert await first(2, reading(address, made_topics)) == ["a:2", "c:1"]
    found = await first(5, reading(address, made_topics, preliminary=True, min_confidence=0.5))
    assert found == ["a:1", "b:1", "a:2", "b:2", "c:1"]


async def test_a_signal_of_schema_1_is_delivered_as_one_of_today(address: KafkaAddress, made_topics: Topics) -> None:
    old = json.loads((GOLDEN_SIGNALS / "signal.v1.json").read_text("utf-8"))
    async with address.producer() as producer:
        headers = [(name, text.encode()) for name, text in old["headers"].items()]
        await producer.send_and_wait(
            made_topics.signals, json.dumps(old["value"]).encode(), key=old["key"].encode(), headers=headers
        )
    bot = reading(address, made_topics, verdicts=None, actions=None)
    async with asyncio.timeout(20):
        found = await anext(bot)
    await bot.aclose()  # type: ignore[attr-defined]
    assert (found.schema_version, found.stage, found.verdict, found.action) == (2, "final", "unconfirmed", "buy")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"verdicts": {"verified"}}, "verdicts holds verified; write some of confirmed, likely"),
        ({"verdicts": "confirmed, likely"}, "verdicts holds confirmed, likely;"),
        ({"actions": ("hold", "buy")}, "actions holds hold; write some of buy, sell, observe, or None"),
    ],
)
async def test_a_word_that_no_signal_can_have_is_an_error_that_names_those_it_can(
    address: KafkaAddress, made_topics: Topics, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        await first(1, reading(address, made_topics, **options))


async def test_by_default_only_what_comes_from_now_on_is_delivered(address: KafkaAddress, made_topics: Topics) -> None:
    await write_signals(address, made_topics, signal("before"))
    # A commit is acknowledged before its markers are written, and until then the signal lies behind the end.
    assert await first(1, reading(address, made_topics)) == ["before:1"]
    bot = subscribe(kafka=address, prefix=made_topics.prefix)
    next_one = asyncio.ensure_future(anext(bot))
    # The bot has no way to say that it stands at the end; signals are written until one arrives.
    number = 0
    while not next_one.done():
        number += 1
        await write_signals(address, made_topics, signal(f"after {number}"))
        await asyncio.wait({next_one}, timeout=0.2)
    assert (await next_one).summary.startswith("after")
    await bot.aclose()  # type: ignore[attr-defined]


async def test_a_group_goes_on_with_the_signal_that_was_not_finished(
    address: KafkaAddress, made_topics: Topics
) -> None:
    await write_signals(address, made_topics, signal("a"), signal("b"), signal("c"))
    # "b" was handed out, and the bot ended before it asked for the next: it counts as not done.
    assert await first(2, reading(address, made_topics, group="g")) == ["a:1", "b:1"]
    assert await first(2, reading(address, made_topics, group="g")) == ["b:1", "c:1"]
    assert await first(3, reading(address, made_topics, group="another")) == ["a:1", "b:1", "c:1"]


async def test_a_signal_of_a_newer_schema_stops_the_bot_and_says_what_to_do(
    address: KafkaAddress, made_topics: Topics
) -> None:
    await write_signals(address, made_topics, signal("of tomorrow", schema_version=99))
    with pytest.raises(ContractError, match="update newsproof"):
        await first(1, reading(address, made_topics))


@pytest.mark.security
async def test_items_of_every_form_are_sent_and_refused_ones_reported(
    address: KafkaAddress, made_topics: Topics
) -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    item = News(source="s", text="from a struct", published_at=at, external_id="1", unknown={"rank": 7})
    mapping = {"source": "s", "text": "from a mapping", "published_at": "2026-03-01T00:00:00Z"}
    raw = json.dumps({**mapping, "text": "from bytes"}).encode()
    bad = {"source": "s", "published_at": "2026-03-01T00:00:00Z"}
    forged = mapping | {"source": "solana-status", "url": "https://solana.com/news/x"}
    report = await publish([item, mapping, bad, raw, forged], kafka=address, prefix=made_topics.prefix)
    assert report.published == 3
    assert [(position, reason) for position, reason, _ in report.refused] == [
        (2, "missing_field"),
        (4, "unmarked_source"),
    ]
    assert "choose another source id" in report.refused[1][2]
    sent = [
        decode_news(record.value, now=datetime.now(UTC))
        async for _, records in read_range(address, await offsets_of(address, made_topics.news))
        for record in records
    ]
    assert {news.text for news in sent} == {"from a struct", "from a mapping", "from bytes"}
    assert next(news for news in sent if news.external_id == "1").unknown == {"rank": 7}


async def test_without_a_kafka_the_text_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="newsproof up"):
        await publish([])
    with pytest.raises(TransientError, match="KAFKA_BOOTSTRAP_SERVERS"):
        await publish([], kafka="127.0.0.1:1")


@pytest.mark.parametrize("bot", ["bot", "minimal_bot"])
def test_an_example_bot_says_in_one_sentence_that_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bot: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["bot.py"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(CHECKOUT / "examples" / f"{bot}.py"), run_name="__main__")
    logging.getLogger("newsproof.heartbeat").disabled = False
    said = capsys.readouterr()
    assert (ended.value.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert "start `newsproof up` first (in a checkout: `./run up`)" in said.err


def test_ctrl_c_ends_a_bot_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    async def bot() -> None:
        raise_signal(SIGINT)
        await asyncio.Event().wait()

    with pytest.raises(SystemExit) as ended:
        newsproof.run_bot(bot())
    assert (ended.value.code, capsys.readouterr().err) == (130, "stopped by Ctrl-C\n")


async def test_a_heartbeat_says_what_arrived_and_what_of_it_was_offline(
    address: KafkaAddress, made_topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats: asyncio.Queue[str] = asyncio.Queue()
    monkeypatch.setattr("newsproof.sdk.client.HEARTBEAT_S", 0.0)
    monkeypatch.setattr(logging.getLogger("newsproof.heartbeat"), "info", lambda form, *a: beats.put_nowait(form % a))
    await write_signals(address, made_topics, signal("bought"), signal("no order", action="observe"))
    reader = asyncio.ensure_future(first(2, reading(address, made_topics)))
    async with asyncio.timeout(20):
        while "2 signals" not in (said := await beats.get()):
            pass
    reader.cancel()
    assert (
        said == "in the last 0 s: 2 signals, 1 for this bot, 1 of them offline (judged by rules: never trade on them)"
    )


async def test_topics_that_do_not_exist_are_named(address: KafkaAddress, topics: Topics) -> None:
    with pytest.raises(ConfigError, match="topics create"):
        await first(1, reading(address, topics))


def test_every_public_name_exists_and_is_completed() -> None:
    assert set(newsproof.__all__) <= set(dir(newsproof))
    for name in newsproof.__all__:
        assert getattr(newsproof, name) is not None
    with pytest.raises(AttributeError, match="nothing_of_ours"):
        _ = newsproof.nothing_of_ours

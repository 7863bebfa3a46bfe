"""The SDK on a real broker: what a listener and a bot can rely on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import newsproof
from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from newsproof import News, Signal, publish, subscribe
from schemas.errors import ConfigError, ContractError, TransientError
from schemas.news import decode_news
from schemas.topics import Topics
from tests.newsproof.signal_samples import signal, write_signals


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


async def test_a_subscription_is_narrowed_by_status_asset_and_confidence(
    address: KafkaAddress, made_topics: Topics
) -> None:
    given = [
        signal("too weak", confidence=0.5),
        signal("other asset", asset="DOGE"),
        signal("not verified", status="preliminary_only"),
        signal("retracted", status="retracted", confidence=0.1, asset="eth"),
        signal("fits", asset="ETH"),
    ]
    await write_signals(address, made_topics, *given)
    options = {"assets": {"ETH", "btc"}, "min_confidence": 0.7, "statuses": ("verified", "retracted")}
    assert await first(2, reading(address, made_topics, **options)) == ["retracted:1", "fits:1"]


async def test_whoever_was_given_a_signal_is_given_what_becomes_of_it_and_nobody_else(
    address: KafkaAddress, made_topics: Topics
) -> None:
    given = [
        signal("traded"),
        signal("too weak", confidence=0.2),
        signal("too weak", revision=2, status="retracted", confidence=0.0),
        signal("unwanted", status="preliminary_only"),
        signal("unwanted", revision=2, status="retracted", confidence=0.0),
        signal("of before", revision=2, status="retracted", confidence=0.0),
        signal("other asset", asset="DOGE", revision=2, status="retracted", confidence=0.0),
        signal("traded", revision=2, status="superseded", confidence=0.0),
        signal("traded", revision=3, status="retracted", confidence=0.0),
        signal("last"),
    ]
    await write_signals(address, made_topics, *given)
    options = {"assets": {"BTC"}, "min_confidence": 0.5}
    found = await first(5, reading(address, made_topics, **options))
    assert sorted(found) == ["last:1", "of before:2", "traded:1", "traded:2", "traded:3"]


async def test_first_judgements_are_for_those_who_ask_and_their_ends_follow(
    address: KafkaAddress, made_topics: Topics
) -> None:
    given = [
        signal("a", status="preliminary"),
        signal("b", status="preliminary"),
        signal("a", revision=2),
        signal("b", revision=2, status="degraded"),
        signal("c"),
    ]
    await write_signals(address, made_topics, *given)
    assert sorted(await first(2, reading(address, made_topics))) == ["a:2", "c:1"]
    found = await first(5, reading(address, made_topics, preliminary=True))
    assert sorted(found) == ["a:1", "a:2", "b:1", "b:2", "c:1"]


async def test_by_default_only_what_comes_from_now_on_is_delivered(address: KafkaAddress, made_topics: Topics) -> None:
    await write_signals(address, made_topics, signal("before"))
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


async def test_items_of_every_form_are_sent_and_refused_ones_reported(
    address: KafkaAddress, made_topics: Topics
) -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    item = News(source="s", text="from a struct", published_at=at, external_id="1", unknown={"rank": 7})
    mapping = {"source": "s", "text": "from a mapping", "published_at": "2026-03-01T00:00:00Z"}
    raw = json.dumps({**mapping, "text": "from bytes"}).encode()
    bad = {"source": "s", "published_at": "2026-03-01T00:00:00Z"}
    report = await publish([item, mapping, bad, raw], kafka=address, prefix=made_topics.prefix)
    assert report.published == 3
    assert [(position, reason) for position, reason, _ in report.refused] == [(2, "missing_field")]
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


async def test_topics_that_do_not_exist_are_named(address: KafkaAddress, topics: Topics) -> None:
    with pytest.raises(ConfigError, match="topics create"):
        await first(1, reading(address, topics))


def test_every_public_name_exists() -> None:
    for name in newsproof.__all__:
        assert getattr(newsproof, name) is not None
    with pytest.raises(AttributeError, match="nothing_of_ours"):
        _ = newsproof.nothing_of_ours

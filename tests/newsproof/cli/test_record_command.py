"""`newsproof record`: published from Kafka, verified, proven to a stranger's script, and reported with outcomes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import msgspec

from infra.kafka.topics import KafkaAddress, create_topics
from newsproof.report.track_record import Outcome, track_page, track_record
from schemas.signals import Signal
from schemas.topics import Topics
from tests.newsproof.command import CHECKOUT
from tests.newsproof.conftest import Run
from tests.newsproof.signal_samples import as_published, signal

YESTERDAY = datetime.now(UTC) - timedelta(days=1)


async def write_yesterday(address: KafkaAddress, topics: Topics, *signals: Signal) -> None:
    """Write signals as of yesterday, on a topic that keeps the time of its writer."""
    async with address.admin() as admin:
        await create_topics(admin, {topics.signals: (1, {"message.timestamp.type": "CreateTime"})}, 1)
    async with address.producer() as producer:
        for one in signals:
            at = int(YESTERDAY.timestamp() * 1000)
            await producer.send_and_wait(topics.signals, partition=0, timestamp_ms=at, **as_published(one, topics))


def test_a_day_is_published_verified_proven_and_a_forgery_is_named(
    run: Run, address: KafkaAddress, topics: Topics, tmp_path: Path
) -> None:
    first, second = signal("a"), signal("b")
    asyncio.run(write_yesterday(address, topics, first, second))
    record = partial(run, "record", TOPIC_PARTITIONS="1")
    day = YESTERDAY.date().isoformat()
    assert f"{day}       2 revisions" in record("publish")
    assert record("publish").startswith("Nothing to publish")
    assert "2 revisions on 1 day" in record("verify")
    proof = record("prove", first.signal_id)
    (tmp_path / "proof.json").write_text(proof)
    root = json.loads((tmp_path / "record" / f"{day}.json").read_bytes())["root"]["root"]
    checker = [sys.executable, "-I", str(CHECKOUT / "docs" / "check_proof.py"), str(tmp_path / "proof.json"), root]
    assert subprocess.run(checker, capture_output=True, text=True, check=True).stdout.startswith("The proof is valid")
    assert "no file in record proves signal nobody" in record("prove", "nobody", expect=2)

    forged = signal("a winner, after the fact")
    asyncio.run(write_yesterday(address, topics, forged))
    said = json.loads(record("verify", "--json", expect=1))
    assert [(d["kind"], d["signal_id"]) for d in said["differences"]] == [("added", forged.signal_id)]


def test_losers_and_withdrawn_orders_stay_in_the_track_record() -> None:
    names = ("won", "lost", "fell", "withdrawn in time", "withdrawn later", "no price", "watched <b>")
    buy = {"action": "buy", "direction": "long"}
    signals = {name: signal(name, **buy) for name in names}
    signals["fell"] = signal("fell")  # a sell
    signals["watched <b>"] = signal("watched <b>", action="observe", verdict="unconfirmed")
    at = signals["won"].decided_at
    withdrawn = [
        signal(
            name, revision=2, supersedes=1, stage="retracted", action="observe", verdict="refuted", decided_at=at + late
        )
        for name, late in (("withdrawn in time", timedelta(hours=1)), ("withdrawn later", timedelta(days=3)))
    ]
    returns = {"won": 0.02, "lost": -0.03, "fell": -0.01, "withdrawn in time": 0.5, "withdrawn later": -0.1}
    outcomes = {
        signals[name].case_id: Outcome(market_return=value, source="binance", exit_at=at + timedelta(days=1))
        for name, value in returns.items()
    }
    day = at.date().isoformat()
    found = track_record([*signals.values(), *withdrawn], {}, outcomes, since=day, until=day, horizon_s=86400)
    results = {row.summary: row.result for row in found.signals}
    assert results == {
        "won": "hit", "lost": "miss", "fell": "hit", "withdrawn in time": "withdrawn", "withdrawn later": "miss",
        "no price": "no_price", "watched <b>": "no_order",
    }  # fmt: skip
    everything = found.groups[0]
    assert (everything.orders, everything.hits, everything.misses, everything.withdrawn) == (6, 2, 2, 1)
    assert (everything.hit_rate, everything.at_least) == (0.5, 0.4)
    assert 0 < everything.low < 0.5 < everything.high < 1
    assert {group.group for group in found.groups} >= {
        "verdict: confirmed",
        f"news_source: {signals['won'].news_source}",
    }
    page = track_page(found, written_at="2026-03-01")
    assert page == track_page(found, written_at="2026-03-01")
    assert "watched &lt;b&gt;" in page
    assert "<b>" not in page
    assert f"{everything.low:.1%} … {everything.high:.1%}" in page, "one column holds both ends of the interval"
    assert "<script" not in page
    assert msgspec.json.encode(found)

"""What the tables promise under redelivery, and that every mapped row fits its table."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from msgspec import UNSET

from infra.clickhouse.client import ClickHouse
from infra.clickhouse.columns import COLUMNS
from infra.clickhouse.rows import Row, memory_row, rows_of
from schemas import events as ev
from schemas.calibration import SignalCalibration
from schemas.effects import Failure, ModelReply
from schemas.news import News
from schemas.signals import Adjustment, MessagePart, PromptUse, SignalEvidence
from tests.infra.clickhouse.clickhouse_samples import (
    NOW,
    fill,
    fill_signals,
    insert_rows,
    model_call,
    published,
    record,
    search_call,
    seconds,
    signal,
)

RECALLED = ev.ContextGathered(entries=(), memory="no_match")


@pytest.mark.parametrize("order", [(3, 9, 5), (9, 5, 3)])
async def test_the_row_of_the_first_record_stays_in_whatever_order_records_arrive(
    clickhouse: ClickHouse, order: tuple[int, ...]
) -> None:
    await fill(clickhouse, [record(RECALLED, event_id="e", offset=n, time=NOW + seconds(n)) for n in order])
    assert (await clickhouse.query("SELECT journal_offset FROM events FINAL")).rows == [(3,)]
    await clickhouse.command("OPTIMIZE TABLE events FINAL")
    assert (await clickhouse.query("SELECT journal_offset, event_time FROM events")).rows == [(3, NOW + seconds(3))]


async def test_a_repeat_in_another_month_is_still_one_row_to_final(clickhouse: ClickHouse) -> None:
    later = datetime(2026, 5, 1, tzinfo=UTC)
    await fill(clickhouse, [record(RECALLED, event_id="e", offset=8, time=later)])
    await fill(clickhouse, [record(RECALLED, event_id="e", offset=2)])
    assert (await clickhouse.query("SELECT journal_offset FROM events FINAL")).rows == [(2,)]


async def test_a_batch_with_a_known_token_inserts_nothing(clickhouse: ClickHouse) -> None:
    rows = rows_of(record(RECALLED))["events"]
    for token in ("cases-0-0-0", "cases-0-0-0", "cases-0-0-1"):
        await insert_rows(clickhouse, "events", rows, token)
    assert (await clickhouse.query("SELECT count() FROM events")).rows == [(2,)]


async def test_one_token_may_name_a_range_in_several_tables(clickhouse: ClickHouse) -> None:
    for table, rows in rows_of(
        record(ev.ContextGathered(entries=(), memory="no_match", calls=(model_call("0"),)))
    ).items():
        await insert_rows(clickhouse, table, rows, "cases-0-0-0")
    counts = await clickhouse.query("SELECT (SELECT count() FROM events), (SELECT count() FROM llm_calls)")
    assert counts.rows == [(1, 1)]


async def test_a_call_paid_twice_is_two_rows_and_the_zombies_is_marked(clickhouse: ClickHouse) -> None:
    event = ev.ContextGathered(entries=(), memory="no_match", calls=(model_call("0.001"),))
    await fill(clickhouse, [record(event, event_id="e", offset=4)])
    await fill(clickhouse, [record(event, event_id="e", offset=7)], accepted=False)
    assert (await clickhouse.query("SELECT count() FROM events FINAL")).rows == [(1,)]
    calls = await clickhouse.query("SELECT journal_offset, accepted FROM llm_calls FINAL ORDER BY journal_offset")
    assert calls.rows == [(4, 1), (7, 0)]


async def test_of_one_record_judged_twice_the_accepted_rows_stay(clickhouse: ClickHouse) -> None:
    one = record(ev.ContextGathered(entries=(), memory="no_match", calls=(search_call("0"),)))
    await fill(clickhouse, [one])
    await fill(clickhouse, [one], accepted=False)
    assert (await clickhouse.query("SELECT accepted FROM tool_calls FINAL")).rows == [(1,)]


async def test_an_unknown_price_stays_null_and_a_free_call_stays_zero(clickhouse: ClickHouse) -> None:
    calls = (model_call(None), model_call("0"), model_call("0.000000001"), model_call("12.5"))
    await fill(clickhouse, [record(ev.ContextGathered(entries=(), memory="found", calls=calls))])
    found = await clickhouse.query("SELECT cost_usd FROM llm_calls FINAL ORDER BY call_index")
    assert [row[0] for row in found.rows] == [None, Decimal(0), Decimal("0.000000001"), Decimal("12.5")]


async def test_an_event_keeps_its_envelope_its_step_and_its_bytes(clickhouse: ClickHouse) -> None:
    fields = {"step": "recall", "cause_time": NOW - seconds(1.5), "causation_id": "cause", "provider_mode": "offline"}
    one = record(RECALLED, event_id="e", offset=2**40, **fields)
    await fill(clickhouse, [one])
    columns = (
        "event_id, causation_id, step, outcome, step_latency_ms, provider_mode, journal_offset, payload, event_time"
    )
    (row,) = (await clickhouse.query(f"SELECT {columns} FROM events FINAL")).rows
    assert row == ("e", "cause", "recall", "no_match", 1500.0, "offline", 2**40, one.value.decode(), NOW)


async def test_the_news_of_a_case_has_a_row_of_its_own(clickhouse: ClickHouse) -> None:
    given = {
        "source": "wire",
        "external_id": "n1",
        "url": "https://a.example",
        "author": "ann",
        "text": "Circle 确认 USDC",
    }
    times = {"published_at": NOW - seconds(60), "received_at": NOW - seconds(1.5)}
    news = News(**given, **times, keywords_hit=("USDC", "储备"))
    bare = News(source="wire", text="x", published_at=NOW)
    for case, one in (("a", news), ("b", bare)):
        opened = ev.EventReceived(news=one, config_hash="h", text_hash=one.text_hash, language="zh")
        await fill(clickhouse, [record(opened, case=case, event_id=case, offset=n) for n in (5, 2)])
    columns = (
        "case_id, source, external_id, url, author, text, text_hash, keywords, published_at, received_at, opened_at"
    )
    found = await clickhouse.query(f"SELECT {columns}, language, journal_offset FROM news FINAL ORDER BY case_id")
    kept = ("Circle 确认 USDC", news.text_hash, ["USDC", "储备"], NOW - seconds(60), NOW - seconds(1.5), NOW, "zh", 2)
    assert found.rows == [
        ("a", "wire", "n1", "https://a.example", "ann", *kept),
        ("b", "wire", "", "", "", "x", bare.text_hash, [], NOW, None, NOW, "zh", 2),
    ]


async def test_signals_are_found_by_asset_and_time_and_merges_keep_that_true(clickhouse: ClickHouse) -> None:
    def at(n: int, asset: str, offset: int = 0, **other: Any) -> Row:
        of = signal(signal_id=f"s{n}", case_id=f"c{n}", asset=asset, decided_at=NOW + seconds(n), **other)
        return published(of, offset=offset)

    await fill_signals(clickhouse, at(1, "BTC", 7, confidence=0.1), *(at(n, "ETH") for n in range(2, 20)))
    await fill_signals(clickhouse, at(1, "BTC", 3, confidence=0.9))  # the first record, delivered last
    asked = "SELECT signal_id, confidence FROM signals WHERE run_id = 'live' AND upper(asset) = 'BTC'"
    assert sorted((await clickhouse.query(asked)).rows) == [("s1", 0.1), ("s1", 0.9)]
    await clickhouse.command("OPTIMIZE TABLE signals FINAL")
    by_projection = {"force_optimize_projection": 1}
    assert (await clickhouse.query(asked, settings=by_projection)).rows == [("s1", 0.9)]
    assert (await clickhouse.query(f"{asked} SETTINGS optimize_use_projections = 0")).rows == [("s1", 0.9)]


async def test_a_failed_call_and_its_kind_are_kept_also_when_the_adapter_returned_it(clickhouse: ClickHouse) -> None:
    away = Failure(kind="unavailable", message="ClickHouse is away", retryable=True)
    calls = (search_call("0", kind="recall", reply=away), model_call(None, error="timeout"))
    await fill(clickhouse, [record(ev.ContextGathered(entries=(), memory="unavailable", calls=calls))])
    found = await clickhouse.query("SELECT kind, error_type FROM v_calls ORDER BY kind")
    assert found.rows == [("model", "timeout"), ("recall", "unavailable")]


async def test_the_call_of_a_partial_reply_belongs_to_the_step_that_asked(clickhouse: ClickHouse) -> None:
    part = ev.EffectCompleted(step="search", request_hash="b" * 32, calls=(search_call("0.008"),))
    await fill(clickhouse, [record(part)])
    found = await clickhouse.query("SELECT step, tool_name, query, result_count FROM tool_calls FINAL")
    assert found.rows == [("search", "search", "USDC 脱锚", 0)]


async def test_a_signal_keeps_its_adjustments_and_its_evidence(clickhouse: ClickHouse) -> None:
    dated = SignalEvidence(
        url="https://a.example", hash="h", stance="supports", reference_number=1, official=True, published_at=NOW
    )
    rich = signal(
        evidence=(dated, SignalEvidence(url="https://b.example", hash="i", stance="denies", reference_number=2)),
        adjustments=(Adjustment(rule="official", amount=0.25, reason="官方公告"),),
        prompt_versions=(PromptUse(name="synthesize", version="v3", hash="x"),),
        risk_flags=("stale",),
    )
    await fill_signals(clickhouse, published(rich))
    (row,) = (await clickhouse.query("SELECT * FROM signals FINAL")).dicts()
    assert row["confidence_delta"] == 0.25
    assert [a["rule"] for a in row["adjustments"]] == ["official"]
    assert [(e["stance"], e["official"], e["published_at"]) for e in row["evidence"]] == [
        ("supports", 1, NOW),
        ("denies", 0, None),
    ]
    assert (row["symbol"], row["supersedes"], row["knowable_at"]) == ("", None, NOW - seconds(60))


async def test_only_a_backtest_takes_its_signals_from_its_journal(clickhouse: ClickHouse) -> None:
    end = ev.SignalSynthesized(signal=signal(), path="deep")
    await fill(clickhouse, [record(end), record(end, run_id="run-1", topic="newsproof.runs.run-1")])
    assert (await clickhouse.query("SELECT run_id FROM signals FINAL")).rows == [("run-1",)]


@pytest.mark.parametrize("table", sorted(COLUMNS))
async def test_the_mapping_names_every_column_that_has_no_default(clickhouse: ClickHouse, table: str) -> None:
    described = await clickhouse.query(f"DESCRIBE TABLE {table}")
    assert (
        {row[0] for row in described.rows if row[2] == ""} <= set(COLUMNS[table]) <= {row[0] for row in described.rows}
    )


async def test_bodies_of_old_news_are_kept_because_they_were_ingested_today(clickhouse: ClickHouse) -> None:
    old = datetime(2020, 7, 15, tzinfo=UTC)
    event = ev.ContextGathered(entries=(), memory="found", calls=(model_call("0", reply=ModelReply(text="kept")),))
    await fill(clickhouse, [record(event, time=old)])
    await clickhouse.command("OPTIMIZE TABLE events FINAL")
    await clickhouse.command("OPTIMIZE TABLE llm_calls FINAL")
    found = await clickhouse.query("SELECT length(payload) > 0, (SELECT reply FROM llm_calls) FROM events")
    assert found.rows == [(1, '{"type":"model","text":"kept"}')]


def test_only_a_signal_makes_a_memory() -> None:
    with pytest.raises(TypeError, match="SignalSynthesized"):
        memory_row(record(RECALLED))


def test_a_further_claim_of_a_message_is_no_row_of_news() -> None:
    news = News(source="wire", text="lists ZK and ARB", published_at=NOW)
    part = MessagePart(first_case="first", asset="ARB", assets=("ZK", "ARB"), text="lists ARB")
    opening = ev.EventReceived(news=news, config_hash="c", text_hash="t", language="en", part=part)
    assert set(rows_of(record(opening))) == {"events"}


async def test_a_signals_row_holds_what_its_calibration_says(clickhouse: ClickHouse) -> None:
    said = SignalCalibration(
        id="map", method="platt_identity_prior", target="moved:3600", n_stories=60, low=0.4, high=0.7, p_true=0.9
    )
    calibrated = signal(signal_id="a", case_id="a", confidence_calibrated=0.55, calibration=said)
    without = [signal(signal_id=name, case_id=name, calibration=of) for name, of in (("b", None), ("c", UNSET))]
    await fill_signals(clickhouse, *map(published, (calibrated, *without)))
    columns = "confidence_calibrated, calibration_id, calibrated_low, calibrated_high, calibration_stories, p_true"
    for table in ("signals", "v_signals", "v_judgements"):
        found = await clickhouse.query(f"SELECT {columns} FROM {table} ORDER BY signal_id")
        none = (None, "", None, None, None, None)
        assert found.rows == [(0.55, "map", 0.4, 0.7, 60, 0.9), none, none]

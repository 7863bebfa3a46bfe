"""Each view on a data set that is small enough to work out by hand."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from infra.clickhouse.client import ClickHouse
from schemas import events as ev
from schemas.effects import Failure
from schemas.evidence import PageStance
from schemas.news import News
from schemas.signals import Adjustment, SignalEvidence
from tests.builders import received
from tests.infra.clickhouse.clickhouse_samples import (
    NOW,
    fill,
    fill_signals,
    model_call,
    published,
    record,
    search_call,
    seconds,
    signal,
)


async def view(client: ClickHouse, name: str, columns: str = "*", where: str = "1") -> list[dict[str, Any]]:
    return (await client.query(f"SELECT {columns} FROM {name} WHERE {where}")).dicts()


def recalled(*calls: Any) -> ev.ContextGathered:
    return ev.ContextGathered(entries=(), memory="no_match", calls=calls)


async def spend_a_little(client: ClickHouse) -> None:
    """Case a: triage 0.002, search 0.008; case b: triage of unknown price, a free search that failed."""
    await fill(
        client,
        [
            record(recalled(model_call("0.002")), case="a", step="triage", offset=0),
            record(recalled(search_call("0.008")), case="a", step="search", offset=1),
            record(recalled(model_call(None)), case="b", step="triage", offset=2),
            record(recalled(search_call("0", error="rate_limit")), case="b", step="search", offset=3),
        ],
    )


async def test_cost_by_step_sums_known_prices_and_counts_the_unknown_ones(clickhouse: ClickHouse) -> None:
    await spend_a_little(clickhouse)
    columns = (
        "step, calls, llm_calls, tool_calls, total_cost_usd, unpriced_calls, unpriced_share, input_tokens, failed_calls"
    )
    rows = await view(clickhouse, "v_cost_by_step", columns)
    assert [tuple(r.values()) for r in rows] == [
        ("search", 2, 0, 2, Decimal("0.008"), 0, 0.0, 0, 1),
        ("triage", 2, 2, 0, Decimal("0.002"), 1, 0.5, 200, 0),
    ]


async def test_a_step_of_which_no_price_is_known_costs_null_not_zero(clickhouse: ClickHouse) -> None:
    await fill(clickhouse, [record(recalled(model_call(None)), step="triage")])
    assert await view(clickhouse, "v_cost_by_step", "total_cost_usd, unpriced_share") == [
        {"total_cost_usd": None, "unpriced_share": 1.0}
    ]


async def test_a_redelivered_record_changes_no_sum(clickhouse: ClickHouse) -> None:
    await spend_a_little(clickhouse)
    before = await view(clickhouse, "v_cost_by_step")
    await spend_a_little(clickhouse)
    assert await view(clickhouse, "v_cost_by_step") == before


async def test_spend_is_by_day_step_model_and_prompt_version(clickhouse: ClickHouse) -> None:
    calls = (model_call("0.1"), model_call("0.2", prompt_version="v2"), model_call("0.4", prompt_version="v2"))
    tomorrow = model_call("0.8", prompt_version="v2", replied_at=NOW + seconds(86400))
    await fill(clickhouse, [record(recalled(*calls, tomorrow), step="triage")])
    rows = await view(clickhouse, "v_spend", "day, request_model, prompt_version, calls, total_cost_usd")
    assert [tuple(r.values()) for r in rows] == [
        (date(2026, 3, 1), "rules", "v1", 1, Decimal("0.1")),
        (date(2026, 3, 1), "rules", "v2", 2, Decimal("0.6")),
        (date(2026, 3, 2), "rules", "v2", 1, Decimal("0.8")),
    ]


async def test_calls_by_provider_give_the_share_of_successes_and_latencies(clickhouse: ClickHouse) -> None:
    calls = [search_call("0.008", latency_ms=float(ms), units=2 if ms == 300 else 1) for ms in (100, 200, 300)]
    await fill(clickhouse, [record(recalled(*calls, search_call("0", latency_ms=400.0, error="timeout")))])
    columns = "provider_name, kind, calls, billed_requests, success_share, p50_ms"
    (row,) = await view(clickhouse, "v_calls_by_provider", columns)
    assert tuple(row.values()) == ("tavily", "search", 4, 4, 0.75, 250.0)


async def test_cost_per_signal_counts_every_call_of_its_case(clickhouse: ClickHouse) -> None:
    await spend_a_little(clickhouse)
    await fill(clickhouse, [record(ev.SignalSynthesized(signal=signal(), path="deep"), case="a", offset=9)])
    await fill_signals(clickhouse, published(signal(case_id="a")), published(signal(case_id="c", signal_id="signal-c")))
    rows = await view(
        clickhouse, "v_cost_per_signal", "case_id, path, calls, total_cost_usd, unpriced_calls", "1 ORDER BY 1"
    )
    assert [tuple(r.values()) for r in rows] == [("a", "deep", 2, Decimal("0.01"), 0), ("c", "", 0, None, 0)]
    (run,) = await view(clickhouse, "v_cost_per_signal_by_run")
    assert (run["signals"], run["calls"], run["unpriced_share"]) == (2, 4, 0.25)
    assert run["cost_per_signal_usd"] == pytest.approx(0.005)


async def test_latency_by_step_leaves_out_failures_and_partial_replies(clickhouse: ClickHouse) -> None:
    def took(s: float, event: ev.Event, offset: int) -> Any:
        return record(event, offset=offset, step="recall", cause_time=NOW - seconds(s))

    failure = Failure(kind="timeout", message="m", retryable=True)
    failed = ev.StepFailed(step="recall", failure=failure, attempt=1, outcome="retry")
    part = ev.EffectCompleted(step="recall", request_hash="r")
    started = ev.StepStarted(step="recall", crashes=3)
    results = [took(n / 10, recalled(), n) for n in range(1, 6)]
    await fill(
        clickhouse,
        [*results, took(60, part, 7), took(60, started, 8), took(60, failed, 9), record(recalled(), offset=10)],
    )
    columns = "step, results, failures, p50_ms, p95_ms, max_ms"
    (row,) = await view(clickhouse, "v_latency_by_step", columns)
    assert [*row.values()][:3] == ["recall", 5, 1]
    assert [*row.values()][3:] == pytest.approx([300.0, 480.0, 500.0])


async def test_latency_to_the_signal_counts_from_publication_and_from_opening(clickhouse: ClickHouse) -> None:
    news = News(source="desk", text="text", published_at=NOW - seconds(60))
    await fill(clickhouse, [record(received(news), case="case-a", time=NOW - seconds(2))])
    late = signal(revision=2, stage="retracted", supersedes=1)
    await fill_signals(clickhouse, published(signal()), published(late, emitted_at=NOW + seconds(999)))
    (row,) = await view(clickhouse, "v_latency_to_signal", "verdict, signals, published_p50_ms, opened_p99_ms")
    assert tuple(row.values()) == ("confirmed", 1, 60_000.0, 2_000.0)


async def three_judgements(client: ClickHouse) -> None:
    """Two hacks (0.5 → 0.7 and 0.5 → 0.1) that were critiqued, one listing (0.5 → 0.5) that was not."""

    def judged(name: str, final: float, **fields: Any) -> Any:
        return published(signal(signal_id=name, case_id=name, confidence=final, **fields))

    rule = Adjustment(rule="official", amount=0.2, reason="r")
    await fill_signals(
        client,
        judged("a", 0.7, event_type="hack", adjustments=(rule,)),
        judged("b", 0.1, event_type="hack", verdict="refuted"),
        judged("c", 0.5, event_type="listing", verdict="unchecked", unchecked_reason="gate", news_source="desk"),
        published(signal(signal_id="a", case_id="a", confidence=0.0, revision=2, stage="retracted", event_type="hack")),
    )
    supported = ev.EvidenceCritiqued(claims=(), verdict="supported")
    refuted = ev.EvidenceCritiqued(claims=(), verdict="refuted")
    await fill(
        client, [record(refuted, case="a", offset=0), record(supported, case="a", offset=1), record(refuted, case="b")]
    )


async def test_confidence_delta_by_event_type_is_of_the_last_judgement_not_of_the_retraction(
    clickhouse: ClickHouse,
) -> None:
    await three_judgements(clickhouse)
    columns = "event_type, signals, raised, lowered, mean_preliminary, mean_final, mean_delta, p50_delta"
    hack, listing = await view(clickhouse, "v_confidence_delta_by_event_type", columns)
    assert [*hack.values()][:4] == ["hack", 2, 1, 1]
    assert [*hack.values()][4:] == pytest.approx([0.5, 0.4, -0.1, -0.1])
    assert [*listing.values()] == ["listing", 1, 0, 0, 0.5, 0.5, 0.0, 0.0]


async def test_confidence_delta_is_split_by_source_type_verdict_and_the_last_critique(clickhouse: ClickHouse) -> None:
    await three_judgements(clickhouse)
    rows = await view(
        clickhouse, "v_confidence_delta", "news_source, event_type, verdict, critique_verdict, round(mean_delta, 9)"
    )
    assert [tuple(r.values()) for r in rows] == [
        ("desk", "listing", "unchecked", "", 0.0),
        ("history", "hack", "confirmed", "supported", 0.2),
        ("history", "hack", "refuted", "refuted", -0.4),
    ]


async def test_adjustments_say_which_rule_moved_confidence(clickhouse: ClickHouse) -> None:
    await three_judgements(clickhouse)
    assert await view(clickhouse, "v_adjustments", "event_type, rule, signals, mean_amount") == [
        {"event_type": "hack", "rule": "official", "signals": 1, "mean_amount": 0.2}
    ]


async def test_search_cost_stands_against_the_size_of_the_change(clickhouse: ClickHouse) -> None:
    await three_judgements(clickhouse)
    searches = recalled(search_call("0.008", units=2), search_call("0.004", units=1), search_call(None))
    await fill(clickhouse, [record(searches, case="a", offset=5)])
    columns = "delta_from, signals, mean_searches, mean_billed_requests, total_search_cost_usd, unpriced_searches"
    rows = await view(clickhouse, "v_search_cost_by_delta", columns)
    assert [tuple(r.values()) for r in rows] == [
        (0.0, 1, 0.0, 0.0, Decimal(0), 0),
        (0.2, 1, 3.0, 3.0, Decimal("0.012"), 1),
        (0.4, 1, 0.0, 0.0, Decimal(0), 0),
    ]


async def test_the_signals_view_shows_the_highest_revision(clickhouse: ClickHouse) -> None:
    await three_judgements(clickhouse)
    rows = await view(clickhouse, "v_signals", "signal_id, revision, stage")
    assert [tuple(r.values()) for r in rows] == [
        ("a", 2, "retracted"),
        ("b", 1, "final"),
        ("c", 1, "final"),
    ]


async def test_stances_have_a_row_for_each_page_with_the_prompt_that_read_it(clickhouse: ClickHouse) -> None:
    read = ev.EvidenceCritiqued(
        claims=(),
        verdict="conflicting",
        stances=(
            PageStance(reference_number=1, stance="supports", quote="it is live", amount="agrees", speaks_for="party"),
            PageStance(reference_number=2, stance="denies", quote="made up", same_event=False, cites="coindesk.com"),
            PageStance(reference_number=3, stance="unrelated"),
        ),
        unquoted=(2,),
        calls=(model_call("0.01", prompt_version="v7"),),
    )
    unread = ev.EvidenceCritiqued(claims=(), verdict="not_enough_evidence")
    await fill(clickhouse, [record(read, step="critique"), record(unread, case="case-b", offset=1, step="critique")])
    columns = "reference_number, stance, quoted, quote, same_subject, same_event, amount, speaks_for, cites"
    columns = f"{columns}, prompt_version, critique_verdict"
    rows = await view(clickhouse, "v_stances", columns, "run_id = 'live' ORDER BY reference_number")
    assert [tuple(r.values()) for r in rows] == [
        (1, "supports", True, "it is live", True, True, "agrees", "party", None, "v7", "conflicting"),
        (2, "denies", False, "made up", True, False, "silent", "other", "coindesk.com", "v7", "conflicting"),
        (3, "unrelated", True, None, True, True, "silent", "other", None, "v7", "conflicting"),
    ]


async def checks(client: ClickHouse) -> dict[str, int]:
    return {r["check"]: int(r["violations"]) for r in await view(client, "v_trust_checks")}


async def outcome(client: ClickHouse, entry_after_s: float, *, asset: str = "USDC", source: str = "csv") -> None:
    entry = NOW + seconds(entry_after_s)
    columns = ("case_id", "horizon_s", "asset", "entry_at", "entry_price", "exit_at", "exit_price", "return")
    row = ("case-a", 3600, asset, entry, 1.0, entry + seconds(3600), 1.1, 0.1, source, 1)
    await client.insert("outcomes", (*columns, "source", "version"), [row])


async def test_trust_checks_are_all_zero_on_sound_data(clickhouse: ClickHouse) -> None:
    dated = SignalEvidence(url="u", hash="h", stance="supports", reference_number=1, published_at=NOW - seconds(61))
    undated = SignalEvidence(url="v", hash="i", stance="supports", reference_number=2)
    await fill_signals(clickhouse, published(signal(evidence=(dated, undated))))
    await outcome(clickhouse, 0)
    first = recalled(model_call("0.1"), search_call("0"), search_call("0"))
    await fill(clickhouse, [record(first, event_id="1"), record(recalled(), event_id="2", offset=1, causation_id="1")])
    assert await checks(clickhouse) == dict.fromkeys(
        (
            "evidence_newer_than_case", "unpriced_calls", "entry_before_knowable", "entry_before_emitted",
            "outcome_of_another_asset", "outcome_on_synthetic_prices", "two_successors_of_one_event",
            "two_revisions_of_one_cause", "calls_paid_twice",
        ),
        0,
    )  # fmt: skip


async def test_each_trust_check_finds_its_violation(clickhouse: ClickHouse) -> None:
    newer = SignalEvidence(url="u", hash="h", stance="supports", reference_number=1, published_at=NOW)
    again = signal(revision=2, evidence=(newer,))
    await fill_signals(clickhouse, published(signal(), cause_id="x"), published(again, cause_id="x"))
    await outcome(clickhouse, -61, asset="DAI", source="synthetic prices")
    await fill(
        clickhouse,
        [
            record(recalled(model_call(None)), event_id="1", offset=0),
            record(recalled(search_call("0.008")), event_id="2", offset=1, causation_id="1"),
            record(recalled(search_call("0.008")), event_id="3", offset=2, causation_id="1"),
        ],
    )
    await fill(clickhouse, [record(recalled(model_call("1")), event_id="1", offset=9)], accepted=False)
    assert await checks(clickhouse) == {
        "evidence_newer_than_case": 1,
        "unpriced_calls": 1,
        "entry_before_knowable": 1,
        "entry_before_emitted": 0,
        "outcome_of_another_asset": 1,
        "outcome_on_synthetic_prices": 1,
        "two_successors_of_one_event": 1,
        "two_revisions_of_one_cause": 1,
        "calls_paid_twice": 2,
    }

"""The ten questions of docs/sql.md on one small set of signals, calls and prices, each answer worked out by hand.

The set, live, every case knowable at 11:59 (60 s before NOW), its entry at 12:00, exits one hour later:

    case  story  says     confidence   market     counts?
    a     s1     long     0.5 → 0.7    + 2 %      hit
    b     s1     long     0.5 → 0.75   - 1 %      miss (knowable a second after a)
    c     c      short    0.6 → 0.9    - 3 %      hit, + 3 % for who was short
    d     d      short    0.6 → 0.2    + 1 %      miss, - 1 %
    e     e      observe  0.5 → 0.5    + 9 %      would be long if it were true, and leaves no order
    f     f      long     0.5 → 0.6    unknown    no outcome, and the import said why
    g     g      long     0.5 → 0.6    + 9 %      of another asset than the signal's
    h     h      long     0.5 → 0.6    + 9 %      denied ten minutes later: not held for an hour, held for five minutes

Calls: a searched for 0.010, b asked a model for 0.020, c searched at an unknown price, x (no signal) asked for 0.030.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from infra.clickhouse.client import ClickHouse
from infra.clickhouse.columns import LLM_CALLS
from infra.clickhouse.rows import rows_of
from schemas import events as ev
from schemas.news import News
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

H = 3600
SET: dict[str, tuple[str, float, float]] = {
    "a": ("long", 0.5, 0.7),
    "b": ("long", 0.5, 0.75),
    "c": ("short", 0.6, 0.9),
    "d": ("short", 0.6, 0.2),
    "e": ("observe", 0.5, 0.5),
    "f": ("long", 0.5, 0.6),
    "g": ("long", 0.5, 0.6),
    "h": ("long", 0.5, 0.6),
}
RETURNS = {"a": 0.02, "b": -0.01, "c": -0.03, "d": 0.01, "e": 0.09, "g": 0.09, "h": 0.09}
RUN_COLUMNS = (
    *("run_id", "case_id", "repeat", "story_id", "status", "knowable_at", "has_signal", "asset", "action", "direction"),
    *("preliminary_confidence", "confidence", "executed", "cost_usd", "unpriced_calls", "latency_ms", "signal", "started_at", "version"),
)  # fmt: skip


async def ask(
    client: ClickHouse, view: str, columns: str, where: str = "1", order: str = "ALL"
) -> list[tuple[Any, ...]]:
    return (await client.query(f"SELECT {columns} FROM {view} WHERE {where} ORDER BY {order}")).rows


def rounded(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(round(v, 9) if isinstance(v, float) else v for v in row) for row in rows]


def row_of(case: str, change: float, *, horizon: int = H, **other: Any) -> dict[str, Any]:
    return {
        "case_id": case,
        "horizon_s": horizon,
        "asset": "DAI" if case == "g" else "USDC",
        "entry_at": NOW,
        "entry_price": 100.0,
        "exit_at": NOW + seconds(horizon),
        "exit_price": 100.0 * (1 + change),
        "return": change,
        "source": "csv:hand.csv",
        "version": 2,
        **other,
    }


async def outcomes_of(client: ClickHouse, *rows: dict[str, Any]) -> None:
    (columns,) = {tuple(row) for row in rows}
    await client.insert("outcomes", columns, [tuple(row.values()) for row in rows])


def replayed(case: str, story: str, said: str, confidence: float, *, repeat: int = 0, **other: Any) -> tuple[Any, ...]:
    action = {"long": "buy", "short": "sell", "": ""}[said]
    given: dict[str, Any] = {
        "run_id": "b",
        "case_id": case,
        "repeat": repeat,
        "story_id": story,
        "status": "replayed",
        "knowable_at": NOW - seconds(60),
        "has_signal": int(said != ""),
        "asset": "USDC",
        "action": action,
        "direction": said,
        "preliminary_confidence": 0.5,
        "confidence": confidence,
        "executed": 1,
        "cost_usd": Decimal("0.1"),
        "unpriced_calls": 0,
        "latency_ms": 100.0,
        "signal": said and '{"verdict":"%s"}' % ("likely" if case == "b" else "confirmed"),
        "started_at": datetime.now(UTC),  # rows of runs go 180 days after their run
        "version": 1,
        **other,
    }
    return tuple(given[name] for name in RUN_COLUMNS)


ACTIONS = {"long": "buy", "short": "sell", "observe": "observe"}


async def the_set(client: ClickHouse) -> None:
    rows = []
    for case, (says, before, after) in SET.items():
        named = {"signal_id": f"signal-{case}", "case_id": case, "action": ACTIONS[says]}
        named["direction"] = "long" if says == "observe" else says
        shown = signal(**named, preliminary_confidence=before, confidence=after)
        at = NOW - seconds(59 if case == "b" else 60)
        rows.append(published(shown, knowable_at=at))
        if case == "h":
            gone = signal(**named, preliminary_confidence=before, confidence=0.0, revision=2, stage="retracted")
            rows.append(published(gone, emitted_at=NOW + seconds(600)))
    await fill_signals(client, *rows)
    outcomes = [row_of(case, change) for case, change in RETURNS.items()]
    await outcomes_of(client, *outcomes, row_of("h", 0.01, horizon=300))
    drops = ("case_id", "horizon_s", "asset", "reason", "source", "version")
    await client.insert("outcome_drops", drops, [("f", H, "USDC", "gap", "csv:hand.csv", 2)])
    paid = {
        "a": search_call("0.010"),
        "b": model_call("0.020"),
        "c": search_call(None),
        "x": model_call("0.030"),
    }
    recalls = [ev.ContextGathered(entries=(), memory="no_match", calls=(call,)) for call in paid.values()]
    await fill(client, [record(event, case=case, step="search") for case, event in zip(paid, recalls, strict=True)])
    # A run with another prompt, which also found that a and b are one story.
    await client.insert(
        "run_cases",
        RUN_COLUMNS,
        [
            replayed("a", "s1", "long", 0.8),
            replayed("a", "s1", "long", 0.6, repeat=1, cost_usd=None, unpriced_calls=1),
            replayed("b", "s1", "long", 0.6),
            replayed("c", "c", "long", 0.9),
            replayed("d", "d", "", 0.0),
            replayed("f", "f", "long", 0.6, status="miss", has_signal=0),
            replayed("z", "z", "long", 0.6),
        ],
    )


@pytest.fixture
async def known(clickhouse: ClickHouse) -> ClickHouse:
    await the_set(clickhouse)
    return clickhouse


LIVE = f"run_id = 'live' AND horizon_s = {H}"


async def test_1_spend_counts_executed_calls_alone_and_says_what_share_is_of_unknown_price(known: ClickHouse) -> None:
    bought = record(
        ev.ContextGathered(entries=(), memory="no_match", calls=(model_call("0.5"),)), case="a", step="plan"
    )
    row = dict(zip(LLM_CALLS, rows_of(bought)["llm_calls"][0], strict=True))
    reused = row | {"run_id": "b", "execution": "reused", "cost_usd": None, "avoided_cost_usd": Decimal("0.5")}
    paid = row | {"run_id": "b", "execution": "executed", "cost_usd": Decimal("0.25"), "call_index": 1}
    free_of_price = row | {"run_id": "b", "execution": "executed", "cost_usd": None, "call_index": 2}
    await known.insert("llm_calls", LLM_CALLS, [tuple(r.values()) for r in (reused, paid, free_of_price)])
    columns = (
        "run_id, day, step, kind, prompt_version, calls, executed_calls, total_cost_usd, unpriced_calls, unpriced_share"
    )
    assert await ask(known, "v_spend", columns) == [
        # Three rows, two of them executed: 0.25 known, 1 of 2 unknown. What was reused is neither paid nor unknown.
        ("b", date(2026, 3, 1), "plan", "model", "v1", 3, 2, Decimal("0.25"), 1, 0.5),
        # b's 0.020 and x's 0.030.
        ("live", date(2026, 3, 1), "search", "model", "v1", 2, 2, Decimal("0.05"), 0, 0.0),
        # a's 0.010, and c's of unknown price.
        ("live", date(2026, 3, 1), "search", "search", "", 2, 2, Decimal("0.01"), 1, 0.5),
    ]
    assert await ask(known, "v_spend", "total_avoided_cost_usd", "run_id = 'b'") == [(Decimal("0.5"),)]


async def test_2_3_4_8_what_signals_cost_how_long_they_took_and_how_confidence_changed(known: ClickHouse) -> None:
    # 2. A correct signal costs all that was spent, over those that proved right.
    columns = "signals, with_direction, counted, correct, withdrawn, calls, total_cost_usd, unpriced_share"
    # 8 signals, e says no direction, a b c d count, a and c were right, h was withdrawn; 0.010 + 0.020 + 0.030, 1 of 4 unknown.
    assert await ask(known, "v_cost_per_correct_signal", columns, LIVE) == [(8, 7, 4, 2, 1, 4, Decimal("0.06"), 0.25)]
    figures = await ask(known, "v_cost_per_correct_signal", "cost_per_signal_usd, cost_per_correct_signal_usd", LIVE)
    assert rounded(figures) == [(0.0075, 0.03)]  # 0.06 / 8, 0.06 / 2
    none_right = await ask(
        known, "v_cost_per_correct_signal", "correct, cost_per_correct_signal_usd", "horizon_s = 86400"
    )
    assert none_right == [(0, None), (0, None)]

    # 2. A run of which no price is known costs null, not zero.
    # Run b has signals and no calls in the tables: nothing is known of what they cost.
    columns = "total_cost_usd, cost_per_signal_usd"
    assert await ask(known, "v_cost_per_correct_signal", columns, f"run_id = 'b' AND horizon_s = {H}") == [(None, None)]

    # 3. Latency from publication is there also for a case whose opening is not.
    columns = "signals, published_p50_ms, published_p99_ms"
    assert await ask(known, "v_latency_to_signal", columns, "run_id = 'live'") == [(8, 60_000.0, 60_000.0)]

    # 4. The change of confidence is counted in steps of a tenth.
    rows = await ask(known, "v_confidence_delta_bins", "delta_from, signals", "run_id = 'live'")
    # d -0.4 | e 0 | f g h 0.1 | a 0.2, b 0.25 | c 0.3 (in binary 0.30000000000000004, and f's 0.09999999999999998)
    assert rows == [(-0.4, 1), (0.0, 1), (0.1, 3), (0.2, 2), (0.3, 1)]

    # 8. Search cost stands against the size of the change.
    columns = "delta_from, signals, mean_searches, total_search_cost_usd, unpriced_searches"
    assert rounded(await ask(known, "v_search_cost_by_delta", columns, "run_id = 'live'", "delta_from")) == [
        (0.0, 1, 0.0, Decimal(0), 0),  # e
        (0.1, 3, 0.0, Decimal(0), 0),  # f, g, h
        (0.2, 2, 0.5, Decimal("0.01"), 0),  # a searched for 0.010, b did not
        (0.3, 1, 1.0, None, 1),  # c searched at an unknown price: null, and counted
        (0.4, 1, 0.0, Decimal(0), 0),  # d
    ]


PAIR = "a_run_id = 'live' AND b_run_id = 'b'"


async def test_5_6_7_9_how_right_signals_were_and_two_runs_beside_each_other(known: ClickHouse) -> None:
    # 5. Search helped where the final confidence was nearer to what came.
    columns = "searched, cases, stories, brier_preliminary, brier_final, brier_gain"
    assert rounded(await ask(known, "v_search_help", columns, LIVE)) == [
        # b: (0.5-0)² = 0.25 → (0.75-0)² = 0.5625; d: (0.6-0)² = 0.36 → (0.2-0)² = 0.04; means 0.305 and 0.30125
        (0, 2, 2, 0.305, 0.30125, 0.00375),
        # a: (0.5-1)² = 0.25 → (0.7-1)² = 0.09; c: (0.6-1)² = 0.16 → (0.9-1)² = 0.01; means 0.205 and 0.05
        (1, 2, 2, 0.205, 0.05, 0.155),
    ]
    left_out = await ask(known, "v_search_help", "neutral, withdrawn, without_outcome", f"{LIVE} AND NOT searched")
    assert left_out == [(1, 1, 2)]  # e; h; f and g

    # 6. Reliability compares what was said with what came, bin by bin.
    columns = "confidence_from, cases, stories, mean_confidence, hit_rate, gap"
    assert rounded(await ask(known, "v_reliability", columns, LIVE)) == [
        (0.2, 1, 1, 0.2, 0.0, -0.2),  # d
        (0.7, 2, 1, 0.725, 0.5, -0.225),  # a and b, of one story: (0.7 + 0.75) / 2
        (0.9, 1, 1, 0.9, 1.0, 0.1),  # c
    ]
    # Brier: (0.09 + 0.5625 + 0.01 + 0.04) / 4; ECE: (1·0.2 + 2·0.225 + 1·0.1) / 4
    assert rounded(await ask(known, "v_calibration", "cases, hit_rate, brier, ece", LIVE)) == [
        (4, 0.5, 0.175625, 0.1875)
    ]

    # 7. Hits and returns count a story once, with its first case.
    columns = "confidence_from, stories, cases_of_stories, hits, hit_rate, mean_return, median_return"
    assert rounded(await ask(known, "v_hit_rate", columns, LIVE)) == [
        (0.2, 1, 1, 0, 0.0, -0.01, -0.01),  # d: short, and the market rose by 1 %
        (0.7, 1, 2, 1, 1.0, 0.02, 0.02),  # s1: a was knowable before b, so b's miss is not a second chance
        (0.9, 1, 1, 1, 1.0, 0.03, 0.03),  # c: short, and the market fell by 3 %
    ]

    # 9. Two runs are paired by case, and repeats are averaged.
    columns = "case_id, story_id, a_action, b_action, action_flipped, a_confidence, b_confidence, confidence_change"
    assert rounded(await ask(known, "v_run_pairs", columns, PAIR)) == [
        ("a", "s1", "buy", "buy", 0, 0.7, 0.7, 0.0),  # repeats 0.8 and 0.6
        ("b", "s1", "buy", "buy", 0, 0.75, 0.6, -0.15),
        ("c", "c", "sell", "buy", 1, 0.9, 0.9, 0.0),
        ("d", "d", "sell", "", 1, 0.2, None, None),  # no signal in b; f is a miss there, and z is in b alone
    ]
    columns = "case_id, a_verdict, b_verdict, verdict_flipped"
    assert await ask(known, "v_run_pairs", columns, PAIR) == [
        ("a", "confirmed", "confirmed", 0),
        ("b", "confirmed", "likely", 1),
        ("c", "confirmed", "confirmed", 0),
        ("d", "confirmed", "", None),
    ]
    columns = "a_cost_usd, a_unpriced_calls, b_cost_usd, b_unpriced_calls, b_repeats"
    # Of b's two repeats of a, one has a known price.
    assert await ask(known, "v_run_pairs", columns, f"{PAIR} AND case_id = 'a'") == [
        (Decimal("0.01"), 0, Decimal("0.1"), 1, 2)
    ]

    # 9. Outcomes of two runs are compared where both count.
    columns = "horizon_s, cases, stories, a_hits, b_hits, a_only, b_only, a_brier, b_brier, brier_change"
    # a: hit, hit; b: miss, miss; c: hit when short, miss when long. Brier (0.09 + 0.5625 + 0.01) / 3 = 0.220833…,
    # ((0.8-1)² = 0.04 + (0.6-0)² = 0.36 + (0.9-0)² = 0.81) / 3 = 0.403333…
    assert rounded(await ask(known, "v_run_pair_outcomes", columns, PAIR)) == [
        (H, 3, 2, 2, 1, 1, 0, 0.220833333, 0.403333333, 0.1825)
    ]

    # Coverage says of every signal whether it counts, and why not.
    found = await ask(known, "v_outcome_coverage", "standing, signals, stories, share", LIVE)
    assert found == [
        ("counted", 4, 3, 0.5),
        ("gap", 1, 1, 0.125),
        ("neutral", 1, 1, 0.125),
        ("other_asset", 1, 1, 0.125),
        ("withdrawn", 1, 1, 0.125),
    ]
    at_five_minutes = dict(
        await ask(known, "v_outcome_coverage", "standing, signals", "run_id = 'live' AND horizon_s = 300")
    )
    assert at_five_minutes == {"counted": 1, "neutral": 1, "not_imported": 6}  # h was denied only after ten minutes


async def test_10_trust_checks_name_what_an_outcome_was_not_used_for(known: ClickHouse) -> None:
    await outcomes_of(known, row_of("a", 0.5, horizon=300, entry_at=NOW - seconds(61), source="synthetic:x.csv"))
    rows = dict(await ask(known, "v_trust_checks", "check, violations", "run_id = 'live'"))
    assert rows["entry_before_knowable"] == 1  # the planted price of a, a second before its news was knowable
    assert rows["outcome_of_another_asset"] == 1  # g
    assert rows["outcome_on_synthetic_prices"] == 1
    assert rows["unpriced_calls"] == 1  # c's search
    standing = await ask(
        known, "v_judged_outcomes", "standing, hit", "run_id = 'live' AND case_id = 'a' AND horizon_s = 300"
    )
    assert standing == [("before_knowable", None)]


async def test_a_later_import_takes_the_place_of_an_earlier_one_and_each_case_counts_once(known: ClickHouse) -> None:
    await outcomes_of(known, row_of("a", -0.5, version=3))
    await outcomes_of(known, row_of("a", 0.7, version=1))
    found = await ask(known, "v_judged_outcomes", "round(market_return, 3), hit", f"{LIVE} AND case_id = 'a'")
    assert found == [(-0.5, 0)]


async def test_a_return_of_exactly_zero_is_no_hit_and_no_miss(known: ClickHouse) -> None:
    await outcomes_of(known, row_of("a", 0.0, version=3), row_of("c", 0.0, version=3))
    assert await ask(known, "v_calibration", "cases, hit_rate", LIVE) == [(2, 0.0)]  # b and d, both wrong


def opened(case: str, *, received_after_s: float | None, **news: Any) -> Any:
    at = None if received_after_s is None else NOW + seconds(received_after_s)
    said = News(source="desk", text="text", published_at=NOW - seconds(3600), received_at=at, **news)
    return record(received(said), case=case, offset=7)


async def test_a_case_is_knowable_when_its_listener_had_it_not_when_it_was_published(clickhouse: ClickHouse) -> None:
    await fill_signals(
        clickhouse,
        *(published(signal(case_id=case, signal_id=case, published_at=NOW - seconds(3600))) for case in "pqrs"),
    )
    late = {"flags": ["late"]}
    await fill(
        clickhouse,
        [
            opened("p", received_after_s=-30),
            opened("q", received_after_s=None),
            opened("r", received_after_s=-30, extra=late),
            opened("s", received_after_s=20),
        ],
    )
    wanted = [
        ("p", True, NOW),  # live: nobody had it before its case was opened
        ("q", False, NOW - seconds(3600)),
        ("r", False, NOW - seconds(30)),
        ("s", True, NOW + seconds(20)),  # a listener whose clock is ahead
    ]
    assert await ask(clickhouse, "v_judgements", "case_id, live, knowable_at") == wanted
    await clickhouse.command("ALTER TABLE events UPDATE payload = '' WHERE 1 SETTINGS mutations_sync = 1")
    assert await ask(clickhouse, "v_judgements", "case_id, live, knowable_at") == wanted  # bodies go after 90 days


async def test_an_entry_before_a_live_signal_was_emitted_is_counted_and_used_for_nothing(
    clickhouse: ClickHouse,
) -> None:
    said = {"action": "buy", "direction": "long"}
    await fill_signals(
        clickhouse,
        *(
            published(signal(case_id=c, signal_id=c, **said), emitted_at=NOW + seconds(40))
            for c in ("early", "fine", "old")
        ),
    )
    await fill(
        clickhouse,
        [
            opened("early", received_after_s=-30),
            opened("fine", received_after_s=-30),
            opened("old", received_after_s=None),
        ],
    )
    entries = (("early", 39), ("fine", 40), ("old", 0))
    await outcomes_of(clickhouse, *(row_of(case, 0.01, entry_at=NOW + seconds(after)) for case, after in entries))
    standing = await ask(clickhouse, "v_judged_outcomes", "case_id, live, standing", f"{LIVE} AND has_outcome")
    assert standing == [("early", True, "before_emitted"), ("fine", True, "counted"), ("old", False, "counted")]
    rows = dict(await ask(clickhouse, "v_trust_checks", "check, violations", "run_id = 'live'"))
    assert (rows["entry_before_emitted"], rows["entry_before_knowable"]) == (1, 0)


async def test_what_is_neither_hit_nor_miss_is_counted_for_itself(clickhouse: ClickHouse) -> None:
    sold = {"event_type": "depeg", "action": "sell", "direction": "short"}
    said: dict[str, dict[str, Any]] = {
        "unmoved": {"action": "buy", "direction": "long"},
        "halted": {"action": "buy", "direction": "long"},
        "no entry": {"action": "buy", "direction": "long"},
        "peg lost": sold,
        "peg held": sold,
        "stable bought": {"event_type": "listing", "action": "buy", "direction": "long"},
        "leaned right": {"action": "observe", "direction": "short"},
        "leaned wrong": {"action": "observe", "direction": "long"},
        "leaned on a halt": {"action": "observe", "direction": "long"},
        "leaned to nothing": {"action": "observe", "direction": "neutral"},
    }
    await fill_signals(clickhouse, *(published(signal(case_id=c, signal_id=c, **how)) for c, how in said.items()))
    drops = ("case_id", "horizon_s", "asset", "reason", "source", "version")
    await clickhouse.insert("outcome_drops", drops, [("no entry", H, "USDC", "halted", "csv:hand.csv", 2)])
    none = {"halted": False, "depeg": None}
    changes: dict[str, tuple[float, dict[str, Any]]] = {
        "unmoved": (0.0, {}),
        "halted": (-0.5, {"halted": True}),
        "peg lost": (0.001, {"depeg": 0.011}),
        "peg held": (-0.005, {"depeg": 0.009}),
        "stable bought": (0.02, {"depeg": 0.02}),
        "leaned right": (-0.04, {}),
        "leaned wrong": (-0.02, {}),
        "leaned on a halt": (-0.02, {"halted": True}),
        "leaned to nothing": (-0.02, {}),
    }
    await outcomes_of(clickhouse, *(row_of(case, change, **none | how) for case, (change, how) in changes.items()))
    columns = "case_id, acted, standing, hit, round(directed_return, 3), depeg_hit"
    assert await ask(clickhouse, "v_judged_outcomes", columns, LIVE) == [
        ("halted", 1, "halted", None, -0.5, None),
        ("leaned on a halt", 0, "neutral", None, None, None),
        ("leaned right", 0, "neutral", None, None, None),
        ("leaned to nothing", 0, "neutral", None, None, None),
        ("leaned wrong", 0, "neutral", None, None, None),
        ("no entry", 1, "halted", None, None, None),
        ("peg held", 1, "stablecoin", None, None, 0),
        ("peg lost", 1, "stablecoin", None, None, 1),
        ("stable bought", 1, "stablecoin", None, None, None),
        ("unmoved", 1, "unmoved", None, 0.0, None),
    ]
    assert await ask(clickhouse, "v_calibration", "cases", LIVE) == []
    covered = dict(await ask(clickhouse, "v_outcome_coverage", "standing, signals", LIVE))
    assert covered == {"halted": 2, "neutral": 4, "stablecoin": 3, "unmoved": 1}
    columns = "leans, counted, hits, hit_rate, round(mean_return, 3)"
    assert await ask(clickhouse, "v_leans", columns, LIVE) == [(3, 2, 1, 0.5, 0.01)]  # (0.04 - 0.02) / 2
    assert await ask(clickhouse, "v_depegs", "claims, hits, hit_rate, largest_depeg", LIVE) == [(2, 1, 0.5, 0.011)]
    costs = await ask(clickhouse, "v_cost_per_correct_signal", "with_direction, counted, halted, unmoved", LIVE)
    assert costs == [(6, 0, 2, 1)]


async def test_every_signal_is_looked_at_after_its_own_horizon_and_those_of_the_imports_that_stand(
    clickhouse: ClickHouse,
) -> None:
    await fill_signals(clickhouse, published(signal(horizon=604_800)))
    columns = "horizon_s, own_horizon"
    at_first = [(300, 0), (3600, 0), (14_400, 0), (86_400, 0), (604_800, 1)]
    assert await ask(clickhouse, "v_judged_outcomes", columns) == at_first
    rows = [(1, [300, 7200], 0), (2, [60], 1)]
    await clickhouse.insert("price_imports", ("version", "horizons", "removed"), rows)
    assert await ask(clickhouse, "v_judged_outcomes", columns) == [(300, 0), (7200, 0), (604_800, 1)]


async def test_a_withdrawal_is_known_from_when_the_denial_was_knowable_not_from_when_it_was_processed(
    clickhouse: ClickHouse,
) -> None:
    said, gone = signal(), signal(revision=2, stage="superseded", confidence=0.0)
    await fill_signals(clickhouse, published(said), published(gone, cause_id="found", emitted_at=NOW + seconds(9e6)))
    denial = ev.RetractionFound(signal_id="signal-a", of_case="case-a", kind="superseded", reason="denied")
    await fill(
        clickhouse, [record(denial, case="denial", event_id="found", offset=8), opened("denial", received_after_s=600)]
    )
    columns = "stage, confidence, withdrawn_as, withdrawn_at"
    assert await ask(clickhouse, "v_judgements", columns) == [("final", 0.75, "superseded", NOW + seconds(600))]


async def test_every_column_of_every_view_has_a_plain_type(clickhouse: ClickHouse) -> None:
    views = await clickhouse.query(
        "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine = 'View'"
    )
    names = {row[0] for row in views.rows}
    assert {"v_spend", "v_judged_outcomes", "v_run_pairs", "v_trust_checks"} <= names
    for name in names:
        types = {row[0]: row[1] for row in (await clickhouse.query(f"DESCRIBE TABLE {name}")).rows}
        assert not [column for column, kind in types.items() if "Variant" in kind or "Dynamic" in kind], name
        assert not [column for column in types if "." in column or "(" in column], name

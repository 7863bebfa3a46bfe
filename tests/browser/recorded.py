"""What the fake API answers with: cases of the shipped sample log as the API tells them, a report, a comparison, a turn."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from operator import mul
from typing import Any, cast

import msgspec
import numpy as np

from evaluation.compare.comparison import compare, with_texts
from evaluation.prices.study import OFFSETS_MIN, EventPath, LeftOut, StudyEvent, study_of
from evaluation.prices.study_report import Returns, StudyReport, drawn_study
from evaluation.replay.log_file import Record, by_partition, read_log_file
from newsproof.report.data import VERDICTS, Report
from newsproof.report.report_charts import CHARTS, per
from newsproof.web.api.analytics import Language, Size, Theme, canvas, in_colours
from newsproof.web.api.live import shown
from schemas import envelope as wire
from schemas.envelope import read_signal
from streams.journal.case_reading import JournalRecord
from streams.journal.fold import JournalFold
from tests.evaluation.compare.compare_samples import example

Json = dict[str, Any]
_encode = msgspec.json.Encoder(enc_hook=str, decimal_format="number").encode


def plain(value: Any) -> Any:
    """Return a value as the API's JSON has it."""
    return msgspec.json.decode(_encode(value))


@lru_cache(maxsize=1)
def documents() -> dict[str, Json]:
    """Return every case of the sample log as ``GET /api/v1/cases/{id}`` tells it, by case id."""
    log = read_log_file()
    found: dict[str, list[JournalRecord]] = {}
    for _, records in by_partition(log.cases):
        followed = JournalFold(records[0].offset, partitions=log.partitions)
        for record in records:
            env, accepted = followed.judge(record)
            if env is not None:
                event = wire.decode(env.type, env.version, record.value)
                at = datetime.fromtimestamp(record.timestamp / 1000, UTC)
                one = JournalRecord(offset=record.offset, appended_at=at, envelope=env, event=event, accepted=accepted)
                found.setdefault(env.case_id, []).append(one)
    return {case_id: _document(case_id, records) for case_id, records in found.items()}


def _document(case_id: str, records: list[JournalRecord]) -> Json:
    revisions = [_revision(one) for one in _signals() if one["case_id"] == case_id]
    found: Json = plain(shown(records, revisions, ""))
    return found


def _revision(signal: Json) -> Json:
    names = ("revision", "stage", "verdict", "action", "direction", "confidence", "decided_at", "risk_flags", "notes")
    return {**{name: signal[name] for name in names}, "emitted_at": signal["published_at"]}


@lru_cache(maxsize=1)
def _signals() -> list[Json]:
    signals = [read_signal(record)[0] for record in sorted(read_log_file().signals, key=_appended)]
    return [plain(signal) for signal in signals]


def _appended(record: Record) -> int:
    return record.timestamp


def newest_signals() -> list[Json]:
    """Return each signal once in its newest revision, the newest first."""
    newest = {one["signal_id"]: one for one in _signals()}
    return sorted(newest.values(), key=lambda one: str(one["decided_at"]), reverse=True)


VITALS: Json = {
    "news_last_hour": 128,
    "news_waiting": 0,
    "open_cases": 2,
    "budget": {"usd": 31.42, "of_usd": 40.0, "calls": 38, "of_calls": 50},
    "providers": [
        {"kind": "model", "provider": "gemini", "at": "2026-11-22T09:00:00Z", "failing": None, "since": None},
        {"kind": "search", "provider": "tavily", "at": "2026-11-22T09:00:00Z", "failing": "timeout", "since": "2026-11-22T08:40:00Z"},
    ],
}  # fmt: skip
"""Figures of the pipeline, as `/api/v1/status` has them, made up."""


def prices() -> Json:
    """Return made-up prices of most signals by case id, as `/api/v1/prices` has them."""
    found: Json = {}
    for number, one in enumerate(newest_signals()):
        if number % 5 != 3:
            price, change = {"BTC": 64_210.5, "ETH": 3_120.25}.get(one["asset"], 1.842), (number % 7 - 3) / 100
            at = one["decided_at"]
            last_at = plain(datetime.fromisoformat(at) + timedelta(hours=8))
            found[one["case_id"]] = {
                "symbol": f"{one['asset']}/USDT",
                "price": price,
                "at": at,
                "last": price * (1 + change),
                "last_at": last_at,
                "change": change,
                "synthetic": number % 11 == 0,
            }
    return found


def market(own: Json | None = None) -> Json:
    """Return made-up candles around a signal, else the newest, with an order, its retraction and the signal itself on them."""
    newest, *_, other = newest_signals()
    own = own or newest
    at = datetime.fromisoformat(own["decided_at"])
    start, walk = int(at.timestamp()) // 300 * 300 - 100 * 300, random.Random(7)
    closes = list(accumulate((1 + walk.uniform(-0.004, 0.0041) for _ in range(201)), mul))
    scale = prices().get(own["case_id"], {"price": 3_000.0})["price"] / closes[100]  # as the list has it
    steps = enumerate(pairwise(scale * close for close in closes))
    candles = [(start + n * 300, a, max(a, b) * 1.001, min(a, b) * 0.999, b) for n, (a, b) in steps]
    told = {name: own[name] for name in ("action", "direction", "verdict", "confidence")}
    held = {"withdrawn": "", "withdrawn_at": None}
    taken = {"withdrawn": "retracted", "withdrawn_at": (at + timedelta(hours=5)).isoformat()}
    signals = [
        {"case_id": own["case_id"], "at": own["decided_at"], **told, **held},
        {
            "case_id": other["case_id"],
            "at": (at - timedelta(hours=4)).isoformat(),
            **told,
            "action": "sell" if told["action"] == "buy" else "buy",
            **taken,
        },
    ]
    found = {"symbol": f"{own['asset']}/USDT", "venue": "binance", "step_s": 300, "synthetic": True, "candles": candles}
    return {"market": plain({**found, "signals": signals}), "why": ""}


def case_items() -> list[Json]:
    """Return the list of cases, the newest first."""
    return sorted((d["case"] for d in documents().values()), key=lambda one: str(one["received_at"]), reverse=True)


# The report

STEPS = {"triage": 42, "critique": 36, "plan": 39, "synthesize": 36, "search": 39, "recall": 36, "scrape": 38}
ANSWERS: dict[str, list[Json]] = {
    "spend": [
        {
            "day": f"2026-11-{day:02}",
            "step": step,
            "calls": calls + day,
            "executed": calls + day,
            "cost_usd": round(calls * 0.00031 * (1 + day % 5 / 3), 6) if step in ("triage", "critique", "plan", "synthesize") else 0.0,
            "unpriced": 1 if (day, step) == (20, "search") else 0,
        }
        for day in range(14, 23)
        for step, calls in STEPS.items()
    ],
    "latency": [
        {"step": step, "results": n, "failures": n % 3 // 2, "p50_ms": n * 14.2, "p95_ms": n * 41.0, "p99_ms": n * 97.5}
        for step, n in sorted(STEPS.items())
    ],
    "to_signal": [
        {"verdict": "confirmed", "signals": 36, "opened_p50_ms": 5120.0, "opened_p95_ms": 9340.0, "opened_p99_ms": 11800.0},
        {"verdict": "unchecked", "signals": 6, "opened_p50_ms": 780.0, "opened_p95_ms": 990.0, "opened_p99_ms": 1100.0},
    ],
    "signals": [
        {"day": f"2026-11-{day:02}", "signals": sum(counts), **dict(zip((*VERDICTS, "without_verdict"), counts, strict=True))}
        for day in range(14, 23)
        for counts in [(3 + day % 4, 2, day % 3, int(day == 17), 2 - day % 2, day % 2, 1 + day % 5, 0)]
    ],
    "unchecked": [{"unchecked_reason": "gate", "signals": 20}, {"unchecked_reason": "search_failed:timeout", "signals": 6}],
    "deltas": [
        {"delta_from": low, "signals": n}
        for low, n in ((-0.8, 2), (-0.3, 1), (-0.2, 7), (-0.1, 1), (0.0, 8), (0.1, 23))
    ],
    "deltas_by_type": [
        {"event_type": "hack", "signals": 9, "mean_preliminary": 0.754, "mean_final": 0.881, "mean_delta": 0.127, "raised": 8, "lowered": 1},
        {"event_type": "regulation", "signals": 12, "mean_preliminary": 0.741, "mean_final": 0.78, "mean_delta": 0.039, "raised": 8, "lowered": 3},
    ],
    "precision": [
        {"horizon_s": horizon, "by": by, "group": group, "acted": n + 4, "counted": n, "hits": hits, "precision": hits / n, "low": low, "high": high, "blocks": n // 4}
        for horizon in (3600, 14400)
        for by, group, n, hits, low, high in (
            ("all", "", 120, 68, 0.46, 0.66),
            ("held", "", 131, 71, 0.44, 0.63),
            ("verdict", "confirmed", 84, 52, 0.5, 0.73),
            ("verdict", "likely", 30, 15, 0.31, 0.69),
            ("verdict", "unchecked", 6, 1, None, None),
            ("source", "wire", 98, 57, 0.46, 0.69),
            ("source", "exchange blog", 22, 11, None, None),
        )
    ],
    "reliability": [
        {"horizon_s": horizon, "confidence_from": n / 10, "cases": 12 + 9 * n, "stories": 10 + 8 * n, "mean_confidence": n / 10 + 0.05, "hit_rate": min(0.95, n / 10 + shift)}
        for horizon, shift in ((3600, 0.02), (14400, -0.06))
        for n in range(2, 10)
    ],
    "calibration": [
        {"horizon_s": 3600, "cases": 33, "hit_rate": 0.545, "mean_confidence": 0.79, "brier": 0.297, "ece": 0.134, "ece_noise": 0.201},
        {"horizon_s": 14400, "cases": 33, "hit_rate": 0.515, "mean_confidence": 0.79, "brier": 0.311, "ece": 0.181, "ece_noise": 0.204},
    ],
    "calibrated_bins": [
        {"horizon_s": 3600, "confidence_from": n / 10, "cases": 40 - 5 * abs(n - 5), "stories": 30, "mean_confidence": n / 10 + 0.05, "hit_rate": n / 10 + 0.03}
        for n in range(3, 8)
    ],
    "calibrated": [
        {"horizon_s": 3600, "cases": 170, "hit_rate": 0.53, "mean_confidence": 0.55, "brier": 0.244, "ece": 0.02, "ece_noise": 0.094},
    ],
    "coverage": [
        {"horizon_s": 3600, "standing": "counted", "signals": 33, "on_synthetic_prices": 33},
        {"horizon_s": 3600, "standing": "neutral", "signals": 8, "on_synthetic_prices": 8},
    ],
    "cost_per_signal": [{"signals": 42, "calls": 380, "cost_usd": 0.1675, "unpriced_calls": 1, "cost_per_signal_usd": 0.00399}],
    "modes": [{"provider_mode": "offline", "calls": 380}],
    "trust": [{"check": "every accepted event is in events", "violations": 0}, {"check": "no signal without its case", "violations": 0}],
}  # fmt: skip


def report() -> Json:
    """Return what ``GET /api/v1/report`` tells."""
    found = Report("live", ANSWERS)
    return {
        "run_id": "live",
        "per": {name: per(found, name) for name in ("signals", "spend")},
        "horizon_s": found.horizon_s,
        "answers": {name: rows for name, rows in ANSWERS.items() if name != "trust"},
        "is_empty": False,
        "synthetic": True,
        "without_outcomes": "",
    }


OFFSETS = len(OFFSETS_MIN)
GROUPS = {
    "verdict": {"confirmed": 140, "likely": 60, "disputed": 30, "refuted": 24, "unchecked": 3},
    "event_type": {"listing": 90, "hack": 70, "regulation": 60, "macro": 37},
    "source": {"wire": 200, "exchange blog": 57},
}


@cache
def study(by: str) -> StudyReport:
    """Return the study of made-up events: what is confirmed drifts upwards after the signal, what is refuted was no news."""
    draw, found = random.Random(7), list[EventPath | LeftOut](["no_price", "neutral", "neutral"])
    days = [draw.gauss(0, 0.004) for _ in range(40)]
    for name, events in GROUPS[by].items():
        for n in range(events):
            at, steps = n % len(days) if events > 9 else n % 3, [draw.gauss(0, 0.003) for _ in range(OFFSETS)]
            drift = {"confirmed": 0.0012, "refuted": -0.0007, "hack": 0.002}.get(name, 0.0003)
            walk = np.cumsum(np.array(steps) + drift * (np.arange(OFFSETS) > 5) + days[at] / OFFSETS)
            raw = walk - walk[OFFSETS_MIN.index(0)]
            event = StudyEvent(side=1, at_ms=at * 86_400_000, groups={by: name})
            found.append(EventPath(event, 0, raw, raw * 0.8 if n % 5 else "is_benchmark"))
    made = study_of(found, dimensions=(by,))
    return StudyReport(run_id="live", directed=True, study=made, on_synthetic_prices=made.measured, warnings=())


def chart(name: str, asked: Mapping[str, str]) -> str:
    """Return a chart of the report as the API draws it."""
    on = canvas(cast(Size, asked["size"]), cast(Language, asked["language"]))
    if name == "study":
        drawn = drawn_study(study(asked["by"]), cast(Returns, asked["returns"]), on)
    else:
        drawn = CHARTS[name](Report("live", ANSWERS), on, int(asked.get("horizon_s", 0)))
    return in_colours(drawn, cast(Theme, asked["theme"]))


# Backtests


def run_row(run_id: str, label: str, started: str) -> Json:
    """Return a row of the list of runs."""
    return {
        "run_id": run_id,
        "label": label,
        "status": "finished",
        "changes": "{}",
        "cases": 240,
        "executed": 240,
        "reused": 1200,
        "missed": 0,
        "cost_usd": 0.09888,
        "avoided_cost_usd": 0.504,
        "started_at": started,
        "finished_at": started,
    }


RUNS = [
    run_row("synth-v4", "synthesize v4", "2026-11-21T10:00:00Z"),
    run_row("synth-v3", "nothing changed (A/A)", "2026-11-20T09:00:00Z"),
]


@lru_cache(maxsize=1)
def comparison() -> Json:
    """Return the comparison of docs/verdict.md."""
    a, b, returns, texts = example()
    found: Json = plain(with_texts(compare(a, b, returns, differences=3), texts))
    return found


# A turn of the research chat

NOW = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
Events = Sequence[tuple[str, Json]]


def _value(name: str, value: float, unit: str, source: str) -> Json:
    return {"name": name, "value": value, "unit": unit, "source": source, "observed_at": "2026-11-22T08:59:00Z"}


def _agent(name: str, signal: str, confidence: float, reasoning: str, indicators: Json, **more: Any) -> Json:
    whole = {
        "agent_name": name,
        "signal": signal,
        "confidence": confidence,
        "confidence_level": "medium",
        "reasoning": reasoning,
        "indicators": indicators,
        "key_factors": ["Rates stay where they are", "Liquidity grows slowly"],
        "risk_assessment": "A surprise in the next rate decision would change this.",
        "prompt_sent": "You weigh macroeconomic figures …",
        "llm_response": '{"signal": "' + signal + '"}',
        "missing": [],
        "unsupported_numbers": [],
        **more,
    }
    return {**whole, "reasoning": reasoning[:200], "full": whole}


ANSWER = """## Where it stands

Bitcoin trades at **64,000 USD**, up 1.8 % in a day [2]. The mood is *greedy* [3], and rates have not moved.

- **Macro:** neutral; the dollar index is steady.
- **Technical:** bullish above its 50-day average, `RSI` at 61.2.
- **On-chain:** no clear direction.

| agent | signal | confidence |
|---|---|---:|
| Macro | neutral | 0.55 |
| Technical | bullish | 0.70 |

### What speaks against it

1. A signal of this pipeline says that a listed miner sells [1].
2. `fred` did not respond for M2, so liquidity is not judged.

More at [the exchange](https://exchange.example/btc)."""

SOURCES: list[Json] = [
    {"number": 1, "title": "Listed miner sells 1,200 BTC", "kind": "signal", "case_id": "", "url": "https://wire.example/miner-sells", "preview": "sell BTC, confidence 0.71, confirmed, 3 supporting sources", "observed_at": "2026-11-22T07:10:00Z"},
    {"number": 2, "title": "coinbase: price and 24 h change", "kind": "market", "url": "https://exchange.example/btc", "preview": "64,000.5 USD, +1.8 %", "observed_at": "2026-11-22T08:59:00Z"},
    {"number": 3, "title": "alternative.me: fear and greed", "kind": "market", "url": "https://mood.example/", "preview": "68 (greed)", "observed_at": "2026-11-22T00:00:00Z"},
]  # fmt: skip


def analysis(chat_id: str, conversation: str, question: str) -> list[Events]:
    """Return the records of a whole turn, each with the events that it says."""
    return [
        [("status", {"stage": "routing", "message": "Looking at the question", "chat_id": chat_id, "conversation": conversation, "question": question})],
        [
            ("super_agent_decision", {"decision": "COMPLEX_ANALYSIS", "reasoning": "It asks for a judgement of the market.", "confidence": 0.92, "direct_answer": "", "route": "plan"}),
            ("status", {"stage": "planning", "message": "Planning the analysis"}),
        ],
        [
            ("planning_result", {
                "task_breakdown": [
                    {"agent": "MacroAgent", "reason": "Rates and liquidity set the frame.", "priority": "high", "data_required": ["macro", "fear_greed"]},
                    {"agent": "TAAgent", "reason": "Trend and momentum of the price.", "priority": "high", "data_required": ["price", "indicators"]},
                    {"agent": "OnChainAgent", "reason": "Whether coins move to exchanges.", "priority": "medium", "data_required": ["onchain"]},
                ],
                "execution_strategy": {"parallel_agents": ["MacroAgent", "TAAgent", "OnChainAgent"], "sequential_after": [], "estimated_time": "20 s"},
                "reasoning": "All three bear on the question.", "asset": "BTC",
            }),
            ("status", {"stage": "data_collection", "message": "Collecting data"}),
        ],
        [
            ("data_collected", {
                "asset": "BTC",
                "price": [_value("price", 64000.5, "USD", "coinbase"), _value("change_24h", 1.8, "%", "coinbase")],
                "macro": [_value("fed_funds_rate", 3.88, "%", "fred"), _value("dxy", 99.2, "", "fred"), _value("treasury_yield", 4.12, "%", "fred")],
                "fear_greed": [_value("fear_greed", 68.0, "", "alternative.me")],
                "onchain": [_value("active_addresses", 912345.0, "", "blockchain.info")],
                "indicators": [_value("rsi_14", 61.2, "", "computed"), _value("ema_50", 61875.4, "USD", "computed")],
                "candles": [{"close": 60000 + (n * 7919 % 97) * 60 + n * 25} for n in range(120)], "candle_count": 120,
                "candle_interval": "1d", "candle_source": "coinbase",
                "signals": [{"number": 1, "case_id": CASE_OF_SOURCE, "signal_id": "s", "asset": "BTC", "event_type": "whale", "action": "sell", "direction": "short", "confidence": 0.71, "stage": "final", "verdict": "confirmed", "summary": "Listed miner sells 1,200 BTC", "decided_at": "2026-11-22T07:10:00Z"}],
                "unavailable": ["fred M2: timeout after 10 s"],
            }),
            ("status", {"stage": "analysis", "message": "The agents analyse the data"}),
        ],
        [("agent_result", _agent("TAAgent", "BULLISH", 0.7, "The price is above its averages and the RSI of 61.2 leaves room. " * 5, {"rsi_14": {"value": 61.2, "impact": "BULLISH", "weight": 0.5, "source": "computed", "observed_at": "2026-11-22T08:59:00Z"}}))],
        [("agent_result", _agent("MacroAgent", "NEUTRAL", 0.55, "Rates are unchanged and the dollar index is steady.", {"fed_funds_rate": {"value": 3.88, "impact": "NEUTRAL", "weight": 0.4, "unit": "%", "source": "fred", "observed_at": "2026-11-22T08:59:00Z"}, "m2_growth": {"value": None, "impact": "NEUTRAL", "weight": 0.2}}, missing=["m2_growth"]))],
        [("agent_result", {"agent_name": "OnChainAgent", "error": "the model did not respond within 60 s", "kind": "timeout"})],
        [("status", {"stage": "synthesis", "message": "Writing the answer"})],
        [("final_answer", final(ANSWER)), ("done", {})],
    ]  # fmt: skip


CASE_OF_SOURCE = "00000000-0000-5000-8000-000000000001"


def final(answer: str, **more: Any) -> Json:
    """Return the data of a final answer with these words."""
    sources = [{**one, **({"case_id": CASE_OF_SOURCE} if "case_id" in one else {})} for one in SOURCES]
    metadata = {
        "path": "complete", "provider_mode": "offline", "agents": ["MacroAgent", "TAAgent"], "agents_missing": ["OnChainAgent"],
        "unavailable": ["fred M2: timeout after 10 s"], "unsupported_numbers": [], "as_of": "2026-11-22T09:00:00Z",
    }  # fmt: skip
    said = {
        "answer": answer,
        "summary": "Bitcoin leans bullish in the short run; the economy gives no direction.",
        "key_insights": ["Above its 50-day average", "The mood is greedy", "Liquidity could not be judged"],
        "confidence": 0.61,
        "sources": sources,
        "metadata": metadata,
    }
    return {**said, **more}


def stamped(events: Events, number: int) -> list[tuple[str, Json]]:
    """Return the events of one record with the time of that record."""
    at = (NOW + timedelta(seconds=number)).isoformat().replace("+00:00", "Z")
    return [(name, {**data, "timestamp": at}) for name, data in events]

"""The sample of calibration, as ClickHouse has it: what is a sample of what, and since when its outcome is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from infra.clickhouse.client import ClickHouse
from schemas.calibration import STOOD, moved
from schemas.signals import Signal
from streams.calibration.fit import Sample
from streams.calibration.sample import read_samples
from tests.infra.clickhouse import clickhouse_samples as tables
from tests.infra.clickhouse.test_questions import outcomes_of, row_of

DAY = timedelta(days=1)
AT = tables.NOW
LATER = AT + 200 * DAY


def signal(case: str, **changes: Any) -> Signal:
    """A live signal to buy BTC on news of a minute ago, with a horizon of a day."""
    plain = {
        "case_id": case, "signal_id": case, "asset": "BTC", "action": "buy", "direction": "long", "provider_mode": "live",
        "horizon": 86400, "verdict": "likely", "event_type": "listing",
    }  # fmt: skip
    return tables.signal(**(plain | changes))


def withdrawn(case: str, revision: int = 2) -> Signal:
    return signal(case, revision=revision, stage="retracted", verdict="refuted", direction="neutral", confidence=0.0)


async def write(client: ClickHouse, *signals: tuple[Signal, timedelta]) -> None:
    """Write the signals, each emitted so long after the first."""
    await tables.fill_signals(client, *(tables.published(one, emitted_at=AT + after) for one, after in signals))


async def prices(client: ClickHouse, **moves: float) -> None:
    """Write the return after a day of each case."""
    rows = (row_of(case, change, horizon=86400, asset="BTC") for case, change in moves.items())
    await outcomes_of(client, *rows)


async def labels(client: ClickHouse, version: int, at: datetime, **truths: str) -> None:
    columns = ("source", "version", "case_id", "truth", "ingested_at")
    await client.insert("labels", columns, [("desk", version, case, truth, at) for case, truth in truths.items()])


async def outcomes(client: ClickHouse, target: str, as_of: datetime = LATER) -> dict[str, int]:
    return {one.story: one.outcome for one in await read_samples(client, as_of) if one.target == target}


async def test_a_signal_came_true_if_the_price_moved_over_10_bp_its_way(clickhouse: ClickHouse) -> None:
    short = {"action": "sell", "direction": "short"}
    lean = {"action": "observe", "direction": "short", "verdict": "unconfirmed"}
    signals = {
        "rose": {}, "rose little": {}, "fell": {}, "short fell": short, "lean fell": lean, "neutral": {"direction": "neutral"},
        "other asset": {"asset": "ETH"}, "no asset": {"asset": "UNKNOWN"},
    }  # fmt: skip
    await write(clickhouse, *((signal(case, **of), timedelta()) for case, of in signals.items()))
    moves = {"rose": 0.02, "rose little": 0.001, "fell": -0.02, "short fell": -0.0011, "lean fell": -0.02}
    await prices(clickhouse, **moves, **dict.fromkeys(("neutral", "other asset", "no asset"), 0.05))
    expected = {"rose": 1, "rose little": 0, "fell": 0, "short fell": 1, "lean fell": 1}
    assert await outcomes(clickhouse, moved(86400)) == expected


async def test_the_sample_is_of_the_first_final_confidence_and_keeps_what_was_withdrawn(clickhouse: ClickHouse) -> None:
    early = signal("a", stage="preliminary", confidence=0.6, verdict="unchecked", direction="short")
    final = signal("a", revision=2, confidence=0.8, direction="long")
    raised = signal("a", revision=3, confidence=0.9, verdict="confirmed", language="en")
    hour = timedelta(hours=1)
    at = [early, final, raised, withdrawn("a", revision=4)]
    await write(clickhouse, *((one, -3 * hour + n * hour) for n, one in enumerate(at)))
    await prices(clickhouse, a=-0.05)
    found = {one.target: one for one in await read_samples(clickhouse, LATER)}
    assert found[moved(86400)] == Sample(
        target=moved(86400), story="a", confidence=0.8, outcome=0, event_type="listing", language="zh",
        decided_at=AT - 2 * hour, known_at=AT + DAY,
    )  # fmt: skip
    stood = found[STOOD]
    assert (stood.confidence, stood.outcome, stood.known_at) == (0.8, 0, AT - 2 * hour + 14 * DAY)


async def test_invented_signals_and_prices_and_entries_that_nobody_could_make_stay_out(clickhouse: ClickHouse) -> None:
    of = {"offline": {"provider_mode": "offline"}, "simulated": {"provider_mode": "simulated"}}
    names = ("real", "synthetic", "half synthetic", "before", "halted", "stablecoin", *of)
    await write(clickhouse, *((signal(case, **of.get(case, {})), timedelta()) for case in names))
    backtest = tables.published(signal("backtest"), emitted_at=AT, run_id="b1")
    await tables.fill_signals(clickhouse, backtest)
    of_price: dict[str, dict[str, Any]] = {
        "synthetic": {"source": "synthetic:prices.csv"},
        "half synthetic": {"source": "binance:5m+synthetic:prices.csv"},
        "before": {"entry_at": AT - timedelta(seconds=1)},
        "halted": {"halted": True},
        "stablecoin": {"depeg": 0.002},
    }
    plain: dict[str, Any] = {"asset": "BTC", "halted": False, "depeg": None}
    cases = (*names, "backtest")
    rows = [row_of(case, 0.05, horizon=86400, **(plain | of_price.get(case, {}))) for case in cases]
    await outcomes_of(clickhouse, *rows)
    assert await outcomes(clickhouse, moved(86400)) == {"real": 1}
    assert set(await outcomes(clickhouse, STOOD)) == set(names) - set(of)


async def test_each_measured_horizon_is_a_target(clickhouse: ClickHouse) -> None:
    await write(clickhouse, (signal("a", horizon=7 * 86400), timedelta()))
    horizons = (300, 3600, 14400, 86400, 7 * 86400, 1800)
    await outcomes_of(clickhouse, *(row_of("a", 0.05, horizon=horizon, asset="BTC") for horizon in horizons))
    found = {one.target for one in await read_samples(clickhouse, LATER)} - {STOOD}
    assert found == set(map(moved, horizons[:-1])), "a horizon of one import alone is no target"


async def test_a_claim_stood_if_it_was_confirmed_and_not_withdrawn_within_14_days(clickhouse: ClickHouse) -> None:
    sure = {"verdict": "confirmed"}
    await write(
        clickhouse,
        *((signal(case, **sure), timedelta()) for case in ("confirmed", "withdrawn", "withdrawn later")),
        (signal("likely"), timedelta()),
        (signal("confirmed after"), timedelta()),
        (signal("confirmed after", revision=2, **sure), 13 * DAY),
        (signal("too late"), timedelta()),
        (signal("too late", revision=2, **sure), 15 * DAY),
        (withdrawn("withdrawn"), 13 * DAY),
        (withdrawn("withdrawn later"), 15 * DAY),
        (signal("old news", published_at=AT - 2 * DAY, **sure), timedelta()),
    )  # fmt: skip
    assert await outcomes(clickhouse, STOOD) == {
        "confirmed": 1, "withdrawn": 0, "withdrawn later": 1, "likely": 0, "confirmed after": 1, "too late": 0,
    }  # fmt: skip


async def test_a_label_settles_it_and_counts_from_its_first_import(clickhouse: ClickHouse) -> None:
    cases = ("true", "false", "partly", "unsure", "contested")
    await write(clickhouse, *((signal(case), timedelta()) for case in cases))
    first, again = AT + 20 * DAY, AT + 30 * DAY
    await labels(clickhouse, 1, first, true="true", false="true", partly="partly", unsure="unknown", contested="true")
    columns = ("source", "version", "case_id", "truth", "ingested_at")
    await clickhouse.insert("labels", columns, [("club", 2, "contested", "false", first)])
    await labels(clickhouse, 3, again, true="true", false="false", partly="partly", contested="true")
    found = {one.story: (one.outcome, one.known_at) for one in await read_samples(clickhouse, LATER)}
    by_rule = (0, AT + 14 * DAY)
    assert found == {
        "true": (1, first), "false": (0, again), "partly": by_rule, "unsure": by_rule, "contested": by_rule,
    }  # fmt: skip
    before = {one.story: (one.outcome, one.known_at) for one in await read_samples(clickhouse, again - DAY)}
    assert before["false"] == (1, first), "what was imported afterwards does not count"


async def test_a_story_counts_as_one_where_a_backtest_found_it(clickhouse: ClickHouse) -> None:
    await write(clickhouse, (signal("a"), timedelta()), (signal("b"), timedelta()))
    columns = ("run_id", "case_id", "story_id", "version", "started_at")
    await clickhouse.insert("run_cases", columns, [("r", "b", "of a", 1, datetime.now(UTC))])
    assert set(await outcomes(clickhouse, STOOD)) == {"a", "of a"}

"""A thousand signals traded by us and by vectorbt: every profit is the same to the cent. What vectorbt said is stored beside its
script; a run with ``--foreign`` installs vectorbt in an environment of its own and asks it again."""

from __future__ import annotations

import json
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from evaluation.prices.ledger import Ledger, ledger_of, mark_trade
from evaluation.prices.trades import CENT, Order, TradeRules
from schemas.prices import PriceSeries
from tests.evaluation.prices.peer import made_trades
from tests.evaluation.prices.peer.made_trades import BARS, HOUR, RULES, START
from tests.foreign_environments import VECTORBT, environment_with

PEER = Path(__file__).with_name("peer")
STORED = json.loads((PEER / "vectorbt_ledger.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def ours() -> Ledger:
    times = [START + n * HOUR for n in range(BARS)]
    markets = {
        asset: PriceSeries(symbol=f"{asset}/USDT", venue="", times_ms=times, closes=(), **prices)
        for asset, prices in made_trades.markets().items()
    }
    rules = TradeRules(
        latency_s=RULES["latency_s"],
        fee_bps=Decimal(str(RULES["fee_bps"])),
        slippage_bps=Decimal(str(RULES["slippage_bps"])),
        stake=Decimal(RULES["stake"]),
        sizing="confidence",
        stop=Decimal(str(RULES["stop"])),
        within_s=3600,
    )
    orders = (Order(**one) for one in made_trades.signals())
    found = (mark_trade(one, markets[one.asset], rules, now_ms=times[-1] + HOUR) for one in orders)
    return ledger_of(found, capital=Decimal(RULES["capital"]))


def test_a_thousand_profits_are_those_of_vectorbt_to_the_cent(ours: Ledger) -> None:
    assert len(ours.trades) == 1_000 and not ours.not_traded
    # Each way to end a trade is among them, often.
    assert min(ours.exits[reason] for reason in ("horizon", "withdrawn", "stop", "stop_gap")) >= 40
    theirs = {name: Decimal(str(profit)).quantize(CENT) for name, profit in STORED["profits"].items()}
    assert {trade.order.case_id: trade.profit for trade in ours.trades} == theirs


def test_the_account_and_its_figures_are_those_of_vectorbt(ours: Ledger) -> None:
    # Ours holds a thousand profits that were rounded to the cent, each at its end.
    held = {day.day.toordinal(): float(day.equity) for day in ours.equity}
    first = min(held)
    daily = [held[first + n] for n in range(len(held))]
    assert daily == pytest.approx(STORED["daily_equity"][: len(daily)], abs=0.5)
    assert float(ours.figures.fees) == pytest.approx(STORED["fees"], abs=0.5)
    assert ours.figures.max_drawdown_share == pytest.approx(STORED["max_drawdown_share"], abs=1e-5)
    # vectorbt's days go on to the last bar, after the last trade; ours end with it.
    returns = [b / a - 1 for a, b in zip([RULES["capital"], *daily], daily, strict=False)]
    assert ours.figures.sharpe == pytest.approx(_sharpe(returns), rel=1e-9)
    idle = len(STORED["daily_equity"]) - len(daily)
    assert _sharpe([*returns, *[0.0] * idle]) == pytest.approx(STORED["sharpe"], rel=1e-4)


def _sharpe(returns: list[float]) -> float:
    mean = sum(returns) / len(returns)
    spread = (sum((r - mean) ** 2 for r in returns) / (len(returns) - 1)) ** 0.5
    return float(mean / spread * 365**0.5)


@pytest.mark.foreign
@pytest.mark.timeout(1800)
def test_vectorbt_says_today_what_is_stored() -> None:
    python = environment_with(VECTORBT) / "python"
    done = subprocess.run([python, PEER / "vectorbt_ledger.py"], capture_output=True, check=True, env={})
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["made_by"] == STORED["made_by"]
    assert said["profits"] == pytest.approx(STORED["profits"], abs=1e-5)
    assert said["daily_equity"] == pytest.approx(STORED["daily_equity"], abs=1e-3)
    for figure in ("fees", "sharpe", "max_drawdown_share"):
        assert said[figure] == pytest.approx(STORED[figure], rel=1e-6)

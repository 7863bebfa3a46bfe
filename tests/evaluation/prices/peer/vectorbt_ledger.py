"""The same thousand signals traded by vectorbt, which knows nothing of our code. Prints one JSON document.

    python -m venv PEER && PEER/bin/pip install vectorbt==1.2.0
    PEER/bin/python tests/evaluation/prices/peer/vectorbt_ledger.py > tests/evaluation/prices/peer/vectorbt_ledger.json

`./run test --foreign tests/evaluation/prices` does that and compares with what is stored.

Each trade is a portfolio of its own. Each bar is two rows: its open alone, at which orders are filled, then the bar with its
high and low, which a stop sees; so a stop may be touched in the bar of the entry too. Both are marked at the open.
"""

from __future__ import annotations

import json
import sys

import made_trades
import numpy as np
import pandas as pd
import vectorbt as vbt

RULES = made_trades.RULES
TIMES = made_trades.START + np.arange(made_trades.BARS, dtype=np.int64) * made_trades.HOUR


def traded(asset: str, bars: dict[str, list[float]]) -> tuple[pd.DataFrame, pd.DataFrame, float]:
    """Return the closed trades of one market, each one's gain at each bar, and all fees."""
    mine = [one for one in made_trades.signals() if one["asset"] == asset]
    opens = np.repeat(bars["opens"], 2)
    high, low = opens.copy(), opens.copy()
    high[1::2], low[1::2] = bars["highs"], bars["lows"]
    shape = (len(opens), len(mine))
    entries, exits, size = np.zeros(shape, bool), np.zeros(shape, bool), np.zeros(len(mine))
    latency = RULES["latency_s"] * 1000
    for column, one in enumerate(mine):
        first = np.searchsorted(TIMES, one["emitted_at_ms"] + latency)
        end = TIMES[first] + one["horizon_s"] * 1000
        if one["withdrawn_at_ms"] is not None:
            end = min(end, one["withdrawn_at_ms"] + latency)
        entries[2 * first, column] = exits[2 * np.searchsorted(TIMES, end), column] = True
        fill = bars["opens"][first] * (1 + one["side"] * RULES["slippage_bps"] / 1e4)
        size[column] = round(RULES["stake"] * one["confidence"], 2) / fill
    names = [one["case_id"] for one in mine]
    portfolio = vbt.Portfolio.from_signals(
        close=pd.DataFrame(np.repeat(opens[:, None], len(mine), axis=1), columns=names),
        entries=entries,
        exits=exits,
        direction=np.array([0 if one["side"] == 1 else 1 for one in mine]),  # long only, short only
        size=size,
        price=opens[:, None],
        open=opens[:, None],
        high=high[:, None],
        low=low[:, None],
        fees=RULES["fee_bps"] / 1e4,
        slippage=RULES["slippage_bps"] / 1e4,
        sl_stop=RULES["stop"],
        stop_entry_price="fillprice",
        stop_exit_price="stopmarket",
        init_cash=1e6,
    )
    records = portfolio.trades.records_readable
    assert len(records) == len(mine) and set(records["Status"]) == {"Closed"}
    return records, portfolio.value().iloc[1::2] - 1e6, float(portfolio.orders.fees.sum().sum())


def main() -> None:
    """Trade all markets and print what came of it."""
    profits: dict[str, float] = {}
    gains, fees = np.zeros(made_trades.BARS), 0.0
    for asset, bars in made_trades.markets().items():
        records, values, paid = traded(asset, bars)
        profits |= dict(zip(records["Column"], records["PnL"], strict=True))
        gains, fees = gains + values.to_numpy().sum(axis=1), fees + paid
    account = RULES["capital"] + pd.Series(gains, index=pd.to_datetime(TIMES, unit="ms", utc=True))
    daily = pd.concat(
        [pd.Series([RULES["capital"]], index=[account.index[0] - pd.Timedelta("1D")]), account.resample("1D").last()]
    )
    returns = daily.pct_change().iloc[1:]
    moves = account.pct_change().fillna(0)
    json.dump(
        {
            "made_by": f"vectorbt {vbt.__version__}",
            "profits": {name: round(float(profits[name]), 6) for name in sorted(profits)},
            "fees": round(fees, 4),
            "daily_equity": [round(float(value), 4) for value in daily.iloc[1:]],
            "sharpe": float(returns.vbt.returns(freq="1D", year_freq="365D").sharpe_ratio()),
            "max_drawdown_share": -float(moves.vbt.returns(freq="1h").max_drawdown()),
        },
        sys.stdout,
        indent=0,
    )


if __name__ == "__main__":
    main()

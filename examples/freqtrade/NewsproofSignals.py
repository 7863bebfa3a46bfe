"""A freqtrade strategy for backtests on exported signals. It sees a revision from ``available_at`` on, and never earlier.

Export the signals, name the file in freqtrade's configuration as ``"newsproof_signals"``, then run the backtest:

    newsproof export signals --point-in-time --out signals.parquet
    freqtrade backtesting --strategy NewsproofSignals --timeframe 5m

It enters as a bot with the default settings does: on a final order that is confirmed or likely, with a confidence of at
least 0.7. It leaves when the order is retracted, changes, expires, or meets an opposite one. Signals of the offline mode
need ``"newsproof_offline": true``; they say nothing about a market.
"""

from typing import Any

import pandas as pd
from freqtrade.strategy import IStrategy


class NewsproofSignals(IStrategy):
    INTERFACE_VERSION = 3
    timeframe = "5m"
    can_short = False
    minimal_roi: dict[str, float] = {}
    stoploss = -0.99
    process_only_new_candles = True
    use_exit_signal = True
    MIN_CONFIDENCE = 0.7

    def populate_indicators(self, dataframe: pd.DataFrame, metadata: dict[str, Any]) -> pd.DataFrame:
        return dataframe

    def populate_entry_trend(self, dataframe: pd.DataFrame, metadata: dict[str, Any]) -> pd.DataFrame:
        # A candle's row is acted on at its close, so whatever was available by then may be used.
        step = pd.Timedelta(self.timeframe)
        closes = dataframe["date"].dt.tz_convert("UTC") + step
        held = {"buy": pd.Series(False, closes.index), "sell": pd.Series(False, closes.index)}
        begins = {"buy": held["buy"].copy(), "sell": held["sell"].copy()}
        for order in self._orders(metadata["pair"].partition("/")[0]).itertuples():
            held[order.action] |= (closes >= order.available_at) & (closes < order.until)
            if order.is_new:
                begins[order.action] |= (closes >= order.available_at) & (closes < order.available_at + step)
        dataframe["enter_long"] = (begins["buy"] & held["buy"] & ~held["sell"]).astype(int)
        dataframe["exit_long"] = (~held["buy"] | held["sell"]).astype(int)
        if self.can_short:
            dataframe["enter_short"] = (begins["sell"] & held["sell"] & ~held["buy"]).astype(int)
            dataframe["exit_short"] = (~held["sell"] | held["buy"]).astype(int)
        return dataframe

    def populate_exit_trend(self, dataframe: pd.DataFrame, metadata: dict[str, Any]) -> pd.DataFrame:
        return dataframe

    def _orders(self, asset: str) -> pd.DataFrame:
        """Return the orders on an asset, each from ``available_at`` ``until`` it ends. ``is_new``: its signal was none before."""
        file = self.config["newsproof_signals"]
        every = pd.read_csv(file) if file.endswith(".csv") else pd.read_parquet(file)
        for name in ("available_at", "valid_until"):
            every[name] = pd.to_datetime(every[name], utc=True)
        every = every[every["asset"] == asset].sort_values(["signal_id", "revision"])
        usable = every["stage"].eq("final") & every["verdict"].isin(["confirmed", "likely"])
        usable &= every["action"].isin(["buy", "sell"]) & every["confidence"].ge(self.MIN_CONFIDENCE)
        if not self.config.get("newsproof_offline"):
            usable &= every["provider_mode"].eq("live")
        every["until"] = every.groupby("signal_id")["available_at"].shift(-1)
        every["until"] = every[["until", "valid_until"]].min(axis=1)
        before = every["action"].where(usable, "").groupby(every["signal_id"]).shift(1)
        every["is_new"] = before.ne(every["action"])
        return every[usable]

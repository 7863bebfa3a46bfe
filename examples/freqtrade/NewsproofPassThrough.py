"""A freqtrade strategy that decides nothing itself: it holds the trades that Newsproof enters and exits.

It refuses an entry whose tag it has seen, so an entry that is sent twice is made once. Copy this file into
``user_data/strategies``. Set ``stoploss`` in the configuration: freqtrade keeps it without Newsproof, too.
"""

from datetime import datetime
from typing import Any

from freqtrade.persistence import Trade
from freqtrade.strategy import IStrategy
from pandas import DataFrame


class NewsproofPassThrough(IStrategy):
    INTERFACE_VERSION = 3
    timeframe = "5m"
    minimal_roi: dict[str, float] = {}
    stoploss = -0.99
    position_adjustment_enable = False
    _seen: set[str] = set()
    """Tags of this process: freqtrade forgets an entry that was never filled."""
    # A forced order at the market fills at once; a limit order might wait until the news is old.
    order_types = {
        "entry": "market",
        "exit": "market",
        "force_entry": "market",
        "force_exit": "market",
        "emergency_exit": "market",
        "stoploss": "market",
        "stoploss_on_exchange": False,
    }

    def populate_indicators(self, dataframe: DataFrame, metadata: dict[str, Any]) -> DataFrame:
        return dataframe

    def populate_entry_trend(self, dataframe: DataFrame, metadata: dict[str, Any]) -> DataFrame:
        return dataframe

    def populate_exit_trend(self, dataframe: DataFrame, metadata: dict[str, Any]) -> DataFrame:
        return dataframe

    def confirm_trade_entry(
        self,
        pair: str,
        order_type: str,
        amount: float,
        rate: float,
        time_in_force: str,
        current_time: datetime,
        entry_tag: str | None,
        side: str,
        **kwargs: Any,
    ) -> bool:
        if entry_tag is None or not entry_tag.startswith("np_"):
            return True  # a person's own entry
        known = entry_tag in self._seen or Trade.get_trades([Trade.enter_tag == entry_tag]).first() is not None
        self._seen.add(entry_tag)
        return not known

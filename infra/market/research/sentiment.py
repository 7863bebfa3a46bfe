"""Market sentiment: alternative.me's fear and greed index, one figure a day, known from midnight UTC on.

Wire format: https://alternative.me/crypto/fear-and-greed-index/#api.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from infra.market.macro import ALTERNATIVE, MOOD_MAX_AGE, mood_points
from infra.market.side_by_side import Figures
from infra.market.source import Source, last_known, market_value
from schemas.evidence import MarketValue

NAME = "fear_greed_index"
_SOURCE = "alternative.me"
_WEEK = timedelta(days=7)


class Sentiment(Figures):
    """The fear and greed index and its change over a week. Independent of the asset."""

    def __init__(self, *, fear_greed: str, timeout_s: float) -> None:
        self._mood = Source(ALTERNATIVE, fear_greed, timeout_s=timeout_s)
        super().__init__("sentiment", {_SOURCE: self._read}, (self._mood,))

    async def _read(self, _asset: str, as_of: datetime) -> tuple[list[MarketValue], list[str]]:
        points = await mood_points(self._mood, as_of, days=11)
        newest = last_known(points, as_of, max_age=MOOD_MAX_AGE)
        if newest is None:
            return [], [f"{NAME}: alternative.me has none of that day"]
        values = [market_value(NAME, newest.value, "0-100", _SOURCE, newest.at)]
        before = last_known(points, newest.at - _WEEK, max_age=MOOD_MAX_AGE)
        if before is None:
            return values, [f"{NAME}_change_7d: nothing to compare with"]
        change = newest.value - before.value
        return [*values, market_value(f"{NAME}_change_7d", change, "points", _SOURCE, newest.at)], []

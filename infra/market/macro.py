"""Macro figures as of a time: the fear and greed index, the ten-year Treasury yield, the VIX.

Wire formats: https://alternative.me/crypto/fear-and-greed-index/#api and FRED's chart as CSV
(https://fred.stlouisfed.org/graph/fredgraph.csv?id=DGS10). FRED dates a figure by its day and publishes it on the next
business day. A figure counts as known from the evening of that next day, so that no backtest sees it early.
"""

from __future__ import annotations

import csv
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from infra.http import UselessAnswerError
from infra.http_json import Service, json_object
from infra.market.side_by_side import Figures
from infra.market.source import Point, Source, last_known, market_value, number, when
from schemas.evidence import MarketValue

SERIES = {"DGS10": ("us_10y_yield", "%"), "VIXCLS": ("vix", "index points")}
PUBLISHED_AT = time(21, 30, tzinfo=UTC)
MOOD_MAX_AGE = timedelta(days=2)
_SERIES_MAX_AGE = timedelta(days=10)
ALTERNATIVE = Service(name="alternative.me", address_setting="FEAR_GREED_BASE_URL")
_FRED = Service(name="FRED", address_setting="FRED_BASE_URL")


class MacroFigures(Figures):
    """Reads both sources concurrently. A failed source is named in ``unknown``; the figures of the other one stay."""

    def __init__(self, *, fear_greed: str, fred: str, timeout_s: float) -> None:
        self._mood = Source(ALTERNATIVE, fear_greed, timeout_s=timeout_s)
        self._fred = Source(_FRED, fred, timeout_s=timeout_s)
        super().__init__("macro", {"alternative.me": self._fear_greed, "fred": self._series}, (self._mood, self._fred))

    async def _fear_greed(self, _asset: str, as_of: datetime) -> tuple[list[MarketValue], list[str]]:
        newest = last_known(await mood_points(self._mood, as_of), as_of, max_age=MOOD_MAX_AGE)
        if newest is None:
            return [], ["fear_greed_index: none of that day"]
        return [market_value("fear_greed_index", newest.value, "0-100", "alternative.me", newest.at)], []

    async def _series(self, _asset: str, as_of: datetime) -> tuple[list[MarketValue], list[str]]:
        bounds = {"cosd": f"{(as_of - _SERIES_MAX_AGE):%Y-%m-%d}", "coed": f"{as_of:%Y-%m-%d}"}
        response = await self._fred.get("/graph/fredgraph.csv", {"id": ",".join(SERIES), **bounds})
        rows = list(csv.reader(response.text.lstrip("\ufeff").splitlines()))
        if not rows or rows[0][:1] not in (["observation_date"], ["DATE"]) or rows[0][1:] != list(SERIES):
            raise UselessAnswerError("FRED's answer is no table of the series asked for; it is asked again")
        values, unknown = [], []
        for column, (name, unit) in enumerate(SERIES.values(), start=1):
            newest = last_known(_points(rows[1:], column), as_of, max_age=_SERIES_MAX_AGE)
            if newest is None:
                unknown.append(f"{name}: none published in the ten days before")
            else:
                values.append(market_value(name, newest.value, unit, "fred", newest.at))
        return values, unknown


async def mood_points(source: Source, as_of: datetime, *, days: int = 3) -> list[Point]:
    """Return the fear and greed index of at least the ``days`` days before ``as_of``.

    Raises:
        NewsproofError: as :meth:`Source.get`, or the response contains no readable figure.
    """
    limit = (datetime.now(UTC) - as_of).days + days
    response = await source.get("/fng/", {"limit": str(max(limit, 1)), "format": "json"})
    data = json_object(response, ALTERNATIVE).get("data")
    if not isinstance(data, list):
        raise UselessAnswerError("alternative.me's answer has no data; it is asked again")
    points = []
    for row in data:
        at, value = (when(row.get("timestamp")), number(row.get("value"))) if isinstance(row, dict) else (None, None)
        if at is not None and value is not None and 0 <= value <= 100:
            points.append(Point(at, value))
    if data and not points:
        raise UselessAnswerError("alternative.me's answer has no figure that can be read; it is asked again")
    return points


def _points(rows: list[list[str]], column: int) -> list[Point]:
    points = []
    for row in rows:
        value = number(row[column].strip()) if len(row) > column else None  # "." or empty on holidays
        try:
            day = date.fromisoformat(row[0]) if value is not None else None
        except ValueError:
            day = None
        if day is not None and value is not None:
            points.append(Point(known_from(day), Decimal(value)))
    return points


def known_from(day: date) -> datetime:
    """Return when a day's figure is published: the evening of the next business day."""
    following = day + timedelta(days=1)
    while following.weekday() >= 5:
        following += timedelta(days=1)
    return datetime.combine(following, PUBLISHED_AT)

"""The economy and the mood as of a time: FRED's series, and alternative.me's fear and greed index.

Without a key, the figures are FRED's chart as CSV (https://fred.stlouisfed.org/graph/fredgraph.csv?id=DFF). Each series
needs its own request, because one table cannot have series of different frequency. With ``FRED_API_KEY``, the API
(https://fred.stlouisfed.org/docs/api/fred/series_observations.html) returns the series as published at that time
(``realtime_start``). This matters for money, which is revised for years: the CSV has today's figures for the past.

A figure of FRED is dated by its period and known from its publication, so that no backtest sees it early:

- Rates and the VIX: the evening of the next business day (H.15).
- Dollar index: weekly, on Monday (https://www.federalreserve.gov/releases/h10/), or Tuesday after a holiday; so Tuesday
  evening is assumed.
- Money: the fourth Tuesday of the next month (https://www.federalreserve.gov/releases/h6/).

The fear and greed index has one figure a day, known from midnight UTC on
(https://alternative.me/crypto/fear-and-greed-index/#api).
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial

import httpx
import msgspec

from infra.http import UselessAnswerError
from infra.http_json import error_message, json_object, refused
from infra.market.source import (
    Figures,
    FigureService,
    Known,
    Point,
    Reading,
    Source,
    change_pct,
    last_known,
    market_value,
    number,
    when,
)
from schemas.evidence import MarketValue

_TABLE = FigureService(
    name="FRED",
    address_setting="FRED_BASE_URL",
    key_setting="FRED_API_KEY",
    about="the economy",
    key_adds="data as first published",
)
_API = msgspec.structs.replace(_TABLE, name="FRED API", address_setting="FRED_API_BASE_URL")
_MOOD = FigureService(name="alternative.me", address_setting="FEAR_GREED_BASE_URL", about="fear and greed")
PUBLISHED_AT = time(21, 30, tzinfo=UTC)
_MONTH, _WEEK = timedelta(days=30), timedelta(days=7)
_SLACK = timedelta(days=10)
"""Maximum age of the compared figure beyond 30 days, since its publication."""
_MOOD_MAX_AGE = timedelta(days=2)
_INDEX = "fear_greed_index"


def macro(fred: Fred, mood: Mood) -> Figures:
    """Return the figures for checking a claim in the news: fear and greed, the ten-year yield, the VIX."""
    readings = {"alternative.me": mood.newest, **fred.readings(MACRO)}
    return Figures("macro", readings, (mood.source, fred.source))


def economy(fred: Fred) -> Figures:
    """Return the figures of the economy for the chat."""
    return Figures("economy", fred.readings(ECONOMY), (fred.source,))


def sentiment(mood: Mood) -> Figures:
    """Return fear and greed and its change over a week."""
    return Figures("sentiment", {"alternative.me": mood.with_change}, (mood.source,))


def known_from(day: date) -> datetime:
    """Return the publication time of a day's figure: the evening of the next business day."""
    following = day + timedelta(days=1)
    while following.weekday() >= 5:
        following += timedelta(days=1)
    return datetime.combine(following, PUBLISHED_AT)


def week_known_from(day: date) -> datetime:
    """Return the publication time of a day in the weekly release: the evening of the Tuesday after its week."""
    return datetime.combine(day + timedelta(days=8 - day.weekday()), PUBLISHED_AT)


def month_known_from(day: date) -> datetime:
    """Return the publication time of a month's money stock: the evening of the fourth Tuesday of the next month."""
    first = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    tuesday = first + timedelta(days=(1 - first.weekday()) % 7 + 21)
    return datetime.combine(tuesday, PUBLISHED_AT)


class Series(msgspec.Struct, frozen=True):
    id: str
    unit: str
    known_from: Callable[[date], datetime]
    max_age: timedelta
    """Maximum age since publication; an older figure is not current."""
    back: timedelta
    """Time before ``as_of`` from which figures are requested."""
    change: str = ""
    """Unit of the change over 30 days; empty = no change."""
    source: str = ""
    """Name of the source in values; empty = ``fred`` and the id."""


ECONOMY = {
    "fed_funds_rate": Series("DFF", "%", known_from, timedelta(days=10), timedelta(days=60), "percentage points"),
    "treasury_yield_10y": Series("DGS10", "%", known_from, timedelta(days=10), timedelta(days=60), "percentage points"),
    "dxy": Series("DTWEXBGS", "index (2006-01 = 100)", week_known_from, timedelta(days=15), timedelta(days=70), "%"),
    "m2_growth": Series("M2SL", "% year on year", month_known_from, timedelta(days=50), timedelta(days=540)),
}
MACRO = {
    "us_10y_yield": Series("DGS10", "%", known_from, timedelta(days=10), timedelta(days=10), source="fred"),
    "vix": Series("VIXCLS", "index points", known_from, timedelta(days=10), timedelta(days=10), source="fred"),
}


class Fred:
    """Reads FRED's series. Independent of the asset.

    Raises (constructor):
        ConfigError: the address or the key is invalid.
    """

    def __init__(self, *, table: str, api: str, api_key: str | None, timeout_s: float) -> None:
        self.source = (
            Source(_TABLE, table, timeout_s=timeout_s)
            if api_key is None
            else Source(_API, api, timeout_s=timeout_s, key=api_key)
        )

    def readings(self, wanted: Mapping[str, Series]) -> dict[str, Reading]:
        """Return one reading per series, so that a failed series does not affect the others."""
        return {f"fred {series.id}": partial(self.read, name, series) for name, series in wanted.items()}

    async def read(self, name: str, series: Series, _asset: str, as_of: datetime) -> Known:
        """Return a series' newest figure under ``name``, and its change over 30 days if the series has one.

        Raises:
            NewsproofError: the request failed, or the response cannot be parsed.
        """
        start = as_of - series.back
        if self.source.key is None:
            bounds = {"cosd": f"{start:%Y-%m-%d}", "coed": f"{as_of:%Y-%m-%d}"}
            days = _table(await self.source.get("/graph/fredgraph.csv", {"id": series.id, **bounds}), series.id)
        else:
            days = await self._vintage(series.id, start, as_of, self.source.key)
        if name == "m2_growth":
            return _growth(name, series, days, as_of)
        points = [Point(series.known_from(day), value) for day, value in days.items()]
        newest = last_known(points, as_of, max_age=series.max_age)
        if newest is None:
            return [], [f"{name}: FRED has none that was published in the {series.max_age.days} days before"]
        source = series.source or f"fred {series.id}"
        values = [market_value(name, newest.value, series.unit, source, newest.at)]
        if not series.change:
            return values, []
        before = last_known(points, newest.at - _MONTH, max_age=_SLACK)
        if before is None:
            return values, [f"{name}_change_30d: nothing to compare with"]
        change = change_pct(newest.value, before.value) if series.change == "%" else newest.value - before.value
        if change is not None:
            values.append(market_value(f"{name}_change_30d", change, series.change, source, newest.at))
        return values, []

    async def _vintage(self, series: str, start: datetime, as_of: datetime, key: str) -> dict[date, Decimal]:
        """Return the series as published by the day before ``as_of``, or by that day once its releases are out."""
        seen = as_of.date() if as_of.timetz() >= PUBLISHED_AT else as_of.date() - timedelta(days=1)
        params = {
            **{"series_id": series, "api_key": key, "file_type": "json"},
            **{"realtime_start": f"{seen}", "realtime_end": f"{seen}"},
            **{"observation_start": f"{start:%Y-%m-%d}", "observation_end": f"{as_of:%Y-%m-%d}"},
        }
        response = await self.source.get("/fred/series/observations", params, absent=frozenset({400}))
        if response.status_code == 400:
            message = error_message(response, "error_message")
            # FRED also responds with 400 to a wrong key.
            raise refused(self.source.service, 401 if "api_key" in message else 400, message, response.headers)
        rows = json_object(response, self.source.service).get("observations")
        if not isinstance(rows, list):
            raise UselessAnswerError("the FRED API's response has no observations")
        read = [(row.get("date"), row.get("value")) for row in rows if isinstance(row, dict)]
        return _days([(str(day), str(value)) for day, value in read])


class Mood:
    """Reads the fear and greed index. Independent of the asset."""

    def __init__(self, base_url: str, *, timeout_s: float) -> None:
        self.source = Source(_MOOD, base_url, timeout_s=timeout_s)

    async def newest(self, _asset: str, as_of: datetime) -> Known:
        """Return the index as of a time.

        Raises:
            NewsproofError: the request failed, or the response cannot be parsed.
        """
        newest = last_known(await self._points(as_of, days=3), as_of, max_age=_MOOD_MAX_AGE)
        return _none_of_that_day() if newest is None else ([_index(newest)], [])

    async def with_change(self, _asset: str, as_of: datetime) -> Known:
        """Return the index as of a time and its change over a week; raises as :meth:`newest`."""
        points = await self._points(as_of, days=11)
        newest = last_known(points, as_of, max_age=_MOOD_MAX_AGE)
        if newest is None:
            return _none_of_that_day()
        before = last_known(points, newest.at - _WEEK, max_age=_MOOD_MAX_AGE)
        if before is None:
            return [_index(newest)], [f"{_INDEX}_change_7d: nothing to compare with"]
        change = newest.value - before.value
        return [_index(newest), market_value(f"{_INDEX}_change_7d", change, "points", "alternative.me", newest.at)], []

    async def _points(self, as_of: datetime, *, days: int) -> list[Point]:
        """Return the index of at least the ``days`` days before ``as_of``."""
        limit = (datetime.now(UTC) - as_of).days + days
        response = await self.source.get("/fng/", {"limit": str(max(limit, 1)), "format": "json"})
        data = json_object(response, self.source.service).get("data")
        if not isinstance(data, list):
            raise UselessAnswerError("alternative.me's response has no data")
        points = []
        for row in data:
            known = isinstance(row, dict)
            at, value = (when(row.get("timestamp")), number(row.get("value"))) if known else (None, None)
            if at is not None and value is not None and 0 <= value <= 100:
                points.append(Point(at, value))
        if data and not points:
            raise UselessAnswerError("alternative.me's response has no figure that can be read")
        return points


def _index(point: Point) -> MarketValue:
    return market_value(_INDEX, point.value, "0-100", "alternative.me", point.at)


def _none_of_that_day() -> Known:
    return [], [f"{_INDEX}: alternative.me has none of that day"]


def _table(response: httpx.Response, series: str) -> dict[date, Decimal]:
    rows = list(csv.reader(response.text.lstrip("\ufeff").splitlines()))
    if not rows or rows[0] not in (["observation_date", series], ["DATE", series]):
        raise UselessAnswerError(f"FRED's response is no table of {series}")
    return _days([(row[0], row[1]) for row in rows[1:] if len(row) == 2])


def _days(rows: list[tuple[str, str]]) -> dict[date, Decimal]:
    days = {}
    for day, written in rows:
        value = number(written.strip())  # "." or empty on holidays
        try:
            at = date.fromisoformat(day)
        except ValueError:
            continue
        if value is not None:
            days[at] = value
    return days


def _growth(name: str, series: Series, days: dict[date, Decimal], as_of: datetime) -> Known:
    known = {day: value for day, value in days.items() if series.known_from(day) <= as_of}
    month = max(known, default=None)
    if month is None or series.known_from(month) < as_of - series.max_age:
        return [], [f"{name}: FRED has no month that was published in the {series.max_age.days} days before"]
    growth = change_pct(known[month], known.get(month.replace(year=month.year - 1)))
    if growth is None:
        return [], [f"{name}: FRED lacks the month a year earlier"]
    return [market_value(name, growth, series.unit, f"fred {series.id}", series.known_from(month))], []

"""Economic figures as of a time, from FRED: policy rate, money stock, dollar index, ten-year yield.

Without a key, FRED's chart as CSV (https://fred.stlouisfed.org/graph/fredgraph.csv?id=DFF). Each series is a request of
its own, since series of different frequency do not come in one table. With ``FRED_API_KEY``, the API
(https://fred.stlouisfed.org/docs/api/fred/series_observations.html) returns the series as it stood then
(``realtime_start``). That matters for money, which is revised for years: the CSV has today's figures for the past.

A figure is dated by its period and known from its publication:

- Rates: the evening of the next business day, as in ``infra.market.macro`` (H.15).
- Dollar index: weekly, on Monday (https://www.federalreserve.gov/releases/h10/), or Tuesday after a holiday; so Tuesday
  evening is assumed.
- Money: the fourth Tuesday of the next month (https://www.federalreserve.gov/releases/h6/).
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial

import httpx
import msgspec

from infra.http import UselessAnswerError, checked_key
from infra.http_json import Service, error_message, json_object, refused
from infra.market.macro import PUBLISHED_AT, known_from
from infra.market.side_by_side import Figures, Known
from infra.market.source import Point, Source, change_pct, last_known, market_value, number

_CSV = Service(name="FRED", address_setting="FRED_BASE_URL")
_API = Service(name="FRED API", address_setting="FRED_API_BASE_URL", key_setting="FRED_API_KEY")
_MONTH = timedelta(days=30)
_SLACK = timedelta(days=10)
"""How far from 30 days ago the figure to compare with may have been published."""


def week_known_from(day: date) -> datetime:
    """Return when a day of the weekly release is published: the evening of the Tuesday after its week."""
    return datetime.combine(day + timedelta(days=8 - day.weekday()), PUBLISHED_AT)


def month_known_from(day: date) -> datetime:
    """Return when a month's money stock is published: the evening of the fourth Tuesday of the next month."""
    first = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    tuesday = first + timedelta(days=(1 - first.weekday()) % 7 + 21)
    return datetime.combine(tuesday, PUBLISHED_AT)


class _Series(msgspec.Struct, frozen=True):
    id: str
    unit: str
    known_from: Callable[[date], datetime]
    max_age: timedelta
    """Maximum age since publication; an older figure is not current."""
    back: timedelta
    """How far before ``as_of`` the required figures may be dated."""
    change: str = ""
    """Unit of the change over 30 days; empty when there is none."""


SERIES = {
    "fed_funds_rate": _Series("DFF", "%", known_from, timedelta(days=10), timedelta(days=60), "percentage points"),
    "treasury_yield_10y": _Series(
        "DGS10", "%", known_from, timedelta(days=10), timedelta(days=60), "percentage points"
    ),
    "dxy": _Series("DTWEXBGS", "index (2006-01 = 100)", week_known_from, timedelta(days=15), timedelta(days=70), "%"),
    "m2_growth": _Series("M2SL", "% year on year", month_known_from, timedelta(days=50), timedelta(days=540)),
}


class Economy(Figures):
    """Reads the series concurrently. A failed one is named in ``unknown``; the others stay. Independent of the asset.

    Raises (constructor):
        ConfigError: the address or the key is invalid.
    """

    def __init__(self, *, fred: str, fred_api: str, api_key: str | None, timeout_s: float) -> None:
        self._key = checked_key(api_key, "FRED_API_KEY") if api_key is not None else None
        self._fred = (
            Source(_API, fred_api, timeout_s=timeout_s) if self._key else Source(_CSV, fred, timeout_s=timeout_s)
        )
        readings = {f"fred {series.id}": partial(self._read, name) for name, series in SERIES.items()}
        super().__init__("economy", readings, (self._fred,))

    async def _read(self, name: str, _asset: str, as_of: datetime) -> Known:
        series = SERIES[name]
        start = as_of - series.back
        if self._key is None:
            bounds = {"cosd": f"{start:%Y-%m-%d}", "coed": f"{as_of:%Y-%m-%d}"}
            days = _table(await self._fred.get("/graph/fredgraph.csv", {"id": series.id, **bounds}), series.id)
        else:
            days = await self._vintage(series.id, start, as_of, self._key)
        if name == "m2_growth":
            return _growth(name, series, days, as_of)
        points = [Point(series.known_from(day), value) for day, value in days.items()]
        newest = last_known(points, as_of, max_age=series.max_age)
        if newest is None:
            return [], [f"{name}: FRED has none that was published in the {series.max_age.days} days before"]
        source = f"fred {series.id}"
        values = [market_value(name, newest.value, series.unit, source, newest.at)]
        before = last_known(points, newest.at - _MONTH, max_age=_SLACK)
        if before is None:
            return values, [f"{name}_change_30d: nothing to compare with"]
        change = change_pct(newest.value, before.value) if series.change == "%" else newest.value - before.value
        if change is not None:
            values.append(market_value(f"{name}_change_30d", change, series.change, source, newest.at))
        return values, []

    async def _vintage(self, series: str, start: datetime, as_of: datetime, key: str) -> dict[date, Decimal]:
        """Return the series as it stood the day before ``as_of``, or on that day once its releases are out."""
        seen = as_of.date() if as_of.timetz() >= PUBLISHED_AT else as_of.date() - timedelta(days=1)
        params = {
            **{"series_id": series, "api_key": key, "file_type": "json"},
            **{"realtime_start": f"{seen}", "realtime_end": f"{seen}"},
            **{"observation_start": f"{start:%Y-%m-%d}", "observation_end": f"{as_of:%Y-%m-%d}"},
        }
        response = await self._fred.get("/fred/series/observations", params, absent=frozenset({400}))
        if response.status_code == 400:
            said = error_message(response, "error_message")
            # FRED answers 400 to a wrong key, too.
            raise refused(self._fred.service, 401 if "api_key" in said else 400, said, response.headers)
        rows = json_object(response, self._fred.service).get("observations")
        if not isinstance(rows, list):
            raise UselessAnswerError("the FRED API's answer has no observations; it is asked again")
        read = [(row.get("date"), row.get("value")) for row in rows if isinstance(row, dict)]
        return _days([(str(day), str(value)) for day, value in read])


def _table(response: httpx.Response, series: str) -> dict[date, Decimal]:
    rows = list(csv.reader(response.text.lstrip("\ufeff").splitlines()))
    if not rows or rows[0] not in (["observation_date", series], ["DATE", series]):
        raise UselessAnswerError(f"FRED's answer is no table of {series}; it is asked again")
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


def _growth(name: str, series: _Series, days: dict[date, Decimal], as_of: datetime) -> Known:
    known = {day: value for day, value in days.items() if series.known_from(day) <= as_of}
    month = max(known, default=None)
    if month is None or series.known_from(month) < as_of - series.max_age:
        return [], [f"{name}: FRED has no month that was published in the {series.max_age.days} days before"]
    growth = change_pct(known[month], known.get(month.replace(year=month.year - 1)))
    if growth is None:
        return [], [f"{name}: FRED lacks the month a year earlier"]
    return [market_value(name, growth, series.unit, f"fred {series.id}", series.known_from(month))], []

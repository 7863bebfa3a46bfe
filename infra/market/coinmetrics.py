"""Exchange flows and activity on a chain, from Coin Metrics, with or without a key.

Wire format: https://docs.coinmetrics.io/api-reference/timeseries/timeseries-rest/asset-metrics. A metric that an asset
does not have is missing or null. Figures without a key are for non-commercial use (CC BY-NC 4.0). A day is dated by its
start. It is known at its ``AssetEODCompletionTime``, or twelve hours after its end if that is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from infra.http import UselessAnswerError
from infra.http_json import error_message, json_object, refused
from infra.market.source import (
    FigureService,
    Known,
    Point,
    Source,
    last_known,
    market_value,
    number,
    series_figures,
    when,
)

ACTIVITY = {
    "AdrActCnt": ("active_addresses", "addresses"),
    "TxCnt": ("transactions_per_day", "transactions"),
    "CapMVRVCur": ("mvrv", "ratio"),
}
FLOWS = {"FlowInExUSD": "exchange_inflow", "FlowOutExUSD": "exchange_outflow"}
_COMPLETE = "AssetEODCompletionTime"
_DAY = timedelta(days=1)
_SETTLING = timedelta(hours=12)
_MAX_AGE = timedelta(days=3)
_WEEK = 7
_COINMETRICS = FigureService(
    name="Coin Metrics",
    address_setting="COINMETRICS_BASE_URL",
    key_setting="COINMETRICS_API_KEY",
    about="exchange flows, activity",
    key_adds="commercial use",
)


class _Day(msgspec.Struct, frozen=True):
    began: datetime
    known: datetime
    metrics: Mapping[str, Decimal]


class CoinMetrics:
    """Reads activity and exchange flows of the assets that Coin Metrics covers. ``api_key`` is optional.

    Raises (constructor):
        ConfigError: the address or the key is invalid.
    """

    def __init__(self, base_url: str, *, api_key: str | None, timeout_s: float) -> None:
        self.source = Source(_COINMETRICS, base_url, timeout_s=timeout_s, key=api_key)

    async def read(self, symbol: str, as_of: datetime) -> Known:
        """Return the asset's figures; none for an asset that Coin Metrics does not cover.

        Raises:
            NewsproofError: the request failed, or the response cannot be parsed.
        """
        days = await self._days(symbol, as_of)
        if days is None:
            return [], [f"network: coinmetrics does not cover {symbol}"]
        values, unknown = [], []
        for metric, (name, unit) in ACTIVITY.items():
            points: list[Point | None] = [Point(d.known, d.metrics[metric]) for d in days if metric in d.metrics]
            if points:
                known, absent = series_figures(name, unit, "coinmetrics", points, as_of)
                values += known
                unknown += absent
        known, absent = _flows(days, as_of, symbol)
        return [*values, *known], [*unknown, *absent]

    async def _days(self, symbol: str, as_of: datetime) -> list[_Day] | None:
        params = {
            **{"assets": symbol.lower(), "metrics": ",".join((*ACTIVITY, *FLOWS, _COMPLETE)), "frequency": "1d"},
            **{"start_time": f"{as_of - 12 * _DAY:%Y-%m-%d}", "end_time": f"{as_of:%Y-%m-%d}", "page_size": "100"},
            **{"ignore_unsupported_errors": "true", "ignore_forbidden_errors": "true"},
            **({"api_key": self.source.key} if self.source.key else {}),
        }
        path = "/v4/timeseries/asset-metrics"
        response = await self.source.get(path, params, absent=frozenset({400}))
        if response.status_code == 400:
            message = error_message(response, "error", "message")
            if "assets" in message:
                return None
            raise refused(self.source.service, 400, message, response.headers)
        rows = json_object(response, self.source.service).get("data")
        if not isinstance(rows, list):
            raise UselessAnswerError("Coin Metrics' response has no data")
        days = [day for row in rows if (day := _day(row)) is not None]
        if rows and not days:
            raise UselessAnswerError("no day of Coin Metrics' response can be read")
        return days


def _flows(days: Sequence[_Day], as_of: datetime, symbol: str) -> Known:
    """Return inflow, outflow and net flow, from the days that have both flows."""
    both = [day for day in days if all(metric in day.metrics for metric in FLOWS)]
    if not both:
        return [], [f"exchange_netflow: coinmetrics has none of {symbol}"]
    values = []
    for metric, name in FLOWS.items():
        newest = last_known([Point(day.known, day.metrics[metric]) for day in both], as_of, max_age=_MAX_AGE)
        if newest is not None:
            values.append(market_value(name, newest.value, "USD", "coinmetrics", newest.at))
    into, out = FLOWS
    net, unknown = _net([Point(d.known, d.metrics[into] - d.metrics[out]) for d in both], as_of, "USD", "coinmetrics")
    return [*values, *net], unknown


def _net(points: Sequence[Point], as_of: datetime, unit: str, source: str) -> Known:
    known = sorted((p for p in points if p.at <= as_of), key=lambda p: p.at)
    if not known or known[-1].at < as_of - _MAX_AGE:
        return [], [f"exchange_netflow: {source} has none of the days before {as_of:%Y-%m-%d}"]
    values = [market_value("exchange_netflow", known[-1].value, unit, source, known[-1].at)]
    week = known[-_WEEK:]
    if len(week) < _WEEK:
        return values, ["exchange_netflow_7d: fewer than seven days"]
    total = sum((p.value for p in week), Decimal(0))
    return [*values, market_value("exchange_netflow_7d", total, unit, source, known[-1].at)], []


def _day(row: Any) -> _Day | None:
    if not isinstance(row, dict):
        return None
    try:
        began = datetime.fromisoformat(f"{str(row.get('time'))[:19]}+00:00")  # nanoseconds and Z follow
    except ValueError:
        return None
    read = {name: number(row.get(name)) for name in (*ACTIVITY, *FLOWS)}
    completed = when(row.get(_COMPLETE))
    known = began + _DAY + _SETTLING if completed is None else max(completed, began + _DAY)
    return _Day(began, known, {name: value for name, value in read.items() if value is not None})

"""On-chain figures as of a time: stablecoin supply, value locked on chains, Bitcoin activity.

Wire formats: https://api-docs.defillama.com (stablecoincharts, historicalChainTvl) and
https://www.blockchain.com/explorer/api/charts_api. A figure for a whole day (Bitcoin's) is known when the day is over.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import httpx

from infra.http import UselessAnswerError
from infra.http_json import Service, json_object, json_of
from infra.market.side_by_side import Known, Reading, together
from infra.market.source import Point, Source, change_pct, last_known, market_value, no_ticker, number, ticker, when
from schemas.effects import MarketReply

STABLECOINS = {
    "USDT": 1, "USDC": 2, "USTC": 3, "UST": 3, "BUSD": 4, "DAI": 5, "FRAX": 6, "TUSD": 7, "FDUSD": 119, "PYUSD": 120,
    "USDE": 146,
}  # fmt: skip
"""DefiLlama's ids of stablecoins (https://stablecoins.llama.fi/stablecoins)."""
CHAINS = {
    "ETH": "Ethereum", "SOL": "Solana", "BNB": "BSC", "TRX": "Tron", "AVAX": "Avalanche", "ARB": "Arbitrum",
    "OP": "OP Mainnet", "POL": "Polygon", "MATIC": "Polygon", "SUI": "Sui", "APT": "Aptos", "TON": "TON",
    "NEAR": "Near", "ADA": "Cardano",
}  # fmt: skip
"""Ticker of a chain's coin → DefiLlama's name of the chain (https://api.llama.fi/v2/chains)."""
CHARTS = {"n-transactions": ("transactions_per_day", "transactions"), "hash-rate": ("hash_rate", "TH/s")}
_DAY = timedelta(days=1)
_MAX_AGE = timedelta(days=3)
LLAMA = Service(name="DefiLlama", address_setting="DEFILLAMA_BASE_URL")
STABLE = Service(name="DefiLlama stablecoins", address_setting="DEFILLAMA_STABLECOINS_BASE_URL")
BLOCKCHAIN = Service(name="blockchain.info", address_setting="BLOCKCHAIN_INFO_BASE_URL")


class OnchainFigures:
    """Reads the sources that cover an asset. ``unknown`` says so when none does."""

    def __init__(self, *, defillama: str, stablecoins: str, blockchain_info: str, timeout_s: float) -> None:
        self._llama = Source(LLAMA, defillama, timeout_s=timeout_s)
        self._stable = Source(STABLE, stablecoins, timeout_s=timeout_s)
        self._bitcoin = Source(BLOCKCHAIN, blockchain_info, timeout_s=timeout_s)

    async def read(self, asset: str, as_of: datetime) -> MarketReply:
        """Return the asset's figures and their changes over a day and a week.

        Raises:
            NewsproofError: every source that covers the asset failed.
        """
        symbol = ticker(asset)
        if symbol is None:
            return MarketReply(values=(), unknown=(f"onchain: {no_ticker(asset)}",))
        readings: dict[str, Reading] = {}
        if symbol in STABLECOINS:
            readings["defillama stablecoins"] = partial(stablecoin_supply, self._stable)
        if symbol in CHAINS:
            readings["defillama"] = partial(chain_tvl, self._llama)
        if symbol == "BTC":
            readings["blockchain.info"] = self._activity
        if not readings:
            return MarketReply(values=(), unknown=(f"onchain: no source knows figures of {symbol}",))
        return await together("onchain", readings, symbol, as_of)

    async def _activity(self, _symbol: str, as_of: datetime) -> Known:
        values, unknown = [], []
        for chart, (name, unit) in CHARTS.items():
            known, absent = await chart_figures(self._bitcoin, chart, name, unit, as_of)
            values += known
            unknown += absent
        return values, unknown

    async def close(self) -> None:
        for source in (self._llama, self._stable, self._bitcoin):
            await source.close()


async def stablecoin_supply(stablecoins: Source, symbol: str, as_of: datetime) -> Known:
    """Return the supply of a coin of ``STABLECOINS``, in units of the coin, and its changes."""
    response = await stablecoins.get("/stablecoincharts/all", {"stablecoin": str(STABLECOINS[symbol])})
    points = [llama_point(row, "totalCirculating") for row in llama_rows(response, STABLE)]
    return series_figures("stablecoin_supply", "units", "defillama", points, as_of)


async def chain_tvl(llama: Source, symbol: str, as_of: datetime) -> Known:
    """Return the value locked on the chain of an asset of ``CHAINS``, in USD, and its changes."""
    rows = llama_rows(await llama.get(f"/v2/historicalChainTvl/{CHAINS[symbol]}", {}), LLAMA)
    return series_figures("chain_tvl", "USD", "defillama", [llama_point(row, "tvl") for row in rows], as_of)


async def chart_figures(source: Source, chart: str, name: str, unit: str, as_of: datetime) -> Known:
    """Return the newest day of a blockchain.info chart, and its changes.

    Raises:
        NewsproofError: as :meth:`Source.get`, or the response is not a chart.
    """
    start = f"{as_of - 10 * _DAY:%Y-%m-%d}"
    params = {"timespan": "11days", "start": start, "format": "json", "sampled": "false"}
    body = json_object(await source.get(f"/charts/{chart}", params), source.service)
    rows = body.get("values")
    if body.get("status") != "ok" or not isinstance(rows, list):
        raise UselessAnswerError("blockchain.info's answer has no values; it is asked again")
    return series_figures(name, unit, "blockchain.info", [day_of_chart(row) for row in rows], as_of)


def llama_rows(response: httpx.Response, service: Service) -> list[Any]:
    """Return the rows of a DefiLlama series.

    Raises:
        UselessAnswerError: the response is not a list.
    """
    body = json_of(response, service, exact=True)
    if not isinstance(body, list):
        raise UselessAnswerError(f"{service.name}'s answer is no series; it is asked again")
    return body


def llama_point(row: Any, field: str) -> Point | None:
    """Parse one row of a series; None when it is unreadable."""
    if not isinstance(row, dict):
        return None
    value = row.get(field)
    if isinstance(value, dict):  # {"peggedUSD": 1.0}: one entry, whatever the coin is pegged to
        value = next(iter(value.values()), None)
    at, figure = when(row.get("date")), number(value)
    return Point(at, figure) if at is not None and figure is not None else None


def day_of_chart(row: Any) -> Point | None:
    """Parse one day of a blockchain.info chart, known from the end of that day; None when it is unreadable."""
    at, figure = (when(row.get("x")), number(row.get("y"))) if isinstance(row, dict) else (None, None)
    return Point(at + _DAY, figure) if at is not None and figure is not None else None


def series_figures(name: str, unit: str, source: str, read: list[Point | None], as_of: datetime) -> Known:
    """Return the newest figure of a series known at ``as_of``, and its changes over a day and a week.

    Raises:
        UselessAnswerError: there are rows, but none is readable.
    """
    points = [p for p in read if p is not None]
    if read and not points:
        raise UselessAnswerError(f"no figure of {source} can be read; it is asked again")
    newest = last_known(points, as_of, max_age=_MAX_AGE)
    if newest is None:
        return [], [f"{name}: none of the days before {as_of:%Y-%m-%d}"]
    values, unknown = [market_value(name, newest.value, unit, source, newest.at)], []
    for label, span in (("1d", _DAY), ("7d", 7 * _DAY)):
        before = last_known(points, newest.at - span, max_age=_DAY)
        change: Decimal | None = change_pct(newest.value, before.value if before else None)
        if change is None:
            unknown.append(f"{name}_change_{label}: nothing to compare with")
        else:
            values.append(market_value(f"{name}_change_{label}", change, "%", source, newest.at))
    return values, unknown

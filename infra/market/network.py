"""Activity on an asset's own chain, as of a time, from every source that covers the asset, read concurrently.

Bitcoin: the charts of https://www.blockchain.com/explorer/api/charts_api. Other chains and stablecoins: DefiLlama
(https://api-docs.defillama.com). Flows and activity of more chains: :mod:`infra.market.coinmetrics`. A figure for a
whole day is known when the day is over. If two sources have a figure of the same name, the first source in this order
is used.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

import httpx

from infra.http import UselessAnswerError
from infra.http_json import Service, json_object, json_of
from infra.market.coinmetrics import CoinMetrics
from infra.market.source import (
    FigureService,
    Known,
    Point,
    Reading,
    Source,
    no_ticker,
    number,
    series_figures,
    ticker,
    together,
    when,
)
from infra.settings import Settings
from schemas.effects import MarketReply
from schemas.evidence import MarketValue

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
CHARTS = {
    "n-unique-addresses": ("active_addresses", "addresses"),
    "n-transactions": ("transactions_per_day", "transactions"),
    "estimated-transaction-volume-usd": ("transfer_volume_usd", "USD"),
    "mvrv": ("mvrv", "ratio"),
    "hash-rate": ("hash_rate", "TH/s"),
}
EXPECTED = ("active_addresses", "transactions_per_day", "mvrv", "exchange_netflow")
"""The most important figures for analysing a chain. ``unknown`` lists those that are missing, whatever the asset."""
_DAY = timedelta(days=1)
_LLAMA = FigureService(name="DefiLlama", address_setting="DEFILLAMA_BASE_URL", about="value locked per chain")
_STABLE = FigureService(
    name="DefiLlama stablecoins", address_setting="DEFILLAMA_STABLECOINS_BASE_URL", about="stablecoins"
)
_BLOCKCHAIN = FigureService(
    name="blockchain.info", address_setting="BLOCKCHAIN_INFO_BASE_URL", about="Bitcoin activity"
)


class Network:
    """Reads each source that covers an asset. ``unknown`` lists failed sources; the others' figures are returned.

    As ``onchain`` it returns the figures for checking a claim: supply, value locked, Bitcoin's transactions and hash
    rate. As ``network`` it returns all figures for the chat.
    """

    def __init__(
        self, kind: Literal["onchain", "network"], settings: Settings, *, coinmetrics: CoinMetrics | None = None
    ) -> None:
        """``coinmetrics`` is None if it is switched off."""
        self._kind, self._whole, timeout_s = kind, kind == "network", settings.deep_analysis_tool_timeout
        self._charts = tuple(CHARTS) if self._whole else ("n-transactions", "hash-rate")
        self._bitcoin = Source(_BLOCKCHAIN, settings.blockchain_info_base_url, timeout_s=timeout_s)
        self._llama = Source(_LLAMA, settings.defillama_base_url, timeout_s=timeout_s)
        self._stable = Source(_STABLE, settings.defillama_stablecoins_base_url, timeout_s=timeout_s)
        self._coinmetrics = coinmetrics
        metrics = () if coinmetrics is None else (coinmetrics.source,)
        self.sources = (self._bitcoin, self._llama, self._stable, *metrics)

    async def read(self, asset: str, as_of: datetime) -> MarketReply:
        """Return the figures of the asset's chain.

        Raises:
            NewsproofError: every source that covers the asset failed.
        """
        symbol = ticker(asset)
        if symbol is None:
            return MarketReply(values=(), unknown=(f"{self._kind}: {no_ticker(asset)}",))
        readings = self._readings(symbol)
        if not readings:
            return MarketReply(values=(), unknown=(f"{self._kind}: no source here knows {symbol}",))
        reply = await together(self._kind, readings, symbol, as_of)
        return self._merged(reply, symbol) if self._whole else reply

    def _readings(self, symbol: str) -> dict[str, Reading]:
        readings: dict[str, Reading] = {}
        if symbol == "BTC":
            readings |= {
                f"blockchain.info {chart}": partial(_chart_figures, self._bitcoin, chart) for chart in self._charts
            }
        if symbol == "BTC" and self._whole:
            readings["defillama stablecoins"] = partial(_in_dollars, self._stable, "stablecoin_supply_total", "all")
        if symbol in STABLECOINS:
            readings["defillama stablecoins"] = partial(_stablecoin_supply, self._stable)
        if symbol in CHAINS:
            readings["defillama"] = partial(_chain_tvl, self._llama)
        if symbol in CHAINS and self._whole:
            readings["defillama stablecoins"] = partial(_in_dollars, self._stable, "stablecoin_supply", CHAINS[symbol])
        if self._coinmetrics is not None:
            readings["coinmetrics"] = self._coinmetrics.read
        return readings

    def _merged(self, reply: MarketReply, symbol: str) -> MarketReply:
        """Keep one value per name, remove known names from ``unknown``, and add missing names of ``EXPECTED``."""
        values: dict[str, MarketValue] = {}
        first: dict[str, str] = {}
        for value in reply.values:
            if first.setdefault(_figure(value.name), value.source) == value.source:
                values.setdefault(value.name, value)
        unknown = list(dict.fromkeys(line for line in reply.unknown if line.partition(":")[0] not in values))
        named = {line.partition(":")[0] for line in unknown}
        unknown += [f"{name}: {self._why(name, symbol)}" for name in EXPECTED if name not in {*values, *named}]
        return MarketReply(values=tuple(values.values()), unknown=tuple(unknown))

    def _why(self, name: str, symbol: str) -> str:
        if name == "exchange_netflow" and self._coinmetrics is None:
            return "no source is on; set COINMETRICS_ENABLED=true (non-commercial use)"
        return f"no source that responded has it for {symbol}"


async def _stablecoin_supply(stablecoins: Source, symbol: str, as_of: datetime) -> Known:
    """Return the supply of a coin in ``STABLECOINS``, in units of the coin, and its changes."""
    response = await stablecoins.get("/stablecoincharts/all", {"stablecoin": str(STABLECOINS[symbol])})
    points = [_llama_point(row, "totalCirculating") for row in _llama_rows(response, _STABLE)]
    return series_figures("stablecoin_supply", "units", "defillama", points, as_of)


async def _chain_tvl(llama: Source, symbol: str, as_of: datetime) -> Known:
    """Return the value locked on the chain of an asset in ``CHAINS``, in USD, and its changes."""
    rows = _llama_rows(await llama.get(f"/v2/historicalChainTvl/{CHAINS[symbol]}", {}), _LLAMA)
    return series_figures("chain_tvl", "USD", "defillama", [_llama_point(row, "tvl") for row in rows], as_of)


async def _chart_figures(source: Source, chart: str, _symbol: str, as_of: datetime) -> Known:
    """Return the newest day of a blockchain.info chart, and its changes.

    Raises:
        NewsproofError: as :meth:`Source.get`, or the response is not a chart.
    """
    start = f"{as_of - 10 * _DAY:%Y-%m-%d}"
    params = {"timespan": "11days", "start": start, "format": "json", "sampled": "false"}
    body = json_object(await source.get(f"/charts/{chart}", params), source.service)
    rows = body.get("values")
    if body.get("status") != "ok" or not isinstance(rows, list):
        raise UselessAnswerError("blockchain.info's response has no values")
    name, unit = CHARTS[chart]
    return series_figures(name, unit, "blockchain.info", [_day_of_chart(row) for row in rows], as_of)


def _llama_rows(response: httpx.Response, service: Service) -> list[Any]:
    """Return the rows of a DefiLlama series.

    Raises:
        UselessAnswerError: the response is not a list.
    """
    body = json_of(response, service, exact=True)
    if not isinstance(body, list):
        raise UselessAnswerError(f"{service.name}'s response is no series")
    return body


def _llama_point(row: Any, field: str) -> Point | None:
    """Parse a row of a series; None if it cannot be read."""
    if not isinstance(row, dict):
        return None
    value = row.get(field)
    if isinstance(value, dict):  # {"peggedUSD": 1.0}: one entry, whatever the coin is pegged to
        value = next(iter(value.values()), None)
    at, figure = when(row.get("date")), number(value)
    return Point(at, figure) if at is not None and figure is not None else None


def _day_of_chart(row: Any) -> Point | None:
    """Parse a day of a blockchain.info chart, known from the end of that day; None if it cannot be read."""
    at, figure = (when(row.get("x")), number(row.get("y"))) if isinstance(row, dict) else (None, None)
    return Point(at + _DAY, figure) if at is not None and figure is not None else None


async def _in_dollars(stablecoins: Source, name: str, chain: str, _symbol: str, as_of: datetime) -> Known:
    """Return the supply of all stablecoins on a chain, in USD, and its changes."""
    rows = _llama_rows(await stablecoins.get(f"/stablecoincharts/{chain}", {}), _STABLE)
    return series_figures(name, "USD", "defillama", [_dollars(row) for row in rows], as_of)


def _figure(name: str) -> str:
    """Return the name without its suffix for a change or sum. All values of a figure must come from the same source."""
    return name.removesuffix("_change_1d").removesuffix("_change_7d").removesuffix("_7d")


def _dollars(row: Any) -> Point | None:
    """Sum all pegs. A day's row changes until the day is over, so it is known only from then on."""
    if not isinstance(row, dict) or not isinstance(row.get("totalCirculatingUSD"), dict):
        return None
    amounts = [number(value) for value in row["totalCirculatingUSD"].values()]
    known = [amount for amount in amounts if amount is not None]
    at = when(row.get("date"))
    return Point(at + _DAY, sum(known[1:], known[0])) if at is not None and known else None

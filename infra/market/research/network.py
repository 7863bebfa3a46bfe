"""Activity on an asset's own chain, as of a time, from every source that covers the asset, read concurrently.

Bitcoin: the charts of https://www.blockchain.com/explorer/api/charts_api. Other chains and stablecoins: DefiLlama
(https://api-docs.defillama.com). Flows and activity of more chains: ``infra.market.research.flows``. Where two sources have a figure of the same name, the source that comes first in this order is taken.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any

from infra.market.onchain import (
    BLOCKCHAIN,
    CHAINS,
    LLAMA,
    STABLE,
    STABLECOINS,
    chain_tvl,
    chart_figures,
    llama_rows,
    series_figures,
    stablecoin_supply,
)
from infra.market.research.flows import CoinMetrics
from infra.market.side_by_side import Known, Reading, together
from infra.market.source import Point, Source, no_ticker, number, ticker, when
from schemas.effects import MarketReply
from schemas.evidence import MarketValue

CHARTS = {
    "n-unique-addresses": ("active_addresses", "addresses"),
    "n-transactions": ("transactions_per_day", "transactions"),
    "estimated-transaction-volume-usd": ("transfer_volume_usd", "USD"),
    "mvrv": ("mvrv", "ratio"),
    "hash-rate": ("hash_rate", "TH/s"),
}
EXPECTED = ("active_addresses", "transactions_per_day", "mvrv", "exchange_netflow")
"""The figures that an analysis of a chain needs first; ``unknown`` lists those that are missing, whatever the asset."""
_DAY = timedelta(days=1)


class Network:
    """Reads the sources that cover an asset, once each. ``unknown`` names a failed one; other figures stay."""

    def __init__(
        self,
        *,
        blockchain_info: str,
        defillama: str,
        stablecoins: str,
        coinmetrics: CoinMetrics | None,
        timeout_s: float,
    ) -> None:
        """``coinmetrics`` is None when it is switched off."""
        self._bitcoin = Source(BLOCKCHAIN, blockchain_info, timeout_s=timeout_s)
        self._llama = Source(LLAMA, defillama, timeout_s=timeout_s)
        self._stable = Source(STABLE, stablecoins, timeout_s=timeout_s)
        self._coinmetrics = coinmetrics

    async def read(self, asset: str, as_of: datetime) -> MarketReply:
        """Return the figures of the asset's chain.

        Raises:
            NewsproofError: every source that covers the asset failed.
        """
        symbol = ticker(asset)
        if symbol is None:
            return MarketReply(values=(), unknown=(f"network: {no_ticker(asset)}",))
        readings = self._readings(symbol)
        if not readings:
            return MarketReply(values=(), unknown=(f"network: no source here knows {symbol}",))
        return self._merged(await together("network", readings, symbol, as_of), symbol)

    def _readings(self, symbol: str) -> dict[str, Reading]:
        readings: dict[str, Reading] = {}
        if symbol == "BTC":
            readings |= {f"blockchain.info {chart}": partial(self._chart, chart) for chart in CHARTS}
            readings["defillama stablecoins"] = self._all_stablecoins
        if symbol in STABLECOINS:
            readings["defillama stablecoins"] = partial(stablecoin_supply, self._stable)
        if symbol in CHAINS:
            readings["defillama"] = partial(chain_tvl, self._llama)
            readings["defillama stablecoins"] = self._on_chain
        if self._coinmetrics is not None:
            readings["coinmetrics"] = self._coinmetrics.read
        return readings

    def _merged(self, reply: MarketReply, symbol: str) -> MarketReply:
        """Keep one value per name, drop known names from ``unknown``, and add the missing of ``EXPECTED``."""
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
        return f"no source that answered has it of {symbol}"

    async def _chart(self, chart: str, _symbol: str, as_of: datetime) -> Known:
        name, unit = CHARTS[chart]
        return await chart_figures(self._bitcoin, chart, name, unit, as_of)

    async def _on_chain(self, symbol: str, as_of: datetime) -> Known:
        return await self._dollars("stablecoin_supply", CHAINS[symbol], as_of)

    async def _all_stablecoins(self, _symbol: str, as_of: datetime) -> Known:
        return await self._dollars("stablecoin_supply_total", "all", as_of)

    async def _dollars(self, name: str, chain: str, as_of: datetime) -> Known:
        rows = llama_rows(await self._stable.get(f"/stablecoincharts/{chain}", {}), STABLE)
        return series_figures(name, "USD", "defillama", [_in_dollars(row) for row in rows], as_of)

    async def close(self) -> None:
        for source in (self._bitcoin, self._llama, self._stable, self._coinmetrics):
            if source is not None:
                await source.close()


def _figure(name: str) -> str:
    """Return the name without its change or sum suffix: all values of one figure come from one source."""
    return name.removesuffix("_change_1d").removesuffix("_change_7d").removesuffix("_7d")


def _in_dollars(row: Any) -> Point | None:
    """Sum all pegs. A day's row changes until the day is over, so it is known from then on."""
    if not isinstance(row, dict) or not isinstance(row.get("totalCirculatingUSD"), dict):
        return None
    amounts = [number(value) for value in row["totalCirculatingUSD"].values()]
    known = [amount for amount in amounts if amount is not None]
    at = when(row.get("date"))
    return Point(at + _DAY, sum(known[1:], known[0])) if at is not None and known else None

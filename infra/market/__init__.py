"""Market data as of the case's time: prices, the economy and chains for ``FetchMarket`` and ``FetchCandles``.

The news pipeline requests price, macro and onchain; the research chat requests price, economy, sentiment and network.
No source requires a key. ``outcomes`` has the prices that measure signals afterwards. If one source fails, the figures
of the others are still returned.

``VALUES`` lists every name that a ``MarketValue`` of the chat may have, whatever the asset. ``MarketReply.unknown``
lists a missing value as ``name: why`` and a failed source as ``kind: source failed (why)``, so a missing figure differs
from a failed request. For a name marked with ``*`` there are also ``{name}_change_1d`` and ``{name}_change_7d``, in %.
"""

from __future__ import annotations

VALUES: dict[str, dict[str, str]] = {
    "price": {
        "price": "USD or USDT: the last complete five minutes (exchange), or the last hour (CoinGecko)",
        "price_change_1h": "%: exchanges only",
        "price_change_24h": "%",
        "price_high_24h": "as price: exchanges only",
        "price_low_24h": "as price: exchanges only",
        "volume_24h": "units of the asset: exchanges only",
        "volume_24h_usd": "USD, all exchanges: CoinGecko only",
        "market_cap": "USD: CoinGecko only",
    },
    "economy": {
        "fed_funds_rate": "%: effective federal funds rate (FRED DFF)",
        "fed_funds_rate_change_30d": "percentage points",
        "m2_growth": "% year on year of the money stock M2 (FRED M2SL, a month, out on the fourth Tuesday after it)",
        "dxy": "index, January 2006 = 100: the Fed's broad dollar index (FRED DTWEXBGS, by week), not ICE's DXY",
        "dxy_change_30d": "%",
        "treasury_yield_10y": "%: ten-year Treasury (FRED DGS10)",
        "treasury_yield_10y_change_30d": "percentage points",
    },
    "sentiment": {
        "fear_greed_index": "0-100, of a day; alternative.me calls it extreme fear below 25 and extreme greed from 75",
        "fear_greed_index_change_7d": "points",
    },
    "network": {
        "active_addresses": "addresses a day *",
        "transactions_per_day": "transactions *",
        "transfer_volume_usd": "USD a day, without change: Bitcoin only *",
        "mvrv": "ratio of market value to realised value *",
        "hash_rate": "TH/s: Bitcoin only *",
        "chain_tvl": "USD locked on the asset's chain *",
        "stablecoin_supply": "USD of stablecoins on the asset's chain; units of it where the asset is a stablecoin *",
        "stablecoin_supply_total": "USD of all stablecoins: Bitcoin only *",
        "exchange_inflow": "USD a day into known exchange addresses",
        "exchange_outflow": "USD a day out of them",
        "exchange_netflow": "USD a day, in minus out",
        "exchange_netflow_7d": "the same over seven days",
    },
}
"""Kind of ``FetchMarket`` → name of a value → its unit and a note. The exact unit is in ``MarketValue.unit``."""

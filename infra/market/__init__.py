"""Market data as of the case's time: prices, macro and on-chain figures behind ``FetchMarket``, and the returns after a case.

Here are the sources of the news pipeline, which need no API key; ``research`` holds those of the chat, of which some take
one, ``outcomes`` the prices that judge signals afterwards.

``MarketReply.unknown`` names what a source does not have, so a missing figure is distinct from a failed request. The
failure of one source does not hide the figures of the others.
"""

from __future__ import annotations

from infra.market.macro import MacroFigures
from infra.market.onchain import OnchainFigures
from infra.market.port import LiveMarket
from infra.market.price import Prices
from infra.settings import Settings


def live_market(settings: Settings) -> LiveMarket:
    """Return the market port of live mode.

    Raises:
        ConfigError: an address setting is invalid.
    """
    timeout_s = settings.deep_analysis_tool_timeout
    return LiveMarket(
        price=Prices(
            coinbase=settings.coinbase_base_url, binance=settings.binance_base_url, timeout_s=timeout_s, pegs=True
        ),
        macro=MacroFigures(fear_greed=settings.fear_greed_base_url, fred=settings.fred_base_url, timeout_s=timeout_s),
        onchain=OnchainFigures(
            defillama=settings.defillama_base_url,
            stablecoins=settings.defillama_stablecoins_base_url,
            blockchain_info=settings.blockchain_info_base_url,
            timeout_s=timeout_s,
        ),
    )

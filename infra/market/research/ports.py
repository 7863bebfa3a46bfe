"""The ports of the research chat's market data in live mode: figures and bars."""

from __future__ import annotations

from pydantic import SecretStr

from infra.market.exchanges import exchanges
from infra.market.port import LiveMarket
from infra.market.price import Prices
from infra.market.research.candles import LiveCandles
from infra.market.research.coingecko import CoinGecko
from infra.market.research.economy import Economy
from infra.market.research.flows import CoinMetrics
from infra.market.research.network import Network
from infra.market.research.price import ResearchPrices
from infra.market.research.sentiment import Sentiment
from infra.ports import Port
from infra.settings import Settings


def live_research(settings: Settings) -> dict[str, Port]:
    """Return the ports ``market`` (price, economy, sentiment, network) and ``candles`` of live mode.

    Raises:
        ConfigError: an address or a key is invalid; the message names its setting.
    """
    timeout_s = settings.deep_analysis_tool_timeout
    market = LiveMarket(
        price=ResearchPrices(
            Prices(
                coinbase=settings.coinbase_base_url, binance=settings.binance_base_url, timeout_s=timeout_s, pegs=False
            ),
            CoinGecko(settings.coingecko_base_url, api_key=_key(settings.coingecko_api_key), timeout_s=timeout_s),
        ),
        economy=Economy(
            fred=settings.fred_base_url,
            fred_api=settings.fred_api_base_url,
            api_key=_key(settings.fred_api_key),
            timeout_s=timeout_s,
        ),
        sentiment=Sentiment(fear_greed=settings.fear_greed_base_url, timeout_s=timeout_s),
        network=_network(settings, timeout_s),
    )
    bars = exchanges(
        coinbase=settings.coinbase_base_url,
        binance=settings.binance_base_url,
        timeout_s=timeout_s,
        correct="ask about another asset",
    )
    return {"market": market, "candles": LiveCandles(bars)}


def _network(settings: Settings, timeout_s: float) -> Network:
    metrics_key = _key(settings.coinmetrics_api_key)
    return Network(
        blockchain_info=settings.blockchain_info_base_url,
        defillama=settings.defillama_base_url,
        stablecoins=settings.defillama_stablecoins_base_url,
        coinmetrics=CoinMetrics(settings.coinmetrics_base_url, api_key=metrics_key, timeout_s=timeout_s)
        if settings.coinmetrics_enabled
        else None,
        timeout_s=timeout_s,
    )


def _key(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret is not None else None

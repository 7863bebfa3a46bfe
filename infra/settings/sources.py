"""Settings of page scraping and market data."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings


class SourceSettings(BaseSettings):
    """Limits of page scraping, and addresses of market data sources."""

    # Pages and market data
    scrape_proxies: str = Field(
        "",
        description="Comma-separated proxies as http(s)://user:password@host:port, tried in order when a page refuses "
        "direct access",
    )
    scrape_max_bytes: int = Field(
        4 * 1024 * 1024, ge=65536, description="Maximum size of a page in bytes, compressed or not"
    )
    coinbase_base_url: str = Field(
        "https://api.exchange.coinbase.com", description="Address of the Coinbase Exchange API"
    )
    binance_base_url: str = Field(
        "https://data-api.binance.vision",
        description="Address of the Binance market data API. Called when Coinbase has no data, and in addition to it for "
        "a dollar peg",
    )
    fear_greed_base_url: str = Field("https://api.alternative.me", description="Address of the Fear & Greed Index API")
    fred_base_url: str = Field(
        "https://fred.stlouisfed.org", description="Address of FRED (macroeconomic data) without a key"
    )
    defillama_base_url: str = Field("https://api.llama.fi", description="Address of the DefiLlama API")
    defillama_stablecoins_base_url: str = Field(
        "https://stablecoins.llama.fi", description="Address of the DefiLlama stablecoins API"
    )
    blockchain_info_base_url: str = Field(
        "https://api.blockchain.info", description="Address of the Blockchain.com API"
    )

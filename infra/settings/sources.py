"""Settings of page scraping and market data."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings


class SourceSettings(BaseSettings):
    """Limits of page scraping, and addresses of market data sources."""

    # Pages and market data
    scrape_proxies: str = Field(
        "", description="Comma-separated http(s)://user:password@host:port; tried in turn where a page refuses us"
    )
    scrape_max_bytes: int = Field(4 * 1024 * 1024, ge=65536, description="Largest page that is read, packed or not")
    coinbase_base_url: str = Field("https://api.exchange.coinbase.com")
    binance_base_url: str = Field(
        "https://data-api.binance.vision",
        description="Asked where Coinbase has no answer, and beside it for a dollar peg",
    )
    fear_greed_base_url: str = Field("https://api.alternative.me")
    fred_base_url: str = Field("https://fred.stlouisfed.org")
    defillama_base_url: str = Field("https://api.llama.fi")
    defillama_stablecoins_base_url: str = Field("https://stablecoins.llama.fi")
    blockchain_info_base_url: str = Field("https://api.blockchain.info")

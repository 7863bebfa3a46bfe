"""Settings of the research chat."""

from __future__ import annotations

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings


class ResearchSettings(BaseSettings):
    """Settings that only the research chat and investigations read."""

    research_deadline_seconds: float = Field(
        240.0,
        gt=0,
        description="Time limit of a question, in seconds. After 80 % of it, the answer is written from the data "
        "collected so far",
    )

    investigation_deadline_seconds: float = Field(
        900.0,
        gt=0,
        description="Time limit of an investigation, in seconds. After 80 % of it, the brief is written from the evidence "
        "collected so far",
    )
    investigation_max_rounds: int = Field(3, ge=1, le=5, description="Maximum search rounds per investigation")
    investigation_max_searches: int = Field(12, ge=1, le=50, description="Maximum searches per investigation")
    watch_daily_limit: int = Field(
        12, ge=1, le=48, description="Maximum runs of one watch per UTC day. Each run is an investigation"
    )

    # Research chat data (no key required)
    coingecko_base_url: str = Field(
        "https://api.coingecko.com/api/v3",
        description="Address of the CoinGecko API, called when no exchange has the market. With a paid key: "
        "https://pro-api.coingecko.com/api/v3",
    )
    coingecko_api_key: SecretStr | None = Field(None, description="CoinGecko API key. Raises the rate limit")
    fred_api_base_url: str = Field(
        "https://api.stlouisfed.org",
        description="Address of the FRED API, called instead of FRED_BASE_URL if FRED_API_KEY is set",
    )
    fred_api_key: SecretStr | None = Field(
        None, description="FRED API key. With it, the chat sees the data as first published, before revisions"
    )
    coinmetrics_enabled: bool = Field(
        True,
        description="Use Coin Metrics for exchange flows and on-chain activity. Without a key, its data is for "
        "non-commercial use only (CC BY-NC 4.0)",
    )
    coinmetrics_base_url: str = Field(
        "https://community-api.coinmetrics.io",
        description="Address of the Coin Metrics API. With a paid key: https://api.coinmetrics.io",
    )
    coinmetrics_api_key: SecretStr | None = Field(None, description="Coin Metrics API key")

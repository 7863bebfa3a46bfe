"""Settings of the research chat."""

from __future__ import annotations

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings


class ResearchSettings(BaseSettings):
    """Settings that only the research chat and investigations read."""

    research_deadline_seconds: float = Field(
        240.0, gt=0, description="A question has an answer by then; after 80 % of it, one from what is there"
    )

    investigation_deadline_seconds: float = Field(
        900.0, gt=0, description="An investigation has a brief by then; after 80 % of it, one of what is there"
    )
    investigation_max_rounds: int = Field(
        3, ge=1, le=5, description="Rounds of searches that one investigation may make"
    )
    investigation_max_searches: int = Field(12, ge=1, le=50, description="Searches that one investigation may make")
    watch_daily_limit: int = Field(
        12, ge=1, le=48, description="How often one watch may fire on one UTC day; each firing is an investigation"
    )

    # Data of the research chat: nothing here needs a key
    coingecko_base_url: str = Field(
        "https://api.coingecko.com/api/v3",
        description="Asked where no exchange has the market; a paid key's is https://pro-api.coingecko.com/api/v3",
    )
    coingecko_api_key: SecretStr | None = Field(None, description="Raises CoinGecko's rate limit")
    fred_api_base_url: str = Field(
        "https://api.stlouisfed.org", description="Asked in place of FRED_BASE_URL with a key"
    )
    fred_api_key: SecretStr | None = Field(
        None, description="The chat then sees FRED's figures as they were first published, before their revisions"
    )
    coinmetrics_enabled: bool = Field(
        True,
        description="Exchange flows and on-chain activity from Coin Metrics, whose keyless figures are for non-commercial "
        "use (CC BY-NC 4.0); false: not asked",
    )
    coinmetrics_base_url: str = Field(
        "https://community-api.coinmetrics.io", description="A paid key's is https://api.coinmetrics.io"
    )
    coinmetrics_api_key: SecretStr | None = Field(None)
    blockchair_base_url: str = Field("https://api.blockchair.com", description="Large transfers")
    blockchair_api_key: SecretStr | None = Field(
        None, description="Raises Blockchair's daily limit (1,440 without one)"
    )
    glassnode_base_url: str = Field("https://api.glassnode.com")
    glassnode_api_key: SecretStr | None = Field(
        None,
        description="Net flow to exchanges from Glassnode, before Coin Metrics'; without it Glassnode is not asked",
    )

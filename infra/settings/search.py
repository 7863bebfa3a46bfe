"""Settings of the search providers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings


class SearchSettings(BaseSettings):
    """Search providers, their parameters and prices."""

    # Search
    tavily_api_key: SecretStr | None = Field(None)
    tavily_base_url: str = Field("https://api.tavily.com")
    tavily_search_depth: Literal["basic", "advanced", "fast", "ultra-fast"] = Field(
        "basic", description="The roles of research (search_roles.json) search at advanced, which takes two credits"
    )
    search_max_results: int = Field(5, ge=1, le=20)
    search_multi_source_threshold: int = Field(
        3, ge=1, description="Pages about a claim that end its search, and supporting sources that confirm it"
    )
    search_requests_per_message: int = Field(
        1,
        ge=0,
        le=10,
        description="Requests to Tavily and Bocha, which bill each, for one message; one more where a hack, depeg, "
        "liquidation, regulation or listing then has no official page and too few or contradicting others. One reaches "
        "official pages and established outlets together: on 262 judged cases these alone give 251 verdicts right, dated "
        "news alone 160, official pages alone 187. 0: as many as the rounds make, up to 6. Of no account for free providers",
    )
    search_include_domains: str = Field(
        "",
        description="Comma-separated; empty: the whole web. A list hides every page elsewhere, and with it most official "
        "ones; the parties' own domains are searched anyway where a provider has a search of news apart",
    )
    quality_floor: str = Field(
        "0.7,tavily=0.5,ragflow=0.6,feeds=0.6",
        description="Share of the best score of an answer that a result needs, 0–1, of live providers: one number, then "
        "others as name=number; what has no word of the query is always left out where we score by words",
    )
    quality_min_width: str = Field(
        "50,gdelt=20,feeds=20",
        description="Least width of a result's text in columns (a Chinese character takes 2), of live providers; a "
        "number, then others as name=number. GDELT's texts are titles, and some of feeds",
    )
    quality_keep: int = Field(10, ge=1, le=50, description="References that a case keeps of all that was found")
    quality_same_text: float = Field(
        0.55,
        ge=0.4,
        le=1,
        description="Share of neighbouring words from which two texts count as one; edited copies share more than 0.55, "
        "independent reports less than 0.35",
    )
    search_retries: int = Field(
        1, ge=0, le=2, description="How often a search that took too long is made again, where there is time for it"
    )
    search_cache_ttl_seconds: float = Field(
        600.0, ge=0, description="An equal search within this time is answered from the log, unpaid; 0: never"
    )
    search_cost_usd: float = Field(
        0.008,
        ge=0,
        description="Price of one Tavily credit at the pay-as-you-go rate; 0 on a free plan, whose searches are booked as 0",
    )
    bocha_enabled: bool = Field(True, description="false: Bocha is not asked although it is listed and has a key")
    bocha_api_key: SecretStr | None = Field(None)
    bocha_base_url: str = Field("https://api.bochaai.com")
    bocha_cost_usd: float = Field(
        0.005, ge=0, description="Price of one Bocha search at the pay-as-you-go rate; 0 on a free plan"
    )
    ragflow_endpoint: str | None = Field(None, description="Address of the RAGFlow server, such as http://ragflow:9380")
    ragflow_api_key: SecretStr | None = Field(None)
    ragflow_dataset_id: str = Field("", description="Comma-separated ids of the datasets to search")
    arxiv_base_url: str = Field("https://export.arxiv.org", description="One request per 3 s and worker")
    arxiv_focus_recent: bool = Field(False, description="Papers of the year before the case alone")
    searxng_url: str | None = Field(
        None,
        description="Address of your SearXNG, such as http://127.0.0.1:8888; json must be among search.formats of its "
        "settings.yml",
    )
    gdelt_base_url: str = Field("https://api.gdeltproject.org", description="Needs no key; titles of the last 3 months")
    gdelt_interval_seconds: float = Field(
        6.0, ge=5, description="Between two requests of a worker; GDELT takes one per 5 s and address, from all workers"
    )
    gdelt_timeout_seconds: float = Field(20.0, gt=0, description="For one search; GDELT often takes more than 10 s")

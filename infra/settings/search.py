"""Settings of the search providers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings


class SearchSettings(BaseSettings):
    """Search providers, their parameters and prices."""

    # Search
    tavily_api_key: SecretStr | None = Field(None, description="Tavily API key")
    tavily_base_url: str = Field("https://api.tavily.com", description="Address of the Tavily API")
    tavily_search_depth: Literal["basic", "advanced", "fast", "ultra-fast"] = Field(
        "basic",
        description="Search depth. Research roles (search_roles.json) always use advanced, which costs two credits",
    )
    search_max_results: int = Field(5, ge=1, le=20, description="Results per search")
    search_multi_source_threshold: int = Field(
        3,
        ge=1,
        description="Number of independent pages about a claim after which its search ends, and number of independent "
        "supporting sources that confirm it",
    )
    search_requests_per_message: int = Field(
        1,
        ge=0,
        le=10,
        description="Billed requests (Tavily, Bocha) per message. A hack, depeg, liquidation, regulation or listing gets "
        "one more if no official page was found and the other pages are too few or contradict each other. A "
        "request covers official pages and established outlets together: that gives 251 correct verdicts on 262 "
        "judged cases (official pages alone: 187; dated news alone: 160). 0: one per search round, up to 6. Does "
        "not apply to free providers",
    )
    search_roles: str = Field(
        "",
        description="Providers of a role, and roles of event types, instead of those in agents/tables/search_roles.json, "
        "such as verification=ragflow|bocha|tavily|arxiv,event:regulation=protocol_research. Roles: verification (every "
        "event type without another one), protocol_research, desk_notes, and your own. A free provider named here is "
        "called even if DEEP_ANALYSIS_SEARCH_PROVIDER is unset. Offline mode uses the bundled corpus",
    )
    search_include_domains: str = Field(
        "",
        description="Comma-separated domains to search. Empty: the whole web. A list excludes every other page, including "
        "most official pages. Providers with a separate news search still search the parties' own domains",
    )
    quality_floor: str = Field(
        "0.7,tavily=0.5,ragflow=0.6,feeds=0.6",
        description="Minimum score of a live provider's result, as a share (0–1) of the best score in the same response: "
        "a default, then exceptions as provider=share. For providers without scores, Newsproof scores the "
        "words and drops every result without a word of the query",
    )
    quality_min_width: str = Field(
        "50,gdelt=20,feeds=20",
        description="Minimum text width of a live provider's result, in columns (a Chinese character takes 2): a default, "
        "then exceptions as provider=columns. GDELT returns titles only, and so do some feeds",
    )
    quality_keep: int = Field(10, ge=1, le=50, description="Maximum references that a case keeps from all its results")
    quality_same_text: float = Field(
        0.55,
        ge=0.4,
        le=1,
        description="Share of adjacent words in common (0–1) from which two texts count as copies. Edited copies share "
        "more than 0.55, independent reports less than 0.35",
    )
    search_retries: int = Field(
        1, ge=0, le=2, description="Retries of a search that timed out, if the case has time left"
    )
    search_cache_ttl_seconds: float = Field(
        600.0,
        ge=0,
        description="Seconds for which an identical search is answered from the log without a paid request. 0: never",
    )
    search_cost_usd: float = Field(
        0.008, ge=0, description="USD per Tavily credit, at the pay-as-you-go rate. 0 for a free plan"
    )
    bocha_enabled: bool = Field(True, description="Call Bocha if it is listed and has a key")
    bocha_api_key: SecretStr | None = Field(None, description="Bocha API key")
    bocha_base_url: str = Field("https://api.bochaai.com", description="Address of the Bocha API")
    bocha_cost_usd: float = Field(
        0.005, ge=0, description="USD per Bocha search, at the pay-as-you-go rate. 0 for a free plan"
    )
    ragflow_endpoint: str | None = Field(
        None, description="Address of your RAGFlow server, such as http://ragflow:9380"
    )
    ragflow_api_key: SecretStr | None = Field(None, description="RAGFlow API key")
    ragflow_dataset_id: str = Field("", description="Comma-separated ids of the RAGFlow datasets to search")
    arxiv_base_url: str = Field(
        "https://export.arxiv.org", description="Address of the Arxiv API. Each worker sends one request per 3 s"
    )
    arxiv_focus_recent: bool = Field(False, description="Search only papers from the year before the case")
    searxng_url: str | None = Field(
        None,
        description="Address of your SearXNG server, such as http://127.0.0.1:8888. Its settings.yml must list json under "
        "search.formats",
    )
    gdelt_base_url: str = Field(
        "https://api.gdeltproject.org",
        description="Address of the GDELT API. No key needed; returns titles of the last 3 months",
    )
    gdelt_interval_seconds: float = Field(
        6.0,
        ge=5,
        description="Seconds between two requests of a worker. GDELT allows one request per 5 s and IP address, all "
        "workers together",
    )
    gdelt_timeout_seconds: float = Field(
        20.0, gt=0, description="Timeout of one search, in seconds. GDELT often takes more than 10 s"
    )

"""Settings of the gate, of the tools that a plan may use and of retractions; most are pinned per case."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings

FULL_PIPELINE: dict[str, object] = {"phase1_rollout_percentage": 1.0, "deep_analysis_tools_enabled": True}
"""Settings that ``up`` and ``demo`` set, and print: every case that passes the gate takes the deep path."""


class VerificationSettings(BaseSettings):
    """Settings that decide how a case is verified."""

    # Gate and tools
    full_pipeline: bool = Field(
        False,
        description="Use the defaults of `up` in every process: each case that qualifies takes the deep path "
        "(DEEP_ANALYSIS_TOOLS_ENABLED=true, PHASE1_ROLLOUT_PERCENTAGE=1), and live mode opens pages "
        "(TOOL_SCRAPE_ENABLED=true). What you set yourself takes precedence. docker-compose.yml sets it",
    )
    high_value_confidence_threshold: float = Field(
        0.75, ge=0.0, le=1.0, description="Triage confidence from which a case qualifies for the deep path, 0–1"
    )
    gate_doubtful: bool = Field(
        True,
        description="Send a claim of medium or high strength through the deep path, too, if it calls for buy or sell, is "
        "rumoured or planned, or has an unnamed source",
    )
    trusted_sources: str = Field(
        "",
        description="Comma-separated source ids of your own publishers, such as desk,alerts. Their hacks, depegs and "
        "liquidations always take the deep path, and each has its own share of the budget, as listed sources "
        "do. Name only ids that nobody else can publish under: the topic `news` does not check senders",
    )
    phase1_rollout_percentage: float = Field(
        0.05, description="Share of gated cases that take the deep path, 0–1", ge=0.0, le=1.0
    )
    deep_analysis_tools_enabled: bool = Field(
        False, description="Allow the deep path. false: cases that qualify for it take the single-pass analysis"
    )
    tool_search_enabled: bool = Field(True, description="Allow web search")
    search_away_single_pass: bool = Field(
        False,
        description="Let the single pass judge a case when no search provider responds or none is configured; it uses "
        "memory and retries the search once. No critic reads its pages, so the verdict is at most likely, and "
        "it costs two more model calls. false: the signal says that the claim was not checked",
    )
    tool_scrape_enabled: bool = Field(False, description="Allow opening the pages that a search returned")
    tool_expand_enabled: bool = Field(
        True, description="Allow a further search round with new keywords when the evidence leaves questions open"
    )
    tool_price_enabled: bool = Field(False, description="Allow price checks")
    tool_macro_enabled: bool = Field(False, description="Allow checks of macroeconomic data")
    tool_onchain_enabled: bool = Field(False, description="Allow on-chain checks")
    tool_memory_enabled: bool = Field(
        True,
        description="Allow repeated memory lookups: with other words (memory_search), or a subject's past "
        "(timeline_query)",
    )
    tool_platform_search_enabled: bool = Field(
        False,
        description="Allow searches of WeChat, Zhihu, Xiaohongshu, Douyin, X, Reddit and Telegram. Each counts as a "
        "search",
    )
    tool_competitor_enabled: bool = Field(
        False, description="Allow one lookup of the subject's competitors per case. It counts as a search"
    )
    memory_min_confidence: float = Field(
        0.0, ge=0.0, le=1.0, description="Minimum final confidence of the past cases that memory returns, 0–1"
    )
    publish_preliminary: bool = Field(
        False, description="Publish the triage judgement at once as its own revision, for subscribers who request it"
    )
    retraction_window_days: int = Field(
        14, ge=1, le=30, description="Days that a denial or correction looks back for the signals that it concerns"
    )
    story_window_hours: float = Field(
        48.0,
        ge=0,
        le=168,
        description="Hours after the first report within which news of the same event is one story, with one deep "
        "analysis and one signal. 0: every item is its own story",
    )
    second_looks_after_seconds: str = Field(
        "720,7200",
        pattern=r"^(\d+( ?, ?\d+){0,3})?$",
        description="Comma-separated delays in seconds after the first decision, at most four. An unconfirmed high-impact "
        "case is searched again after each of them. 0: never",
    )
    claims_per_message: int = Field(
        5,
        ge=1,
        le=12,
        description="Maximum claims of one message, such as a listing of several coins. Each is a case with its own signal; "
        "they share one triage. 1: every message makes one claim",
    )
    deep_analysis_max_tool_calls: int = Field(3, ge=0, le=10, description="Rounds of planning and searching per case")
    deep_analysis_tool_timeout: float = Field(10.0, gt=0, description="Timeout of one search or page, in seconds")
    hot_settings_file: Path | None = Field(
        None,
        description="File of search settings and toggles, as NAME=value lines, that running workers reload. It overrides "
        "all other sources. Unset: hot.env in the data directory",
    )
    deep_analysis_search_provider: str = Field(
        "",
        description="Comma-separated search providers: ragflow, bocha, tavily, searxng, feeds, gdelt, arxiv. A provider "
        "without its key or address is skipped. Unset: ragflow, bocha, tavily and searxng as far as they are "
        "configured, and feeds with LISTEN. If none of the four is configured: gdelt, which also turns "
        "TOOL_SCRAPE_ENABLED on unless you set it. Offline mode uses the bundled corpus",
    )

    @property
    def trusted_ids(self) -> tuple[str, ...]:
        """The ids of ``trusted_sources``, each once."""
        return tuple(dict.fromkeys(name.strip() for name in self.trusted_sources.split(",") if name.strip()))

    @property
    def second_looks_s(self) -> tuple[float, ...]:
        """When an unconfirmed case is looked at again: seconds after its first decision, ascending; none where they are off."""
        written = (float(part) for part in self.second_looks_after_seconds.split(",") if part.strip())
        return tuple(sorted({after for after in written if after > 0}))

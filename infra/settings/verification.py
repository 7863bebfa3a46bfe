"""Settings of the gate, of the tools that a plan may use and of retractions; most are pinned per case."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings


class VerificationSettings(BaseSettings):
    """Settings that decide how a case is verified."""

    # The gate and its toggles
    high_value_confidence_threshold: float = Field(0.75, ge=0.0, le=1.0)
    gate_doubtful: bool = Field(
        True,
        description="Claims that would matter if true also take the deep path where they call for an order, are rumoured "
        "or planned, or have an unnamed source",
    )
    trusted_sources: str = Field(
        "",
        description="Comma-separated source ids of your own publishers, such as desk,alerts: their hacks, depegs and "
        "liquidations always take the deep path, and each has a share of the budget to itself, as what the listener brings "
        "in has. Only names that nobody else can publish under: `news` checks no sender",
    )
    phase1_rollout_percentage: float = Field(
        0.05, description="Share of gated cases that take the deep path, 0–1", ge=0.0, le=1.0
    )
    deep_analysis_tools_enabled: bool = Field(False)
    tool_search_enabled: bool = Field(True)
    search_away_single_pass: bool = Field(
        False,
        description="Where no search provider answers or none is configured, the single pass judges: memory, and one more try "
        "at a search. Against it: no critic reads the pages that it finds, so its verdict is at most likely, where a later "
        "case could be confirmed or refuted; and it costs two more model calls. Off: the signal says that it was not checked",
    )
    tool_scrape_enabled: bool = Field(False)
    tool_expand_enabled: bool = Field(True)
    tool_price_enabled: bool = Field(False)
    tool_macro_enabled: bool = Field(False)
    tool_onchain_enabled: bool = Field(False)
    tool_memory_enabled: bool = Field(
        True,
        description="A plan may ask memory again: other words (memory_search), or a subject's past (timeline_query)",
    )
    tool_platform_search_enabled: bool = Field(
        False,
        description="A plan may search WeChat, Zhihu, Xiaohongshu, Douyin, X, Reddit and Telegram; each is a search",
    )
    tool_competitor_enabled: bool = Field(
        False, description="A plan may look up the peers of whom a claim is about; a search, once a case"
    )
    memory_min_confidence: float = Field(
        0.0, ge=0.0, le=1.0, description="Past cases that ended below this confidence are left out of memory's answers"
    )
    publish_preliminary: bool = Field(
        False,
        description="Publish the first judgement at once, as a revision of its own, for subscribers who ask for it",
    )
    retraction_window_days: int = Field(
        14, ge=1, le=30, description="A denial or correction looks back this far for the signals that it concerns"
    )
    story_window_hours: float = Field(
        48.0,
        ge=0,
        le=168,
        description="News of one event within so many hours of the first is one story: one deep analysis and one signal; "
        "0: every item is a story of its own",
    )
    second_looks_after_seconds: str = Field(
        "720,7200",
        pattern=r"^(\d+( ?, ?\d+){0,3})?$",
        description="An unconfirmed case of high impact is looked at again so many seconds after its first decision, at "
        "most four times; 0: never",
    )
    deep_analysis_max_tool_calls: int = Field(3, ge=0, le=10, description="Rounds of planning and searching")
    deep_analysis_tool_timeout: float = Field(10.0, gt=0, description="Seconds for one search or page")
    hot_settings_file: Path | None = Field(
        None,
        description="Search settings and toggles that running workers re-read, as NAME=value lines; they win over all "
        "others; unset: hot.env in the data directory",
    )
    deep_analysis_search_provider: str = Field(
        "",
        description="Comma-separated: ragflow, bocha, tavily, searxng, feeds, gdelt, arxiv; one without its key or address "
        "is left out. Unset: those of ragflow, bocha, tavily and searxng that have theirs; where none has, gdelt, with "
        "TOOL_SCRAPE_ENABLED on unless that is set; with LISTEN, feeds too (offline mode uses the bundled corpus)",
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

"""Budget settings."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings


class BudgetSettings(BaseSettings):
    """Limits on the cost of calls."""

    # The budget
    deep_analysis_monthly_budget: float = Field(
        30.0,
        ge=0,
        le=1_000_000,
        description="USD that all calls of a UTC month may cost; a day past 1/30 of it is logged",
    )
    deep_analysis_daily_max_percent: int = Field(
        10,
        ge=0,
        le=100,
        description="Most of the month's money, in percent, that a UTC day may cost, triage aside. 10 is three times an even "
        "day: room for a crash, and no day or bug uses up the month",
    )
    triage_reserve_usd: float = Field(
        3.0,
        ge=0,
        le=1_000_000,
        description="USD a month for triage alone, beyond the budget; then news waits in its topic. Not for unlisted sources",
    )
    deep_analysis_tool_daily_limit: int = Field(
        50,
        ge=0,
        le=1_000_000,
        description="Metered tool calls (searches) of a UTC day; then cases go on without searching",
    )
    search_doubtful_max_percent: int = Field(
        40,
        ge=0,
        le=100,
        description="Most of a day's metered tool calls, in percent, that go to rumoured or planned claims",
    )
    search_forced_reserve_percent: int = Field(
        20,
        ge=0,
        le=100,
        description="Percent of a day's metered tool calls that are kept for hacks, depegs and liquidations of listed sources",
    )
    source_group_max_percent: int = Field(
        50,
        ge=0,
        le=100,
        description="Most of a day's metered tool calls and money, in percent, for the news of one group of listed sources; "
        "half, so that one flooding source leaves as much to all others",
    )
    unlisted_sources_max_percent: int = Field(
        30,
        ge=0,
        le=100,
        description="The same for all sources together that are neither the listener's nor in TRUSTED_SOURCES, and of the "
        "month's money; as much again for their triage, which gets nothing of TRIAGE_RESERVE_USD. 100: no limit",
    )
    investigation_max_percent: int = Field(
        40,
        ge=0,
        le=100,
        description="Most of a day's metered tool calls, in percent, that go to investigations",
    )
    allow_unpriced: bool = Field(False, description="Grant calls whose price is unknown; they count as 0 in the budget")

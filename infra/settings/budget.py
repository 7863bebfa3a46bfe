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
    triage_reserve_usd: float = Field(
        3.0,
        ge=0,
        le=1_000_000,
        description="USD a month for triage alone, beyond the budget; then news waits in its topic",
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
        description="Percent of a day's metered tool calls that are kept for hacks, depegs and liquidations",
    )
    investigation_max_percent: int = Field(
        40,
        ge=0,
        le=100,
        description="Most of a day's metered tool calls, in percent, that go to investigations",
    )
    allow_unpriced: bool = Field(False, description="Grant calls whose price is unknown; they count as 0 in the budget")

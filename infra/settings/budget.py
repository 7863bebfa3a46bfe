"""Budget settings."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings


class BudgetSettings(BaseSettings):
    """Limits on the cost of calls."""

    # Budget
    deep_analysis_monthly_budget: float = Field(
        30.0,
        ge=0,
        le=1_000_000,
        description="Maximum cost of all calls per UTC month, in USD. A day above 1/30 of it is logged",
    )
    deep_analysis_daily_max_percent: int = Field(
        10,
        ge=0,
        le=100,
        description="Maximum share of the monthly budget for one UTC day, in percent, not counting triage. 10 is three "
        "times an even share: enough for a market crash, while no single day can use up the month",
    )
    triage_reserve_usd: float = Field(
        3.0,
        ge=0,
        le=1_000_000,
        description="USD per month reserved for triage, on top of the budget. Once it is used up, news waits in its "
        "topic. Not available to unlisted sources",
    )
    deep_analysis_tool_daily_limit: int = Field(
        50,
        ge=0,
        le=1_000_000,
        description="Maximum metered tool calls (searches) per UTC day. After that, cases continue without search",
    )
    search_doubtful_max_percent: int = Field(
        40,
        ge=0,
        le=100,
        description="Maximum share of a day's metered tool calls for rumoured or planned claims, in percent",
    )
    search_forced_reserve_percent: int = Field(
        20,
        ge=0,
        le=100,
        description="Share of a day's metered tool calls reserved for hacks, depegs and liquidations from listed sources, "
        "in percent",
    )
    source_group_max_percent: int = Field(
        50,
        ge=0,
        le=100,
        description="Maximum share of a day's metered tool calls and cost for one group of listed sources, in percent. At "
        "50, one flooding source leaves half to all others",
    )
    unlisted_sources_max_percent: int = Field(
        30,
        ge=0,
        le=100,
        description="Maximum share of a day's metered tool calls, and of a day's and a month's cost, for all unlisted "
        "sources together, in percent. Their triage has a separate share of the same size, but gets nothing of "
        "TRIAGE_RESERVE_USD. Unlisted means neither from the listener nor in TRUSTED_SOURCES. 100: no limit",
    )
    verification_max_percent: int = Field(
        10,
        ge=0,
        le=100,
        description="Maximum share of a day's metered tool calls and cost for all verifications (`newsproof verify`, "
        "`POST /api/verify`, agents) together, in percent. Their triage has a separate share of the same size, but gets nothing of "
        "TRIAGE_RESERVE_USD. 100: no limit",
    )
    investigation_max_percent: int = Field(
        40, ge=0, le=100, description="Maximum share of a day's metered tool calls for investigations, in percent"
    )
    allow_unpriced: bool = Field(False, description="Allow calls whose price is unknown. They count as 0 USD")

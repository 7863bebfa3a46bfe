"""Settings of how judgements are held against prices; an option of a command goes before its setting."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings

from schemas.prices import PROFIT_CAP


class EvaluationSettings(BaseSettings):
    """Settings that decide how outcomes are measured and compared."""

    # Outcomes and comparisons
    profit_cap: float = Field(
        PROFIT_CAP,
        ge=0.0001,
        le=10.0,
        description="Most that one case may gain or lose in a comparison of runs, as a share of the amount traded; "
        "leave it while a shadow run is watched",
    )
    outcome_horizons: str = Field(
        "5m,1h,4h,24h",
        description="How long after the entry an import of prices looks, beside each signal's own horizon: numbers with s, m, h or d",
    )

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
        description="Maximum gain or loss of one case in a comparison of runs, as a share of the traded amount. Do not "
        "change it during a shadow run",
    )
    calibration_max_false_share: float = Field(
        0.0,
        ge=0.0,
        lt=1.0,
        description="Maximum share of false claims (0–1) that the selling rule accepts. The daily calibration looks for the "
        "smallest raw confidence from which the share of false claims is at most this (upper bound of its 95 % interval). "
        "Signals below it lose their order. 0: no selling rule",
    )
    outcome_horizons: str = Field(
        "5m,1h,4h,24h",
        description="Times after the entry at which a price import measures returns, in addition to each signal's own "
        "horizon: comma-separated numbers with s, m, h or d",
    )

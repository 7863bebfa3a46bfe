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
        description="Selling rule of the daily calibration: remove the order of each signal whose raw confidence is below the "
        "smallest one from which at most this share of claims was false (upper bound of a 95 % interval). 0: off",
    )
    outcome_horizons: str = Field(
        "5m,1h,4h,24h",
        description="Times after the entry at which a price import measures returns, in addition to each signal's own "
        "horizon: comma-separated numbers with s, m, h or d",
    )
